# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes of one run of machines that sleep: a failure concerns its own machine alone."""

from __future__ import annotations

import datetime
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import WattwiseError
from ansible_collections.wattwise.kube.plugins.module_utils.eviction import eviction
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.kube.lease import LeaseHeld, LeaseLost
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.plan import PlannedMove, Step
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster import execution
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.bmcs import Bmcs
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.execution import Executor
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.lifecycle import Change
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record import NodeRecord
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.step import with_check
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Phase
from support.scripted_api import Asked, Reply, ScriptedApi, status_reply

Json = dict[str, t.Any]
NOW = 1_800_000_000.0


@dataclass
class Cluster:
    """Nodes, pods by node, and answers to patches of some Nodes; requests are in ``told``."""

    nodes: dict[str, Json]
    pods: dict[str, list[Json]] = field(default_factory=dict)
    refusals: dict[str, Reply] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    url: str = ""

    def script(self, asked: Asked) -> Reply:
        path = asked.path.partition("?")[0]
        name = path.rpartition("/")[2]
        if path == "/api/v1/pods":
            node = asked.path.partition("nodeName%3D")[2].partition("%2C")[0]
            self.told.append(f"pods of {node}")
            if node in self.refusals:
                return self.refusals[node]
            return Reply({"kind": "PodList", "metadata": {}, "items": self.pods.get(node, [])})
        if path.startswith("/api/v1/nodes/"):
            if asked.method == "PATCH":
                self.told.append(f"patch {name}")
                if name in self.refusals:
                    return self.refusals[name]
            return Reply(self.nodes[name])
        return status_reply(404, "not found")


@dataclass
class Switches:
    """BMCs that note requests."""

    told: list[str]
    problems: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    passed: float = 0.0

    def now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(NOW + self.passed, datetime.UTC)

    def switch(self, names: t.Collection[str], state: str, _context: Context) -> dict[str, str]:
        self.passed += self.seconds
        self.told += [f"{state} {name}" for name in names]
        return {name: told for name, told in self.problems.items() if name in names}


def node(name: str) -> Json:
    return {
        "metadata": {"name": name, "resourceVersion": "7", "uid": name},
        "spec": {},
        "status": {},
    }


def pod(name: str, kind: str = "ReplicaSet") -> Json:
    owner = {"kind": kind, "name": "o", "uid": "o", "controller": True}
    metadata = {"name": name, "namespace": "shop", "uid": name, "ownerReferences": [owner]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster({name: node(name) for name in ("n1", "n2", "n3")})
    with ScriptedApi(made.script) as api:
        made.url = api.url
        yield made


def executor(cluster: Cluster, **more: t.Any) -> tuple[Executor, Switches]:
    kube = Kube.connect({"host": cluster.url}, sleep=lambda _seconds: None)
    switches = Switches(cluster.told)
    lease = {"lease_namespace": "kube-system", "lease_timeout": 0.0}
    options = eviction.SPEC.complete({**lease, "timeout": 1.0})
    context = Context(warn=cluster.told.append, now=switches.now)
    bmcs = t.cast("Bmcs", switches)
    return Executor(kube, bmcs, options, context, more.get("guard")), switches


def going_off(name: str, attempts: int = 1, is_written: bool = True) -> Change:
    record = NodeRecord(Phase.GOING_OFF, NOW, "test", NOW + 300, attempts)
    return Change(name, record, "switch_off", "going_off", "not needed", is_written=is_written)


def waking(name: str) -> Change:
    record = NodeRecord(Phase.WAKING, NOW, "test", NOW + 600, 1)
    return Change(name, record, "switch_on", "waking", "pods wait")


@pytest.mark.parametrize("status", [403, 409, 422, 500])
def test_a_refused_node_leaves_the_others_to_their_transitions(
    cluster: Cluster, status: int
) -> None:
    cluster.refusals["n1"] = status_reply(status, "denied by a policy of ours")
    found, _switches = executor(cluster)
    changes = [waking("n1"), going_off("n2")]
    written = found.write(changes, cluster.nodes)
    assert [one.name for one in written] == ["n2"]
    found.act({})
    assert [one for one in cluster.told if one.startswith(("on", "off"))] == ["off n2"]
    [problem] = found.problems
    assert (problem.subject.name, "denied by a policy" in problem.problem) == ("n1", True)
    assert not found.is_new(changes[0])


def test_the_time_that_a_busy_bmc_takes_is_known(cluster: Cluster) -> None:
    found, switches = executor(cluster)
    switches.seconds = 5.0
    found.write([going_off("n1")], cluster.nodes)
    found.act({})
    assert found.request_seconds == {"n1": 5.0}


def test_all_nodes_may_be_refused(cluster: Cluster) -> None:
    cluster.refusals["n1"] = status_reply(422, "denied")
    found, _switches = executor(cluster)
    assert found.write([going_off("n1")], cluster.nodes) == []
    assert len(found.problems) == 1


def test_a_node_of_unknown_shape_concerns_no_other(cluster: Cluster) -> None:
    found, _switches = executor(cluster)
    nodes = {**cluster.nodes, "n1": {"metadata": {"name": "n1"}, "spec": {}}}
    written = found.write([going_off("n1"), waking("n2")], nodes)
    assert [one.name for one in written] == ["n2"]
    assert [one.subject.name for one in found.problems] == ["n1"]


def test_a_pod_that_came_since_the_decision_stops_its_machine_alone(cluster: Cluster) -> None:
    cluster.pods = {"n1": [pod("late")], "n2": [pod("daemon", "DaemonSet")]}
    found, _switches = executor(cluster)
    found.write([going_off("n1"), going_off("n2")], cluster.nodes)
    found.act({})
    assert "off n1" not in cluster.told
    assert "off n2" in cluster.told
    assert found.came == {"n1": "Pod shop/late"}


@pytest.mark.parametrize("change", [going_off("n1", 2), going_off("n1", is_written=False)])
def test_a_request_that_may_have_been_sent_is_not_taken_back(
    cluster: Cluster, change: Change
) -> None:
    cluster.pods = {"n1": [pod("late")]}
    found, _switches = executor(cluster)
    found.write([change], cluster.nodes)
    found.act({})
    assert "off n1" not in cluster.told
    assert found.came == {}


def test_pods_that_cannot_be_listed_stop_their_machine_alone(cluster: Cluster) -> None:
    cluster.refusals["n1"] = status_reply(403, "no pods for you")
    found, _switches = executor(cluster)
    changes = [going_off("n1", is_written=False), going_off("n2"), waking("n3")]
    found.write(changes, cluster.nodes)
    found.act({})
    switched = [one for one in cluster.told if one.startswith(("on ", "off "))]
    assert switched == ["off n2", "on n3"]
    assert [one.subject.name for one in found.problems] == ["n1"]


def test_pods_are_listed_after_the_patch_and_machines_are_asked_before_evictions(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: t.Any) -> Json:
        raise LeaseHeld("another run holds the Lease")

    monkeypatch.setattr(execution, "move_pods", refuse)
    found, _switches = executor(cluster)
    draining = Change("n2", NodeRecord(Phase.DRAINING, NOW, "t"), "evict", "draining", "")
    step = Step(1, (PlannedMove("shop", "web", "n2", "n3", 0.0, "u"),))
    found.write([going_off("n1"), draining], cluster.nodes)
    assert not found.act({"n2": step})
    # The Lease of those that bind pods is held, which ends no step.
    assert cluster.told[2:] == [
        "pods of n1",
        "off n1",
        "No pod was moved: another run holds the Lease",
    ]


def test_a_bmc_that_refuses_is_a_problem_of_its_machine(cluster: Cluster) -> None:
    found, switches = executor(cluster)
    switches.problems["n1"] = "HTTP 503"
    found.write([waking("n1"), waking("n2")], cluster.nodes)
    found.act({})
    [problem] = found.problems
    assert (problem.subject.name, problem.problem) == (
        "n1",
        "its machine was not switched on: HTTP 503",
    )


def test_a_run_without_its_lease_sends_nothing_to_bmcs(cluster: Cluster) -> None:
    def guard() -> float:
        raise LeaseLost("the Lease was lost")

    found, _switches = executor(cluster, guard=guard)
    found.write([going_off("n1", is_written=False)], cluster.nodes)
    with pytest.raises(LeaseLost):
        found.act({})
    assert "off n1" not in cluster.told


def test_the_owner_is_checked_while_the_lease_is_held_and_before_each_write() -> None:
    told: list[str] = []

    def lease() -> float:
        told.append("lease")
        return 7.0

    def check() -> None:
        told.append("owner")
        if len(told) > 3:
            raise WattwiseError("the owner is gone")

    guard = with_check(lease, check)
    assert guard() == 7.0
    assert told == ["lease", "owner", "lease"]
    with pytest.raises(WattwiseError, match="gone"):
        guard()
