# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision: which machines sleep, and the properties that no demand may break."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.power.constraints.instance import (
    Instance,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits.domains import Limited
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits.options import PowerLimits
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import (
    Problem,
    build_problem,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curve
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import Node, Pod, Shape
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.decision import decide
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.demand import DAY, Demand
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import (
    Machine,
    Phase,
    Switching,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.power_limits import (
    with_headroom,
    with_sleepers_told,
    within_power_limits,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.rules import SleepRules
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.state import (
    Budget,
    Decision,
    FleetState,
)

NOW = 1_700_000_000.0
CORES = (2, 4, 16)
SWITCHING = Switching(boot_seconds=200, boot_watts=200, shutdown_watts=100, standby_watts=8)
EAGER = SleepRules(reserve_share=0.0, min_awake=0, max_share=1.0, min_awake_seconds=0)


def problem_of(machines: int, pods: t.Sequence[int], cores: int = 32) -> Problem:
    """Equal machines; ``pods[g]`` pods may come of each size of CORES."""
    curve = Curve((0.0, float(cores)), (100.0, 300.0))
    nodes = tuple(
        Node(f"n{index}", {"cpu": 1000 * cores, "pods": 110}, curve=curve)
        for index in range(machines)
    )
    shapes = [Shape((("cpu", 1000 * size), ("pods", 1)), 800_000 * size) for size in CORES]
    every = [
        Pod("shop", f"{size}-{index}", shape)
        for size, shape, count in zip(CORES, shapes, pods, strict=True)
        for index in range(count)
    ]
    return build_problem(Instance(nodes, tuple(every)))


def state_of(
    counts: t.Sequence[t.Sequence[int]],
    waiting: t.Sequence[int] = (0, 0, 0),
    phases: t.Sequence[Phase] = (),
    waited: float = 60.0,
    **machine: t.Any,
) -> FleetState:
    """``counts[g][n]`` pods of each size on each machine; all machines are awake by default."""
    table = numpy.array(counts, dtype=numpy.int64)
    machines = table.shape[1]
    # Each size has a pod more than there are, so that every size is a group.
    problem = problem_of(machines, (table.sum(axis=1) + waiting + 1).tolist())
    phases = [*phases, *[Phase.AWAKE] * (machines - len(phases))]
    every = tuple(
        Machine(
            f"n{index}", SWITCHING, phase, deadline=NOW + 200 if phase is Phase.WAKING else None
        )
        for index, phase in enumerate(phases)
    )
    return FleetState(
        tuple(replace(each, **machine) for each in every),
        Assignment(problem, table),
        table.copy(),
        numpy.array(waiting, dtype=numpy.int64),
        numpy.where(numpy.array(waiting) > 0, waited, 0.0),
        numpy.full(len(CORES), 30e3),
    )


def nodes(transitions: t.Iterable[t.Any]) -> list[int]:
    return [transition.node for transition in transitions]


def decided(state: FleetState, rules: SleepRules = EAGER, now: float = NOW) -> Decision:
    return decide(state, Demand(NOW - DAY), rules, now)


def test_empty_machines_that_nothing_needs_are_switched_off_and_say_why() -> None:
    decision = decided(state_of([[4, 0, 0], [0, 0, 0], [0, 0, 0]]))
    assert nodes(decision.switch_off) == [1, 2] and not decision.wake and not decision.moves
    assert decision.switch_off[0].word == "not_needed"
    assert nodes(decision.stay) == [0] and decision.stay[0].reason.endswith(".")


def test_each_machine_appears_exactly_once() -> None:
    state = state_of([[4, 1, 0], [0, 1, 0], [1, 0, 0]], phases=[Phase.AWAKE, Phase.AWAKE])
    decision = decided(state, SleepRules())
    every = (*decision.wake, *decision.switch_off, *decision.avoid, *decision.stay)
    assert sorted(nodes(every)) == [0, 1, 2]


def test_a_small_pod_moves_where_the_sleep_repays_it() -> None:
    state = state_of([[0, 1], [0, 0], [1, 0]])
    state = replace(state, eviction_joules=numpy.array([30e3, 30e3, 300e3]))
    decision = decided(state)
    assert nodes(decision.switch_off) == [1]
    assert decision.moves == ((0, 1, 0),)


def test_a_machine_stays_whose_pods_would_take_another_above_its_power_limit() -> None:
    state = state_of([[0, 1], [0, 0], [1, 0]])
    state = replace(state, eviction_joules=numpy.array([30e3, 30e3, 300e3]))
    decision = decided(state)
    # The other machine draws 180 W, and the pod adds 10 W.
    enough = Limited(PowerLimits(node_watts={"*": 191.0}))
    assert within_power_limits(state, decision, enough) == decision
    limited = within_power_limits(state, decision, Limited(PowerLimits(node_watts={"*": 189.0})))
    assert not limited.switch_off and not limited.moves
    assert (nodes(limited.stay)[-1], limited.stay[-1].word) == (1, "power_limit")


def test_sleeping_machines_take_none_of_the_power_of_their_rack() -> None:
    phases = [Phase.AWAKE, Phase.AWAKE, Phase.ASLEEP]
    state = state_of([[0, 1, 0], [0, 0, 0], [1, 0, 0]], phases=phases)
    state = replace(state, eviction_joules=numpy.array([30e3, 30e3, 300e3]))
    decision = decided(state)
    assert nodes(decision.switch_off) == [1]
    # Both draw 290 W with their pods; all three would draw 300 W without any.
    enough = Limited(PowerLimits(fleet_watts=295.0))
    assert within_power_limits(state, decision, enough) == decision


def in_racks(state: FleetState, racks: str) -> FleetState:
    problem = state.assignment.problem
    named = [
        replace(node, labels={"topology.kubernetes.io/rack": rack})
        for node, rack in zip(problem.instance.nodes, racks, strict=True)
    ]
    problem = replace(problem, instance=replace(problem.instance, nodes=tuple(named)))
    return replace(state, assignment=Assignment(problem, state.assignment.counts))


@pytest.mark.parametrize("counts", [[[0] * 3, [0] * 3, [1, 0, 0]], [[8, 0, 0], [0] * 3, [0] * 3]])
def test_a_pod_that_its_rack_has_no_power_for_wakes_a_machine_of_another_rack(
    counts: list[list[int]],
) -> None:
    """Whether or not pods of its kind run there already."""
    phases = [Phase.AWAKE, Phase.ASLEEP, Phase.ASLEEP]
    state = in_racks(state_of(counts, (1, 0, 0), phases), "aab")
    assert decided(state).wake == ()
    # The awake machine draws 180 W, and the pod would add 10 W there, or 110 W after a boot.
    limits = PowerLimits(rack_watts={"a": 185.0, "b": 120.0})
    assert nodes(decided(with_headroom(state, Limited(limits))).wake) == [2]
    enough = PowerLimits(rack_watts={"a": 190.0, "b": 120.0})
    assert decided(with_headroom(state, Limited(enough))).wake == ()


@pytest.mark.parametrize(("watts", "woken"), [(109.0, []), (110.0, [1])])
def test_no_machine_is_woken_whose_rack_has_no_power_for_it(watts: float, woken: list[int]) -> None:
    phases = [Phase.AWAKE, Phase.ASLEEP]
    state = in_racks(state_of([[0, 0], [0, 0], [2, 0]], (1, 0, 0), phases), "ab")
    limits = Limited(PowerLimits(rack_watts={"b": watts}))
    assert nodes(decided(state).wake) == [1]
    narrowed = with_headroom(state, limits)
    found = with_sleepers_told(state, narrowed, decided(narrowed), lambda: decided(state))
    assert nodes(found.wake) == woken
    told = [one.reason for one in found.stay if one.word == "power_limit"]
    why = "Pods there would take it, its rack or the fleet above a limit, so it is not woken."
    assert told == ([] if woken else [why])


@pytest.mark.parametrize("watts", [{"a": 185.0, "b": 105.0}, {"a": 185.0}])
def test_a_pod_without_power_or_room_elsewhere_keeps_no_machine_awake(
    watts: dict[str, float],
) -> None:
    full = 2 if "b" not in watts else 0
    state = in_racks(state_of([[0, 0, 0], [0, 0, 0], [1, full, 0]], (1, 0, 0)), "aba")
    limits = Limited(PowerLimits(rack_watts=watts))
    assert 2 in nodes(decided(state).switch_off)
    assert decided(with_headroom(state, limits)) == decided(state)


def test_dear_evictions_leave_a_machine_to_departures() -> None:
    state = replace(state_of([[0, 1], [1, 0], [1, 0]]), eviction_joules=numpy.full(3, 1e9))
    decision = decided(state)
    assert not decision.switch_off and not decision.moves
    assert nodes(decision.avoid) == [1] and decision.avoid[0].word == "price"


@pytest.mark.parametrize("fixed", ["movable", "budget"])
def test_pods_that_may_not_be_evicted_keep_their_machine(fixed: str) -> None:
    state = state_of([[0, 2], [0, 0], [1, 0]])
    if fixed == "movable":
        state = replace(state, movable=state.movable * 0)
    else:
        state = replace(state, budgets=(Budget(frozenset({0, 2}), 0),))
    decision = decided(state)
    assert not decision.switch_off and not decision.moves


def test_waiting_pods_wake_no_more_than_they_need() -> None:
    asleep = [Phase.ASLEEP] * 3
    decision = decided(state_of([[0] * 3] * 3, waiting=(0, 0, 3), phases=asleep))
    assert len(decision.wake) == 2 and decision.wake[0].word == "waiting_pods"


def test_room_of_a_boot_that_runs_is_not_woken_twice() -> None:
    phases = [Phase.WAKING, Phase.ASLEEP, Phase.ASLEEP]
    assert not decided(state_of([[0] * 3] * 3, (0, 0, 2), phases)).wake
    assert len(decided(state_of([[0] * 3] * 3, (0, 0, 3), phases)).wake) == 1


def test_a_late_boot_is_no_room() -> None:
    state = state_of([[0] * 2] * 3, (0, 0, 1), [Phase.WAKING, Phase.ASLEEP])
    assert nodes(decided(state, now=NOW + 300).wake) == [1]


def test_a_pod_that_waited_long_wakes_the_machine_that_boots_faster() -> None:
    state = state_of([[0] * 2] * 3, (1, 0, 0), [Phase.ASLEEP] * 2)
    slow = replace(SWITCHING, boot_seconds=600, boot_watts=50)
    state = replace(state, machines=(replace(state.machines[0], switching=slow), state.machines[1]))
    assert nodes(decided(state).wake) == [0]
    state = replace(state, waited=numpy.array([400.0, 0, 0]))
    assert nodes(decided(state).wake) == [1]


def test_moves_make_room_for_a_waiting_pod_where_room_is_scattered() -> None:
    state = state_of(
        [[0, 0, 0], [5, 5, 0], [0, 0, 0]], (0, 0, 1), [Phase.AWAKE] * 2 + [Phase.ASLEEP]
    )
    decision = decided(state, replace(EAGER, wear_joules=1e6))
    assert len(decision.moves) == 1 and not nodes(decision.switch_off)


@pytest.mark.parametrize(
    ("counts", "waiting"),
    [
        # Both wait for the room on n0: a pod of n1 moves to n2, and n1 takes the other one.
        ([[0, 1, 1, 0], [4, 0, 3, 0], [0, 1, 1, 0]], (0, 0, 2)),
        ([[0, 1, 1, 0], [4, 3, 3, 0], [0, 1, 1, 0]], (0, 1, 1)),
    ],
)
def test_room_of_one_waiting_pod_is_none_for_another(
    counts: list[list[int]], waiting: tuple[int, int, int]
) -> None:
    state = state_of(counts, waiting, [Phase.AWAKE] * 3 + [Phase.ASLEEP])
    decision = decided(state, replace(EAGER, wear_joules=1e6))
    assert decision.moves == ((0, 1, 2),)
    assert not decision.wake and not decision.switch_off


@pytest.mark.parametrize(("idle_watts", "woken"), [(500.0, [1]), (110.0, [])])
def test_a_better_machine_wakes_only_if_that_repays_its_price(
    idle_watts: float, woken: list[int]
) -> None:
    state = state_of([[0, 0], [4, 0], [0, 0]], phases=[Phase.AWAKE, Phase.ASLEEP])
    instance = state.assignment.problem.instance
    worse = replace(instance.nodes[0], curve=Curve((0.0, 32.0), (idle_watts, idle_watts + 200)))
    problem = build_problem(replace(instance, nodes=(worse, instance.nodes[1])))
    state = replace(state, assignment=Assignment(problem, state.assignment.counts))
    assert nodes(decided(state).wake) == woken


def test_the_reserve_wakes_machines_and_one_larger_than_the_fleet_wakes_all() -> None:
    state = state_of([[0] * 3, [8, 0, 0], [0] * 3], phases=[Phase.AWAKE] + [Phase.ASLEEP] * 2)
    assert len(decided(state, replace(EAGER, reserve_share=0.5)).wake) == 1
    decision = decided(state, replace(EAGER, reserve_share=100.0))
    assert nodes(decision.wake) == [1, 2]
    assert "larger than the fleet" in decision.notes[0]


def recurring_pod_of(cores: int) -> Demand:
    """A demand of more than a week with such a pod every ten minutes."""
    demand = Demand(NOW - 8 * DAY)
    for index in range(1, 100):
        demand.arrived(NOW - DAY + index * 600.0, {"cpu": 1000.0 * cores})
        demand.departed(NOW - DAY + index * 600.0 + 60.0, {"cpu": 1000.0 * cores})
    return demand


@pytest.mark.parametrize(("idle_watts", "woken"), [(500.0, [3]), (110.0, [])])
def test_a_better_machine_wakes_for_the_largest_pod_if_that_repays_its_price(
    idle_watts: float, woken: list[int]
) -> None:
    state = state_of(
        [[1, 1, 0, 0], [2, 2, 0, 0], [0, 0, 0, 0]], phases=[Phase.AWAKE] * 3 + [Phase.ASLEEP]
    )
    instance = state.assignment.problem.instance
    worse = replace(instance.nodes[2], curve=Curve((0.0, 32.0), (idle_watts, idle_watts + 200)))
    nodes_with_it = (*instance.nodes[:2], worse, instance.nodes[3])
    problem = build_problem(replace(instance, nodes=nodes_with_it))
    state = replace(state, assignment=Assignment(problem, state.assignment.counts))
    decision = decide(state, recurring_pod_of(24), EAGER, NOW)
    assert nodes(decision.wake) == woken and not decision.switch_off
    assert all(each.word == "exchange" for each in decision.wake)


def test_of_two_machines_that_hold_the_reserve_the_better_one_stays() -> None:
    state = state_of([[1, 1, 0, 0], [2, 2, 0, 0], [0, 0, 0, 0]])
    instance = state.assignment.problem.instance
    worse = replace(instance.nodes[3], curve=Curve((0.0, 32.0), (500.0, 700.0)))
    problem = build_problem(replace(instance, nodes=(*instance.nodes[:3], worse)))
    state = replace(state, assignment=Assignment(problem, state.assignment.counts))
    decision = decide(state, recurring_pod_of(24), EAGER, NOW)
    assert nodes(decision.switch_off) == [3] and not decision.wake


def test_a_machine_that_the_reserve_keeps_takes_the_work_of_another() -> None:
    # 44 cores fit on two machines, but the largest pod of 24 cores only on the empty one.
    state = state_of([[1, 1, 0], [2, 2, 0], [0, 0, 0]])
    state = replace(state, eviction_joules=numpy.full(3, 1e9))
    decision = decide(state, recurring_pod_of(24), EAGER, NOW)
    assert not decision.moves and not decision.switch_off and not decision.wake
    words = {each.node: each.word for each in decision.avoid}
    assert words.pop(2) == "slot"
    assert list(words.values()) == ["departures"]


def test_the_reserve_gets_machines_beside_those_that_waiting_pods_wake() -> None:
    full = state_of(
        [[0, 0, 0], [0, 0, 0], [2, 0, 0]],
        waiting=(0, 0, 1),
        phases=[Phase.AWAKE, Phase.ASLEEP, Phase.ASLEEP],
    )
    decision = decided(full, replace(EAGER, reserve_share=0.9))
    assert sorted(nodes(decision.wake)) == [1, 2]
    assert {each.word for each in decision.wake} == {"waiting_pods", "reserve"}


def test_a_machine_that_takes_no_pods_does_not_meet_a_floor() -> None:
    state = state_of([[0, 0, 0]] * 3, phases=[Phase.AWAKE, Phase.AWAKE, Phase.ASLEEP])
    problem = state.assignment.problem
    unready = [replace(node, ready=node.name != "n1") for node in problem.instance.nodes]
    instance = replace(problem.instance, nodes=tuple(unready))
    assignment = Assignment(replace(problem, instance=instance), state.assignment.counts)
    decision = decided(replace(state, assignment=assignment), replace(EAGER, min_awake=2))
    assert [each.word for each in decision.wake] == ["floor"]


@pytest.mark.parametrize(
    "options", [{"min_awake": 2.0}, {"min_awake_by_zone": {"a": 1.5}}, {"interval_seconds": 0.0}]
)
def test_rules_that_would_fail_later_are_refused(options: dict[str, t.Any]) -> None:
    with pytest.raises(InvalidInput, match="sleep rules"):
        SleepRules(**options)


def test_floors_keep_machines_of_a_zone_awake() -> None:
    state = state_of([[0] * 3] * 3, zone="a")
    rules = replace(EAGER, min_awake_by_zone={"a": 2})
    assert len(decided(state, rules).switch_off) == 1
    assert len(decided(state, replace(EAGER, min_awake=5)).switch_off) == 0


def test_a_floor_above_the_awake_machines_wakes_further_ones() -> None:
    state = state_of([[0] * 3] * 3, phases=[Phase.ASLEEP] * 3, rack="r1")
    assert len(decided(state, replace(EAGER, min_awake=2)).wake) == 2
    assert len(decided(state, replace(EAGER, min_awake_by_rack={"r1": 1})).wake) == 1


def test_the_clock_that_jumps_backwards_switches_nothing_off_too_often() -> None:
    state = state_of([[0] * 2] * 3, since=NOW + 1e6, switched_off=(NOW + 5e5,) * 4)
    assert not decided(state).switch_off
    with pytest.raises(InvalidInput, match="seconds since the epoch"):
        decided(state, now=float("nan"))


def test_a_fleet_without_machines_has_no_decision() -> None:
    problem = build_problem(Instance((), ()))
    empty = numpy.zeros(0, dtype=numpy.int64)
    table = numpy.zeros((0, 0), dtype=numpy.int64)
    state = FleetState((), Assignment(problem), table, empty, empty.astype(float), numpy.zeros(0))
    assert decided(state) == Decision()


@pytest.mark.parametrize("waiting", [0, 1])
def test_pods_and_machines_without_resources_have_a_decision(waiting: int) -> None:
    nodes_without = tuple(
        replace(node, free={}) for node in problem_of(2, (0, 0, 0)).instance.nodes
    )
    every = tuple(Pod("shop", str(index), Shape((), 0)) for index in range(2))
    problem = build_problem(Instance(nodes_without, every))
    counts = numpy.array([[1, 0]])
    state = FleetState(
        tuple(Machine(node.name, SWITCHING) for node in nodes_without),
        Assignment(problem, counts),
        counts,
        numpy.array([waiting]),
        numpy.zeros(1),
        numpy.zeros(1),
    )
    assert nodes(decided(state).switch_off) == [0]


PHASES = st.sampled_from(list(Phase))
STATES = st.tuples(
    st.lists(st.lists(st.integers(0, 1), min_size=4, max_size=4), min_size=3, max_size=3),
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
    st.lists(PHASES, min_size=4, max_size=4),
    st.lists(st.integers(0, 6), min_size=4, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
)
RULES = st.builds(
    SleepRules,
    reserve_share=st.sampled_from([0.0, 0.1, 2.0]),
    max_cycles_a_day=st.integers(0, 4),
    min_awake=st.integers(0, 6),
    min_awake_seconds=st.sampled_from([0.0, 1800.0]),
    max_share=st.sampled_from([0.0, 0.5, 1.0]),
    horizon_seconds=st.sampled_from([0.0, 3600.0, 1e6]),
    wear_joules=st.sampled_from([0.0, 50e3]),
)


def drawn_state(drawn: t.Any) -> FleetState:
    counts, waiting, phases, cycles, protected = drawn
    table = numpy.array(counts) * [phase is Phase.AWAKE for phase in phases]
    state = state_of(table.tolist(), waiting, phases)
    machines = tuple(
        replace(
            machine,
            switched_off=tuple(NOW - 3600.0 * (index + 1) for index in reversed(range(number))),
            protection="It is protected." if kept else "",
        )
        for machine, number, kept in zip(state.machines, cycles, protected, strict=True)
    )
    return replace(state, machines=machines)


@settings(deadline=None, max_examples=60)
@given(STATES, RULES)
def test_no_state_switches_a_protected_machine_or_one_too_often(
    drawn: t.Any, rules: SleepRules
) -> None:
    state = drawn_state(drawn)
    decision = decided(state, rules)
    every = (*decision.wake, *decision.switch_off, *decision.avoid, *decision.stay)
    assert sorted(nodes(every)) == list(range(len(state.machines)))
    assert all(each.word and each.reason.endswith(".") for each in every)
    for node in nodes((*decision.wake, *decision.switch_off)):
        assert not state.machines[node].protection
    for node in nodes(decision.switch_off):
        machine = state.machines[node]
        assert machine.phase is Phase.AWAKE
        assert len(machine.switched_off) < rules.max_cycles_a_day
    for node in nodes(decision.wake):
        assert state.machines[node].phase is Phase.ASLEEP


@settings(deadline=None, max_examples=60)
@given(STATES, RULES)
def test_moves_are_feasible_in_their_order_and_empty_the_machines(
    drawn: t.Any, rules: SleepRules
) -> None:
    state = drawn_state(drawn)
    decision = decided(state, rules)
    assignment = Assignment(state.assignment.problem, state.assignment.counts)
    for group, source, target in decision.moves:
        assert state.machines[target].phase is Phase.AWAKE
        assert assignment.try_changes([(group, source, -1), (group, target, 1)])
    for node in nodes(decision.switch_off):
        assert not assignment.counts[:, node].any()


@settings(deadline=None, max_examples=30)
@given(STATES, RULES)
def test_the_same_state_gives_the_same_decision_and_stays_as_it_was(
    drawn: t.Any, rules: SleepRules
) -> None:
    state = drawn_state(drawn)
    before = state.assignment.counts.copy()
    assert decided(state, rules) == decided(state, rules)
    assert (state.assignment.counts == before).all()
