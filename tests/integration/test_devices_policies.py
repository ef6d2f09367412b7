# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The account of the ``devices`` role writes only its pod fields: the policies on an API server."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab.process import wait_until
from support.admission_policies import devices_policies

ACCOUNT, GATE = "devices-of-a-test", "wattwise.github.io/devices"
STRATEGIC = "application/strategic-merge-patch+json"
Json = dict[str, t.Any]
May = Callable[..., bool]


@pytest.fixture
def may(kube: Kube, kubeconfig: str, namespace: str) -> Iterator[May]:
    """Whether the API accepts the account's patch of a pod, gated or not."""
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "patch"]}]
    name = f"{ACCOUNT}-{namespace}"
    made: list[Json] = [
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
            "subjects": [{"apiGroup": group, "kind": "User", "name": ACCOUNT}],
        },
        *devices_policies(ACCOUNT, GATE),
    ]
    apply({"kubeconfig": kubeconfig, "manifests": made})
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for pod, gates in (("waiting", [{"name": GATE}]), ("free", [])):
        spec: Json = {"schedulingGates": gates, "containers": [{"name": "c", "image": "i:1"}]}
        spec |= {"schedulerName": "nobody"}
        metadata = {"name": pod, "labels": {"a": "b"}}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        kube.request("POST", pods, manifest)
    account = Kube.connect({"kubeconfig": kubeconfig, "impersonate_user": ACCOUNT})

    def allowed(path: str, body: Json) -> bool:
        try:
            account.request("PATCH", f"{pods}/{path}", body, STRATEGIC)
        except ApiError as error:
            assert error.status == 403 and "the devices role" in str(error), error
            return False
        return True

    image = {"spec": {"containers": [{"name": "c", "image": "evil:1"}]}}
    phase = {"status": {"phase": "Failed"}}
    for path, body in (("waiting?dryRun=All", image), ("waiting/status?dryRun=All", phase)):
        wait_until(lambda path=path, body=body: not allowed(path, body), 60.0, "the policies")  # type: ignore[misc]
    yield allowed
    apply({"kubeconfig": kubeconfig, "manifests": made, "state": "absent"})


def test_only_gate_and_node_affinity_of_waiting_pods_are_written(may: May) -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    near = {"affinity": {"nodeAffinity": required}}
    for bad in (
        {"spec": {"containers": [{"name": "c", "image": "evil:1"}]}},
        {"spec": {"activeDeadlineSeconds": 5}},
        {"metadata": {"labels": {"a": "c"}}},
        {"metadata": {"annotations": {"x": "y"}}},
        {"metadata": {"finalizers": ["example.com/x"]}},
        {"spec": near, "metadata": {"labels": {"name": "rmd-pod"}}},
    ):
        assert not may("waiting", bad)
    assert not may("free", {"metadata": {"labels": {"a": "c"}}})
    opened: Json = {"spec": {**near, "schedulingGates": [{"name": GATE, "$patch": "delete"}]}}
    assert may("waiting", opened)


def test_only_conditions_are_written_to_statuses(may: May) -> None:
    own = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    assert may("waiting/status", {"status": {"conditions": [own]}})
    for bad in (
        {"status": {"phase": "Failed"}},
        {"status": {"podIP": "10.0.0.9"}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"metadata": {"labels": {"a": "c"}}},
    ):
        assert not may("waiting/status", bad)
