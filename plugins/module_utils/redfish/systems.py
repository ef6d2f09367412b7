# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The computer system of a server among all systems that its BMC lists."""

from __future__ import annotations

import typing as t

from ..base.errors import TargetFailure
from ..base.json_types import Object
from ..base.texts import shown_text
from .discovery import SYSTEMS, nothing_found
from .links import identity, last_segment, link, name_of, natural_order
from .tree import Tree

_MAX_SYSTEMS = 16
_MAX_SERVERS = 64
_MAX_NAMED = 4
_BASEBOARDS = ("HGX", "DPU", "BLUEFIELD")
# A URI as the BMC gave it, and the resource.
Member = tuple[str, Object]


async def find_systems(tree: Tree, wanted: str = "") -> tuple[Object, list[Member]]:
    """The service root, and the server's system before systems that may be parts of it.

    ``wanted`` is the path of the system, for BMCs of several servers. Raises TargetFailure.
    """
    root, systems = await _read_systems(tree, wanted, _MAX_SYSTEMS)
    return root, _chosen(systems, identity(wanted))


async def find_servers(tree: Tree) -> list[Member]:
    """All servers behind one service, such as that of an enclosure. Raises TargetFailure."""
    _root, systems = await _read_systems(tree, "", _MAX_SERVERS)
    return [item for item in systems if is_server(item)]


async def _read_systems(tree: Tree, wanted: str, most: int) -> tuple[Object, list[Member]]:
    root = await tree.root()
    uri = link(root.get("Systems")) or SYSTEMS
    uris = await tree.members(uri, required=True) or []
    uris = sorted(uris, key=lambda uri: identity(uri) != identity(wanted))[:most]
    bodies = [(uri, await tree.read(uri)) for uri in uris]
    systems = [(uri, body) for uri, body in bodies if body is not None]
    if not systems:
        raise nothing_found(tree, "computer system", "not_found")
    return root, sorted(systems, key=_whole_servers_first)


def _chosen(systems: list[Member], wanted: str) -> list[Member]:
    """The wanted system, with systems that may be parts of it because they are no servers.

    If none is wanted, the only server counts, or the first system where none is a server. Raises
    TargetFailure.
    """
    servers = [item for item in systems if is_server(item)]
    if wanted:
        own = [item for item in systems if identity(item[0]) == wanted]
    else:
        own = servers or systems[:1]
    if not own:
        raise TargetFailure(
            "not_found",
            f"the BMC has no computer system {shown_text(wanted, 200)}; correct its address",
        )
    if len(own) > 1:
        paths = ", ".join(shown_text(identity(uri), 200) for uri, _body in own[:_MAX_NAMED])
        raise TargetFailure(
            "malformed",
            f"the BMC has {len(own)} computer systems ({paths}), and its address names none of "
            "them; append the path of one to it",
        )
    return own + [item for item in systems if item not in own and item not in servers]


def is_server(item: Member) -> bool:
    """Whether this is a server, and no baseboard of accelerators or virtual system."""
    return not any(_whole_servers_first(item)[:2])


def _whole_servers_first(item: Member) -> tuple[bool, bool, t.Any]:
    """Sort key of systems, which may be baseboards of accelerators or virtual systems."""
    uri, body = item
    name = last_segment(identity(uri))
    is_physical = name_of(body.get("SystemType")).lower() in ("", "physical")
    return not is_physical, name.upper().startswith(_BASEBOARDS), natural_order(name)
