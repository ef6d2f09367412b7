# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator writes only its fields of volumes and claims: the policies on an API server."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from lab.process import wait_until
from support.admission_policies import operator_policies

Json = dict[str, t.Any]
May = Callable[..., bool]
BOUND_BY, NODE = "pv.kubernetes.io/bound-by-controller", "volume.kubernetes.io/selected-node"


@pytest.fixture
def may(kube: Kube, kubeconfig: str, namespace: str) -> Iterator[May]:
    """Whether the API accepts the account's patch of an object."""
    made = operator_policies("placement", namespace)
    apply({"kubeconfig": kubeconfig, "manifests": made})
    account = Kube.connect({"kubeconfig": kubeconfig, "impersonate_user": namespace})

    def allowed(path: str, body: Json) -> bool:
        try:
            account.request("PATCH", path, body, MERGE_CONTENT_TYPE)
        except ApiError as error:
            assert error.status == 403 and "the operator changes" in str(error), error
            return False
        return True

    yield allowed
    apply({"kubeconfig": kubeconfig, "manifests": made, "state": "absent"})


@pytest.fixture
def volume(kube: Kube, namespace: str) -> Iterator[str]:
    """An available volume."""
    spec: Json = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": namespace,
        "hostPath": {"path": "/srv"},
    }
    body = {"metadata": {"name": namespace, "labels": {"a": "b"}}, "spec": spec}
    kind = {"apiVersion": "v1", "kind": "PersistentVolume"}
    kube.request("POST", "/api/v1/persistentvolumes", {**kind, **body})
    path = f"/api/v1/persistentvolumes/{namespace}"
    wait_until(lambda: kube.get(path)["status"].get("phase") == "Available", 20, "the volume")
    yield path
    kube.request("DELETE", path)


@pytest.fixture
def claim(kube: Kube, namespace: str) -> str:
    """A claim that waits for a volume of its class, which nobody makes."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": f"{namespace}-none",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    kube.request("POST", claims, {**kind, "metadata": {"name": "data"}, "spec": spec})
    return f"{claims}/data"


def test_only_the_claim_of_an_unbound_volume_is_written(
    may: May, kube: Kube, volume: str, namespace: str
) -> None:
    greedy: Json = {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}
    wait_until(lambda: not may(f"{volume}?dryRun=All", greedy), 60.0, "the policies")
    for bad in (
        greedy,
        {"spec": {"mountOptions": ["suid"]}},
        {"spec": {"storageClassName": "other"}},
        {"metadata": {"labels": {"a": "c"}}},
        {"metadata": {"annotations": {"x": "y"}}},
        {"metadata": {"finalizers": ["example.com/x"]}},
    ):
        assert not may(volume, bad)
    reference = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": "x", "uid": "1"}
    own: Json = {"spec": {"claimRef": reference}, "metadata": {"annotations": {BOUND_BY: "yes"}}}
    assert may(f"{volume}?dryRun=All", own)
    # The claim does not exist, so the controller releases the volume, which has data of a claim.
    assert may(volume, own)
    wait_until(lambda: kube.get(volume)["status"]["phase"] == "Released", 20.0, "the release")
    assert not may(volume, {"spec": {"claimRef": None}})


def test_only_the_node_of_a_claim_is_written(may: May, claim: str) -> None:
    greedy = {"metadata": {"annotations": {"x": "y"}}}
    wait_until(lambda: not may(f"{claim}?dryRun=All", greedy), 60.0, "the policies")
    for bad in (
        {"spec": {"volumeName": "of-others"}},
        {"metadata": {"labels": {"a": "c"}}},
        {"metadata": {"finalizers": None}},
    ):
        assert not may(claim, bad)
    assert may(claim, {"metadata": {"annotations": {NODE: "node-1"}}})
    assert may(claim, {"metadata": {"annotations": {NODE: None}}})
