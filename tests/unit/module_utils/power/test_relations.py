# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between pods, against a pod-by-pod reading of them.

Source of the rules: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/ and
https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.power.model.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import (
    Problem,
    build_problem,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.repair import (
    can_be_bound,
    related_groups,
    related_steps,
    settled,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.greedy import filled
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import Shape
from support.examples import examples, generated, nearly_all, seeds
from support.related_instances import Cluster, Placed, placed_pods, random_instance, without_starts

EXAMPLES = 100


def holds_for_all(cluster: Cluster, pods: list[Placed]) -> bool:
    return all(
        cluster.accepts(shape, node, pods[:index] + pods[index + 1 :])
        for index, (shape, node, _new) in enumerate(pods)
    )


def random_walk(problem: Problem, seed: int, steps: int) -> Assignment:
    """An assignment after some steps that it allowed."""
    source = random.Random(seed)
    assignment = Assignment(problem)
    for _step in range(steps):
        group = source.randrange(len(problem.groups))
        leaves = source.random() < 0.3
        options = assignment.may_leave(group) if leaves else assignment.room(group) > 0
        if options.any():
            assignment.place(group, int(source.choice(options.nonzero()[0])), -1 if leaves else 1)
    return assignment


@generated
def test_a_node_has_room_exactly_where_the_filters_accept_and_nobody_minds() -> None:
    had_rules, tried = 0, seeds(EXAMPLES)
    for seed in tried:
        instance = without_starts(random_instance(seed))
        problem, cluster = build_problem(instance), Cluster(instance)
        had_rules += problem.relations is not None
        for steps in (0, 3, 9):
            assignment = random_walk(problem, seed, steps)
            pods = placed_pods(assignment)
            for group, its in enumerate(problem.groups):
                room = assignment.room(group)
                for node in assignment.all_nodes.tolist():
                    if assignment.counts[group].sum() == problem.count[group]:
                        continue
                    enough = bool((assignment.free[node] >= problem.request[group]).all())
                    accepted = cluster.accepts(its.shape, node, pods)
                    with_it = [*pods, (its.shape, node, True)]
                    expected = enough and accepted and holds_for_all_but_seeds(cluster, with_it)
                    assert (room[node] > 0) == expected, (seed, steps, group, node)
    assert nearly_all(had_rules, len(tried), 0.8)


def holds_for_all_but_seeds(cluster: Cluster, pods: list[Placed]) -> bool:
    """As holds_for_all, but accepts the first pod of a kind with affinity to itself.

    It was accepted as the first; kube-scheduler would not take it back while others are there.
    """

    def bare(shape: Shape) -> Shape:
        return replace(shape, relations=replace(shape.relations, affinity=None))

    return all(
        cluster.accepts(bare(shape), node, pods[:index] + pods[index + 1 :])
        for index, (shape, node, _new) in enumerate(pods)
    )


@generated
def test_steps_that_are_allowed_keep_every_rule_and_leave_an_order_of_binding() -> None:
    """Rules of several sets of pods together seldom leave no order; the result reports it then."""
    whole, tried = 0, seeds(EXAMPLES)
    for seed in tried:
        instance = random_instance(seed)
        problem = build_problem(instance)
        assignment = random_walk(problem, seed, 25)
        assert assignment.is_feasible(), seed
        free = assignment.counts.copy()
        free[sorted(related_groups(problem))] = 0
        order = [
            place for place in zip(*free.nonzero(), strict=True) for _pod in range(free[place])
        ]
        order += related_steps(problem, assignment.counts)
        is_whole = len(order) == assignment.counts.sum()
        assert is_whole == can_be_bound(assignment), seed
        whole += is_whole
        cluster, bound = Cluster(without_starts(instance)), list[Placed]()
        for group, node in order:
            shape = problem.groups[group].shape
            assert cluster.accepts(shape, node, bound), (seed, group, node)
            bound.append((shape, node, True))
    assert nearly_all(whole, len(tried))


@given(seed=st.integers(min_value=0), steps=st.integers(0, 40))
@examples(150)
def test_counts_that_are_kept_up_to_date_are_those_from_scratch(seed: int, steps: int) -> None:
    problem = build_problem(random_instance(seed))
    assignment = random_walk(problem, seed, steps)
    anew = Assignment(problem, assignment.counts)
    for kept, fresh in zip(topology_counts(assignment), topology_counts(anew), strict=True):
        assert kept == fresh
    assert assignment.free.tolist() == anew.free.tolist()
    assert assignment.rank()[:2] == anew.rank()[:2]
    assert assignment.rank()[2] == pytest.approx(anew.rank()[2])


def topology_counts(assignment: Assignment) -> list[list[int]]:
    related = assignment.related
    return [] if related is None else [counts.tolist() for counts in related.counted]


@given(seed=st.integers(min_value=0), data=st.data())
@examples(150)
def test_what_changes_are_said_to_gain_they_gain(seed: int, data: st.DataObject) -> None:
    problem = build_problem(random_instance(seed))
    assignment = random_walk(problem, seed, 12)
    there = list(zip(*assignment.counts.nonzero(), strict=True))
    if not there:
        return
    group, node = data.draw(st.sampled_from(there))
    target = data.draw(st.sampled_from(assignment.all_nodes.tolist()))
    before = assignment.rank()[2]
    least = data.draw(st.floats(-20.0, 20.0))
    changes = [(int(group), int(node), -1), (int(group), target, 1)]
    changed = assignment.try_changes(changes, least)
    gain = assignment.rank()[2] - before
    assert gain >= least - 1e-6 if changed else gain == pytest.approx(0.0)


@generated
def test_what_is_settled_is_feasible_and_what_was_feasible_stays() -> None:
    for seed in seeds(EXAMPLES):
        problem = build_problem(random_instance(seed, gangs=True))
        source = random.Random(seed)
        assignment = Assignment(problem)
        for _step in range(12):
            group = source.randrange(len(problem.groups))
            room = assignment.fits(group, assignment.all_nodes) & (assignment.left()[group] > 0)
            careless = (problem.limit[group] > assignment.counts[group]) & room
            if careless.any():
                assignment.place(group, int(source.choice(careless.nonzero()[0])))
        result = settled(problem, assignment.counts)
        assert result.is_feasible() and can_be_bound(result), seed
        assert (result.counts <= assignment.counts).all(), seed
        assert settled(problem, result.counts).counts.tolist() == result.counts.tolist(), seed


@generated
def test_changes_are_carried_out_if_the_result_is_feasible_and_else_not_at_all() -> None:
    tried = done = 0
    for seed in seeds(EXAMPLES):
        problem = build_problem(random_instance(seed))
        assignment = random_walk(problem, seed, 12)
        source = random.Random(seed)
        for _attempt in range(10):
            there = list(zip(*assignment.counts.nonzero(), strict=True))
            if not there:
                break
            group, node = map(int, source.choice(there))
            target = source.randrange(len(problem.instance.nodes))
            before = assignment.counts.copy()
            changed = assignment.try_changes([(group, node, -1), (group, target, 1)])
            assert assignment.is_feasible(), seed
            tried, done = tried + 1, done + changed
            if not changed:
                assert assignment.counts.tolist() == before.tolist(), seed
    assert 0.2 * tried < done < tried


@generated
def test_filling_leaves_no_pod_that_a_node_would_take() -> None:
    for seed in seeds(EXAMPLES):
        problem = build_problem(random_instance(seed, gangs=True))
        assignment = filled(problem)
        assert assignment.is_feasible(), seed
        for group, its in enumerate(problem.groups):
            if assignment.left()[group] and not its.shape.relations.gang:
                assert not (assignment.room(group) > 0).any(), (seed, group)
