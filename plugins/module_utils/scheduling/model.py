# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Nodes and pods in neutral terms, independent of their source.

Quantities are integers: ``cpu`` in millicores, every other resource in its whole unit (bytes,
pods, devices). CPU *use* is in microcores, because 80 % of 33m is not a whole millicore.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..base.label_selector import Requirement
from .curve import Curve
from .peer_view import PeerNode, PeerPod

Quantities = t.Mapping[str, int]
Labels = t.Mapping[str, str]

MICROCORES_PER_CORE = 1_000_000
# More than any machine has; sums of microcores over a fleet stay within 64 bits.
MAX_CORES = 1_000_000
UNLIMITED = 1 << 60
# Of a machine that sleeps, see sleep/cluster; its power is on again soon after it is needed.
ASLEEP_TAINT = "wattwise.github.io/asleep"


@dataclass(frozen=True)
class Taint:
    """A mark on a node; ``effect`` is NoSchedule, NoExecute or PreferNoSchedule."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True)
class Toleration:
    """A toleration of taints; an empty ``key`` or ``effect`` stands for all."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True)
class NodeTerm:
    """Requirements on a node, all of which must be met; no node meets an empty term."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def admits(self, name: str, labels: Labels) -> bool:
        """Whether a node with this name and these labels meets the term."""
        if not self.labels and not self.fields:
            return False
        fields = {"metadata.name": name}
        return all(each.matches(labels) for each in self.labels) and all(
            each.matches(fields) for each in self.fields
        )


class HostPort(t.NamedTuple):
    """A host port; the address 0.0.0.0 stands for all addresses of the node."""

    protocol: str
    port: int
    address: str


class CacheRun(t.NamedTuple):
    """Contiguous cache ways of a container: ``most``, or best-effort ones down to ``least``."""

    pool: str
    most: int
    least: int


@dataclass(frozen=True)
class CachePools:
    """Lengths of the free runs of a node's caches by pool, longest first; ``promised`` is the part
    for pods that are bound already. ``empty`` is the upper bound on an empty node.
    """

    free: tuple[tuple[str, tuple[int, ...]], ...]
    promised: tuple[CacheRun, ...] = ()
    empty: tuple[tuple[str, tuple[int, ...]], ...] = ()


class VolumeDemand(t.NamedTuple):
    """A node must meet one of ``terms`` for the volumes of a pod; no node meets an empty list."""

    reason: str
    terms: tuple[NodeTerm, ...] = ()


class Disk(t.NamedTuple):
    """A volume that a driver attaches once for all of its pods."""

    driver: str
    handle: str


class DiskUse(t.NamedTuple):
    """An inline disk of a pod, without a claim.

    Pods of one node share it only if none of them uses it ``alone``.
    """

    disk: str
    alone: bool


@dataclass(frozen=True)
class SharedVolumes:
    """Volumes of a pod that affect other pods.

    ``exclusive`` are claims for one pod of the cluster, ``together`` claims whose volume will be
    made for one node; other waiting pods name both as well. ``disks`` are attached once for all
    pods on a node; ``own_disks`` are the pod's own, by driver. ``static`` are indices of
    Instance.static_claims.
    """

    exclusive: tuple[str, ...] = ()
    together: tuple[str, ...] = ()
    disks: tuple[Disk, ...] = ()
    own_disks: tuple[tuple[str, int], ...] = ()
    static: tuple[int, ...] = ()


@dataclass(frozen=True)
class StaticClaim:
    """A claim for one of these volumes, each on nodes that meet one of its terms (None: all).

    On nodes that meet a term of ``made_on`` a volume can be provisioned instead (None: all).
    ``claim`` is the name of a claim of several pods.
    """

    volumes: tuple[tuple[str, tuple[NodeTerm, ...] | None], ...]
    made_on: tuple[NodeTerm, ...] | None = ()
    claim: str = ""


@dataclass(frozen=True)
class Attachable:
    """Number of further volumes of drivers that a node can attach, and its attached shared ones."""

    left: tuple[tuple[str, int], ...] = ()
    present: frozenset[Disk] = frozenset()


@dataclass(frozen=True)
class Constraints:
    """Constraints of a pod on nodes, apart from resources.

    One of ``node_terms`` must be met; None means no constraint. ``anti_affinity_nodes`` are nodes
    that the anti-affinity of a running pod closes to this one, ``device_nodes`` the nodes of the
    devices that its claims have already, if any. All of ``volumes`` must be met. ``disks`` are
    disks without a claim.
    """

    node_name: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    anti_affinity_nodes: frozenset[str] = frozenset()
    device_nodes: frozenset[str] | None = None
    volumes: tuple[VolumeDemand, ...] = ()
    disks: tuple[DiskUse, ...] = ()

    @property
    def size(self) -> int:
        """Number of the requirements and tolerations."""
        terms = self.node_terms or ()
        required = sum(len(term.labels) + len(term.fields) for term in terms)
        return len(self.node_selector) + len(self.tolerations) + required


class PodAntiAffinity(t.NamedTuple):
    """Required anti-affinity: no pod of the peers in the same domain of the key."""

    peers: int
    topology_key: str


class PodAffinity(t.NamedTuple):
    """Required affinity: a pod of the peers in the same domain, for each of the keys."""

    peers: int
    topology_keys: tuple[str, ...]


class Spreading(t.NamedTuple):
    """No domain of the key may exceed the emptiest one by more than ``max_skew`` pods of the peers.

    Only nodes with all ``required_keys`` count; with ``honor_affinity`` only those that the pod's
    selector and node affinity allow, with ``honor_taints`` only those whose taints it tolerates.
    With fewer than ``min_domains`` domains the emptiest counts as empty.
    """

    peers: int
    topology_key: str
    max_skew: int = 1
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False
    required_keys: tuple[str, ...] = ()


class EvenStart(t.NamedTuple):
    """WAO's PodSpread: until ``redundancy`` pods of the peers have a node, each new one goes to an
    area with the fewest of them. Areas are the domains of the key, or nodes if it is empty."""

    peers: int
    topology_key: str
    redundancy: int


class Preference(t.NamedTuple):
    """Preferred node affinity: unmet on all other nodes, at this weight (100 points cost
    preference_watts)."""

    weight: int
    term: NodeTerm


class PeerPreference(t.NamedTuple):
    """Preferred affinity to pods of the peers, or anti-affinity if ``near`` is False."""

    weight: int
    peers: int
    topology_key: str
    near: bool = True


@dataclass(frozen=True)
class PodRelations:
    """Required and preferred rules of a pod about others. ``peers`` are indices of Instance.peers.

    ``member_of`` are the sets to which it belongs itself. Pods with the same ``gang`` are placed
    together or not at all.
    """

    member_of: frozenset[int] = frozenset()
    anti_affinity: tuple[PodAntiAffinity, ...] = ()
    affinity: PodAffinity | None = None
    spreadings: tuple[Spreading, ...] = ()
    even_start: EvenStart | None = None
    peer_preferences: tuple[PeerPreference, ...] = ()
    soft_spreadings: tuple[Spreading, ...] = ()
    gang: str = ""


@dataclass(frozen=True)
class Shape:
    """All fields of a pod that affect its placement; pods of equal shape are interchangeable.

    ``unsupported`` names fields that the placer does not support, ``invalid`` an unreadable one,
    and ``unready`` a volume claim that is not ready: such a pod stays unplaced. ``device_claims``
    are keys of Instance.claims, one for each API, "" without claims.
    """

    requests: tuple[tuple[str, int], ...]
    use_microcores: int
    priority: int = 0
    constraints: Constraints = Constraints()
    is_daemon: bool = False
    unsupported: tuple[str, ...] = ()
    relations: PodRelations = PodRelations()
    preferences: tuple[Preference, ...] = ()
    cache_runs: tuple[CacheRun, ...] = ()
    device_claims: tuple[str, ...] = ()
    invalid: str = ""
    unready: str = ""
    shared_volumes: SharedVolumes | None = None

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why the pod cannot be placed at all; empty for other pods."""
        if self.invalid:
            return (f"invalid: {self.invalid}",)
        if self.unready and not self.unsupported:
            return (self.unready,)
        return tuple(f"unsupported: {field}" for field in self.unsupported)


@dataclass(frozen=True)
class Pod:
    """A pod to place; ``uid`` and ``resource_version`` are None if the input has none."""

    namespace: str
    name: str
    shape: Shape
    uid: str | None = None
    resource_version: str | None = None
    peer_view: PeerPod = field(default_factory=PeerPod)


class Promise(t.NamedTuple):
    """What a pod will take that is nominated for a node; for pods of at most its priority it is
    there already."""

    priority: int
    requests: tuple[tuple[str, int], ...] = ()
    ports: frozenset[HostPort] = frozenset()
    disks: frozenset[DiskUse] = frozenset()


class NominatedMember(t.NamedTuple):
    """A nominated pod's node, its priority, and the sets of pods to which it belongs."""

    node: str
    priority: int
    member_of: frozenset[int]


@dataclass(frozen=True)
class Node:
    """A node before anything is placed.

    ``free``, the unused part of ``allocatable``, may be negative; a missing resource counts as 0.
    Without a curve the node is *unpriced*: its power is unknown. ``cache_pools`` is None if its
    caches are unknown. A node that is not ``eligible`` takes no pod of the run.
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
    ports: frozenset[HostPort] = frozenset()
    disks: frozenset[DiskUse] = frozenset()
    allocatable: Quantities = field(default_factory=dict)
    cache_pools: CachePools | None = None
    eligible: bool = True
    attachable: Attachable | None = None
    promised: tuple[Promise, ...] = ()

    @cached_property
    def ports_by_number(self) -> dict[tuple[str, int], list[HostPort]]:
        """The host ports by protocol and number, because a node may have very many."""
        found: dict[tuple[str, int], list[HostPort]] = {}
        for port in self.ports:
            found.setdefault(port[:2], []).append(port)
        return found

    def seen_by(self, priority: int) -> Node:
        """The node as pods of a priority find it, beside the pods that are nominated for it."""
        held = self.promises_to(priority)
        if not held:
            return self
        free = dict(self.free)
        for promise in held:
            for name, amount in promise.requests:
                free[name] = free.get(name, 0) - amount
        return replace(
            self,
            free=free,
            ports=self.ports.union(*(promise.ports for promise in held)),
            disks=self.disks.union(*(promise.disks for promise in held)),
            promised=(),
        )

    def promises_to(self, priority: int) -> list[Promise]:
        """The nominated pods that count for pods of a priority."""
        return [promise for promise in self.promised if promise.priority >= priority]
