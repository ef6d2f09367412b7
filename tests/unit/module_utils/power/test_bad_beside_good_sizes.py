# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods with very many terms, names or ports beside good ones, which get the same answer in time."""

from __future__ import annotations

import copy
import random
import time
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import build_problem
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import SPEC, place
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling import pod_fields
from support.odd_fleets import PREFERRED, REQUIRED
from support.placement_instance import read_instance

Json = dict[str, t.Any]

NODES = 40
WORKLOADS = 30
KEYS = ("kubernetes.io/hostname", "zone", "rack")


def node(number: int) -> Json:
    labels = {
        "kubernetes.io/hostname": f"n{number}",
        "zone": f"z{number % 4}",
        "rack": f"r{number % 10}",
    }
    return {
        "name": f"n{number}",
        "labels": labels,
        "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
        "curve": {"cpu": [0, 8, 16], "watts": [100 + number % 7, 180, 260 + number % 5]},
    }


def pod(name: str, namespace: str, app: str, **spec: t.Any) -> Json:
    requests = {"cpu": "1", "memory": "1Gi"}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": requests}}],
            **spec,
        },
    }


def good_pods() -> list[Json]:
    found = []
    for number in range(WORKLOADS):
        app = f"app{number}"
        rule = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
        rules = {"topologySpreadConstraints": [rule]} if number % 2 else {}
        found += [pod(f"{app}-{copied}", f"team{number % 5}", app, **rules) for copied in range(3)]
    return found


def result_of(pods: list[Json], running: list[Json] | None = None, **options: t.Any) -> Json:
    return place(
        {
            "nodes": [node(number) for number in range(NODES)],
            "pods": copy.deepcopy(pods),
            "running": running or [],
            "namespaces": [{"name": f"team{number}", "labels": {}} for number in range(5)],
            "strategy": "greedy",
            **options,
        }
    )


def nodes_of(result: Json) -> dict[str, str]:
    return {
        entry["pod"]: entry["node"]
        for entry in result["placements"]
        if entry["pod"].startswith("app")
    }


def term(number: int, selector: Json | None = None) -> Json:
    return {
        "labelSelector": selector or {"matchLabels": {"other": str(number)}},
        "namespaceSelector": {},
        "topologyKey": KEYS[number % len(KEYS)],
    }


def affinity(part: str, kind: str, terms: list[Json]) -> Json:
    if kind == PREFERRED:
        terms = [{"weight": 1, "podAffinityTerm": each} for each in terms]
    return {"affinity": {part: {kind: terms}}}


def node_affinity(kind: str, terms: list[Json]) -> Json:
    if kind == REQUIRED:
        return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}
    weighted = [{"weight": 1, "preference": each} for each in terms]
    return {"affinity": {"nodeAffinity": {PREFERRED: weighted}}}


def requirement(number: int, values: int = 1) -> Json:
    listed = [f"v{number}-{value}" for value in range(values)]
    return {"key": f"key{number}", "operator": "NotIn", "values": listed}


def container(**fields: t.Any) -> Json:
    return {"containers": [{"name": "main", **fields}]}


def names(number: int, kind: str = "requests") -> Json:
    amounts = {f"example.com/r{each}": "1" for each in range(number)}
    return container(resources={kind: amounts})


# Specs with this number of each part, and the words of the limit.
PARTS: dict[str, t.Callable[[int], Json]] = {
    "containers": lambda number: {
        "containers": [{"name": f"c{each}"} for each in range(number)],
    },
    "host ports": lambda number: container(
        ports=[{"containerPort": 1, "hostPort": each + 1} for each in range(number)]
    ),
    "labels of the node selector": lambda number: {
        "nodeSelector": {f"l{each}": "x" for each in range(number)}
    },
    "listed namespaces of pod affinity": lambda number: affinity(
        "podAffinity",
        REQUIRED,
        [{**term(0), "namespaces": [f"ns{each}" for each in range(number)]}],
    ),
    "overheads": lambda number: {
        "overhead": {f"example.com/r{each}": "1" for each in range(number)}
    },
    "preferred terms of node affinity": lambda number: node_affinity(
        PREFERRED, [{"matchExpressions": [requirement(0)]}] * number
    ),
    "preferred terms of pod affinity": lambda number: affinity(
        "podAntiAffinity", PREFERRED, [term(each) for each in range(number)]
    ),
    "required terms of node affinity": lambda number: node_affinity(
        REQUIRED, [{"matchExpressions": [requirement(0)]}] * number
    ),
    "required terms of pod affinity": lambda number: affinity(
        "podAffinity", REQUIRED, [term(each) for each in range(number)]
    ),
    "required terms of pod anti-affinity": lambda number: affinity(
        "podAntiAffinity", REQUIRED, [term(each) for each in range(number)]
    ),
    "requirements of selectors": lambda number: node_affinity(
        REQUIRED, [{"matchExpressions": [requirement(each) for each in range(number)]}]
    ),
    "resources": names,
    "tolerations": lambda number: {
        "tolerations": [{"key": f"k{each}", "operator": "Exists"} for each in range(number)]
    },
    "topology spread constraints": lambda number: {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": KEYS[each % 3],
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"other": str(each)}},
            }
            for each in range(number)
        ]
    },
    "values of requirements": lambda number: node_affinity(
        REQUIRED, [{"matchExpressions": [requirement(0, number)]}]
    ),
    "volumes": lambda number: {
        "volumes": [{"name": f"v{each}", "emptyDir": {}} for each in range(number)]
    },
}


def test_every_limit_is_tried() -> None:
    assert PARTS.keys() == pod_fields.MAX_PER_POD.keys()


@pytest.mark.parametrize("what", PARTS)
def test_a_pod_beyond_a_limit_waits_alone(what: str) -> None:
    most = pod_fields.MAX_PER_POD[what]
    odd = pod("odd", "team0", "odd")
    odd["spec"].update(PARTS[what](most + 1))
    result = result_of([odd, *good_pods()])
    [unplaced] = result["unplaced"]
    assert f"unsupported: too many {what} ({most + 1}; at most {most})" in unplaced["reasons"]
    assert nodes_of(result) == nodes_of(result_of(good_pods()))


@pytest.mark.parametrize("what", PARTS)
def test_a_pod_at_a_limit_is_read(what: str) -> None:
    odd = pod("odd", "team0", "odd")
    odd["spec"].update(PARTS[what](pod_fields.MAX_PER_POD[what]))
    result = result_of([odd])
    assert not any(
        "too many" in reason for each in result["unplaced"] for reason in each["reasons"]
    )


def excluding_all(number: int) -> Json:
    """A selector that differs from all others and selects every pod."""
    return {"matchExpressions": [{"key": f"x{number}", "operator": "DoesNotExist"}]}


def half(number: int) -> Json:
    apps = random.Random(number).sample(range(WORKLOADS), WORKLOADS // 2)
    values = [f"app{each}" for each in apps]
    return {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}


def hostile(selector: t.Callable[[int], Json], kind: str, pods: int, terms: int) -> list[Json]:
    """Pods of three tenants, each below the limits."""
    found = []
    for number in range(pods):
        listed = [term(each, selector(number * terms + each)) for each in range(terms)]
        rules = affinity("podAntiAffinity", kind, listed)
        found.append(pod(f"bad-{number}", f"evil{number % 3}", f"bad{number}", **rules))
    return found


@pytest.mark.parametrize("kind", [REQUIRED, PREFERRED])
@pytest.mark.parametrize("selector", [excluding_all, half])
def test_many_pods_below_the_limits_share_one_budget(
    selector: t.Callable[[int], Json], kind: str
) -> None:
    """The work is counted: rules times the groups of pods that they are about."""
    bad = hostile(selector, kind, pods=60, terms=20)

    def work(pods: list[Json]) -> int:
        given = {"nodes": [node(number) for number in range(NODES)], "pods": pods}
        relations = build_problem(read_instance(SPEC.complete(given))).relations
        assert relations is not None
        members = [cap.topology_count.members for cap in relations.caps]
        return sum(len(rule.groups) for rule in relations.rules) + sum(
            int(each.sum()) for each in members
        )

    different = WORKLOADS + len(bad)
    assert work([*bad, *good_pods()]) <= work(good_pods()) + 2 * different + 100
    result = result_of([*bad, *good_pods()])
    assert len(nodes_of(result)) == len(good_pods())
    waiting = [entry for entry in result["unplaced"] if entry["pod"].startswith("bad")]
    assert len(waiting) > 50
    assert {reason.split(":")[0] for entry in waiting for reason in entry["reasons"]} == {
        "unsupported"
    }


def test_no_tenant_uses_up_the_budget_of_the_others() -> None:
    """A tenant's few rules are read, although another tenant's pods come first by name."""
    bad = hostile(half, REQUIRED, pods=60, terms=20)
    mine = pod("app-mine", "team0", "mine", **affinity("podAntiAffinity", REQUIRED, [term(0)]))
    result = result_of([*bad, *good_pods(), mine])
    assert "app-mine" in nodes_of(result)


@pytest.mark.parametrize("terms", [30, 3000])
def test_terms_without_an_effect_cost_no_rule(terms: int) -> None:
    """Whoever they exclude is not there, and equal ones are reckoned once."""
    odd = pod("odd", "team0", "odd")
    others = [term(number) for number in range(min(terms, 20))]
    odd["spec"].update(affinity("podAntiAffinity", REQUIRED, others))
    given = {"nodes": [node(number) for number in range(NODES)], "pods": [odd]}
    problem = build_problem(read_instance(SPEC.complete(given)))
    assert problem.relations is None


def test_different_terms_of_one_meaning_are_one_rule() -> None:
    odd = pod("odd", "team0", "odd")
    terms = [{**term(0, excluding_all(number)), "topologyKey": "zone"} for number in range(4)]
    odd["spec"].update(affinity("podAntiAffinity", REQUIRED, terms))
    given = {"nodes": [node(number) for number in range(NODES)], "pods": [odd, *good_pods()]}
    problem = build_problem(read_instance(SPEC.complete(given)))
    assert problem.relations is not None
    spreads = WORKLOADS // 2
    assert len(problem.relations.rules) == spreads + 1


def running(name: str, on: str, terms: list[Json]) -> Json:
    made = pod(name, "evil", name, nodeName=on, **affinity("podAntiAffinity", REQUIRED, terms))
    return {**made, "status": {"phase": "Running"}}


def test_all_terms_of_a_running_pod_bind_others() -> None:
    """2,000 terms about nobody, and the last one about a workload."""
    terms = [term(number) for number in range(2000)]
    result = result_of(good_pods(), [running("many", "n1", terms)])
    assert nodes_of(result) == nodes_of(result_of(good_pods(), [running("many", "n1", terms[:1])]))
    last = {**term(0, {"matchLabels": {"app": "app0"}}), "topologyKey": "rack"}
    placed = nodes_of(result_of(good_pods(), [running("many", "n1", [*terms, last])]))
    assert {node for name, node in placed.items() if name.startswith("app0-")}.isdisjoint(
        {"n1", "n11", "n21", "n31"}
    )


def test_terms_of_running_pods_that_are_too_alike_bind_more_pods_never_fewer() -> None:
    """The pod keeps every pod out of its domains, and no pod is let in that it refuses."""
    terms = [{**term(0, half(number)), "topologyKey": "rack"} for number in range(400)]
    placed = nodes_of(result_of(good_pods(), [running("many", "n1", terms)]))
    assert len(placed) == len(good_pods())
    assert set(placed.values()).isdisjoint({"n1", "n11", "n21", "n31"})


def test_terms_about_the_own_namespace_bind_no_other() -> None:
    terms = [
        {"labelSelector": excluding_all(number), "topologyKey": "zone"} for number in range(400)
    ]
    alone = nodes_of(result_of(good_pods(), [running("many", "n1", [])]))
    assert nodes_of(result_of(good_pods(), [running("many", "n1", terms)])) == alone


@pytest.mark.parametrize(
    "what", ["required terms of pod anti-affinity", "resources", "tolerations"]
)
def test_hostile_pods_take_at_most_the_time_of_the_others(what: str) -> None:
    """Generously measured: a factor of three and half a second; it was beyond a hundred."""

    def seconds(pods: list[Json]) -> float:
        started = time.process_time()
        result_of(pods)
        return time.process_time() - started

    bad = [pod(f"bad-{number}", f"evil{number}", "bad") for number in range(4)]
    for each in bad:
        each["spec"].update(PARTS[what](2000))
    seconds(good_pods())
    assert seconds([*bad, *good_pods()]) <= 3 * seconds(good_pods()) + 0.5


def test_a_node_of_too_many_taints_is_not_used() -> None:
    given = [node(number) for number in range(NODES)]
    taint = {"value": "x", "effect": "PreferNoSchedule"}
    given[1]["taints"] = [{"key": f"k{number}", **taint} for number in range(501)]
    result = place({"nodes": given, "pods": good_pods(), "strategy": "greedy"})
    [finding] = result["findings"]
    assert (finding["name"], finding["field"]) == ("n1", "taints")
    assert len(result["placements"]) == len(good_pods())
    assert "n1" not in nodes_of(result).values()


def test_very_many_host_ports_of_running_pods_are_taken_and_cost_little() -> None:
    ports = [{"containerPort": 1, "hostPort": number + 1} for number in range(5000)]
    there = []
    for number in range(NODES - 1):
        taken = pod(f"many-{number}", "evil", "many", nodeName=f"n{number}")
        taken["spec"]["containers"][0]["ports"] = ports
        there.append({**taken, "status": {"phase": "Running"}})
    waiting = pod("app-port", "team0", "port")
    waiting["spec"]["containers"][0]["ports"] = [{"containerPort": 1, "hostPort": 4000}]
    assert nodes_of(result_of([waiting], there)) == {"app-port": f"n{NODES - 1}"}


def test_the_wall_clock_ends_the_reading_of_rules() -> None:
    """Pods without rules have their nodes; the others say why they wait."""
    result = result_of(good_pods(), strategy="optimal", time_limit=1e-6)
    assert result["stopped_by"] == "wall_clock" and not result["proven"]
    plain = {f"app{number}-{copied}" for number in range(0, WORKLOADS, 2) for copied in range(3)}
    assert nodes_of(result).keys() == plain
    reasons = {reason for each in result["unplaced"] for reason in each["reasons"]}
    assert reasons == {"unsupported: rules about other pods that time_limit left unread"}


def test_the_wall_clock_ends_the_building_of_a_problem() -> None:
    given = {"nodes": [node(number) for number in range(NODES)], "pods": good_pods()}
    odd = pod("odd", "team0", "odd", **PARTS["requirements of selectors"](50))
    given["pods"].append(odd)
    problem = build_problem(read_instance(SPEC.complete(given)), lambda: True)
    names = {pod.name for group in problem.unread for pod in problem.groups[group].pods}
    assert "odd" in names
    assert len(names) == 1 + 3 * WORKLOADS // 2
    assert not problem.limit[sorted(problem.unread)].any()
