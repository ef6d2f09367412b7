# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""An Instance as arrays, the input of every strategy.

Pods of equal shape form a group, and an assignment is a count for each group and node, so its size
does not grow with the number of pods. Axes: G groups, N nodes, R resources.

Rules between pods are in ``relations``; relations.py defines a feasible placement. Their part that
does not depend on the placement is in ``limit`` too: missing labels of nodes, conflicting running
pods, and limits of one pod on a node. So a bound from ``limit`` and resources is a bound of the
whole problem.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass, replace

from ...base.libraries import numpy
from ...scheduling.curve import Curve
from ...scheduling.feasibility import obstacle, shortages
from ...scheduling.model import MICROCORES_PER_CORE, Constraints, Pod, Shape
from ...solving.arrays import Booleans, Floats, Integers
from ..constraints.contents import ContentRule
from ..constraints.instance import Instance
from ..constraints.preferences import preferences, preferred_pod_terms
from ..constraints.relation_builder import build_relations
from ..constraints.relations import Relations
from ..constraints.topology_counts import TopologyCountBook
from .costs import NodeCosts

_BITS_OF_SUMS = 62
# Requirements and tolerations of a pod that are read even when the time is over.
_SIMPLE = 10
_TOLERANCE_WATTS = 1e-6


@dataclass(frozen=True)
class Group:
    """Pods of one shape, in canonical order."""

    shape: Shape
    pods: tuple[Pod, ...]


@dataclass(frozen=True)
class Problem:
    """The arrays, all read-only by convention.

    ``request[g, r]`` and ``free[n, r]`` are in whole units, ``use[g]`` in microcores.
    ``limit[g, n]`` is the number of pods of the group that the node could take alone.
    ``preference[g, n]`` are the power draw of one pod's unmet preferences there, and the least
    power of its devices; None without either. Costs that depend on other waiting pods are in
    ``relations.caps``, ``relations.contents`` and ``relations.fleets``. ``unread`` are groups that
    stay without a node, because the time was over before all of their rules were read.
    """

    instance: Instance
    groups: tuple[Group, ...]
    resources: tuple[str, ...]
    request: Integers
    free: Integers
    use: Integers
    count: Integers
    is_workload: Booleans
    limit: Integers
    costs: NodeCosts
    relations: Relations | None = None
    preference: Floats | None = None
    unread: frozenset[int] = frozenset()

    @property
    def levels(self) -> list[list[int]]:
        """Indices of the groups of each priority, highest first."""
        by_priority: dict[int, list[int]] = defaultdict(list)
        for index, group in enumerate(self.groups):
            by_priority[group.shape.priority].append(index)
        return [by_priority[priority] for priority in sorted(by_priority, reverse=True)]

    @property
    def freely_movable(self) -> Booleans:
        """Groups whose pods cost only the power draw of their use on any node."""
        movable = numpy.ones(len(self.groups), dtype=bool)
        if self.costs.sleeper.any():
            movable &= self.is_workload
        if self.preference is not None:
            movable &= (self.preference == self.preference[:, :1]).all(axis=1)
        if self.relations is not None:
            for group in range(len(movable)):
                if self.relations.rules_of(group) or self.relations.caps_of(group):
                    movable[group] = False
        return movable


def build_problem(instance: Instance, is_over: t.Callable[[], bool] = lambda: False) -> Problem:
    """The arrays of an instance. Pods without a possible node are left out (see ``hopeless``).

    ``is_over``: whether the time for it is over; then only the simple rules are read.
    Raises MissingLibrary.
    """
    groups = _groups(instance)
    names = sorted({name for group in groups for name, amount in group.shape.requests if amount})
    most = _most_counted(instance)
    request = _table([dict(group.shape.requests) for group in groups], names, most + 1)
    free = _table([dict(node.free) for node in instance.nodes], names, most)
    names, request, free = _beside_nominated(instance, groups, names, request, free)
    count = numpy.array([len(group.pods) for group in groups], dtype=numpy.int64)
    unread: set[int] = set()
    allowed = _allowed(instance, groups, unread, is_over)
    shapes = [group.shape for group in groups]
    book = TopologyCountBook(instance, shapes)
    preferred = preferred_pod_terms(book, count, allowed)
    relations = build_relations(book, count, allowed, preferred, unread, is_over)
    names, request, free = _with_contents(relations, names, request, free)
    limit = _limits(request, free, count, allowed)
    limit[list(unread)] = 0
    limit = _related_limits(instance, groups, relations, limit)
    problem = Problem(
        instance=instance,
        groups=groups,
        resources=tuple(names),
        request=request,
        free=free,
        use=numpy.array([group.shape.use_microcores for group in groups], dtype=numpy.int64),
        count=count,
        is_workload=numpy.array([not group.shape.is_daemon for group in groups], dtype=bool),
        limit=limit,
        costs=NodeCosts(instance.nodes, instance.rules),
        relations=relations,
        preference=_with_floors(preferences(instance, shapes, preferred), relations, limit),
        unread=frozenset(unread),
    )
    has_limits = any(domain.kind == "node" for domain in instance.domains)
    return narrowed(problem, _node_load_limits(instance)) if has_limits else problem


def hopeless(instance: Instance) -> t.Callable[[Shape], bool]:
    """Whether pods of a shape have no possible node.

    They are refused, or request more of a resource than any node has free. Tenants choose amounts
    and names of resources, so neither may become a part of the arrays.
    """
    most: dict[str, int] = {}
    for node in instance.nodes:
        for name, amount in node.free.items():
            most[name] = max(amount, most.get(name, 0))
    return lambda shape: bool(shape.refusals or shortages(shape.requests, most))


def _groups(instance: Instance) -> tuple[Group, ...]:
    members: dict[Shape, list[Pod]] = {}
    for pod in instance.pods:
        members.setdefault(pod.shape, []).append(pod)
    is_hopeless = hopeless(instance)
    return tuple(
        Group(shape, tuple(pods)) for shape, pods in members.items() if not is_hopeless(shape)
    )


def _most_counted(instance: Instance) -> int:
    """Cap of amounts, so that sums over all nodes and pods fit into 64 bits.

    A node counts with at most this amount, and a pod that requests more fits nowhere.
    """
    return 1 << (_BITS_OF_SUMS - (len(instance.nodes) + len(instance.pods)).bit_length())


def _table(rows: list[dict[str, int]], names: list[str], most: int) -> Integers:
    table: Integers = numpy.zeros((len(rows), len(names)), dtype=numpy.int64)
    for index, row in enumerate(rows):
        for column, name in enumerate(names):
            table[index, column] = max(-most, min(row.get(name, 0), most))
    return table


def _beside_nominated(
    instance: Instance,
    groups: t.Sequence[Group],
    names: list[str],
    request: Integers,
    free: Integers,
) -> tuple[list[str], Integers, Integers]:
    """The resources, and each once more for pods that must leave room for nominated ones.

    A pod of higher priority than a nominated one does not leave it that room.
    """
    priorities = {promise.priority for node in instance.nodes for promise in node.promised}
    most = _most_counted(instance)
    own = numpy.array([group.shape.priority for group in groups], dtype=numpy.int64)
    plain = len(names)
    for priority in sorted(priorities):
        yielding = own <= priority
        there = [node.seen_by(priority).free for node in instance.nodes]
        request = numpy.hstack([request, request[:, :plain] * yielding[:, None]])
        beside = _table([dict(each) for each in there], names, most)
        free = numpy.hstack([free, beside])
    listed = [f"{name} beside nominated pods" for name in names] * len(priorities)
    return [*names, *listed], request, free


def _allowed(
    instance: Instance, groups: t.Sequence[Group], unread: set[int], is_over: t.Callable[[], bool]
) -> Booleans:
    """Whether each node is open to each group, apart from resources.

    Groups of many requirements are ``unread`` when the time is over.
    """
    known: dict[tuple[Constraints, int], Booleans] = {}
    usable = numpy.array(
        [
            (node.curve is not None or instance.rules.use_unpriced)
            and node.name not in instance.closed
            for node in instance.nodes
        ],
        dtype=bool,
    )
    has_promises = any(node.promised for node in instance.nodes)
    rows = []
    for index, group in enumerate(groups):
        constraints = group.shape.constraints
        if constraints.size > _SIMPLE and is_over():
            unread.add(index)
            rows.append(numpy.zeros(len(usable), dtype=bool))
            continue
        priority = group.shape.priority if has_promises else 0
        if (constraints, priority) not in known:
            known[constraints, priority] = usable & numpy.array(
                [obstacle(constraints, node.seen_by(priority)) is None for node in instance.nodes],
                dtype=bool,
            )
        rows.append(known[constraints, priority])
    found: Booleans = numpy.array(rows, dtype=bool).reshape(len(rows), len(usable))
    return found


def _limits(request: Integers, free: Integers, count: Integers, allowed: Booleans) -> Integers:
    limit: Integers = numpy.where(allowed, count[:, None], 0)
    for resource in range(request.shape[1]):
        asked = request[:, resource]
        fitting = numpy.maximum(free[:, resource], 0)[None, :] // numpy.maximum(asked, 1)[:, None]
        limit = numpy.where(asked[:, None] > 0, numpy.minimum(limit, fitting), limit)
    return limit


def _with_contents(
    relations: Relations | None, names: list[str], request: Integers, free: Integers
) -> tuple[list[str], Integers, Integers]:
    """The resources, and the additive part of the nodes' contents."""
    rules = relations.rules if relations is not None else ()
    sums = [each for rule in rules if isinstance(rule, ContentRule) for each in rule.check.sums()]
    for total in sums:
        needed = [total.needed.get(group, 0) for group in range(len(request))]
        request = numpy.column_stack([request, numpy.array(needed, dtype=numpy.int64)])
        free = numpy.column_stack([free, numpy.array(total.there, dtype=numpy.int64)])
    return [*names, *(f"contents {index}" for index in range(len(sums)))], request, free


def _with_floors(
    preferred: Floats | None, relations: Relations | None, limit: Integers
) -> Floats | None:
    """Unmet preferences, and the least power of the pods' devices."""
    if relations is None or not relations.drawing:
        return preferred
    total = numpy.zeros(limit.shape) if preferred is None else preferred.copy()
    for rule in relations.drawing:
        total[list(rule.check.groups)] += rule.floor
    return total


def _related_limits(
    instance: Instance, groups: t.Sequence[Group], relations: Relations | None, limit: Integers
) -> Integers:
    """The limits, with the static part of rules between pods; 0 for a gang that lacks a pod."""
    if relations is None:
        return limit
    limit = limit.copy()
    for rule in (*relations.rules, *relations.fixed):
        for concerned in rule.groups:
            limit[concerned] = numpy.minimum(limit[concerned], rule.most(concerned))
    there = {group.shape for group in groups}
    broken = {
        pod.shape.relations.gang
        for pod in instance.pods
        if pod.shape.relations.gang and pod.shape not in there
    }
    for index, group in enumerate(groups):
        if group.shape.relations.gang in broken:
            limit[index] = 0
    return limit


def _node_load_limits(instance: Instance) -> Floats:
    """Microcores that each node may get before its own power limit; infinite without one."""
    index_of = {node.name: index for index, node in enumerate(instance.nodes)}
    most: Floats = numpy.full(len(instance.nodes), numpy.inf)
    for domain in instance.domains:
        if domain.kind == "node":
            node = instance.nodes[index_of[domain.name]]
            if node.curve is not None:
                limit = domain.limit_watts - domain.beside_watts + _TOLERANCE_WATTS
                within = _use_within(node.curve, limit, node.use_microcores)
                most[index_of[domain.name]] = within - node.use_microcores
    return most


def _use_within(curve: Curve, limit: float, base: int) -> float:
    """The use in microcores, from the base on, up to which the curve keeps to the limit in W."""
    points = [(at * MICROCORES_PER_CORE, height) for at, height in zip(curve.cores, curve.watts)]
    for (left, low), (right, high) in zip(points, points[1:]):
        if right <= base or high <= limit:
            continue
        share = max(0.0, (limit - low) / (high - low)) if high > low else 0.0
        return max(float(base), left + share * (right - left))
    return numpy.inf if curve.watts[-1] <= limit else float(base)


def narrowed(problem: Problem, most: Floats) -> Problem:
    """The problem with at most these further microcores on each node."""
    # No limit is more than all pods use together.
    unlimited = 1 + int((problem.use * problem.count).sum())
    free: Integers = numpy.floor(numpy.minimum(most, unlimited)).astype(numpy.int64)
    request = numpy.column_stack([problem.request, problem.use])
    fitting = numpy.maximum(free, 0)[None, :] // numpy.maximum(problem.use, 1)[:, None]
    fitting = numpy.where(problem.use[:, None] > 0, fitting, problem.limit)
    return replace(
        problem,
        resources=(*problem.resources, "load within power limits"),
        request=request,
        free=numpy.column_stack([problem.free, free]),
        limit=numpy.minimum(problem.limit, fitting),
    )
