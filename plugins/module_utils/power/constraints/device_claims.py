# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Device claims of the pods to place, of both APIs.

Pods with equivalent claims are interchangeable to the placer, so their claims are identified by a
key. Pods that share a claim are a unit, which is on one node, and gets all of its claims as soon as
one of its pods is there.

The readers and solvers of claims are imported only if pods have claims.
"""

from __future__ import annotations

import dataclasses
import functools
import typing as t
from dataclasses import dataclass, field
from functools import cached_property

from ...base.boundary import Finding, Subject, guarded, subject_of
from ...base.json_types import Object
from ...scheduling.node_reader import node_name
from ...scheduling.pod_reader import identity

if t.TYPE_CHECKING:
    from ...devices.model.findings import ApiObject
    from ...devices.model.task import Task
    from ...devices.solve.joint_feasibility import JointFeasibility

# Where the claims of each API stand in a pod, by the API's group.
FIELDS = {"resource.k8s.io": "resourceClaims", "devmgmtproto.k8s.io": "deviceClaims"}
# What is wrong with these themselves, their own readers find.
_TOLD_ELSEWHERE = ("Pod", "Node")
TOO_MANY = "claims for so many devices that several nodes can use"
# Pairs of a pod and a device up to which all nodes together are one task: each of hundreds that a
# search poses takes milliseconds then.
_MAX_PAIRS = 2_500
_IN_NAMESPACES = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClaim", "DevicePrivilegedClaim")

Key = tuple[str, str]


@dataclass(frozen=True)
class PodClaims:
    """Claims of one pod in the terms of the placer.

    ``keys`` has the key of its claims by API; "" without claims. ``nodes`` are the nodes of the
    devices that it has already (None: it has none). ``unsupported`` is the reason why it cannot be
    placed.
    """

    keys: tuple[str, ...] = ()
    nodes: frozenset[str] | None = None
    unsupported: tuple[str, ...] = ()


@dataclass
class ClaimTask:
    """The claims of one API. ``units`` are the positions of equivalent units, by key; pods of a
    ``shared`` key are one unit. ``fleets`` are sets of keys that compete for devices of several
    nodes."""

    task: Task
    joint_feasibility: JointFeasibility
    units: dict[str, list[int]] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)
    fleets: list[frozenset[str]] = field(default_factory=list)
    _fits_empty: dict[t.Hashable, bool] = field(default_factory=dict)

    @cached_property
    def _unused(self) -> JointFeasibility:
        return self.joint_feasibility.unused()

    def fits_empty_node(self, key: str, node: str) -> bool:
        """Whether the node could satisfy one unit with all devices free."""
        known = key, self._unused.kind(node)
        if known not in self._fits_empty:
            found = self._unused.on_node(node, self.units[key][:1])
            self._fits_empty[known] = found.least is not None
        return self._fits_empty[known]

    def may_share(self, key: str) -> bool:
        """Whether other pods may count for the power draw of a pod's devices."""
        return key in self.shared or self.joint_feasibility.may_share(self.units[key][0])

    def needed(
        self, keys: t.Mapping[int, str]
    ) -> t.Iterator[tuple[frozenset[int], dict[int, int]]]:
        """Each set of devices that is exactly the set of some request, with the least number of
        them that a pod of each group takes."""
        for devices in self.joint_feasibility.sets():
            needed = {
                group: self.joint_feasibility.least_of(self.units[key][0], devices)
                for group, key in keys.items()
                if key not in self.shared
            }
            if any(needed.values()):
                yield devices, needed


@dataclass
class ClaimBook:
    """The claims of all waiting pods. ``invalid`` are pods with unreadable requests; ``findings``
    are about unreadable device objects."""

    tasks: list[ClaimTask] = field(default_factory=list)
    of_pod: dict[Key, PodClaims] = field(default_factory=dict)
    invalid: dict[Key, Finding] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def note(self, pod: Key, key: str, nodes: frozenset[str] | None) -> None:
        """Add claims of the API of the last task."""
        known = self.of_pod.get(pod, PodClaims())
        keys = (*known.keys, *[""] * (len(self.tasks) - 1 - len(known.keys)), key)
        both = [each for each in (known.nodes, nodes) if each is not None]
        common = frozenset.intersection(*both) if both else None
        self.of_pod[pod] = PodClaims(keys, common, known.unsupported)

    def refuse(self, pod: Key, reasons: tuple[str, ...]) -> None:
        """Leave a pod waiting, regardless of its other claims."""
        known = self.of_pod.get(pod, PodClaims())
        unsupported = (*known.unsupported, *reasons)
        self.of_pod[pod] = dataclasses.replace(known, unsupported=unsupported)


def read_claims(
    pods: t.Sequence[Object],
    nodes: t.Sequence[Object],
    device_objects: t.Sequence[Object],
    device_power: str | None,
    seed: int,
) -> ClaimBook:
    """The claims of the waiting pods that the objects define; none of pods without objects.

    Pods are given if the rest of them can be read, so each has a spec. If the objects of their API
    cannot be read, they have no known claims.
    """
    book = ClaimBook()
    book.findings += _without_group(device_objects)
    for group, name in FIELDS.items():
        asking = [pod for pod in pods if pod["spec"].get(name)]
        objects = [item for item in device_objects if _group(item) == group]
        if asking and objects:
            subject = Subject("DeviceObjects", group)
            read = functools.partial(_read_task, asking, name, nodes, objects, book.findings)
            task = guarded(subject, read)
            if isinstance(task, Finding):
                book.findings.append(task)
            else:
                _add(book, task, device_power, seed)
    _refuse_extended(book, pods, nodes, device_objects)
    return book


def _refuse_extended(
    book: ClaimBook,
    pods: t.Sequence[Object],
    nodes: t.Sequence[Object],
    device_objects: t.Sequence[Object],
) -> None:
    """Pods with extended resources that a DeviceClass provides and no node offers."""
    classes = [
        item
        for item in device_objects
        if _group(item) == "resource.k8s.io" and item.get("kind") == "DeviceClass"
    ]
    if not classes:
        return
    from ...devices.dra.pods import ExtendedResources, offered_by
    from ...devices.model.findings import ApiObject

    extended = ExtendedResources(classes, offered_by(nodes))
    for pod in pods:
        given = ApiObject({"apiVersion": "v1", "kind": "Pod", **pod})
        reasons = guarded(subject_of(pod, "Pod"), functools.partial(extended.unclaimed, given))
        if isinstance(reasons, Finding):
            book.invalid[identity(pod)] = reasons
        elif reasons:
            book.refuse(identity(pod), reasons)


def _group(item: t.Any) -> str:
    """The API group of an object; "" for an invalid object."""
    return str(item.get("apiVersion")).rpartition("/")[0] if isinstance(item, dict) else ""


def _without_group(device_objects: t.Sequence[t.Any]) -> list[Finding]:
    """Findings of objects that belong to neither API."""
    return [
        Finding(
            subject_of(item, "object", f"device_objects[{index}]"),
            "apiVersion" if isinstance(item, dict) else "",
            "must be an object with an apiVersion",
        )
        for index, item in enumerate(device_objects)
        if not isinstance(item, dict) or not isinstance(item.get("apiVersion"), str)
    ]


def _read_task(
    pods: t.Sequence[Object],
    field_name: str,
    nodes: t.Sequence[Object],
    objects: t.Sequence[Object],
    bad: list[Finding],
) -> Task:
    """The task of one API; ``bad`` gets the findings of its objects. Raises InvalidInput."""
    from ...devices.allocation import read_task
    from ...devices.model.task import Options

    given = _given(objects, nodes, pods, field_name, bad)
    task = read_task(given, Options(report=True))
    bad += [
        Finding(one.subject, one.field, one.problem)
        for one in task.findings
        if one.serious and one.subject.kind not in _TOLD_ELSEWHERE
    ]
    return task


def _given(
    objects: t.Sequence[Object],
    nodes: t.Sequence[Object],
    pods: t.Sequence[Object],
    field_name: str,
    bad: list[Finding],
) -> list[ApiObject]:
    """The objects with Nodes and Pods, reduced to the fields about claims."""
    from ...devices.model.findings import ApiObject, Defect, read_objects

    dropped: list[Defect] = []
    read = read_objects(objects, "device_objects", "", dropped)
    bad += [Finding(one.subject, one.field, one.problem) for one in dropped]
    found = [ApiObject(_in_namespace(given.manifest)) for given in read]
    for node in nodes:
        labels = node.get("metadata", node).get("labels") or {}
        found.append(_core_object("Node", {"name": node_name(node), "labels": labels}))
    for pod in pods:
        namespace, name = identity(pod)
        spec, status = {field_name: pod["spec"][field_name]}, pod.get("status") or {}
        metadata = {"namespace": namespace, "name": name}
        found.append(_core_object("Pod", metadata, spec=spec, status=status))
    return found


def _core_object(kind: str, metadata: Object, **parts: Object) -> ApiObject:
    from ...devices.model.findings import ApiObject

    return ApiObject({"apiVersion": "v1", "kind": kind, "metadata": metadata, **parts})


def _in_namespace(item: dict[str, t.Any]) -> dict[str, t.Any]:
    """The object with a namespace; the default one if it names none."""
    if item["kind"] not in _IN_NAMESPACES or item["metadata"].get("namespace"):
        return item
    return {**item, "metadata": {**item["metadata"], "namespace": "default"}}


def _add(book: ClaimBook, read: Task, device_power: str | None, seed: int) -> None:
    """Note the claims of the pods of one API. Raises InvalidInput if device_power is invalid."""
    from ...devices.model.watts import with_watts
    from ...devices.solve.joint_feasibility import JointFeasibility
    from ...devices.solve.search import shape_of

    instance = with_watts(read.instance, device_power, {}, ())
    joint = JointFeasibility(instance, seed)
    task = ClaimTask(dataclasses.replace(read, instance=instance), joint)
    book.tasks.append(task)
    names: dict[t.Hashable, str] = {}
    key_of: dict[Key, str] = {}
    for unit, pods in enumerate(task.task.pods):
        if len(pods) > 1:
            key = f"unit {unit}"
            task.shared.add(key)
        else:
            shape = shape_of(instance, instance.units[unit])
            key = names.setdefault(shape, f"shape {len(names)}")
        task.units.setdefault(key, []).append(unit)
        key_of.update(dict.fromkeys(pods, key))
    too_many = _divide(task)
    for demand in task.task.demands:
        pod = demand.obj.namespace, demand.obj.name
        key = key_of.get(pod, "")
        book.note(pod, key, demand.nodes)
        if key in too_many:
            book.refuse(pod, (TOO_MANY,))
    for refusal in task.task.refused:
        book.refuse((refusal.namespace, refusal.name), (refusal.reason,))


def _divide(task: ClaimTask) -> list[str]:
    """Note the claims that involve all nodes; return those that are too large.

    The other claims can be decided for each node separately.
    """
    too_many: list[str] = []
    joint = task.joint_feasibility
    for fleet in joint.coupled({key: units[0] for key, units in task.units.items()}):
        if joint.pairs(unit for key in fleet for unit in task.units[key]) <= _MAX_PAIRS:
            task.fleets.append(fleet)
        else:
            too_many += [key for key in fleet if joint.uses_several(task.units[key][0])]
    return too_many
