# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role rmd_workloads on a real API server: the walk-throughs of upstream's README, and its samples.

The daemons are simulated ones of RMD v0.2, as README v0.1.1 shows them.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils import snapshot
from ansible_collections.wattwise.kube.plugins.module_utils.apply import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.manifests import daemons_of
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.reconciliation import reconcile
from lab.rmd.host import Configuration
from support.playbook import PlaybookRun, run_playbook
from support.rmd import RmdDaemons, rmd_daemons

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tests" / "conformance" / "rmd"
GROUP = "/apis/intel.com/v1alpha1"
Object = dict[str, t.Any]


@dataclass
class Walk:
    """Daemons on two nodes of the lab's cluster, and the role run from an inventory."""

    kube: Kube
    kubeconfig: str
    daemons: RmdDaemons
    nodes: list[str]
    folder: Path

    def create(self, name: str, **spec: t.Any) -> str:
        """A sample of upstream's in the namespace `default`, on the nodes of the lab."""
        manifest: Object = yaml.safe_load((SAMPLES / f"{name}.yaml").read_text())
        manifest["metadata"]["namespace"] = "default"
        manifest["spec"] = {**manifest["spec"], "nodes": self.nodes, **spec}
        apply({"kubeconfig": self.kubeconfig, "manifests": [manifest]})
        return str(manifest["metadata"]["name"])

    @property
    def endpoints(self) -> dict[str, str]:
        return dict(zip(self.nodes, self.daemons.endpoints.values(), strict=True))

    def run(self) -> Object:
        """What the role does, without starting Ansible; the result of the reconciliation."""
        path, document = str(self.folder / "rmd-snapshot.json"), str(self.folder / "rmd.json")
        parts = ["rmd_workloads", "rmd_node_states", "rmd_configs", "rmd_pods"]
        snapshot.take({"kubeconfig": self.kubeconfig, "include": parts, "path": path})
        options = {"snapshot": path, "endpoints": self.endpoints, "path": document}
        result = reconcile({**options, **self.daemons.tls})
        for key, status in (("node_states", False), ("statuses", True)):
            given = {"src": [document], "src_key": key, "status": status}
            apply({"kubeconfig": self.kubeconfig, **given, "field_manager": "wattwise-rmd"})
        return result

    def leave_client_files(self) -> None:
        """What role rmd leaves in the run folder, for these daemons."""
        folder = self.folder / "runs" / "walk" / "rmd"
        folder.mkdir(parents=True, exist_ok=True)
        names = {"ca_path": "ca.pem", "client_cert": "cert.pem", "client_key": "key.pem"}
        for option, name in names.items():
            (folder / name).write_bytes(Path(self.daemons.tls[option]).read_bytes())

    def playbook(self, *arguments: str, expect: int = 0, **variables: t.Any) -> PlaybookRun:
        self.leave_client_files()
        given = {
            "wattwise_kubeconfig": self.kubeconfig,
            "wattwise_run_dir": str(self.folder / "runs"),
            "rmd_endpoints": self.endpoints,
            **variables,
        }
        inventory = self.folder / "inventory.json"
        inventory.write_text(json.dumps({"clusters": {"hosts": {"walk": given}}}))
        arguments = ("-i", str(inventory), "--tags", "rmd_workloads", *arguments)
        done = run_playbook("wattwise.kube.rmd", self.folder, *arguments, as_json=True)
        assert done.returncode == expect, done.output
        return done

    def workload(self, name: str) -> Object:
        return self.kube.get(f"{GROUP}/namespaces/default/rmdworkloads/{name}")

    def states(self, name: str) -> Object:
        return t.cast("Object", self.workload(name)["status"]["workloadStates"])

    def versions(self, name: str) -> list[str]:
        objects = [self.workload(name), *map(self.node_state, self.nodes)]
        return [obj["metadata"]["resourceVersion"] for obj in objects]

    def node_state(self, node: str) -> Object:
        return self.kube.get(f"{GROUP}/namespaces/default/rmdnodestates/rmd-node-state-{node}")


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RmdDaemons]:
    usual = Configuration(pstate=True, os_cpus=frozenset({43}))
    configurations = {"one": usual, "two": usual.with_(debug=False)}
    with rmd_daemons(tmp_path_factory.mktemp("rmd"), configurations) as running:
        yield running


@pytest.fixture
def walk(
    daemons: RmdDaemons, kube: Kube, kubeconfig: str, namespace: str, tmp_path: Path
) -> Iterator[Walk]:
    folder = ROOT / "roles" / "crds" / "files"
    files = [str(path) for path in sorted(folder.glob("intel.com_*.yaml"))]
    apply({"kubeconfig": kubeconfig, "src": files, "wait": True})
    nodes = sorted(node["metadata"]["name"] for node in kube.list("/api/v1/nodes"))[:2]
    yield Walk(kube, kubeconfig, daemons, nodes, tmp_path)
    for kind in ("rmdworkloads", "rmdnodestates"):
        path = f"{GROUP}/namespaces/default/{kind}"
        for obj in kube.list(path):
            kube.request("DELETE", f"{path}/{obj['metadata']['name']}")
    for name in daemons.endpoints:
        for key in list(daemons[name].workloads):
            daemons[name].delete(key)


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
    [shown] = walk.playbook("--check", "--diff").results("Reconcile all daemons")
    assert [entry["action"] for entry in shown["results"]] == ["created", "created"]
    assert (walk.daemons.writes(), "status" in walk.workload(name)) == (before, False)
    done = walk.playbook()
    assert done.stats()["walk"]["changed"] == 3
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
    found = daemons_of(taken["nodes"], own, {})
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
