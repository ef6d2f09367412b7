# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A placement task in neutral terms: nodes, pods and rules, with nothing of where they came from.

Quantities are integers: ``cpu`` in millicores, every other resource in its whole unit (bytes,
pods, devices). CPU *use* is in microcores, because 80 % of 33m is not a whole millicore.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.power.curve import Curve
from ansible_collections.wattwise.kube.plugins.module_utils.power.peer_view import PeerNode, PeerPod

Quantities = t.Mapping[str, int]
Labels = t.Mapping[str, str]

MICROCORES_PER_CORE = 1_000_000
UNLIMITED = 1 << 60


@dataclass(frozen=True)
class Taint:
    """A mark on a node; ``effect`` is NoSchedule, NoExecute or PreferNoSchedule."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True)
class Toleration:
    """What lets a pod pass a taint; an empty ``key`` or ``effect`` stands for all."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True)
class Expression:
    """One demand on a label, or on a field where it stands in ``NodeTerm.fields``."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeTerm:
    """Demands on a node that must all be met; a term without any is met by no node."""

    labels: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Constraints:
    """Which nodes a pod may run on, resources aside.

    One of ``node_terms`` must be met; None demands nothing. ``repelled_by`` names nodes where
    a running pod does not want this one near.
    """

    node_name: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    repelled_by: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Shape:
    """All that matters of a pod for placing it; pods of equal shape are interchangeable.

    ``unsupported`` names fields that the placer does not understand: such a pod stays unplaced.
    """

    requests: tuple[tuple[str, int], ...]
    use_microcores: int
    priority: int = 0
    constraints: Constraints = Constraints()
    is_daemon: bool = False
    unsupported: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pod:
    """A pod to be placed; ``uid`` and ``resource_version`` are None where the input has none."""

    namespace: str
    name: str
    shape: Shape
    uid: str | None = None
    resource_version: str | None = None
    peer_view: PeerPod = field(default_factory=PeerPod)


@dataclass(frozen=True)
class Node:
    """A node before anything is placed.

    ``free`` may be negative; of a resource that it does not name there is none. Without a curve
    the node is *unpriced*: its watts are not known.
    """

    name: str
    free: Quantities
    use_microcores: int = 0
    curve: Curve | None = None
    labels: Labels = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    hosts_workload: bool = False
    peer_view: PeerNode = field(default_factory=PeerNode)


@dataclass(frozen=True)
class Rules:
    """What the user chose: power-off of idle nodes, and what unpriced nodes are good for."""

    allow_power_off: bool = False
    standby_watts: float = 0.0
    use_unpriced: bool = True


@dataclass(frozen=True)
class Instance:
    """Nodes by name; pods by descending priority, namespace and name. Names are unique."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    rules: Rules = Rules()
