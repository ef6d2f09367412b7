# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document of a fleet with limits, of which some racks are near or above theirs."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

Json = dict[str, t.Any]


def limits_document(racks: Sequence[str], nodes: Sequence[str], suffix: str = "") -> Json:
    """The first rack and the first node are above their limits, and the second inlet is reduced.

    The last rack lacks readings. The first node has a cap, a second one did not get it, and its
    pods left or stayed.
    """
    domains = [
        domain("fleet", "", 12000.0, 9100.0),
        *(
            domain("rack", name, 3000.0, 3120.4 - 200 * place, "within" if place else "above")
            for place, name in enumerate(racks)
        ),
        domain("node", nodes[0], 450.0, 471.0, "above", uncovered_watts=12.0, capped=1),
        *(
            inlet(name, 27.6 - place, 28.0, "reduced" if place == 1 else "within")
            for place, name in enumerate(racks)
        ),
    ]
    domains[len(racks)] = domain("rack", racks[-1], 3000.0, 1020.0, "unknown")
    return {
        "cap": "on",
        "evict": "on",
        "domains": domains,
        "changes": [
            {"name": nodes[0], "watts": 440.0, "done": True},
            {"name": nodes[1], "watts": 380.0, "done": False},
        ],
        "caps": [cap(nodes[0], 440.0, None), cap(nodes[2], 300.0, 500.0)],
        "evictions": [
            eviction(f"batch-1{suffix}", nodes[0], "rack", racks[0], "evicted"),
            eviction(
                f"batch-2{suffix}",
                nodes[1],
                "rack",
                racks[0],
                "refused",
                f"a budget says no{suffix}",
            ),
        ],
        "errors": [],
    }


def domain(
    kind: str, name: str, limit: float, watts: float, state: str = "within", **changed: t.Any
) -> Json:
    return {
        "kind": kind,
        "name": name,
        "limit_watts": limit,
        "watts": watts,
        "state": state,
        **{"uncovered_watts": 0.0, "capped": 0, "evicted": 0, **changed},
    }


def inlet(rack: str, celsius: float | None, limit: float, state: str = "within") -> Json:
    """An inlet limit; a reduced rack may draw 2,700 W."""
    watts = 2700.0 if state == "reduced" else None
    body = domain("inlet", rack, 0.0, 2650.0, state)
    return {**body, "limit_watts": watts, "limit_celsius": limit, "celsius": celsius}


def cap(name: str, watts: float, before: float | None) -> Json:
    return {
        "name": name,
        "watts": watts,
        "before_watts": before,
        "earlier_watts": [],
        "owner": "hall-1",
    }


def eviction(
    pod: str, node: str, kind: str, name: str, outcome: str, reason: str | None = None
) -> Json:
    return {
        "namespace": "shop",
        "pod": pod,
        "node": node,
        "priority": -10,
        "kind": kind,
        "name": name,
        "outcome": outcome,
        "reason": reason,
    }
