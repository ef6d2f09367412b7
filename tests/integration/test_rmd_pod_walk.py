# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The walk-throughs of upstream's README with pods, from the annotation to the daemon and back.

The API server, scheduler and garbage collector are real, kubelet's control groups are files, and
the daemon is a simulated one of RMD v0.2. The agent is the ``rmd_node_agent`` playbook.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.apply import apply_workloads
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pod_workloads import CONDITION
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pods import CACHE_WAYS
from lab.process import wait_until
from lab.rmd.host import Configuration, Host
from support.node_trees import CONTAINER_ID, write_cpus
from support.playbook import run_playbook
from support.rmd import RmdDaemons, rmd_daemons
from support.rmd_walk import GROUP, Walk, walking

# The README's machine: CPU 49 is the sibling of CPU 5.
HOST = Host({0: (*range(22), *range(44, 66)), 1: (*range(22, 44), *range(66, 88))})
MERGE = "application/merge-patch+json"


class PodWalk:
    """Pods of a namespace on one node, whose control groups lie in a folder."""

    def __init__(self, walk: Walk, namespace: str) -> None:
        self.walk, self.kube, self.namespace = walk, walk.kube, namespace
        [self.node] = walk.nodes
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.workloads = f"{GROUP}/namespaces/{namespace}/rmdworkloads"
        walk.run()  # from here on the node offers its ways

    def create(self, cpus: str, ways: int, **annotations: str) -> str:
        """The README's pod; scheduled, running, and with exclusive use of these CPUs."""
        count = len([cpu for part in cpus.split(",") for cpu in _numbers(part)])
        resources = {"memory": "64Mi", "cpu": count, CACHE_WAYS: ways}
        container = {"name": "nginx1", "image": "nginx"}
        pod: MutableObject = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "guaranteed-cache-pod-",
                "labels": {"name": "nginx"},
                "annotations": annotations,
            },
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": self.node},
                "containers": [
                    {**container, "resources": {"requests": resources, "limits": resources}}
                ],
            },
        }
        created = self.kube.request("POST", self.pods, pod)
        name, uid = created["metadata"]["name"], created["metadata"]["uid"]
        wait_until(
            lambda: self.kube.get(f"{self.pods}/{name}")["status"]["phase"] == "Running",
            30.0,
            f"pod {name}",
        )
        started = {"containerID": f"containerd://{CONTAINER_ID}", "state": {"running": {}}}
        statuses = [{**container, "imageID": "", "ready": True, "restartCount": 0, **started}]
        body = {"status": {"containerStatuses": statuses}}
        self.kube.request("PATCH", f"{self.pods}/{name}/status", body, MERGE)
        write_cpus(self.root, f"sys/fs/cgroup/kubepods/pod{uid}/{CONTAINER_ID}", cpus)
        return str(name)

    @property
    def root(self) -> Path:
        return self.walk.folder / "host"

    def agent(self, **variables: t.Any) -> MutableObject:
        """One run of the node agent; returns the result of its last task."""
        given = {
            "wattwise_kubeconfig": self.walk.kubeconfig,
            "rmd_node_agent_hosts": "localhost",
            "rmd_node_name": self.node,
            "rmd_node_root": str(self.root),
            **variables,
        }
        arguments = ("-e", json.dumps(given))
        name = "wattwise.kube.rmd_node_agent"
        done = run_playbook(name, self.walk.folder, *arguments, as_json=True)
        assert done.returncode == 0, done.output
        [result] = done.results("Keep their RmdWorkloads, and tell those that get none")
        return result

    def workload(self, pod: str) -> MutableObject | None:
        return self.kube.find(f"{self.workloads}/rmd-workload-{pod}")

    def held(self) -> dict[str, str]:
        """CPUs of the daemon's workloads by uuid."""
        [name] = self.walk.daemons.endpoints
        workloads = self.walk.daemons[name].workloads.values()
        return {item.uuid: ",".join(item.core_ids) for item in workloads}

    def told(self, pod: str) -> tuple[str, str]:
        """Status and message of the pod's condition."""
        conditions = self.kube.get(f"{self.pods}/{pod}")["status"]["conditions"]
        [found] = [each for each in conditions if each["type"] == CONDITION]
        return found["status"], found["message"]

    def events(self, pod: str) -> list[tuple[str, str]]:
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        return [
            (each["reason"], each["note"])
            for each in self.kube.list(path)
            if each["regarding"]["name"] == pod and each["reason"].startswith("CacheWays")
        ]

    def is_going(self, pod: str) -> bool:
        found = self.kube.find(f"{self.pods}/{pod}")
        return found is None or "deletionTimestamp" in found["metadata"]


def _numbers(part: str) -> range:
    first, _dash, last = part.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RmdDaemons]:
    with rmd_daemons(tmp_path_factory.mktemp("rmd"), {"one": Configuration()}, HOST) as running:
        yield running


@pytest.fixture
def walk(
    daemons: RmdDaemons, kube: Kube, kubeconfig: str, namespace: str, tmp_path: Path
) -> Iterator[PodWalk]:
    with walking(daemons, kube, kubeconfig, tmp_path) as nodes:
        yield PodWalk(nodes, namespace)


def test_a_pod_with_annotations(walk: PodWalk) -> None:
    """README, pod requesting cache ways: create, describe, delete."""
    pod = walk.create("1-2,49", 2, nginx1_cache_min="2")
    walk.agent()
    made = walk.workload(pod)
    assert made is not None
    assert made["spec"] == {
        "cache": {"max": 2, "min": 2}, "coreIds": ["1", "2", "49"], "nodes": [walk.node],
    }  # fmt: skip
    walk.walk.run()
    state = walk.kube.get(f"{walk.workloads}/rmd-workload-{pod}")["status"]["workloadStates"]
    assert {key: state[walk.node][key] for key in ("cosName", "response", "status")} == {
        "cosName": "1_2_49-guarantee", "response": "Success: 200", "status": "Successful",
    }  # fmt: skip
    assert walk.held() == {f"{walk.namespace}/rmd-workload-{pod}": "1,2,49"}

    walk.kube.request("DELETE", f"{walk.pods}/{pod}")
    wait_until(lambda: walk.workload(pod) is None, 60.0, "the garbage collector")
    walk.walk.run()
    assert walk.held() == {}


def test_a_pod_that_is_refused(walk: PodWalk) -> None:
    """README, limitations: CPUs already in use, and more ways than the pool has."""
    by_hand = {"name": "by-hand", "core_ids": ["1", "2"], "cache": {"max": 2, "min": 2}}
    apply_workloads({"targets": walk.walk.daemons.targets, "workload": by_hand})
    taken = walk.create("1-2,49", 2)
    large = walk.create("4-5", 11)
    well = walk.create("6-7", 1)
    assert walk.agent()["refused"] == []
    walk.walk.run()
    assert set(walk.held()) == {"by-hand", f"{walk.namespace}/rmd-workload-{well}"}

    told = walk.agent()
    assert {each["pod"] for each in told["refused"]} == {taken, large}
    assert told["terminated"] == []
    for pod, words in (
        (taken, "CPU 1-2 belongs to the workload 'by-hand'"),
        (large, "Not enough cache left on cache_id 0 — free ways of this cache"),
    ):
        status, message = walk.told(pod)
        assert (status, words in message) == ("False", True), message
        assert walk.events(pod) == [("CacheWaysRefused", message)]

    ended = walk.agent(rmd_terminate_refused_pods=True)["terminated"]
    assert {each["pod"] for each in ended} == {taken, large}
    assert (walk.is_going(taken), walk.is_going(large), walk.is_going(well)) == (True, True, False)
