# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""One sentence over all nodes why a pod gets no devices, like kube-scheduler's events."""

from __future__ import annotations

import collections
import typing as t

from ..base.json_types import Object
from ..scheduling.feasibility import availability_message
from .model.findings import Key
from .model.task import Task

# Reasons by the names of nodes that do not take the pod at all.
Hindrances = t.Callable[[Key], t.Mapping[str, str]]

_NO_DEVICES = "node(s) without the devices"
_NOT_FOR_THE_POD = "node(s) didn't match Pod's node affinity/selector"
_OUT_OF_TIME = " The time limit ended the search; raise it."


def unplaced_messages(
    task: Task,
    pods: t.Iterable[Key],
    node_results: t.Iterable[Object],
    hindrances: Hindrances | None,
    out_of_time: bool,
) -> dict[Key, str]:
    """A sentence for each pod that counts the nodes by reason.

    A node counts with the reason that excludes the pod at all, else with its lack of devices.
    """
    names = [node.name for node in task.instance.nodes]
    why_not = hindrances or _by_units(task, names)
    lacking: dict[Key, dict[str, str]] = collections.defaultdict(dict)
    for result in node_results:
        for pod in result.get("pods", ()):
            lacking[pod["namespace"], pod["name"]][result["NodeName"]] = _lacking_on(result)
    messages: dict[Key, str] = {}
    for key in pods:
        closed = why_not(key)
        counted = collections.Counter(
            closed.get(name) or lacking[key].get(name, _NO_DEVICES) for name in names
        )
        ordered = dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))
        messages[key] = availability_message(ordered, len(names))
        if out_of_time:
            messages[key] += _OUT_OF_TIME
    return messages


def _by_units(task: Task, names: t.Sequence[str]) -> Hindrances:
    """Hindrances by the task itself, for the nodes of each pod."""
    nodes = {key: unit.nodes for unit, keys in zip(task.instance.units, task.pods) for key in keys}

    def why_not(key: Key) -> t.Mapping[str, str]:
        allowed = nodes[key]
        return {
            name: _NOT_FOR_THE_POD for name in names if allowed is not None and name not in allowed
        }

    return why_not


def _lacking_on(result: t.Mapping[str, t.Any]) -> str:
    """The lack of a node's first unsatisfied claim, in the prototype's words."""
    for claim in result["DeviceClaimResults"]:
        if claim["best"] < 0:
            sets = [one.get("failureReason") for one in claim.get("poolSetResults") or ()]
            pools = [one.get("failureReason") for one in claim.get("ignoredPools") or ()]
            told = [reason for reason in (*sets[-1:], *pools) if reason]
            return f"{claim['claimName']}: {told[0] if told else 'no pool'}"
    return "the claims together"
