# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A placement task: nodes, pods to place, their rules and device claims."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...base.boundary import Finding
from ...scheduling.model import Node, NominatedMember, Pod, StaticClaim
from .device_claims import ClaimBook


@dataclass(frozen=True)
class Rules:
    """Options of the user: power-off of idle nodes, use of unpriced nodes, and the cost in W of
    unmet preferences of weight 100."""

    allow_power_off: bool = False
    standby_watts: float = 0.0
    use_unpriced: bool = True
    preference_watts: float = 0.0


@dataclass(frozen=True)
class PowerDomain:
    """Nodes that may together draw at most ``limit_watts``: one node, a rack or the fleet.

    ``beside_watts`` is the present power draw of the nodes beyond their curves: of machines that
    draw more than their curve says, and of those that take no pods.
    """

    kind: t.Literal["node", "rack", "fleet"]
    name: str
    nodes: tuple[str, ...]
    limit_watts: float
    beside_watts: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else f"the {self.kind}"


@dataclass(frozen=True)
class Instance:
    """Nodes by name; pods by descending priority, namespace and name. Names are unique.

    ``peers`` are the sets of pods in rules, as numbers of running pods on each node. ``previous``
    is the node of a pod in the last plan, by namespace and name. ``findings`` are the unreadable
    parts of pods. ``static_claims`` are claims that existing volumes can serve. ``nominated`` are
    nominated pods with a membership in ``peers``. ``closed`` nodes take no pod, for the reason.
    """

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    rules: Rules = Rules()
    peers: tuple[t.Mapping[str, int], ...] = ()
    claims: ClaimBook | None = None
    previous: t.Mapping[tuple[str, str], str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    static_claims: tuple[StaticClaim, ...] = ()
    nominated: tuple[NominatedMember, ...] = ()
    domains: tuple[PowerDomain, ...] = ()
    closed: t.Mapping[str, str] = field(default_factory=dict)
