# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Typed access to objects of others: each function returns a value of its type or raises.

All raise InvalidField, so that a finding names the field.
"""

from __future__ import annotations

import math
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import InvalidField, shown
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import (
    format_time,
    parse_time,
)

Object = dict[str, t.Any]

_LONGEST_NAME = 253
# Sums with other times must be valid times; Python's calendar ends with the year 9999.
_FIRST_YEAR, _LAST_YEAR = 1970, 2999


def mapping(value: t.Any, field: str) -> Object:
    """A mapping; an empty one for None."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidField(field, f"{shown(value)} is not a mapping")
    return value


def mappings(value: t.Any, field: str) -> list[Object]:
    """A list of mappings; an empty one for None."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidField(field, f"{shown(value)} is not a list")
    return [mapping(item, f"{field}[{index}]") for index, item in enumerate(value)]


def text(value: t.Any, field: str) -> str:
    """A text that UTF-8 can encode; an empty one for None."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidField(field, f"{shown(value)} is not a text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidField(field, f"{shown(value)} is not a text in UTF-8") from None
    return value


def texts(value: t.Any, field: str) -> dict[str, str]:
    """A mapping of texts, such as labels and annotations."""
    return {
        text(key, field): text(item, f"{field}[{shown(key)}]")
        for key, item in mapping(value, field).items()
    }


def name(value: t.Any, field: str) -> str:
    """Name of an object: printable and no longer than Kubernetes allows."""
    given = text(value, field)
    if not given or len(given) > _LONGEST_NAME or not given.isprintable():
        raise InvalidField(field, f"{shown(value)} cannot be the name of an object")
    return given


def time(value: t.Any, field: str) -> str:
    """A time in the form of Kubernetes; empty for None."""
    if value is None:
        return ""
    moment = parse_time(value, field)
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise InvalidField(
            field, f"{shown(value)} is not a time from {_FIRST_YEAR} to {_LAST_YEAR}"
        )
    return format_time(moment)


def number(value: t.Any, field: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidField(field, f"{shown(value)} is not a number")
    try:
        if math.isfinite(value):
            return value
    except OverflowError:
        pass
    raise InvalidField(field, f"{shown(value)} is not a finite number")


def with_readable_metadata(obj: t.Any) -> Object:
    """The object, with checked types of name, namespace, labels, annotations and owners."""
    if not isinstance(obj, dict):
        raise InvalidField("", f"{shown(obj)} is no object")
    metadata = mapping(obj.get("metadata"), "metadata")
    name(metadata.get("name"), "metadata.name")
    if metadata.get("namespace") is not None:
        name(metadata["namespace"], "metadata.namespace")
    for part in ("labels", "annotations"):
        texts(metadata.get(part), f"metadata.{part}")
    for part in ("uid", "creationTimestamp", "deletionTimestamp"):
        text(metadata.get(part), f"metadata.{part}")
    for index, owner in enumerate(
        mappings(metadata.get("ownerReferences"), "metadata.ownerReferences")
    ):
        for part in ("kind", "name", "uid"):
            text(owner.get(part), f"metadata.ownerReferences[{index}].{part}")
    return obj
