# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Checked access to what a user or a cluster gave: each mistake is a field and a problem.

Each function raises InvalidField; ``path`` is the field that its error names.
"""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import InvalidField, shown
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import (
    cpu_millicores,
    whole_units,
)

Object = t.Mapping[str, t.Any]

_LONGEST_NAME = 253
_NOT_IN_NAMES = frozenset(" /\\%?#")
_LARGEST_INT32 = 2**31 - 1


def mapping(value: t.Any, path: str) -> Object:
    """A mapping; nothing counts as an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidField(path, "it must be a mapping")
    return value


def sequence(value: t.Any, path: str) -> t.Sequence[t.Any]:
    """A list; nothing counts as an empty one."""
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise InvalidField(path, "it must be a list")
    return value


def mappings(value: t.Any, path: str) -> t.Sequence[Object]:
    """A list of mappings; nothing counts as an empty one."""
    items = sequence(value, path)
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise InvalidField(f"{path}[{index}]", "it must be a mapping")
    return items


def text(value: t.Any, path: str) -> str:
    """A text; nothing counts as an empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidField(path, f"{shown(value)} is no text; put it between quotation marks")
    return value


def required_text(value: t.Any, path: str) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise InvalidField(path, "it must be a text that is not empty")
    return value


def object_name(value: t.Any, path: str) -> str:
    """A name that an object of the API may have: it becomes part of URLs and of sentences."""
    name = required_text(value, path)
    is_usable = name.isascii() and name.isprintable() and _NOT_IN_NAMES.isdisjoint(name)
    if not is_usable or len(name) > _LONGEST_NAME or name in (".", ".."):
        raise InvalidField(path, f"{shown(name)} is no name of an object")
    return name


def texts(value: t.Any, path: str) -> list[str]:
    """A list of texts; nothing counts as an empty one."""
    items = sequence(value, path)
    for index, item in enumerate(items):
        if not isinstance(item, str):
            raise InvalidField(f"{path}[{index}]", f"{shown(item)} is no text")
    return list(items)


def text_mapping(value: t.Any, path: str) -> t.Mapping[str, str]:
    """A mapping of texts to texts, such as labels."""
    given = mapping(value, path)
    for key, item in given.items():
        if not isinstance(key, str) or not isinstance(item, str):
            raise InvalidField(
                f"{path}.{key}", f"{shown(item)} is no text; put it between quotation marks"
            )
    return given


def whole_number(
    value: t.Any, path: str, least: int = -_LARGEST_INT32 - 1, most: int = _LARGEST_INT32
) -> int:
    """A whole number; Kubernetes' own are those of 32 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidField(path, f"{shown(value)} is not a whole number from {least} to {most}")
    return value


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
    """Fleets repeat few amounts many times."""
    return _amount(resource, value, path)


def _amount(resource: str, value: t.Any, path: str) -> int:
    result = cpu_millicores(value, path) if resource == "cpu" else whole_units(value, path)
    if result < 0:
        raise InvalidField(path, f"{shown(value)} is negative; a resource is 0 or more")
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
