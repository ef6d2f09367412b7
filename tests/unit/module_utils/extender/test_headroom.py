# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of the filter: the sentences of a placement, and no burst of pods above a limit."""

from __future__ import annotations

import datetime
import gc
import json
import random
import typing as t
import weakref

import numpy
import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.extender import publication, views
from ansible_collections.wattwise.kube.plugins.module_utils.extender.answering import (
    CROWDED,
    Extender,
)
from ansible_collections.wattwise.kube.plugins.module_utils.extender.cluster_state import (
    MEASURED_SECONDS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.extender.pods import PASSED_SECONDS
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import ASLEEP_TAINT
from support.examples import each_seed
from support.extender import (
    FLEET,
    NOW,
    Cluster,
    Json,
    arguments,
    config_map,
    linear,
    node,
    pod,
    published,
    random_fleet,
)

RACK = "wattwise.github.io/rack"
OPTIONS: Json = {"pod_usage_assumption": 1.0, "usage_source": "requests"}
METRICS: Json = {**OPTIONS, "usage_source": "metrics"}


def limit(
    watts: float,
    *nodes: str,
    kind: str = "rack",
    beside: float = 0.0,
    not_ready: t.Sequence[str] = (),
) -> Json:
    """A limit in the plan's document."""
    name = {"rack": "r1", "node": nodes[0], "fleet": ""}[kind]
    return {
        **{"kind": kind, "name": name, "nodes": list(nodes), "limit_watts": watts},
        "not_ready": list(not_ready),
        **{"beside_watts": beside, "watts_before": 0.0, "watts_after": 0.0},
    }


def pair(*limits: Json, **plan: t.Any) -> Cluster:
    """Two machines of 100 W idle; a core adds 10 W to one, and 20 W to the other."""
    curves = {"cheap": linear(10.0), "dear": linear(20.0)}
    body = published(curves, {"limits": list(limits), **plan}, **OPTIONS)
    return Cluster().nodes(node("cheap"), node("dear")).publish(body)


def filtered(cluster: Cluster, given: Json, *names: str) -> Json:
    found: Json = json.loads(Extender(cluster.state).filter(arguments(given, list(names))))
    assert found["Error"] == ""
    excluded = {*found["FailedNodes"], *found["FailedAndUnresolvableNodes"]}
    assert sorted([*found["NodeNames"], *excluded]) == sorted(names)
    return found


def refused(cluster: Cluster, given: Json, *names: str) -> dict[str, str]:
    """The nodes beyond limits. An eviction of kube-scheduler would free none of them."""
    found = filtered(cluster, given, *(names or ("cheap", "dear")))
    assert found["FailedNodes"] == {}
    reasons: dict[str, str] = found["FailedAndUnresolvableNodes"]
    return reasons


@each_seed(30)
def test_a_node_fails_with_the_sentence_of_a_placement(seed: int) -> None:
    chance = random.Random(seed)
    nodes, curves, running = random_fleet(chance, 4)
    nodes = [one for one in nodes if one["metadata"]["name"] in curves]
    for number, one in enumerate(nodes):
        one["metadata"]["labels"] = {RACK: f"r{number % 2}"}
    running = [one for one in running if one["spec"]["nodeName"] in curves]
    limits = {
        "fleet_watts": chance.choice([0, chance.randint(100, 1500)]),
        "rack_watts": {"*": chance.randint(100, 1000)},
        "node_watts": chance.choice([{}, {"*": chance.randint(100, 600)}]),
    }
    src = {"nodes": nodes, "running": running, **OPTIONS, "limits": limits, "strategy": "greedy"}
    with_curves = [
        {
            "name": one["metadata"]["name"],
            "labels": {**one["metadata"]["labels"], "name": one["metadata"]["name"]},
            "allocatable": one["status"]["allocatable"],
            "curve": curves[one["metadata"]["name"]],
        }
        for one in nodes
    ]
    src["nodes"] = with_curves
    plan = place({**src, "pods": []})
    body = published(curves, {"limits": plan["limits"], "closed": plan.get("closed")}, **OPTIONS)
    cluster = Cluster().nodes(*nodes).pods(*running).publish(body)
    given = pod("new", f"{chance.choice([0, 100, 1000, 3000])}m")
    told = refused(cluster, given, *(one["metadata"]["name"] for one in nodes))
    for one in with_curves:
        name = one["name"]
        asking = pod("new", given["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        asking["spec"].update(nodeSelector={"name": name}, schedulerName="wattwise")
        found = place({**src, "pods": [asking]})
        message = found["unplaced"][0]["message"] if found["unplaced"] else ""
        if "Insufficient" in message:
            continue
        assert (name in told) == bool(message), (told, message)
        assert told.get(name, "") in message


class Burst:
    """kube-scheduler with pods whose bindings are seen late, and the power that they draw."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        nodes, self.curves, _running = random_fleet(self.chance, 6)
        self.names = [one["metadata"]["name"] for one in nodes]
        self.cluster = Cluster().nodes(*nodes)
        self.limits = [limit for limit in self._limits() if limit["nodes"]]
        self.publish()
        self.on: dict[str, tuple[str, float]] = {}
        self.in_flight: dict[str, Json] = {}

    def _limits(self) -> t.Iterator[Json]:
        priced = [name for name in self.names if name in self.curves]
        for members in (priced[::2], priced[1::2], priced):
            beside = self.chance.choice([0.0, 30.0])
            watts = self._idle(members) + 1.02 * beside + self.chance.randint(0, 150)
            kind = "fleet" if members is priced else "rack"
            yield limit(watts + 3.0, *members, kind=kind, beside=beside)
        for name in priced:
            yield limit(self._idle([name]) + self.chance.randint(1, 60), name, kind="node")

    def _idle(self, names: list[str]) -> float:
        return float(sum(self.curves[name]["watts"][0] for name in names))

    def publish(self) -> None:
        body = published(self.curves, {"limits": self.limits}, **OPTIONS)
        self.cluster.publish(body)
        self.rounded: list[Json] = body["limits"]

    def ask(self, given: Json) -> None:
        name, offered = given["metadata"]["name"], self.chance.sample(self.names, 4)
        passing = filtered(self.cluster, given, *offered)["NodeNames"]
        self.on.pop(name, None)
        self.in_flight.pop(name, None)
        if self.chance.random() < 0.7 and passing:
            self.cluster.scores(given, *passing)
        if passing:
            cores = given["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            self.on[name] = self.chance.choice(passing), float(cores[:-1]) / 1000
            self.in_flight[name] = given

    def see_binding(self) -> None:
        name = self.chance.choice(list(self.in_flight))
        given = self.in_flight.pop(name)
        given["spec"]["nodeName"] = self.on[name][0]
        self.cluster.pods(given)

    def see_the_end_of(self, name: str) -> None:
        self.cluster.state.set_pod(("default", name), None)
        self.on.pop(name)
        self.in_flight.pop(name, None)

    def passing(self, cpu: str) -> list[str]:
        found: list[str] = filtered(self.cluster, pod("last", cpu), *self.names)["NodeNames"]
        return found

    def within_limits(self, cores: float) -> list[str]:
        """The nodes that one more pod takes to no limit, without any pod in flight."""
        found = []
        for name in self.names:
            self.on["last"] = name, cores
            own = [one for one in self.rounded if name in one["nodes"]]
            if all(self.draw(one) <= one["limit_watts"] + 1e-6 for one in own):
                found.append(name)
        return found

    def draw(self, one: Json) -> float:
        total: float = one["beside_watts"]
        for name in one["nodes"]:
            cores = sum(use for where, use in self.on.values() if where == name)
            total += float(
                numpy.interp(cores, self.curves[name]["cpu"], self.curves[name]["watts"])
            )
        return total


@each_seed(40)
def test_no_burst_of_pods_exceeds_a_limit_whatever_node_kube_scheduler_takes(seed: int) -> None:
    burst = Burst(seed)
    chance = burst.chance
    for number in range(60):
        event = chance.random()
        if event < 0.5 or not burst.in_flight:
            given = pod(f"pod-{number}", f"{chance.choice([50, 200, 500, 1500])}m")
            burst.cluster.pods(given)
            burst.ask(given)
        elif event < 0.75:
            burst.see_binding()
        elif event < 0.9:
            # Its binding failed, so that it is filtered again.
            burst.ask(chance.choice(list(burst.in_flight.values())))
        elif event < 0.95:
            burst.see_the_end_of(chance.choice(list(burst.on)))
        else:
            burst.publish()
        for one in burst.limits:
            assert burst.draw(one) <= one["limit_watts"] + 1e-3, one
    while burst.in_flight:
        burst.see_binding()
    assert burst.passing("100m") == burst.within_limits(0.1)


def test_pods_one_after_the_other_use_the_whole_headroom() -> None:
    cluster, passed = pair(limit(250.0, "cheap", "dear")), 0
    for number in range(20):
        given = pod(f"pod-{number}", "500m")
        if filtered(cluster, given, "cheap", "dear")["NodeNames"]:
            cluster.pods(pod(f"pod-{number}", "500m", on="cheap"))
            passed += 1
    # 200 W idle, and 5 W each.
    assert passed == 10


def test_a_pod_that_passed_counts_until_its_node_is_known() -> None:
    cluster = pair(limit(230.0, "cheap", "dear"))
    full = "node(s) in rack r1 (221 W of 230 W; this pod adds at least 10 W)"
    assert refused(cluster, pod("a")) == {}
    # It may be on the dear one, where it adds 20 W.
    assert refused(cluster, pod("b")) == {"dear": full}
    assert refused(cluster, pod("c")) == dict.fromkeys(
        ("cheap", "dear"), "node(s) in rack r1 (230 W of 230 W; this pod adds at least 10 W)"
    )
    assert cluster.state.counts()["passed_pods"] == 2
    # The same pods again: they do not count against themselves.
    assert refused(cluster, pod("b")) == {"dear": full}
    cluster.pods(pod("a", on="cheap"))
    assert refused(cluster, pod("b")) == {}
    cluster.pods(pod("b", on="cheap"))
    assert refused(cluster, pod("c")).keys() == {"dear"}
    assert cluster.state.counts()["passed_pods"] == 1
    cluster.now += PASSED_SECONDS
    assert refused(cluster, pod("d")).keys() == {"dear"}


def test_another_pod_of_its_name_does_not_end_it() -> None:
    cluster = pair(limit(220.0, "cheap", "dear")).pods(pod("a", on="dear"))
    cluster.pods({**pod("a"), "metadata": {**pod("a")["metadata"], "uid": "former"}})
    assert refused(cluster, pod("a")) == {}
    cluster.state.set_pod(("default", "a"), None)
    assert cluster.state.counts()["passed_pods"] == 1
    cluster.pods(pod("a"))
    cluster.state.set_pod(("default", "a"), None)
    assert cluster.state.counts()["passed_pods"] == 0


def test_a_scored_pod_and_a_planned_one_count_once() -> None:
    planned = {"namespace": "default", "pod": "planned", "uid": "", "node": "cheap"}
    cluster = pair(limit(230.0, "cheap", "dear"), placements=[planned]).pods(pod("planned"))
    assert refused(cluster, pod("planned")) == {}
    assert cluster.scores(pod("planned"), "cheap", "dear") == [10, 0]
    # 210 W with the planned one, which may get the dear node.
    assert refused(cluster, pod("a")).keys() == {"dear"}
    cluster.pods(pod("planned", on="cheap"))
    assert refused(cluster, pod("a")) == {}


def test_closed_nodes_fail_and_reservations_exclude_no_other_node_for_them() -> None:
    hot = "node(s) in rack r1 (inlet of 35 °C, limit 32 °C)"
    planned = {"namespace": "default", "pod": "big", "uid": "", "node": "cheap"}
    cluster = pair(closed={"dear": hot, "no-curve": "node(s) had no power curve"})
    assert filtered(cluster, pod("a"), "cheap", "dear", "no-curve", "other") == {
        "Nodes": None,
        "NodeNames": ["cheap", "other"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"dear": hot, "no-curve": "node(s) had no power curve"},
        "Error": "",
    }
    cluster = pair(closed={"dear": hot}, placements=[planned]).pods(pod("big", "6"))
    found = filtered(cluster, pod("a", "4"), "cheap", "dear", "other")
    assert found["FailedAndUnresolvableNodes"] == {"cheap": CROWDED, "dear": hot}
    found = filtered(cluster, pod("a", "4"), "cheap", "dear")
    assert found["NodeNames"] == ["cheap"]
    assert found["FailedAndUnresolvableNodes"] == {"dear": hot}
    assert filtered(cluster, pod("a", "4"), "dear")["NodeNames"] == []


def test_load_that_grew_closes_a_domain_until_it_falls() -> None:
    cluster = pair(limit(250.0, "cheap", "dear", beside=20.0))
    grown = pod("grown", "4", "cheap")
    assert set(refused(cluster.pods(grown), pod("new", "0")).values()) == {
        "node(s) in rack r1 (260 W of 250 W)"
    }
    cluster.state.set_pod(("default", "grown"), None)
    assert refused(cluster, pod("new", "0")) == {}


def test_a_curve_that_falls_opens_no_domain_above_its_limit() -> None:
    falling = {"cpu": [0.0, 8.0], "watts": [200.0, 120.0]}
    body = published({"cheap": falling}, {"limits": [limit(195.0, "cheap")]}, **OPTIONS)
    cluster = Cluster().nodes(node("cheap")).publish(body)
    assert refused(cluster, pod("a"), "cheap") == {"cheap": "node(s) in rack r1 (201 W of 195 W)"}


def test_a_machine_that_sleeps_fails_by_its_wake_and_draws_nothing() -> None:
    asleep = node("cheap")
    asleep["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    asleep["spec"] = {"taints": [{"key": ASLEEP_TAINT, "effect": "NoSchedule"}]}
    cluster = pair(limit(205.0, "cheap", "dear")).nodes(asleep)
    assert refused(cluster, pod("a")) == {
        "cheap": "node(s) in rack r1 (100 W of 205 W; this pod adds at least 20 W)"
    }
    assert refused(cluster.nodes(node("cheap")), pod("a", "0")) == {}


def test_a_machine_that_loses_its_connection_keeps_its_power_until_the_next_run() -> None:
    lost = node("dear")
    lost["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    limits = limit(215.0, "cheap", "dear")
    cluster = pair(limits).nodes(lost)
    assert refused(cluster, pod("a", "2")).keys() == {"cheap", "dear"}
    # The run measured it: it is broken, and draws nothing. A pod would switch it on.
    measured = limit(215.0, "cheap", "dear", not_ready=["dear"])
    before = published(dict.fromkeys(("cheap", "dear"), linear(10.0)), {"limits": [limits]})
    body = published(dict.fromkeys(("cheap", "dear"), linear(10.0)), {"limits": [measured]})
    assert publication.is_due(publication.steady(body, before), before)
    cluster.publish(body)
    assert refused(cluster, pod("a", "2")).keys() == {"dear"}
    # It came back.
    assert refused(cluster.nodes(node("dear")), pod("a", "2")).keys() == {"cheap", "dear"}


def test_a_node_without_known_use_fails_like_one_without_a_curve() -> None:
    curves = {"cheap": linear(10.0)}
    plan = {"limits": [limit(500.0, "cheap")]}
    body = published(curves, plan, usage_source="metrics")
    assert refused(Cluster().nodes(node("cheap")).publish(body), pod("a"), "cheap") == {
        "cheap": "node(s) had no power curve"
    }


def test_a_burst_while_measurements_are_missing_keeps_the_limit() -> None:
    body = published({"cheap": linear(10.0)}, {"limits": [limit(150.0, "cheap")]}, **METRICS)
    cluster = Cluster().nodes(node("cheap")).publish(body)
    measured = views.Measured(1_000_000, cluster.now - 15.0, cluster.now)
    cluster.state.set_measured({"cheap": measured})
    assert refused(cluster, pod("a"), "cheap") == {}
    cluster.now += MEASURED_SECONDS
    for number in range(6):
        if not refused(cluster, pod(f"pod-{number}"), "cheap"):
            cluster.pods(pod(f"pod-{number}", on="cheap"))
    # One core was measured, and four more would reach the limit.
    assert cluster.state.counts()["pods"] <= 4
    assert refused(cluster, pod("b"), "cheap") == {"cheap": "node(s) had no power curve"}


def test_a_pod_whose_image_came_late_counts_until_a_measurement_has_it() -> None:
    body = published({"cheap": linear(10.0)}, {"limits": [limit(150.0, "cheap")]}, **METRICS)
    cluster = Cluster().nodes(node("cheap")).publish(body)
    late = pod("late", "5", on="cheap")
    running = {"startedAt": "2026-01-31T11:59:55Z"}
    late["status"].update(
        startTime="2026-01-31T11:50:00Z", containerStatuses=[{"state": {"running": running}}]
    )

    def measure(seconds: float) -> None:
        measured = views.Measured(0, cluster.now + seconds - 15.0, cluster.now + seconds)
        cluster.state.set_measured({"cheap": measured})

    measure(0.0)
    assert refused(cluster.pods(late), pod("a"), "cheap").keys() == {"cheap"}
    measure(15.0)
    assert refused(cluster, pod("a"), "cheap") == {}


def test_pods_of_daemon_sets_pass_and_count() -> None:
    daemon = pod("daemon", "1")
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d"}]
    cluster = pair(limit(210.0, "cheap", "dear"), closed={"dear": "hot"})
    assert refused(cluster, daemon, "dear") == {}
    assert refused(cluster, pod("a"), "cheap").keys() == {"cheap"}
    # Tenants write owners, but only pods of DaemonSets can have one node alone.
    forged = {**daemon, "metadata": {**daemon["metadata"], "name": "forged"}}
    assert refused(cluster, forged).keys() == {"cheap", "dear"}


def test_a_pod_in_flight_keeps_no_former_publication() -> None:
    cluster, given = pair(), []
    body = published({"cheap": linear(10.0)}, {"limits": [limit(250.0, "cheap")]}, **OPTIONS)
    for number in range(3):
        read = publication.read(config_map(body))
        given.append(weakref.ref(read))
        cluster.state.set_publication(FLEET, read)
        filtered(cluster, pod(f"pod-{number}"), "cheap", "dear")
    del read
    gc.collect()
    assert [one() is None for one in given] == [True, True, False]


def test_a_fleet_without_limits_keeps_its_nodes_open() -> None:
    cluster = pair(limit(200.0, "cheap", "dear", "foreign")).nodes(node("foreign"))
    other = config_map(published({"foreign": linear(1.0)}, **OPTIONS), "wattwise-extender-2")
    key = (FLEET[0], "wattwise-extender-2")
    cluster.state.set_publication(key, publication.read(other))
    assert refused(cluster, pod("a"), "cheap", "foreign").keys() == {"cheap"}
    cluster.state.set_publication(FLEET, None)
    assert refused(cluster, pod("b"), "cheap", "foreign") == {}
    assert cluster.state.counts()["passed_pods"] == 1


# What a run publishes


def test_without_limits_nothing_is_published_of_them_and_no_pod_is_kept() -> None:
    body = published({"cheap": linear(1.0)})
    assert "limits" not in body and "closed" not in body
    cluster = Cluster().nodes(node("cheap")).publish(body)
    assert refused(cluster, pod("a"), "cheap") == {}
    assert cluster.state.counts()["passed_pods"] == 0


def test_a_noisy_reading_writes_nothing() -> None:
    def body(beside: float, now: datetime.datetime = NOW, watts: float = 1000.0) -> Json:
        return published({}, {"limits": [limit(watts, "n1", beside=beside)]}, now)

    def is_due(given: Json, before: Json) -> bool:
        return publication.is_due(publication.steady(given, before), before)

    first = body(101.0)
    # Rounded up to a hundredth of the limit, so that it is never below what was measured.
    assert publication.read(config_map(first)).domains[0].beside_watts == 110.0
    assert not is_due(body(109.0, NOW + datetime.timedelta(hours=1)), first)
    assert not is_due(body(99.0), first)
    assert is_due(body(111.0), first)
    assert is_due(body(85.0), first)
    assert is_due(body(101.0, watts=1001.0), first)
    assert is_due(published({}), first) and is_due(first, published({}))


def test_limits_whose_readings_swing_by_turns_write_nothing() -> None:
    """Each is near a border of its steps, as of thousands of nodes some always are."""

    def body(a: float, b: float) -> Json:
        given = (("a", a), ("b", b))
        limits = [limit(1000.0, name, kind="node", beside=beside) for name, beside in given]
        return published({}, {"limits": limits})

    before: t.Mapping[str, t.Any] = body(109.0, 109.0)
    writes = 0
    for number in range(10):
        now = publication.steady(body(*((111.0, 109.0) if number % 2 else (109.0, 111.0))), before)
        if publication.is_due(now, before):
            before, writes = now, writes + 1
    assert writes == 2
    assert [one["beside_watts"] for one in before["limits"]] == [120.0, 120.0]
    assert publication.steady(body(85.0, 109.0), before)["limits"][0]["beside_watts"] == 90.0


def test_the_figures_of_reasons_are_news_every_five_minutes_alone() -> None:
    def body(inlet: int, seconds: float = 0.0, node: str = "n1") -> Json:
        plan = {"closed": {node: f"node(s) in rack r1 (inlet of {inlet} °C, limit 32 °C)"}}
        return published({}, plan, NOW + datetime.timedelta(seconds=seconds))

    first = body(35)
    assert not publication.is_due(body(36, 299.0), first)
    assert publication.is_due(body(36, 300.0), first)
    assert not publication.is_due(body(35, 3600.0), first)
    assert publication.is_due(body(35, node="n2"), first)
    assert publication.is_due(published({}), first) and publication.is_due(first, published({}))


@pytest.mark.parametrize(
    "odd",
    [
        7,
        {"kind": "hall"},
        {"kind": "rack", "name": "r1", "nodes": "n1"},
        {"kind": "rack", "name": "r1", "nodes": [7], "limit_watts": 5.0, "beside_watts": 0.0},
        {"kind": "rack", "name": "r1", "nodes": [], "limit_watts": 0, "beside_watts": 0.0},
        {"kind": "rack", "name": "r1", "nodes": [], "limit_watts": 1e300, "beside_watts": 0.0},
        {"kind": "rack", "name": "r1", "nodes": [], "limit_watts": 5.0, "beside_watts": -1.0},
        {"kind": "rack", "name": "r1", "nodes": [], "limit_watts": True, "beside_watts": 0.0},
    ],
)
def test_one_spoilt_limit_leaves_the_others(odd: t.Any) -> None:
    body = published({"cheap": linear(10.0)}, {"limits": [limit(100.0, "cheap", "cheap")]})
    body["limits"].insert(0, odd)
    body["closed"] = {"a": 7, "b": "x" * 10_000 + "\n", "cheap": None}
    found = publication.read(config_map(body))
    [domain] = found.domains
    assert (domain.kind, domain.nodes, domain.limit_watts) == ("rack", ("cheap",), 100.0)
    assert found.closed.keys() == {"b"} and len(found.closed["b"]) <= 200
    cluster = Cluster().nodes(node("cheap")).publish(body)
    assert refused(cluster, pod("a"), "cheap").keys() == {"cheap"}
    others: list[Json] = [{}, {"limits": 7, "closed": 7}, {"limits": [{"kind": [], "name": {}}]}]
    for spoilt in others:
        before = {**body, **spoilt}
        assert publication.is_due(publication.steady(published({}), before), before)
        own = published({}, {"limits": [limit(100.0, "cheap")]})
        assert publication.steady(own, before) == own
