# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator writes only the fields of Nodes about sleep: the policy on an API server."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster import node_changes
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record import (
    ANNOTATION,
    PAUSES,
    NodeRecord,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Phase
from lab.process import wait_until
from support.admission_policies import operator_policies

Json = dict[str, t.Any]
May = Callable[..., bool]
ASLEEP = {"key": node_changes.TAINT, "value": "asleep", "effect": "NoSchedule"}
OUT = {"key": node_changes.OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
KEPT = {"key": "example.com/dedicated", "value": "a", "effect": "NoSchedule"}


@pytest.fixture
def account(kube: Kube, kubeconfig: str, namespace: str) -> Iterator[Kube]:
    """An account with the permissions and the policy of the capability ``sleep``."""
    made = operator_policies("sleep", namespace)
    apply({"kubeconfig": kubeconfig, "manifests": made})
    yield Kube.connect({"kubeconfig": kubeconfig, "impersonate_user": namespace})
    apply({"kubeconfig": kubeconfig, "manifests": made, "state": "absent"})


@pytest.fixture
def may(account: Kube, node: str) -> May:
    """Whether the API accepts the account's patch of an object."""

    def allowed(path: str, body: Json) -> bool:
        try:
            account.request("PATCH", path, body, MERGE_CONTENT_TYPE)
        except ApiError as error:
            assert error.status == 403 and "the operator changes" in str(error), error
            return False
        return True

    greedy = {"metadata": {"labels": {"x": "y"}}}
    wait_until(lambda: not allowed(f"{node}?dryRun=All", greedy), 60.0, "the policy")
    return allowed


@pytest.fixture
def node(kube: Kube, namespace: str) -> Iterator[str]:
    """The path of a node with a label, an annotation and a taint of somebody else."""
    metadata = {"name": namespace, "labels": {"a": "b"}, "annotations": {"c": "d"}}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [KEPT]}}
    kube.request("POST", "/api/v1/nodes", body)
    yield f"/api/v1/nodes/{namespace}"
    kube.request("DELETE", f"/api/v1/nodes/{namespace}")


def record(phase: Phase) -> NodeRecord:
    return NodeRecord(
        phase, time.time(), "a test", cordoned=True, excluded=True, paused=tuple(PAUSES)
    )


def write(kube: Kube, node: str, given: NodeRecord | None, is_out: bool = False) -> bool:
    """Patch the node as a run does; false if the control plane changed it meanwhile."""
    found = kube.get(node)
    patch = (
        node_changes.patch_to_awake(found, record(Phase.WAKING))
        if given is None
        else node_changes.patch_to_record(found, given, is_out)
    )
    return node_changes.apply_patch(kube, found, patch) is not None


def test_every_state_of_a_machine_is_written_and_taken_away(
    may: May, kube: Kube, account: Kube, node: str
) -> None:
    before = kube.get(node)
    for phase in (one for one in Phase if one is not Phase.AWAKE):
        given, is_out = record(phase), phase is Phase.ASLEEP
        wait_until(
            lambda given=given, is_out=is_out: write(account, node, given, is_out),  # type: ignore[misc]
            20.0,
            f"a machine that is {phase.value}",
        )
        found = kube.get(node)
        assert node_changes.is_cordoned(found) and node_changes.is_excluded(found)
        assert all(found["metadata"][part][name] == "true" for name, part in PAUSES.items())
    wait_until(lambda: write(account, node, None), 20.0, "a machine that is awake")
    after = kube.get(node)
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert not {ANNOTATION, *PAUSES}.intersection(after["metadata"]["annotations"])
    taints = [one["key"] for one in after["spec"]["taints"]]
    assert KEPT["key"] in taints and node_changes.TAINT not in taints


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"labels": {"a": "c"}}},
        {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
        {"metadata": {"annotations": {"c": None}}},
        {"metadata": {"annotations": {"wattwise.github.io/hold": "true"}}},
        {"metadata": {"finalizers": ["example.com/x"]}},
        {"spec": {"providerID": "kwok://other"}},
        {"spec": {"taints": []}},
        {"spec": {"taints": [{**KEPT, "effect": "NoExecute"}]}},
        {"spec": {"taints": [KEPT, {"key": "example.com/more", "effect": "NoSchedule"}]}},
        {"spec": {"taints": [KEPT, {**ASLEEP, "effect": "NoExecute"}]}},
        {"spec": {"taints": [KEPT, OUT]}},
        {"spec": {"taints": [KEPT, {**ASLEEP, "value": "draining"}, OUT]}},
    ],
)
def test_nothing_else_of_a_node_is_written(may: May, node: str, body: Json) -> None:
    assert not may(node, body)


def test_no_node_of_the_control_plane_is_put_to_sleep_and_each_may_be_woken(
    may: May, kube: Kube, node: str
) -> None:
    def take(path: str, *ours: Json, **spec: t.Any) -> bool:
        """Patch our taints; the control plane changes its own at any time."""
        others = [one for one in kube.get(node)["spec"]["taints"] if one["key"] != ASLEEP["key"]]
        return may(path, {"spec": {"taints": [*others, *ours], **spec}})

    dry = f"{node}?dryRun=All"
    wait_until(lambda: take(dry, ASLEEP, unschedulable=True), 20.0, "a node that may sleep")
    label = {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}
    kube.request("PATCH", node, label, MERGE_CONTENT_TYPE)
    assert not take(node, ASLEEP, unschedulable=True)
    # A label that came later must not keep the machine off.
    wait_until(lambda: write(kube, node, record(Phase.ASLEEP)), 20.0, "a sleeping machine")
    wait_until(lambda: take(node, {**ASLEEP, "value": "waking"}), 20.0, "a waking machine")
    wait_until(lambda: take(node, unschedulable=None), 20.0, "a machine that is awake")
