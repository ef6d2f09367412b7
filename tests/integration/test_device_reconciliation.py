# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""device_reconciliation for the prototype's claims on a real API server with nodes of its own."""

from __future__ import annotations

import concurrent.futures
import threading
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context, utc_now
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time
from ansible_collections.wattwise.kube.plugins.module_utils.devices import reconciliation
from ansible_collections.wattwise.kube.plugins.module_utils.devices.k8srm.store import Store
from ansible_collections.wattwise.kube.plugins.module_utils.devices.reconciliation import reconcile
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline import stored_plan
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.reconciliation import (
    reconcile_fleet,
)
from lab.api import Api
from lab.process import wait_until
from support.device_cluster import DeviceCluster, problems
from support.device_objects import attributes
from support.lab import RunningLab
from support.recording_proxy import Permission, recording_proxy

ROOT = Path(__file__).resolve().parents[2]
RBAC = ROOT / "docs" / "rbac" / "devices_reconciliation.yaml"
Json = dict[str, t.Any]


class Killed(BaseException):
    """A run ends here, without any clean-up."""


@pytest.fixture(scope="module")
def definitions(kubeconfig: str) -> None:
    """The CRDs, established; they belong to the whole lab and stay."""
    folder = ROOT / "roles" / "crds" / "files"
    files = [str(path) for path in sorted(folder.glob("devmgmtproto.k8s.io_*.yaml"))]
    apply({"kubeconfig": kubeconfig, "src": files, "wait": True})


@pytest.fixture
def cluster(
    definitions: None, kube: Kube, kubeconfig: str, namespace: str
) -> Iterator[DeviceCluster]:
    made = DeviceCluster(kube, kubeconfig, namespace)
    yield made
    made.clean()


def actions(cluster: DeviceCluster, result: Json) -> set[tuple[str, str]]:
    return {(one["action"], one["name"]) for one in cluster.mine(result, "changes")}


def test_pods_get_devices_and_their_node_and_a_second_run_writes_nothing(
    cluster: DeviceCluster,
) -> None:
    node = cluster.node("n")
    pool = cluster.pool("gpus", node, devices=[{"name": "a"}, {"name": "b"}])
    cluster.claim("first")
    cluster.claim("second")
    cluster.pod("bound", ["first"])
    cluster.pod("gated", ["second"], gated=True)
    before = cluster.versions()
    checked = reconcile(cluster.options(), Context(check_mode=True))
    assert cluster.versions() == before
    result = reconcile(cluster.options())
    expected = {
        ("allocated", "first"),
        ("allocated", "second"),
        ("bound", "bound"),
        ("pinned", "gated"),
    }
    assert actions(cluster, checked) == actions(cluster, result) == expected
    assert checked["diff"] == result["diff"]
    assert cluster.node_of("bound") == node
    wait_until(lambda: cluster.node_of("gated") == node, 30.0, "kube-scheduler to bind the pod")
    status = cluster.status_of("first")
    assert (status["podNames"], status["nodeName"]) == (["bound"], node)
    assert cluster.allocated("first")["status"] == "True"
    assert cluster.pools()[pool]["status"]["availableDevices"] == 0
    before = cluster.versions()
    again = reconcile(cluster.options())
    assert cluster.versions() == before and not cluster.mine(again, "changes")
    assert not list(problems(cluster))


def test_a_stored_plan_gives_devices_to_its_pods_and_to_no_others(
    cluster: DeviceCluster, tmp_path: Path
) -> None:
    """The approved plan has one of two waiting pods."""
    node = cluster.node("n")
    cluster.pool("gpus", node, count=2)
    for name in ("approved", "later"):
        cluster.pod(name, [cluster.claim(name)])
    placement = {
        "namespace": cluster.namespace,
        "pod": "approved",
        "uid": cluster.read_pod("approved")["metadata"]["uid"],
        "node": node,
    }
    head = {"document": "wattwise.kube/plan/v1", "time": format_time(utc_now())}
    plan: Json = {**head, "placements": [placement], "unplaced": []}
    plan["watts"] = dict.fromkeys(("before", "after", "lower_bound"), 0.0)
    options = cluster.options()
    stored = stored_plan.store(
        lambda: cluster.kube,
        {"path": str(tmp_path / "plan.gz")},
        stored_plan.PLACEMENT,
        {"plan": plan},
        check_mode=False,
    )
    result = reconcile_fleet(
        {
            **{name: options[name] for name in ("kubeconfig", "lease_namespace")},
            "steps": ["restore", "bind", "devices"],
            "run_dir": str(tmp_path / "run"),
            "restore": {"path": stored.path, "sha256": stored.sha256},
            "devices": {name: options[name] for name in ("api_group", "gate", "scheduler_name")},
        }
    )
    assert result["devices"]["errors"] == []
    assert (cluster.node_of("approved"), cluster.node_of("later")) == (node, None)
    assert "allocations" not in cluster.status_of("later")


def test_devices_are_free_when_the_last_pod_has_ended(cluster: DeviceCluster) -> None:
    pool = cluster.pool("gpus", cluster.node("n"), count=1)
    cluster.claim("shared")
    for name in ("a", "b"):
        cluster.pod(name, ["shared"])
    cluster.pod("c", [cluster.claim("other")])
    reconcile(cluster.options())
    assert cluster.status_of("shared")["podNames"] == ["a", "b"]
    assert cluster.allocated("other")["reason"] == "Unsatisfiable"
    cluster.delete("pods", "a")
    reconcile(cluster.options())
    assert cluster.status_of("shared")["podNames"] == ["b"]
    assert cluster.node_of("c") is None
    cluster.finish("b")
    result = reconcile(cluster.options())
    assert ("released", "shared") in actions(cluster, result)
    assert "allocations" not in cluster.status_of("shared")
    assert cluster.status_of("other")["podNames"] == ["c"]
    assert cluster.pools()[pool]["status"]["availableDevices"] == 0
    cluster.delete("pods", "c")
    reconcile(cluster.options())
    assert cluster.pools()[pool]["status"]["availableDevices"] == 1
    assert not list(problems(cluster))


@pytest.mark.parametrize("with_lease", [True, False])
def test_runs_at_once_never_give_a_device_twice(
    cluster: DeviceCluster, with_lease: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pools of three models, and half as many devices as claims.

    Without the Lease, resource versions alone keep the runs correct; all of them have read before
    one writes.
    """
    all_have_read = threading.Barrier(4)

    def without_lease(*arguments: t.Any) -> Json:
        has_met: list[bool] = []

        def meet() -> float:
            if not has_met:
                has_met.append(True)
                all_have_read.wait(60.0)
            return 60.0

        return t.cast("Json", arguments[-1](meet))

    if not with_lease:
        monkeypatch.setattr(reconciliation, "alone", without_lease)
    for number in range(2):
        node = cluster.node(f"n{number}")
        cluster.pool(f"counted-{number}", node, count=2)
        cluster.pool(f"listed-{number}", node, devices=[{"name": name} for name in "abc"])
        cluster.pool(
            f"parted-{number}",
            node,
            resources=[{"name": "memory", "capacity": 4}],
            devices=[{"name": name, "requests": {"memory": 2}} for name in "abc"],
        )
    cluster.waiting(16)
    for number in range(3):  # of devices in more than one pool
        cluster.pod(
            f"big-{number}",
            [cluster.claim(f"big-{number}", driver=cluster.namespace, minDeviceCount=3)],
        )
    together = threading.Barrier(4)

    def run(number: int) -> Json:
        together.wait()
        strategy = "optimal" if number % 2 else "first_fit"
        return reconcile(cluster.options(strategy=strategy, seed=number))

    with concurrent.futures.ThreadPoolExecutor(4) as executor:
        list(executor.map(run, range(4)))
    assert not list(problems(cluster))
    monkeypatch.undo()
    last = reconcile(cluster.options())
    assert not list(problems(cluster))
    free = [pool["status"]["availableDevices"] for pool in cluster.pools().values()]
    assert sum(free) == 0 and last["errors"] == []


def kill_before(monkeypatch: pytest.MonkeyPatch, kind: str, number: int) -> None:
    """Kill the next run before its n-th write to an object of this kind."""
    original, seen = Store._write_status, [0]

    def dying(self: Store, obj: Json, status: Json) -> Json | None:
        if obj["kind"] == kind and status != obj.get("status"):
            seen[0] += 1
            if seen[0] == number:
                raise Killed
        return original(self, obj, status)

    monkeypatch.setattr(Store, "_write_status", dying)


def test_what_a_killed_run_left_is_finished(
    cluster: DeviceCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run was killed after the pool's reservation, before the claim's status was written."""
    pool = cluster.pool("gpus", cluster.node("n"), count=1)
    cluster.waiting(1)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_before(patch, "DeviceClaim", 1)
        reconcile(cluster.options())
    assert cluster.pools()[pool]["status"]["reservations"]
    assert "allocations" not in cluster.status_of("claim-0")
    result = reconcile(cluster.options())
    assert actions(cluster, result) == {("repaired", "claim-0"), ("bound", "pod-0")}
    assert not list(problems(cluster))


def test_half_a_reservation_is_taken_back_and_given_anew(
    cluster: DeviceCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run was killed when one of two pools had the reservation."""
    node = cluster.node("n")
    for name in "ab":
        cluster.pool(name, node, count=1)
    cluster.pod("p", [cluster.claim("both", driver=cluster.namespace, minDeviceCount=2)])
    monkeypatch.setattr(
        Kube, "in_parallel", lambda _self, work, items, _n=1: list(map(work, items))
    )
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_before(patch, "DevicePool", 2)
        reconcile(cluster.options())
    result = reconcile(cluster.options())
    assert actions(cluster, result) >= {("repaired", "both"), ("allocated", "both")}
    assert cluster.node_of("p") == node
    assert not list(problems(cluster))


def test_a_reservation_is_void_once_its_pod_has_gone(
    cluster: DeviceCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = cluster.pool("gpus", cluster.node("n"), count=1)
    cluster.waiting(2)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_before(patch, "DeviceClaim", 1)
        reconcile(cluster.options())
    [entry] = cluster.pools()[pool]["status"]["reservations"]
    holder = entry["pods"][0]["name"]
    cluster.delete("pods", holder)
    reconcile(cluster.options())
    [other] = {"pod-0", "pod-1"} - {holder}
    assert cluster.node_of(other) is not None
    assert not list(problems(cluster))


def test_a_device_of_a_running_pod_stays_its_own_though_the_claim_is_deleted(
    cluster: DeviceCluster,
) -> None:
    cluster.pool("gpus", cluster.node("n"), count=1)
    cluster.waiting(2)
    reconcile(cluster.options())
    [running] = [name for name in ("pod-0", "pod-1") if cluster.node_of(name)]
    [waiting] = {"pod-0", "pod-1"} - {running}
    cluster.delete("deviceclaims", running.replace("pod", "claim"))
    reconcile(cluster.options())
    assert cluster.node_of(waiting) is None
    cluster.delete("pods", running)
    reconcile(cluster.options())
    assert cluster.node_of(waiting) is not None


def test_a_pod_that_its_node_does_not_take_gives_its_devices_back(cluster: DeviceCluster) -> None:
    """There is room for each of the pods, but not for both."""
    pool = cluster.pool("gpus", cluster.node("n", cpu="4"), count=2)
    for name in "ab":
        cluster.pod(name, [cluster.claim(f"claim-{name}")], cpu="3")
    result = reconcile(cluster.options())
    [refused] = [name for name in "ab" if cluster.node_of(name) is None]
    assert ("released", f"claim-{refused}") in actions(cluster, result)
    condition = cluster.allocated(f"claim-{refused}")
    assert (condition["status"], condition["reason"]) == ("False", "Unsatisfiable")
    assert "Insufficient cpu" in condition["message"]
    conditions = {one["type"]: one for one in cluster.read_pod(refused)["status"]["conditions"]}
    assert conditions["PodScheduled"]["message"] == condition["message"]
    assert cluster.pools()[pool]["status"]["availableDevices"] == 1
    before = cluster.versions()
    reconcile(cluster.options())
    assert cluster.versions() == before


def test_a_claim_in_the_pod_is_made_and_is_the_pods(cluster: DeviceCluster) -> None:
    cluster.pool("gpus", cluster.node("n"), count=2)
    template = cluster.claim("template")
    items: list[Json] = [
        {"name": "own", "spec": {"driver": cluster.namespace}},
        {"name": "copied", "claimTemplateName": template},
    ]
    cluster.pod("p", items)
    result = reconcile(cluster.options())
    made = {("created", "p-own"), ("created", "p-copied")}
    assert made < actions(cluster, result)
    uid = cluster.read_pod("p")["metadata"]["uid"]
    for name in ("p-own", "p-copied"):
        claim = cluster.read_claim(name)
        assert [owner["uid"] for owner in claim["metadata"]["ownerReferences"]] == [uid]
        assert claim["spec"] == {"driver": cluster.namespace}
        assert claim["status"]["podNames"] == ["p"]
    assert cluster.node_of("p") is not None


def test_a_claim_with_devices_keeps_its_spec(cluster: DeviceCluster) -> None:
    cluster.pool("gpus", cluster.node("n"), count=1)
    cluster.waiting(1)
    reconcile(cluster.options())
    claim = cluster.read_claim("claim-0")
    claim["spec"]["minDeviceCount"] = 2
    path = f"/apis/{claim['apiVersion']}/namespaces/{cluster.namespace}/deviceclaims/claim-0"
    with pytest.raises(ApiError, match="the claim has its devices; make another one"):
        cluster.kube.request("PUT", path, claim)


# Each level merges the one before twice: minutes for PyYAML.
MERGES = "- &a0 {x: 1}\n" + "".join(
    f"- &a{level} {{<<: [*a{level - 1}, *a{level - 1}]}}\n" for level in range(1, 28)
)


def test_each_bad_object_is_named_and_the_others_go_on(cluster: DeviceCluster) -> None:
    node = cluster.node("n")
    cluster.pool("gpus", node, count=1, attributes=attributes(model="a"))
    bad = cluster.pool("bad", node, devices=[{"name": "d", "requests": {"memory": 1}}])
    cluster.device_class("broken", constraints="device.model = 'a'")
    driver = {"driver": cluster.namespace}
    cluster.claim("unknown-class", deviceClass="none-such")
    cluster.claim("uncompiled", deviceClass=f"{cluster.namespace}-broken")
    cluster.claim("wrong-type", **driver, constraints="device.model + 1")
    cluster.pod("unknown-class", ["unknown-class"])
    cluster.pod("uncompiled", ["uncompiled"])
    cluster.pod("wrong-type", ["wrong-type"])
    cluster.pod("no-claim", ["none-such"])
    cluster.pod("no-yaml", "[{name")
    cluster.pod("no-list", "claim")
    hostile = {
        "brackets": "[" * 240_000,
        "merges": MERGES,
        "sexagesimal": "1:1:1.5",
        "int": "!!int ''",
    }
    for name, text in hostile.items():
        cluster.pod(name, text)
    cluster.pod("never", [{"name": "own", "spec": {"driver": "d", "minDeviceCount": 0}}])
    cluster.pod("good", [cluster.claim("good")])
    result = reconcile(cluster.options())
    told = {one["name"]: one["detail"] for one in cluster.mine(result, "errors")}
    assert "there is no DeviceClass 'none-such'" in told["unknown-class"]
    assert "spec.constraints" in told["uncompiled"]
    assert "spec.constraints" in told["wrong-type"]
    assert "there is no DeviceClaim 'none-such'" in told["no-claim"]
    assert "it is not YAML" in told["no-yaml"]
    assert "write a list such as" in told["no-list"]
    assert "minDeviceCount" in told["never"]
    assert "line 1: it is nested more than 100 deep" in told["brackets"]
    assert "anchors, aliases and tags are not allowed here" in told["merges"]
    assert "write a list such as" in told["sexagesimal"]
    assert "anchors, aliases and tags are not allowed here" in told["int"]
    assert all("\n" not in text for text in told.values())
    assert cluster.node_of("good") == node
    [condition] = cluster.pools()[bad]["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "False")
    assert "the pool has no such resource" in condition["message"]


def test_it_works_with_exactly_the_permissions_that_the_documentation_gives(
    cluster: DeviceCluster, lab: RunningLab
) -> None:
    cluster.pool("gpus", cluster.node("n"), count=3)
    cluster.pod("bound", [cluster.claim("claim")])
    cluster.pod("gated", [{"name": "own", "spec": {"driver": cluster.namespace}}], gated=True)
    cluster.pod("looks", [cluster.privileged_claim("all")])
    cluster.pod("waits", [cluster.claim("many", driver=cluster.namespace, minDeviceCount=4)])
    granted, token = cluster.grant(RBAC)
    with Api(lab.state.kubeconfig) as api:
        server = api.server
    with recording_proxy(server, str(lab.state.ca_certificate)) as proxy:
        account = {"kubeconfig": None, "host": proxy.server, "api_key": token}
        result = reconcile(cluster.options(**account))
        assert cluster.mine(result, "errors") == [] and proxy.refused == []
        assert proxy.used <= granted
        ours = {right for right in granted if right.group == "devmgmtproto.k8s.io"}
        assert ours <= proxy.used and Permission("", "pods", "patch") in proxy.used
    assert all(cluster.node_of(name) for name in ("bound", "looks"))


def test_a_pod_that_somebody_else_may_schedule_gets_nothing(cluster: DeviceCluster) -> None:
    cluster.pool("gpus", cluster.node("n"), count=1)
    cluster.waiting(1)
    result = reconcile({**cluster.options(), "scheduler_name": "another"})
    [problem] = cluster.mine(result, "errors")
    assert "give it the schedulerName another or the scheduling gate" in problem["detail"]
    assert "allocations" not in cluster.status_of("claim-0")
