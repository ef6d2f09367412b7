# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""References between Redfish resources, in the forms of real BMCs."""

from __future__ import annotations

import re
import typing as t

from ..base.fields.lenient import member, text

# Limits of a URI and of a name in the status of a NodeConfig.
MAX_URI_LENGTH = 2048
MAX_NAME_LENGTH = 256
_DIGITS_OR_NOT = re.compile(r"(\d+)", re.ASCII)


def link(value: t.Any) -> str:
    """The URI of a reference such as ``{"@odata.id": "/redfish/v1/Chassis/1"}``, or empty."""
    uri = value if isinstance(value, str) else member(value, "@odata.id")
    return text(uri, MAX_URI_LENGTH) if is_uri(uri) else ""


def is_uri(value: t.Any) -> bool:
    """Whether this may be the URI of a resource: printable, and within the length limit."""
    return isinstance(value, str) and len(value) <= MAX_URI_LENGTH and value.strip().isprintable()


def links(value: t.Any) -> list[str]:
    """The URIs of one reference or a list of them."""
    items = value if isinstance(value, list) else [value]
    return [uri for uri in map(link, items) if uri]


def identity(uri: str) -> str:
    """The canonical URI of a resource, without fragment and trailing slash."""
    return uri.partition("#")[0].rstrip("/")


def name_of(value: t.Any) -> str:
    """A name that a resource gives itself or its vendor."""
    return text(value, MAX_NAME_LENGTH)


def last_segment(uri: str) -> str:
    """The name at the end of a URI, with a fragment's end if it has one."""
    return uri.rstrip("/").rpartition("/")[2]


def natural_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts Inlet_2 before Inlet_10."""
    parts = [part for part in _DIGITS_OR_NOT.split(name) if part]
    return tuple(
        # A number of any length, so by length and digits.
        (0, len(part.lstrip("0")), part.lstrip("0"))
        if _DIGITS_OR_NOT.fullmatch(part)
        else (1, 0, part.lower())
        for part in parts
    )
