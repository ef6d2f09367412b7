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
class Instance:
    """Nodes by name; pods by descending priority, namespace and name. Names are unique.

    ``peers`` are the sets of pods in rules, as numbers of running pods on each node. ``previous``
    is the node of a pod in the last plan, by namespace and name. ``findings`` are the unreadable
    parts of pods. ``static_claims`` are claims that existing volumes can serve. ``nominated`` are
    nominated pods with a membership in ``peers``.
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
