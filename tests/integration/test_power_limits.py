# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of a PowerFleet on a real API server, with simulated BMCs that throttle their machines."""

from __future__ import annotations

import json
import shutil
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline import reconciliation
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.limits_record import NAME
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.steps.capping import CapChanges
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import RESOURCE_KIND
from lab.process import wait_until
from support.fleet_of_machines import FleetOfMachines
from support.sleeping_lab import LABEL, SleepingLab

Json = dict[str, t.Any]
RECORD = f"/api/v1/namespaces/kube-system/configmaps/{NAME}"
# From idle to full load.
CURVE_WATTS = 640.0
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def fleet(sleeping: SleepingLab, tmp_path: Path) -> Iterator[FleetOfMachines]:
    """Three machines with a pod each that keeps half of their cores busy."""
    for machine in sleeping.machines:
        occupy(sleeping.kube, sleeping.namespace, machine.name, machine.cores // 2)
    with FleetOfMachines(sleeping, tmp_path / "run") as found:
        found.create()
        yield found
    if found.kube.find(RECORD) is not None:
        found.kube.request("DELETE", RECORD)


@pytest.fixture
def priorities(kube: Kube, namespace: str) -> Iterator[dict[str, int]]:
    """PriorityClasses of this test, by their value."""
    found = {f"{namespace}-low": 1, f"{namespace}-high": 1000}
    for name, value in found.items():
        kube.request("POST", PRIORITIES, {"metadata": {"name": name}, "value": value})
    yield found
    for name in found:
        kube.request("DELETE", f"{PRIORITIES}/{name}")


def spec_of(namespace: str, cpu: float) -> Json:
    """The spec of a pod for the scheduler of the fleet."""
    requests = {"requests": {"cpu": str(cpu)}}
    return {
        "schedulerName": f"s-{namespace}",
        "nodeSelector": {LABEL: namespace},
        "containers": [{"name": "c", "image": "x", "resources": requests}],
    }


def pod(kube: Kube, namespace: str, name: str, cpu: float, priority: str) -> None:
    spec = {**spec_of(namespace, cpu), "priorityClassName": priority}
    body = {"metadata": {"name": name}, "spec": spec}
    kube.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)


def busy_pods(kube: Kube, namespace: str) -> list[Json]:
    """The pods on machines that their ReplicaSets made."""
    query = {"labelSelector": "busy"}
    pods = kube.list(f"/api/v1/namespaces/{namespace}/pods", query)
    there = [one for one in pods if one["spec"].get("nodeName")]
    return [one for one in there if not one["metadata"].get("deletionTimestamp")]


def occupy(kube: Kube, namespace: str, node: str, cpu: float) -> None:
    """A ReplicaSet with one pod on the node."""
    labels = {"busy": node}
    body = {
        "metadata": {"name": node},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec_of(namespace, cpu)},
        },
    }
    kube.request("POST", f"/apis/apps/v1/namespaces/{namespace}/replicasets", body)
    path, query = f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": f"busy={node}"}
    wait_until(lambda: bool(kube.list(path, query)), 30.0, "the pod of the ReplicaSet")
    name = kube.list(path, query)[0]["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"metadata": {"name": name}, "target": target}
    kube.request("POST", f"{path}/{name}/binding", binding)


def limits_of(fleet: FleetOfMachines) -> Json:
    return t.cast("Json", fleet.kube.get(fleet.path)["status"]["limits"])


def set_limits(fleet: FleetOfMachines, **limits: t.Any) -> None:
    fleet.patch({"spec": {"limits": limits}})


def measured(fleet: FleetOfMachines) -> float:
    """The power draw of the fleet, once the machines draw what their pods need."""
    set_limits(fleet, fleetWatts=1e6)
    last = [0.0]

    def is_settled() -> bool:
        fleet.run()
        [domain] = limits_of(fleet)["domains"]
        last.append(domain["watts"])
        return domain["state"] == "within" and abs(last[-1] - last[-2]) < 20.0

    wait_until(is_settled, 60.0, "the power of the pods", interval=0.5)
    return last[-1]


def caps(sleeping: SleepingLab) -> dict[str, float]:
    """The limits that the BMCs of the machines have."""
    found = sleeping.admin("GET", "/power")
    watts = {name: found[name]["cap_watts"] for name in sleeping.names}
    return {name: value for name, value in watts.items() if value is not None}


def events_of(kube: Kube, namespace: str, name: str) -> dict[str, str]:
    events = kube.list(f"/api/v1/namespaces/{namespace}/events")
    return {
        one["reason"]: one["message"] for one in events if one["involvedObject"]["name"] == name
    }


def test_the_lowest_priority_waits_with_the_limit_as_its_reason(
    fleet: FleetOfMachines, sleeping: SleepingLab, priorities: dict[str, int]
) -> None:
    kube, namespace = fleet.kube, sleeping.namespace
    cores = [machine.cores for machine in sleeping.machines]
    requested = 0.4 * min(cores)
    measured(fleet)
    [before] = fleet.run()["summary"]["limits"]
    # By their curves each pod adds at least so many watts: on the largest machine.
    added = CURVE_WATTS * 0.8 * requested / max(cores)
    set_limits(fleet, fleetWatts=round(before["watts_before"] + 1.5 * added))
    for name in priorities:
        pod(kube, namespace, name.rpartition("-")[2], requested, name)
    fleet.run()
    pods = f"/api/v1/namespaces/{namespace}/pods"
    assert kube.get(f"{pods}/high")["spec"].get("nodeName") in sleeping.names
    assert "nodeName" not in kube.get(f"{pods}/low")["spec"]
    told = events_of(kube, namespace, "low")["FailedScheduling"]
    assert "node(s) in the fleet (" in told and "this pod adds at least" in told
    [domain] = limits_of(fleet)["domains"]
    assert domain["deferredPods"] == 1


def test_caps_are_set_found_again_and_removed_when_the_limit_goes(
    fleet: FleetOfMachines, sleeping: SleepingLab
) -> None:
    set_limits(fleet, fleetWatts=round(0.9 * measured(fleet)), cap="on")
    fleet.run()
    capped = caps(sleeping)
    assert capped, fleet.warnings
    told = limits_of(fleet)
    assert (told["cap"], told["capped"]) == ("on", len(capped))
    [domain] = told["domains"]
    assert (domain["kind"], domain["state"], domain["capped"]) == ("fleet", "above", len(capped))
    assert "above its limit of" in fleet_events(fleet)["PowerLimitExceeded"]
    assert fleet.kube.get(fleet.path)["metadata"]["finalizers"] == [RESOURCE_KIND.finalizer]
    record = fleet.kube.get(RECORD)
    owner = f"PowerFleet {sleeping.namespace}/fleet"
    assert {json.loads(one)["owner"] for one in record["data"].values()} == {owner}
    # The pod of the operator restarts with an empty folder.
    shutil.rmtree(fleet.folder)
    set_limits(fleet, fleetWatts=0)
    fleet.run()
    assert caps(sleeping) == {}
    assert not fleet.kube.get(RECORD).get("data")
    status = fleet.kube.get(fleet.path)["status"]
    assert "limits" not in status
    assert "finalizers" not in fleet.kube.get(fleet.path)["metadata"]


def test_a_cap_of_a_run_that_was_killed_ends_although_its_limit_is_gone(
    fleet: FleetOfMachines, sleeping: SleepingLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends between the cap and the status, which never knows of it."""

    def killed(changes: CapChanges) -> t.Any:
        carry_out(changes)
        raise KeyboardInterrupt

    set_limits(fleet, fleetWatts=round(0.9 * measured(fleet)), cap="on")
    carry_out = CapChanges.carry_out
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(CapChanges, "carry_out", killed)
        fleet.run()
    assert caps(sleeping)
    found = fleet.kube.get(fleet.path)
    assert not found["status"]["limits"]["capped"]
    assert found["metadata"]["finalizers"] == [RESOURCE_KIND.finalizer]
    fleet.patch({"spec": {"limits": None}})
    fleet.run()
    assert caps(sleeping) == {}
    assert not fleet.kube.get(RECORD).get("data")
    assert "finalizers" not in fleet.kube.get(fleet.path)["metadata"]


def test_a_rack_above_its_inlet_limit_is_reduced_until_the_limit_goes(
    fleet: FleetOfMachines, sleeping: SleepingLab
) -> None:
    measured(fleet)
    set_limits(fleet, fleetWatts=0, inletCelsius={"*": 10}, cap="on")
    fleet.run()
    capped = caps(sleeping)
    assert capped, fleet.warnings
    domains = limits_of(fleet)["domains"]
    assert {(one["kind"], one["state"], one["limitCelsius"]) for one in domains} == {
        ("inlet", "above", 10.0)
    }
    assert all(one["celsius"] > 10 and one["limitWatts"] < one["watts"] for one in domains)
    assert "above its limit of 10 °C" in fleet_events(fleet)["InletLimitExceeded"]
    assert any(name.startswith("rack_") for name in fleet.kube.get(RECORD)["data"])
    # The next run is too early for the next step, and changes nothing.
    fleet.run()
    assert caps(sleeping) == capped
    set_limits(fleet, inletCelsius=None)
    fleet.run()
    assert caps(sleeping) == {}
    assert not fleet.kube.get(RECORD).get("data")


def fleet_events(fleet: FleetOfMachines) -> dict[str, str]:
    return events_of(fleet.kube, fleet.machines.namespace, "fleet")


@pytest.mark.parametrize("end", ["delete", "suspend"])
def test_a_fleet_that_ends_removes_its_caps(
    fleet: FleetOfMachines, sleeping: SleepingLab, end: str
) -> None:
    set_limits(fleet, fleetWatts=round(0.9 * measured(fleet)), cap="on")
    fleet.run()
    assert caps(sleeping)
    if end == "delete":
        fleet.kube.request("DELETE", fleet.path)
    else:
        fleet.patch({"spec": {"suspend": True}})
    fleet.run()
    assert caps(sleeping) == {}
    found = fleet.kube.find(fleet.path)
    if end == "delete":
        assert found is None
    else:
        assert found is not None and "limits" not in found["status"]


def test_a_pod_is_evicted_where_caps_are_off_and_the_rest_is_told(
    fleet: FleetOfMachines, sleeping: SleepingLab
) -> None:
    kube, namespace = fleet.kube, sleeping.namespace
    watts = round(measured(fleet) - 30.0)
    set_limits(fleet, fleetWatts=watts, cap="off", evict="on")
    assert len(busy_pods(kube, namespace)) == 3
    fleet.run()
    assert len(busy_pods(kube, namespace)) == 2
    events = kube.list(f"/api/v1/namespaces/{namespace}/events")
    [note] = [one["message"] for one in events if one["reason"] == "EvictedForPowerLimit"]
    assert f"its limit of {watts:,.0f} W" in note
    assert limits_of(fleet)["evicted"] == 1
    assert "PodsEvictedForPowerLimit" in fleet_events(fleet)
    # The next run waits for readings that show it, and its replacement waits for power.
    fleet.run()
    assert len(busy_pods(kube, namespace)) == 2


def test_evictions_are_told_once_although_later_runs_fail(
    fleet: FleetOfMachines, sleeping: SleepingLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status keeps the limits of the last run that judged them."""

    def fail(*_given: t.Any) -> t.Any:
        raise ApiError("no answer", 503)

    set_limits(fleet, fleetWatts=round(measured(fleet) - 30.0), cap="off", evict="on")
    fleet.run()
    assert limits_of(fleet)["evicted"] == 1
    events, reason = f"/api/v1/namespaces/{sleeping.namespace}/events", "PodsEvictedForPowerLimit"
    # An Event is written again only minutes after the last one.
    [event] = [one for one in fleet.kube.list(events) if one["reason"] == reason]
    fleet.kube.request("DELETE", f"{events}/{event['metadata']['name']}")
    monkeypatch.setattr(reconciliation, "read_cluster", fail)
    fleet.run()
    assert reason not in fleet_events(fleet)
