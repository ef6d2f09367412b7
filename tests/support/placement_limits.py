# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power limits by a second, simple reading: which nodes are closed, and what domains draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from support.placement_rules import Json, Node, Pod

_RACKS = ("wattwise.github.io/rack", "topology.kubernetes.io/rack")
_TYPE = "node.kubernetes.io/instance-type"
_TOLERANCE_WATTS = 1e-5

Watts = Callable[[Node, Sequence[Pod]], float]


class PowerLimits:
    """The domains with their limit. ``watts`` is the power draw of an awake node by its curve."""

    def __init__(self, parameters: Json, nodes: Sequence[Node], watts: Watts) -> None:
        limits = parameters.get("limits") or {}
        self._watts = watts
        racks: dict[str, list[Node]] = {}
        for node in nodes:
            rack = next((node.labels[key] for key in _RACKS if key in node.labels), None)
            if rack is not None:
                racks.setdefault(rack, []).append(node)
        by_rack, by_type = limits.get("rack_watts", {}), limits.get("node_watts", {})
        found = [
            (f"rack {name}", its, by_rack.get(name, by_rack.get("*")))
            for name, its in racks.items()
        ]
        found += [
            (node.name, [node], by_type.get(node.labels.get(_TYPE, ""), by_type.get("*")))
            for node in nodes
        ]
        found.append(("the fleet", list(nodes), limits.get("fleet_watts")))
        self.domains = [(name, its, float(limit)) for name, its, limit in found if limit]

    def draw(self, nodes: Sequence[Node], pods_on: Mapping[str, Sequence[Pod]]) -> float:
        return sum(
            self._watts(node, pods_on.get(node.name, ()))
            for node in nodes
            if node.curve is not None and node.ready
        )

    def is_closed(self, node: Node) -> bool:
        """Whether the node takes no pod: it has no curve, or its domain is over its limit."""
        return any(
            node in nodes and (node.curve is None or self.draw(nodes, {}) > limit)
            for _name, nodes, limit in self.domains
        )

    def wrong(self, pods_on: Mapping[str, Sequence[Pod]]) -> list[str]:
        """Domains that pods take over their limit."""
        return [
            f"{name} draws {self.draw(nodes, pods_on)} of {limit} W"
            for name, nodes, limit in self.domains
            if any(pods_on.get(node.name) for node in nodes)
            and self.draw(nodes, pods_on) > limit + _TOLERANCE_WATTS
        ]
