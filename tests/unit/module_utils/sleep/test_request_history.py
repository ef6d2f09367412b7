# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Demand from Prometheus' history, as a server of canned answers gives it."""

from __future__ import annotations

import datetime
import http.server
import json
import threading
import typing as t
import urllib.parse
from collections.abc import Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.argspec import ArgumentSpec
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay import history
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.trace import TracePod

NOW = datetime.datetime(2026, 1, 31, 12, 0, 10, tzinfo=datetime.UTC)
# The last whole step, and the begin of two days before it.
END = NOW.timestamp() - 10
DAY = 86400
START = END - 2 * DAY
GIB = 1 << 30
Series = dict[str, t.Any]


class Prometheus:
    """Answers each query with the series of its beginning and its day."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, int], list[Series]] = {}
        self.queries: list[str] = []
        self.body: bytes | None = None
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                given = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
                owner.queries.append(given["query"][0])
                content = owner.body or owner.answer(given["query"][0], float(given["time"][0]))
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_arguments: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, query: str, time: float) -> bytes:
        day = 1 - round((END - time) / DAY)
        kind = next(
            name
            for name, start in (
                ("first", "min_over_time"),
                ("last", "max_over_time(timestamp"),
                ("requests", "max_over_time"),
                ("owners", "max by"),
            )
            if query.startswith(start)
        )
        result = self.answers.get((kind, day), [])
        return json.dumps(
            {"status": "success", "data": {"resultType": "vector", "result": result}}
        ).encode()

    def put(self, kind: str, day: int, value: float | str, **labels: str) -> None:
        series = {"metric": labels, "value": [END, str(value)]}
        self.answers.setdefault((kind, day), []).append(series)

    def pod(
        self,
        uid: str,
        times: dict[int, tuple[float, float]],
        cpu: float | str,
        node: str = "n1",
        kind: str = "ReplicaSet",
    ) -> None:
        """A pod with its first and last sample of each day, in seconds since the start."""
        for day, (first, last) in times.items():
            self.put("first", day, START + first, uid=uid)
            self.put("last", day, START + last, uid=uid)
            self.put("requests", day, cpu, uid=uid, node=node, resource="cpu", unit="core")
            memory = {"resource": "memory", "unit": "byte"}
            self.put("requests", day, GIB, uid=uid, node=node, **memory)
            self.put("owners", day, 1, uid=uid, created_by_kind=kind, created_by_name="web")


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    found = Prometheus()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def ask(server: Prometheus, **options: t.Any) -> tuple[tuple[TracePod, ...], list[str]]:
    given = ArgumentSpec(history.PROMETHEUS).complete({"url": server.url, "days": 2, **options})
    trace, notes = history.request_history(given, Context(now=lambda: NOW), {"n1", "n2"})
    assert trace.start == START
    return trace.pods, notes


def test_days_are_joined_to_one_pod(prometheus: Prometheus) -> None:
    prometheus.pod("u1", {0: (600, DAY - 300), 1: (DAY + 300, DAY + 900)}, 0.5)
    prometheus.pod("u2", {1: (DAY + 600, 2 * DAY)}, 2, node="n2")
    pods, notes = ask(prometheus)
    assert notes == []
    assert pods == (
        TracePod(600, DAY + 1200, (("cpu", 500), ("memory", GIB)), workload="web"),
        # It is there still.
        TracePod(DAY + 600, 2 * DAY, (("cpu", 2000), ("memory", GIB)), workload="web"),
    )
    assert len(prometheus.queries) == 8


def test_pods_of_nodes_and_of_other_nodes_are_left_out(prometheus: Prometheus) -> None:
    prometheus.pod("u1", {0: (0, 600), 1: (DAY, DAY + 600)}, 1)
    prometheus.pod("agent", {0: (0, 600)}, 1, kind="DaemonSet")
    prometheus.pod("static", {0: (0, 600)}, 1, kind="Node")
    prometheus.pod("other", {0: (0, 600)}, 1, node="n9")
    pods, _notes = ask(prometheus)
    assert len(pods) == 1


def test_a_day_without_samples_is_noted_and_ends_no_pod(prometheus: Prometheus) -> None:
    prometheus.pod("u1", {1: (DAY + 60, DAY + 600)}, 1)
    pods, notes = ask(prometheus)
    assert notes == ["Prometheus has no samples on 1 of 2 days."]
    assert pods[0].arrival == DAY + 60


def test_series_with_defects_are_ignored(prometheus: Prometheus) -> None:
    prometheus.pod("good", {0: (0, 600), 1: (DAY, DAY)}, 1)
    for value in ("NaN", "-1", "1e300", "many"):
        prometheus.pod(f"bad {value}", {0: (0, 600)}, value)
    prometheus.put("first", 0, "NaN", uid="no time")
    prometheus.put("first", 0, START, node="no uid")
    prometheus.answers["first", 0].append({"metric": 3, "value": "odd"})
    pods, _notes = ask(prometheus)
    by_cpu = [pod.requested("cpu") for pod in pods]
    assert by_cpu.count(1000) == 1
    assert set(by_cpu) <= {0, 1000}


def test_without_requests_the_error_says_what_to_scrape(prometheus: Prometheus) -> None:
    with pytest.raises(InvalidInput, match="let it scrape kube-state-metrics"):
        ask(prometheus)


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"status":"error","error":"too many samples"}'])
def test_another_server_is_one_sentence(prometheus: Prometheus, body: bytes) -> None:
    prometheus.body = body
    with pytest.raises(InvalidInput, match="does not answer a query with a vector"):
        ask(prometheus)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"days": 0}, "days: 0 is not from 1 to 90"),
        ({"step_seconds": 5}, "step_seconds: 5 is not from 15 to 3600"),
        ({"labels": {"a-b": "c"}}, "labels: 'a-b' is not a label"),
        ({"labels": {"a": 1}}, "labels: 'a' is not a label"),
    ],
)
def test_options_are_checked_before_any_request(
    prometheus: Prometheus, options: dict[str, t.Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        ask(prometheus, **options)
    assert prometheus.queries == []


def test_labels_select_the_cluster_in_each_query() -> None:
    made = history.queries({"cluster": 'hall "1"'}, 300)
    assert all(r'cluster="hall \"1\""' in query for query in made)
