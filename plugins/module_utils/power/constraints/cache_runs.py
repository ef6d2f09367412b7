# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Feasibility of contiguous cache ways for several pods on a node."""

from __future__ import annotations

import functools
import typing as t

from ...scheduling.cache_ways import MORE_THAN_ENOUGH, Lengths
from ...scheduling.model import CachePools, CacheRun, Node, Shape
from .contents import IMPOSSIBLE, NO_DRAW, Draw, NodeCheck, Pods, Sum


def fits_empty_node(asked: tuple[CacheRun, ...], pools: CachePools | None) -> bool:
    """Whether an otherwise empty node has the runs that one pod requests.

    It may be too optimistic if workloads hold ways, because their cache is unknown.
    """
    return pools is None or all(
        fit(lengths, tuple(run for run in asked if run.pool == pool))
        for pool, lengths in pools.empty
    )


@functools.cache
def fit(free: Lengths, wanted: tuple[CacheRun, ...]) -> bool:
    """Whether runs of one pool can be taken from free ones, each from one of them, in some order.

    A run takes ``most`` ways, or as many contiguous ones as there are, at least ``least``, as in
    RMD. Within a cache RMD takes the topmost sufficient run; pods that are started in the order of
    the runs here get these runs. Exact: bin packing with few items.
    """
    if not wanted:
        return True
    if sum(run.least for run in wanted) > sum(free):
        return False
    # Where everybody takes all that it asks for, the order does not matter: the largest first.
    ordered = wanted[:1] if all(run.most == run.least for run in wanted) else set(wanted)
    for run in sorted(ordered, reverse=True):
        position = wanted.index(run)
        rest = wanted[:position] + wanted[position + 1 :]
        for length in sorted({length for length in free if length >= run.least}):
            left = list(free)
            left.remove(length)
            left.append(max(0, length - run.most))
            if fit(tuple(sorted(filter(None, left), reverse=True)), rest):
                return True
    return False


class CacheCheck(NodeCheck["tuple[CacheRun, ...]", "CachePools | None"]):
    """Whether pods find their runs on a node.

    ``kinds[n]`` are the pools of a node; everything fits on a node whose pools are None.
    """

    def draw(self, node: int, pods: Pods) -> Draw:
        pools = self.kinds[node]
        if pools is None:
            return NO_DRAW
        wanted = list(pools.promised)
        for runs_of_one, number in zip(self.of_group.values(), pods):
            wanted += runs_of_one * number
        wanted.sort(key=lambda run: (-run.most, -run.least))
        possible = all(
            fit(free, tuple(run for run in wanted if run.pool == pool)) for pool, free in pools.free
        )
        return NO_DRAW if possible else IMPOSSIBLE

    def sums(self) -> list[Sum]:
        """Number of runs of at least some length, for each requested length."""
        asked = {(run.pool, run.least) for runs in self.of_group.values() for run in runs}
        return [
            Sum(
                {group: _number(runs, pool, least) for group, runs in self.of_group.items()},
                [_there(pools, pool, least) for pools in self.kinds],
            )
            for pool, least in sorted(asked)
        ]

    def reason(self, group: int) -> str:
        lengths = [run.least for run in self.of_group[group]]
        if len(lengths) == 1:
            return f"node(s) had no free run of {lengths[0]} l3 cache ways on one cache id"
        listed = " and ".join(map(str, lengths))
        return f"node(s) had no free runs of {listed} l3 cache ways, each on one cache id"


def _number(wanted: t.Sequence[CacheRun], pool: str, least: int) -> int:
    return sum(1 for run in wanted if run.pool == pool and run.least >= least)


def _there(pools: CachePools | None, pool: str, least: int) -> int:
    if pools is None:
        return MORE_THAN_ENOUGH
    free = dict(pools.free).get(pool, ())
    return sum(length // least for length in free) - _number(pools.promised, pool, least)


def cache_check(shapes: t.Sequence[Shape], nodes: t.Sequence[Node]) -> CacheCheck | None:
    """The check of a problem; None if no pod requests ways, or no node's caches are known."""
    of_group = {group: shape.cache_runs for group, shape in enumerate(shapes) if shape.cache_runs}
    if not of_group or all(node.cache_pools is None for node in nodes):
        return None
    return CacheCheck(of_group, [node.cache_pools for node in nodes])
