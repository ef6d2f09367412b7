# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The optimum of small placement tasks, by trying every assignment.

Shares no code with the solver.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Sequence

from support.placement_checker import Fleet, Json, Node, Pod

Value = tuple[t.Any, ...]


def optimum(parameters: Json) -> Value:
    """The value of the best assignment of all: see Fleet.value."""
    fleet = Fleet(parameters)
    return max(fleet.value(assignment) for assignment in assignments(fleet, None))


def optimum_of_the_same_pods(parameters: Json, result: Json) -> Value:
    """The value of the best assignment that places exactly the pods that the result places."""
    fleet = Fleet(parameters)
    placed = {(entry["namespace"], entry["pod"]) for entry in result["placements"]}
    return max(fleet.value(assignment) for assignment in assignments(fleet, placed))


def assignments(fleet: Fleet, placed: set[tuple[str, str]] | None) -> Iterator[list[list[Pod]]]:
    """Every feasible assignment, pods by node; of equal pods only one order.

    With ``placed`` exactly those pods are placed.
    """
    choices = [
        [
            *([] if placed and (pod.namespace, pod.name) in placed else [None]),
            *(
                index
                for index, node in enumerate(fleet.nodes)
                if fleet.is_open(node, pod)
                and (placed is None or (pod.namespace, pod.name) in placed)
            ),
        ]
        for pod in fleet.pods
    ]
    yield from _extend(fleet, choices, [[] for _node in fleet.nodes], [])


def _extend(
    fleet: Fleet,
    choices: Sequence[Sequence[int | None]],
    by_node: list[list[Pod]],
    chosen: list[int | None],
) -> Iterator[list[list[Pod]]]:
    position = len(chosen)
    if position == len(fleet.pods):
        yield by_node
        return
    pod = fleet.pods[position]
    same_as_before = position > 0 and alike(fleet.pods[position - 1], pod)
    for choice in choices[position]:
        if same_as_before and rank(choice) < rank(chosen[-1]):
            continue
        if choice is None:
            yield from _extend(fleet, choices, by_node, [*chosen, None])
            continue
        by_node[choice].append(pod)
        if fits(fleet, fleet.nodes[choice], by_node[choice]):
            yield from _extend(fleet, choices, by_node, [*chosen, choice])
        by_node[choice].pop()


def fits(fleet: Fleet, node: Node, pods: Sequence[Pod]) -> bool:
    return fleet.fits(node, pods)


def alike(first: Pod, second: Pod) -> bool:
    """Whether two pods come from the same entry with a count."""
    return first.wishes is second.wishes


def rank(choice: int | None) -> int:
    return 10**6 if choice is None else choice
