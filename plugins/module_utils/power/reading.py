# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Checked access to what a user or a cluster gave: each mistake is one sentence with its place."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.units import (
    cpu_millicores,
    whole_units,
)

Object = t.Mapping[str, t.Any]


def mapping(value: t.Any, where: str) -> Object:
    """A mapping; nothing counts as an empty one. Raises InvalidInput."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be a mapping")
    return value


def mappings(value: t.Any, where: str) -> t.Sequence[Object]:
    """A list of mappings; nothing counts as an empty one. Raises InvalidInput."""
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(f"{where} must be a list")
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise InvalidInput(f"{where}[{index}] must be a mapping")
    return value


def required_text(value: t.Any, where: str) -> str:
    """A text that is not empty. Raises InvalidInput."""
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{where} must be a text that is not empty")
    return value


def quantities(given: t.Any, where: str) -> dict[str, int]:
    """Resources of a pod or a node: cpu in millicores, others in whole units.

    Raises InvalidInput for what is negative or no quantity.
    """
    return {name: amount(name, value, where) for name, value in mapping(given, where).items()}


def amount(resource: str, value: t.Any, where: str) -> int:
    """One quantity of a resource in its integer unit. Raises InvalidInput."""
    path = f"{where}.{resource}"
    result = cpu_millicores(value, path) if resource == "cpu" else whole_units(value, path)
    if result < 0:
        raise InvalidInput(f"{path}: {value!r} is negative; a resource is 0 or more")
    return result


def kubernetes_words(short: Object) -> dict[str, t.Any]:
    """A short form's snake_case keys in Kubernetes' camelCase, at every depth.

    Keys that users choose (labels, resource names) stay as they are.
    """
    return {
        _camel_case(key): value if _camel_case(key) in _FREE_KEYS else _in_kubernetes_words(value)
        for key, value in short.items()
    }


_FREE_KEYS = frozenset(
    {"annotations", "labels", "limits", "matchLabels", "nodeSelector", "overhead", "requests"}
)
# hostIP, hostIPC and hostPID.
_ACRONYMS = frozenset({"ip", "ipc", "pid"})


def _in_kubernetes_words(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return kubernetes_words(value)
    if isinstance(value, list):
        return [_in_kubernetes_words(item) for item in value]
    return value


def _camel_case(key: t.Any) -> str:
    first, *others = str(key).split("_")
    return first + "".join(
        part.upper() if part in _ACRONYMS else part[:1].upper() + part[1:] for part in others
    )
