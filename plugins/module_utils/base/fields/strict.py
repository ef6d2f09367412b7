# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Strict access to untrusted objects: each function returns a value of its type or raises.

All raise InvalidField, so that a finding names the field; ``path`` is its name.
"""

from __future__ import annotations

import math
import re
import typing as t

from ..boundary import InvalidField, shown
from ..json_types import MutableObject
from ..units import format_time, parse_time

_MAX_NAME_LENGTH = 253
_SUBDOMAIN_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_NOT_IN_NAMES = frozenset(" /\\%?#")
_MAX_INT32 = 2**31 - 1
# Sums with other times must be valid times; Python's calendar ends with the year 9999.
_FIRST_YEAR, _LAST_YEAR = 1970, 2999


def mapping(value: t.Any, path: str) -> MutableObject:
    """A mapping; an empty one for None."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidField(path, f"{shown(value)} is not a mapping")
    return value


def required_mapping(value: t.Any, path: str) -> MutableObject:
    """A mapping that is there; it may be empty."""
    if value is None:
        raise InvalidField(path, "it must be a mapping")
    return mapping(value, path)


def sequence(value: t.Any, path: str) -> t.Sequence[t.Any]:
    """A list; an empty one for None."""
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise InvalidField(path, f"{shown(value)} is not a list")
    return value


def mappings(value: t.Any, path: str) -> t.Sequence[MutableObject]:
    """A list of mappings; an empty one for None."""
    items = sequence(value, path)
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise InvalidField(f"{path}[{index}]", f"{shown(item)} is not a mapping")
    return items


def text(value: t.Any, path: str) -> str:
    """A text that UTF-8 can encode; an empty one for None."""
    return "" if value is None else _given_text(value, path)


def required_text(value: t.Any, path: str) -> str:
    """A text that is not empty."""
    if value is None or value == "":
        raise InvalidField(path, "it must be a text that is not empty")
    return _given_text(value, path)


def _given_text(value: t.Any, path: str) -> str:
    if not isinstance(value, str):
        raise InvalidField(path, f"{shown(value)} is not a text; put it between quotation marks")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidField(path, f"{shown(value)} is not a text in UTF-8") from None
    return value


def texts(value: t.Any, path: str) -> list[str]:
    """A list of texts; an empty one for None."""
    items = sequence(value, path)
    return [_given_text(item, f"{path}[{index}]") for index, item in enumerate(items)]


def text_mapping(value: t.Any, path: str) -> dict[str, str]:
    """A mapping of texts, such as labels and annotations; an empty one for None."""
    given = mapping(value, path)
    for key, item in given.items():
        _given_text(key, path)
        if not isinstance(item, str) or not item.isascii():
            _given_text(item, f"{path}[{shown(key)}]")
    return given


def is_subdomain(name: t.Any) -> bool:
    """Whether this is a valid name of a Node, Secret or NodeConfig (RFC 1123, 253 characters)."""
    return (
        isinstance(name, str)
        and len(name) <= _MAX_NAME_LENGTH
        and all(_SUBDOMAIN_LABEL.fullmatch(label) for label in name.split("."))
    )


def object_name(value: t.Any, path: str) -> str:
    """A valid name of an API object, which becomes part of URLs and sentences."""
    given = required_text(value, path)
    is_usable = given.isascii() and given.isprintable() and _NOT_IN_NAMES.isdisjoint(given)
    if not is_usable or len(given) > _MAX_NAME_LENGTH or given in (".", ".."):
        raise InvalidField(path, f"{shown(given)} cannot be the name of an object")
    return given


def time(value: t.Any, path: str) -> str:
    """A time in Kubernetes' form; empty if there is none."""
    if value is None:
        return ""
    moment = parse_time(value, path)
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise InvalidField(path, f"{shown(value)} is not a time from {_FIRST_YEAR} to {_LAST_YEAR}")
    return format_time(moment)


def number(value: t.Any, path: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidField(path, f"{shown(value)} is not a number")
    try:
        if math.isfinite(value):
            return value
    except OverflowError:
        pass
    raise InvalidField(path, f"{shown(value)} is not a finite number")


def whole_number(
    value: t.Any, path: str, least: int = -_MAX_INT32 - 1, most: int = _MAX_INT32
) -> int:
    """An integer; Kubernetes' own have 32 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidField(path, f"{shown(value)} is not a whole number from {least} to {most}")
    return value


def truth(value: t.Any, path: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise InvalidField(path, f"{shown(value)} is not true or false")
    return value


def with_readable_metadata(obj: t.Any) -> MutableObject:
    """The object, with checked types of name, namespace, labels, annotations and owners."""
    if not isinstance(obj, dict):
        raise InvalidField("", f"{shown(obj)} is no object")
    metadata = mapping(obj.get("metadata"), "metadata")
    object_name(metadata.get("name"), "metadata.name")
    if metadata.get("namespace") is not None:
        object_name(metadata["namespace"], "metadata.namespace")
    for part in ("labels", "annotations"):
        text_mapping(metadata.get(part), f"metadata.{part}")
    for part in ("uid", "creationTimestamp", "deletionTimestamp"):
        text(metadata.get(part), f"metadata.{part}")
    for index, owner in enumerate(
        mappings(metadata.get("ownerReferences"), "metadata.ownerReferences")
    ):
        for part in ("kind", "name", "uid"):
            text(owner.get(part), f"metadata.ownerReferences[{index}].{part}")
    return obj
