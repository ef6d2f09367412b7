# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Mappings and lists among the fields of device objects of either API."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.findings import Given

Json = t.Mapping[str, t.Any]


def mapping_of(given: Given, value: t.Any, where: str) -> dict[str, t.Any]:
    """A mapping by names; empty if absent. Raises Defect."""
    return {} if value is None else _present_mapping(given, value, where)


def items_of(given: Given, value: t.Any, where: str) -> t.Sequence[Json]:
    """A list of mappings; empty if absent. Raises Defect.

    A null item is a defect too, because readers of a checked list rely on its items as they are.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise given.error(where, "must be a list of mappings")
    return [_present_mapping(given, item, f"{where}[{index}]") for index, item in enumerate(value)]


def _present_mapping(given: Given, value: t.Any, where: str) -> dict[str, t.Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise given.error(where, "must be a mapping of names")
    return value
