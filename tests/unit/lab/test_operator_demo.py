# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's demo: its latencies, and its distinction of heartbeats from other writes."""

from __future__ import annotations

import copy
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lab import lifecycle, operator, process
from lab.errors import LabError
from lab.gotools import cache_folder
from lab.operator import OperatorSettings, demo
from lab.operator.installation import options_of
from lab.operator.latencies import Latencies
from lab.operator.writes import Write, writable, writes
from lab.state import LabSettings, LabState

Json = dict[str, t.Any]

CONFIG = Path(__file__).resolve().parents[3] / "operator" / "config"
KEY = "/nodeconfigs.wao.bitmedia.co.jp/wao-system/a"


class Clock:
    """Advances only by sleeping."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_latencies_are_from_the_event_to_its_state() -> None:
    clock, said = Clock(), list[str]()
    latencies = Latencies(said.append, clock, clock.sleep)
    latencies.expect("pod", "pod a has a node", lambda: clock.now >= 1.0)
    latencies.expect("pod", "pod b has a node", lambda: clock.now >= 3.0)
    latencies.expect("node added", "its NodeConfig", lambda: True)
    latencies.settle()
    assert latencies.seconds["pod"] == pytest.approx([1.0, 3.0], abs=0.21)
    assert said[0] == "  its NodeConfig (after 0.0 s)"
    header, *rows = latencies.table()
    assert header.split() == ["EVENT", "→", "STATE", "EVENTS", "MEDIAN", "MAXIMUM"]
    assert [row.split()[-5:-3] for row in rows] == [["1", "0.0"], ["2", "2.0"]]


def test_a_state_that_does_not_follow_is_named() -> None:
    clock = Clock()
    latencies = Latencies(lambda _text: None, clock, clock.sleep)
    latencies.expect("pod", "pod a has a node", lambda: False)
    latencies.expect("pod", "pod b has a node", lambda: True)
    with pytest.raises(LabError, match="Timed out after 5 s: pod a has a node"):
        latencies.settle(5.0)


def node_config(version: int, **readings: Json) -> Json:
    metadata = {"name": "a", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"nodeName": "a"}, "status": {"readings": readings}}


def reading(celsius: float, minute: int) -> Json:
    return {"celsius": celsius, "time": f"2026-01-01T00:{minute:02d}:00Z"}


def test_a_reading_that_was_old_enough_is_a_heartbeat() -> None:
    before = {KEY: node_config(1, inletTemp=reading(20.0, 0))}
    after = {KEY: node_config(2, inletTemp=reading(20.1, 5))}
    fields = tuple(f".status.readings.inletTemp.{name}" for name in ("celsius", "time"))
    assert writes(before, after, 300.0) == [Write(KEY, fields, True, True)]
    assert writes(before, after, 604.0) == [Write(KEY, fields, True, False)]
    assert writes(before, copy.deepcopy(before), 300.0) == []


def test_any_other_write_is_none() -> None:
    before = {KEY: node_config(1, inletTemp=reading(20.0, 0))}
    after = copy.deepcopy(before)
    after[KEY]["metadata"]["resourceVersion"] = "2"
    assert writes(before, after, 0.0) == [Write(KEY, ())]
    after[KEY]["status"]["readings"]["inletTemp"]["time"] = "2026-01-01T01:00:00Z"
    after[KEY]["metadata"]["labels"] = {"new": "label"}
    [found] = writes(before, after, 0.0)
    assert not found.is_heartbeat
    assert [one.is_heartbeat for one in writes(before, {}, 0.0)] == [False]
    assert str(found) == f"{KEY} (.metadata.labels, .status.readings.inletTemp.time)"


def test_a_node_whose_kubelet_lives_was_not_written() -> None:
    status = {"conditions": [{"type": "Ready", "lastHeartbeatTime": "1"}]}
    before: Json = {"/nodes//a": {"metadata": {"resourceVersion": "1"}, "status": status}}
    after = copy.deepcopy(before)
    after["/nodes//a"]["metadata"]["resourceVersion"] = "2"
    after["/nodes//a"]["status"]["conditions"][0]["lastHeartbeatTime"] = "2"
    assert writes(before, after, 300.0) == []


def test_a_node_that_the_control_plane_tainted_was_not_written() -> None:
    before: Json = {"/nodes//a": {"metadata": {"resourceVersion": "1"}, "spec": {}}}
    after = copy.deepcopy(before)
    after["/nodes//a"]["metadata"]["resourceVersion"] = "2"
    unreachable = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    after["/nodes//a"]["spec"]["taints"] = [unreachable]
    assert writes(before, after, 300.0) == []
    asleep = {"key": "wattwise.github.io/asleep", "value": "asleep", "effect": "NoSchedule"}
    after["/nodes//a"]["spec"]["taints"].append(asleep)
    assert writes(before, after, 300.0) == [Write("/nodes//a", (".spec.taints",))]


def manifests(*paths: str) -> list[Json]:
    texts = [(CONFIG / path).read_text(encoding="utf-8") for path in paths]
    return [item for text in texts for item in yaml.safe_load_all(text)]


def test_the_kinds_to_compare_are_those_that_the_roles_let_the_account_write() -> None:
    found = writable(manifests("rbac/rmd/rights.yaml", "rbac/observe/rights.yaml"))
    assert ("", "nodes") in found
    assert ("intel.com", "rmdnodestates") in found
    assert ("wao.bitmedia.co.jp", "nodeconfigs") in found
    assert ("", "pods") not in found
    assert ("", "secrets") not in found


def test_the_operator_of_the_lab_has_the_options_of_the_deployment() -> None:
    options = options_of(manifests("manager/deployment.yaml"))
    assert "--leader-election-namespace=wattwise-system" in options
    assert "--max-concurrent-reconciles=1" in options
    assert not [option for option in options if "bind-address" in option or "$" in option]
    assert all(option.startswith("--") for option in options)


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[process.Service]:
    """The services that would have been started, of programs that are not built."""
    services: list[process.Service] = []
    monkeypatch.setattr(operator, "build", lambda _tools, _say: tmp_path)
    monkeypatch.setattr(process, "start", lambda more, _state: services.extend(more))
    return services


def test_operators_of_all_labs_wait_for_one_lock(
    tmp_path: Path, started: list[process.Service]
) -> None:
    """A container of its own has a home of its own, but not ports of its own."""
    settings = OperatorSettings(tmp_path / "watches.yaml", tmp_path / "kubeconfig")
    for name in ("one", "two"):
        operator.start(LabState(tmp_path / name), settings, print)
    first, second = (service.environment for service in started)
    assert first["HOME"] != second["HOME"]
    assert first["XDG_CACHE_HOME"] == second["XDG_CACHE_HOME"] == str(cache_folder().parent)


def test_replicas_in_one_lab_have_names_files_and_addresses_of_their_own(
    tmp_path: Path, started: list[process.Service]
) -> None:
    settings = OperatorSettings(tmp_path / "watches.yaml", tmp_path / "kubeconfig")
    state = LabState(tmp_path / "lab")
    for replica in (1, 2):
        given = replace(settings, replica=replica)
        running = operator.start(state, given, print)
        operator.start_beside(state, given, tmp_path)
        assert running.name == started[-3].name
    names = [service.name for service in started]
    assert len(set(names)) == len(names) == 6
    first, second = started[0], started[3]
    assert ("127.0.0.1" in first.command, "127.0.0.2" in second.command) == (True, True)
    for name in ("HOME", "TMPDIR", "WATTWISE_RUNS"):
        assert first.environment[name] != second.environment[name]
    assert first.environment["KUBECONFIG"] == second.environment["KUBECONFIG"]


def test_a_demo_that_could_not_work_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = LabState(tmp_path / "lab")
    with pytest.raises(LabError, match="needs 12 nodes in 2 racks"):
        demo.demo(state, LabSettings(nodes=4, racks=1), print)
    monkeypatch.setenv("LAB_KUBECONFIG", "other")
    with pytest.raises(LabError, match="unset LAB_KUBECONFIG"):
        demo.demo(state, LabSettings(), print)
    assert not state.root.exists()


def test_a_demo_that_fails_says_where_the_logs_are_and_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def up(state: LabState, _asked: LabSettings, _say: t.Any) -> None:
        state.create()
        raise LabError("The lab does not start.")

    monkeypatch.delenv("LAB_KUBECONFIG", raising=False)
    monkeypatch.setattr(lifecycle, "up", up)
    state = LabState(tmp_path / "lab")
    with pytest.raises(LabError) as failure:
        demo.demo(state, LabSettings(), print)
    assert str(failure.value) == f"The lab does not start; the logs are in {state.logs}."
    assert state.logs.is_dir()
