# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet's state from a snapshot, and the machines that never sleep."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import SPEC
from ansible_collections.wattwise.kube.plugins.module_utils.power.sources import source_of_snapshot
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curves
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.decision import decide
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.demand import Demand
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Machine, Phase
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.rules import SleepRules
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.state import FleetState
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.state_reader import read_state
from support.binding_api import node, pod

Json = dict[str, t.Any]
CURVE = {"cpu": [0, 4], "watts": [100, 140]}
EVERY = SleepRules(select="kubernetes.io/hostname", min_awake=0, reserve_share=0.0)


def running(name: str, on: str, kind: str | None = "ReplicaSet", **fields: t.Any) -> Json:
    made = pod(name, **{"nodeName": on, **fields.pop("spec", {})})
    metadata = made["metadata"]
    metadata.update(fields.pop("metadata", {}))
    if kind:
        metadata["ownerReferences"] = [
            {"kind": kind, "name": "web", "uid": "o", "controller": True}
        ]
    made["status"] = {"phase": "Running", "qosClass": "BestEffort", **fields.pop("status", {})}
    return made


def state(
    pods: list[Json],
    nodes: list[Json] | None = None,
    machines: dict[str, Machine] | None = None,
    rules: SleepRules = EVERY,
    budgets: list[Json] | None = None,
    curves: Json | None = None,
    **options: t.Any,
) -> FleetState:
    nodes = [node("a"), node("b")] if nodes is None else nodes
    snapshot = {"nodes": nodes, "pods": pods, "pod_disruption_budgets": budgets or []}
    options = SPEC.complete({"nodes": [], "rebalance": True, **options})
    names = [each["metadata"]["name"] for each in nodes]
    if machines is None:
        machines = {name: Machine(name) for name in names}
    priced = Curves.from_document(dict.fromkeys(names, CURVE) if curves is None else curves)
    source = source_of_snapshot(snapshot, priced, (), options)
    return read_state(source, options, rules, machines, {("shop", "new"): 40.0})


def protections(*pods: Json, **fields: t.Any) -> list[str]:
    return [machine.protection for machine in state(list(pods), **fields).machines]


def test_pods_that_may_move_are_the_assignment_and_others_wait() -> None:
    found = state([running("one", "a"), running("two", "b"), pod("new", cpu="2")])
    assert found.assignment.counts.sum(axis=0).tolist() == [1, 1]
    assert found.movable.tolist() == found.assignment.counts.tolist()
    waiting = found.waiting.nonzero()[0].tolist()
    assert len(waiting) == 1 and found.waited[waiting[0]] == 40.0
    assert found.eviction_joules.max() == EVERY.eviction_joules["best_effort"]
    assert [machine.protection for machine in found.machines] == ["", ""]


def test_a_sleeping_machine_is_room_after_its_boot() -> None:
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    asleep = node("b", ready="Unknown", taints=[taint])
    machines = {"a": Machine("a"), "b": Machine("b", phase=Phase.ASLEEP)}
    pods = [running("one", "a"), pod("new", cpu="4")]
    found = state(pods, [node("a"), asleep], machines)
    decision = decide(found, Demand(0.0), EVERY, 1e9)
    assert [each.node for each in decision.wake] == [1]


def test_a_sleeping_machine_that_an_administrator_cordoned_is_no_room() -> None:
    cordoned = node("b", ready="Unknown", unschedulable=True)
    machines = {"a": Machine("a"), "b": Machine("b", phase=Phase.ASLEEP)}
    pods = [running("one", "a"), pod("new", cpu="4")]
    found = state(pods, [node("a"), cordoned], machines)
    assert decide(found, Demand(0.0), EVERY, 1e9).wake == ()


@pytest.mark.parametrize(
    ("waiting", "unpriced", "woken"),
    [
        ([], "last_resort", ["b"]),
        (["4"], "last_resort", ["b"]),
        (["4", "4"], "last_resort", ["b", "c"]),
        (["4", "4"], "exclude", ["b"]),
    ],
    ids=str,
)
def test_a_sleeping_machine_whose_curve_is_missing_is_the_last_to_wake(
    waiting: list[str], unpriced: str, woken: list[str]
) -> None:
    nodes = [node("a"), node("b", ready="Unknown"), node("c", ready="Unknown")]
    asleep = {name: Machine(name, phase=Phase.ASLEEP) for name in "bc"}
    pods = [running("one", "a"), *(pod(f"new-{i}", cpu=cpu) for i, cpu in enumerate(waiting))]
    found = state(
        pods,
        nodes,
        {"a": Machine("a"), **asleep},
        curves={"a": CURVE, "b": CURVE},
        unpriced=unpriced,
    )
    decision = decide(found, Demand(0.0), replace(EVERY, min_awake=2), 1e9)
    assert [machine.protection for machine in found.machines] == ["", "", ""]
    assert sorted(found.machines[each.node].name for each in decision.wake) == woken
    assert [note for note in decision.notes if "such as c" in note]


def test_budgets_bound_evictions_by_group() -> None:
    budget = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1},
    }
    labels = {"labels": {"app": "web"}}
    found = state(
        [running("one", "a", metadata=labels), running("two", "a", metadata=labels)],
        budgets=[budget],
    )
    assert [each.allowed for each in found.budgets] == [1]
    assert not decide(found, Demand(0.0), EVERY, 1e9).moves


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"rules": SleepRules()}, "select no machine"),
        ({"rules": SleepRules(select="rack=7")}, "do not select"),
        ({"machines": {}}, "not known"),
    ],
)
def test_rules_and_machines_protect_nodes(fields: Json, reason: str) -> None:
    assert all(reason in why for why in protections(**fields))


@pytest.mark.parametrize(
    ("labels", "annotations", "reason"),
    [
        ({"node-role.kubernetes.io/control-plane": ""}, {}, "control plane"),
        ({}, {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}, "annotation"),
    ],
)
def test_a_node_protects_itself(labels: Json, annotations: Json, reason: str) -> None:
    marked = node("a")
    marked["metadata"]["labels"].update(labels)
    marked["metadata"]["annotations"] = annotations
    first, second = protections(nodes=[marked, node("b")])
    assert reason in first and not second


OSD = {"labels": {"app": "rook-ceph-osd"}}
INSTANCES = {"labels": {"longhorn.io/component": "instance-manager"}}
UNSAFE = {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}
ETCD = {"labels": {"component": "etcd"}}
CLAIM = {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}
DIRECTORY = {"volumes": [{"hostPath": {"path": "/data"}}]}


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        (running("p", "a", metadata=OSD), "Ceph"),
        (running("p", "a", metadata=INSTANCES), "Longhorn"),
        (running("p", "a", kind="Node", metadata=ETCD), "control plane"),
        (running("p", "a", kind=None), "no controller"),
        (running("p", "a", kind="Job"), "may not be moved"),
        (running("p", "a", metadata=UNSAFE), "may not be moved"),
        (running("p", "a", spec=CLAIM), "may not be moved"),
        (running("p", "a", spec=DIRECTORY), "directory"),
        (running("p", "a", kind="DaemonSet"), ""),
    ],
)
def test_a_pod_keeps_its_machine_awake(held: Json, reason: str) -> None:
    first, second = protections(held)
    assert reason in first and bool(first) == bool(reason) and not second


@pytest.mark.parametrize(
    "options",
    [
        {"reserve_quantile": 1.5},
        {"horizon_seconds": float("nan")},
        {"max_cycles_a_day": -1},
        {"min_awake": True},
        {"min_awake_by_zone": {"a": -1}},
        {"eviction_joules": {"guaranteed": 1.0}},
    ],
    ids=str,
)
def test_rules_out_of_range_are_one_sentence(options: Json) -> None:
    with pytest.raises(InvalidInput, match="^sleep rules: .*give"):
        SleepRules(**options)


def test_an_unreadable_selector_names_its_option() -> None:
    with pytest.raises(InvalidInput, match="sleep rules: select"):
        protections(rules=SleepRules(select="a in ("))
