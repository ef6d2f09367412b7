# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The View of resource.k8s.io in cases that the lab's real API server cannot produce."""

from __future__ import annotations

import copy
import datetime
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.devices import reconciliation
from ansible_collections.wattwise.kube.plugins.module_utils.devices.adapter.cluster import (
    ClaimResult,
    Pods,
    UnitAllocation,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.adapter.pod_nodes import Room
from ansible_collections.wattwise.kube.plugins.module_utils.devices.dra import (
    cluster as dra_cluster,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.dra.cluster import DraView
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.scope import Scope
from support.device_objects import (
    dra_class,
    dra_device,
    exactly,
    manifest,
    resource_claim,
    resource_slice,
)
from support.dra_api import DraApi
from support.scripted_api import Asked, Reply, ScriptedApi, status_reply

Json = dict[str, t.Any]
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
CONDITIONS = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {}},
    "spec": {},
    "status": {
        "allocatable": {"cpu": "4", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


@pytest.fixture
def api() -> DraApi:
    return DraApi().add(
        copy.deepcopy(NODE), resource_slice("n1", [dra_device("d0"), dra_device("d1")])
    )


@pytest.fixture
def server(api: DraApi) -> Iterator[ScriptedApi]:
    with api.serve() as serving:
        yield serving


def pod(name: str, *claims: str, template: str | None = None) -> Json:
    named = [{"name": f"c{n}", "resourceClaimName": claim} for n, claim in enumerate(claims)]
    if template:
        named = [{"name": "c", "resourceClaimTemplateName": template}]
    spec = {"schedulerName": "ours", "resourceClaims": named, "containers": [{"name": "main"}]}
    found = manifest("v1", "Pod", name, spec, namespace="default")
    found["metadata"] |= {"uid": f"uid-of-{name}", "resourceVersion": "1"}
    return found


def claim(name: str) -> Json:
    return resource_claim(name, exactly("r", "gpu"))


def result(device: str, **more: t.Any) -> Json:
    return {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": device, **more}


def allocation(device: str, **more: t.Any) -> Json:
    return {"devices": {"results": [result(device, **more)]}}


def consumers(*names: str) -> list[Json]:
    return [{"resource": "pods", "name": name, "uid": f"uid-of-{name}"} for name in names]


def settled(api: DraApi, server: ScriptedApi, *pods: Json, scope: Scope | None = None) -> DraView:
    """A View of these pods, which are also objects of the API."""
    api.add(*pods)
    by_key = {("default", one["metadata"]["name"]): one for one in pods}
    kube = Kube.connect({"host": server.url})
    view = DraView(kube, Context(now=lambda: NOON))
    read = Pods(by_key, "ours", "gate", scope)
    view.settle(read, lambda: Room(kube.list("/api/v1/nodes"), read))
    return view


def grant(pods: str, **devices: t.Any) -> UnitAllocation:
    """A grant of n1 to pods by their letters; a device for each claim."""
    claims = tuple(
        ClaimResult(
            "default", name, f"uid-of-{name}", got if isinstance(got, dict) else allocation(got)
        )
        for name, got in devices.items()
    )
    return UnitAllocation(tuple(("default", name) for name in pods), "n1", claims)


def details(view: DraView) -> list[str]:
    return [problem.reason for problem in view.report.problems]


def test_pods_and_nodes_of_other_runs_are_left_alone(api: DraApi, server: ScriptedApi) -> None:
    for name in ("one", "two"):
        held = claim(name)
        held["status"] = {"allocation": allocation("d0" if name == "one" else "d1")}
        api.add(held)
    pods = [pod("a", "one"), pod("b", "two")]
    mine = Scope(frozenset({"n1"}), frozenset({("default", "a")}))
    view = settled(api, server, *pods, scope=mine)
    assert view.placed() == {("default", "a"): "n1"} and details(view) == []
    elsewhere = Scope(frozenset({"n2"}), frozenset({("default", "b")}))
    assert settled(api, server, *pods, scope=elsewhere).placed() == {}


def test_a_pod_is_bound_only_when_its_device_is_ready(api: DraApi, server: ScriptedApi) -> None:
    api.add(claim("one"))
    view = settled(api, server, pod("a", "one"))
    assert view.give([grant("a", one=allocation("d0", **CONDITIONS))]) == []
    assert details(view)[0].endswith("waits for its condition attached")
    assert api.claim("one")["status"]["reservedFor"] == consumers("a")

    waiting = settled(api, server, pod("a", "one"))
    assert waiting.placed() == {} and len(details(waiting)) == 1
    waiting.explain({})
    assert not [asked for asked in server.asked if asked.method == "POST"]

    condition = {"type": "attached", "status": "True"}
    api.claim("one")["status"]["devices"] = [{**result("d0"), "conditions": [condition]}]
    assert settled(api, server, pod("a", "one")).placed() == {("default", "a"): "n1"}


def test_a_device_that_failed_is_given_back(api: DraApi, server: ScriptedApi) -> None:
    held = claim("one")
    condition = {"type": "broken", "status": "True"}
    held["status"] = {
        "allocation": allocation("d0", **CONDITIONS),
        "reservedFor": consumers("a"),
        "devices": [{**result("d0"), "conditions": [condition]}],
    }
    api.add(held)
    view = settled(api, server, pod("a", "one"))
    assert api.claim("one")["status"] == {}
    assert [change.action for change in view.report.changes] == ["released"]
    assert details(view)[0].endswith("has the condition broken")
    assert view.placed() == {}


def test_devices_by_an_extended_resource_are_refused_by_name(
    api: DraApi, server: ScriptedApi
) -> None:
    api.add(claim("one"), dra_class("gpu", extendedResourceName="example.com/gpu"))
    asking = pod("a", "one")
    asking["spec"]["containers"][0]["resources"] = {"requests": {"example.com/gpu": "1"}}
    assert details(settled(api, server, asking)) == [
        "unsupported: the extended resource example.com/gpu, which DeviceClass gpu stands for"
    ]
    api.objects["Node", "n1"]["status"]["allocatable"]["example.com/gpu"] = "1"
    assert details(settled(api, server, asking)) == []


def test_a_run_lists_nodes_and_pods_once(
    api: DraApi, server: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for several pods with extended resources, and one whose claim has its device."""
    monkeypatch.setattr(reconciliation, "alone", lambda _kube, _options, _context, work: work(None))
    api.hook = lambda asked: (
        None if asked.method == "GET" or "/resourceclaims/" in asked.path else Reply({})
    )
    held = claim("held")
    held["status"] = {"allocation": allocation("d0")}
    api.add(held, claim("one"), dra_class("gpu", extendedResourceName="example.com/gpu"))
    asking = [pod(name, "one") for name in "abc"]
    for each in asking:
        each["spec"]["containers"][0]["resources"] = {"requests": {"example.com/gpu": "1"}}
    api.add(*asking, pod("d", "held"))
    options = reconciliation.SPEC.complete({"scheduler_name": "ours", "strategy": "first_fit"})
    result = reconciliation.give_devices(
        Kube.connect({"host": server.url}), None, options, Context(now=lambda: NOON)
    ).as_result()
    assert [one["name"] for one in result["changes"] if one["action"] == "bound"] == ["d"]
    refused = [one["name"] for one in result["errors"] if "extended resource" in one["detail"]]
    assert refused == ["a", "b", "c"]
    paths = [asked.path for asked in server.asked]
    assert len([path for path in paths if path.startswith("/api/v1/nodes?")]) == 1
    # Binding reads the pods of one node again.
    assert (
        len([path for path in paths if path.startswith("/api/v1/pods?fieldSelector=status")]) == 1
    )


def test_a_claim_has_256_users_at_the_most(api: DraApi, server: ScriptedApi) -> None:
    shared = claim("shared")
    others = [f"p{number}" for number in range(255)]
    shared["status"] = {"allocation": allocation("d0"), "reservedFor": consumers(*others)}
    api.add(shared, claim("one"), claim("two"))
    view = settled(api, server, pod("a", "shared", "one"), pod("b", "shared", "two"))
    [given] = view.give([grant("ab", one="d1", two="d1")])
    assert given.pods == (("default", "a"),)
    assert details(view) == ["a claim of the pod is reserved for 256 pods already"]
    assert "status" not in api.claim("two")


def test_a_claim_that_nobody_makes_is_waited_for_and_told(
    api: DraApi, server: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dra_cluster, "_PATIENCE_SECONDS", 0.2)
    api.add(manifest("resource.k8s.io/v1", "ResourceClaimTemplate", "t", {}, namespace="default"))
    view = settled(api, server, pod("a", template="t"))
    reads = [asked for asked in server.asked if "/resourceclaims?" in asked.path]
    assert len(reads) > 1
    assert details(view) == ["the claim c has not been made from its template yet"]
    view.explain({})
    assert not [asked for asked in server.asked if asked.method == "POST"]


def test_what_the_api_server_finds_invalid_stops_no_others(
    api: DraApi, server: ScriptedApi
) -> None:
    def refuse(asked: Asked) -> Reply | None:
        invalid = asked.method == "PATCH" and "/bad/status" in asked.path
        return status_reply(422, "status.allocation: Invalid value") if invalid else None

    api.hook = refuse
    api.add(claim("bad"), claim("fine"))
    view = settled(api, server, pod("a", "bad"), pod("b", "fine"))
    given = view.give([grant("a", bad="d0"), grant("b", fine="d1")])
    assert given == [grant("b", fine="d1")]
    assert "status.allocation: Invalid value" in details(view)[0]
    assert not view.report.contended


def test_all_claims_of_a_pod_are_given_or_none(api: DraApi, server: ScriptedApi) -> None:
    """Another client writes the second of two meanwhile."""
    api.add(claim("one"), claim("two"))
    view = settled(api, server, pod("a", "one", "two"))
    api.claim("two")["metadata"]["resourceVersion"] = "9"
    assert view.give([grant("a", one="d0", two="d1")]) == []
    assert "allocation" not in api.claim("one")["status"]
    assert view.report.contended == {"ResourceClaim default/two"}


def test_a_contested_claim_that_others_use_is_not_taken_from_them(
    api: DraApi, server: ScriptedApi
) -> None:
    for name in ("one", "other"):
        held = claim(name)
        held["status"] = {"allocation": allocation("d0"), "reservedFor": consumers("running")}
        api.add(held)
    view = settled(api, server, pod("a", "one"))
    assert sorted(details(view)) == [
        "gpu.example.com/n1/d0 also belongs to default/one",
        "gpu.example.com/n1/d0 also belongs to default/other",
    ]
    assert [problem.kind for problem in view.report.problems] == ["ResourceClaim", "Pod"]
    assert api.written == []


def test_devices_of_some_claims_are_given_back_where_the_others_find_none(
    api: DraApi, server: ScriptedApi
) -> None:
    held = claim("one")
    held["status"] = {"allocation": allocation("d0"), "reservedFor": consumers("a")}
    api.add(held, claim("two"))
    view = settled(api, server, pod("a", "one", "two"))
    assert view.placed() == {}
    view.explain({("default", "a"): "0/1 nodes are available: 1 two: no available devices."})
    assert api.claim("one")["status"] == {}
    assert view.report.contended == {"Pod default/a"}
