# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watcher: its reasons for runs, their aggregation, and its requests."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.units import parse_time
from ansible_collections.wattwise.kube.plugins.module_utils.kube import watch
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import KUBECONFIG_VARIABLE
from ansible_collections.wattwise.kube.plugins.module_utils.kube.watch import Change
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet import (
    reasons,
    resource,
    stalling,
    watching,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.ownership import serves
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import (
    FLEET_ANNOTATION,
    RECONCILE_PERIOD,
    PowerFleet,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.watching import (
    Request,
    Requests,
    Watcher,
)
from support.power_fleets import manifest as power_fleet
from support.power_fleets import parsed, schema
from support.watch_api import Asked, WatchApi
from support.watched_objects import node, waiting_pod

Json = dict[str, t.Any]

FLEETS = "/apis/wattwise.github.io/v1alpha1/powerfleets"
PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
TEMPLATES = "/apis/wao.bitmedia.co.jp/v1beta1/nodeconfigtemplates"
WORKLOADS = "/apis/intel.com/v1alpha1/rmdworkloads"
GATE = "wattwise.github.io/devices"
EVERYTHING: Json = {"rmd": {"enabled": True}, "nodeConfigs": {"enabled": True}}


def fleet(name: str = "main", **spec: t.Any) -> PowerFleet:
    return parsed(power_fleet(name, **spec))


def pods_reason(pod: Json, *fleets: PowerFleet) -> list[str]:
    return reasons.fleets_of_pod(Change(("work", "p"), None, reasons.view_pod(pod)), fleets)


def nodes_reason(before: Json | None, after: Json | None, *fleets: PowerFleet) -> list[str]:
    first, second = (each and reasons.view_node(each) for each in (before, after))
    return reasons.fleets_of_node(Change(("", "n"), first or None, second or None), fleets)


def with_gate(pod: Json, *gates: str) -> Json:
    return {**pod, "spec": {**pod["spec"], "schedulingGates": [{"name": gate} for gate in gates]}}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (waiting_pod(), ["power/one", "power/two"]),
        (waiting_pod(annotations={FLEET_ANNOTATION: "power/two"}), ["power/two"]),
        (waiting_pod(annotations={FLEET_ANNOTATION: "../../etc"}), []),
        (waiting_pod(annotations={FLEET_ANNOTATION: ["power/one"]}), []),
        (waiting_pod(scheduler="default-scheduler"), []),
        (with_gate(waiting_pod(), "somebody.else/gate"), []),
        (with_gate(waiting_pod(scheduler="other"), GATE), ["power/devices"]),
        (with_gate(waiting_pod(scheduler="other"), GATE, "x/y"), ["power/devices"]),
    ],
)
def test_a_waiting_pod_is_a_reason_for_the_fleets_that_may_send_it(
    pod: Json, expected: list[str]
) -> None:
    placement = {"enabled": True, "schedulerName": "third"}
    fleets = (
        fleet("one"),
        fleet("two"),
        fleet("paused", suspend=True),
        fleet("observing", placement={"enabled": False, "schedulerName": "wattwise"}),
        fleet("devices", placement=placement, devices={"enabled": True, "gate": GATE}),
    )
    assert pods_reason(pod, *fleets) == expected
    # The run must consider the pod its own, otherwise the request was in vain.
    named = {each.key: each for each in fleets}
    assert all(serves(named[key], pod) for key in expected)


@pytest.mark.parametrize(
    "pod",
    [
        {**waiting_pod(), "spec": {**waiting_pod()["spec"], "nodeName": "n"}},
        waiting_pod(deletionTimestamp="2026-01-31T12:00:00Z"),
        {**waiting_pod(), "status": {"phase": "Failed"}},
    ],
)
def test_a_pod_that_does_not_wait_is_no_reason(pod: Json) -> None:
    assert reasons.view_pod(pod) is None


def test_what_a_run_writes_on_a_pod_is_no_change() -> None:
    pod = waiting_pod(resourceVersion="1")
    written = {
        "metadata": {**pod["metadata"], "resourceVersion": "2", "annotations": {"a/b": "c"}},
        "spec": pod["spec"],
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled"}]},
    }
    assert reasons.view_pod(pod) == reasons.view_pod(written)
    assert reasons.view_pod(with_gate(pod, "x/y")) != reasons.view_pod(pod)


@pytest.mark.parametrize(
    ("before", "after", "is_reason"),
    [
        (None, node("n", zone="a"), True),
        (node("n", zone="a"), None, True),
        (node("n", zone="a"), node("n", zone="a", rack="1"), True),
        (node("n", zone="a"), node("n", zone="b"), True),
        (node("n", zone="b"), node("n", zone="b", rack="1"), False),
        (node("n", "False", zone="a"), node("n", "True", zone="a"), True),
        (node("n", "True", zone="a"), node("n", "False", zone="a"), False),
        (node("n", "Unknown", zone="a"), node("n", "False", zone="a"), False),
    ],
)
def test_nodes_are_a_reason_when_they_come_change_or_can_take_more(
    before: Json | None, after: Json | None, is_reason: bool
) -> None:
    chosen = fleet(nodeSelector={"matchLabels": {"zone": "a"}})
    found = nodes_reason(before, after, chosen, fleet("paused", suspend=True))
    assert found == ([chosen.key] if is_reason else [])


def test_the_heartbeat_of_a_node_is_no_change() -> None:
    beat = node("n")
    beat["metadata"]["annotations"] = {"node.alpha.kubernetes.io/ttl": "0"}
    beat["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-31T12:00:00Z"
    beat["status"]["images"] = [{"names": ["x"]}]
    assert reasons.view_node(beat) == reasons.view_node(node("n"))


def test_nodes_that_were_there_before_are_no_reason() -> None:
    first: Change[t.Any] = Change(("", "n"), None, reasons.view_node(node("n")), is_first=True)
    assert reasons.fleets_of_node(first, [fleet()]) == []


def test_only_what_a_fleet_acts_upon_is_watched() -> None:
    def paths(*fleets: PowerFleet) -> list[str]:
        return [source.path for source in reasons.sources_of(fleets)]

    observing = {"enabled": False, "schedulerName": "wattwise"}
    assert paths() == []
    assert paths(fleet(suspend=True)) == []
    assert paths(fleet(placement=observing)) == [NODES]
    assert paths(fleet(), fleet("two")) == [NODES, PODS]
    assert {TEMPLATES, WORKLOADS} < set(paths(fleet(**EVERYTHING)))


def test_each_scheduler_name_is_watched_by_itself_until_gates_are_to_be_seen() -> None:
    def selectors(*fleets: PowerFleet) -> list[t.Any]:
        found = [source for source in reasons.sources_of(fleets) if source.path == PODS]
        return [source.parameters["fieldSelector"] for source in found]

    other = fleet("two", placement={"enabled": True, "schedulerName": "other"})
    assert selectors(fleet(), other) == [
        "spec.nodeName=,spec.schedulerName=other",
        "spec.nodeName=,spec.schedulerName=wattwise",
    ]
    gating = fleet("three", devices={"enabled": True, "gate": GATE})
    assert selectors(fleet(), other, gating) == ["spec.nodeName="]


def take(asked: Requests, now: float, repeat: float = 60.0) -> list[Request]:
    return asked.take(now, lambda _fleet: repeat)


def test_changes_are_gathered_for_two_seconds_from_the_first_on() -> None:
    asked = Requests()
    assert asked.next_at == float("inf")
    for number in range(200):
        asked.add("f", "pods", 100 + number / 100)
    assert asked.next_at == 102.0
    assert take(asked, 101.9) == []
    assert take(asked, 102.0) == [Request("f", frozenset({"pods"}))]
    assert take(asked, 200.0) == []
    assert asked.next_at == float("inf")


def test_a_fleet_is_asked_every_five_seconds_at_most_and_the_others_are_not_held_up() -> None:
    asked = Requests()
    sent: list[tuple[float, str]] = []
    for tick in range(200):
        now = tick / 10
        asked.add("busy", "pods", now)
        if tick == 100:
            asked.add("other", "nodes", now)
        sent += [(now, request.fleet) for request in take(asked, now)]
    assert sent == [
        (2.0, "busy"),
        (7.0, "busy"),
        (12.0, "busy"),
        (12.0, "other"),
        (17.0, "busy"),
    ]


def test_a_request_repeats_what_may_not_have_been_served_yet() -> None:
    asked = Requests()
    asked.add("f", "rmd", 0)
    assert take(asked, 2) == [Request("f", frozenset({"rmd"}))]
    asked.add("f", "pods", 8)
    assert take(asked, 10) == [Request("f", frozenset({"pods", "rmd"}))]
    asked.add("f", "pods", 61)
    # Repeating rmd did not make it newer: the run by interval has served it.
    assert take(asked, 63) == [Request("f", frozenset({"pods"}))]


def test_a_request_that_could_not_be_sent_is_sent_later() -> None:
    asked = Requests()
    asked.add("f", "rmd", 0)
    [request] = take(asked, 2)
    asked.put_back(request, 3)
    assert asked.next_at == 7.0
    assert take(asked, 7) == [Request("f", frozenset({"rmd"}))]
    asked.put_back(request, 8)
    asked.forget("f")
    assert asked.next_at == float("inf")


class Running:
    """A watcher of a scripted server."""

    def __init__(self, api: WatchApi) -> None:
        self.api = api
        self.said: list[str] = []
        self._stop = threading.Event()
        self._watcher = Watcher(api.kube(), self.said.append)
        self._thread = threading.Thread(target=self._watcher.run, args=(self._stop,), daemon=True)
        self._thread.start()

    def fleets(self) -> set[str]:
        """The fleets that it knows."""
        return set(self._watcher._fleets)

    def metrics(self) -> str:
        return self._watcher.metrics()

    def is_watching(self) -> bool:
        return self._watcher.is_watching()

    def is_alive(self) -> bool:
        return self._watcher.is_alive()

    def patches(self, count: int) -> list[Asked]:
        self.api.wait(lambda: len(self.api.patches) >= count, f"{count} requests")
        return self.api.patches

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()


@pytest.fixture
def api() -> t.Iterator[WatchApi]:
    with WatchApi() as serving:
        for path in (FLEETS, PODS, NODES, TEMPLATES, WORKLOADS):
            serving.serve(path)
        yield serving


@pytest.fixture
def running(api: WatchApi, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Running]:
    monkeypatch.setattr(watching, "GATHERING_SECONDS", 0.1)
    monkeypatch.setattr(watching, "SPACING_SECONDS", 0.3)
    made = Running(api)
    yield made
    made.stop()


def asked_for(patch: Asked) -> set[str]:
    return set(patch.body["metadata"]["annotations"]["wattwise.github.io/requested-for"].split(","))


def test_a_pod_becomes_one_request_of_two_annotations(api: WatchApi, running: Running) -> None:
    api.wait_for_watch(FLEETS)
    api.send(FLEETS, "ADDED", power_fleet("main"))
    api.wait_for_watch(PODS)
    for number in range(50):
        api.send(PODS, "ADDED", waiting_pod(f"p{number}"))
    [patch] = running.patches(1)
    assert patch.path == "/apis/wattwise.github.io/v1alpha1/namespaces/power/powerfleets/main"
    assert patch.query == {"fieldManager": "wattwise-watcher"}
    assert patch.body["metadata"].keys() == {"uid", "annotations"}
    annotations = patch.body["metadata"]["annotations"]
    assert annotations.keys() == {
        "wattwise.github.io/requested-at",
        "wattwise.github.io/requested-for",
    }
    assert annotations["wattwise.github.io/requested-for"] == "pods"
    parse_time(annotations["wattwise.github.io/requested-at"])
    api.wait(lambda: "asked power/main for a run: pods" in running.said, "a message")


def test_nothing_is_asked_for_without_a_reason(api: WatchApi, running: Running) -> None:
    api.serve(NODES).items = [node("n1")]
    api.wait_for_watch(FLEETS)
    api.send(FLEETS, "ADDED", power_fleet("main", **EVERYTHING))
    for path in (PODS, NODES, TEMPLATES, WORKLOADS):
        api.wait_for_watch(path)
    changed = power_fleet("main", **EVERYTHING)
    changed["status"] = {"lastRun": {}}
    api.send(FLEETS, "MODIFIED", changed)
    api.send(NODES, "MODIFIED", {**node("n1"), "metadata": {"name": "n1", "labels": {}}})
    bound = waiting_pod("p")
    bound["spec"]["nodeName"] = "n1"
    api.send(PODS, "DELETED", bound)
    for path in (FLEETS, PODS, NODES, TEMPLATES, WORKLOADS):
        api.expire(path)
        api.wait_for_watch(path, opened=2)
    # The one reason comes last, and its request is the only one.
    api.send(TEMPLATES, "ADDED", {"metadata": {"name": "t", "uid": "1", "generation": 1}})
    assert [asked_for(patch) for patch in running.patches(1)] == [{"node-configs"}]


def test_each_kind_has_its_word(api: WatchApi, running: Running) -> None:
    api.wait_for_watch(FLEETS)
    api.send(FLEETS, "ADDED", power_fleet("main", **EVERYTHING))
    for path in (PODS, NODES, TEMPLATES, WORKLOADS):
        api.wait_for_watch(path)
    expected: set[str] = set()
    changes = {
        WORKLOADS: ("rmd", {"metadata": {"name": "w", "uid": "1", "generation": 1}}),
        TEMPLATES: ("node-configs", {"metadata": {"name": "t", "uid": "1", "generation": 1}}),
        NODES: ("nodes", node("n9")),
        PODS: ("pods", waiting_pod()),
    }
    for count, (path, (word, item)) in enumerate(changes.items(), 1):
        api.send(path, "ADDED", item)
        expected.add(word)
        assert asked_for(running.patches(count)[-1]) == expected


def test_pods_that_wait_when_it_starts_are_a_reason(api: WatchApi, running: Running) -> None:
    api.serve(PODS).items = [waiting_pod("a"), waiting_pod("b")]
    api.wait_for_watch(FLEETS)
    api.send(FLEETS, "ADDED", power_fleet("main"))
    assert [asked_for(patch) for patch in running.patches(1)] == [{"pods"}]


def test_a_request_that_is_refused_for_now_is_sent_again(api: WatchApi, running: Running) -> None:
    api.patch_status = [500, 403]
    api.wait_for_watch(FLEETS)
    api.send(FLEETS, "ADDED", power_fleet("main"))
    api.wait_for_watch(PODS)
    api.send(PODS, "ADDED", waiting_pod())
    assert len(running.patches(3)) == 3
    api.wait(lambda: any("asked power/main" in text for text in running.said), "the third")
    assert sum(text.startswith("cannot ask power/main") for text in running.said) == 2


def test_a_fleet_that_went_is_not_asked(api: WatchApi, running: Running) -> None:
    api.patch_status = [404]
    api.wait_for_watch(FLEETS)
    api.send(FLEETS, "ADDED", power_fleet("gone"))
    api.send(FLEETS, "ADDED", power_fleet("ending"))
    api.wait_for_watch(PODS)
    ending = power_fleet("ending")
    ending["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    api.send(FLEETS, "MODIFIED", ending)
    named = {FLEET_ANNOTATION: "power/gone"}
    api.wait(lambda: running.fleets() == {"power/gone"}, "the end of a fleet")
    api.send(PODS, "ADDED", waiting_pod("one", annotations=named))
    running.patches(1)
    api.send(FLEETS, "ADDED", power_fleet("there"))
    api.send(FLEETS, "DELETED", power_fleet("gone"))
    api.wait(lambda: running.fleets() == {"power/there"}, "the fleet that is there")
    api.send(PODS, "ADDED", waiting_pod("two"))
    assert [patch.path.rpartition("/")[2] for patch in running.patches(2)] == ["gone", "there"]


def test_a_fleet_that_cannot_be_read_does_not_stop_the_others(
    api: WatchApi, running: Running
) -> None:
    api.wait_for_watch(FLEETS)
    broken = power_fleet("broken", interval="{{ lookup('pipe', 'id') }}")
    api.send(FLEETS, "ADDED", broken)
    api.send_bytes(FLEETS, b'{"type":"ADDED","object":{"metadata":[],"spec":7}}\n')
    api.send(FLEETS, "ADDED", power_fleet("main"))
    api.wait_for_watch(PODS)
    api.send_bytes(PODS, b'{"type":"ADDED","object":{"metadata":{"name":"x"},"spec":[]}}\n')
    api.send(PODS, "ADDED", waiting_pod())
    [patch] = running.patches(1)
    assert patch.path.endswith("/main")


@pytest.mark.parametrize(
    ("period", "is_kept", "is_readable"),
    [
        (None, False, True),
        ("2m", True, True),
        ("120s", False, True),
        ("0", False, True),
        ("", False, False),
        (" 2m", False, False),
        ("-2m", False, False),
        ("soon", False, False),
        ("{{ lookup('pipe', 'id') }}", False, False),
    ],
)
def test_a_period_is_kept_or_can_at_least_be_read(
    period: str | None, is_kept: bool, is_readable: bool
) -> None:
    manifest = power_fleet("main", interval="2m")
    manifest["metadata"]["annotations"] = {} if period is None else {RECONCILE_PERIOD: period}
    found = parsed(manifest)
    assert (resource.period_is_kept(found), resource.period_is_readable(found)) == (
        is_kept,
        is_readable,
    )


def test_the_default_interval_needs_no_annotation() -> None:
    assert schema()["properties"]["interval"]["default"] == "60s"
    assert resource.period_is_kept(fleet()) and resource.period_is_kept(fleet(interval="1m"))


def test_a_period_that_keeps_runs_from_beginning_is_replaced(
    api: WatchApi, running: Running
) -> None:
    api.patch_status = [403]
    api.wait_for_watch(FLEETS)
    fleet = power_fleet("main", interval="2m")
    api.send(FLEETS, "ADDED", fleet)
    api.wait(lambda: running.fleets() == {"power/main"}, "the fleet")
    for count, text in enumerate(("soon", "later"), 1):
        fleet["metadata"]["annotations"] = {RECONCILE_PERIOD: text}
        api.send(FLEETS, "MODIFIED", fleet)
        patch = running.patches(count)[-1]
        annotations = {RECONCILE_PERIOD: "2m"}
        assert patch.body["metadata"] == {"uid": "uid-main", "annotations": annotations}
    api.wait(lambda: any("replaced the unread" in text for text in running.said), "a message")
    assert sum(text.startswith("cannot replace") for text in running.said) == 1


@pytest.fixture
def environment(api: WatchApi, tmp_path: t.Any) -> dict[str, str]:
    """For a program that watches the scripted server."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],"
        " users: [{name: u, user: {}}],"
        f" clusters: [{{name: c, cluster: {{server: '{api.url}'}}}}]}}"
    )
    return {**os.environ, KUBECONFIG_VARIABLE: str(kubeconfig)}


def failing(environment: dict[str, str], *arguments: str) -> str:
    """The one sentence of a program that cannot begin."""
    done = subprocess.run(
        [sys.executable, "-m", watching.__name__, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


def test_the_program_says_in_a_sentence_why_it_cannot_begin(environment: dict[str, str]) -> None:
    kept = {key: text for key, text in environment.items() if not key.startswith("K8S")}
    failing({**kept, KUBECONFIG_VARIABLE: os.devnull, "HOME": os.devnull})
    for given in ("soon", "-1", "nan", "inf"):
        text = failing({**environment, watching.HEARTBEAT_VARIABLE: given})
        assert f"$WATTWISE_HEARTBEAT_SECONDS is '{given}'; give seconds" in text
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = failing(environment, "--address=127.0.0.1", "--port=0", f"--health-port={port}")
    assert f"Cannot listen on port {port}" in text


def test_the_program_watches_and_serves_until_it_is_told_to_end(
    api: WatchApi, environment: dict[str, str]
) -> None:
    ports = ("--address=127.0.0.1", "--port=0", "--health-port=0")
    process = subprocess.Popen(
        [sys.executable, "-m", watching.__name__, *ports],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            said = [process.stdout.readline() for _line in range(2)]
            port, health_port = map(int, re.findall(r"port (\d+)", " ".join(said)))
            api.wait_for_watch(FLEETS)
            api.send(FLEETS, "ADDED", power_fleet("main"))
            gauge = 'wattwise_power_fleet_stalled{power_fleet="power/main"} 0'
            api.wait(lambda: gauge in ask(port, "/metrics")[1], "the metric")
            api.wait(lambda: ask(health_port, "/readyz") == (200, "ok\n"), "readiness")
            assert ask(health_port, "/healthz") == (200, "ok\n")
            assert ask(health_port, "/metrics")[0] == ask(port, "/readyz")[0] == 404
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 0
    assert f"watching {api.url}" in said[0]


def ask(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet is stalled at once, and each attempt repeated soon."""
    monkeypatch.setattr(stalling, "MARGIN_SECONDS", -1e6)
    monkeypatch.setattr(stalling, "_REPEAT_SECONDS", 0.1)


@pytest.mark.usefixtures("quick")
def test_a_stall_that_cannot_be_told_is_told_later_and_the_metric_shows_it(
    api: WatchApi, running: Running
) -> None:
    fleet = power_fleet("main", placement={"enabled": False})
    path = "/apis/wattwise.github.io/v1alpha1/namespaces/power/powerfleets/main"
    api.objects[path] = lambda: fleet
    api.patch_status = [403]
    api.wait_for_watch(FLEETS)
    api.send(FLEETS, "ADDED", fleet)
    [refused, applied, *_more] = running.patches(2)
    assert refused.path == applied.path == f"{path}/status"
    assert applied.query == {"fieldManager": "wattwise-watcher", "force": "true"}
    assert applied.body["metadata"].keys() == {"name", "namespace", "uid"}
    [condition] = applied.body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Stalled", "True")
    assert running.metrics().endswith('{power_fleet="power/main"} 1\n')
    api.wait(lambda: "power/main is stalled" in running.said, "a message")
    assert any(text.startswith("cannot tell whether power/main") for text in running.said)


@pytest.mark.usefixtures("quick")
def test_a_late_watch_makes_no_fleet_stalled(
    api: WatchApi, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stored fleet has a run that no event has shown."""
    monkeypatch.setattr(stalling, "MARGIN_SECONDS", 0.2 - 420)
    late = power_fleet("main", placement={"enabled": False})
    path = "/apis/wattwise.github.io/v1alpha1/namespaces/power/powerfleets/main"
    number = itertools.count()

    def stored() -> Json:
        time = f"2026-01-31T12:00:{next(number) % 60:02d}Z"
        return {**late, "status": {"lastRun": {"time": time}}}

    api.objects[path] = stored
    api.wait_for_watch(FLEETS)
    api.send(FLEETS, "ADDED", late)
    api.wait(lambda: next(number) > 3, "several reads")
    assert api.patches == []


def test_it_is_ready_when_all_watches_are_answered(
    api: WatchApi, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kind that is not served is an answer, as of an overlay without its CRD."""
    api.serve(WORKLOADS).status = 404
    api.wait_for_watch(FLEETS)
    api.send(FLEETS, "ADDED", power_fleet("main", **EVERYTHING))
    for path in (PODS, NODES, TEMPLATES):
        api.wait_for_watch(path)
    api.wait(running.is_watching, "all watches")
    monkeypatch.setattr(watch, "_CURRENT_SECONDS", 0.0)
    assert not running.is_watching() and running.is_alive()
    monkeypatch.setattr(watching, "_STUCK_SECONDS", 0.0)
    assert not running.is_alive()


def test_it_is_not_ready_without_the_fleets(api: WatchApi) -> None:
    api.serve(FLEETS).status = 403
    running = Running(api)
    try:
        api.wait(lambda: bool(running.said), "a message")
        assert running.is_alive() and not running.is_watching()
    finally:
        running.stop()
