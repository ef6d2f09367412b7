# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""BareMetalHosts of Metal3: their BMC addresses, and the one that is the machine of a Node.

Sources: package bmc of Metal3's baremetal-operator, for addresses such as
``idrac-virtualmedia+https://10.0.0.9/…``; provider IDs of Metal3 (``metal3://NAMESPACE/HOST/MACHINE``,
formerly ``metal3://UID``) and of OpenShift (``baremetalhost:///NAMESPACE/HOST/…``).
"""

from __future__ import annotations

import re
import typing as t

from ..base.fields.lenient import member, text

T = t.TypeVar("T")

# Types that Metal3 reaches by Redfish; its others are IPMI (also an address without a type) and
# proprietary protocols.
_TYPE = re.compile(
    r"(?:redfish(?:-virtualmedia|-uefihttp)?|(?:idrac|ilo5)-(?:redfish|virtualmedia))"
    r"(?:\+(?P<scheme>https?))?"
)
_AUTHORITY = re.compile(r"[^/?#]*")
# Paths that name no system, so that it is the only one of the BMC.
_NO_SYSTEM = frozenset({"", "redfish", "redfish/v1", "redfish/v1/Systems"})
_OF_HOST = re.compile(r"(?:metal3|baremetalhost):///?([^/]+)/([^/]+)(?:/.*)?")
_OF_UID = re.compile(r"metal3://([^/]+)")


def redfish_endpoint(bmc_address: str | None) -> tuple[str, str] | None:
    """The URL of a BMC and the path of its computer system; None for an address without Redfish.

    The path is empty if the address names no system. User name and password are dropped, because
    Metal3 takes them from a Secret. The slashes after the type may be missing, as in ``redfish:h``.
    """
    kind, separator, rest = (bmc_address or "").strip().partition(":")
    match = _TYPE.fullmatch(kind.lower())
    rest = rest.removeprefix("//")
    authority = _AUTHORITY.match(rest)
    if not separator or match is None or authority is None:
        return None
    host = authority[0].rpartition("@")[2]
    if not host:
        return None
    path = re.split(r"[?#]", rest[authority.end() :], maxsplit=1)[0].rstrip("/")
    names_none = path.strip("/") in _NO_SYSTEM
    return f"{match['scheme'] or 'https'}://{host}", "" if names_none else path


class Machines(t.Generic[T]):
    """Values of BareMetalHosts, looked up by the provider ID of a Node, else by the Node's name."""

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, str], T] = {}
        self._by_uid: dict[str, T] = {}
        self._by_name: dict[str, list[T]] = {}

    def add(self, namespace: str, name: str, uid: str, value: T) -> None:
        self._by_place[namespace, name] = value
        if uid:
            self._by_uid[uid] = value
        self._by_name.setdefault(name, []).append(value)

    def of_node(self, node: t.Any) -> T | None:
        """The value of this node's machine; None if no BareMetalHost is this node's."""
        provider = text(member(node, "spec", "providerID"))
        if match := _OF_HOST.fullmatch(provider):
            return self._by_place.get((match[1], match[2]))
        if match := _OF_UID.fullmatch(provider):
            return self._by_uid.get(match[1])
        if provider:
            return None
        named = self._by_name.get(text(member(node, "metadata", "name")), [])
        return named[0] if len(named) == 1 else None
