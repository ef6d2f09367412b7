# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that are killed at a request, lose a request or its answer, or overlap with another run.

After each of them, the next run completes the work. No node is overcommitted, no pod is bound
twice, and the Lease of a killed run is free after its duration.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import re
import threading
import typing as t
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kube import lease
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab.api import Api
from lab.process import wait_until
from support.carried_out_plans import bind, move_pods
from support.cluster_nodes import make_node, remove
from support.dra_lab import DraLab
from support.faulty_proxy import FAULTS, LEASE_SECONDS, Door, Fault, Run, door, start
from support.lab import RunningLab
from support.playbook import run_playbook

Json = dict[str, t.Any]
CLUSTER_ADMIN = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


class Cut(t.NamedTuple):
    """A fault at the n-th write of a run."""

    fault: Fault
    number: int


@dataclass
class Stage:
    """A namespace and an account whose runs use fault-injecting proxies."""

    kube: Kube
    kubeconfig: str
    namespace: str
    server: str
    authority: str
    token: str
    doors: list[Door] = field(default_factory=list)

    @property
    def pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def options(self) -> Json:
        return {"lease_namespace": self.namespace, "lease_timeout": 30.0}

    @contextlib.contextmanager
    def door(self, **options: t.Any) -> Iterator[Door]:
        with door(self.server, self.authority, **options) as made:
            self.doors.append(made)
            yield made

    def begin(self, work: str, parameters: Json, through: Door) -> Run:
        return start(work, {**self.options, "api_key": self.token, **parameters}, through)

    def cut_off(self, cut: Cut, work: str, parameters: Json) -> Json:
        """The result of a run with this fault."""
        with self.door(fault=cut.fault, number=cut.number) as made:
            result = self.begin(work, parameters, made).end()
            assert len(made.written) >= cut.number, f"{cut}: the run ended before, with {result}"
            assert bool(result) != cut.fault.startswith("killed")
            return result

    def pods(self) -> list[Json]:
        listed = self.kube.list(self.pods_path)
        return [pod for pod in listed if not pod["metadata"].get("deletionTimestamp")]

    def places(self) -> dict[str, str | None]:
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in self.pods()}

    def add_pod(self, name: str, cpu: str = "2") -> Json:
        return self.kube.request(
            "POST", self.pods_path, {"metadata": {"name": name}, "spec": self.spec(cpu)}
        )

    def spec(self, cpu: str) -> Json:
        return {
            "schedulerName": self.namespace,
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/none:1",
                    "resources": {"requests": {"cpu": cpu}},
                }
            ],
            "nodeSelector": {"test": self.namespace},
            "tolerations": [{"key": "test", "operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
        }

    def to(self, node: str, *names: str) -> list[Json]:
        return [{"namespace": self.namespace, "pod": name, "node": node} for name in names]

    def check(self) -> None:
        """No node has more than its 4 CPUs, no pod was bound twice, and the Lease is free."""
        used: Counter[str] = Counter()
        for pod in self.pods():
            if pod["spec"].get("nodeName"):
                requests = pod["spec"]["containers"][0]["resources"]["requests"]
                used[pod["spec"]["nodeName"]] += int(requests["cpu"])
        assert not [node for node, cpu in used.items() if cpu > 4]
        done = Counter(path for each in self.doors for path in each.succeeded)
        assert [path for path, times in done.items() if "/binding" in path and times > 1] == []
        self.doors.clear()
        with lease.Lease(self.kube, self.namespace, lease.NAME, LEASE_SECONDS + 1.0) as held:
            held.acquire()


@pytest.fixture
def stage(
    kube: Kube,
    kubeconfig: str,
    namespace: str,
    lab: RunningLab,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Stage]:
    """With an administrator's token."""
    monkeypatch.setattr(lease, "DURATION_SECONDS", LEASE_SECONDS)
    account = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    binding = {
        "metadata": {"name": namespace},
        "roleRef": {**CLUSTER_ADMIN, "name": "cluster-admin"},
        "subjects": [account],
    }
    kube.request("POST", BINDINGS, binding)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    token = kube.request("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    with Api(lab.state.kubeconfig) as api:
        server = api.server
    authority = str(lab.state.ca_certificate)
    yield Stage(kube, kubeconfig, namespace, server, authority, str(token))
    remove(kube, f"{BINDINGS}/{namespace}")


@pytest.fixture
def nodes(kube: Kube, namespace: str) -> Iterator[list[str]]:
    names = [f"{namespace}-n1", f"{namespace}-n2"]
    for name in names:
        make_node(kube, name, namespace)
    yield names
    for name in names:
        remove(kube, f"/api/v1/nodes/{name}")


def every(writes: int) -> list[Cut]:
    return [Cut(fault, number) for fault in FAULTS for number in range(1, writes + 1)]


def sample(cuts: t.Sequence[Cut], writes: int) -> list[t.Any]:
    """These in every test run, all others in deep runs."""
    others = [cut for cut in every(writes) if cut not in cuts]
    return [list(cuts), pytest.param(others, marks=pytest.mark.slow)]


def name_of(cuts: t.Any) -> str:
    return f"{len(cuts)} cuts"


# The Lease is taken, two pods are bound, and the Lease is given back.
BINDING = [Cut("killed_after", 2), Cut("answer_lost", 1), Cut("request_lost", 2)]


@pytest.mark.parametrize("cuts", sample(BINDING, 4), ids=name_of)
def test_the_next_run_binds_what_one_that_was_cut_off_did_not(
    stage: Stage, nodes: list[str], cuts: list[Cut]
) -> None:
    for cut in cuts:
        for name in ("a", "b"):
            stage.add_pod(name)
        placements = stage.to(nodes[0], "a", "b")
        stage.cut_off(cut, "bind", {"placements": placements})
        if not cut.fault.startswith("killed"):
            # Without a fault, immediately.
            assert None not in stage.places().values()
        # Another plan, made without knowledge of the first: the node is full.
        stage.add_pod("c")
        other = {"kubeconfig": stage.kubeconfig, **stage.options}
        again = bind({**other, "placements": placements})
        assert (again["skipped"], again["errors"]) == ([], []), cut
        late = bind({**other, "placements": stage.to(nodes[0], "c")})
        assert "is full: Insufficient cpu" in late["skipped"][0]["reason"]
        assert stage.places() == {"a": nodes[0], "b": nodes[0], "c": None}, cut
        stage.check()
        for name in ("a", "b", "c"):
            remove(stage.kube, f"{stage.pods_path}/{name}")
        wait_until(lambda: not stage.kube.list(stage.pods_path), 30.0, "the pods to go")


# The Lease is taken, the pod is evicted, the next one is bound, and the Lease is given back.
EVICTION = [Cut("killed_after", 2), Cut("answer_lost", 2)]


@pytest.mark.parametrize("cuts", sample(EVICTION, 4), ids=name_of)
def test_the_next_run_moves_what_one_that_was_cut_off_did_not(
    stage: Stage, nodes: list[str], cuts: list[Cut]
) -> None:
    source, target = nodes
    other = {"kubeconfig": stage.kubeconfig, **stage.options}
    for number, cut in enumerate(cuts):
        name = f"app-{number}"
        [before] = a_replica_set(stage, name)
        bind({**other, "placements": stage.to(source, before)})
        stage.cut_off(cut, "move_pods", moving(stage, before, source, target))
        # As in the next plan: a pending pod, or a pod that is still on its old node.
        wait_until(lambda: len(stage.pods()) == 1, 30.0, "the one pod of the ReplicaSet")
        [(present, place)] = stage.places().items()
        if place is None:
            bind({**other, "placements": stage.to(target, present)})
        elif place == source:
            move_pods({**other, **moving(stage, present, source, target)})
        assert list(stage.places().values()) == [target], cut
        stage.check()
        if not cut.fault.startswith("killed") and cut != ("request_lost", 2):
            assert (present != before, place) == (True, target), cut
        remove(stage.kube, f"/apis/apps/v1/namespaces/{stage.namespace}/replicasets/{name}")
        wait_until(lambda: not stage.kube.list(stage.pods_path), 30.0, "the pods to go")


def a_replica_set(stage: Stage, name: str) -> list[str]:
    """The names of its pods."""
    labels = {"app": name}
    body = {
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": stage.spec("3")},
        },
    }
    stage.kube.request("POST", f"/apis/apps/v1/namespaces/{stage.namespace}/replicasets", body)
    wait_until(lambda: len(stage.pods()) == 1, 30.0, "the pod of the ReplicaSet")
    return list(stage.places())


def moving(stage: Stage, pod: str, source: str, target: str) -> Json:
    move = {"namespace": stage.namespace, "pod": pod, "from_node": source, "to_node": target}
    return {"steps": [{"moves": [move]}], "scheduler_name": stage.namespace, "timeout": 30.0}


@pytest.fixture
def dra(stage: Stage) -> Iterator[DraLab]:
    """A node with one device."""
    found = DraLab(stage.kube, stage.kubeconfig, stage.namespace)
    try:
        found.set_up([1])
        yield found
    finally:
        found.tear_down()


# The Lease is taken, the claim is given its device and its pod, and the pod is bound.
DEVICES = [Cut("killed_after", 2), Cut("answer_lost", 3)]


@pytest.mark.parametrize("cuts", sample(DEVICES, 4), ids=name_of)
def test_the_next_run_gives_what_one_that_was_cut_off_did_not(
    stage: Stage, dra: DraLab, cuts: list[Cut]
) -> None:
    given = {"api_group": "resource.k8s.io", "scheduler_name": stage.namespace}
    for number, cut in enumerate(cuts):
        names = [f"{letter}-{number}" for letter in "ab"]
        for name in names:
            dra.add_pod(name)
        wait_until(lambda: len(stage.kube.list(dra.claims_path)) == 2, 30.0, "the pods' claims")
        stage.cut_off(cut, "reconcile", given)
        dra.reconcile(lease_timeout=30.0)
        [bound] = dra.bound()
        assert dra.problems() == [], cut
        for name in names:
            remove(stage.kube, f"{stage.pods_path}/{name}")
        wait_until(lambda: not stage.kube.list(dra.claims_path), 30.0, "the pods' claims to go")
        assert bound in names


class Meeting:
    """Blocks the first run before a write until the second one is about to write or ends."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._second_writes = threading.Event()
        self.first_waits = threading.Event()

    def first(self, number: int) -> None:
        if number == self._number:
            self.first_waits.set()
            self._second_writes.wait(2.0)

    def second(self, _number: int) -> None:
        self._second_writes.set()

    def over(self) -> None:
        self._second_writes.set()


@pytest.mark.parametrize(
    "number", [2, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 3))]
)
def test_two_runs_at_once_never_send_more_to_a_node_than_it_takes(
    stage: Stage, nodes: list[str], number: int
) -> None:
    """Both have read the empty node before the other writes."""
    pairs = [("a", "b"), ("c", "d")]
    for name in itertools.chain(*pairs):
        stage.add_pod(name)
    meeting = Meeting(number)
    with (
        stage.door(before_write=meeting.first) as one,
        stage.door(before_write=meeting.second) as two,
    ):
        first = stage.begin("bind", {"placements": stage.to(nodes[0], *pairs[0])}, one)
        assert meeting.first_waits.wait(60.0)
        second = stage.begin("bind", {"placements": stage.to(nodes[0], *pairs[1])}, two)
        results = [first.end(), second.end()]
    stage.check()
    there = [name for name, place in stage.places().items() if place == nodes[0]]
    assert len(there) == 2
    bound = [entry["pod"] for result in results for entry in result.get("bound", [])]
    assert sorted(bound) == there
    refused = [entry for result in results for entry in result.get("skipped", [])]
    assert ["is full" in entry["reason"] for entry in refused] == [True, True]


def test_a_move_and_a_binding_never_take_the_same_room(stage: Stage, nodes: list[str]) -> None:
    """The binding comes between the eviction and the binding of the pod that replaces it."""
    source, target = nodes
    [before] = a_replica_set(stage, "app")
    bind(
        {
            "kubeconfig": stage.kubeconfig,
            **stage.options,
            "placements": stage.to(source, before),
        }
    )
    stage.add_pod("late", cpu="3")
    meeting = Meeting(3)
    with (
        stage.door(before_write=meeting.first) as one,
        stage.door(before_write=meeting.second) as two,
    ):
        first = stage.begin("move_pods", moving(stage, before, source, target), one)
        assert meeting.first_waits.wait(60.0)
        second = stage.begin("bind", {"placements": stage.to(target, "late")}, two)
        moved, bound = first.end(), second.end()
    assert [move["outcome"] for move in moved["moves"]] == ["moved"]
    assert "is full" in bound["skipped"][0]["reason"]
    stage.check()


def test_devices_and_a_binding_never_take_the_same_room(stage: Stage, dra: DraLab) -> None:
    dra.add_claim("own")
    dra.add_pod("with", "own", cpu="3")
    stage.add_pod("without", cpu="3")
    meeting = Meeting(3)
    given = {"api_group": "resource.k8s.io", "scheduler_name": stage.namespace}
    with (
        stage.door(before_write=meeting.first) as one,
        stage.door(before_write=meeting.second) as two,
    ):
        first = stage.begin("reconcile", given, one)
        assert meeting.first_waits.wait(60.0)
        second = stage.begin("bind", {"placements": stage.to(dra.node(1), "without")}, two)
        results = [first.end(), second.end()]
    assert dra.bound() == ["with"] and dra.problems() == []
    assert "is full" in results[1]["skipped"][0]["reason"]
    stage.check()


def test_a_second_run_in_the_same_folder_is_told_who_is_there(
    kubeconfig: str, tmp_path: Path
) -> None:
    """The first one has taken its snapshot and continues with another step."""
    reading = {"kubeconfig": kubeconfig, "include": [], "path": str(tmp_path / "snapshot.json")}
    goes_on = tmp_path / "goes-on"
    tasks: list[Json] = [
        {"name": "read", "wattwise.kube.fleet_snapshot_info": reading},
        {"name": "go on", "ansible.builtin.wait_for": {"path": str(goes_on), "timeout": 120}},
    ]
    play = {"hosts": "c", "connection": "local", "gather_facts": False, "tasks": tasks}
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        first = executor.submit(run_playbook, [play], folders[0], "-i", "c,", as_json=True)
        try:
            snapshot = tmp_path / "snapshot.json"
            wait_until(snapshot.exists, 60.0, "the snapshot of the first run")
            before = snapshot.read_bytes()
            second = run_playbook([play], folders[1], "-i", "c,", as_json=True)
        finally:
            goes_on.touch()
        assert first.result().returncode == 0, first.result().output
    assert second.returncode != 0
    [failure] = second.results("read")
    assert re.match(r"Another run \(process \d+ on \S+, since .*snapshot\.json", failure["msg"])
    assert snapshot.read_bytes() == before
    after = run_playbook([play], folders[1], "-i", "c,", as_json=True)
    assert after.returncode == 0, after.output
    assert snapshot.read_bytes() != before
