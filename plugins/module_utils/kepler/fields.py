# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Checked values of options that a KeplerSystem and KeplerAddons share.

All raise InvalidField, which names the option.
"""

from __future__ import annotations

import re
import typing as t

from ..base.boundary import InvalidField, shown
from ..base.errors import TargetFailure
from ..base.fields.strict import is_subdomain, mapping, mappings, text_mapping, texts
from ..base.json_types import Object
from ..base.units import parse_duration, parse_quantity
from ..fleet.urls import parse_endpoint

_MAX_NAME_LENGTH = 40
_MAX_DURATION_SECONDS = 86_400.0
# Nanoseconds of Go's units.
_UNITS = {"h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
# A host with a dot, a port or both, before the first slash, as in the `rmd` role.
_REPOSITORY = re.compile(
    r"(localhost|[0-9A-Za-z.-]+\.[0-9A-Za-z-]+|[0-9A-Za-z.-]+(?=:[0-9])|\[[0-9A-Fa-f:]+\])"
    r"(:[0-9]+)?/[0-9a-z._/-]+"
)
_TAG = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}|sha256:[0-9a-f]{64}")
_LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_MAX_LABEL_KEY_LENGTH, _MAX_LABEL_VALUE_LENGTH = 317, 63
_TOLERATION = {"key", "operator", "value", "effect", "tolerationSeconds"}
_AMOUNTS = ("cpu", "memory", "ephemeral-storage")
_SHARED_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def check_place(namespace: str, name: str) -> None:
    """Refuse a name that is invalid as a prefix of objects' names, and a reserved namespace."""
    dns_label(name, "name", _MAX_NAME_LENGTH)
    if namespace in _SHARED_NAMESPACES:
        problem = (
            f"pods with permissions on hosts must not run in {namespace}; give them a namespace of "
            "their own"
        )
        raise InvalidField("namespace", problem)


def dns_label(given: t.Any, where: str, longest: int) -> str:
    """A DNS label, which becomes a part of names."""
    if not isinstance(given, str) or not _LABEL.fullmatch(given) or len(given) > longest:
        problem = f"{shown(given)} is not a DNS label of at most {longest} characters"
        raise InvalidField(where, problem)
    return given


def image(repository: t.Any, tag: t.Any, where: str) -> str:
    """An image whose repository names its registry."""
    if not isinstance(repository, str) or not _REPOSITORY.fullmatch(repository):
        raise InvalidField(
            f"{where}.repository",
            f"{shown(repository)} does not name a registry, so each node would take the image from "
            "wherever its runtime looks first; write it like registry.example/kepler",
        )
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        raise InvalidField(f"{where}.tag", f"{shown(tag)} is neither a tag nor a sha256 digest")
    return f"{repository}{'@' if tag.startswith('sha256:') else ':'}{tag}"


def whole_image(given: t.Any, where: str) -> str:
    """An image as one text, with registry and tag."""
    text = given if isinstance(given, str) else ""
    repository, _colon, tag = text.rpartition("@" if "@" in text else ":")
    if not (_REPOSITORY.fullmatch(repository) and _TAG.fullmatch(tag)):
        problem = f"{shown(given)} does not name registry and tag, as registry.example/model:0.7"
        raise InvalidField(where, problem)
    return text


def url(given: t.Any, where: str) -> str:
    """A URL of http or https with a host and without a password; empty if there is none."""
    found = given or ""
    if not found:
        return ""
    if not (isinstance(found, str) and re.fullmatch(r"https?://[!-~]{1,1000}", found)):
        raise InvalidField(where, f"{shown(found)} is not a URL of http or https")
    try:
        parse_endpoint(found)
    except TargetFailure as error:
        raise InvalidField(where, str(error)) from error
    return found


def duration(value: t.Any, place: str = "", least: float = 0.0) -> str:
    """A duration of at most a day as Go reads it, in one unit and without blanks."""
    seconds = parse_duration(value, place)
    if not least <= seconds <= _MAX_DURATION_SECONDS:
        raise InvalidField(place, f"{shown(value)} is not from {least:g} s to 24 h")
    nanoseconds = round(seconds * 1e9)
    unit = next(unit for unit, length in _UNITS.items() if nanoseconds % length == 0)
    return f"{nanoseconds // _UNITS[unit]}{unit}"


def resources(given: t.Any, where: str) -> Object:
    """Requests and limits of a container."""
    found = mapping(given, where)
    for part, amounts in found.items():
        if part not in ("requests", "limits"):
            raise InvalidField(f"{where}.{shown(part)}", "give requests or limits")
        for name, amount in mapping(amounts, f"{where}.{part}").items():
            if name not in _AMOUNTS:
                problem = f"give {', '.join(_AMOUNTS[:-1])} or {_AMOUNTS[-1]}"
                raise InvalidField(f"{where}.{part}.{shown(name)}", problem)
            parse_quantity(amount, f"{where}.{part}.{name}")
    return found


def tolerations(given: t.Any, where: str) -> tuple[Object, ...]:
    """Tolerations of a pod."""
    found = mappings(given, where)
    for index, item in enumerate(found):
        unknown = sorted(map(str, item.keys() - _TOLERATION))
        if unknown:
            problem = "a toleration has no such field"
            raise InvalidField(f"{where}[{index}].{shown(unknown[0])}", problem)
    return tuple(found)


def labels(given: t.Any, where: str) -> dict[str, str]:
    """Labels with keys and values that the API accepts."""
    found = text_mapping(given, where)
    for key, value in found.items():
        is_key = len(key) <= _MAX_LABEL_KEY_LENGTH and _LABEL_KEY.fullmatch(key)
        if not is_key or len(value) > _MAX_LABEL_VALUE_LENGTH or not _LABEL_VALUE.fullmatch(value):
            raise InvalidField(where, f"{shown(key)}: {shown(value)} is not a label")
    return found


def names(given: t.Any, where: str) -> list[str]:
    """Names of objects."""
    return [name(item, f"{where}[{n}]") for n, item in enumerate(texts(given, where))]


def name(given: t.Any, where: str) -> str:
    """The name of an object."""
    if not isinstance(given, str) or not is_subdomain(given):
        raise InvalidField(where, f"{shown(given)} cannot be the name of an object")
    return given
