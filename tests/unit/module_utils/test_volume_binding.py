# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims of pods at binding, on an API over a real socket."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.bind.volume_binding import (
    VolumeBinding,
    VolumeRequest,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.volumes.objects import (
    read_claim,
)
from support.binding_api import Cluster, Json, node, pod
from support.carried_out_plans import bind
from support.scripted_api import Asked as Request
from support.scripted_api import Reply
from support.storage_api import SELECTED, Storage, ask_for_another_node, never
from support.volume_objects import (
    attachment,
    claim,
    csi_node,
    mounted,
    reachable,
    storage_class,
    volume,
)

WAIT = storage_class("wait")
LOCAL = storage_class("local", "kubernetes.io/no-provisioner")


def with_claims(name: str, *claims: str) -> Json:
    return pod(name, "100m", volumes=mounted(*claims))


def unbound(name: str, of_class: str = "wait", **options: t.Any) -> Json:
    return claim(name, of_class, namespace="shop", **options)


def cluster_of(storage: Storage, *objects: Json) -> Cluster:
    return Cluster(hook=storage.hook).add(*objects)


def run(cluster: Cluster, placements: dict[str, str], **options: t.Any) -> Json:
    given = [
        {"namespace": "shop", "pod": name, "node": where} for name, where in placements.items()
    ]
    # In these tests, a provisioner answers together with its request, or never.
    given_options = {"volume_timeout": 0.0, "placements": given, **options}
    with cluster.serve() as api:
        return bind({"host": api.url, **given_options}, Context())


def reasons(result: Json) -> dict[str, str]:
    return {entry["pod"]: entry["reason"] for entry in result["skipped"]}


def test_a_pod_is_bound_after_its_provisioner_was_told_the_node() -> None:
    storage = Storage().put(WAIT, unbound("data"), unbound("logs"))
    cluster = cluster_of(storage, node("n1"), with_claims("a", "data", "logs"), pod("b", "100m"))
    result = run(cluster, {"a": "n1", "b": "n1"})
    assert [entry["pod"] for entry in result["bound"]] == ["a", "b"]
    assert [storage.claim(name)["metadata"]["annotations"][SELECTED] for name in ("data", "logs")]
    assert cluster.place_of("a") == "n1"


def test_a_bound_claim_needs_no_write() -> None:
    storage = Storage().put(WAIT, unbound("data", volume="v"), volume("v"))
    cluster = cluster_of(storage, node("n1"), with_claims("a", "data"))
    assert len(run(cluster, {"a": "n1"})["bound"]) == 1
    assert storage.patched == []


def test_claims_share_out_the_volumes_that_are_there_the_smallest_that_fit() -> None:
    storage = Storage().put(
        LOCAL,
        unbound("small", "local", size="1Gi"),
        unbound("large", "local", size="4Gi"),
        volume("v1", "local", size="2Gi"),
        volume("v2", "local", size="5Gi"),
        volume("elsewhere", "local", nodeAffinity=reachable("kubernetes.io/hostname", "n2")),
    )
    cluster = cluster_of(storage, node("n1"), with_claims("a", "small"), with_claims("b", "large"))
    assert len(run(cluster, {"a": "n1", "b": "n1"})["bound"]) == 2
    assert storage.claim("small")["spec"]["volumeName"] == "v1"
    reference = storage.volume("v2")["spec"]["claimRef"]
    assert (reference["name"], reference["uid"]) == ("large", "uid-large")
    annotations = storage.volume("v2")["metadata"]["annotations"]
    assert annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}


@pytest.mark.parametrize("count", [2, 25])
def test_a_provisioner_that_never_answers_costs_one_wait_and_gets_the_claim_back(
    count: int,
) -> None:
    storage = Storage(never).put(WAIT)
    pods = [with_claims(f"p{index:02}", f"c{index}") for index in range(count)]
    storage.put(*(unbound(f"c{index}") for index in range(count)))
    cluster = cluster_of(storage, node("n1"), pod("plain", "100m"), *pods)
    cluster.nodes["n1"]["status"]["allocatable"]["pods"] = "40"
    placements = {each["metadata"]["name"]: "n1" for each in pods}
    result = run(cluster, {**placements, "plain": "n1"})
    assert [entry["pod"] for entry in result["bound"]] == ["plain"]
    assert reasons(result)["p01"] == (
        "binding volumes: provisioner disks.example.com made no volume for claim shop/c1 on node "
        "n1 in 0 s"
    )
    assert len(result["skipped"]) == count
    assert all(SELECTED not in storage.claim(f"c{i}")["metadata"]["annotations"] for i in range(2))
    [condition] = cluster.pods["shop", "p01"]["status"]["conditions"]
    assert condition["message"] == reasons(result)["p01"]


@pytest.mark.parametrize("seconds", [-1.0, 3601.0, float("nan")])
def test_the_wait_for_volumes_has_bounds(seconds: float) -> None:
    with pytest.raises(InvalidInput, match="volume_timeout: .* is not from 0 to 3600 seconds"):
        run(cluster_of(Storage()), {}, volume_timeout=seconds)


def test_a_provisioner_may_refuse_the_node() -> None:
    storage = Storage(ask_for_another_node).put(WAIT, unbound("data"))
    cluster = cluster_of(storage, node("n1"), with_claims("a", "data"))
    result = run(cluster, {"a": "n1"}, mark_unplaced=False)
    assert reasons(result) == {
        "a": "binding volumes: claim shop/data cannot have its volume on node n1"
    }
    assert "conditions" not in cluster.pods["shop", "a"]["status"]


def test_a_volume_that_was_reserved_in_vain_is_given_back() -> None:
    storage = Storage(binds=False).put(LOCAL, unbound("data", "local"), volume("v", "local"))
    cluster = cluster_of(storage, node("n1"), with_claims("a", "data"))
    assert reasons(run(cluster, {"a": "n1"})) == {
        "a": "binding volumes: claim shop/data was not bound to v in 0 s"
    }
    assert "claimRef" not in storage.volume("v")["spec"]


def test_only_one_pod_gets_an_exclusive_claim() -> None:
    only: Json = {"modes": ("ReadWriteOncePod",)}
    storage = Storage().put(WAIT, unbound("data", volume="v", **only), volume("v"))
    cluster = cluster_of(storage, node("n1"), node("n2"), *map(_of_data, "ab"))
    result = run(cluster, {"a": "n1", "b": "n1"})
    assert [entry["pod"] for entry in result["bound"]] == ["a"]
    used = "node n1 unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
    assert reasons(result)["b"] == f"{used} already in-use by another pod"
    assert list(reasons(run(cluster, {"b": "n2"}))) == ["b"]


def _of_data(name: str) -> Json:
    return with_claims(name, "data")


def test_a_node_attaches_no_more_volumes_than_its_driver_can() -> None:
    storage = Storage().put(WAIT, csi_node("n1", 2), volume("old"), attachment("n1", "old"))
    storage.put(*(unbound(name) for name in ("c1", "c2")))
    cluster = cluster_of(storage, node("n1"), with_claims("a", "c1"), with_claims("b", "c2"))
    result = run(cluster, {"a": "n1", "b": "n1"})
    assert [entry["pod"] for entry in result["bound"]] == ["a"]
    assert reasons(result)["b"] == "node n1 exceed max volume count"


def test_a_claim_that_changed_since_it_was_read_is_left_alone() -> None:
    storage = Storage().put(WAIT, unbound("data"))

    def hook(asked: Request, cluster: Cluster) -> Reply | None:
        if asked.method == "PATCH":
            storage.touch(storage.claim("data"))
        return storage.hook(asked, cluster)

    cluster = Cluster(hook=hook).add(node("n1"), with_claims("a", "data"))
    assert reasons(run(cluster, {"a": "n1"})) == {
        "a": "the claim shop/data or its volume changed meanwhile; the next run reads them again"
    }


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            unbound("data", volume="other"),
            "claim shop/data was bound to another volume meanwhile",
        ),
        (
            unbound("data", accessModes=5),
            "claim shop/data: spec.accessModes: 5 is not a list",
        ),
    ],
)
def test_a_claim_that_is_not_what_it_was_ends_the_wait_for_it(given: Json, text: str) -> None:
    storage = Storage().put(given)
    request = VolumeRequest(read_claim(unbound("data")), "n1", "v")
    with cluster_of(storage).serve() as api:
        found = VolumeBinding(Kube.connect({"host": api.url}), list, 0).wait({"a": [request]})
    assert found == {"a": f"binding volumes: {text}"}


def test_a_claim_that_is_gone_ends_the_wait_for_it() -> None:
    storage = Storage()
    request = VolumeRequest(read_claim(unbound("data")), "n1")
    with cluster_of(storage).serve() as api:
        binding = VolumeBinding(Kube.connect({"host": api.url}), lambda: [], 0)
        found = binding.wait({"a": [request]})
    assert found == {"a": "binding volumes: claim shop/data is gone"}


def test_check_mode_asks_for_no_volume() -> None:
    storage = Storage(never).put(WAIT, unbound("data"))
    cluster = cluster_of(storage, node("n1"), with_claims("a", "data"))
    placements = [{"namespace": "shop", "pod": "a", "node": "n1"}]
    with cluster.serve() as api:
        result = bind({"host": api.url, "placements": placements}, Context(check_mode=True))
    assert [entry["pod"] for entry in result["bound"]] == ["a"]
    assert storage.patched == []
