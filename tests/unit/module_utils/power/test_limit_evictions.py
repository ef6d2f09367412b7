# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evictions for a limit: the lowest priority, the cheapest, and never more than needed."""

from __future__ import annotations

import itertools
import random
import time
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power.limits.domains import Limit
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits.evictions import (
    EvictablePod,
    EvictionNode,
    EvictionPlan,
    plan_evictions,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curve
from support.examples import each_seed

# 100 W idle, and 10 W a core.
CURVE = Curve((0.0, 16.0), (100.0, 260.0))
_SAME = 1e-5


def machine(watts: float, cores: float, **more: t.Any) -> EvictionNode:
    return EvictionNode(watts, cores, CURVE, **more)


def pod(name: str, cores: float, node: str = "n1", **more: t.Any) -> EvictablePod:
    return EvictablePod("shop", name, f"uid-{name}", node, cores, **more)


def rack(watts: float, *names: str) -> Limit:
    return Limit("rack", "r1", names or ("n1",), watts)


def names(plan: EvictionPlan) -> list[str]:
    return [one.pod.name for one in plan.evictions]


def test_no_pod_leaves_a_domain_within_its_limit() -> None:
    plan = plan_evictions([rack(200.0)], {"n1": machine(200.0, 10.0)}, [pod("a", 5)], most=9)
    assert plan == EvictionPlan()


def test_the_lowest_priority_leaves_first_then_the_cheapest_then_the_smallest() -> None:
    pods = [
        pod("high", 1, priority=10),
        pod("dear", 2, cost=2),
        pod("large", 6),
        pod("enough", 3),
        pod("small", 1),
    ]
    nodes = {"n1": machine(230.0, 13.0)}
    assert names(plan_evictions([rack(205.0)], nodes, pods, most=9)) == ["enough"]
    # The largest one first, and the smallest one that covers the rest.
    assert names(plan_evictions([rack(165.0)], nodes, pods, most=9)) == ["large", "small"]
    without = [one for one in pods if one.cost or one.priority]
    assert names(plan_evictions([rack(215.0)], nodes, without, most=9)) == ["dear"]


def test_a_pod_whose_eviction_a_later_one_makes_unnecessary_stays() -> None:
    pods = [pod("low", 1), pod("high", 6, priority=10)]
    plan = plan_evictions([rack(180.0)], {"n1": machine(230.0, 13.0)}, pods, most=9)
    assert names(plan) == ["high"]


def test_the_bound_of_a_run_and_the_budgets_hold_and_the_rest_is_told() -> None:
    pods = [pod(f"p{number}", 2, budget=0) for number in range(4)]
    nodes = {"n1": machine(180.0, 8.0)}
    bounded = plan_evictions([rack(120.0)], nodes, pods, [9], most=2)
    assert (names(bounded), dict(bounded.left)) == (["p0", "p1"], {0: 20.0})
    budgeted = plan_evictions([rack(120.0)], nodes, pods, [1], most=9)
    assert (names(budgeted), dict(budgeted.left)) == (["p0"], {0: 40.0})


def test_a_limit_below_the_idle_power_evicts_nobody() -> None:
    plan = plan_evictions([rack(90.0)], {"n1": machine(180.0, 8.0)}, [pod("a", 8)], most=9)
    assert (names(plan), dict(plan.left)) == ([], {0: 90.0})


def test_a_pod_of_a_machine_that_its_cap_holds_stays_where_it_saves_nothing() -> None:
    nodes = {"n1": machine(250.0, 15.0, cap_watts=120.0), "n2": machine(160.0, 6.0)}
    pods = [pod("held", 5), pod("free", 4, "n2", priority=5)]
    plan = plan_evictions([rack(250.0, "n1", "n2")], nodes, pods, most=9)
    assert names(plan) == ["free"]


def test_machines_without_a_reading_are_left_alone() -> None:
    limits = [rack(150.0, "n1", "silent")]
    pods = [pod("there", 3), pod("gone", 1, "silent")]
    plan = plan_evictions(limits, {"n1": machine(170.0, 7.0)}, pods, most=9)
    assert names(plan) == ["there"]


def watts_after(
    limit: Limit, nodes: t.Mapping[str, EvictionNode], gone: t.Iterable[EvictablePod]
) -> float:
    """The power draw of a domain, computed from the straight line of the curve."""
    cores = dict.fromkeys(nodes, 0.0)
    for one in gone:
        cores[one.node] += one.cores
    return sum(nodes[name].watts - 10.0 * cores[name] for name in limit.nodes)


def random_task(source: random.Random) -> tuple[list[Limit], dict[str, EvictionNode], list[t.Any]]:
    """Two racks of two machines in a fleet, with pods that use whole cores."""
    pods = [
        pod(
            f"p{index}",
            float(source.randint(1, 4)),
            f"n{source.randint(1, 4)}",
            priority=source.choice([0, 0, 10, 1000]),
            cost=source.randint(0, 2),
        )
        for index in range(source.randint(1, 8))
    ]
    used = {
        f"n{index}": sum(one.cores for one in pods if one.node == f"n{index}")
        for index in range(1, 5)
    }
    nodes = {
        name: machine(100.0 + 10.0 * cores + source.randint(0, 30), cores + source.randint(0, 1))
        for name, cores in used.items()
    }
    domains: list[tuple[t.Literal["rack", "fleet"], str, tuple[str, ...]]] = [
        ("rack", "r1", ("n1", "n2")),
        ("rack", "r2", ("n3", "n4")),
        ("fleet", "", ("n1", "n2", "n3", "n4")),
    ]
    limits = [
        Limit(kind, name, its, source.uniform(0.75, 1.1) * sum(nodes[one].watts for one in its))
        for kind, name, its in domains
        if source.random() < 0.7
    ]
    return limits, nodes, pods


@each_seed(200)
def test_every_plan_is_needed_and_takes_no_higher_priority_than_the_best_set_of_pods(
    seed: int,
) -> None:
    """All sets of pods are tried, with a power model of their own."""
    limits, nodes, pods = random_task(random.Random(seed))
    plan = plan_evictions(limits, nodes, pods, most=len(pods))
    gone = [one.pod for one in plan.evictions]

    def above(of: t.Iterable[EvictablePod]) -> list[float]:
        chosen = list(of)
        excess = (watts_after(one, nodes, chosen) - one.watts for one in limits)
        return [max(0.0, one) for one in excess]

    reachable = [100.0 * len(one.nodes) <= one.watts for one in limits]
    found = above(gone)
    assert [found[index] for index in plan.left] == pytest.approx(list(plan.left.values()))
    for its in gone:
        without = above(one for one in gone if one is not its)
        assert any(more > less + _SAME for more, less in zip(without, found, strict=True)), its
    sets = (
        chosen
        for size in range(len(pods) + 1)
        for chosen in itertools.combinations(pods, size)
        if max(above(chosen), default=0.0) <= _SAME
    )
    ceilings = [max((one.priority for one in chosen), default=-1) for chosen in sets]
    if ceilings and all(reachable):
        assert max(found, default=0.0) <= _SAME
        assert max((one.priority for one in gone), default=-1) == min(ceilings)


def test_thousands_of_machines_above_their_limits_take_less_than_a_second() -> None:
    """Generously measured: it was 3 s here, and a minute for 5,000 machines with 100,000 pods."""
    machines = {f"n{number}": machine(400.0, 20.0) for number in range(2_000)}
    limits = [Limit("node", name, (name,), 300.0) for name in machines]
    pods = [pod(f"p{number}", 0.0, f"n{number % 2_000}") for number in range(40_000)]
    started = time.process_time()
    assert plan_evictions(limits, machines, pods, most=5).evictions == ()
    assert time.process_time() - started < 1.0
