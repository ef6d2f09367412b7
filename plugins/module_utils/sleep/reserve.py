# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The reserve: room that awake machines keep for pods that arrive within one boot.

It has shapes, so that it fits on real nodes: the largest recurring pod, and the rest of the growth
in pods of typical size, apart for each set of devices.
"""

from __future__ import annotations

import math
import typing as t

from ..base.libraries import numpy
from .demand import WEEK, Demand, Quantiles
from .room import Amounts, Shape

if t.TYPE_CHECKING:
    from ..solving.arrays import Floats
    from .rules import SleepRules

_MAX_PIECES = 1000


def reserve_of(
    amounts: Amounts,
    present: Floats,
    demand: Demand,
    rules: SleepRules,
    now: float,
    boot_seconds: float,
) -> list[Shape]:
    """Shapes that must fit beside the pods, the largest first.

    ``present[r]`` are the requests of all pods. Growth counts from one decision to the end of a
    boot that the next one begins.
    """
    window = boot_seconds + rules.interval_seconds
    largest_machine = amounts.capacity.max(axis=0, initial=0.0).tolist()
    machine = tuple(sorted(zip(amounts.names, largest_machine)))
    quantiles = Quantiles(rules.reserve_quantile, rules.largest_quantile, machine)
    shapes: list[Shape] = []
    stated = numpy.zeros(len(amounts.names))
    if demand.seconds_before(now) < WEEK:
        stated = present * rules.reserve_share
    for growth in demand.growth(now, window, quantiles):
        total, largest = amounts.vector(growth.total), amounts.vector(growth.largest)
        if not growth.devices:
            total, stated = numpy.maximum(total, stated), numpy.zeros_like(stated)
        if (amounts.capacity >= largest).all(axis=1).any():  # others would wait for ever
            shapes.append(Shape(largest, 1))
            total = total - largest
        shapes += _pieces(total, amounts.vector(growth.typical), amounts)
    if stated.any():
        shapes += _pieces(stated, stated / 10, amounts)
    return sorted(shapes, key=lambda shape: -_size(shape.requests, amounts))


def amounts_of(reserve: t.Iterable[Shape], amounts: Amounts) -> dict[str, float]:
    """The amounts of a reserve by resource."""
    total = sum((shape.total for shape in reserve), numpy.zeros(len(amounts.names)))
    return {name: float(amount) for name, amount in zip(amounts.names, total) if amount > 0}


def _pieces(total: Floats, typical: Floats, amounts: Amounts) -> list[Shape]:
    """The total in equal pieces of about the typical size, at most half of the largest machine."""
    if not (total > 0).any():
        return []
    total = numpy.maximum(total, 0.0)
    typical = numpy.minimum(typical, amounts.capacity.max(axis=0, initial=0.0) / 2)
    ratios = total[typical > 0] / typical[typical > 0]
    count = min(_MAX_PIECES, max(1, math.ceil(ratios.max(initial=1.0) - 1e-9)))
    return [Shape(total / count, count)]


def _size(requests: Floats, amounts: Amounts) -> float:
    """The largest share of any node's capacity."""
    largest = numpy.maximum(amounts.capacity.max(axis=0, initial=0.0), 1e-9)
    return float((requests / largest).max(initial=0.0))
