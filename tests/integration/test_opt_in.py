# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Only pods with the opt-in label get the placer's name: the policy on an API server."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab.process import wait_until
from support.admission_policies import opt_in_policies
from support.playbook import run_playbook
from support.scripted_api import Reply, ScriptedApi, in_turn

LABEL, SCHEDULER = "wattwise.github.io/place", "placer-of-a-test"
DEFAULT = "default-scheduler"
GROUP = "admissionregistration.k8s.io"
Json = dict[str, t.Any]
Scheduler = Callable[..., str]


@pytest.fixture(scope="module")
def scheduler(kubeconfig: str) -> Iterator[Scheduler]:
    """The scheduler's name in a new pod of a namespace.

    An account with only the permissions that the ``crds`` role needs has installed the policy.
    """
    kube = Kube.connect({"kubeconfig": kubeconfig})
    if not kube.serves(f"{GROUP}/v1", "MutatingAdmissionPolicy"):
        pytest.skip("this Kubernetes serves no MutatingAdmissionPolicy")
    labels = {"opted-in": {LABEL: "true"}, "silent": {}, "opted-in-but-ours": {LABEL: "true"}}
    namespaces: list[Json] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": given}}
        for name, given in labels.items()
    ]
    permissions = _permissions("crds-of-a-test")
    apply({"kubeconfig": kubeconfig, "manifests": [*namespaces, *permissions]})
    account = {"kubeconfig": kubeconfig, "impersonate_user": "crds-of-a-test"}
    wait_until(lambda: _may_read_policies(Kube.connect(account)), 60.0, "the permissions")
    policies = {**account, "manifests": opt_in_policies(SCHEDULER, "opted-in-but-ours")}
    apply(policies)

    def name_in(namespace: str, metadata: Json | None = None, **spec: t.Any) -> str:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", **(metadata or {})},
            "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec},
        }
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        return str(kube.request("POST", path, pod)["spec"]["schedulerName"])

    labelled = {"labels": {LABEL: "true"}}

    def names() -> set[str]:
        """By either binding; the API server learns of them one after the other."""
        return {name_in("opted-in"), name_in("silent", labelled)}

    wait_until(lambda: names() == {SCHEDULER}, 60.0, "the policy")
    yield name_in
    apply({**policies, "state": "absent"})
    wait_until(lambda: names() == {DEFAULT}, 60.0, "the end of the policy")
    apply({"kubeconfig": kubeconfig, "manifests": [*permissions, *namespaces], "state": "absent"})


def _may_read_policies(kube: Kube) -> bool:
    """The API server learns of permissions some time after they are stored."""
    try:
        kube.find(f"/apis/{GROUP}/v1/mutatingadmissionpolicies/none")
        kube.find(f"/apis/{GROUP}/v1/mutatingadmissionpolicybindings/none")
    except ApiError:
        return False
    return True


def _permissions(user: str) -> list[Json]:
    """As listed in the ``crds`` role's README, with those of the ``teardown`` playbook."""
    group, names = "rbac.authorization.k8s.io", {"name": user}
    resources = ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"]
    verbs = ["get", "create", "patch", "delete"]
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": names}
    return [
        {**role, "rules": [{"apiGroups": [GROUP], "resources": resources, "verbs": verbs}]},
        {
            **role,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        },
    ]


def test_a_cluster_that_serves_no_such_policy_gets_the_alternative(tmp_path: Path) -> None:
    kind = {"name": "validatingadmissionpolicies", "kind": "ValidatingAdmissionPolicy"}
    replies = [Reply({"resources": [{**kind, "namespaced": False}]})] * 9
    role = {"name": "wattwise.kube.crds"}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"crds_systems": [], "crds_opt_in": True},
        "tasks": [{"name": "Install", "ansible.builtin.include_role": role}],
    }
    with ScriptedApi(in_turn(*replies)) as api:
        ended = run_playbook([play], tmp_path, as_json=True, K8S_AUTH_HOST=api.url)
    [message] = ended.failures().values()
    assert "serves no MutatingAdmissionPolicy of admissionregistration.k8s.io/v1" in message
    assert "schedulerName: wattwise" in message and "docs/reference/pod-fields.md" in message


def test_pods_of_labelled_namespaces_and_labelled_pods_get_the_name(scheduler: Scheduler) -> None:
    assert scheduler("opted-in") == SCHEDULER
    assert scheduler("opted-in", schedulerName=DEFAULT) == SCHEDULER
    assert scheduler("opted-in", {"labels": {LABEL: "true"}}) == SCHEDULER
    assert scheduler("silent", {"labels": {LABEL: "true", "a": "b"}}) == SCHEDULER
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
    assert scheduler("opted-in", {"ownerReferences": [{**owner, "controller": True}]}) == SCHEDULER


def test_no_other_pod_gets_it(scheduler: Scheduler) -> None:
    labelled = {"labels": {LABEL: "true"}}
    assert scheduler("silent") == DEFAULT
    assert scheduler("silent", {"labels": {LABEL: "yes"}}) == DEFAULT
    assert scheduler("opted-in", {"labels": {LABEL: "false"}}) == DEFAULT
    for system in ("kube-system", "kube-public", "opted-in-but-ours"):
        assert scheduler(system, labelled) == DEFAULT
    assert scheduler("opted-in", labelled, schedulerName="other") == "other"
    assert scheduler("opted-in", labelled, nodeName="n1") == DEFAULT
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}
    daemon = {**labelled, "ownerReferences": [{**owner, "controller": True}]}
    assert scheduler("opted-in", daemon) == DEFAULT
