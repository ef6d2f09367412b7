# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods get devices of resource.k8s.io/v1, beside Kubernetes' own controller and scheduler."""

from __future__ import annotations

import concurrent.futures
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.devices import reconciliation
from ansible_collections.wattwise.kube.plugins.module_utils.devices.adapter.cluster import (
    UnitAllocation,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.dra.cluster import DraView
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Guard,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.lease import NAME, Lease, LeaseHeld
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot import snapshot
from lab.api import Api
from lab.process import wait_until
from support.carried_out_plans import bind
from support.dra_checker import claim_names
from support.dra_lab import DraLab
from support.lab import RunningLab
from support.playbook import run_playbook
from support.recording_proxy import Permission, recording_proxy

Json = dict[str, t.Any]
RBAC = Path(__file__).resolve().parents[2] / "docs" / "rbac" / "devices_reconciliation.yaml"


@pytest.fixture
def dra(kube: Kube, kubeconfig: str, namespace: str) -> Iterator[DraLab]:
    """Two nodes with two devices each."""
    found = DraLab(kube, kubeconfig, namespace)
    try:
        found.set_up([2, 2])
        yield found
    finally:
        found.tear_down()


@pytest.fixture
def before_writing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Performs another client's action once, between our decision and our first write."""

    def arrange(act: Callable[[], object]) -> None:
        give, acts = DraView.give, [act]

        def late(view: DraView, grants: t.Sequence[UnitAllocation]) -> list[UnitAllocation]:
            if acts:
                acts.pop()()
            return give(view, grants)

        monkeypatch.setattr(DraView, "give", late)

    return arrange


def actions(result: Json) -> list[tuple[str, str]]:
    return [(change["action"], change["kind"]) for change in result["changes"]]


def errors(dra: DraLab, result: Json) -> list[str]:
    """Names of this test's objects with an error; other tests contest devices on purpose."""
    return [one["name"] for one in result["errors"] if one["namespace"] == dra.namespace]


def unschedulable(dra: DraLab, pod: str) -> str:
    conditions = dra.kube.get(f"{dra.pods_path}/{pod}")["status"].get("conditions", [])
    [found] = [item for item in conditions if item["type"] == "PodScheduled"]
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    return str(found["message"])


def test_a_pod_with_a_claim_from_a_template_is_allocated_reserved_and_bound(dra: DraLab) -> None:
    dra.add_pod("a")
    first = dra.reconcile()
    assert actions(first) == [("allocated", "ResourceClaim"), ("bound", "Pod")]
    assert (first["changed"], errors(dra, first)) == (True, [])
    assert dra.node_of("a") == dra.node(1)
    assert dra.problems() == []
    wait_until(
        lambda: dra.kube.get(f"{dra.pods_path}/a")["status"]["phase"] == "Running", 30.0, "pod a"
    )
    before = dra.versions()
    second = dra.reconcile()
    assert (second["changed"], second["changes"], errors(dra, second)) == (False, [], [])
    assert dra.versions() == before


def test_check_mode_says_the_same_and_writes_nothing(dra: DraLab) -> None:
    dra.add_claim("own")
    dra.add_pod("a", "own")
    dra.add_claim("five", 5)
    dra.add_pod("b", "five")
    before = dra.versions()
    checked = dra.reconcile(check_mode=True)
    assert dra.versions() == before
    done = dra.reconcile()
    assert checked["changes"] == done["changes"]
    assert actions(done) == [
        ("allocated", "ResourceClaim"),
        ("bound", "Pod"),
        ("explained", "Pod"),
    ]


def test_pods_that_share_a_claim_are_on_one_node_whenever_they_come(dra: DraLab) -> None:
    dra.add_claim("shared")
    dra.add_claim("other")
    # Only the second node fits the first pod, so the others go there as well.
    dra.add_pod("a", "shared", nodeSelector={"kubernetes.io/hostname": dra.node(2)})
    dra.kube.request(
        "PATCH",
        f"/api/v1/nodes/{dra.node(2)}",
        {"metadata": {"labels": {"kubernetes.io/hostname": dra.node(2)}}},
        MERGE_CONTENT_TYPE,
    )
    dra.add_pod("b", "shared", "other")
    dra.reconcile()
    dra.add_pod("c", "shared")
    dra.reconcile()
    assert [dra.node_of(name) for name in "abc"] == [dra.node(2)] * 3
    assert len(dra.claim("shared")["status"]["reservedFor"]) == 3
    assert dra.problems() == []


def test_pods_for_which_there_is_nothing_are_told_why(dra: DraLab) -> None:
    for name in "abcde":
        dra.add_pod(name)
    dra.add_pod("lost", "missing")
    dra.add_pod("large", cpu="64")
    result = dra.reconcile()
    assert dra.bound() == ["a", "b", "c", "d"]
    [claim] = claim_names(dra.kube.get(f"{dra.pods_path}/e"))
    assert f"2 {claim}: no available devices" in unschedulable(dra, "e")
    assert "there is no ResourceClaim" in unschedulable(dra, "lost")
    assert " Insufficient cpu" in unschedulable(dra, "large")
    assert errors(dra, result) == ["lost"]
    before = dra.versions()
    assert dra.reconcile()["changed"] is False
    assert dra.versions() == before
    assert dra.problems() == []


def test_a_device_of_a_pod_that_is_gone_is_for_the_next(dra: DraLab) -> None:
    for name in "abcde":
        dra.add_pod(name)
    dra.reconcile()
    dra.remove_pod("b")
    dra.wait_for_free(3)
    assert actions(dra.reconcile()) == [("allocated", "ResourceClaim"), ("bound", "Pod")]
    assert dra.bound() == ["a", "c", "d", "e"]
    assert dra.problems() == []


def without_lease(
    kube: Kube, options: Json, context: Context, work: Callable[[Guard | None], Json]
) -> Json:
    return work(None)


@pytest.mark.parametrize("with_lease", [True, False])
def test_runs_at_once_never_give_a_device_twice(
    dra: DraLab, with_lease: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the Lease, a check after each write keeps them correct."""
    if not with_lease:
        monkeypatch.setattr(reconciliation, "alone", without_lease)
    for number in range(8):
        dra.add_pod(f"p{number}")
    seeds = range(3)
    with concurrent.futures.ThreadPoolExecutor(len(seeds)) as executor:
        list(executor.map(lambda seed: dra.reconcile(seed=seed), seeds))
    assert [problem for problem in dra.problems() if "bound" in problem] == []
    dra.reconcile()
    assert dra.problems() == []
    assert len(dra.bound()) == 4


def test_a_second_run_is_refused_while_another_holds_the_lease(dra: DraLab) -> None:
    dra.add_claim("own")
    dra.add_pod("a", "own")
    before = dra.versions()
    with (
        Lease(dra.kube, dra.namespace, NAME, 1.0) as lease,
        pytest.raises(LeaseHeld, match=f"{lease.holder} holds the Lease"),
    ):
        lease.acquire()
        dra.reconcile(lease_timeout=0.2)
    assert dra.versions() == before
    assert dra.reconcile(lease_timeout=0.2)["changed"]


def test_a_device_that_somebody_else_took_meanwhile_is_given_back(
    dra: DraLab, before_writing: Callable[[Callable[[], object]], None]
) -> None:
    """As kube-scheduler would, which does not know our Lease."""
    dra.add_claim("theirs")
    dra.add_pod("a")
    before_writing(lambda: dra.allocate("theirs", 1, "d0"))
    result = dra.reconcile()
    assert actions(result) == [
        ("allocated", "ResourceClaim"),
        ("released", "ResourceClaim"),
        ("allocated", "ResourceClaim"),
        ("bound", "Pod"),
    ]
    assert dra.devices("theirs") == [(dra.node(1), "d0")]
    assert dra.problems() == []


def test_a_claim_that_somebody_else_allocated_meanwhile_pins_its_pod(
    dra: DraLab, before_writing: Callable[[Callable[[], object]], None]
) -> None:
    dra.add_claim("own")
    dra.add_pod("a", "own")
    before_writing(lambda: dra.allocate("own", 2, "d1"))
    dra.reconcile()
    assert dra.devices("own") == [(dra.node(2), "d1")]
    assert dra.node_of("a") == dra.node(2)
    assert dra.problems() == []


def test_an_interrupted_run_is_finished_by_the_next(dra: DraLab) -> None:
    """One of two pods with reservations but no binding no longer has room on its node."""
    for name, cpu in (("a", "100m"), ("b", "3")):
        dra.add_claim(name)
        pod = dra.add_pod(name, name, cpu=cpu)
        consumer = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
        dra.allocate(name, 1, f"d{'ab'.index(name)}", reservedFor=[consumer])
    dra.fill(1, cpu="3")
    dra.reconcile()
    assert (dra.node_of("a"), dra.node_of("b")) == (dra.node(1), dra.node(2))
    assert dra.problems() == []


def test_pods_that_fit_one_by_one_but_not_together_are_spread(dra: DraLab) -> None:
    dra.add_pod("a", cpu="3")
    dra.add_pod("b", cpu="3")
    dra.reconcile()
    assert sorted([str(dra.node_of("a")), str(dra.node_of("b"))]) == [dra.node(1), dra.node(2)]
    assert dra.problems() == []


def test_a_pod_with_demands_that_nobody_here_keeps_waits(dra: DraLab) -> None:
    spreading = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
    }
    dra.add_pod("a", topologySpreadConstraints=[spreading])
    dra.reconcile()
    assert unschedulable(dra, "a") == (
        "unsupported: spec.topologySpreadConstraints with DoNotSchedule"
    )


def test_it_works_with_exactly_the_permissions_that_the_documentation_gives(
    dra: DraLab, lab: RunningLab
) -> None:
    for name in "abcde":
        dra.add_pod(name)
    granted = dra.grant(RBAC)
    with Api(lab.state.kubeconfig) as api:
        server = api.server
    with recording_proxy(server, str(lab.state.ca_certificate)) as proxy:
        result = dra.reconcile(kubeconfig=None, host=proxy.server, api_key=dra.token())
        dra.reconcile(kubeconfig=None, host=proxy.server, api_key=dra.token())
        assert errors(dra, result) == []
        assert proxy.refused == []
        unused = {right for right in granted if right.group != "devmgmtproto.k8s.io"} - proxy.used
        assert unused == {
            # Requested by the API server itself, from Kubernetes 1.36 on.
            Permission("resource.k8s.io", "resourceclaims/binding", "patch"),
            # For pods with the prototype's gate.
            Permission("", "pods", "patch"),
        }
    assert len(dra.bound()) == 4


def test_the_role_gives_devices_and_shows_to_whom(dra: DraLab, tmp_path: Path) -> None:
    dra.add_pod("a")
    options = {
        "devices_reconcile": True,
        "devices_scheduler_name": dra.namespace,
        "devices_lease_namespace": dra.namespace,
    }
    play = {
        "hosts": "c",
        "connection": "local",
        "gather_facts": False,
        "module_defaults": {"group/wattwise.kube.wattwise": {"kubeconfig": dra.kubeconfig}},
        "roles": [{"role": "wattwise.kube.devices", "vars": options}],
    }
    run = run_playbook([play], tmp_path, "-i", "c,", as_json=True)
    assert run.returncode == 0, run.output
    [shown] = run.results("Show the allocated devices, and pods without")
    assert f"bound Pod {dra.namespace}/a: on node {dra.node(1)}" in shown["msg"]
    again = run_playbook([play], tmp_path, "-i", "c,", as_json=True)
    assert again.stats()["c"]["changed"] == 0
    assert dra.problems() == []


def test_node_and_devices_are_those_of_one_plan_with_the_fewest_watts(
    dra: DraLab, tmp_path: Path
) -> None:
    for name in "ab":
        dra.add_pod(name)
    wait_until(lambda: len(dra.kube.list(dra.claims_path)) == 2, 30.0, "claims from the template")
    taken = snapshot.take(
        {
            "kubeconfig": dra.kubeconfig,
            "include": ["pods", "device_objects"],
            "selectors": {"nodes": f"test={dra.namespace}"},
        }
    )["snapshot"]
    fleet = {
        "nodes": taken["nodes"],
        "pods": [pod for pod in taken["pods"] if pod["metadata"]["namespace"] == dra.namespace],
        "device_objects": of_test(dra, taken["device_objects"]),
        "curves": {
            dra.node(1): {"cpu": [0, 4], "watts": [50, 250]},
            dra.node(2): {"cpu": [0, 4], "watts": [50, 90]},
        },
    }
    source, plan = tmp_path / "fleet.yml", str(tmp_path / "plan.json")
    source.write_text(yaml.safe_dump(fleet))
    place({"src": [str(source)], "path": plan})
    unbound = bind({"kubeconfig": dra.kubeconfig, "plan": plan})
    assert unbound["bound"] == []
    assert {one["pod"]: one["node"] for one in unbound["skipped"]} == dict.fromkeys(
        "ab", dra.node(2)
    )
    reasons = [one["reason"] for one in unbound["skipped"]]
    assert all("device_reconciliation allocates them" in reason for reason in reasons)
    given = dra.reconcile(plan=plan)
    assert errors(dra, given) == []
    assert [dra.node_of(name) for name in "ab"] == [dra.node(2)] * 2
    assert dra.problems() == []


def test_a_plan_whose_devices_are_gone_counts_for_the_pods_that_have_theirs(
    dra: DraLab, tmp_path: Path
) -> None:
    placements = []
    for name in "abc":
        uid = dra.add_pod(name)["metadata"]["uid"]
        named = {"namespace": dra.namespace, "pod": name, "node": dra.node(2), "uid": uid}
        placements.append(named)
    dra.add_claim("five", 5)
    uid = dra.add_pod("much", "five")["metadata"]["uid"]
    waiting = {"namespace": dra.namespace, "pod": "much", "uid": uid, "reasons": {}}
    watts = {"before": 0, "after": 0, "lower_bound": 0}
    unplaced = [{**waiting, "message": "as the plan says"}]
    plan = tmp_path / "plan.json"
    found = {"placements": placements, "watts": watts, "unplaced": unplaced}
    documents.write(str(plan), "plan", found)
    given = dra.reconcile(plan=str(plan))
    assert sorted(str(dra.node_of(name)) for name in "abc") == [
        dra.node(1),
        dra.node(2),
        dra.node(2),
    ]
    # Step bind writes the same reason; another one would alternate with the plan's.
    assert unschedulable(dra, "much") == "as the plan says"
    assert ("explained", "Pod") in actions(given)
    assert dra.reconcile(plan=str(plan))["changes"] == []
    assert dra.problems() == []


def of_test(dra: DraLab, objects: list[Json]) -> list[Json]:
    """The slices, class, claims and template of this test only."""
    return [
        one
        for one in objects
        if dra.namespace in (one["metadata"].get("namespace"), one["metadata"]["name"])
        or one["spec"].get("driver") == dra.driver
    ]


def test_pods_of_the_default_scheduler_are_left_to_it(dra: DraLab) -> None:
    dra.add_pod("theirs", schedulerName="default-scheduler")
    wait_until(lambda: dra.node_of("theirs") is not None, 30.0, "kube-scheduler")
    for name in "abc":
        dra.add_pod(name)
    dra.add_pod("gated", schedulingGates=[{"name": "test.example/wait"}])
    dra.reconcile()
    assert dra.bound() == ["a", "b", "c", "theirs"]
    assert dra.problems() == []
