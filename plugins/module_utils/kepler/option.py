# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Options of a KeplerSystem and of KeplerAddons, and checked choices of all of them.

The fields of the CRDs are these options in camelCase; scripts/options has the rest of them.
"""

from __future__ import annotations

import typing as t

from ..base.argspec import ArgumentSpec, Options
from ..base.boundary import InvalidField, shown
from ..base.fields import strict
from ..base.json_types import Object

Option = Object


def text(default: str = "") -> Option:
    return {"type": "str", "default": default}


def secret(default: str = "") -> Option:
    """The name of a Secret."""
    return {"type": "str", "no_log": False, "default": default}


def choice(*choices: str) -> Option:
    """A choice; the first one is the default."""
    return {"type": "str", "default": choices[0], "choices": list(choices)}


def flag(default: bool = False) -> Option:
    return {"type": "bool", "default": default}


def texts(*default: str) -> Option:
    return {"type": "list", "elements": "str", "default": list(default)}


def mapping(default: Object) -> Option:
    return {"type": "dict", "default": default}


def part(**options: Option) -> Option:
    return {"type": "dict", "default": {}, "options": options}


def completed(spec: ArgumentSpec, given: Object) -> dict[str, t.Any]:
    """All options with their defaults, and with valid choices. Raises InvalidInput."""
    found = spec.complete(given)
    _check_choices(spec.options, found, "")
    return found


def _check_choices(options: Options, given: Object, where: str) -> None:
    for name, option in options.items():
        value, place = given[name], f"{where}{name}"
        inner, choices = option.get("options"), option.get("choices")
        if inner is not None and isinstance(value, list):
            for index, item in enumerate(value):
                _check_choices(inner, item, f"{place}[{index}].")
        elif inner is not None and value.get("enabled") is not False:
            # What is off cannot have errors.
            _check_choices(inner, value, f"{place}.")
        elif choices and value is not None:
            for each in strict.texts(value, place) if option["type"] == "list" else [value]:
                if each not in choices:
                    raise InvalidField(place, f"{shown(each)} is none of {', '.join(choices)}")
