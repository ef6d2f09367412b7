# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Scores of other placers for a node and one pod, with exact integers.

Sources: MinimizePower of wao-scheduler (v1.27 to v1.31), PEAKS of scheduler-plugins, LeastAllocated
and BalancedAllocation of kube-scheduler 1.37 with their default resources, CPU and memory.
Raw scores are 64-bit integers; a normalized score is higher for a better node.
"""

from __future__ import annotations

import math
import typing as t
from abc import ABC, abstractmethod
from dataclasses import dataclass

from ...base.libraries import numpy
from ...scheduling.model import MICROCORES_PER_CORE, Node, Pod
from ...solving.arrays import Floats, Integers

HIGHEST_SCORE = 100
# MinimizePower's scores of a node with unknown data, and of a node without enough CPU.
SCORE_ERROR = 2**63 - 1
SCORE_MAX = SCORE_ERROR >> 1
MINIMIZE_POWER_BASE_SCORE = 20
_PEAKS_STEPS_PER_WATT = 1e15
_MAX_PEAKS_SCORE = float(2**63 - 1024)
_MICROCORES_PER_MILLICORE = 1000
# Tried rates, as exponents over the width of the points: from nearly linear to a step at one end.
_FLATTEST, _STEEPEST = 1e-3, 20.0
_RATES = 40
_REFINEMENTS = 6


class ClusterView:
    """The nodes with their running and bound pods; node by index.

    ``use`` is in microcores; ``requested`` and ``counted`` are CPU in millicores and memory in
    bytes, the latter by kube-scheduler's rules for scores.
    """

    def __init__(self, nodes: t.Sequence[Node]) -> None:
        views = [node.peer_view for node in nodes]
        self.nodes = nodes
        self.allocatable = [(view.allocatable_millicores, view.allocatable_bytes) for view in views]
        self.use = [node.use_microcores for node in nodes]
        self.requested = [
            (cpu - node.free.get("cpu", 0), memory - node.free.get("memory", 0))
            for node, (cpu, memory) in zip(nodes, self.allocatable)
        ]
        self.counted = [(view.counted_millicores, view.counted_bytes) for view in views]

    def bind(self, pod: Pod, node: int) -> None:
        """Note a pod that is on the node from now on."""
        self.use[node] += pod.shape.use_microcores
        self.requested[node] = _plus(self.requested[node], _requests(pod))
        self.counted[node] = _plus(self.counted[node], _counted(pod))


class ScorePlugin(ABC):
    """One score plugin."""

    @abstractmethod
    def score(self, pod: Pod, node: int, view: ClusterView) -> int:
        """The raw score of a node."""

    def normalized(self, scores: Integers) -> Integers:
        """Normalise the raw scores of all feasible nodes to at most 100."""
        return scores


class MinimizePower(ScorePlugin):
    """WAO's MinimizePower: whole watts that the pod adds; starting pods count as load."""

    def score(self, pod: Pod, node: int, view: ClusterView) -> int:
        given = view.nodes[node]
        added = pod.peer_view.minimize_power_millicores * _MICROCORES_PER_MILLICORE
        after = view.use[node] + added
        if given.curve is None or not added:
            return SCORE_ERROR
        if after > given.peer_view.capacity_millicores * _MICROCORES_PER_MILLICORE:
            return SCORE_MAX
        watts_at = given.curve.watts_at
        watts = watts_at(after / MICROCORES_PER_CORE) - watts_at(
            view.use[node] / MICROCORES_PER_CORE
        )
        return max(0, int(watts))

    def normalized(self, scores: Integers) -> Integers:
        return normalized_minimize_power(scores)


def asks_for_cpu(pod: Pod) -> bool:
    """Whether MinimizePower lets the pod be scheduled at all."""
    return pod.peer_view.minimize_power_millicores > 0


def normalized_minimize_power(scores: Integers, base: int = MINIMIZE_POWER_BASE_SCORE) -> Integers:
    """From ``base`` for the most watts to 100 for the fewest, by integer division."""
    result = numpy.where(scores == SCORE_MAX, 1, 0)
    known = (scores != SCORE_ERROR) & (scores != SCORE_MAX)
    if known.any():
        watts = scores[known]
        lowest, highest = int(watts.min()), int(watts.max())
        if lowest == highest:
            result[known] = base
        else:
            spoiled = (HIGHEST_SCORE - base) * (watts - lowest) // (highest - lowest)
            result[known] = HIGHEST_SCORE - spoiled
    return result


class Peaks(ScorePlugin):
    """PEAKS: watts that the pod adds by an exponential model of the node's power.

    The models are fitted to the curves. As upstream, a node without a model costs nothing, and one
    that would be used beyond 100 % has the raw score 0.
    """

    def __init__(self, nodes: t.Sequence[Node]) -> None:
        self._models = [_exponential_model(node) for node in nodes]

    def score(self, pod: Pod, node: int, view: ClusterView) -> int:
        capacity = view.nodes[node].peer_view.capacity_millicores
        if capacity == 0:
            return 0
        use = view.use[node] / _MICROCORES_PER_MILLICORE
        after = 100 * (use + pod.peer_view.peaks_millicores) / capacity
        if after > 100:
            return 0
        model = self._models[node]
        return peaks_score(model, 100 * use / capacity, after) if model else 0

    def normalized(self, scores: Integers) -> Integers:
        return normalized_peaks(scores)


def peaks_score(model: Exponential, before: float, after: float) -> int:
    """The raw score of a node whose utilisation goes from one percentage to another."""
    watts = model.scale * (math.exp(model.rate * after) - math.exp(model.rate * before))
    scaled = watts * _PEAKS_STEPS_PER_WATT
    return int(min(max(scaled, -_MAX_PEAKS_SCORE), _MAX_PEAKS_SCORE))


def normalized_peaks(scores: Integers) -> Integers:
    """From 0 for the highest raw score to 100 for the lowest; 0 for all where all are 0."""
    lowest, highest = int(scores.min()), int(scores.max())
    if lowest == highest:
        return numpy.full_like(scores, HIGHEST_SCORE if lowest else 0)
    distance = scores.astype(float) - lowest
    share = HIGHEST_SCORE * distance / (float(highest) - lowest)
    return HIGHEST_SCORE - share.astype(numpy.int64)


def _exponential_model(node: Node) -> Exponential | None:
    capacity = node.peer_view.capacity_millicores / 1000
    if node.curve is None or not capacity:
        return None
    return fit_exponential([100 * cores / capacity for cores in node.curve.cores], node.curve.watts)


@dataclass(frozen=True)
class Exponential:
    """A power model of the form ``idle`` + ``scale`` · e^(``rate`` · x)."""

    idle: float
    scale: float
    rate: float

    def at(self, x: float) -> float:
        """The value at x."""
        return self.idle + self.scale * math.exp(self.rate * x)


def fit_exponential(xs: t.Sequence[float], ys: t.Sequence[float]) -> Exponential:
    """The model with the least squared error at these two or more points; ``xs`` ascend.

    At a given rate the rest is a linear regression, so only the rate is searched: the best of a
    grid, then of finer ones around it.
    """
    steps = numpy.geomspace(_FLATTEST, _STEEPEST, _RATES)
    bends = numpy.concatenate([-steps[::-1], steps])
    # Exponents are relative to the first point, so that none overflows.
    places = (numpy.array(xs) - xs[0]) / (xs[-1] - xs[0])
    for _round in range(_REFINEMENTS):
        errors, scales = _regressions(bends, places, numpy.array(ys))
        best = int(errors.argmin())
        low, high = bends[max(best - 1, 0)], bends[min(best + 1, len(bends) - 1)]
        if low < 0 < high:
            low, high = sorted((bends[best], math.copysign(_FLATTEST, bends[best])))
        bend, scale = float(bends[best]), float(scales[best])
        bends = numpy.linspace(low, high, _RATES)
    rate = bend / (xs[-1] - xs[0])
    mean_power = float(numpy.exp(bend * places).mean())
    return Exponential(
        idle=sum(ys) / len(ys) - scale * mean_power,
        scale=scale * math.exp(-rate * xs[0]),
        rate=rate,
    )


def _regressions(bends: Floats, places: Floats, ys: Floats) -> tuple[Floats, Floats]:
    """Squared error and scale of the best model with each of these rates."""
    powers = numpy.exp(bends[:, None] * places)
    powers -= powers.mean(axis=1)[:, None]
    heights = ys - ys.mean()
    scales = (powers @ heights) / (powers**2).sum(axis=1)
    errors = ((scales[:, None] * powers - heights) ** 2).sum(axis=1)
    return errors, scales


class LeastAllocated(ScorePlugin):
    """kube-scheduler's NodeResourcesFit: the mean share of CPU and memory that stays free."""

    def score(self, pod: Pod, node: int, view: ClusterView) -> int:
        counted = _plus(view.counted[node], _counted(pod))
        return least_allocated_score(counted, view.allocatable[node])


def least_allocated_score(requested: t.Sequence[int], allocatable: t.Sequence[int]) -> int:
    """The mean of the free shares of resources in whole percent; a resource of 0 is left out."""
    shares = [
        (total - amount) * HIGHEST_SCORE // total if amount <= total else 0
        for amount, total in zip(requested, allocatable)
        if total
    ]
    return sum(shares) // len(shares) if shares else 0


class BalancedAllocation(ScorePlugin):
    """kube-scheduler's NodeResourcesBalancedAllocation: how much the pod equalises the shares of
    CPU and memory on the node."""

    def score(self, pod: Pod, node: int, view: ClusterView) -> int:
        requests = _requests(pod)
        if not any(requests):
            return 0
        return balanced_score(view.requested[node], requests, view.allocatable[node])


def balanced_score(
    requested: tuple[int, int], added: tuple[int, int], allocatable: tuple[int, int]
) -> int:
    """75 if a pod does not change the balance of a node; from 50 to 100 if it does."""
    gained = _balance(_plus(requested, added), allocatable) - _balance(requested, allocatable)
    return HIGHEST_SCORE // 2 + (HIGHEST_SCORE // 2 + gained) // 2


def _balance(requested: tuple[int, int], allocatable: tuple[int, int]) -> int:
    """100 less the standard deviation of the used shares in percent, truncated to an integer."""
    shares = [min(amount / total, 1.0) for amount, total in zip(requested, allocatable) if total]
    if len(shares) < 2:
        return HIGHEST_SCORE
    deviation = abs((shares[0] - shares[1]) / 2)
    return int((1 - deviation) * HIGHEST_SCORE)


def _requests(pod: Pod) -> tuple[int, int]:
    requests = dict(pod.shape.requests)
    return requests.get("cpu", 0), requests.get("memory", 0)


def _counted(pod: Pod) -> tuple[int, int]:
    return pod.peer_view.counted_millicores, pod.peer_view.counted_bytes


def _plus(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    return first[0] + second[0], first[1] + second[1]
