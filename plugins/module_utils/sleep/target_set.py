# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The set of awake machines that costs the least energy over the expected sleep.

Fluid local search: the present demand and the reserve are amounts that can be divided among
machines. The power draw of a set is that of its idle machines, and of its load on the cheapest
segments of their curves first. Changes have prices: boots, cycles with their wear, evictions. The
search begins with the machines that are awake; it drops, adds and exchanges machines as long as
that pays within the horizon.

Axes: M candidate sets, N nodes, R resources, L segments of all curves by ascending slope.
"""

from __future__ import annotations

import itertools
import typing as t
from dataclasses import dataclass

from ..base.libraries import numpy

if t.TYPE_CHECKING:
    from ..solving.arrays import Booleans, Floats, Integers
    from .fleet import Fleet

# Machines of each kind of change that are tried in exchanges; fewer in large fleets, where more
# machines are alike.
_SHORTLIST = 10
_SHORTLIST_IN_LARGE = 5
_LARGE = 200
_MAX_ITERATIONS = 60
_LEAST_GAIN_JOULES = 1.0
# Room that whole pods leave unused on full machines.
FRAGMENTATION = 0.03
# Segments of a curve; more make the search slower and hardly better.
_SEGMENTS = 6


@dataclass(frozen=True)
class Segments:
    """Convex segments of curves by ascending slope: width in microcores, slope in watts each."""

    node: Integers
    width: Floats
    slope: Floats


@dataclass(frozen=True)
class Task:
    """``need[r]`` must fit on the set; ``use`` microcores run on it.

    ``locked_in`` and ``locked_out`` are machines about which the search must not decide.
    ``price_out`` and ``price_in`` are joules of leaving and of entering the set.
    """

    fleet: Fleet
    segments: Segments
    use: float
    need: Floats
    horizon: float
    present: Booleans
    locked_in: Booleans
    locked_out: Booleans
    price_out: Floats
    price_in: Floats

    def is_enough(self, sets: Booleans) -> Booleans:
        """Whether each set (M, N) has room for the need."""
        room = sets @ self.fleet.amounts.capacity.clip(0.0)
        is_enough: Booleans = (room >= self.need - 1e-6).all(axis=1)
        return is_enough

    def joules(self, sets: Booleans) -> Floats:
        """Energy and prices of each set (M, N) over the horizon; infinite without enough room."""
        fleet, segments = self.fleet, self.segments
        idle = sets @ fleet.idle_watts + ~sets @ fleet.standby_watts
        widths = sets[:, segments.node] * segments.width
        before = numpy.cumsum(widths, axis=1) - widths
        taken = numpy.clip(self.use - before, 0.0, widths)
        watts = idle + taken @ segments.slope
        prices = (sets & ~self.present) @ self.price_in + (self.present & ~sets) @ self.price_out
        return numpy.where(self.is_enough(sets), watts * self.horizon + prices, numpy.inf)

    def values(self, chosen: Booleans) -> Floats:
        """Joules that each machine alone would save by changing sides, at the margin's price."""
        segments = self.segments
        widths = chosen[segments.node] * segments.width
        before = numpy.cumsum(widths) - widths
        margin = int(numpy.searchsorted(before, self.use)) - 1
        price = segments.slope[max(0, min(margin, len(segments.slope) - 1))] if len(before) else 0.0
        worth = numpy.bincount(
            segments.node,
            weights=numpy.maximum(0.0, price - segments.slope) * segments.width,
            minlength=len(chosen),
        )
        fleet = self.fleet
        saved = (fleet.idle_watts - fleet.standby_watts - worth) * self.horizon
        leave = saved - numpy.where(self.present, self.price_out, -self.price_in)
        enter = -saved - numpy.where(self.present, -self.price_out, self.price_in)
        return numpy.where(chosen, leave, enter)


def segments_of(fleet: Fleet, use_per_cpu: float) -> Segments:
    """Lower hulls of all curves, from the use without pods to that of a full node."""
    costs, amounts = fleet.problem.costs, fleet.amounts
    base = costs.base.astype(float)
    full = costs.knots[:, -1]
    if "cpu" in amounts.names and use_per_cpu > 0:
        cpu = amounts.capacity[:, amounts.names.index("cpu")].clip(0.0)
        full = base + cpu * use_per_cpu
    width = (full - base).clip(0.0) / _SEGMENTS
    uses = base[:, None] + width[:, None] * numpy.arange(_SEGMENTS + 1)
    watts = costs.watts(fleet.state.assignment.all_nodes[:, None], uses)
    slopes = _hull_slopes(numpy.diff(watts, axis=1)) / numpy.maximum(width, 1e-9)[:, None]
    order = numpy.argsort(slopes, axis=None, kind="stable")
    return Segments(order // _SEGMENTS, width[order // _SEGMENTS], slopes.ravel()[order])


def _hull_slopes(rises: Floats) -> Floats:
    """Rises of the lower convex hull over steps of equal width, by the min-max formula of isotonic
    regression: the largest over starts of the smallest over ends of the mean rise in between."""
    steps = rises.shape[1]
    total = numpy.concatenate([numpy.zeros((len(rises), 1)), numpy.cumsum(rises, axis=1)], axis=1)
    start, end = numpy.arange(steps)[:, None], numpy.arange(steps)[None, :] + 1
    length = end - start
    mean = (total[:, None, 1:] - total[:, :-1, None]) / numpy.maximum(length, 1)
    mean = numpy.where(length > 0, mean, numpy.inf)
    least = numpy.minimum.accumulate(mean[:, :, ::-1], axis=2)[:, :, ::-1]
    slopes: Floats = numpy.where(length > 0, least, -numpy.inf).max(axis=1)
    return slopes


def target_set(task: Task) -> Booleans:
    """The machines that should be awake; all that may be, if even they have too little room."""
    chosen = (task.present | task.locked_in) & ~task.locked_out
    chosen = _enlarged(task, chosen)
    if not task.is_enough(chosen[None])[0]:
        return chosen
    chosen = _reduced(task, chosen)
    best = float(task.joules(chosen[None])[0])
    for _iteration in range(_MAX_ITERATIONS):
        sets = _neighbours(task, chosen)
        if not len(sets):
            break
        joules = task.joules(sets)
        index = int(joules.argmin())
        if not joules[index] < best - _LEAST_GAIN_JOULES:
            break
        best, chosen = float(joules[index]), sets[index]
    return chosen


def _enlarged(task: Task, chosen: Booleans) -> Booleans:
    """With further machines, the cheapest for the missing room first."""
    capacity = task.fleet.amounts.capacity.clip(0.0)
    while True:
        missing = numpy.maximum(0.0, task.need - chosen @ capacity - 1e-6)
        others = ~chosen & ~task.locked_out
        if not missing.any() or not others.any():
            return chosen
        share = numpy.minimum(capacity, missing)[:, missing > 0] / missing[missing > 0]
        helped = share.sum(axis=1)
        if not (helped[others] > 0).any():
            return chosen
        joules = -task.values(chosen)
        cost = (joules - min(0.0, joules[others].min()) + 1.0) / numpy.maximum(helped, 1e-12)
        node = int(numpy.where(others, cost, numpy.inf).argmin())
        chosen = chosen.copy()
        chosen[node] = True


def _reduced(task: Task, chosen: Booleans) -> Booleans:
    """Without machines that are not worth it, many at a time as long as that pays."""
    step = len(chosen) // 4
    best = float(task.joules(chosen[None])[0])
    while step > 2:
        values = numpy.where(chosen & ~task.locked_in, task.values(chosen), -numpy.inf)
        order = numpy.argsort(-values, kind="stable")[:step]
        smaller = chosen.copy()
        smaller[order[values[order] > 0]] = False
        joules = float(task.joules(smaller[None])[0])
        if joules < best - _LEAST_GAIN_JOULES:
            best, chosen = joules, smaller
        else:
            step //= 2
    return chosen


def _neighbours(task: Task, chosen: Booleans) -> Booleans:
    """Sets that differ by up to two machines on one side and one on the other."""
    values = task.values(chosen)
    size = _SHORTLIST if len(chosen) <= _LARGE else _SHORTLIST_IN_LARGE
    out = _shortlist(task, values, chosen & ~task.locked_in, size)
    into = _shortlist(task, values, ~chosen & ~task.locked_out, size)
    changes: list[tuple[int, ...]] = [(node,) for node in (*out, *into)]
    changes += itertools.product(out, into)
    if len(chosen) <= _LARGE:  # large fleets have machines of all sizes, so that pairs are enough
        changes += [(*pair, node) for pair in itertools.combinations(out, 2) for node in into[:4]]
        changes += [(*pair, node) for pair in itertools.combinations(into, 2) for node in out[:4]]
    sets = numpy.repeat(chosen[None], len(changes), axis=0)
    rows = numpy.repeat(numpy.arange(len(changes)), [len(change) for change in changes])
    sets[rows, [*itertools.chain.from_iterable(changes)]] ^= True
    return sets


def _shortlist(task: Task, values: Floats, open_to: Booleans, size: int) -> list[int]:
    """The machines with the best values, and those with the best for their room; no two alike."""
    nodes = open_to.nonzero()[0]
    capacity = task.fleet.amounts.capacity.clip(0.0)
    share = (capacity / numpy.maximum(capacity.sum(axis=0), 1e-9)).max(axis=1, initial=1e-12)
    found: dict[t.Any, int] = {}
    for worth in (values, values / share):
        before = len(found)
        for node in nodes[numpy.argsort(-worth[nodes], kind="stable")].tolist():
            found.setdefault((round(float(values[node]), 3), *capacity[node].tolist()), node)
            if len(found) - before >= (size + 1) // 2:
                break
    return list(found.values())
