# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power limits in the decision: a pod above them would only wait.

Before the decision, ``with_headroom`` closes nodes to pods that alone would break a limit there. So
another machine is woken for them. After it, ``within_power_limits`` leaves machines awake whose pods
together would break one, and ``with_sleepers_told`` says which machines a limit keeps asleep.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..base.libraries import numpy
from ..power.constraints.instance import Instance
from ..power.limits.domains import Limited, with_limits
from ..power.limits.enforcement import DomainPower
from ..power.model.assignment import Assignment
from ..solving.arrays import Booleans
from .machine import Phase
from .state import Decision, FleetState, PlannedMove, Transition

_REASON = "Its pods would take a rack or the fleet above its limit."
_NO_BOOT = "Its idle power would take it, its rack or the fleet above a limit, so it is not woken."
_NO_PODS = "Pods there would take it, its rack or the fleet above a limit, so it is not woken."


def with_headroom(state: FleetState, limited: Limited) -> FleetState:
    """The state whose nodes are closed to pods that alone would take a domain above its limit.

    A pod with no place but those closes no awake machine: others are switched off beside it, which
    makes headroom. A machine that breaks a limit when it idles is not woken.
    """
    problem, now = state.assignment.problem, state.assignment
    instance = _limited_now(state, limited)
    if not instance.domains and not instance.closed:
        return state
    headroom = DomainPower(replace(problem, instance=instance)).headroom(now)
    costs, use = problem.costs, problem.costs.base + now.use
    asleep = numpy.array([one.phase is Phase.ASLEEP for one in state.machines], dtype=bool)
    drawn = numpy.where(asleep, 0.0, costs.watts(now.all_nodes, use))
    takes_pods = numpy.array(
        [one.ready and not one.unschedulable and one.eligible for one in problem.instance.nodes],
        dtype=bool,
    )
    is_closed = numpy.array([one.name in instance.closed for one in instance.nodes], dtype=bool)
    limit = problem.limit.copy()
    for group, added in enumerate(problem.use):
        watts = costs.watts(now.all_nodes, use + added) - drawn
        narrowed = numpy.where((watts <= headroom) & ~is_closed, limit[group], 0)
        has_room = asleep | now.fits(group, now.all_nodes)
        if not narrowed[takes_pods & has_room].any():
            narrowed = numpy.where(asleep, narrowed, limit[group])
        limit[group] = numpy.maximum(narrowed, now.counts[group])
    cannot_boot = asleep & (is_closed | (costs.watts(now.all_nodes, use) > headroom))
    nodes = tuple(
        replace(one, unschedulable=one.unschedulable or bool(is_too_much))
        for one, is_too_much in zip(problem.instance.nodes, cannot_boot)
    )
    problem = replace(problem, limit=limit, instance=replace(problem.instance, nodes=nodes))
    return replace(state, assignment=Assignment(problem, now.counts))


def within_power_limits(state: FleetState, decision: Decision, limited: Limited) -> Decision:
    """The decision without the machines whose moves break a limit, and without their moves."""
    problem = state.assignment.problem
    instance = _limited_now(state, limited)
    if not instance.domains and not instance.closed:
        return decision
    power = DomainPower(replace(problem, instance=instance))
    now = Assignment(problem, state.assignment.counts)
    kept: list[Transition] = []
    stay: list[Transition] = []
    left_out: set[int] = set()
    for transition in decision.switch_off:
        moves = [move for move in decision.moves if move.source == transition.node]
        to_closed = any(instance.nodes[move.target].name in instance.closed for move in moves)
        before = power.excess(now)
        _carry_out(now, moves)
        # A pod that would have come from a machine that stays is not there.
        if to_closed or (now.counts < 0).any() or (power.excess(now) > before).any():
            _carry_out(now, [PlannedMove(one.group, one.target, one.source) for one in moves])
            stay.append(Transition(transition.node, "power_limit", _REASON))
            left_out.add(transition.node)
        else:
            kept.append(transition)
    return replace(
        decision,
        switch_off=tuple(kept),
        moves=tuple(move for move in decision.moves if move.source not in left_out),
        stay=(*decision.stay, *stay),
    )


def with_sleepers_told(
    state: FleetState,
    narrowed: FleetState,
    decision: Decision,
    decide_without: t.Callable[[], Decision],
) -> Decision:
    """The decision with the limit as the reason of each machine that sleeps because of it.

    ``narrowed`` is the state ``with_headroom``, and ``decide_without`` decides without limits.
    """
    before, after = state.assignment.problem, narrowed.assignment.problem
    is_narrower: Booleans = before.limit > after.limit
    closed = is_narrower.sum(axis=0)
    reasons: dict[int, str] = {}
    for one in decision.stay:
        nodes = before.instance.nodes[one.node], after.instance.nodes[one.node]
        if one.word == "asleep" and nodes[1].unschedulable and not nodes[0].unschedulable:
            reasons[one.node] = _NO_BOOT
        elif one.word == "asleep" and closed[one.node] > 0:
            reasons[one.node] = _NO_PODS
    if not reasons or reasons.keys().isdisjoint(one.node for one in decide_without().wake):
        return decision
    stay = (
        Transition(one.node, "power_limit", reasons[one.node]) if one.node in reasons else one
        for one in decision.stay
    )
    return replace(decision, stay=tuple(stay))


def _limited_now(state: FleetState, limited: Limited) -> Instance:
    """The instance with its limits, in which sleeping machines draw nothing.

    The decision has them as after their boot.
    """
    instance = state.assignment.problem.instance
    nodes = tuple(
        replace(node, ready=node.ready and machine.phase is not Phase.ASLEEP)
        for node, machine in zip(instance.nodes, state.machines)
    )
    return with_limits(replace(instance, nodes=nodes), limited)


def _carry_out(assignment: Assignment, moves: list[PlannedMove]) -> None:
    for group, source, target in moves:
        assignment.place(group, source, -1)
        assignment.place(group, target, 1)
