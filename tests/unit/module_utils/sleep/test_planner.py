# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision of one run by the names of the cluster: whose marks a sleeping Node has."""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.power.limits.domains import (
    NO_LIMITS,
    Limited,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits.options import PowerLimits
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import SPEC
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curves
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.bmcs import Power
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.cluster_view import (
    Lists,
    Records,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.demand_record import (
    SleepRecord,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.guards import Peers
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.lifecycle import (
    Intent,
    Patience,
    next_change,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.node_changes import (
    OUT_OF_SERVICE,
    TAINT,
    patch_to_awake,
    patch_to_record,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.options import (
    OPTIONS,
    SleepOptions,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.planner import (
    FleetInputs,
    Plan,
    Planner,
    within_limits,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record import (
    ANNOTATION,
    PAUSES,
    NodeRecord,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Phase
from support.binding_api import node, pod

Json = dict[str, t.Any]
NOW = 1_800_000_000.0
CURVE = {"cpu": [0, 4], "watts": [100, 140]}
ASLEEP = NodeRecord(
    Phase.ASLEEP, NOW - 7200, "test", cordoned=True, excluded=True, paused=tuple(PAUSES)
)


def machine(name: str, **spec: t.Any) -> Json:
    found = node(name, **spec)
    found["metadata"]["resourceVersion"] = "1"
    found["status"]["nodeInfo"] = {"systemUUID": name}
    return found


def asleep(name: str, record: NodeRecord, **spec: t.Any) -> Json:
    """The Node as a sleep leaves it."""
    found = machine(name, **spec)
    found["metadata"].update(annotations={})
    found["spec"].setdefault("taints", [])
    for one in patch_to_record(found, record)[1:]:
        *path, last = [part.replace("~1", "/") for part in one["path"][1:].split("/")]
        holder = found
        for part in path:
            holder = holder[part]
        holder[last] = one["value"]
    found["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    return t.cast("Json", json.loads(json.dumps(found)))


def plan(
    nodes: list[Json],
    pods: list[Json],
    peers: Peers = Peers(),  # noqa: B008 - frozen
    limited: Limited = NO_LIMITS,
) -> Plan:
    by_name = {each["metadata"]["name"]: each for each in nodes}
    lists = Lists(by_name, {"nodes": nodes, "pods": pods, "pod_disruption_budgets": []})
    inputs = FleetInputs(
        {"nodes": nodes, "pods": pods},
        Curves.from_document(dict.fromkeys(by_name, CURVE)),
        SPEC.complete({}),
        limited=limited,
    )
    given = {"select": "kubernetes.io/hostname", "min_awake_seconds": 0.0, "min_awake": 0}
    options = SleepOptions.of(OPTIONS.complete({**given, "max_share": 1.0, "wear_joules": 0.0}))
    planner = Planner(inputs, options, peers, lambda _name: True, NOW)
    return planner.plan(lists, Records.of(by_name, NOW), set(), SleepRecord(NOW, NOW))


def waiting() -> Json:
    found = pod("new", cpu="4")
    found["metadata"]["creationTimestamp"] = "2027-01-15T07:00:00Z"
    return found


def test_a_waiting_pod_wakes_a_machine_behind_the_marks_of_its_sleep() -> None:
    found = plan([machine("a", unschedulable=True), asleep("b", ASLEEP)], [waiting()])
    assert {name: one.action for name, one in found.intents.items()} == {"b": "wake"}


@pytest.mark.parametrize(("watts", "woken"), [(150.0, set()), (300.0, {"b"})])
def test_no_machine_wakes_above_the_limit_of_the_fleet(watts: float, woken: set[str]) -> None:
    nodes = [machine("a"), asleep("b", ASLEEP)]
    full = {**pod("full", cpu="4", nodeName="a"), "status": {"phase": "Running"}}
    limited = Limited(PowerLimits(fleet_watts=watts))
    found = plan(nodes, [full, waiting()], limited=limited)
    assert set(found.intents) == woken
    if not woken:
        assert found.stay["b"] == (
            "power_limit",
            "Its idle power would take it, its rack or the fleet above a limit, so it is not woken.",
        )


def test_a_limit_is_no_reason_of_a_machine_that_nobody_needs() -> None:
    nodes = [machine("a"), asleep("b", ASLEEP)]
    limited = Limited(PowerLimits(fleet_watts=150.0))
    assert plan(nodes, [], limited=limited).stay["b"][0] == "asleep"


def test_a_machine_that_an_administrator_cordoned_is_not_woken_for_pods() -> None:
    """A sleep leaves the cordon alone, so that no pod could run there after the boot."""
    theirs = replace(ASLEEP, cordoned=False)
    nodes = [machine("a", unschedulable=True), asleep("b", theirs, unschedulable=True)]
    assert plan(nodes, [waiting()]).intents == {}


def running() -> Json:
    found = pod("web", cpu="2", nodeName="a")
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "o", "controller": True}
    found["metadata"]["ownerReferences"] = [owner]
    found["status"] = {"phase": "Running", "qosClass": "BestEffort"}
    return found


def test_pods_cannot_move_to_a_machine_that_an_administrator_cordoned() -> None:
    assert "a" not in plan([machine("a"), machine("b", unschedulable=True)], [running()]).off


@pytest.mark.parametrize("phase", [Phase.ASLEEP, Phase.GOING_OFF, Phase.DRAINING])
def test_our_own_marks_protect_no_machine(phase: Phase) -> None:
    nodes = [machine("a"), asleep("b", replace(ASLEEP, phase=phase))]
    peers = Peers(has_cluster_autoscaler=True, has_node_health_checks=True)
    assert plan(nodes, [], peers).protections == {}


def test_a_node_that_its_owner_keeps_from_the_autoscaler_stays_awake() -> None:
    kept = machine("b")
    kept["metadata"]["annotations"] = {next(iter(PAUSES)): "true"}
    assert "scale-down-disabled" in plan([machine("a"), kept], []).protections["b"]


def test_the_cluster_autoscaler_bounds_the_machines_that_go_off() -> None:
    nodes = {name: machine(name) for name in "abcdefgh"}
    wanted = Plan(dict.fromkeys("abcde", Intent("off", "not needed")))
    records = {"f": replace(ASLEEP, phase=Phase.DRAINING)}
    beside = within_limits(wanted, records, nodes, Peers(has_cluster_autoscaler=True), 8)
    assert beside.off == ["a", "b"]
    assert "halts" in beside.intents["c"].reason
    assert within_limits(wanted, records, nodes, Peers(), 8).off == list("abcde")
    assert within_limits(wanted, records, nodes, Peers(), 4).off == ["a", "b", "c"]


def test_the_reserve_is_that_of_the_decision() -> None:
    reserve = plan([machine("a"), machine("b")], [running()]).reserve
    # A tenth of what is requested, without a week of demand.
    assert reserve["cpu"] == pytest.approx(200.0)


_ANNOTATION = st.text(max_size=30) | st.builds(
    lambda phase, since, cordoned, paused: json.dumps(
        {"phase": phase, "since": since, "cordoned": cordoned, "paused": paused}
    ),
    st.sampled_from([each.value for each in Phase] + ["other"]),
    st.sampled_from(["2027-01-15T07:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "x"]),
    st.booleans(),
    st.lists(st.sampled_from([*PAUSES, "metadata"]), max_size=3),
)
_TAINTS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from([TAINT, OUT_OF_SERVICE, "node.kubernetes.io/unreachable", "x"]),
            "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
        },
        optional={"value": st.sampled_from([each.value for each in Phase]) | st.text(max_size=8)},
    ),
    max_size=3,
)


@settings(max_examples=40, deadline=None)
@given(annotation=_ANNOTATION, taints=_TAINTS, ready=st.sampled_from(["True", "False", "Unknown"]))
def test_a_node_of_any_state_concerns_no_other_machine(
    annotation: str, taints: list[Json], ready: str
) -> None:
    odd, good = machine("a", taints=taints), asleep("b", ASLEEP)
    odd["metadata"]["annotations"] = {ANNOTATION: annotation}
    odd["status"]["conditions"][0]["status"] = ready
    nodes = {"a": odd, "b": good}
    records = Records.of(nodes, NOW)
    assert records.records["b"] == Records.of({"b": good}, NOW).records["b"]
    assert {one.subject.name for one in records.findings} <= {"a"}
    found = plan([odd, good, machine("c", unschedulable=True)], [waiting()])
    assert "b" not in found.protections
    for power in ("On", "Off", None):
        view = records.view(odd, Power(power), (), "")
        for intent in (Intent("off", "x"), Intent("wake", "x"), Intent()):
            due = next_change(view, intent, Patience(), NOW, "test")
            if due is None:
                continue
            assert due.name == "a"
            if due.action == "switch_off":
                # Only the control plane and our account write the taint.
                assert {"draining", "going_off"} & {one.get("value") for one in taints}
            patch = (
                patch_to_awake(odd, view.record or ASLEEP)
                if due.record is None
                else patch_to_record(odd, due.record)
            )
            assert patch[0]["op"] == "test"


@pytest.mark.parametrize(("ready", "deadline"), [("Unknown", NOW - 1), ("True", None)])
def test_a_late_machine_is_no_room_until_its_node_is_ready(
    ready: str, deadline: float | None
) -> None:
    found = node("n")
    found["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    options = SleepOptions.of(OPTIONS.complete({"mode": "on"}))
    inputs = FleetInputs({}, Curves(), SPEC.complete({}))
    planner = Planner(inputs, options, Peers(), lambda _name: True, NOW)
    record = NodeRecord(Phase.WAKING, NOW - 600, "test", deadline=NOW - 1)
    machine = planner._machine(found, Phase.WAKING, record, None)
    assert (machine.phase, machine.deadline) == (Phase.WAKING, deadline)
