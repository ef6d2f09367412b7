# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checker of proposed moves, from the parameters alone, and a search over all sets of moves.

It shares no code with the solver. A pod may move to any node to which kube-scheduler would bind it
with all other pods in place. Watts are computed from scratch in each state.
"""

from __future__ import annotations

import itertools
from collections import Counter

from support.placement_checker import TOLERANCE_WATTS, Fleet
from support.placement_rules import (
    Json,
    Node,
    Placed,
    Pod,
    collide,
    finds_company,
    get,
    is_even,
    selects,
)

# Node of each movable pod, in the order of the pods.
State = tuple[int, ...]


class MovingFleet:
    """The fleet after the waiting pods are bound; its pods are those that may move."""

    def __init__(self, parameters: Json, result: Json) -> None:
        self._parameters = parameters
        node_of = {entry["pod"]: entry["node"] for entry in result["placements"]}
        bound = [
            {**pod, "node_name": node_of[pod["name"]]}
            for pod in parameters["pods"]
            if pod["name"] in node_of
        ]
        movable = [pod for pod in parameters["running"] if self._comes_back(pod)]
        staying = [pod for pod in parameters["running"] if not self._comes_back(pod)]
        self.fleet = Fleet(
            {
                **parameters,
                "pods": [
                    {key: value for key, value in pod.items() if key != "node_name"}
                    for pod in movable
                ],
                "running": [*staying, *bound],
            }
        )
        names = [node.name for node in self.fleet.nodes]
        homes = {pod["name"]: names.index(pod["node_name"]) for pod in movable}
        self.pods = self.fleet.pods
        self.nodes = self.fleet.nodes
        self.home: State = tuple(homes[pod.name] for pod in self.pods)

    def _comes_back(self, pod: Json) -> bool:
        owners = get(pod, "ownerReferences", [])
        return any(owner.get("controller") for owner in owners) and (
            get(pod, "schedulerName") == self._parameters.get("scheduler_name", "wattwise")
        )

    def placed(self, state: State) -> list[Placed]:
        return [(pod, self.nodes[node]) for pod, node in zip(self.pods, state, strict=True)]

    def on(self, state: State, node: Node) -> list[Pod]:
        return [pod for pod, where in self.placed(state) if where is node]

    def watts(self, state: State) -> float:
        return sum(self.fleet.watts(node, self.on(state, node)) for node in self.nodes)

    def asleep(self, state: State) -> set[str]:
        """Nodes without a workload that may be switched off."""
        return {
            node.name
            for node in self.nodes
            if self.fleet.power_off and not node.occupied and not self.on(state, node)
        }

    def takes(self, state: State, index: int, node: Node) -> bool:
        """Whether kube-scheduler would bind the pod to the node with all others in place."""
        pod = self.pods[index]
        others = [each for each in self.placed(state) if each[0] is not pod]
        there = [other for other, where in others if where is node]
        return (
            self.fleet.is_open(node, pod)
            and self.fleet.holds(node, [*there, pod])
            and not any(collide((pod, node), other) for other in others)
            and finds_company(pod, node, [*self.fleet.running, *others])
            and is_even(pod, node, [*self.fleet.running, *others], self.nodes)
        )

    def budgets_allow(self, moved: list[Pod]) -> bool:
        covered: Counter[int] = Counter()
        for pod in moved:
            covering = [
                index
                for index, budget in enumerate(self._parameters["pod_disruption_budgets"])
                if budget["metadata"]["namespace"] == pod.namespace
                and selects(budget["spec"].get("selector"), pod.labels)
            ]
            if len(covering) > 1:
                return False
            covered.update(covering)
        budgets = self._parameters["pod_disruption_budgets"]
        return all(
            number <= budgets[index]["status"]["disruptionsAllowed"]
            for index, number in covered.items()
        )


def wrong_steps(parameters: Json, result: Json) -> list[str]:
    """Errors in the steps of a result; should be empty."""
    moving = MovingFleet(parameters, result)
    index_of = {pod.name: index for index, pod in enumerate(moving.pods)}
    names = [node.name for node in moving.nodes]
    found: list[str] = []
    state, moved = moving.home, list[int]()
    for step in result["steps"]:
        first, saved = state, list[float]()
        for move in step["moves"]:
            index, target = index_of[move["pod"]], names.index(move["to_node"])
            if index in moved or names[state[index]] != move["from_node"]:
                found.append(f"{move['pod']} is not on {move['from_node']}, or moves twice")
            if not moving.takes(state, index, moving.nodes[target]):
                found.append(f"{move['pod']} may not go to {move['to_node']}")
            before = moving.watts(state)
            state = (*state[:index], target, *state[index + 1 :])
            moved.append(index)
            saved.append(before - moving.watts(state))
            if abs(saved[-1] - move["gain_watts"]) > TOLERANCE_WATTS:
                found.append(f"moving {move['pod']} saves {saved[-1]}")
        found += _wrong_figures(step, saved, float(parameters["min_gain_watts"]))
        if set(step["asleep"]) != moving.asleep(state) - moving.asleep(first):
            found.append(f"{step['asleep']} do not fall asleep")
    if len(moved) > parameters["max_moves"]:
        found.append("there are too many moves")
    if not moving.budgets_allow([moving.pods[index] for index in moved]):
        found.append("budgets forbid the moves")
    return found


def _wrong_figures(step: Json, saved: list[float], least_gain: float) -> list[str]:
    total = sum(saved)
    reached = list(itertools.accumulate(saved))[:-1]
    checks = {
        "gain_watts": abs(step["gain_watts"] - total) < TOLERANCE_WATTS,
        "cost_if_stopped_watts": abs(
            step["cost_if_stopped_watts"] - max(0.0, -min([0.0, *reached]))
        )
        < TOLERANCE_WATTS,
        "the number of moves": bool(saved) and total >= least_gain * len(saved) - TOLERANCE_WATTS,
    }
    return [f"{name} of a step is wrong" for name, is_right in checks.items() if not is_right]


def value(parameters: Json, steps: list[Json]) -> float:
    """Watts saved by all steps, minus the minimum gain of each move."""
    moves = [move for step in steps for move in step["moves"]]
    return float(
        sum(step["gain_watts"] for step in steps) - parameters["min_gain_watts"] * len(moves)
    )


def best_value(parameters: Json, result: Json) -> float:
    """Value of the best set of moves that can be made one after another."""
    moving = MovingFleet(parameters, result)
    before = moving.watts(moving.home)
    heads, seen, best = [moving.home], {moving.home}, 0.0
    while heads:
        state = heads.pop()
        moved = [i for i, node in enumerate(state) if node != moving.home[i]]
        price = parameters["min_gain_watts"] * len(moved)
        best = max(best, before - moving.watts(state) - price)
        if len(moved) == parameters["max_moves"]:
            continue
        for index in set(range(len(state))) - set(moved):
            for target, node in enumerate(moving.nodes):
                after = (*state[:index], target, *state[index + 1 :])
                if after in seen or not moving.takes(state, index, node):
                    continue
                if moving.budgets_allow([moving.pods[each] for each in (*moved, index)]):
                    seen.add(after)
                    heads.append(after)
    return best
