# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Mappings and lists among the fields of device objects of either API."""

from __future__ import annotations

import typing as t

from ...base.json_types import Object
from .findings import ApiObject

# Claims of a pod, which are allocated together.
MAX_CLAIMS = 128
# Characters of the selectors of a claim.
_MAX_SELECTORS_LENGTH = 64 * 1024
_Sized = t.TypeVar("_Sized", bound=t.Sized)


def mapping_of(obj: ApiObject, value: t.Any, where: str) -> dict[str, t.Any]:
    """A mapping by names; empty if absent. Raises Defect."""
    return {} if value is None else _present_mapping(obj, value, where)


def items_of(obj: ApiObject, value: t.Any, where: str) -> t.Sequence[Object]:
    """A list of mappings; empty if absent. Raises Defect.

    A null item is a defect too, because readers of a checked list rely on its items as they are.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise obj.error(where, "must be a list of mappings")
    return [_present_mapping(obj, item, f"{where}[{index}]") for index, item in enumerate(value)]


def _present_mapping(obj: ApiObject, value: t.Any, where: str) -> dict[str, t.Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise obj.error(where, "must be a mapping of names")
    return value


def at_most(obj: ApiObject, items: _Sized, most: int, what: str, where: str) -> _Sized:
    """The items, of which others decide how many there are. Raises Defect for more than ``most``."""
    if len(items) > most:
        raise obj.error(where, f"unsupported: too many {what}, {len(items)}; at most {most}")
    return items


def check_selectors(obj: ApiObject, spec: Object, key: str) -> None:
    """Refuse expressions under ``key`` that are too long together. Raises Defect.

    The library takes milliseconds for each KiB that it reads.
    """
    found, waiting = 0, list[t.Any]([spec])
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            if isinstance(value.get(key), str):
                found += len(value[key])
    if found > _MAX_SELECTORS_LENGTH:
        raise obj.error(
            "spec",
            f"unsupported: too many selectors, {found} characters in all; at most "
            f"{_MAX_SELECTORS_LENGTH}",
        )
