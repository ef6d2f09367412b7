# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An extender's state of a cluster: added power as in the placement, and intentions."""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.extender import publication, views
from ansible_collections.wattwise.kube.plugins.module_utils.extender.cluster_state import (
    ASSUMED_SECONDS,
    MEASURED_SECONDS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.extender.publication import (
    INTENTIONS_SECONDS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from support.examples import each_seed
from support.extender import (
    FLEET,
    Cluster,
    Json,
    config_map,
    linear,
    node,
    pod,
    published,
    random_fleet,
)


def two(**options: t.Any) -> Cluster:
    """A cheap node and an expensive one."""
    curves = {"cheap": linear(5.0), "dear": linear(20.0)}
    return Cluster().nodes(node("cheap"), node("dear")).publish(published(curves, **options))


@each_seed(12)
def test_added_watts_of_each_node_are_those_of_a_placement(seed: int) -> None:
    chance = random.Random(seed)
    nodes, curves, running = random_fleet(chance, 4)
    rules: Json = {
        "allow_power_off": chance.random() < 0.5,
        "standby_watts": float(chance.randint(0, 20)),
        "pod_usage_assumption": chance.choice([0.5, 0.8, 1.0]),
        "usage_source": chance.choice(["auto", "requests"]),
    }
    cluster = Cluster().nodes(*nodes).pods(*running).publish(published(curves, **rules))
    given = pod("new", f"{chance.randint(1, 3000)}m")
    names = [one["metadata"]["name"] for one in nodes]
    found = dict(zip(names, cluster.watts(given, *names), strict=True))
    assert {name for name, watts in found.items() if watts is not None} == curves.keys()
    for name in curves:
        bound = pod("new", given["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        bound["spec"]["nodeSelector"] = {"kubernetes.io/hostname": name}
        bound["spec"]["schedulerName"] = "wattwise"
        src = {"nodes": nodes, "pods": [bound], "running": running, "strategy": "greedy"}
        plan = place({**src, **rules, "nodes": with_curves(nodes, curves), "time_limit": 1.0})
        if not plan["placements"]:
            continue
        added = plan["watts"]["after"] - plan["watts"]["before"]
        assert found[name] == pytest.approx(added, abs=2e-6), name


def with_curves(nodes: list[Json], curves: Json) -> list[Json]:
    """The short form, which includes the curve."""
    return [
        {
            "name": one["metadata"]["name"],
            "labels": one["metadata"]["labels"],
            "allocatable": one["status"]["allocatable"],
            **({"curve": curves[name]} if (name := one["metadata"]["name"]) in curves else {}),
        }
        for one in nodes
    ]


@each_seed(8)
def test_the_order_of_events_does_not_matter(seed: int) -> None:
    chance = random.Random(seed)
    nodes, curves, running = random_fleet(chance, 5)
    names = [one["metadata"]["name"] for one in nodes]
    waiting = pod("waiting", "2")
    placement = {"namespace": "default", "pod": "waiting", "uid": "uid-waiting", "node": "n0"}
    body = published(curves, {"placements": [placement]}, allow_power_off=True)
    steps: list[t.Callable[[Cluster], t.Any]] = [
        lambda cluster: cluster.publish(body),
        lambda cluster: cluster.nodes(*nodes),
        lambda cluster: cluster.pods(*running),
        lambda cluster: cluster.pods(waiting),
        lambda cluster: cluster.publish(published(curves)).publish(body),
        lambda cluster: without_node(cluster).nodes(nodes[1]),
    ]
    found = []
    for _order in range(2):
        chance.shuffle(steps)
        cluster = Cluster()
        for step in steps:
            step(cluster)
        found.append(cluster.watts(pod("new"), *names))
    assert found[0] == found[1]
    assert len({watts for watts in found[0] if watts is not None}) > 1


def without_node(cluster: Cluster) -> Cluster:
    cluster.state.set_node("n1", None)
    return cluster


def test_nothing_known_is_no_opinion() -> None:
    assert Cluster().scores(pod("new"), "a", "b") == [0, 0]
    cluster = two().nodes(node("without-curve"))
    assert cluster.watts(pod("new"), "unknown", "without-curve", "cheap") == [None, None, 4.0]
    assert cluster.scores(pod("new"), "unknown", "without-curve", "cheap") == [0, 0, 10]
    cluster.state.set_node("cheap", None)
    assert cluster.watts(pod("new"), "cheap") == [None]
    cluster.state.set_publication(FLEET, None)
    assert cluster.watts(pod("new"), "dear") == [None]


def test_of_two_fleets_with_one_node_the_first_counts_and_the_other_takes_over() -> None:
    cluster = two()
    other = published({"cheap": linear(50.0), "third": linear(1.0)})
    second = config_map(other, "wattwise-extender-2")
    key = (FLEET[0], "wattwise-extender-2")
    read = publication.read(second)
    cluster.nodes(node("third")).state.set_publication(key, read)
    names = ("cheap", "dear", "third")
    assert cluster.watts(pod("new"), *names) == [4.0, 16.0, pytest.approx(0.8)]
    cluster.state.set_publication(FLEET, None)
    assert cluster.watts(pod("new"), *names) == [40.0, None, pytest.approx(0.8)]


# Power-off, and the intentions of a plan


def test_a_node_that_sleeps_costs_its_waking_until_a_pod_is_there() -> None:
    cluster = two(allow_power_off=True, standby_watts=10.0)
    assert cluster.watts(pod("new"), "cheap") == [94.0]
    daemon = pod("daemon", "0", "cheap")
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d"}]
    assert cluster.pods(daemon).watts(pod("new"), "cheap") == [94.0]
    assert cluster.pods(pod("first", "1", "cheap")).watts(pod("new"), "cheap") == [4.0]
    # The awake one is better now, however expensive it is.
    cluster.pods(pod("first", "1", "dear"))
    assert cluster.scores(pod("new"), "cheap", "dear") == [0, 10]


def test_a_machine_that_sleep_switched_off_costs_its_wake() -> None:
    asleep = node("cheap")
    asleep["spec"] = {"taints": [{"key": "wattwise.github.io/asleep", "effect": "NoSchedule"}]}
    cluster = two().nodes(asleep)
    [cheap, dear] = cluster.watts(pod("new"), "cheap", "dear")
    # Its idle power, too, although the run does not count on machines that sleep.
    assert cheap == 104.0
    assert dear is not None
    assert cheap > dear
    assert cluster.scores(pod("new"), "cheap", "dear") == [0, 10]
    assert two().nodes(asleep).nodes(node("cheap")).watts(pod("new"), "cheap") == [4.0]


def test_of_nodes_that_sleep_the_one_with_the_best_load_is_woken() -> None:
    """Not the one with the least idle power, which has little room."""
    curves = {"small": linear(10.0, 4, idle=60.0), "large": linear(5.0, 32, idle=90.0)}
    cluster = Cluster().nodes(node("small", 4), node("large", 32))
    cluster.publish(published(curves, allow_power_off=True))
    small, large = cluster.watts(pod("new"), "small", "large")
    assert small is not None and large is not None and small < large
    assert cluster.scores(pod("new"), "small", "large") == [0, 10]


def test_a_node_that_the_plan_empties_costs_what_that_would_save() -> None:
    steps = [{"gain_watts": 60.0, "asleep": ["cheap", "third"]}]
    curves = {"cheap": linear(5.0), "dear": linear(20.0)}
    nodes = Cluster().nodes(node("cheap"), node("dear"))
    cluster = nodes.publish(published(curves, {"steps": steps}))
    assert cluster.watts(pod("new"), "cheap", "dear") == [34.0, 16.0]
    cluster.now += INTENTIONS_SECONDS
    assert cluster.watts(pod("new"), "cheap", "dear") == [4.0, 16.0]


def planned(name: str, on: str, uid: str | None = None) -> Json:
    return {"namespace": "default", "pod": name, "uid": uid or f"uid-{name}", "node": on}


def test_a_waiting_pod_counts_on_its_planned_node_until_it_is_somewhere() -> None:
    bend = {"cpu": [0.0, 4.0, 8.0], "watts": [100.0, 120.0, 300.0]}
    cluster = Cluster().nodes(node("cheap"), node("dear"))
    cluster.publish(
        published({"cheap": bend, "dear": linear(20.0)}, {"placements": [planned("big", "cheap")]})
    )
    assert cluster.watts(pod("new"), "cheap") == [4.0]
    cluster.pods(pod("big", "5"))
    assert cluster.watts(pod("new"), "cheap") == [36.0]
    # Bound elsewhere in the end, or deleted.
    cluster.pods(pod("big", "5", "dear"))
    assert cluster.watts(pod("new"), "cheap") == [4.0]
    cluster.pods(pod("big", "5"))
    assert cluster.watts(pod("new"), "cheap") == [36.0]
    cluster.state.set_pod(("default", "big"), None)
    assert cluster.watts(pod("new"), "cheap") == [4.0]


def test_a_pod_goes_where_the_plan_wants_it_and_another_of_its_name_does_not() -> None:
    body = published(
        {"cheap": linear(5.0), "dear": linear(20.0)}, {"placements": [planned("big", "dear")]}
    )
    cluster = Cluster().nodes(node("cheap"), node("dear")).publish(body).pods(pod("big"))
    assert cluster.scores(pod("big"), "cheap", "dear") == [9, 10]
    assert cluster.scores(pod("new"), "cheap", "dear") == [10, 0]
    again = pod("big")
    again["metadata"]["uid"] = "another"
    cluster.pods(again)
    assert cluster.scores(again, "cheap", "dear") == [10, 0]
    cluster.pods(pod("big"))
    cluster.now += INTENTIONS_SECONDS
    assert cluster.scores(pod("big"), "cheap", "dear") == [10, 0]


def test_planned_pods_of_no_lower_priority_leave_no_room() -> None:
    body = published({"cheap": linear(5.0)}, {"placements": [planned("big", "cheap")]})
    cluster = Cluster().nodes(node("cheap"), node("dear")).publish(body)
    cluster.pods(pod("there", "2", "cheap"), pod("big", "4", priority=5))

    def crowded(given: Json) -> set[str]:
        return cluster.state.crowded(views.asking_pod(given), ["cheap", "dear", "unknown"])

    assert crowded(pod("new", "3")) == {"cheap"}
    assert crowded(pod("new", "2")) == set()
    assert crowded(pod("new", "3", priority=6)) == set()
    assert crowded(pod("big", "4", priority=5)) == set()
    cluster.pods(pod("big", "4", "dear"))
    assert crowded(pod("new", "3")) == set()
    cluster.pods(pod("big", "4", priority=5))
    assert crowded(pod("new", "3")) == {"cheap"}
    cluster.now += INTENTIONS_SECONDS
    assert crowded(pod("new", "3")) == set()
    assert cluster.state.counts()["reserved_pods"] == 0


def test_nominated_pods_leave_no_room_beside_planned_ones() -> None:
    cluster = two().nodes(node("cheap"), node("dear"))
    plan = {"placements": [{"namespace": "default", "pod": "w", "uid": "", "node": "cheap"}]}
    cluster.publish(published({"cheap": linear(5.0), "dear": linear(20.0)}, plan))
    cluster.pods(pod("w", "3", priority=5))

    def crowded(given: Json) -> set[str]:
        return cluster.state.crowded(views.asking_pod(given), ["cheap", "dear"])

    urgent = pod("urgent", "3", priority=5)
    urgent["status"]["nominatedNodeName"] = "cheap"
    assert crowded(pod("new", "3")) == set()
    cluster.pods(urgent)
    assert crowded(pod("new", "3")) == {"cheap"}
    assert crowded(pod("new", "3", priority=6)) == set()
    assert crowded(pod("urgent", "3", priority=5)) == set()
    cluster.pods(pod("urgent", "1", "dear", priority=5))
    assert crowded(pod("new", "3")) == set()


# Recently scored pods


def test_a_scored_pod_is_assumed_until_its_binding_is_seen_or_long_enough() -> None:
    bend = {"cpu": [0.0, 1.0, 8.0], "watts": [100.0, 105.0, 300.0]}
    cluster = Cluster().nodes(node("cheap"), node("dear"))
    cluster.publish(published({"cheap": bend, "dear": linear(20.0)}))
    names = ("cheap", "dear")
    for name in ("a", "b"):
        cluster.pods(pod(name))
    assert cluster.scores(pod("a"), *names) == [10, 0]
    assert cluster.scores(pod("b"), *names) == [0, 10]
    # The same pod again: it does not count against itself.
    assert cluster.scores(pod("a"), *names) == [10, 0]
    # kube-scheduler has chosen another node.
    cluster.pods(pod("a", on="dear"))
    assert cluster.scores(pod("c"), *names) == [10, 0]
    cluster.now += ASSUMED_SECONDS
    assert cluster.scores(pod("d"), *names) == [10, 0]
    assert cluster.state.counts()["assumed_pods"] == 1


def test_among_equal_nodes_nothing_is_assumed() -> None:
    cluster = Cluster().nodes(node("a"), node("b"))
    cluster.publish(published({"a": linear(5.0), "b": linear(5.0)}))
    assert cluster.scores(pod("new"), "a", "b") == [10, 10]
    assert cluster.state.counts()["assumed_pods"] == 0


# Measured use


def metrics(name: str, cpu: str, timestamp: str = "2026-01-31T12:00:00Z") -> Json:
    return {
        "metadata": {"name": name},
        "timestamp": timestamp,
        "window": "20s",
        "usage": {"cpu": cpu, "memory": "1Gi"},
    }


def test_a_pod_that_started_after_the_measurement_is_added_to_it() -> None:
    bend = {"cpu": [0.0, 4.0, 8.0], "watts": [100.0, 120.0, 300.0]}
    cluster = Cluster().nodes(node("cheap")).publish(published({"cheap": bend}))
    cluster.state.set_measured(dict([views.measured(metrics("cheap", "2500m"))]))
    started = pod("old", "8", "cheap")
    started["status"]["startTime"] = "2026-01-31T11:50:00Z"
    assert cluster.pods(started).watts(pod("new"), "cheap") == [pytest.approx(4.0)]
    started = pod("late", "2", "cheap")
    started["status"]["startTime"] = "2026-01-31T11:59:50Z"
    assert cluster.pods(started).watts(pod("new"), "cheap") == [pytest.approx(36.0)]
    # Without a measurement, the requests count.
    cluster.now += MEASURED_SECONDS
    assert cluster.watts(pod("new"), "cheap") == [0.0]


def test_a_run_that_wants_measurements_prices_no_node_without() -> None:
    cluster = two(usage_source="metrics")
    assert cluster.state.needs_measurements
    assert cluster.watts(pod("new"), "cheap") == [None]
    cluster.state.set_measured(dict([views.measured(metrics("cheap", "1"))]))
    assert cluster.watts(pod("new"), "cheap") == [4.0]
    assert not two(usage_source="requests").state.needs_measurements


def test_a_price_outlives_failed_polls_as_long_as_its_measurement_counts() -> None:
    cluster = two(usage_source="metrics")
    later = metrics("dear", "1", "2026-01-31T12:01:00Z")
    first, second = views.measured(metrics("cheap", "1")), views.measured(later)
    cluster.state.set_measured(dict([first, second]))
    cluster.now += MEASURED_SECONDS - 1
    cluster.state.set_measured({})
    assert cluster.watts(pod("new"), "cheap", "dear") == [4.0, 16.0]
    assert cluster.state.measured_age() == MEASURED_SECONDS - 1
    cluster.now += 1
    assert cluster.watts(pod("new"), "cheap", "dear") == [None, 16.0]
    assert cluster.state.measured_age() == MEASURED_SECONDS - 60
    # Old metrics that a server still has are not a measurement.
    cluster.state.set_measured(dict([first]))
    assert cluster.watts(pod("new"), "cheap") == [None]
    cluster.now += 60
    assert cluster.watts(pod("new"), "dear") == [None]
    assert cluster.state.measured_age() is None
