# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""No machine is emptied whose pods would take others above a power limit: they would only wait."""

from __future__ import annotations

from dataclasses import replace

from ..power.limits.domains import Limited, with_limits
from ..power.limits.enforcement import DomainPower
from ..power.model.assignment import Assignment
from .machine import Phase
from .state import Decision, FleetState, PlannedMove, Transition

_REASON = "Its pods would take a rack or the fleet above its limit."


def within_power_limits(state: FleetState, decision: Decision, limited: Limited) -> Decision:
    """The decision without the machines whose moves break a limit, and without their moves."""
    problem = state.assignment.problem
    # The decision has sleeping machines as after their boot, but now they draw nothing.
    nodes = tuple(
        replace(node, ready=node.ready and machine.phase is not Phase.ASLEEP)
        for node, machine in zip(problem.instance.nodes, state.machines)
    )
    instance = with_limits(replace(problem.instance, nodes=nodes), limited)
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


def _carry_out(assignment: Assignment, moves: list[PlannedMove]) -> None:
    for group, source, target in moves:
        assignment.place(group, source, -1)
        assignment.place(group, target, 1)
