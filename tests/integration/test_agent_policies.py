# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node agent writes only for its own node: the role's admission policies on an API server."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pod_workloads import CONDITION
from lab.process import wait_until
from support.admission_policies import agent_policies
from support.asking_pods import MERGE, Pods

ROOT = Path(__file__).resolve().parents[2]
STRATEGIC = "application/strategic-merge-patch+json"
REFUSED = {"type": CONDITION, "status": "False", "reason": "Refused", "message": "m"}


class Agent:
    """The node agent of one node, with its pod's token, and another node."""

    def __init__(self, pods: tuple[Pods, Pods], kube: Kube, unbound: Kube, uid: str) -> None:
        self.admin, self.other = pods
        self.kube, self.unbound, self.uid = kube, unbound, uid

    def workload(self, name: str, *nodes: str, **spec: t.Any) -> MutableObject:
        # The pod must exist, or the garbage collector deletes the workload.
        owner: MutableObject = {"apiVersion": "v1", "kind": "Pod", "name": "agent", "uid": self.uid}
        owner["controller"] = True
        return {
            "apiVersion": "intel.com/v1alpha1",
            "kind": "RmdWorkload",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {
                "coreIds": ["2"],
                "cache": {"max": 2, "min": 2},
                "nodes": list(nodes or (self.admin.node,)),
                **spec,
            },
        }

    def may(
        self,
        method: str,
        path: str,
        body: t.Any = None,
        kind: str | None = None,
        dry: bool = False,
    ) -> bool:
        """Whether the API accepts it from the agent; a refusing policy states its reason."""
        return allowed(self.kube, method, f"{path}?dryRun=All" if dry else path, body, kind)


def allowed(
    kube: Kube, method: str, path: str, body: t.Any = None, kind: str | None = None
) -> bool:
    try:
        if kind is None:
            kube.request(method, path, body)
        else:
            kube.request(method, path, body, kind)
    except ApiError as error:
        assert error.status == 403, error
        assert "a node agent" in str(error) or "every RmdWorkload of a node agent" in str(error)
        return False
    return True


def client(kubeconfig: str, token: str, folder: Path) -> Kube:
    """The same cluster with this token."""
    given = yaml.safe_load(Path(kubeconfig).read_text())
    for user in given["users"]:
        user["user"] = {"token": token}
    path = folder / f"{len(list(folder.iterdir()))}.kubeconfig"
    path.write_text(yaml.safe_dump(given))
    return Kube.connect({"kubeconfig": str(path)})


@pytest.fixture
def agent(kube: Kube, kubeconfig: str, namespace: str, tmp_path: Path) -> Iterator[Agent]:
    files = sorted((ROOT / "roles" / "crds" / "files").glob("intel.com_*.yaml"))
    apply({"kubeconfig": kubeconfig, "src": list(map(str, files)), "wait": True})
    permissions = yaml.safe_load((ROOT / "docs" / "rbac" / "rmd_node_agent.yaml").read_text())[
        "items"
    ]
    [rules] = [item["rules"] for item in permissions if "rules" in item]
    name, group = f"agent-of-{namespace}", "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": "rmd-node-agent", "namespace": namespace}
    account = {"name": "rmd-node-agent", "namespace": namespace}
    made: list[MutableObject] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
        *agent_policies(namespace),
    ]
    apply({"kubeconfig": kubeconfig, "manifests": made})
    admin, other = (Pods(kube, kubeconfig, namespace) for _number in range(2))
    other.node = f"other-{admin.node}"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "agent"},
        "spec": {
            "nodeName": admin.node,
            "serviceAccountName": "rmd-node-agent",
            "containers": [{"name": "agent", "image": "agent"}],
        },
    }
    created = kube.request("POST", admin.pods, pod)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/rmd-node-agent/token"
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "agent"}
    bound = {**reference, "uid": created["metadata"]["uid"]}
    tokens = [
        kube.request("POST", path, {"spec": spec})["status"]["token"]
        for spec in ({"boundObjectRef": bound}, {})
    ]
    own, unbound = (client(kubeconfig, token, tmp_path) for token in tokens)
    found = Agent((admin, other), own, unbound, created["metadata"]["uid"])
    other.add("probe")
    foreign, told = found.workload("foreign", "elsewhere"), {"status": {"conditions": [REFUSED]}}
    for asked in (
        ("POST", admin.workloads, foreign, None),
        ("PATCH", f"{admin.pods}/probe/status", told, STRATEGIC),
        ("DELETE", f"{admin.pods}/probe", {"dryRun": ["All"]}, None),
    ):
        wait_until(lambda asked=asked: not found.may(*asked, dry=True), 60.0, "the policies")  # type: ignore[misc]
    yield found
    apply({"kubeconfig": kubeconfig, "manifests": made, "state": "absent"})


def test_an_agent_writes_workloads_of_its_own_node_alone(agent: Agent) -> None:
    path, node = agent.admin.workloads, agent.admin.node
    assert agent.may("POST", path, agent.workload("own"))
    assert agent.may("PATCH", f"{path}/own", {"spec": {"policy": "gold"}}, MERGE)
    ownerless = agent.workload("ownerless")
    del ownerless["metadata"]["ownerReferences"]
    for bad in (
        agent.workload("other", agent.other.node),
        agent.workload("both", node, agent.other.node),
        agent.workload("selecting", nodeSelector={"a": "b"}),
        agent.workload("all", allCores=True),
        ownerless,
    ):
        assert not agent.may("POST", path, bad)
    assert not agent.may("PATCH", f"{path}/own", {"spec": {"nodes": [agent.other.node]}}, MERGE)
    people = {**ownerless, "metadata": {"name": "people"}}
    agent.admin.kube.request("POST", path, people)
    agent.admin.kube.request("POST", path, agent.workload("theirs", agent.other.node))
    for name in ("people", "theirs"):
        assert not agent.may("PATCH", f"{path}/{name}", {"spec": {"policy": "gold"}}, MERGE)
        assert not agent.may("PATCH", f"{path}/{name}", {"spec": {"nodes": [node]}}, MERGE)
        assert not agent.may("DELETE", f"{path}/{name}")
    assert agent.may("DELETE", f"{path}/own")


def test_an_agent_tells_pods_of_its_own_node_alone_and_nothing_else(agent: Agent) -> None:
    agent.admin.add("own")
    agent.other.add("theirs")
    own, theirs = (f"{agent.admin.pods}/{name}/status" for name in ("own", "theirs"))
    told = {"status": {"conditions": [REFUSED]}}
    assert agent.may("PATCH", own, told, STRATEGIC)
    assert not agent.may("PATCH", theirs, told, STRATEGIC)
    other = {"type": "Ready", "status": "False"}
    for body in (
        {"status": {"phase": "Failed"}},
        {"status": {"podIP": "10.0.0.9"}},
        {"status": {"conditions": [other]}},
        {"metadata": {"labels": {"name": "rmd-pod"}}},
        {"metadata": {"annotations": {"nginx1_policy": "gold"}}},
    ):
        assert not agent.may("PATCH", own, body, STRATEGIC)


def test_an_agent_ends_refused_pods_of_its_own_node_alone(agent: Agent) -> None:
    for name in ("own", "refused"):
        agent.admin.add(name)
    agent.other.add("theirs")
    for name in ("refused", "theirs"):
        path, body = f"{agent.admin.pods}/{name}/status", {"status": {"conditions": [REFUSED]}}
        agent.admin.kube.request("PATCH", path, body, STRATEGIC)
    now = {"gracePeriodSeconds": 0}
    assert not agent.may("DELETE", f"{agent.admin.pods}/own", now)
    assert not agent.may("DELETE", f"{agent.admin.pods}/theirs", now)
    assert agent.may("DELETE", f"{agent.admin.pods}/refused", now)


def test_an_agent_s_account_without_a_node_may_write_nothing(agent: Agent) -> None:
    agent.admin.add("own")
    workload = agent.workload("own")
    assert not allowed(agent.unbound, "POST", agent.admin.workloads, workload)
    told = {"status": {"conditions": [REFUSED]}}
    path = f"{agent.admin.pods}/own/status"
    assert not allowed(agent.unbound, "PATCH", path, told, STRATEGIC)


def test_the_module_works_with_what_the_policies_leave(agent: Agent) -> None:
    uid = agent.admin.add("asking", nginx1_cache_min="1")
    bad = agent.admin.add("bad", nginx1_cache_min="abc")
    agent.admin.configure({uid: [2, 3], bad: [4, 5]})  # as the administrator
    stored = agent.admin.kube.get(f"{agent.admin.workloads}/rmd-workload-asking")
    del stored["metadata"]["managedFields"]
    name = f"{agent.admin.workloads}/rmd-workload-asking"
    assert agent.may("PATCH", name, {"spec": stored["spec"]}, MERGE)
    assert agent.admin.condition("bad") is not None
