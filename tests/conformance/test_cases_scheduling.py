# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public bug reports about what kube-scheduler and the eviction API count, and their relatives.

Sources: k8s.io/component-helpers/resource v0.37 and, of kubernetes v1.37,
pkg/scheduler/framework/runtime/framework.go and pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

import copy
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.pod_reader import (
    held_requests,
)
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot.pods import trim_pod

Json = dict[str, t.Any]

CASES = Path(__file__).parent / "cases"
STRATEGIES = ("greedy", "spread", "peaks", "minimize_power", "optimal")


def case(name: str, file: str = "input.yaml") -> Json:
    return t.cast("Json", yaml.safe_load((CASES / name / file).read_text()))


def answer(given: Json, tmp_path: Path, **options: t.Any) -> Json:
    """The result of placement for the content of a file."""
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump(given))
    return place({"src": [str(path)], "time_limit": 20.0, **options})


def nodes_of(result: Json) -> dict[str, str]:
    return {each["pod"]: each["node"] for each in result["placements"]}


# A resize in place.


def resizing(reason: str = "Infeasible", **parts: t.Any) -> Json:
    given = case("06-resize-infeasible")
    [batch] = given["running"]
    batch["status"]["conditions"][0]["reason"] = reason
    batch["status"].update(parts)
    return given


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_infeasible_resize_holds_what_the_pod_has(tmp_path: Path, strategy: str) -> None:
    result = answer(case("06-resize-infeasible"), tmp_path, strategy=strategy)
    assert nodes_of(result) == {"web": "w1"}


@pytest.mark.parametrize("reason", ["Deferred", "", None])
def test_any_other_resize_holds_what_it_asks_for(tmp_path: Path, reason: str) -> None:
    assert nodes_of(answer(resizing(reason), tmp_path)) == {}


def container(name: str, cpu: str, **fields: t.Any) -> Json:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **fields}


def status(name: str, allocated: str | None, actual: str | None = None) -> Json:
    found: Json = {"name": name}
    if allocated is not None:
        found["allocatedResources"] = {"cpu": allocated}
    if actual is not None:
        found["resources"] = {"requests": {"cpu": actual}}
    return found


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
SIDECAR = container("side", "9", restartPolicy="Always")
START = container("start", "9")


@pytest.mark.parametrize(
    ("spec", "told", "millicores"),
    [
        # The larger of allocated and actual counts, for the sums over all containers.
        ([container("a", "9")], {"containerStatuses": [status("a", "2", "3")]}, 3000),
        ([container("a", "9")], {"containerStatuses": [status("a", "3", "2")]}, 3000),
        (
            [container("a", "9"), container("b", "9")],
            {"containerStatuses": [status("a", "1", "3"), status("b", "3", "1")]},
            4000,
        ),
        # A container without an actual amount has what is allocated, and one without both nothing.
        ([container("a", "9")], {"containerStatuses": [status("a", "2")]}, 2000),
        ([container("a", "9")], {"containerStatuses": [status("a", None)]}, 0),
        ([container("a", "9")], {}, 0),
        # The request that was not changed is in the status too.
        (
            [container("a", "9"), container("b", "1")],
            {"containerStatuses": [status("a", "2", "2"), status("b", "1", "1")]},
            3000,
        ),
    ],
)
def test_of_an_infeasible_resize_only_the_status_counts(
    spec: list[Json], told: Json, millicores: int
) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"nodeName": "w1", "containers": spec, "overhead": {"cpu": "100m"}},
        "status": {"phase": "Running", "conditions": [INFEASIBLE], **told},
    }
    assert held_requests(pod) == held_requests(trim_pod(pod)), "the snapshot keeps what counts"
    assert held_requests(pod).get("cpu", 0) == millicores + 100


def test_sidecars_and_init_containers_are_resized_too() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "nodeName": "w1",
            "containers": [container("a", "9")],
            "initContainers": [SIDECAR, START],
        },
        "status": {
            "conditions": [INFEASIBLE],
            "containerStatuses": [status("a", "1")],
            "initContainerStatuses": [status("side", "2"), status("start", "4")],
        },
    }
    assert held_requests(pod) == held_requests(trim_pod(pod)) == {"cpu": 6000}


@pytest.mark.parametrize(("reason", "millicores"), [("Infeasible", 3100), ("Deferred", 9100)])
def test_a_pod_with_requests_of_its_own_is_resized_as_a_whole(reason: str, millicores: int) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "nodeName": "w1",
            "containers": [container("a", "1")],
            "resources": {"requests": {"cpu": "9"}},
            "overhead": {"cpu": "100m"},
        },
        "status": {
            "conditions": [{**INFEASIBLE, "reason": reason}],
            "containerStatuses": [status("a", "1", "1")],
            "allocatedResources": {"cpu": "2"},
            "resources": {"requests": {"cpu": "3"}},
        },
    }
    assert held_requests(pod) == held_requests(trim_pod(pod)) == {"cpu": millicores}


# Evictions that budgets allow.

BUDGETS = "19-pdb-alwaysallow-crashloop"


def moves(given: Json, tmp_path: Path) -> list[str]:
    result = answer(given, tmp_path, rebalance=True, allow_power_off=True)
    return [move["pod"] for step in result["steps"] for move in step["moves"]]


@pytest.mark.parametrize("file", ["input.yaml", "if-healthy-budget.json"])
def test_the_unready_pod_moves_and_not_the_healthy_one(tmp_path: Path, file: str) -> None:
    given = case(BUDGETS, file)
    result = answer(given, tmp_path, rebalance=True, allow_power_off=True)
    [step] = result["steps"]
    [move] = step["moves"]
    assert (move["pod"], move["from_node"], move["to_node"]) == ("api-0", "w2", "w1")
    assert step["asleep"] == ["w2"]


READY = {"type": "Ready", "status": "True"}


def changed(**parts: t.Any) -> Json:
    """Case 19 with other fields of the budget's spec, its status, or of the pod api-0."""
    given = case(BUDGETS)
    [budget] = given["pod_disruption_budgets"]
    budget["spec"].update(parts.get("spec", {}))
    budget["status"].update(parts.get("status", {}))
    budget["metadata"].update(parts.get("metadata", {}))
    given["running"][1]["status"].update(parts.get("pod", {}))
    return given


@pytest.mark.parametrize(
    ("parts", "moved"),
    [
        # A ready pod needs an allowed disruption, whatever the policy.
        ({"pod": {"conditions": [READY]}}, "db-0"),
        ({"pod": {"conditions": [READY]}, "status": {"disruptionsAllowed": 1}}, "api-0"),
        # Nobody knows whether a pod without conditions is ready.
        ({"pod": {"conditions": None}}, "db-0"),
        # IfHealthyBudget, which is the default: the unready pod may go if the others are enough.
        ({"spec": {"unhealthyPodEvictionPolicy": "IfHealthyBudget"}}, "db-0"),
        ({"spec": {"unhealthyPodEvictionPolicy": None}}, "db-0"),
        (
            {
                "spec": {"unhealthyPodEvictionPolicy": "IfHealthyBudget"},
                "status": {"currentHealthy": 1, "desiredHealthy": 1},
            },
            "api-0",
        ),
        # A desired number of 0 is no sign of health.
        (
            {
                "spec": {"unhealthyPodEvictionPolicy": None},
                "status": {"currentHealthy": 0, "desiredHealthy": 0},
            },
            "db-0",
        ),
        # The status of an older budget decides nothing about ready pods.
        (
            {
                "pod": {"conditions": [READY]},
                "status": {"disruptionsAllowed": 5},
                "metadata": {"generation": 2},
            },
            "db-0",
        ),
        ({"metadata": {"generation": 2}}, "api-0"),
        # The API server counts pods that are evicted and not gone.
        (
            {
                "pod": {"conditions": [READY]},
                "status": {
                    "disruptionsAllowed": 5,
                    "disruptedPods": {
                        f"p{number}": "2026-01-01T00:00:00Z" for number in range(2001)
                    },
                },
            },
            "db-0",
        ),
        ({"pod": {"conditions": [READY]}, "status": {"disruptionsAllowed": -1}}, "db-0"),
    ],
)
def test_evictions_are_those_of_the_api_server(tmp_path: Path, parts: Json, moved: str) -> None:
    assert moves(changed(**parts), tmp_path) == [moved]


def test_a_pod_of_two_budgets_stays_even_if_it_is_not_ready(tmp_path: Path) -> None:
    given = case(BUDGETS)
    other = copy.deepcopy(given["pod_disruption_budgets"][0])
    other["metadata"]["name"] = "other"
    given["pod_disruption_budgets"].append(other)
    assert moves(given, tmp_path) == ["db-0"]


def test_unready_pods_use_up_no_disruption(tmp_path: Path) -> None:
    """Two unready pods and a ready one leave a node together, and the budget allows one."""
    given = case(BUDGETS)
    ready, unready = given["running"]
    del ready["metadata"]["ownerReferences"]
    given["running"] = [ready]
    for number in range(3):
        each = copy.deepcopy(unready)
        each["metadata"]["name"] = f"api-{number}"
        given["running"].append(each)
    given["running"][1]["status"]["conditions"] = [READY]
    given["pod_disruption_budgets"][0]["status"]["disruptionsAllowed"] = 1
    assert sorted(moves(given, tmp_path)) == ["api-0", "api-1", "api-2"]
    given["pod_disruption_budgets"][0]["status"]["disruptionsAllowed"] = 0
    assert moves(given, tmp_path) == []


# Pods that kube-scheduler has nominated for a node.

NOMINATED = "07-nominated-preemptor"


def beside(
    urgent: Json | None = None, batch: Json | None = None, *, status: Json | None = None
) -> Json:
    """Case 07 with other fields in the specs of both pods, and in the nominated one's status."""
    given = case(NOMINATED)
    given["running"][0]["spec"].update(urgent or {})
    given["running"][0]["status"].update(status or {})
    given["pods"][0]["spec"].update(batch or {})
    for node in given["nodes"]:
        node["metadata"]["labels"] = {"host": node["metadata"]["name"], "zone": "a"}
    return given


def placed_by_all(given: Json, tmp_path: Path) -> dict[str, str]:
    """The nodes by pod, which all strategies that do not look at watts must allow too."""
    best = nodes_of(answer(given, tmp_path))
    for strategy in ("greedy", "spread", "peaks", "minimize_power"):
        found = nodes_of(answer(given, tmp_path, strategy=strategy))
        assert found.keys() == best.keys(), strategy
    return best


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_pod_leaves_the_room_that_a_nominated_one_waits_for(
    tmp_path: Path, strategy: str
) -> None:
    assert nodes_of(answer(case(NOMINATED), tmp_path, strategy=strategy)) == {"batch": "w2"}


@pytest.mark.parametrize(
    ("priority", "node"), [(0, "w2"), (99_999, "w2"), (100_000, "w2"), (100_001, "w1")]
)
def test_pods_of_higher_priority_need_not_leave_it(
    tmp_path: Path, priority: int, node: str
) -> None:
    assert placed_by_all(beside(batch={"priority": priority}), tmp_path) == {"batch": node}


def test_the_reason_names_what_is_promised(tmp_path: Path) -> None:
    given = beside()
    del given["nodes"][1]
    result = answer(given, tmp_path)
    [unplaced] = result["unplaced"]
    assert unplaced["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert unplaced["fits_empty_fleet"] is True


@pytest.mark.parametrize(
    "status",
    [{"nominatedNodeName": ""}, {"nominatedNodeName": "gone"}, {"phase": "Failed"}],
)
def test_a_nomination_that_is_none_holds_no_room(tmp_path: Path, status: Json) -> None:
    given = beside(status=status)
    if not status.get("nominatedNodeName", "w1"):
        given["running"] = []
    assert placed_by_all(given, tmp_path) == {"batch": "w1"}


def test_a_pod_that_is_bound_already_counts_once(tmp_path: Path) -> None:
    given = beside({"nodeName": "w1"}, {"containers": [container("main", "1")]})
    assert placed_by_all(given, tmp_path) == {"batch": "w1"}


def test_the_nominated_pod_itself_gets_its_room(tmp_path: Path) -> None:
    given = beside()
    [urgent] = given["running"]
    given.update(running=[], pods=[urgent])
    assert placed_by_all(given, tmp_path) == {"urgent": "w1"}


def small(**fields: t.Any) -> Json:
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": "100m"}}, **fields}]}


def apart(labels: Json, key: str, **fields: t.Any) -> Json:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **fields}
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    }


def near(labels: Json, key: str, **fields: t.Any) -> Json:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **fields}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def labelled(given: Json) -> Json:
    given["running"][0]["metadata"]["labels"] = {"app": "urgent"}
    given["pods"][0]["metadata"]["labels"] = {"app": "batch"}
    return given


PORT = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
EVERYWHERE: Json = {"namespaceSelector": {}}


def test_ports_of_a_nominated_pod_are_taken(tmp_path: Path) -> None:
    given = beside(small(**PORT), small(**PORT))
    assert placed_by_all(given, tmp_path) == {"batch": "w2"}
    given["pods"][0]["spec"]["priority"] = 100_001
    assert placed_by_all(given, tmp_path) == {"batch": "w1"}


def test_disks_of_a_nominated_pod_are_taken(tmp_path: Path) -> None:
    disk = {"volumes": [{"name": "d", "awsElasticBlockStore": {"volumeID": "v1"}}]}
    given = beside({**small(), **disk}, {**small(), **disk})
    given["volume_objects"] = []
    assert placed_by_all(given, tmp_path) == {"batch": "w2"}


@pytest.mark.parametrize("key", ["host", "zone"])
@pytest.mark.parametrize("whose", ["batch", "urgent"])
def test_anti_affinity_counts_nominated_pods_on_their_node(
    tmp_path: Path, whose: str, key: str
) -> None:
    """As in kube-scheduler, w2 is open although it is in the same zone."""
    other = "urgent" if whose == "batch" else "batch"
    rule = {**small(), **apart({"app": other}, key, **EVERYWHERE)}
    rules = {whose: rule, other: small()}
    given = labelled(beside(rules["urgent"], rules["batch"]))
    assert placed_by_all(given, tmp_path) == {"batch": "w2"}
    given["pods"][0]["spec"]["priority"] = 100_001
    assert placed_by_all(given, tmp_path) == {"batch": "w1"}


def test_required_affinity_is_not_met_by_a_nominated_pod(tmp_path: Path) -> None:
    """The second pass of kube-scheduler: the nominated pod may still go elsewhere."""
    given = labelled(beside(small(), {**small(), **near({"app": "urgent"}, "host", **EVERYWHERE)}))
    assert placed_by_all(given, tmp_path) == {}


def spread(labels: Json) -> Json:
    rule = {
        "maxSkew": 1,
        "topologyKey": "host",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    return {**small(), "topologySpreadConstraints": [rule]}


def test_spread_counts_nominated_pods_and_passes_without_them_too(tmp_path: Path) -> None:
    given = labelled(beside(small(), spread({"app": "batch"})))
    [urgent], [batch] = given["running"], given["pods"]
    urgent["metadata"].update(namespace="jobs", labels={"app": "batch"})
    assert placed_by_all(given, tmp_path) == {"batch": "w2"}
    # With two of them each host gets one; the next host is open again.
    second = copy.deepcopy(batch)
    second["metadata"]["name"] = "second"
    given["pods"].append(second)
    assert sorted(placed_by_all(given, tmp_path).values()) == ["w1", "w2"]
    # Without the nominated pod w1 would be too full already.
    given["pods"].pop()
    running = copy.deepcopy(batch)
    running["metadata"]["name"] = "runs"
    running["spec"]["nodeName"] = "w2"
    running["status"] = {"phase": "Running"}
    given["running"].append(running)
    given["running"][0]["status"]["nominatedNodeName"] = "w2"
    assert placed_by_all(given, tmp_path) == {"batch": "w1"}


def test_a_snapshot_keeps_nominations(tmp_path: Path) -> None:
    given = case(NOMINATED)
    [urgent] = given["running"]
    trimmed = trim_pod({"apiVersion": "v1", "kind": "Pod", **urgent})
    assert nodes_of(answer({**given, "running": [trimmed]}, tmp_path)) == {"batch": "w2"}


def test_a_nominated_pod_that_cannot_be_read_is_found(tmp_path: Path) -> None:
    given = beside({"priority": "high"})
    [finding] = answer(given, tmp_path)["findings"]
    assert (finding["name"], finding["field"]) == ("urgent", "spec.priority")


def test_moves_leave_the_room_of_nominated_pods(tmp_path: Path) -> None:
    given = case(NOMINATED)
    [batch] = given.pop("pods")
    owner = {"kind": "ReplicaSet", "name": "b", "uid": "u", "controller": True}
    batch["metadata"]["ownerReferences"] = [owner]
    batch["spec"].update(nodeName="w2", schedulerName="wattwise")
    batch["status"] = {"phase": "Running"}
    given["running"].append(batch)
    assert answer(given, tmp_path, rebalance=True)["steps"] == []
    del given["running"][0]
    assert answer(given, tmp_path, rebalance=True)["steps"] != []
