# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Rules of the whole problem from the constraints of each pod on others, each rule once."""

from __future__ import annotations

import typing as t

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
    PodRelations,
    Shape,
    Spreading,
)
from ...solving.arrays import Booleans, Integers
from .cache_runs import cache_check
from .contents import ContentRule, FleetCheck, FleetRule, NodeCheck
from .device_checks import device_checks
from .preferences import PreferredPodTerm, SoftCap
from .relation_rules import (
    AffinityRule,
    AntiAffinityRule,
    EvenStartRule,
    KeyCounts,
    OneNodeRule,
    Rule,
    SpreadRule,
)
from .relations import Relations, groups_in
from .topology_counts import ALL_NODES, TopologyCount, TopologyCountBook
from .volume_checks import attached_volumes_check, static_volumes_check

_NO_RELATIONS = PodRelations()

Term = t.TypeVar("Term", bound=t.Hashable)


def build_relations(
    book: TopologyCountBook,
    count: Integers,
    allowed: Booleans,
    preferred: t.Iterable[PreferredPodTerm],
    unread: set[int],
    is_over: t.Callable[[], bool],
) -> Relations | None:
    """The rules between pods of the book's shapes, ``count[g]`` of each; None if there are none.

    ``allowed[g, n]`` are the open nodes of each, apart from other pods and resources. When the time
    ``is_over``, groups with rules that are left become ``unread``: they must get no node.
    """
    checks, units = _checks(book)
    if not checks and not any(map(_has_rules, book.shapes)):
        return None
    builder = _Builder(book, count, allowed, unread, is_over)
    builder.add_rules()
    for check in checks:
        builder.add_check(check)
    for groups in units:
        builder.add_one_node(groups, CLAIM_ELSEWHERE)
    builder.add_caps(preferred)
    relations = Relations(
        book.topology_counts,
        tuple(rule for rule in builder.rules if not rule.is_fixed),
        tuple(builder.caps),
        tuple(map(tuple, builder.by_term(lambda shape: _some(shape.relations.gang)).values())),
        tuple(rule for rule in builder.rules if rule.is_fixed),
    )
    # Groups can be members of peers that no other pod's rule speaks of.
    parts = relations.rules, relations.fixed, relations.caps, relations.gangs
    return relations if any(parts) else None


def _checks(
    book: TopologyCountBook,
) -> tuple[list[NodeCheck[t.Any, t.Any] | FleetCheck[t.Any]], list[list[int]]]:
    """Checks of contents, those of nodes before those of the fleet, and groups on one node."""
    nodes = book.instance.nodes
    local, fleets, units = device_checks(book.instance.claims, book.shapes, nodes)
    found = [
        cache_check(book.shapes, nodes),
        attached_volumes_check(book.shapes, nodes),
        *local,
        *fleets,
        static_volumes_check(book.instance, book.shapes),
    ]
    checks = [check for check in found if check is not None]
    return sorted(checks, key=lambda check: isinstance(check, FleetCheck)), units


def _has_rules(shape: Shape) -> bool:
    """Whether the shape has rules about other pods."""
    return (
        shape.relations != _NO_RELATIONS
        or bool(shape.constraints.ports)
        or bool(shape.constraints.disks)
        or shape.shared_volumes is not None
    )


def _some(term: Term | None) -> list[Term]:
    return [term] if term else []


class _Spread(t.NamedTuple):
    """A spread constraint with the nodes whose pods and domains count for it."""

    spreading: Spreading
    counted: bytes

    @property
    def nodes(self) -> Booleans:
        return numpy.frombuffer(self.counted, dtype=bool)


class _Spreads:
    """Spread constraints, and the nodes and pods that count for them."""

    def __init__(self, book: TopologyCountBook) -> None:
        self._book = book
        self._counted: dict[tuple[t.Any, ...], bytes] = {}

    def of(
        self, spreadings: t.Iterable[Spreading], constraints: Constraints
    ) -> t.Iterator[_Spread]:
        """Spread constraints with the nodes that count for a pod's own constraints. Source:
        https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/"""
        for spreading in spreadings:
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
                    for node in self._book.instance.nodes
                )
            yield _Spread(spreading, self._counted[key])

    def beside_nominated(
        self, spread: _Spread, groups: t.Iterable[int]
    ) -> dict[tuple[NominatedMember, ...], list[int]]:
        """Groups by the nominated pods that count for their spread."""
        peers = spread.spreading.peers
        members = [each for each in self._book.instance.nominated if peers in each.member_of]
        found: dict[tuple[NominatedMember, ...], list[int]] = {}
        for group in groups if members else ():
            priority = self._book.shapes[group].priority
            counting = tuple(member for member in members if member.priority >= priority)
            if counting:
                found.setdefault(counting, []).append(group)
        return found

    def count_of(
        self, spread: _Spread, nominated: t.Sequence[NominatedMember] = ()
    ) -> TopologyCount:
        """The members on the nodes that count."""
        topology = self._book.topology(spread.spreading.topology_key)
        peers = spread.spreading.peers
        members = self._book.members(peers)
        return self._book.topology_count(members, topology, peers, spread.nodes, nominated)

    def cap(self, spread: _Spread, dependants: Booleans, count: Integers) -> SoftCap | None:
        """The cap of an even spread; None if no domain or none of these pods counts."""
        members = self._book.members(spread.spreading.peers)
        domain_of = self._book.topology(spread.spreading.topology_key).domain_of
        domains = numpy.unique(domain_of[spread.nodes & (domain_of >= 0)])
        if not (members & dependants).any() or not len(domains):
            return None
        counted = self.count_of(spread)
        total = int(counted.base[:-1].sum() + count[members].sum())
        even = -(-total // len(domains)) + spread.spreading.max_skew - 1
        watts = self._book.instance.rules.preference_watts
        return SoftCap(counted, numpy.maximum(counted.base, even), watts)


class _Builder:
    def __init__(
        self,
        book: TopologyCountBook,
        count: Integers,
        allowed: Booleans,
        unread: set[int],
        is_over: t.Callable[[], bool],
    ) -> None:
        self._book = book
        self._nodes = len(book.instance.nodes)
        self._count, self._allowed = count, allowed
        self._unread, self._is_over = unread, is_over
        self._spreads = _Spreads(book)
        self._known: set[tuple[t.Any, ...]] = set()
        self.rules: list[Rule] = []
        self.caps: list[SoftCap] = []

    def by_term(self, terms_of: t.Callable[[Shape], t.Iterable[Term]]) -> dict[Term, list[int]]:
        """Groups by each term that they have."""
        found: dict[Term, list[int]] = {}
        for group, shape in enumerate(self._book.shapes):
            for term in dict.fromkeys(terms_of(shape)):
                found.setdefault(term, []).append(group)
        return found

    def add_rules(self) -> None:
        self._add_ports()
        self._add_disks()
        self._add_shared_claims()
        mask = self._book.mask
        terms = self.by_term(lambda shape: shape.relations.anti_affinity)
        for (peers, key), groups in self._until_over(terms):
            self._exclude(mask(groups), self._book.members(peers), key, peers)
        affinities = self.by_term(lambda shape: _some(shape.relations.affinity))
        for affinity, groups in self._until_over(affinities):
            self._add_affinity(affinity, mask(groups))
        spreads = self.by_term(
            lambda shape: self._spreads.of(shape.relations.spreadings, shape.constraints)
        )
        for spread, groups in self._until_over(spreads):
            self._add_spread(spread, groups)
            for nominated, concerned in self._spreads.beside_nominated(spread, groups).items():
                self._add_spread(spread, concerned, nominated)
        starts = self.by_term(lambda shape: _some(shape.relations.even_start))
        for start, groups in self._until_over(starts):
            self._add_even_start(start, mask(groups))

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
        users = self.by_term(lambda shape: shape.constraints.ports)
        numbers: dict[tuple[str, int], list[HostPort]] = {}
        for port in users:
            numbers.setdefault((port.protocol, port.port), []).append(port)
        for ports in numbers.values():
            everyone = self._book.mask(group for port in ports for group in users[port])
            for port in ports:
                holders = self._book.mask(users[port])
                known = everyone if port.address == EVERY_ADDRESS else holders
                self._exclude(holders, known, "", None, PORTS_TAKEN)

    def _add_disks(self) -> None:
        users = self.by_term(lambda shape: shape.constraints.disks)
        for use in users:
            if use.alone:
                sharing = [*users[use], *users.get(use._replace(alone=False), [])]
                mask = self._book.mask
                self._exclude(mask(users[use]), mask(sharing), "", None, DISK_TAKEN)

    def _add_shared_claims(self) -> None:
        """At most one pod with an exclusive claim, and one node for a volume to be provisioned."""

        def users(part: str) -> t.Iterable[list[int]]:
            return self.by_term(lambda shape: getattr(shape.shared_volumes, part, ())).values()

        for groups in users("exclusive"):
            holders = self._book.mask(groups)
            self._exclude(holders, holders, ALL_NODES, None, CLAIM_IN_USE)
        for groups in users("together"):
            self.add_one_node(groups, NO_VOLUME)

    def _exclude(
        self, holders: Booleans, members: Booleans, key: str, peers: int | None, words: str = ""
    ) -> None:
        topology = self._book.topology(key)
        held = self._book.topology_count(holders, topology)
        known = self._book.topology_count(members, topology, peers)
        both = self._book.topology_count(holders & members, topology)
        if not (members.any() or known.base.any()):
            return
        if self._is_new(AntiAffinityRule, held, known, both, words):
            groups = groups_in(holders | members)
            self.rules.append(AntiAffinityRule(groups, self._nodes, held, known, both, words))

    def _is_new(self, *parts: t.Any) -> bool:
        """Whether there is no rule of these parts yet; different terms can mean the same."""
        known = len(self._known)
        self._known.add(parts)
        return len(self._known) > known

    def _add_affinity(self, affinity: PodAffinity, dependants: Booleans) -> None:
        book, peers = self._book, affinity.peers
        members = book.members(peers)
        depending = book.mask(
            group for group, shape in enumerate(book.shapes) if shape.relations.affinity
        )
        keys = tuple(
            KeyCounts(
                book.topology_count(members, topology, peers),
                book.topology_count(dependants, topology),
                book.topology_count(members & ~depending, topology, peers),
                book.topology_count(members & dependants, topology),
            )
            for topology in map(book.topology, affinity.topology_keys)
        )
        if self._is_new(AffinityRule, *keys):
            self.rules.append(AffinityRule(groups_in(dependants | members), self._nodes, keys))

    def _add_spread(
        self, spread: _Spread, groups: t.Iterable[int], nominated: t.Sequence[NominatedMember] = ()
    ) -> None:
        spreading, dependants = spread.spreading, self._book.mask(groups)
        counted = self._spreads.count_of(spread, nominated)
        depending = self._book.topology_count(
            dependants, self._book.topology(spreading.topology_key)
        )
        emptiest = numpy.unique(counted.domain_of[counted.domain_of >= 0])
        limits = spreading.max_skew, len(emptiest) < spreading.min_domains
        if self._is_new(SpreadRule, counted, depending, *limits):
            concerned = groups_in(dependants | counted.members)
            self.rules.append(
                SpreadRule(concerned, self._nodes, counted, depending, emptiest, *limits)
            )

    def add_check(self, check: NodeCheck[t.Any, t.Any] | FleetCheck[t.Any]) -> None:
        """The rule about the contents of each node, or of all nodes together."""
        groups = frozenset(check.groups)
        by_node, mask = self._book.topology(""), self._book.mask
        numbers = tuple(self._book.topology_count(mask([group]), by_node) for group in check.groups)
        count = tuple(int(self._count[group]) for group in check.groups)
        if isinstance(check, NodeCheck):
            nodes = self._book.instance.nodes
            priced = numpy.array([node.curve is not None for node in nodes])
            self.rules.append(ContentRule(groups, self._nodes, check, numbers, count, priced))
        else:
            self.rules.append(FleetRule(groups, self._nodes, check, numbers, count))

    def add_one_node(self, groups: t.Sequence[int], words: str) -> None:
        placed = self._book.topology_count(self._book.mask(groups), self._book.topology(""))
        self.rules.append(OneNodeRule(frozenset(groups), self._nodes, placed, words))

    def _add_even_start(self, start: EvenStart, dependants: Booleans) -> None:
        topology = self._book.topology(start.topology_key)
        members = self._book.members(start.peers)
        is_open = (topology.domain_of >= 0) & numpy.any(
            [self._possible(group) for group in dependants.nonzero()[0].tolist()], axis=0
        )
        self.rules.append(
            EvenStartRule(
                groups_in(dependants | members),
                self._nodes,
                self._book.topology_count(members, topology, start.peers),
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
        if self._book.instance.rules.preference_watts > 0:
            soft = self.by_term(
                lambda shape: self._spreads.of(shape.relations.soft_spreadings, shape.constraints)
            )
            found = [
                self._spreads.cap(spread, self._book.mask(groups), self._count)
                for spread, groups in soft.items()
            ]
            self.caps += [cap for cap in found if cap is not None]
        self.caps += [term.soft_cap(self._book) for term in preferred if term.undecided.any()]
