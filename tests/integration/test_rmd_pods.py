# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rmd_pod_info and rmd_pod_workload on a real API server: workloads, and statuses of pods."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pod_workloads import (
    configure_pods,
    read_pods,
)
from lab.process import wait_until
from support.asking_pods import Pods
from support.node_trees import CONTAINER_ID, write_cpus
from support.playbook import run_playbook

DEFINITIONS = Path(__file__).resolve().parents[2] / "roles" / "crds" / "files"
POOL_IS_USED_UP = "Fail: Not enough cache left on cache_id 0"


@pytest.fixture(scope="module", autouse=True)
def definitions(kubeconfig: str) -> None:
    """The CRD, established; it belongs to the whole lab and stays."""
    files = [str(DEFINITIONS / "intel.com_rmdworkloads.yaml")]
    apply({"kubeconfig": kubeconfig, "src": files, "wait": True})


@pytest.fixture
def pods(kube: Kube, kubeconfig: str, namespace: str) -> Pods:
    return Pods(kube, kubeconfig, namespace)


def test_the_pods_that_ask_are_listed_with_what_their_node_needs(pods: Pods) -> None:
    uid = pods.add("pod-1", secret="not for nodes")
    read = read_pods({"kubeconfig": pods.kubeconfig, "node_names": [pods.node]})
    [pod] = read["pods"][pods.node]
    assert pod["metadata"] == {"name": "pod-1", "namespace": pods.namespace, "uid": uid}
    assert pod["status"]["qosClass"] == "Guaranteed"
    assert pod["status"]["containerStatuses"][0]["containerID"].endswith(CONTAINER_ID)


def test_a_pod_gets_a_workload_that_follows_annotations_and_cpus(pods: Pods) -> None:
    uid = pods.add("pod-1", nginx1_cache_min="1")
    check = pods.configure({uid: [2, 3]}, check=True)
    assert (check["changed"], pods.kube.list(pods.workloads)) == (True, [])
    assert pods.configure({uid: [2, 3]})["changed"]
    assert pods.spec("rmd-workload-pod-1") == {
        "coreIds": ["2", "3"],
        "cache": {"max": 2, "min": 1},
        "nodes": [pods.node],
    }
    assert not pods.configure({uid: [2, 3]})["changed"]
    pods.annotate("pod-1", nginx1_policy="gold")
    assert pods.configure({uid: [4, 5]})["changed"]
    spec = pods.spec("rmd-workload-pod-1")
    assert (spec["coreIds"], spec["policy"]) == (["4", "5"], "gold")
    assert not pods.configure({})["changed"], "what could not be read stays as it is"


def test_the_playbook_does_it_all_for_a_node(pods: Pods, tmp_path: Path) -> None:
    uid = pods.add("pod-1", nginx1_policy="gold")
    container = f"sys/fs/cgroup/kubepods/pod{uid}/{CONTAINER_ID}"
    write_cpus(tmp_path / "host", container, "4-5")
    variables = {
        "wattwise_kubeconfig": pods.kubeconfig,
        "rmd_node_agent_hosts": "localhost",
        "rmd_node_name": pods.node,
        "rmd_node_root": str(tmp_path / "host"),
    }
    arguments = ("-e", json.dumps(variables))
    changed = []
    for _run in range(2):
        run = run_playbook("wattwise.kube.rmd_node_agent", tmp_path, *arguments, as_json=True)
        assert run.returncode == 0, run.output
        changed.append(run.stats()["localhost"]["changed"])
    spec = pods.spec("rmd-workload-pod-1")
    assert (spec["coreIds"], spec["policy"], changed) == (["4", "5"], "gold", [1, 0])
    pods.add("pod-2")
    run = run_playbook("wattwise.kube.rmd_node_agent", tmp_path, *arguments)
    assert run.returncode == 2
    assert "pod-2: no control group of pod" in run.output


@pytest.mark.parametrize(
    "missing", [{"cpus": []}, {"cpus": ["4"]}, {"cpus": None}, {"pod_uid": ""}, {"container": ""}]
)
def test_cpusets_that_are_none_are_refused_in_one_sentence(
    pods: Pods, missing: MutableObject
) -> None:
    cpuset = {"pod_uid": "uid", "container": "nginx1", "cpus": [4], **missing}
    options = {"kubeconfig": pods.kubeconfig, "node_names": [pods.node], "cpusets": [cpuset]}
    with pytest.raises(InvalidInput, match=r"cpusets\[0\] needs pod_uid, container and cpus"):
        configure_pods(options)


def test_the_workload_goes_with_the_pod(pods: Pods) -> None:
    uid = pods.add("pod-1")
    pods.configure({uid: [2, 3]})
    [owner] = pods.kube.list(pods.workloads)[0]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", uid, True)


def test_a_pod_that_does_not_run_yet_waits(pods: Pods) -> None:
    uid = pods.add("pod-1")
    pods.end("pod-1", "Pending")
    assert pods.configure({uid: [2, 3]})["workloads"] == []


def test_each_node_is_served_by_a_run_of_its_own_and_none_waits_for_another(
    pods: Pods, kube: Kube, kubeconfig: str
) -> None:
    other = Pods(kube, kubeconfig, pods.namespace)
    other.node = f"other-{pods.node}"
    first, second = pods.add("pod-1"), other.add("pod-2")
    cpus = {first: [2, 3], second: [2, 3]}
    for node, name in ((other, "rmd-workload-pod-2"), (pods, "rmd-workload-pod-1")):
        [applied] = node.configure(cpus)["workloads"]
        assert (applied["name"], applied["action"]) == (name, "created")
    locks = f"/apis/coordination.k8s.io/v1/namespaces/{pods.namespace}/leases"
    assert kube.list(locks) == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_workload_of_a_pod_that_has_ended_goes_at_once(pods: Pods, phase: str) -> None:
    """Kubelet gives its CPUs to the next pod, while the pod object itself may stay for long."""
    first, second = pods.add("pod-1"), pods.add("pod-2")
    cpus = {first: [2, 3], second: [4, 5]}
    pods.configure(cpus)
    pods.end("pod-1", phase)
    check = pods.configure({second: [4, 5]}, check=True)
    assert (check["changed"], len(pods.kube.list(pods.workloads))) == (True, 2)
    result = pods.configure({second: [4, 5]})
    removed = [{"namespace": pods.namespace, "name": "rmd-workload-pod-1"}]
    assert (result["changed"], result["removed"]) == (True, removed)
    [left] = pods.kube.list(pods.workloads)
    assert left["metadata"]["name"] == "rmd-workload-pod-2"
    assert not pods.configure({second: [4, 5]})["changed"]


def test_a_workload_of_people_stays_when_a_pod_of_its_name_ends(pods: Pods) -> None:
    pods.kube.request("POST", pods.workloads, by_hand(pods, "rmd-workload-pod-1"))
    pods.add("pod-1")
    pods.end("pod-1", "Succeeded")
    assert pods.configure({})["removed"] == []
    assert pods.spec("rmd-workload-pod-1")["coreIds"] == ["7"]


def by_hand(pods: Pods, name: str) -> MutableObject:
    return {
        "apiVersion": "intel.com/v1alpha1",
        "kind": "RmdWorkload",
        "metadata": {"name": name},
        "spec": {"coreIds": ["7"], "cache": {"max": 1, "min": 1}, "nodes": [pods.node]},
    }


def test_annotations_that_make_no_sense_are_told_once_and_taken_back(pods: Pods) -> None:
    uid = pods.add("pod-1", nginx1_cache_min="9")
    [refusal] = pods.configure({uid: [2, 3]})["refused"]
    assert (refusal["pod"], refusal["pod_uid"]) == ("pod-1", uid)
    condition = pods.condition("pod-1")
    assert condition is not None
    assert (condition["status"], condition["message"]) == ("False", refusal["message"])
    assert "not between 1 and its 2 ways" in refusal["message"]
    assert not pods.configure({uid: [2, 3]})["changed"]
    assert len(pods.events("pod-1")) == 1
    pods.annotate("pod-1", nginx1_cache_min="1")
    pods.configure({uid: [2, 3]})
    pods.answer("rmd-workload-pod-1", "Success: 201")
    assert pods.configure({uid: [2, 3]})["changed"]
    condition = pods.condition("pod-1")
    assert condition is not None and condition["status"] == "True"


def test_what_the_schema_refuses_is_its_own_pods_refusal(pods: Pods) -> None:
    bad, good = pods.add("bad", nginx1_pstate_ratio="fast"), pods.add("good")
    result = pods.configure({bad: [0, 1], good: [2, 3]})
    assert [each["pod"] for each in result["refused"]] == ["bad"]
    assert "ratio" in result["refused"][0]["message"]
    assert pods.spec("rmd-workload-good")["coreIds"] == ["2", "3"]


def test_a_refusing_daemon_is_heard_and_ends_the_pod_only_where_that_is_wanted(pods: Pods) -> None:
    uid, other = pods.add("pod-1"), pods.add("pod-2")
    cpus = {uid: [2, 3], other: [4, 5]}
    pods.configure(cpus)
    pods.answer("rmd-workload-pod-1", POOL_IS_USED_UP)
    result = pods.configure(cpus)
    [refusal] = result["refused"]
    assert refusal["message"] == (
        f"RMD on node {pods.node} refused: Not enough cache left on cache_id 0"
    )
    assert (result["terminated"], pods.names()) == ([], ["pod-1", "pod-2"])
    check = pods.configure(cpus, check=True, terminate_refused=True)
    assert (len(check["terminated"]), pods.names()) == (1, ["pod-1", "pod-2"])
    result = pods.configure(cpus, terminate_refused=True)
    assert result["terminated"] == [{"namespace": pods.namespace, "pod": "pod-1"}]
    left = [each for each in pods.kube.list(pods.pods) if "deletionTimestamp" in each["metadata"]]
    assert [each["metadata"]["name"] for each in left] in (["pod-1"], [])
    assert "pod-2" in pods.names()


@pytest.mark.parametrize(
    "response",
    ["", "Failed: no answer within 10 s", "Failed to set header for http post request"],
)
def test_deviation_an_outage_ends_no_pod(pods: Pods, response: str) -> None:
    uid = pods.add("pod-1")
    pods.configure({uid: [2, 3]})
    pods.answer("rmd-workload-pod-1", response)
    result = pods.configure({uid: [2, 3]}, terminate_refused=True)
    assert (result["refused"], result["terminated"]) == ([], [])


def test_an_answer_to_what_was_wanted_before_counts_no_more(pods: Pods) -> None:
    uid = pods.add("pod-1")
    pods.configure({uid: [2, 3]})
    pods.answer("rmd-workload-pod-1", POOL_IS_USED_UP)
    pods.annotate("pod-1", nginx1_cache_min="1")
    for _run in range(2):  # the first one changes the workload, whose answer comes later
        result = pods.configure({uid: [2, 3]}, terminate_refused=True)
        assert (result["refused"], result["terminated"]) == ([], [])


def test_a_workload_of_people_is_left_alone_and_so_is_a_pod_of_its_name(pods: Pods) -> None:
    pods.kube.request("POST", pods.workloads, by_hand(pods, "rmd-workload-pod-1"))
    pods.answer("rmd-workload-pod-1", POOL_IS_USED_UP)
    uid = pods.add("pod-1")
    result = pods.configure({uid: [2, 3]}, terminate_refused=True)
    assert "is not this pod's" in result["refused"][0]["message"]
    assert (result["terminated"], pods.names()) == ([], ["pod-1"])
    assert pods.spec("rmd-workload-pod-1")["coreIds"] == ["7"]


def test_a_pod_that_replaced_another_gets_its_own_workload_after_that_of_the_other(
    pods: Pods,
) -> None:
    first = pods.add("pod-1")
    pods.configure({first: [2, 3]})
    pods.kube.request("DELETE", f"{pods.pods}/pod-1", {"gracePeriodSeconds": 0})
    second = pods.add("pod-1")

    def is_its_own() -> bool:
        assert pods.configure({second: [4, 5]})["refused"] == []
        stored = pods.kube.find(f"{pods.workloads}/rmd-workload-pod-1")
        return stored is not None and stored["spec"]["coreIds"] == ["4", "5"]

    wait_until(is_its_own, 30.0, "the workload of the second pod")
