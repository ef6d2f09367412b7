# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that arrive one by one: placers that see one pod at a time, and the rebalancing afterwards.

kube-scheduler with the extender is simulated: its filter for resources, the extender's answers to
real bodies, and kube-scheduler's own scores for resources among the nodes with the most points. At
the weight that operator/config ships, one point outvotes the scores for resources.
"""

from __future__ import annotations

import datetime
import json
import random
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.extender import publication, views
from ansible_collections.wattwise.kube.plugins.module_utils.extender.answering import Extender
from ansible_collections.wattwise.kube.plugins.module_utils.extender.cluster_state import (
    ClusterState,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.baselines.score_plugins import (
    BalancedAllocation,
    ClusterView,
    LeastAllocated,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import SPEC, place
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curves
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import Node, Pod
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.plan import Plan
from support.placement_instance import read_instance

Json = dict[str, t.Any]

RULES = ("allow_power_off", "standby_watts")
SCHEDULER = "wattwise"
_PLUGINS = (LeastAllocated(), BalancedAllocation())


def shuffled(task: Json, seed: int) -> Json:
    """A task of the fleets with each pod on its own, arrivals and names in random order."""
    pods = [one for one in task["pods"] for _copy in range(one.get("count", 1))]
    random.Random(seed).shuffle(pods)
    named = [
        {**one, "name": f"pod-{number:06}", "namespace": "bench"} for number, one in enumerate(pods)
    ]
    return {**task, "pods": [{k: v for k, v in one.items() if k != "count"} for one in named]}


def kubernetes_node(short: Json) -> Json:
    return {
        "metadata": {"name": short["name"], "labels": short.get("labels") or {}},
        "status": {"allocatable": short["allocatable"], "capacity": short["allocatable"]},
    }


def kubernetes_pod(short: Json, node: str = "") -> Json:
    """The pod as the API server has it; a controller would replace it."""
    container = {"name": "main", "resources": {"requests": short["requests"]}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": True}
    return {
        "metadata": {
            "name": short["name"],
            "namespace": short["namespace"],
            "uid": f"uid-{short['name']}",
            "ownerReferences": [owner],
        },
        "spec": {
            "schedulerName": SCHEDULER,
            "containers": [container],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


def there_before(short: Json) -> Json | None:
    """A pod for the initial usage of a node, if it has any."""
    if not short.get("used"):
        return None
    one = {"name": f"before-{short['name']}", "namespace": "before", "requests": short["used"]}
    return kubernetes_pod(one, short["name"])


def published(task: Json) -> Json:
    """The publication of a run for the task's nodes."""
    options = {**SPEC.complete({"nodes": []}), **_rules(task)}
    now = datetime.datetime.now(datetime.UTC)
    curves = Curves.from_document({one["name"]: one["curve"] for one in task["nodes"]})
    return publication.publication_of(curves.by_node, Plan(()), options, now)


def _rules(task: Json) -> Json:
    return {name: task[name] for name in RULES if name in task}


def watts(task: Json, placements: t.Mapping[str, str]) -> float:
    """Power draw of the fleet with each pod on its node, by one calculation for all placers."""
    given = {"nodes": task["nodes"], "pods": [], "running": _running(task, placements)}
    found: float = place({**given, **_rules(task), "strategy": "greedy"})["watts"]["before"]
    return found


def _running(task: Json, placements: t.Mapping[str, str]) -> list[Json]:
    return [
        kubernetes_pod(one, placements[one["name"]])
        for one in task["pods"]
        if one["name"] in placements
    ]


def outcome(task: Json, placements: t.Mapping[str, str]) -> Json:
    return {
        "watts": watts(task, placements),
        "placed": len(placements),
        "placements": dict(placements),
    }


def by_strategy(parameters: Json) -> Json:
    """A strategy of power_placement; all but ``optimal`` take the pods in the given order."""
    task = {**parameters["task"], "strategy": parameters["strategy"]}
    plan = place(task)
    return outcome(parameters["task"], {one["pod"]: one["node"] for one in plan["placements"]})


def by_extender(parameters: Json) -> Json:
    """kube-scheduler with the extender, pod by pod."""
    task = parameters["task"]
    return outcome(task, _ArrivingPods(task, parameters["seed"]).placements())


def rebalanced(parameters: Json) -> Json:
    """Run ``rebalance`` after the placements until no move pays."""
    task, placements = parameters["task"], dict(parameters["placements"])
    moved = 0
    for _run in range(parameters["runs"]):
        given = {
            "nodes": task["nodes"],
            "pods": [],
            "running": _running(task, placements),
            **_rules(task),
            **{"rebalance": True, "max_moves": parameters["moves"], "min_gain_watts": 1.0},
            **{"scheduler_name": SCHEDULER, "strategy": "greedy"},
        }
        moves = [move for step in place(given)["steps"] for move in step["moves"]]
        placements.update({move["pod"]: move["to_node"] for move in moves})
        moved += len(moves)
        if not moves:
            break
    return {**outcome(task, placements), "moves": moved}


class _ArrivingPods:
    def __init__(self, task: Json, seed: int) -> None:
        self._task, self._chance = task, random.Random(seed)
        self._state = ClusterState()
        self._extender = Extender(self._state)
        instance = read_instance(SPEC.complete(task))
        self._nodes: list[Node] = list(instance.nodes)
        self._pods: dict[str, Pod] = {pod.name: pod for pod in instance.pods}
        self._free = [dict(node.free) for node in self._nodes]
        self._view = ClusterView(instance.nodes)
        for short in task["nodes"]:
            node = kubernetes_node(short)
            self._state.set_node(short["name"], views.view_node(node))
            before = there_before(short)
            if before is not None:
                self._bind(before)
        body = {"binaryData": publication.packed(published(task))}
        self._state.set_publication(("bench", "publication"), publication.read(body))

    def placements(self) -> dict[str, str]:
        found = {}
        for short in self._task["pods"]:
            node = self._node_for(short)
            if node is not None:
                found[short["name"]] = node
        return found

    def _node_for(self, short: Json) -> str | None:
        requests = self._pods[short["name"]].shape.requests
        fitting = [
            index
            for index, free in enumerate(self._free)
            if all(free.get(name, 0) >= amount for name, amount in requests)
        ]
        if not fitting:
            return None
        names = [self._nodes[index].name for index in fitting]
        body = {"Pod": kubernetes_pod(short), "Nodes": None, "NodeNames": names}
        left = set(json.loads(self._extender.filter(json.dumps(body).encode()))["NodeNames"])
        body["NodeNames"] = [name for name in names if name in left]
        scores = json.loads(self._extender.prioritize(json.dumps(body).encode()))
        index_of = dict(zip(names, fitting, strict=True))
        highest = max(one["Score"] for one in scores)
        best = [index_of[one["Host"]] for one in scores if one["Score"] == highest]
        chosen = self._most_spread(short["name"], best)
        for name, amount in requests:
            self._free[chosen][name] = self._free[chosen].get(name, 0) - amount
        self._view.bind(self._pods[short["name"]], chosen)
        node = self._nodes[chosen].name
        self._bind(kubernetes_pod(short, node))
        return node

    def _most_spread(self, name: str, nodes: t.Sequence[int]) -> int:
        """The best node by kube-scheduler's scores for resources, with random ties as there."""
        if len(nodes) == 1:
            return nodes[0]
        pod = self._pods[name]
        totals = [sum(one.score(pod, node, self._view) for one in _PLUGINS) for node in nodes]
        most = max(totals)
        return self._chance.choice(
            [node for node, total in zip(nodes, totals, strict=True) if total == most]
        )

    def _bind(self, pod: Json) -> None:
        key = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self._state.set_pod(key, views.view_pod(pod))
