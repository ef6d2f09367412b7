# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Intake of objects from a cluster or a user, each read within a separate boundary.

The results are readable without errors; everything else is a finding. An unreadable running pod
takes room as well: an unreadable amount counts as its node's whole allocatable amount of that
resource, and a pod that is unreadable otherwise counts as its whole node.
"""

from __future__ import annotations

import copy
import functools
import typing as t
from dataclasses import dataclass, field
from decimal import Decimal

from ..base.boundary import Finding, InvalidField, Subject, guarded, subject_of
from ..base.fields.strict import mapping, required_text
from ..base.json_types import Object
from ..rmd.pods import CACHE_WAYS
from .amounts import amount
from .anti_affinity import check_anti_affinity
from .cache_ways import least_annotation, runs_of_pod
from .model import Quantities
from .node_reader import Loads, Occupancy, node_name, read_node
from .nominated_pods import NominatedPod, read_nominated
from .peers import pod_facts
from .pod_reader import from_short_form, identity

T = t.TypeVar("T")

_NO_LOADS = Loads("requests", Decimal(1), {})
_WHOLE = "; all that the node can allocate of it counts as taken"
_WHOLE_NODE = "; the whole node counts as taken"


@dataclass
class Intake:
    """Collects the findings of one input."""

    findings: list[Finding] = field(default_factory=list)

    def each(
        self, items: t.Iterable[t.Any], kind: str, where: str, read: t.Callable[[Object], T]
    ) -> list[T]:
        """The result of ``read`` for each object; a finding if it raises."""
        found: list[T] = []
        for index, item in enumerate(items):
            result = guarded(
                functools.partial(_subject, item, kind, where, index),
                functools.partial(_read, read, item),
            )
            if isinstance(result, Finding):
                self.findings.append(result)
            else:
                found.append(result)
        return found

    def pods(self, given: t.Iterable[t.Any], where: str) -> list[Object]:
        """Pods in Kubernetes' form; a short form with ``count`` n gives n copies."""
        read = self.each(given, "Pod", where, _as_kubernetes)
        return [pod for pods in read for pod in pods]

    def nodes(self, given: t.Iterable[t.Any]) -> dict[str, SoundNode]:
        """Nodes by name; the first of several with one name."""
        found: dict[str, SoundNode] = {}
        for node in self.each(given, "Node", "nodes", _sound_node):
            if node.name in found:
                problem = "another node has this name; the first counts"
                self.findings.append(Finding(Subject("Node", node.name), "metadata.name", problem))
            found.setdefault(node.name, node)
        return found

    def running(
        self, given: t.Sequence[t.Any], allocatable: t.Mapping[str, Quantities]
    ) -> list[Object]:
        """Pods with a node, as given or replaced by the room that they take at most.

        ``allocatable`` is by node.
        """
        found: list[Object] = []
        seen: set[tuple[str, str]] = set()
        former: Object | None = None
        for index, pod in enumerate(given):
            subject = functools.partial(_subject, pod, "Pod", "running", index)
            if former is not None and is_copy(pod, former):
                read = guarded(subject, functools.partial(identity, pod))
            else:
                read = guarded(subject, functools.partial(check_running, pod))
            former = None if isinstance(read, Finding) else pod
            if read in seen:
                read = Finding(subject(), "metadata.name", "another pod has this name")
            counted: Object | None = pod
            if isinstance(read, Finding):
                counted = self._counted(pod, read, allocatable)
            if counted is not None:
                seen.add(identity(counted))
                found.append(counted)
        return found

    def nominated(self, given: t.Iterable[t.Any]) -> list[NominatedPod]:
        """Pods that wait for a node that kube-scheduler has chosen."""
        return self.each(given, "Pod", "nominated", read_nominated)

    def _counted(
        self, pod: Object, problem: Finding, allocatable: t.Mapping[str, Quantities]
    ) -> Object | None:
        """A replacement of an unreadable pod; None if its node is unknown."""
        spec = pod.get("spec") if isinstance(pod, dict) else None
        node = spec.get("nodeName") if isinstance(spec, dict) else None
        if not isinstance(node, str) or node not in allocatable:
            self.findings.append(problem)
            return None
        whole = allocatable[node]
        repair = functools.partial(_with_whole_amounts, pod, whole)
        repaired = guarded(problem.subject, repair)
        if isinstance(repaired, Finding) or not repaired.fields:
            text = f"{problem.problem}{_WHOLE_NODE}"
            self.findings.append(Finding(problem.subject, problem.field, text))
            return _whole_node(node, whole, len(self.findings))
        for error in repaired.fields:
            text = f"{error.problem}{_WHOLE}"
            self.findings.append(Finding(problem.subject, error.field, text))
        return repaired.pod


@dataclass(frozen=True)
class SoundNode:
    """A readable node, as given, with its allocatable resources."""

    name: str
    given: Object
    labels: t.Mapping[str, str]
    allocatable: Quantities


@dataclass(frozen=True)
class _Repaired:
    """A pod with all unreadable amounts replaced, and their names."""

    pod: Object
    fields: t.Sequence[InvalidField]


def _subject(item: t.Any, kind: str, where: str, index: int) -> Subject:
    return subject_of(item, kind, f"{where}[{index}]")


def _read(read: t.Callable[[Object], T], item: t.Any) -> T:
    if not isinstance(item, dict):
        raise InvalidField("", "it must be a mapping")
    return read(item)


def _as_kubernetes(pod: Object) -> list[Object]:
    return [pod] if "metadata" in pod else from_short_form(pod)


def _sound_node(given: Object) -> SoundNode:
    node = read_node(given, Occupancy(), _NO_LOADS, None)
    return SoundNode(node_name(given), given, node.labels, node.allocatable)


def has_node(pod: t.Any) -> bool:
    """Whether an unchecked pod has a node, or any value as its name."""
    spec = pod.get("spec") if isinstance(pod, dict) else None
    return isinstance(spec, dict) and bool(spec.get("nodeName"))


def is_copy(pod: Object, other: Object) -> bool:
    """Whether both come from one short form with a count and differ only in their names."""
    metadata, others = pod.get("metadata"), other["metadata"]
    return (
        "spec" in pod
        and pod["spec"] is other.get("spec")
        and isinstance(metadata, dict)
        and metadata.keys() == others.keys()
        and all(value is others[key] for key, value in metadata.items() if key != "name")
    )


def check_running(pod: Object) -> tuple[str, str]:
    """Identity of a running pod. Raises InvalidField for a defect that affects other pods."""
    facts = pod_facts(pod)
    required_text(mapping(pod.get("spec"), "spec").get("nodeName"), "spec.nodeName")
    Occupancy().add(pod)
    runs_of_pod(pod)
    check_anti_affinity(pod, facts)
    return identity(pod)


def _with_whole_amounts(pod: Object, whole: Quantities) -> _Repaired:
    """The pod with its node's whole resource in each unreadable amount.

    Raises InvalidField if it is still unreadable.
    """
    spec = copy.deepcopy(pod["spec"])
    metadata = dict(pod["metadata"])
    fields: list[InvalidField] = []
    for path, resources in _amounts_of(spec):
        for name, value in resources.items():
            try:
                amount(name, value, path)
            except InvalidField as error:
                fields.append(error)
                resources[name] = _quantity(name, whole)
    for part in ("initContainers", "containers"):
        for container in spec.get(part) or ():
            annotation = least_annotation(container)
            try:
                runs_of_pod({"metadata": metadata, "spec": {part: [container]}})
            except InvalidField as error:
                fields.append(error)
                annotations = dict(metadata["annotations"])
                del annotations[annotation]
                metadata["annotations"] = annotations
                container["resources"]["requests"][CACHE_WAYS] = _quantity(CACHE_WAYS, whole)
    repaired = {**pod, "metadata": metadata, "spec": spec}
    check_running(repaired)
    return _Repaired(repaired, fields)


def _amounts_of(spec: Object) -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    """Every mapping of amounts in a pod with its path, to be changed in place."""
    holders = [("spec", spec)]
    for part in ("containers", "initContainers"):
        holders += [
            (f"spec.{part}[{index}]", item) for index, item in enumerate(spec.get(part) or ())
        ]
    for path, holder in holders:
        resources = holder.get("resources") or {}
        for name in ("requests", "limits"):
            yield f"{path}.resources.{name}", resources.get(name) or {}
    yield "spec.overhead", spec.get("overhead") or {}


def _quantity(resource: str, whole: Quantities) -> str:
    return f"{whole.get(resource, 0)}{'m' if resource == 'cpu' else ''}"


def _whole_node(node: str, whole: Quantities, number: int) -> Object:
    """A pod that takes a whole node. No real pod can have its name."""
    requests = {name: _quantity(name, whole) for name in whole if name != "pods"}
    container = {"name": "whole-node", "resources": {"requests": requests}}
    return {
        "metadata": {"namespace": "-", "name": f"-{number}"},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }
