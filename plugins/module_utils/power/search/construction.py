# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Rounding of the relaxation: whole nodes for its shares, whole pods for its fractions.

Pods that do not fit are left for greedy.py.
"""

from __future__ import annotations

import math
import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Integers
from ..bounds.relaxation import Relaxation, Share
from ..model.assignment import Assignment
from ..model.problem import Problem

_ROUNDING = 1e-6
# Of the share of the resource that is asked for most.
_RELEVANT = 0.5


def construct(problem: Problem, relaxation: Relaxation) -> Assignment:
    """Place the pods of every share on its nodes, the largest first and evenly."""
    counts = numpy.zeros_like(problem.limit)
    left = problem.count.copy()
    by_class: dict[int, list[Share]] = {}
    for share in relaxation.shares:
        by_class.setdefault(share.node_class, []).append(share)
    for index, shares in by_class.items():
        nodes = _cheapest_first(problem, relaxation.node_classes[index].nodes)
        # The fullest run gets the nodes on which a core costs least.
        shares = sorted(shares, key=lambda share: -1 if share.run is None else share.run)[::-1]
        for share, part in zip(shares, _whole_nodes(shares, nodes)):
            if len(part):
                wanted = numpy.minimum(numpy.floor(share.pods + _ROUNDING), left)
                counts[:, part] = _Spreading(problem, part, wanted.astype(numpy.int64)).counts()
                left -= counts[:, part].sum(axis=1)
    return Assignment(problem, counts)


def _cheapest_first(problem: Problem, nodes: Integers) -> Integers:
    costs = problem.costs
    rise = costs.heights[nodes, -1] - costs.heights[nodes, 0]
    return nodes[numpy.argsort(rise, kind="stable")]


def _whole_nodes(shares: t.Sequence[Share], nodes: Integers) -> list[Integers]:
    """The nodes assigned to the shares; shares with the largest remainders are rounded up."""
    whole = [math.floor(share.nodes + _ROUNDING) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda i: whole[i] - shares[i].nodes)
    for index in by_remainder[: len(nodes) - sum(whole)]:
        whole[index] += 1
    parts, start = [], 0
    for number in whole:
        parts.append(nodes[start : start + number])
        start += number
    return parts


class _Spreading:
    """Pods of many groups on a few nodes, which are filled evenly."""

    def __init__(self, problem: Problem, nodes: Integers, wanted: Integers) -> None:
        self._request = problem.request
        self._limit = problem.limit[:, nodes]
        self._wanted = wanted
        self._free = numpy.maximum(problem.free[nodes], 0)
        total = self._free.sum(axis=0)
        shares = (wanted @ problem.request) / numpy.maximum(total, 1)
        # Resources of which little is asked for say nothing about how full a node is.
        relevant = shares >= _RELEVANT * shares.max(initial=0.0)
        self._weight = relevant / numpy.maximum(self._free * shares, 1e-9)
        self._sizes = (problem.request / numpy.maximum(total, 1)).max(axis=1, initial=0.0)

    def counts(self) -> Integers:
        """Number of pods of each group for each of the nodes."""
        counts = numpy.zeros_like(self._limit)
        fullness = numpy.zeros(self._free.shape)
        for group in numpy.argsort(-self._sizes, kind="stable").tolist():
            request = self._request[group]
            asked = request > 0
            step = request * self._weight
            for _pod in range(int(self._wanted[group])):
                fits = (self._free >= request)[:, asked].all(axis=1)
                fits &= counts[group] < self._limit[group]
                if not fits.any():
                    break
                level = (fullness + step).max(axis=1)
                node = int(numpy.where(fits, level, numpy.inf).argmin())
                counts[group, node] += 1
                self._free[node] -= request
                fullness[node] += step[node]
        return counts
