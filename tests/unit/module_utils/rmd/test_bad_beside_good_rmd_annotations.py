# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod with an unreadable annotation for cache ways changes nothing for the other pods of its
node.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pod_workloads import (
    configure_pods,
    read_pods,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pods import CACHE_WAYS
from support.bad_beside_good_rmd import bad_object
from support.examples import each_seed
from support.node_trees import CONTAINER_ID
from support.odd_values import TEXTS, bounded
from support.scripted_api import Asked, Reply, ScriptedApi, status_reply

Json = dict[str, t.Any]
NODE = "n1"
# Bad pods, each with an annotation that is not a number.
BAD = {"bad": "cache_min", "bad-too": "mba_percentage", "bad-as-well": "mba_mbps"}
_DISCOVERY = {
    "kind": "APIResourceList",
    "groupVersion": "intel.com/v1alpha1",
    "resources": [{"name": "rmdworkloads", "kind": "RmdWorkload", "namespaced": True, "verbs": []}],
}
_EVENTS = re.compile(r".*/events$")


def pod(name: str, phase: str = "Running", **annotations: t.Any) -> Json:
    amounts = {"cpu": "2", "memory": "64Mi", CACHE_WAYS: "2"}
    container = {"name": "c", "resources": {"limits": amounts, "requests": dict(amounts)}}
    status = {"name": "c", "containerID": f"containerd://{CONTAINER_ID}"}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "annotations": annotations,
        },
        "spec": {"nodeName": NODE, "containers": [container]},
        "status": {"phase": phase, "qosClass": "Guaranteed", "containerStatuses": [status]},
    }


def workload(name: str) -> Json:
    """A stored one, which the daemon refused."""
    owner = {"kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
    spec = {"coreIds": ["2", "3"], "nodes": [NODE], "cache": {"max": 2, "min": 2}}
    states = {NODE: {"response": "Fail: Not enough cache left on cache_id 0"}}
    return {
        "apiVersion": "intel.com/v1alpha1",
        "kind": "RmdWorkload",
        "metadata": {
            "name": f"rmd-workload-{name}",
            "namespace": "default",
            "generation": 1,
            "resourceVersion": "1",
            "uid": f"uid-of-{name}",
            "ownerReferences": [owner],
        },
        "spec": spec,
        "status": {"observedGeneration": 1, "workloadStates": states},
    }


class Api:
    """An API server that holds pods and RmdWorkloads and accepts every write."""

    def __init__(self) -> None:
        self.pods: list[Json] = []
        self.workloads: dict[str, Json] = {}

    def __call__(self, asked: Asked) -> Reply:
        path = asked.path.partition("?")[0]
        if asked.method != "GET":
            written = asked.body or {}
            metadata = {"resourceVersion": "2", "uid": "u", **written.get("metadata", {})}
            return Reply({**written, "metadata": metadata})
        if path == "/api/v1/pods":
            running = "status.phase%3DRunning" in asked.path or "phase=Running" in asked.path
            found = [
                item for item in self.pods if not running or item["status"]["phase"] == "Running"
            ]
            return Reply({"kind": "PodList", "metadata": {}, "items": found})
        if path == "/apis/intel.com/v1alpha1":
            return Reply(_DISCOVERY)
        stored = self.workloads.get(path.rpartition("/")[2])
        return Reply(stored) if stored else status_reply(404, "not found")


class Cluster:
    """Runs of both modules on that server."""

    def __init__(self, server: ScriptedApi, api: Api) -> None:
        self.server, self.api = server, api
        self.good = [
            pod("one"),
            pod("two", c_cache_min="1", c_policy="gold"),
            pod("refused", c_cache_min="abc"),
            pod("full"),
            pod("ended", "Succeeded"),
        ]

    def run(self, pods: t.Sequence[Json]) -> tuple[Json, Json, list[t.Any]]:
        self.api.pods = list(pods)
        self.api.workloads = {f"rmd-workload-{name}": workload(name) for name in ("full", "ended")}
        self.server.asked.clear()
        options = {"host": self.server.url, "api_key": "token", "node_names": [NODE]}
        names = ("one", "two", "refused", "full", *BAD)
        uids = [f"uid-{name}" for name in names]
        cpusets = [{"pod_uid": uid, "container": "c", "cpus": [2, 3]} for uid in uids]
        with bounded():
            listed = read_pods(options, Context())
            result = configure_pods(
                {**options, "cpusets": cpusets, "terminate_refused": True}, Context()
            )
        writes = [
            (each.method, each.path, _without_times(each))
            for each in self.server.asked
            if each.method != "GET"
        ]
        return listed, result, writes


def _without_times(asked: Asked) -> t.Any:
    body = dict(asked.body or {})
    if _EVENTS.match(asked.path):
        body.pop("eventTime")
    text = repr(body)
    return re.sub(r"'lastTransitionTime': '[^']*'", "", text)


def of_others(found: tuple[Json, Json, list[t.Any]]) -> Json:
    """All results and writes that concern the good pods."""
    listed, result, writes = found
    good = ("one", "two", "refused", "full", "ended")
    names = [f"rmd-workload-{name}" for name in good]
    known = (*names, *good)
    return {
        "listed": [
            each for each in listed["pods"].get(NODE, []) if each["metadata"]["name"] in good
        ],
        "workloads": [each for each in result["workloads"] if each["name"] in names],
        "refused": [each for each in result["refused"] if each["pod"] in good],
        "removed": [each for each in result["removed"] if each["name"] in names],
        "terminated": [each for each in result["terminated"] if each["pod"] in good],
        "writes": sorted(
            write
            for write in writes
            if any(f"'name': '{name}" in write[2] or f"/{name}" in write[1] for name in known)
        ),
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    api = Api()
    with ScriptedApi(api) as server:
        yield Cluster(server, api)


@pytest.fixture(scope="module")
def without(cluster: Cluster) -> Json:
    found = of_others(cluster.run(cluster.good))
    assert [each["name"] for each in found["workloads"]] == [
        "rmd-workload-one",
        "rmd-workload-two",
        "rmd-workload-full",
    ]
    assert {each["pod"] for each in found["refused"]} == {"refused", "full"}
    assert [each["pod"] for each in found["terminated"]] == ["full"]
    assert len(found["removed"]) == 1
    assert len(found["writes"]) > 6
    return found


@each_seed(75)
def test_a_bad_pod_changes_nothing_for_the_others(
    cluster: Cluster, without: Json, seed: int
) -> None:
    asking = {
        "c_cache_min": "1",
        "c_policy": "gold",
        "c_pstate_ratio": "1.5",
        "c_pstate_monitoring": "on",
        "c_mba_percentage": "50",
    }
    bad = bad_object(seed, pod("bad", **asking))
    if not isinstance(bad.get("status"), dict):
        bad["status"] = {}
    bad["status"]["phase"] = "Running" if seed % 3 else "Failed"
    found = cluster.run([*cluster.good[:2], bad, *cluster.good[2:]])
    assert of_others(found) == without


@pytest.mark.parametrize("text", [each for each in TEXTS if each.strip() and each != "1"])
def test_an_annotation_that_is_no_number_refuses_its_pod_alone(
    cluster: Cluster, without: Json, text: str
) -> None:
    bad = [pod(each, **{f"c_{name}": text}) for each, name in BAD.items()]
    found = cluster.run([*bad, *cluster.good])
    assert of_others(found) == without
    for each, name in BAD.items():
        [refusal] = [entry for entry in found[1]["refused"] if entry["pod"] == each]
        assert f"annotation c_{name}: " in refusal["message"]
        assert len(refusal["message"]) <= 600
