# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placers of one pod at a time against a plain loop without state between pods."""

from __future__ import annotations

import numpy

from ansible_collections.wattwise.kube.plugins.module_utils.power import placement
from ansible_collections.wattwise.kube.plugins.module_utils.power.baselines import placers
from ansible_collections.wattwise.kube.plugins.module_utils.power.baselines.score_plugins import (
    BalancedAllocation,
    ClusterView,
    LeastAllocated,
    MinimizePower,
    Peaks,
    ScorePlugin,
    asks_for_cpu,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import (
    Problem,
    build_problem,
)
from support.examples import generated, seeds
from support.placement_instance import read_instance
from support.random_placements import random_parameters

Weighted = list[tuple[ScorePlugin, int]]


def problem_of(seed: int) -> Problem:
    return build_problem(read_instance(placement.SPEC.complete(random_parameters(seed))))


def plainly(problem: Problem, plugins: Weighted | None, only_with_cpu: bool = False) -> Assignment:
    """Each pod in turn to the best node; without plugins to that with the least added power."""
    assignment, view = Assignment(problem), ClusterView(problem.instance.nodes)
    for pod in problem.instance.pods:
        group = next((i for i, each in enumerate(problem.groups) if pod in each.pods), None)
        if group is None:
            # No node has enough of a resource for it.
            continue
        nodes = assignment.fits(group, assignment.all_nodes).nonzero()[0]
        if not len(nodes) or (only_with_cpu and not asks_for_cpu(pod)):
            continue
        if plugins is None:
            worth = -assignment.added_cost(group, nodes)
        else:
            worth = numpy.zeros(len(nodes))
            for plugin, weight in plugins:
                raw = [plugin.score(pod, int(node), view) for node in nodes]
                worth += weight * plugin.normalized(numpy.array(raw, dtype=numpy.int64))
        node = int(nodes[worth.argmax()])
        assignment.place(group, node)
        view.bind(pod, node)
    return assignment


@generated
def test_what_is_kept_from_pod_to_pod_changes_nothing() -> None:
    for seed in seeds(60):
        problem = problem_of(seed)
        resources: Weighted = [(LeastAllocated(), 1), (BalancedAllocation(), 1)]
        expected = {
            "greedy": plainly(problem, None),
            "minimize_power": plainly(problem, [(MinimizePower(), 20), *resources], True),
            "peaks": plainly(problem, [(Peaks(problem.instance.nodes), 1)]),
            "spread": plainly(problem, resources),
        }
        for strategy, assignment in expected.items():
            found = getattr(placers, strategy)(problem)
            assert (found.counts == assignment.counts).all(), (seed, strategy)
