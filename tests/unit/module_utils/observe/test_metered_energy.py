# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Joules of workloads, from Prometheus and from the counters of Kepler."""

from __future__ import annotations

import datetime
import random
import typing as t
import urllib.parse

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    TargetError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering import (
    endpoints,
    metering,
)
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering.endpoints import (
    Answers,
)
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering.kepler import (
    Amounts,
    PodName,
)
from support.examples import each_seed
from support.kepler_exporter import (
    Load,
    MeteredNode,
    cluster,
    exporter,
    prometheus,
    vector_reply,
    vectors,
)
from support.odd_answers import assert_fit_for_documents
from support.scripted_api import Asked, Reply, ScriptedApi

Json = dict[str, t.Any]
Source = t.Literal["kepler", "prometheus"]

NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
# 33 W in web, 11 W in pg.
N1 = MeteredNode("n1", (Load("u1", "shop", "web-1", 3.0), Load("u2", "db", "pg-0", 1.0)))
N2 = MeteredNode("n2", (Load("u3", "shop", "web-2", 2.0),), package=60.0, dram=5.0)
DAY = 86_400.0


def run(
    snapshot: Json, seconds: float, previous: Json | None, source: Source, **options: t.Any
) -> Json:
    """The document of a run, with the time in seconds after noon."""
    context = Context(now=lambda: NOON + datetime.timedelta(seconds=seconds), warn=lambda _: None)
    complete = metering.SPEC.complete({"source": source, **options})
    kube = Kube.connect({"host": "http://127.0.0.1:9", "api_key": "token"})
    last = metering.LastMetering.from_document(previous, context.now())
    body = metering.meter(complete, snapshot, {}, context, kube, last).as_document()
    head = {"document": "wattwise.kube/metering/v1", "time": "2026-01-31T12:00:00Z"}
    documents.check({**body, **head}, "metering", "metering")
    assert_fit_for_documents(body)
    return body


def joules(document: Json) -> dict[str, float]:
    """Joules by namespace and workload."""
    found: dict[str, float] = {}
    for part in document.get("energy", ()):
        for one in part["workloads"]:
            name = f"{one['namespace']}/{one['workload']}"
            found[name] = found.get(name, 0.0) + one["joules"]
    return found


def period(document: Json) -> tuple[float, float]:
    """Start and end of the energy, in seconds after noon."""
    parts = document["energy"]
    first, last = (
        (datetime.datetime.fromisoformat(text) - NOON).total_seconds()
        for text in (parts[0]["begin"], parts[-1]["end"])
    )
    return first, last


def test_prometheus_gives_the_joules_of_the_time_that_it_has() -> None:
    ended = MeteredNode("n1", (*N1.loads, Load("u8", "db", "job-x", 2.0), Load("u9", "no", "a", 1)))
    with prometheus(ended, N2, covered=7200.0) as server:
        first = run(cluster(N1), 0.0, None, "prometheus", url=server.url)
        asked = len(server.asked)
        # The energy is unchanged after so short a time.
        soon = run(cluster(N1), 299.0, first, "prometheus", url=server.url)
        assert len(server.asked) == asked + 3
        later = run(cluster(N1), 300.0, soon, "prometheus", url=server.url)
        assert len(server.asked) == asked + 8
    # Energy of an ended pod counts for its namespace; namespace "no" and node n2 do not exist.
    expected = {"shop/web": 33.0 * 7200, "db/pg": 11.0 * 7200, "db/": 22.0 * 7200}
    assert joules(first) == joules(soon) == joules(later) == pytest.approx(expected)
    assert (period(first), period(soon), period(later)) == ((-7200, 0), (-7200, 0), (-6900, 300))


def test_prometheus_is_asked_for_the_period_of_the_options() -> None:
    week = 7 * DAY
    with prometheus(N1, covered=week + 60) as server:
        options = {"url": server.url, "energy_period_seconds": week}
        first = run(cluster(N1), 0.0, None, "prometheus", **options)
        assert sum("604800s" in each.path for each in server.asked) == 2
        asked = len(server.asked)
        # It changes little in a part of 288, and a shorter one is requested at once.
        soon = run(cluster(N1), 2099.0, first, "prometheus", **options)
        assert len(server.asked) == asked + 3
        run(cluster(N1), 2100.0, soon, "prometheus", **options)
        assert len(server.asked) == asked + 8
        shorter = {**options, "energy_period_seconds": 3600.0}
        hour = run(cluster(N1), 2101.0, soon, "prometheus", **shorter)
    assert (period(first), period(hour)) == ((-week, 0.0), (2101.0 - 3600.0, 2101.0))


@pytest.mark.parametrize("seconds", [0.0, 3599.0, 31 * DAY + 1, float("nan"), float("inf")])
def test_a_period_beyond_the_limits_is_refused(seconds: float) -> None:
    given = metering.SPEC.complete({"source": "kepler", "energy_period_seconds": seconds})
    with pytest.raises(InvalidInput, match="energy_period_seconds"):
        metering.check_options(given)


def test_prometheus_without_a_quarter_of_an_hour_gives_watts_alone() -> None:
    with prometheus(N1, covered=0.0) as server:
        found = run(cluster(N1), 0.0, None, "prometheus", url=server.url)
    assert "energy" not in found and len(found["pods"]) == 2 and found["errors"] == []


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply({"status": "error", "error": "query processing would load too many samples"}, 422),
         "server_error"),
        (Reply({"status": "success", "data": {"resultType": "matrix", "result": []}}), "malformed"),
        (vector_reply([{"metric": {"node_name": "n1"}, "value": [0, "1e12"]}]), "implausible"),
        (vector_reply([{"metric": {}, "value": [0, "-1"]}]), "malformed"),
    ],
)  # fmt: skip
def test_energy_that_cannot_be_had_is_an_error_and_leaves_the_watts(
    reply: Reply, reason: str
) -> None:
    def answer(asked: Asked) -> Reply:
        query = urllib.parse.unquote_plus(asked.path)
        is_covered = "min_over_time" in query
        if "joules_total" in query and not (is_covered and reason == "implausible"):
            return reply
        return vector_reply(vectors(query, [N1]))

    with ScriptedApi(answer) as server:
        found = run(cluster(N1), 0.0, None, "prometheus", url=server.url)
    assert len(found["pods"]) == 2 and not joules(found)
    assert [error["reason"] for error in found["errors"]] == [reason]


@pytest.mark.parametrize("old", [False, True])
def test_kepler_s_counters_give_the_joules_since_the_first_run(old: bool) -> None:
    now = [0.0]
    with exporter(N1, clock=lambda: now[0], old=old) as server:
        targets = [{"name": "n1", "endpoint": server.url}]

        def at(seconds: float, previous: Json | None) -> Json:
            now[0] = seconds
            return run(cluster(N1), seconds, previous, "kepler", targets=targets)

        first = at(0.0, None)
        assert "energy" not in first
        second = at(60.0, first)
        # The same moment again adds nothing.
        third = at(3700.0, at(60.0, second))
        # Prometheus' energy is accounted separately.
        assert period(at(7200.0, {**third, "source": "prometheus"})) == (3700.0, 7200.0)
        late = at(3700.0 + DAY + 1, third)
    for found, seconds in ((second, 60.0), (third, 3700.0)):
        assert period(found) == (0.0, seconds)
        expected = {"shop/web": 33.0 * seconds, "db/pg": 11.0 * seconds}
        assert joules(found) == pytest.approx(expected)
    # Counters from more than a day ago say nothing about the last one.
    assert "energy" not in late


@pytest.mark.parametrize(
    "times",
    [("2026-01-31T11:00:00Z", "2026-01-31T11:00:00Z"), ("2026-01-31T13:00:00Z",) * 2,
     ("2026-01-31T10:00:00Z", "2027-01-31T10:00:00Z"), ("2026-99-31T10:00:00Z",) * 2],
)  # fmt: skip
def test_a_document_with_impossible_times_begins_a_new_account(times: tuple[str, str]) -> None:
    part = {"begin": times[0], "end": times[1], "workloads": []}
    with exporter(N1) as server:
        targets = [{"name": "n1", "endpoint": server.url}]
        previous = {**run(cluster(N1), 0.0, None, "kepler", targets=targets), "energy": [part]}
        found = run(cluster(N1), 60.0, previous, "kepler", targets=targets)
        assert period(found) == (0.0, 60.0)
        # Counters with a future time or without a time are ignored.
        previous["counters"]["n1"]["time"] = times[1].replace("2026-01", "2027-01")
        assert "energy" not in run(cluster(N1), 60.0, previous, "kepler", targets=targets)


class World:
    """Nodes with two pods each, whose true joules are known, and unreliable Keplers."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.nodes = [
            MeteredNode(f"n{node}", tuple(
                Load(f"u{node}{pod}", "shop", f"web{pod}-0", 1.0) for pod in range(2)
            ))
            for node in range(2)
        ]  # fmt: skip
        self.truth: dict[str, float] = {}
        self.counters: dict[str, dict[str, float]] = {}
        self.has_reset = False

    def live(self, seconds: float, *, resets: bool) -> None:
        for node in self.nodes:
            for load in node.loads:
                used = self.source.uniform(0.0, 200.0) * seconds
                self.truth[load.uid] = self.truth.get(load.uid, 0.0) + used
                zones = self.counters.setdefault(load.uid, {"package": 5.0, "dram": 1.0})
                zones["package"] += used * 0.75
                zones["dram"] += used * 0.25
        if resets and self.source.random() < 0.3:
            self.has_reset = True
            node = self.source.choice(self.nodes)
            for load in node.loads:
                self.counters[load.uid] = {"package": 0.0, "dram": 0.0}

    def answers(self, *, whole: bool) -> Answers:
        """Some nodes do not answer, and some pods are missing, unless it is ``whole``."""
        found = Answers()
        for node in self.nodes:
            if not whole and self.source.random() < 0.2:
                found.errors.append(TargetError(node.name, "", "timeout", "late"))
                continue
            amounts = found.nodes[node.name] = Amounts(are_joules=False)
            for load in node.loads:
                if whole or self.source.random() < 0.8:
                    name = PodName(load.uid, load.namespace, load.name)
                    amounts.joules[name] = dict(self.counters[load.uid])
                    amounts.pods[name] = {"package": 1.0}
        return found


@each_seed(30)
def test_counted_joules_are_never_more_than_used_and_all_of_them_without_resets(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random.Random(seed)
    world, resets = World(source), seed % 2 == 0
    answers = [Answers()]
    monkeypatch.setattr(endpoints, "ask", lambda *_given, **_more: answers[0])
    world.live(1.0, resets=False)
    answers[0] = world.answers(whole=True)
    snapshot, seconds = cluster(*world.nodes), 0.0
    document = run(snapshot, seconds, None, "kepler")
    before = dict(world.truth)
    count = source.randint(2, 12)
    for index in range(count):
        step = source.choice([5.0, 60.0, 300.0, 4000.0])
        seconds += step
        world.live(step, resets=resets)
        answers[0] = world.answers(whole=index == count - 1)
        document = run(snapshot, seconds, document, "kepler")
    used = sum(world.truth[uid] - before[uid] for uid in before)
    counted = sum(joules(document).values())
    assert 0.0 <= counted <= used + 1.0
    if not world.has_reset:
        assert counted == pytest.approx(used, abs=1.0)
        assert period(document) == (0.0, seconds)


@pytest.mark.parametrize("length", [3600.0, DAY, 31 * DAY])
def test_the_account_of_many_runs_has_the_last_period_in_few_parts(
    length: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(random.Random(1))
    answers = [Answers()]
    monkeypatch.setattr(endpoints, "ask", lambda *_given, **_more: answers[0])
    document: Json | None = None
    step, options = length / 96, {"energy_period_seconds": length}
    for index in range(220):
        world.live(step, resets=False)
        answers[0] = world.answers(whole=True)
        moment = int(index * step)
        document = run(cluster(*world.nodes), moment, document, "kepler", **options)
    assert document is not None and len(document["energy"]) <= 26
    begin, end = period(document)
    assert end == int(219 * step) and length <= end - begin <= length * 25 / 24
    ends = [part["end"] for part in document["energy"]]
    assert [part["begin"] for part in document["energy"]][1:] == ends[:-1]


def test_counters_that_no_machine_could_reach_are_an_error_and_no_energy() -> None:
    with exporter(N1) as server:
        targets = [{"name": "n1", "endpoint": server.url}]
        previous = run(cluster(N1), 0.0, None, "kepler", targets=targets)
    huge = N1.text().replace('state="running",zone="dram"} 2.0', 'state="running",zone="dram"} 9e9')
    assert huge != N1.text()
    with ScriptedApi(lambda _asked: Reply(huge.encode())) as server:
        targets = [{"name": "n1", "endpoint": server.url}]
        found = run(cluster(N1), 60.0, previous, "kepler", targets=targets)
    assert [error["reason"] for error in found["errors"]] == ["implausible"]
    assert "energy" not in found
