# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Conversion of a resource's spec to module options, and of sentences to its fields."""

from __future__ import annotations

import re
import typing as t

from ...base.argspec import ArgumentSpec, Options
from ...base.boundary import InvalidField, shown
from ...base.fields.strict import mapping, mappings
from ...base.json_types import Object


def of_manifest(options: ArgumentSpec, spec: t.Any) -> dict[str, t.Any]:
    """The options in a resource's spec, in snake_case. Raises InvalidField."""
    return _renamed(options.options, mapping(spec, "spec"), "spec")


def taken_fields(spec: Object, options: str) -> dict[str, t.Any]:
    """Options by name, from a line of a table; fields without a default may be missing.

    The name of an option's field follows a colon if it is another one than in camel case.
    """
    pairs = (option.partition(":") for option in options.split())
    fields = {name: field or camel(name) for name, _colon, field in pairs}
    return {name: spec[field] for name, field in fields.items() if field in spec}


def camel(name: str) -> str:
    """The name of an option in the spec of a resource."""
    return re.sub("_([a-z])", lambda match: match.group(1).upper(), name)


def in_words_of_manifest(options: ArgumentSpec) -> t.Callable[[str], str]:
    """Converter of sentences about options to sentences about the fields of a resource."""
    compound = sorted({each for each in _names(options.options) if "_" in each})
    pattern = re.compile(rf"\b({'|'.join(compound)})\b")
    return lambda sentence: pattern.sub(lambda match: camel(match.group()), sentence)


def _names(options: Options) -> t.Iterator[str]:
    for name, option in options.items():
        yield name
        yield from _names(option.get("options") or {})


def _renamed(options: Options, given: t.Mapping[str, t.Any], where: str) -> dict[str, t.Any]:
    names = {camel(name): name for name in options}
    unknown = sorted(given.keys() - names.keys())
    if unknown:
        raise InvalidField(f"{where}.{shown(unknown[0])}", "there is no such field")
    return {
        names[key]: _value(options[names[key]], value, f"{where}.{key}")
        for key, value in given.items()
        if value is not None
    }


def _value(option: t.Mapping[str, t.Any], value: t.Any, where: str) -> t.Any:
    suboptions = option.get("options")
    if suboptions is None:
        return value
    if option["type"] == "list":
        found = mappings(value, where)
        return [_renamed(suboptions, item, f"{where}[{n}]") for n, item in enumerate(found)]
    return _renamed(suboptions, mapping(value, where), where)
