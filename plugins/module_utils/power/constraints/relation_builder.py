# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Rules of the whole problem from the constraints of each pod on others, each rule once."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.libraries import numpy
from ...scheduling.feasibility import (
    CLAIM_ELSEWHERE,
    CLAIM_IN_USE,
    DISK_TAKEN,
    EVERY_ADDRESS,
    NO_VOLUME,
    PORTS_TAKEN,
    is_selected,
    is_tolerated,
)
from ...scheduling.model import (
    Constraints,
    EvenStart,
    HostPort,
    NominatedMember,
    PodAffinity,
    PodAntiAffinity,
    PodRelations,
    Shape,
    Spreading,
)
from ...solving.arrays import Booleans, Integers
from .attached_volumes import attached_volumes_check
from .cache_runs import cache_check
from .device_feasibility import device_checks
from .fleet_contents import FleetFeasibilityCheck, FleetRule
from .fleet_devices import device_fleets
from .instance import Instance
from .node_contents import ContentRule, NodeFeasibilityCheck, OneNodeRule
from .preferred_terms import PreferredPodTerm
from .relation_rules import (
    AffinityRule,
    AntiAffinityRule,
    EvenStartRule,
    KeyCounts,
    Rule,
    SpreadRule,
)
from .relations import Relations
from .soft_caps import SoftCap
from .static_volumes import NodeVolumesCheck, static_volumes_check
from .topology_counts import ALL_NODES, TopologyCountBook

_NO_RELATIONS = PodRelations()

Term = t.TypeVar("Term", bound=t.Hashable)


def build_relations(
    instance: Instance,
    shapes: t.Sequence[Shape],
    count: Integers,
    allowed: Booleans,
    preferred: t.Iterable[PreferredPodTerm] = (),
    unread: set[int] | None = None,
    is_over: t.Callable[[], bool] = lambda: False,
) -> Relations | None:
    """The rules between pods of these shapes, ``count[g]`` of each; None if there are none.

    ``allowed[g, n]`` are the open nodes of each, apart from other pods and resources. When the time
    ``is_over``, groups with rules that are left become ``unread``: they must get no node.
    """
    checks, fleets, together = _checks(instance, shapes)
    if not (checks or fleets) and not any(map(_has_rules, shapes)):
        return None
    late = set[int]() if unread is None else unread
    groups = _Groups(shapes)
    builder = _Builder(instance, groups, count, allowed, late, is_over)
    builder.add_rules()
    for check in checks:
        builder.add_contents(check)
    for fleet in fleets:
        builder.add_fleet(fleet)
    for sharing in together:
        builder.add_one_node(sharing)
    builder.add_caps(preferred)
    relations = Relations(
        tuple(builder.book.topology_counts),
        tuple(rule for rule in builder.rules if not _is_fixed(rule)),
        tuple(builder.caps),
        groups.gangs(),
        tuple(rule for rule in builder.rules if _is_fixed(rule)),
    )
    # Groups can be members of peers that no other pod's rule speaks of.
    parts = relations.rules, relations.fixed, relations.caps, relations.gangs
    return relations if any(parts) else None


def _is_fixed(rule: Rule) -> bool:
    return isinstance(rule, (AntiAffinityRule, SpreadRule)) and rule.is_fixed


def _checks(
    instance: Instance, shapes: t.Sequence[Shape]
) -> tuple[list[NodeFeasibilityCheck], list[FleetFeasibilityCheck], list[t.Sequence[int]]]:
    """Contents of nodes and of the fleet, and groups that share a device claim."""
    found = [cache_check(shapes, instance.nodes), attached_volumes_check(shapes, instance.nodes)]
    checks: list[NodeFeasibilityCheck] = [check for check in found if check is not None]
    devices = device_checks(instance.claims, shapes, instance.nodes)
    device_rules = device_fleets(instance.claims, shapes, instance.nodes)
    checks += devices
    fleets: list[FleetFeasibilityCheck] = [*device_rules]
    static = static_volumes_check(instance, shapes)
    if isinstance(static, NodeVolumesCheck):
        checks.append(static)
    elif static is not None:
        fleets.append(static)
    shared = [check.shared for check in devices] + [fleet.shared for fleet in device_rules]
    return checks, fleets, [groups for units in shared for groups in units]


def _has_rules(shape: Shape) -> bool:
    """Whether the shape has rules about other pods."""
    return (
        shape.relations != _NO_RELATIONS
        or bool(shape.constraints.ports)
        or bool(shape.constraints.disks)
        or shape.shared_volumes is not None
    )


@dataclass(frozen=True)
class _Spread:
    """A spread constraint with the fields that decide which nodes count for it."""

    spreading: Spreading
    counted: bytes


def _volumes_of(part: str) -> t.Callable[[Shape], t.Sequence[str]]:
    """The claims of a shape with this kind of sharing."""
    return lambda shape: getattr(shape.shared_volumes, part) if shape.shared_volumes else ()


class _Groups:
    """The groups of a problem, by what their shapes have in common."""

    def __init__(self, shapes: t.Sequence[Shape]) -> None:
        self.shapes = shapes
        self._of_peers: dict[int, list[int]] = {}
        for group, shape in enumerate(shapes):
            for peers in shape.relations.member_of:
                self._of_peers.setdefault(peers, []).append(group)

    def mask(self, groups: t.Iterable[int]) -> Booleans:
        mask = numpy.zeros(len(self.shapes), dtype=bool)
        mask[list(groups)] = True
        return mask

    def members(self, peers: int) -> Booleans:
        return self.mask(self._of_peers.get(peers, []))

    def by_term(self, terms_of: t.Callable[[Shape], t.Iterable[Term]]) -> dict[Term, list[int]]:
        """Groups by each term that they have."""
        found: dict[Term, list[int]] = {}
        for group, shape in enumerate(self.shapes):
            for term in dict.fromkeys(terms_of(shape)):
                found.setdefault(term, []).append(group)
        return found

    def gangs(self) -> tuple[tuple[int, ...], ...]:
        gangs = self.by_term(lambda shape: filter(None, [shape.relations.gang]))
        return tuple(map(tuple, gangs.values()))


class _Spreads:
    """Spread constraints, and the topology counts on which they are rules or soft caps."""

    def __init__(self, instance: Instance, groups: _Groups, book: TopologyCountBook) -> None:
        self._instance = instance
        self._groups = groups
        self._book = book
        self._counted: dict[tuple[t.Any, ...], bytes] = {}

    def by_term(
        self, terms_of: t.Callable[[Shape], t.Iterable[Spreading]]
    ) -> dict[_Spread, list[int]]:
        """Groups by each spread constraint."""
        found: dict[_Spread, list[int]] = {}
        for group, shape in enumerate(self._groups.shapes):
            for spreading in dict.fromkeys(terms_of(shape)):
                spread = _Spread(spreading, self._counted_nodes(spreading, shape.constraints))
                found.setdefault(spread, []).append(group)
        return found

    def _counted_nodes(self, spreading: Spreading, constraints: Constraints) -> bytes:
        """The nodes whose pods and domains count. Source:
        https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/"""
        honors = spreading.honor_affinity, spreading.honor_taints
        key = (
            spreading.required_keys,
            (constraints.node_selector, constraints.node_terms) if honors[0] else None,
            constraints.tolerations if honors[1] else None,
        )
        if key not in self._counted:
            self._counted[key] = bytes(
                all(name in node.labels for name in spreading.required_keys)
                and (not spreading.honor_affinity or is_selected(constraints, node))
                and (not spreading.honor_taints or is_tolerated(constraints, node))
                for node in self._instance.nodes
            )
        return self._counted[key]

    def beside_nominated(
        self, spread: _Spread, groups: t.Iterable[int]
    ) -> dict[tuple[NominatedMember, ...], list[int]]:
        """Groups by the nominated pods that count for their spread."""
        members = [
            member
            for member in self._instance.nominated
            if spread.spreading.peers in member.member_of
        ]
        found: dict[tuple[NominatedMember, ...], list[int]] = {}
        for group in groups if members else ():
            priority = self._groups.shapes[group].priority
            counting = tuple(member for member in members if member.priority >= priority)
            if counting:
                found.setdefault(counting, []).append(group)
        return found

    def rule(
        self, spread: _Spread, dependants: Booleans, nominated: t.Sequence[NominatedMember] = ()
    ) -> SpreadRule:
        spreading = spread.spreading
        members = self._groups.members(spreading.peers)
        topology_count = self._count_of(spread, members, nominated)
        topology = self._book.topology(spreading.topology_key)
        depending = self._book.topology_count(dependants, topology)
        domain_of = self._book.topology_counts[topology_count].domain_of
        emptiest = numpy.unique(domain_of[domain_of >= 0])
        return SpreadRule(
            self._book.topology_counts,
            frozenset((dependants | members).nonzero()[0].tolist()),
            topology_count,
            depending,
            emptiest,
            spreading.max_skew,
            len(emptiest) < spreading.min_domains,
        )

    def cap(
        self, spread: _Spread, dependants: Booleans, count: Integers, watts: float
    ) -> SoftCap | None:
        """The cap of an even spread; None if no domain or none of these pods counts."""
        spreading = spread.spreading
        members = self._groups.members(spreading.peers)
        if not (members & dependants).any() or watts <= 0:
            return None
        topology_count = self._count_of(spread, members)
        base = self._book.topology_counts[topology_count].base
        domain_of = self._book.topology(spreading.topology_key).domain_of
        counted = numpy.frombuffer(spread.counted, dtype=bool)
        domains = numpy.unique(domain_of[counted & (domain_of >= 0)])
        if not len(domains):
            return None
        total = int(base[:-1].sum() + count[members].sum())
        even = -(-total // len(domains)) + spreading.max_skew - 1
        return SoftCap(topology_count, numpy.maximum(base, even), watts)

    def _count_of(
        self, spread: _Spread, members: Booleans, nominated: t.Sequence[NominatedMember] = ()
    ) -> int:
        topology = self._book.topology(spread.spreading.topology_key)
        counted = numpy.frombuffer(spread.counted, dtype=bool)
        peers = spread.spreading.peers
        return self._book.topology_count(members, topology, peers, counted, nominated)


class _Builder:
    def __init__(
        self,
        instance: Instance,
        groups: _Groups,
        count: Integers,
        allowed: Booleans,
        unread: set[int],
        is_over: t.Callable[[], bool],
    ) -> None:
        self._unread = unread
        self._is_over = is_over
        self._instance = instance
        self._groups = groups
        self._count = count
        self._allowed = allowed
        self.book = TopologyCountBook(instance)
        self._spreads = _Spreads(instance, groups, self.book)
        self._known: set[tuple[t.Any, ...]] = set()
        self.rules: list[Rule] = []
        self.caps: list[SoftCap] = []

    def add_rules(self) -> None:
        self._add_ports()
        self._add_disks()
        self._add_shared_claims()
        by_term = self._groups.by_term
        terms = by_term(lambda shape: shape.relations.anti_affinity)
        for anti_affinity, groups in self._until_over(terms):
            self._add_anti_affinity(anti_affinity, self._groups.mask(groups))
        affinities = by_term(lambda shape: filter(None, [shape.relations.affinity]))
        for affinity, groups in self._until_over(affinities):
            self._add_affinity(affinity, self._groups.mask(groups))
        spreads = self._spreads.by_term(lambda shape: shape.relations.spreadings)
        for spread, groups in self._until_over(spreads):
            self._add_spread(spread, groups)
            for nominated, concerned in self._spreads.beside_nominated(spread, groups).items():
                self._add_spread(spread, concerned, nominated)
        starts = by_term(lambda shape: filter(None, [shape.relations.even_start]))
        for start, groups in self._until_over(starts):
            self._add_even_start(start, self._groups.mask(groups))

    def _until_over(
        self, groups_of: t.Mapping[Term, list[int]]
    ) -> t.Iterator[tuple[Term, list[int]]]:
        """The terms with their groups until the time is over; the other groups are unread."""
        for term, groups in groups_of.items():
            if self._is_over():
                self._unread.update(groups)
            else:
                yield term, groups

    def _add_ports(self) -> None:
        users = self._groups.by_term(lambda shape: shape.constraints.ports)
        numbers: dict[tuple[str, int], list[HostPort]] = {}
        for port in users:
            numbers.setdefault((port.protocol, port.port), []).append(port)
        for ports in numbers.values():
            everyone = self._groups.mask(group for port in ports for group in users[port])
            for port in ports:
                holders = self._groups.mask(users[port])
                known = everyone if port.address == EVERY_ADDRESS else holders
                self._exclude(holders, known, "", None, PORTS_TAKEN)

    def _add_disks(self) -> None:
        users = self._groups.by_term(lambda shape: shape.constraints.disks)
        for use in users:
            if use.alone:
                holders = self._groups.mask(users[use])
                sharing = self._groups.mask(
                    [*users[use], *users.get(use._replace(alone=False), [])]
                )
                self._exclude(holders, sharing, "", None, DISK_TAKEN)

    def _add_shared_claims(self) -> None:
        """At most one pod with an exclusive claim, and one node for a volume to be provisioned."""
        for groups in self._groups.by_term(_volumes_of("exclusive")).values():
            holders = self._groups.mask(groups)
            self._exclude(holders, holders, ALL_NODES, None, CLAIM_IN_USE)
        for groups in self._groups.by_term(_volumes_of("together")).values():
            self.add_one_node(groups, NO_VOLUME)

    def _add_anti_affinity(self, anti_affinity: PodAntiAffinity, holders: Booleans) -> None:
        members = self._groups.members(anti_affinity.peers)
        self._exclude(holders, members, anti_affinity.topology_key, anti_affinity.peers)

    def _exclude(
        self, holders: Booleans, members: Booleans, key: str, peers: int | None, words: str = ""
    ) -> None:
        topology = self.book.topology(key)
        held = self.book.topology_count(holders, topology)
        known = self.book.topology_count(members, topology, peers)
        both = self.book.topology_count(holders & members, topology)
        if not (members.any() or self.book.topology_counts[known].base.any()):
            return
        groups = frozenset((holders | members).nonzero()[0].tolist())
        if self._is_new(AntiAffinityRule, held, known, both, words):
            self.rules.append(
                AntiAffinityRule(self.book.topology_counts, groups, held, known, both, words)
            )

    def _is_new(self, *parts: t.Any) -> bool:
        """Whether there is no rule of these parts yet; different terms can mean the same."""
        known = len(self._known)
        self._known.add(parts)
        return len(self._known) > known

    def _add_affinity(self, affinity: PodAffinity, dependants: Booleans) -> None:
        members = self._groups.members(affinity.peers)
        depending = self._groups.mask(
            group for group, shape in enumerate(self._groups.shapes) if shape.relations.affinity
        )
        keys = []
        for key in affinity.topology_keys:
            topology = self.book.topology(key)
            keys.append(
                KeyCounts(
                    self.book.topology_count(members, topology, affinity.peers),
                    self.book.topology_count(dependants, topology),
                    self.book.topology_count(members & ~depending, topology, affinity.peers),
                    self.book.topology_count(members & dependants, topology),
                )
            )
        groups = frozenset((dependants | members).nonzero()[0].tolist())
        if self._is_new(AffinityRule, *keys):
            self.rules.append(AffinityRule(self.book.topology_counts, groups, tuple(keys)))

    def _add_spread(
        self, spread: _Spread, groups: t.Iterable[int], nominated: t.Sequence[NominatedMember] = ()
    ) -> None:
        rule = self._spreads.rule(spread, self._groups.mask(groups), nominated)
        limits = rule.max_skew, rule.from_zero
        if self._is_new(SpreadRule, rule.counted, rule.dependants, *limits):
            self.rules.append(rule)

    def add_contents(self, check: NodeFeasibilityCheck) -> None:
        """The rule about each node's contents, group by group."""
        numbers, count = self._by_node(check.groups)
        priced = numpy.array([node.curve is not None for node in self._instance.nodes])
        self.rules.append(
            ContentRule(check, self.book.topology_counts, tuple(numbers), tuple(count), priced)
        )

    def add_fleet(self, check: FleetFeasibilityCheck) -> None:
        """The rule about the contents of all nodes together, group by group."""
        numbers, count = self._by_node(check.groups)
        self.rules.append(FleetRule(check, self.book.topology_counts, tuple(numbers), tuple(count)))

    def _by_node(self, groups: t.Sequence[int]) -> tuple[list[int], list[int]]:
        """The topology count of each group by node, and its number of pods."""
        nodes = self.book.topology("")
        numbers = [self.book.topology_count(self._groups.mask([group]), nodes) for group in groups]
        return numbers, [int(self._count[group]) for group in groups]

    def add_one_node(self, groups: t.Sequence[int], words: str = CLAIM_ELSEWHERE) -> None:
        topology_count = self.book.topology_count(self._groups.mask(groups), self.book.topology(""))
        self.rules.append(
            OneNodeRule(self.book.topology_counts, frozenset(groups), topology_count, words)
        )

    def _add_even_start(self, start: EvenStart, dependants: Booleans) -> None:
        topology = self.book.topology(start.topology_key)
        members = self._groups.members(start.peers)
        is_open = (topology.domain_of >= 0) & numpy.any(
            [self._possible(group) for group in dependants.nonzero()[0].tolist()], axis=0
        )
        self.rules.append(
            EvenStartRule(
                self.book.topology_counts,
                frozenset((dependants | members).nonzero()[0].tolist()),
                self.book.topology_count(members, topology, start.peers),
                numpy.unique(topology.domain_of[is_open]),
                start.redundancy,
            )
        )

    def _possible(self, group: int) -> Booleans:
        """The nodes that pods of the group may ever use by the added rules, resources aside."""
        possible: Booleans = self._allowed[group].copy()
        for rule in self.rules:
            if group in rule.groups:
                possible &= rule.most(group) > 0
        return possible

    def add_caps(self, preferred: t.Iterable[PreferredPodTerm]) -> None:
        """Preferences that depend on other waiting pods."""
        watts = self._instance.rules.preference_watts
        soft = self._spreads.by_term(lambda shape: shape.relations.soft_spreadings)
        for spread, groups in soft.items():
            cap = self._spreads.cap(spread, self._groups.mask(groups), self._count, watts)
            self.caps += [cap] if cap is not None else []
        self.caps += [
            preferred_term.soft_cap(self.book)
            for preferred_term in preferred
            if preferred_term.undecided.any()
        ]
