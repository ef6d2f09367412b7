# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rmd_cluster_reconciliation on a real API server: the walk-throughs of upstream's README, and its samples.

The daemons are simulated ones of RMD v0.2, as README v0.1.1 shows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import WattwiseError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.manifests import daemons_of
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot import snapshot
from lab.rmd.host import Configuration
from support.rmd import RmdDaemons, rmd_daemons
from support.rmd_walk import GROUP, SAMPLES, Walk, walking


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RmdDaemons]:
    usual = Configuration(pstate=True, os_cpus=frozenset({43}))
    configurations = {"one": usual, "two": usual.with_(debug=False)}
    with rmd_daemons(tmp_path_factory.mktemp("rmd"), configurations) as running:
        yield running


@pytest.fixture
def walk(daemons: RmdDaemons, kube: Kube, kubeconfig: str, tmp_path: Path) -> Iterator[Walk]:
    with walking(daemons, kube, kubeconfig, tmp_path) as walk:
        yield walk


def test_guaranteed_cache(walk: Walk) -> None:
    """README, CRDs: create, describe; RmdNodeState."""
    name = walk.create("rmdworkload-guaranteed-cache")
    walk.run()
    for node in walk.nodes:
        state = walk.states(name)[node]
        shown = {key: state[key] for key in ("cosName", "response", "status")}
        assert shown == {
            "cosName": "0_1_2_3-guarantee", "response": "Success: 200", "status": "Successful",
        }  # fmt: skip
        found = walk.node_state(node)
        assert found["spec"]["node"] == node
        assert found["spec"]["nodeUid"] == found["metadata"]["ownerReferences"][0]["uid"]
        assert found["status"]["workloads"] == {
            "rmdworkload-guaranteed-cache": {
                "Cache Max": "2", "Cache Min": "2", "Core IDs": "0,1,2,3", "ID": state["id"],
                "Cos Name": "0_1_2_3-guarantee", "Origin": "REST", "Status": "Successful",
            }
        }  # fmt: skip


def test_the_playbook_and_its_second_run_and_check_mode(walk: Walk) -> None:
    """Defect 16: upstream sends a PATCH at every pass."""
    name = walk.create("rmdworkload-guaranteed-cache")
    before = walk.daemons.writes()
    [shown] = walk.playbook("--check", "--diff").results(
        "Bring the daemons to what the RmdWorkloads want"
    )
    assert [entry["action"] for entry in shown["results"]] == ["created", "created"]
    assert (walk.daemons.writes(), "status" in walk.workload(name)) == (before, False)
    done = walk.playbook()
    assert done.stats()["walk"]["changed"] == 1
    writes, versions = walk.daemons.writes(), walk.versions(name)
    again = walk.playbook()
    assert (again.stats()["walk"]["changed"], walk.daemons.writes()) == (0, writes)
    assert walk.versions(name) == versions


def test_best_effort_and_shared_cache(walk: Walk) -> None:
    best = walk.create("rmdworkload-best-effort-cache", coreIds=["0", "1", "2", "3"])
    shared = walk.create("rmdworkload-guaranteed-cache", coreIds=["8"], cache={"max": 0, "min": 0})
    walk.run()
    node = walk.nodes[0]
    assert walk.states(best)[node]["cosName"] == "0_1_2_3-besteffort"
    assert walk.states(shared)[node]["cosName"] == "shared"


def test_cache_with_p_state(walk: Walk) -> None:
    name = walk.create("rmdworkload-guaranteed-cache-pstate")
    walk.run()
    for node in walk.nodes:
        assert walk.states(name)[node]["cosName"] == "4_5_6_7-guarantee"
        words = walk.node_state(node)["status"]["workloads"][name]
        assert (words["P-State Ratio"], words["P-State Monitoring"]) == ("3.000000", "on")


def test_removing_a_node_and_deleting(walk: Walk) -> None:
    """README, delete: only from one node, then from all; defects 1 and 12."""
    name = walk.create("rmdworkload-guaranteed-cache")
    walk.run()
    first, second = walk.nodes
    walk.create("rmdworkload-guaranteed-cache", nodes=[second])
    walk.run()
    assert list(walk.states(name)) == [second]
    assert walk.node_state(first)["status"].get("workloads") is None
    walk.kube.request("DELETE", f"{GROUP}/namespaces/default/rmdworkloads/{name}")
    assert walk.run()["changed"] is True
    assert all(not walk.daemons[daemon].workloads for daemon in walk.daemons.endpoints)
    assert walk.node_state(second)["status"].get("workloads") is None


def test_other_cpus_alone_are_carried_through(walk: Walk) -> None:
    """Defects 9 and 10: upstream's PATCH fails for ever."""
    name = walk.create("rmdworkload-guaranteed-cache")
    walk.run()
    walk.create("rmdworkload-guaranteed-cache", coreIds=["1", "2"])
    walk.run()
    state = walk.states(name)[walk.nodes[0]]
    assert (state["cosName"], state["response"]) == ("1_2-guarantee", "Success: 200")


def test_a_restarted_daemon_gets_its_workloads_again(walk: Walk) -> None:
    """Defect 11."""
    name = walk.create("rmdworkload-guaranteed-cache")
    walk.run()
    walk.daemons.restart("one", loses_database=True)
    assert walk.run()["changed"] is True
    assert [item.uuid for item in walk.daemons["one"].workloads.values()] == [name]
    assert walk.states(name)[walk.nodes[0]]["id"] == "2"


def test_too_few_answers_fail_the_run_after_all_is_written(walk: Walk, tmp_path: Path) -> None:
    name = walk.create("rmdworkload-guaranteed-cache")
    walk.daemons.break_it("one", "rmd-dead")
    try:
        with pytest.raises(WattwiseError, match="Only 1 of 2") as caught:
            walk.run(min_success=1.0)
    finally:
        walk.daemons.mend()
    lost, answering = walk.nodes
    assert walk.states(name)[answering]["response"] == "Success: 200"
    assert "cannot connect" in walk.states(name)[lost]["response"]
    fields = caught.value.fields
    assert [each["workload"] for each in fields["results"]] == [name]
    assert {each["kind"] for each in fields["objects"]} == {
        "Namespace", "Node", "RmdNodeState", "RmdWorkload",
    }  # fmt: skip
    assert fields["path"] == str(tmp_path / "rmd.json")
    assert list(documents.load(str(tmp_path / "rmd.json"), "rmd")["daemons"]) == [answering]
    assert [each.name for each in tmp_path.iterdir() if "snapshot" in each.name] == []


def test_a_node_that_is_not_there_is_told_and_blocks_nothing(walk: Walk) -> None:
    """Defect 2."""
    name = walk.create("rmdworkload-guaranteed-cache", nodes=["nowhere", walk.nodes[1]])
    walk.run()
    states = walk.states(name)
    assert states["nowhere"]["response"].startswith("Failed: there is no node nowhere")
    assert states[walk.nodes[1]]["response"] == "Success: 200"
    [ready] = [
        item for item in walk.workload(name)["status"]["conditions"] if item["type"] == "Ready"
    ]
    assert (ready["status"], ready["reason"]) == ("False", "NotFound")


def test_every_sample_of_both_versions_is_carried_out(walk: Walk) -> None:
    placed = []
    for number, path in enumerate(sorted(SAMPLES.glob("rmdworkload-*.yaml"))):
        manifest = yaml.safe_load(path.read_text())
        spec = manifest["spec"]
        own = {"coreIds": [str(20 + number)], "nodeSelector": {}, "allCores": False}
        own |= {"reservedCoreIds": []}
        if "mba" in (spec.get("rdt") or {}):  # RMD v0.2 knows none
            own["rdt"] = {"cache": spec["rdt"].get("cache") or {"max": 1, "min": 1}}
        placed.append(walk.create(path.stem, **own))
    walk.run()
    for name in placed:
        responses = {state["response"] for state in walk.states(name).values()}
        assert responses == {"Success: 200"}, name


def test_the_api_knows_how_many_ways_a_node_offers(walk: Walk) -> None:
    walk.create("rmdworkload-guaranteed-cache")
    walk.run()
    for node in walk.nodes:
        status = walk.kube.get(f"/api/v1/nodes/{node}")["status"]
        # two caches with ten guaranteed ways each, less the two of the workload on its own cache
        assert status["capacity"]["intel.com/l3_cache_ways"] == "18"
        assert status["allocatable"]["intel.com/l3_cache_ways"] == "18"


def test_a_daemon_is_found_at_the_address_of_its_pod(walk: Walk, namespace: str) -> None:
    container = {"name": "rmd", "image": "rmd:latest", "ports": [{"containerPort": 8443}]}
    metadata = {"name": "rmd", "namespace": namespace, "labels": {"name": "rmd-pod"}}
    spec = {"nodeName": walk.nodes[0], "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    apply({"kubeconfig": walk.kubeconfig, "manifests": [pod], "wait": True})
    parts = {"include": ["rmd_pods"], "selectors": {"rmd_pods": "name=rmd-pod"}}
    taken = snapshot.take({"kubeconfig": walk.kubeconfig, **parts})["snapshot"]
    own = [item for item in taken["rmd_pods"] if item["metadata"]["namespace"] == namespace]
    address = walk.kube.get(f"/api/v1/namespaces/{namespace}/pods/rmd")["status"]["podIP"]
    found = daemons_of(taken["nodes"], own, {}, namespace)
    assert {name: daemon.endpoint for name, daemon in found.items()} == {
        walk.nodes[0]: f"https://{address}:8443"
    }


def test_upstream_s_operator_is_found_and_named(walk: Walk, namespace: str) -> None:
    container = {"name": "operator", "image": "intel-rmd-operator:latest"}
    labels = {"name": "intel-rmd-operator"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "intel-rmd-operator", "namespace": namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    apply({"kubeconfig": walk.kubeconfig, "manifests": [deployment]})
    assert "intel-rmd-operator:latest" in walk.playbook(expect=2).output
    apply({"kubeconfig": walk.kubeconfig, "manifests": [deployment], "state": "absent"})
