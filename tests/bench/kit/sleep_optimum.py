# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lower bound on the energy of every schedule that knows the future, boots included.

The relaxation is unit commitment: time is cut into slots, and in each slot a machine is awake for a
share of the time and carries a divisible load of CPU, up to that share. Averages over a slot of any
real schedule are feasible there: the lower convex hull of a power curve is below the mean power
(Jensen), and averaging never adds changes between awake and asleep. So longer slots are weaker, and
still a bound. Pods start when they arrive: a schedule that delays some of them may end below it.
Demand beyond the whole fleet does not count.

The bound does not trust the solver. HiGHS only finds prices of CPU use and of the other resources
for each slot. At any prices the problem falls apart into machines, each of which a dynamic program
over awake and asleep solves exactly; their sum is the bound (Lagrange).
"""

from __future__ import annotations

import itertools
import math
import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.base.libraries import numpy
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.node_functions import (
    lower_hull,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Switching
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.scenario import Scenario
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from ansible_collections.wattwise.kube.plugins.module_utils.solving.linear import LinearModel, solve

if t.TYPE_CHECKING:
    from ansible_collections.wattwise.kube.plugins.module_utils.solving.arrays import Floats

SLOT_SECONDS = 4 * 3600.0
_TIME_LIMIT_SECONDS = 600.0
# The solver sees amounts as shares of the fleet's, and energy in units of this.
_JOULES = 1e6
Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Bound:
    """``joules`` from the start to the end. ``awake[s]`` machines suffice in slot s, as the
    relaxation counts; empty if the solver had no solution."""

    joules: float
    slot_seconds: float
    awake: tuple[float, ...]


@dataclass(frozen=True)
class _Class:
    """Equal machines. ``corners`` are of the hull: CPU use in microcores, watts."""

    number: int
    corners: tuple[tuple[float, float], ...]
    capacity: tuple[float, ...]
    switching: Switching
    may_sleep: bool


@dataclass(frozen=True)
class Relaxation:
    """``use[s]`` in microcores and ``demand[s, r]`` are means over slot s of ``lengths[s]``
    seconds."""

    classes: tuple[_Class, ...]
    lengths: Floats
    use: Floats
    demand: Floats


def lower_bound(
    scenario: Scenario, slot_seconds: float = SLOT_SECONDS, limits: Limits | None = None
) -> Bound:
    """A certified lower bound; weak, but valid, if the solver's time ends. Raises MissingLibrary.

    All machines are awake at the start, as in a replay.
    """
    relaxation = relaxed(scenario, slot_seconds)
    slots, resources = relaxation.demand.shape
    prices, awake = _prices(relaxation, limits or Limits(_TIME_LIMIT_SECONDS))
    if prices is None:
        prices = numpy.zeros((slots, 1 + resources))
    return Bound(certified(relaxation, prices), slot_seconds, awake)


def certified(relaxation: Relaxation, prices: Floats) -> float:
    """The Lagrangian bound in joules at any prices.

    ``prices[s]`` are joules for each microcore of use, then for each unit of the resources, held
    throughout slot s. Negative ones count as 0.
    """
    prices = numpy.maximum(prices, 0.0)
    paid = float((prices[:, 0] * relaxation.use).sum() + (prices[:, 1:] * relaxation.demand).sum())
    least = sum(
        each.number * _cheapest_path(each, relaxation.lengths, prices)
        for each in relaxation.classes
    )
    return max(0.0, paid + least)


def _cheapest_path(machine: _Class, lengths: Floats, prices: Floats) -> float:
    """Least energy less earnings of one machine over all slots, from awake at the start."""
    loads, watts = (numpy.array(column) for column in zip(*machine.corners, strict=True))
    # A linear function over a convex curve is least at a corner.
    running = (lengths[:, None] * watts - prices[:, :1] * loads).min(axis=1)
    running = running - prices[:, 1:] @ numpy.array(machine.capacity)
    sleeping = lengths * machine.switching.standby_watts
    down, up = _down_joules(machine.switching), _up_joules(machine.switching)
    if not machine.may_sleep:
        return float(running.sum())
    awake, asleep = 0.0, math.inf
    for run, sleep in zip(running.tolist(), sleeping.tolist(), strict=True):
        awake, asleep = min(awake, asleep + up) + run, min(asleep, awake + down) + sleep
    return min(awake, asleep)


def _up_joules(switching: Switching) -> float:
    return max(0.0, switching.boot_seconds * (switching.boot_watts - switching.standby_watts))


def _down_joules(switching: Switching) -> float:
    above = switching.shutdown_watts - switching.standby_watts
    return max(0.0, switching.shutdown_seconds * above)


def relaxed(scenario: Scenario, slot_seconds: float) -> Relaxation:
    """The relaxation with slots of this length."""
    problem = scenario.problem
    slots = max(1, math.ceil(scenario.trace.seconds / slot_seconds))
    edges = numpy.minimum(numpy.arange(slots + 1) * slot_seconds, scenario.trace.seconds)
    lengths = numpy.maximum(numpy.diff(edges), 1e-9)
    pods = [
        (pod.arrival, pod.departure, group)
        for pod, group in zip(scenario.trace.pods, scenario.group_of, strict=True)
        if group is not None
    ]
    present = numpy.zeros((slots, len(problem.groups)))
    for arrival, departure, group in pods:
        first = min(int(arrival // slot_seconds), slots - 1)
        last = min(int(departure // slot_seconds), slots - 1)
        starts, ends = edges[first : last + 1], edges[first + 1 : last + 2]
        overlap = numpy.minimum(ends, departure) - numpy.maximum(starts, arrival)
        present[first : last + 1, group] += numpy.maximum(overlap, 0.0)
    present /= lengths[:, None]
    classes = _classes(scenario)
    held = numpy.array(
        [
            sum(_most_of(each, index) for each in classes)
            for index in range(1 + len(problem.resources))
        ]
    )
    return Relaxation(
        classes,
        lengths,
        numpy.minimum(present @ problem.use, held[0]),
        numpy.minimum(present @ problem.request, held[1:]),
    )


def _classes(scenario: Scenario) -> tuple[_Class, ...]:
    problem = scenario.problem
    numbers: dict[tuple[t.Any, ...], int] = {}
    for node, machine in enumerate(scenario.machines):
        capacity = tuple(float(max(0, free)) for free in problem.free[node].tolist())
        key = (
            tuple(_hull(scenario, node)),
            capacity,
            machine.switching,
            not machine.protection,
        )
        numbers[key] = numbers.get(key, 0) + 1
    return tuple(_Class(number, *key) for key, number in numbers.items())


def _hull(scenario: Scenario, node: int) -> Points:
    """Lower hull of the watts over the added use, up to the use that fits on the machine."""
    problem = scenario.problem
    most = float((problem.limit[:, node] * problem.use).sum())
    if "cpu" in problem.resources:
        cpu = problem.resources.index("cpu")
        asked = problem.request[:, cpu]
        # Pods without a request of CPU use none.
        ratio = float((problem.use / numpy.maximum(asked, 1)).max(initial=0.0))
        most = min(most, max(0, int(problem.free[node, cpu])) * ratio)
    base = float(problem.costs.base[node])
    knots = problem.costs.knots[node] - base
    uses = numpy.unique(numpy.concatenate([[0.0, most], knots[(knots > 0) & (knots < most)]]))
    watts = problem.costs.watts(numpy.array([node]), base + uses)
    return lower_hull(list(zip(uses.tolist(), watts.tolist(), strict=True)))


def _prices(relaxation: Relaxation, limits: Limits) -> tuple[Floats | None, tuple[float, ...]]:
    """Prices from the duals of the linear program, and the machines awake in each slot."""
    model = LinearModel()
    lengths = relaxation.lengths.tolist()
    scale = _scales(relaxation)
    rows: list[list[list[tuple[int, float]]]] = [[[] for _resource in scale] for _slot in lengths]
    awake_columns: list[list[int]] = [[] for _slot in lengths]
    for each in relaxation.classes:
        _add_class(model, each, lengths, scale, rows, awake_columns)
    order = []
    for slot, (use, demand) in enumerate(
        zip(relaxation.use.tolist(), relaxation.demand.tolist(), strict=True)
    ):
        for index, amount in enumerate([use, *demand]):
            order.append(model.at_least(rows[slot][index], amount / scale[index]))
    solution = solve(model, limits)
    if not solution.duals:
        return None, ()
    duals = numpy.array([solution.duals[row] for row in order]).reshape(len(lengths), len(scale))
    awake = tuple(sum(solution.values[column] for column in columns) for columns in awake_columns)
    return duals * _JOULES / numpy.array(scale), awake


def _scales(relaxation: Relaxation) -> list[float]:
    """Amounts of the whole fleet: of use, then of each resource."""
    count = 1 + relaxation.demand.shape[1]
    return [
        max(1.0, sum(_most_of(each, index) for each in relaxation.classes))
        for index in range(count)
    ]


def _most_of(machine: _Class, index: int) -> float:
    """Amount that all machines of the class hold: of use (index 0), or of a resource."""
    amount = machine.capacity[index - 1] if index else machine.corners[-1][0]
    return machine.number * amount


def _add_class(
    model: LinearModel,
    machine: _Class,
    lengths: list[float],
    scale: list[float],
    rows: list[list[list[tuple[int, float]]]],
    awake_columns: list[list[int]],
) -> None:
    """Columns of the number awake, of the load of each segment, and of switches, for each slot."""
    switching, number = machine.switching, float(machine.number)
    previous: int | None = None
    for slot, seconds in enumerate(lengths):
        first = machine.corners[0][1]
        cost = seconds * (first - switching.standby_watts) / _JOULES
        awake = model.column(0.0 if machine.may_sleep else number, number, cost)
        awake_columns[slot].append(awake)
        for (left, low), (right, high) in itertools.pairwise(machine.corners):
            width = (right - left) / scale[0]
            load = model.column(0.0, math.inf, seconds * (high - low) / width / _JOULES)
            model.at_most([(load, 1.0), (awake, -width)], 0.0)
            rows[slot][0].append((load, 1.0))
        for index, amount in enumerate(machine.capacity, start=1):
            if amount:
                rows[slot][index].append((awake, amount / scale[index]))
        up = model.column(0.0, math.inf, _up_joules(switching) / _JOULES)
        down = model.column(0.0, math.inf, _down_joules(switching) / _JOULES)
        terms = [(awake, 1.0), (up, -1.0), (down, 1.0)]
        if previous is None:
            model.equal(terms, number)
        else:
            model.equal([*terms, (previous, -1.0)], 0.0)
        previous = awake
