# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Features behind present or former feature gates of Kubernetes, on an API server that enables
them.

Each write passes the API server's own validation; the resulting allocations are judged by the
checker, which is independent of the library.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from lab.releases import asked, release_of
from support.cluster_nodes import remove
from support.device_objects import dra_device, exactly, manifest
from support.dra_lab import DraLab
from support.lab import RunningLab

Json = dict[str, t.Any]
CONDITIONS = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}


@pytest.fixture
def dra(kube: Kube, lab: RunningLab, namespace: str) -> Iterator[DraLab]:
    """Two nodes without devices."""
    if lab.settings.existing_cluster:
        pytest.skip("the feature gates of an existing cluster (LAB_KUBECONFIG) are not ours")
    found = DraLab(kube, lab.kubeconfig, namespace)
    try:
        found.set_up([0, 0])
        yield found
    finally:
        found.tear_down()


def details(dra: DraLab, result: Json) -> list[str]:
    """Errors that concern this test's objects."""
    return [one["detail"] for one in result["errors"] if one["namespace"] == dra.namespace]


def partition(name: str, memory: str) -> Json:
    counters = {"memory": {"value": memory}}
    return dra_device(name, consumesCounters=[{"counterSet": "gpu", "counters": counters}])


def test_partitions_of_a_device_never_take_more_than_it_has(dra: DraLab) -> None:
    shared = [{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}]
    devices = [partition("whole", "40Gi"), partition("half-0", "20Gi"), partition("half-1", "20Gi")]
    dra.publish(1, devices, counters=shared)
    for name in "abc":
        dra.add_claim(name)
        dra.add_pod(name, name)
    dra.reconcile()
    bound = dra.bound()
    assert len(bound) == 2
    held = [device for name in bound for _pool, device in dra.devices(name)]
    assert sorted(held) == ["half-0", "half-1"]
    assert dra.problems() == []
    assert dra.reconcile()["changes"] == []

    for name in bound:
        dra.remove_pod(name)
    dra.wait_for_free(0)
    dra.reconcile()
    assert len(dra.bound()) == 1
    assert dra.problems() == []


def test_a_shared_device_is_given_until_its_capacity_is_used_up(dra: DraLab) -> None:
    policy = {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}}
    memory = {"memory": {"value": "40Gi", "requestPolicy": policy}}
    dra.publish(1, [dra_device("gpu", allowMultipleAllocations=True, capacity=memory)])
    for name, wanted in (("a", "15Gi"), ("b", "10Gi"), ("c", "20Gi")):
        dra.add_claim(name, capacity={"requests": {"memory": wanted}})
        dra.add_pod(name, name)
    dra.reconcile()
    # 15Gi are rounded up to 20Gi; then either 10Gi or 20Gi fit beside them.
    assert len(dra.bound()) == 2
    shares = [
        one
        for name in dra.bound()
        for one in dra.claim(name)["status"]["allocation"]["devices"]["results"]
    ]
    assert {one["device"] for one in shares} == {"gpu"}
    assert len({one["shareID"] for one in shares}) == 2
    assert dra.problems() == []
    assert dra.reconcile()["changes"] == []


def test_a_pod_is_bound_only_when_its_device_is_ready(dra: DraLab) -> None:
    dra.publish(1, [dra_device("fabric", **CONDITIONS)])
    dra.add_claim("one")
    dra.add_pod("a", "one")
    waiting = dra.reconcile()
    assert details(dra, waiting)[0].endswith("waits for its condition attached")
    assert dra.devices("one") == [(dra.node(1), "fabric")]
    assert dra.node_of("a") is None
    assert dra.reconcile()["changes"] == []
    dra.report("one", "attached")
    given = dra.reconcile()
    assert [change["action"] for change in given["changes"]] == ["bound"]
    assert dra.node_of("a") == dra.node(1)
    assert dra.problems() == []


def test_a_device_that_failed_is_given_back(dra: DraLab) -> None:
    dra.publish(1, [dra_device("fabric", **CONDITIONS)])
    dra.add_claim("one")
    dra.add_pod("a", "one")
    dra.reconcile()
    dra.report("one", "broken")
    result = dra.reconcile()
    assert next(change["action"] for change in result["changes"]) == "released"
    assert any(detail.endswith("has the condition broken") for detail in details(dra, result))
    assert dra.node_of("a") is None
    # The driver's status of the device is gone with it, so another attempt starts from scratch.
    assert "broken" not in str(dra.claim("one")["status"].get("devices"))
    assert dra.problems() == []


def test_a_tainted_device_is_for_those_that_tolerate_it(dra: DraLab) -> None:
    """By the driver's taint on one node, and by an administrator's rule on the other."""
    taint = {"key": "broken", "effect": "NoSchedule"}
    dra.publish(1, [dra_device("gpu", taints=[taint])])
    dra.publish(2, [dra_device("gpu")])
    selector = {"driver": dra.driver, "pool": dra.node(2)}
    spec = {"deviceSelector": selector, "taint": {"key": "repair", "effect": "NoSchedule"}}
    version, rules = dra.taint_rules
    rule = manifest(version, "DeviceTaintRule", dra.namespace, spec)
    dra.kube.request("POST", rules, rule)
    try:
        dra.add_claim("strict")
        dra.add_pod("strict", "strict")
        tolerations = [{"key": "repair", "operator": "Exists"}]
        dra.add_claim("tolerant", tolerations=tolerations)
        dra.add_pod("tolerant", "tolerant")
        dra.reconcile()
        assert dra.bound() == ["tolerant"]
        assert dra.devices("tolerant") == [(dra.node(2), "gpu")]
        assert dra.problems() == []
    finally:
        remove(dra.kube, f"{rules}/{dra.namespace}")


def test_the_first_alternative_that_there_is_counts(dra: DraLab) -> None:
    dra.publish(1, [dra_device("small", attributes={"size": 1})])
    expression = f"device.attributes['{dra.driver}'].size > 1"
    alternatives = [
        exactly("large", dra.namespace, expression)["exactly"] | {"name": "large"},
        exactly("any", dra.namespace)["exactly"] | {"name": "any"},
    ]
    request = {"name": "r", "firstAvailable": alternatives}
    claim = manifest(
        "resource.k8s.io/v1", "ResourceClaim", "one", {"devices": {"requests": [request]}}
    )
    dra.kube.request("POST", dra.claims_path, claim)
    dra.add_pod("a", "one")
    dra.reconcile()
    [result] = dra.claim("one")["status"]["allocation"]["devices"]["results"]
    assert (result["request"], result["device"]) == ("r/any", "small")
    assert dra.node_of("a") == dra.node(1)
    assert dra.problems() == []


def test_a_claim_with_admin_access_takes_nothing_from_others(dra: DraLab) -> None:
    dra.publish(1, [dra_device("gpu")])
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    dra.kube.request("PATCH", f"/api/v1/namespaces/{dra.namespace}", label, MERGE_CONTENT_TYPE)
    dra.add_claim("looks", adminAccess=True)
    dra.add_pod("looks", "looks")
    dra.add_claim("uses")
    dra.add_pod("uses", "uses")
    dra.reconcile()
    assert dra.bound() == ["looks", "uses"]
    assert dra.devices("looks") == dra.devices("uses") == [(dra.node(1), "gpu")]
    assert dra.problems() == []


def test_a_device_is_chosen_by_one_of_the_values_of_an_attribute(dra: DraLab) -> None:
    if "DRAListTypeAttributes" not in release_of(asked()).features:
        pytest.skip("attributes that are lists came with Kubernetes 1.36")
    dra.publish(1, [dra_device("plain", attributes={"model": {"string": "a"}})])
    dra.publish(2, [dra_device("dual", attributes={"model": {"strings": ["b", "c"]}})])
    attribute = f"device.attributes['{dra.driver}'].model"
    for name, model in (("first", "a"), ("second", "c"), ("third", "d")):
        selector = {"cel": {"expression": f"{attribute}.includes('{model}')"}}
        dra.add_claim(name, selectors=[selector])
        dra.add_pod(name, name)
    dra.reconcile()
    assert dra.bound() == ["first", "second"]
    assert dra.devices("first") == [(dra.node(1), "plain")]
    assert dra.devices("second") == [(dra.node(2), "dual")]
    assert dra.problems() == []
