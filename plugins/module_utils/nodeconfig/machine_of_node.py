# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The BareMetalHost that is the machine of a Node.

Sources: provider IDs of Metal3 (``metal3://NAMESPACE/HOST/MACHINE``, formerly ``metal3://UID``) and
of OpenShift (``baremetalhost:///NAMESPACE/HOST/…``).
"""

from __future__ import annotations

import re
import typing as t

from ..base.fields.lenient import member, text

T = t.TypeVar("T")

_OF_HOST = re.compile(r"(?:metal3|baremetalhost):///?([^/]+)/([^/]+)(?:/.*)?")
_OF_UID = re.compile(r"metal3://([^/]+)")


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
