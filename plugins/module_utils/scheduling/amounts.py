# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Amounts of resources of pods and nodes, in integer units."""

from __future__ import annotations

import functools
import typing as t

from ..base.boundary import InvalidField, shown
from ..base.fields.strict import mapping
from ..base.units import cpu_millicores, whole_units


def quantities(given: t.Any, path: str) -> dict[str, int]:
    """Resources of a pod or a node: cpu in millicores, others in whole units, none negative."""
    return {name: amount(name, value, path) for name, value in mapping(given, path).items()}


def amount(resource: str, value: t.Any, path: str) -> int:
    """One quantity of a resource in its integer unit."""
    if isinstance(value, str):
        return _amount_of_text(resource, value, f"{path}.{resource}")
    return _amount(resource, value, f"{path}.{resource}")


@functools.lru_cache(maxsize=4096)
def _amount_of_text(resource: str, value: str, path: str) -> int:
    """Cached, because fleets repeat few amounts many times."""
    return _amount(resource, value, path)


def _amount(resource: str, value: t.Any, path: str) -> int:
    result = cpu_millicores(value, path) if resource == "cpu" else whole_units(value, path)
    if result < 0:
        raise InvalidField(path, f"{shown(value)} is negative; a resource is 0 or more")
    return result
