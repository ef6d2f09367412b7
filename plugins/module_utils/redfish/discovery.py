# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Discovery of the chassis of the whole server, and of possible substitutes.

The server is the outermost chassis that holds the ComputerSystem. Enclosures, drive bays, boards
and accelerators are chassis too, often come first in the collection, and are warmer.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.errors import TargetFailure, TargetReason
from ..base.fields.lenient import count, member, text
from ..base.json_types import Object
from . import words
from .links import identity, last_segment, link, links, name_of, natural_order
from .tree import ROOT, Tree

CHASSIS = "/redfish/v1/Chassis"
SYSTEMS = "/redfish/v1/Systems"

_MAX_SYSTEMS = 16
_MAX_PROBED = 8
_MAX_SOCKETS = 64
_MAX_CORES = 65_536
_OUTER_TYPES = frozenset(
    {"blade", "rackmount", "rackserver", "shelf", "sled", "standalone", "tower"}
)
# Homes of several servers.
_HOME_TYPES = frozenset({"enclosure", "pod", "rack", "rackgroup", "row"})
_INNER_TYPES = frozenset({"card", "cartridge", "component", "module", "storageenclosure", "zone"})

# Usual chassis of reduced services without a Chassis collection: iDRAC, most others, AMI, OpenBMC,
# DMTF's mockups.
_USUAL_CHASSIS = ("System.Embedded.1", "1", "Self", "chassis", "1U")


@dataclass(frozen=True)
class Chassis:
    """One chassis; ``body`` is empty if only its URI is known."""

    uri: str
    body: Object

    @property
    def chassis_type(self) -> str:
        return text(self.body.get("ChassisType")).lower()

    @property
    def container(self) -> str:
        return next(map(identity, links(_link_member(self.body, "ContainedBy"))), "")

    @property
    def systems(self) -> frozenset[str]:
        """The URIs of the computer systems in the chassis."""
        return frozenset(map(identity, links(_link_member(self.body, "ComputerSystems"))))

    def link(self, name: str) -> str:
        """The URI of a subordinate resource; the usual one if the chassis is unreadable."""
        return link(self.body.get(name)) if self.body else f"{identity(self.uri)}/{name}"


@dataclass
class Survey:
    """The chassis of one BMC in three groups; later ones are read only if needed."""

    tree: Tree
    whole: list[Chassis]
    linked: list[Chassis]
    collection: str
    is_on: bool
    vendor: str | None
    system: dict[str, t.Any]

    async def inner(self) -> list[Chassis]:
        """Chassis that may substitute the whole server.

        Raises TargetFailure if any chassis is defective, because it could be the server's.
        """
        known = {identity(chassis.uri) for chassis in self.whole}
        found = await self._all()
        if self.tree.failures:
            raise self.tree.failures[0]
        return [item for item in found if item.body and identity(item.uri) not in known]

    async def unreadable(self) -> list[Chassis]:
        """Chassis that are listed (or usual) but absent themselves; parts of them may exist."""
        return [item for item in await self._all() if not item.body][:_MAX_PROBED]

    async def _all(self) -> list[Chassis]:
        found = await _read_all(self.tree, await _listed(self.tree, self.collection))
        listed = {identity(chassis.uri) for chassis in found}
        return found + [item for item in self.linked if identity(item.uri) not in listed]


async def survey(tree: Tree) -> Survey:
    """Find the chassis of the whole server. Raises TargetFailure for a defective BMC."""
    root = await tree.root()
    systems = await _systems(tree, link(root.get("Systems")) or SYSTEMS)
    collection = link(root.get("Chassis")) or CHASSIS
    linked = await _linked_chassis(tree, systems)
    whole = _outermost(linked)
    if not whole:
        listed = await _read_all(tree, await _listed(tree, collection))
        readable = [chassis for chassis in listed if chassis.body]
        holders = [chassis for chassis in readable if chassis.systems]
        whole = _outermost(holders) or _outermost(
            [chassis for chassis in readable if chassis.chassis_type in _OUTER_TYPES]
        )
    bodies = [*(chassis.body for chassis in whole), *systems]
    return Survey(
        tree,
        whole,
        linked,
        collection,
        is_on=any(text(body.get("PowerState")).lower() == "on" for body in bodies),
        vendor=_vendor(root, bodies),
        system=_identity(systems),
    )


async def _systems(tree: Tree, uri: str) -> list[Object]:
    members = await tree.members(uri) or []
    bodies = [await tree.read(item) for item in members[:_MAX_SYSTEMS]]
    return [body for body in bodies if body is not None]


async def _linked_chassis(tree: Tree, systems: t.Sequence[Object]) -> list[Chassis]:
    """The chassis that systems link to. Raises TargetFailure for a defective one."""
    uris = {identity(uri): uri for body in systems for uri in links(_link_member(body, "Chassis"))}
    bodies = [(uri, await tree.require(uri)) for uri in _possible_servers(list(uris.values()))]
    return [Chassis(uri, body) for uri, body in bodies if body]


async def _listed(tree: Tree, collection: str) -> list[str]:
    members = await tree.members(collection, required=True)
    if members is None:
        return [f"{identity(collection)}/{name}" for name in _USUAL_CHASSIS]
    return _possible_servers(members)


async def _read_all(tree: Tree, uris: t.Sequence[str]) -> list[Chassis]:
    return [Chassis(uri, await tree.read(uri) or {}) for uri in uris]


def _outermost(candidates: t.Sequence[Chassis]) -> list[Chassis]:
    """The outermost candidates whose type is neither that of a part nor of several servers."""
    candidates = [item for item in candidates if item.chassis_type not in _HOME_TYPES] or candidates
    uris = {identity(chassis.uri) for chassis in candidates}
    outer = [chassis for chassis in candidates if chassis.container not in uris]
    wholes = [chassis for chassis in outer if chassis.chassis_type not in _INNER_TYPES]
    return sorted(
        wholes or outer, key=lambda chassis: natural_order(last_segment(identity(chassis.uri)))
    )


def _possible_servers(uris: list[str]) -> list[str]:
    """The chassis without accelerators, drive bays and the like, unless there are no others."""
    return [uri for uri in uris if not words.is_elsewhere(last_segment(identity(uri)))] or uris


def _link_member(body: Object, name: str) -> t.Any:
    # Before 2016 it was written in lower case.
    return member(body, "Links", name) or member(body, "links", name)


def _identity(systems: t.Sequence[Object]) -> dict[str, t.Any]:
    """Manufacturer, model and processors of the server, as far as its systems report them."""
    told = [body for body in systems if name_of(member(body, "ProcessorSummary", "Model"))]
    body = next(iter([*told, *systems]), {})
    summary = member(body, "ProcessorSummary")
    found = {
        "manufacturer": name_of(body.get("Manufacturer")),
        "model": name_of(body.get("Model")),
        "processor": name_of(member(summary, "Model")),
        "sockets": count(member(summary, "Count"), _MAX_SOCKETS),
        "cores": count(member(summary, "CoreCount"), _MAX_CORES),
    }
    return {name: value for name, value in found.items() if value}


def _vendor(root: Object, bodies: t.Sequence[Object]) -> str | None:
    given = [(root, "Vendor"), *((body, "Manufacturer") for body in bodies)]
    names = [name_of(body.get(key)) for body, key in given]
    return next((name for name in names if name), None)


def nothing_found(tree: Tree, what: str, reason: TargetReason = "no_sensor") -> TargetFailure:
    """Why a walk found nothing: the defects on the way, else the absence."""
    if tree.failures:
        return tree.failures[0]
    if not tree.has_answered:
        return TargetFailure(
            "not_found",
            f"there is no Redfish service ({ROOT} and {CHASSIS} answer 404); check the endpoint",
        )
    return TargetFailure(reason, f"the BMC has no {what}")
