# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Allocation of devices to claims, the work of device_allocation."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ..base import documents
from ..base.argspec import ArgumentSpec
from ..base.boundary import warn_of
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput
from ..base.json_types import Object
from ..base.manifests import read_file, read_manifests
from ..scheduling.feasibility import availability_message
from ..solving.limits import LIMITS, Limits
from .dra import reader as dra
from .k8srm import reader as k8srm
from .k8srm.status import render
from .model.findings import ApiObject, Defect, Key, read_objects
from .model.model import Allocation, ConflictPart, Instance
from .model.task import Options, Refusal, Task
from .model.watts import with_watts
from .solve import first_fit, optimal
from .solve.conflict import conflict_between_units, minimal_conflict
from .solve.explain import Explainer
from .solve.matching import conflict_of_plain_claims
from .solve.search import shape_of

# Strategies by name. If one leaves ``Allocation.conflict`` empty, ``describe`` fills it.
STRATEGIES: t.Mapping[str, t.Callable[[Instance, Limits], Allocation]] = {
    "optimal": optimal.solve,
    "first_fit": first_fit.solve,
}

SPEC = ArgumentSpec(
    {
        "objects": {"type": "list", "elements": "raw"},
        "src": {"type": "list", "elements": "path"},
        "snapshot": {"type": "path"},
        "api_group": {"type": "str", "choices": [dra.GROUP, k8srm.GROUP]},
        "node": {"type": "str"},
        "device_power": {"type": "str"},
        "curves": {"type": "path"},
        "strategy": {"type": "str", "default": "optimal", "choices": list(STRATEGIES)},
        "format": {"type": "str", "default": "native", "choices": ["native", "k8srm"]},
        "verbose": {"type": "bool", "default": False},
        "on_error": {"type": "str", "default": "fail", "choices": ["fail", "report"]},
    },
    required_one_of=(("objects", "src", "snapshot"),),
).merge(LIMITS)

READERS = {dra.GROUP: dra.read, k8srm.GROUP: k8srm.read}
_CORE_KINDS = ("Node", "Pod")
# Limit of node results in the output; results of claims without devices come first.
_MAX_EXPLANATIONS = 1000

# Reasons by the names of nodes that do not take the pod at all.
Hindrances = t.Callable[[Key], t.Mapping[str, str]]
_NO_DEVICES = "node(s) without the devices"
_NOT_FOR_THE_POD = "node(s) didn't match Pod's node affinity/selector"
_OUT_OF_TIME = " The time limit ended the search; raise it."


def allocate(parameters: Parameters, context: Context = Context()) -> Result:
    """Allocate devices to the claims among the objects; change nothing.

    The result is that of the module. Raises InvalidInput and MissingLibrary.
    """
    parameters = SPEC.complete(parameters)
    # The time counts from here, because reading is work too.
    limits = Limits.of(parameters)
    bad: list[Defect] = []
    objects = _objects(parameters, bad)
    group = parameters["api_group"]
    wanted = [group] if group else list(READERS)
    if parameters["snapshot"] and not any(_group(obj) in wanted for obj in objects):
        task = READERS[wanted[0]]([], _options(parameters))
    else:
        task = read_task(objects, _options(parameters), group)
    path = parameters["curves"]
    curves = documents.load(path, "curves")["curves"] if path else {}
    instance = with_watts(task.instance, parameters["device_power"], curves, objects)
    task = dataclasses.replace(task, findings=(*bad, *task.findings), instance=instance)
    warn_of(task.findings, context)
    allocation = STRATEGIES[parameters["strategy"]](task.instance, limits)
    if allocation.errors and parameters["on_error"] == "fail":
        claim, reason = min(allocation.errors.items())
        raise InvalidInput(f"{task.instance.claims[claim]}: {reason}")
    result = describe(task, allocation, Limits.of(parameters))
    if parameters["format"] == "k8srm":
        result["text"] = render(result, parameters["verbose"])
    return {"changed": False, **result}


def _options(parameters: Parameters) -> Options:
    return Options(parameters["node"], parameters["on_error"] == "report")


def read_task(
    objects: t.Sequence[ApiObject], options: Options, api_group: str | None = None
) -> Task:
    """The task that objects of one API define.

    Raises InvalidInput. Without ``api_group`` all objects must be of one API; with it objects of
    the other API are left out.
    """
    group = api_group or _only_group(objects)
    of_use = [
        obj
        for obj in objects
        if _group(obj) == group or (_group(obj) == "" and obj.kind in _CORE_KINDS)
    ]
    if not any(_group(obj) == group for obj in of_use):
        raise InvalidInput(f"objects: none belongs to {group}, which api_group names")
    return READERS[group](of_use, options)


def _only_group(objects: t.Sequence[ApiObject]) -> str:
    groups = sorted({_group(obj) for obj in objects} & READERS.keys())
    if len(groups) > 1:
        raise InvalidInput(
            f"objects: these belong to {' and '.join(groups)}; select one of them with api_group"
        )
    if not groups:
        raise InvalidInput(
            "objects: give pools, classes and claims of one API, either "
            f"{' or '.join(sorted(READERS))}; these belong to neither"
        )
    return groups[0]


def _group(obj: ApiObject) -> str:
    return str(obj.manifest["apiVersion"]).rpartition("/")[0]


def _objects(parameters: Parameters, bad: list[Defect]) -> list[ApiObject]:
    """The given objects; with ``on_error: report`` invalid items are in ``bad``."""
    report, own = parameters["on_error"] == "report", parameters["objects"] or []
    if report and not isinstance(own, str):
        objects = read_objects(own if isinstance(own, list) else [own], "objects", "", bad)
    else:
        objects = [ApiObject(item) for item in read_manifests(own, "objects")]
    for path in parameters["src"] or ():
        objects += [ApiObject(item, path) for item in read_file(path)]
    if parameters["snapshot"]:
        path = parameters["snapshot"]
        document = documents.load(path, "snapshot")
        for part in ("nodes", "pods", "device_objects"):
            objects += read_objects(document.get(part, []), part, path, bad)
    return objects


def describe(
    task: Task, allocation: Allocation, limits: Limits, hindrances: Hindrances | None = None
) -> Result:
    """Result of the module for an answer, with reasons and conflicts.

    ``hindrances`` are the reasons of nodes that do not take a pod, by default those of the task.
    """
    instance = task.instance
    nodes = {found.node for found in allocation.claims if found is not None}
    conflict = allocation.conflict or _conflict(instance, allocation, limits)
    node_results, score = _explain(task, allocation, limits)
    return {
        "outcome": allocation.outcome,
        "allocations": [
            None if found is None else task.result(claim, found)
            for claim, found in enumerate(allocation.claims)
        ],
        "claims": [
            {
                "namespace": instance.claims[claim].namespace,
                "name": instance.claims[claim].name,
                "uid": instance.claims[claim].uid,
                "node": None if found is None else found.node,
            }
            for claim, found in enumerate(allocation.claims)
        ],
        "node": nodes.pop() if len(nodes) == 1 and None not in allocation.claims else None,
        "pods": _pods(task, allocation, node_results, hindrances),
        "score": score,
        "node_results": node_results,
        "conflict": [_describe_part(instance, part) for part in conflict],
        "objective": [
            {"level": level.level, "value": level.value, "bound": level.bound}
            for level in allocation.objective
        ],
        "stopped_by": allocation.stopped_by,
        "findings": [finding.as_dict() for finding in task.findings],
        "refused": _refused(task, allocation),
    }


def _refused(task: Task, allocation: Allocation) -> list[dict[str, str]]:
    """Refused pods and claims, and claims whose search ended at a failing selector."""
    claims = task.instance.claims
    failed = [
        Refusal("ResourceClaim", claims[claim].namespace, claims[claim].name, reason)
        for claim, reason in sorted(allocation.errors.items())
    ]
    return [dataclasses.asdict(refusal) for refusal in (*task.refused, *failed)]


def _pods(
    task: Task,
    allocation: Allocation,
    node_results: list[dict[str, t.Any]],
    hindrances: Hindrances | None,
) -> list[dict[str, str | None]]:
    """The node of each pod whose claims all have devices, or the reason why it has none."""
    nodes: dict[Key, str | None] = {}
    for unit, pods in zip(task.instance.units, task.pods):
        obj = allocation.claims[unit.claims[0]]
        nodes.update(dict.fromkeys(pods, None if obj is None else obj.node))
    unplaced = [key for key, node in nodes.items() if node is None]
    out_of_time = allocation.outcome == "unknown"
    messages = unplaced_messages(task, unplaced, node_results, hindrances, out_of_time)
    for unit, pods in zip(task.instance.units, task.pods):
        for claim in allocation.errors.keys() & set(unit.claims):
            reason = f"{task.instance.claims[claim]}: {allocation.errors[claim]}"
            messages.update(dict.fromkeys(messages.keys() & set(pods), reason))
    return [
        {"namespace": key[0], "name": key[1], "node": node, "message": messages.get(key)}
        for key, node in nodes.items()
    ]


def _explain(
    task: Task, allocation: Allocation, limits: Limits
) -> tuple[list[dict[str, t.Any]], int]:
    """Results by node for every unit, and the least score of the nodes that were chosen."""
    explainer = Explainer(task, allocation, limits)
    results: list[dict[str, t.Any]] = []
    scores: list[int] = []
    many = len(task.instance.units) * len(task.instance.nodes) > _MAX_EXPLANATIONS
    for unit, pods in zip(task.instance.units, task.pods):
        satisfied = all(allocation.claims[claim] is not None for claim in unit.claims)
        scores.append(100 if satisfied else 0)
        names = [{"namespace": namespace, "name": name} for namespace, name in pods]
        for result in () if many and satisfied else explainer.nodes(unit):
            if len(results) >= _MAX_EXPLANATIONS or limits.expired():
                break
            results.append({**result, **({"pods": names} if names else {})})
    return results, min(scores, default=0)


def _conflict(
    instance: Instance, allocation: Allocation, limits: Limits
) -> tuple[ConflictPart, ...]:
    """The conflict between plain claims, within a unit that cannot be satisfied even alone, or
    between units.
    """
    if allocation.outcome != "infeasible":
        return ()
    conflict = conflict_of_plain_claims(instance)
    unsatisfied = {
        shape_of(instance, unit): unit
        for unit in reversed(instance.units)
        if any(allocation.claims[claim] is None for claim in unit.claims)
    }
    for unit in reversed(list(unsatisfied.values())):
        if conflict or limits.expired():
            break
        conflict = minimal_conflict(instance, unit, limits)
    if not conflict and not limits.expired():
        conflict = conflict_between_units(instance, limits)
    return conflict


def _describe_part(instance: Instance, part: ConflictPart) -> dict[str, t.Any]:
    first = instance.claims[part.claims[0]]
    return {
        "claims": [str(instance.claims[claim]) for claim in part.claims],
        "request": first.requests[part.request].name,
        "count": part.count,
    }


def unplaced_messages(
    task: Task,
    pods: t.Iterable[Key],
    node_results: t.Iterable[Object],
    hindrances: Hindrances | None,
    out_of_time: bool,
) -> dict[Key, str]:
    """A sentence for each pod that counts the nodes by reason, like kube-scheduler's events.

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
