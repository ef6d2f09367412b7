# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A task as read by a reader, and the pods that bind claims into units."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...base.errors import InvalidInput
from ...base.label_selector import Requirement
from ...scheduling.model import NodeTerm
from .findings import ApiObject, Defect, DefectError, Field, Findings, Key
from .model import Claim, ClaimAllocation, Instance, Node, Unit

T = t.TypeVar("T")

_MAX_LABEL_LENGTH = 63
_REQUIRED = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


@dataclass(frozen=True)
class Options:
    """The user's options for all objects.

    ``node`` is the only node to consider. With ``report`` a refused pod or claim is reported and
    others are not affected; without it the first one is an error. With ``only_for_pods`` claims
    that no pod names get nothing; without it they are allocated if there is no pod.
    """

    node: str | None = None
    report: bool = False
    only_for_pods: bool = False


@dataclass(frozen=True)
class Task:
    """An instance, and the data for an answer in the terms of its API.

    ``result`` writes the allocation of a claim (by position) in the form of its API. ``pools`` are
    the drivers, names and nodes of all pools in published order. ``pods`` are namespace and name of
    the pods of each unit. ``refused`` are the errors of pods and claims that were left out.
    ``demands`` has all pods that were read, including pods whose claims have devices already.
    """

    instance: Instance
    result: t.Callable[[int, ClaimAllocation], dict[str, t.Any]]
    pods: tuple[tuple[Key, ...], ...]
    pools: tuple[tuple[str, str, frozenset[str]], ...] = ()
    findings: tuple[Defect, ...] = ()
    refused: tuple[Refusal, ...] = ()
    demands: tuple[PodDemand, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """Why an object got nothing, or could not be written; others are not affected."""

    kind: str
    namespace: str
    name: str
    reason: str

    def as_error(self) -> dict[str, str]:
        """As device_reconciliation returns it."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "detail": self.reason,
        }


@dataclass
class Refusals:
    """Reads pods and claims, each within its boundary; collects refusals, or raises the first."""

    report: bool
    findings: Findings
    found: list[Refusal] = field(default_factory=list)

    def read(self, obj: ApiObject, reader: t.Callable[[ApiObject], T]) -> T | None:
        """The object as read; None if it is refused. Raises InvalidInput."""
        read = self.findings.read(obj, reader) if self.report else obj.attempt(reader)
        if not isinstance(read, Defect):
            return read
        if not self.report:
            raise DefectError(read)
        self.found.append(Refusal(obj.kind, obj.namespace, obj.name, str(read)))
        return None


@dataclass(frozen=True)
class PodDemand:
    """A pod with the positions of its claims, and the node that it has or must have."""

    obj: ApiObject
    claims: tuple[int, ...]
    nodes: frozenset[str] | None = None
    priority: int = 0


@dataclass
class _PodGroup:
    claims: list[int] = field(default_factory=list)
    pods: list[PodDemand] = field(default_factory=list)


def units_of(
    demands: t.Sequence[PodDemand], names: t.Sequence[str], refusals: Refusals
) -> tuple[tuple[Unit, ...], tuple[tuple[Key, ...], ...]]:
    """Units of pods; pods that share a claim are one unit, because a claim is on one node.

    ``names`` are the names of all claims by position; claims without a pod are in no unit. Pods
    that share a claim but cannot be on one node are all refused. Raises InvalidInput.
    """
    group_of: dict[int, _PodGroup] = {}
    for demand in demands:
        joined = _PodGroup(list(demand.claims), [demand])
        touched = {
            id(group_of[claim]): group_of[claim] for claim in demand.claims if claim in group_of
        }
        for group in touched.values():
            joined.claims = list(dict.fromkeys(group.claims + joined.claims))
            joined.pods = group.pods + joined.pods
        group_of.update(dict.fromkeys(joined.claims, joined))
    distinct = {id(group): group for group in group_of.values()}
    units: list[Unit] = []
    pods: list[tuple[Key, ...]] = []
    for group in sorted(distinct.values(), key=lambda group: min(group.claims)):
        unit = _unit_or_refusal(group, names, refusals)
        if unit is not None:
            units.append(unit)
            pods.append(tuple((pod.obj.namespace, pod.obj.name) for pod in group.pods))
    return tuple(units), tuple(pods)


def _unit_or_refusal(group: _PodGroup, names: t.Sequence[str], refusals: Refusals) -> Unit | None:
    def read(_pod: ApiObject) -> Unit:
        return _unit(group, names)

    read_for_each = [refusals.read(pod.obj, read) for pod in group.pods]
    return read_for_each[0]


def _unit(group: _PodGroup, names: t.Sequence[str]) -> Unit:
    nodes: frozenset[str] | None = None
    for pod in group.pods:
        if pod.nodes is None:
            continue
        if nodes is not None and not nodes & pod.nodes:
            shared = ", ".join(names[claim] for claim in group.claims)
            raise InvalidInput(
                f"{pod.obj}: it must run on {', '.join(sorted(pod.nodes)) or 'no node'}, but "
                f"shares the claim {shared} with pods on {', '.join(sorted(nodes))}; a claim's "
                "devices are on one node"
            )
        nodes = pod.nodes if nodes is None else nodes & pod.nodes
    priority = max((pod.priority for pod in group.pods), default=0)
    return Unit(tuple(group.claims), nodes, priority)


class TaskReader:
    """The part of a reader that is the same for both APIs: nodes, claims by position, and pods.

    ``named`` gives the nodes that an object of the kind ``publishing`` names.
    """

    def __init__(
        self,
        objects: t.Iterable[ApiObject],
        options: Options,
        publishing: str,
        named: t.Callable[[ApiObject], t.Sequence[t.Any]],
    ) -> None:
        self.findings = Findings()
        self.refusals = Refusals(options.report, self.findings)
        self.claims: list[Claim] = []
        self._options = options
        self._by_kind: dict[str, list[ApiObject]] = {}
        for obj in objects:
            if self.refusals.read(obj, self.check):
                self._by_kind.setdefault(obj.kind, []).append(obj)
        self.nodes = self._read_nodes(publishing, named)
        self._position_of: dict[Key, int] = {}
        self._demands: list[PodDemand] = []
        self._pods: tuple[tuple[Key, ...], ...] = ()

    def check(self, obj: ApiObject) -> ApiObject:
        """The object, if its API has it. Raises InvalidInput."""
        return obj

    def of(self, *kinds: str) -> list[ApiObject]:
        """The objects of these kinds."""
        return [obj for kind in kinds for obj in self._by_kind.get(kind, ())]

    def _read_nodes(
        self, publishing: str, named: t.Callable[[ApiObject], t.Sequence[t.Any]]
    ) -> tuple[Node, ...]:
        """The Nodes, and the nodes that publishing objects name."""
        labels = {obj.name: labels_of(obj, self.findings) for obj in self.of("Node")}
        for obj in self.of(publishing):
            found = obj.attempt(named)
            # Reading the object finds its defects.
            for name in () if isinstance(found, Defect) else found:
                if isinstance(name, str) and name:
                    labels.setdefault(name, {})
        if self._options.node:
            labels = {self._options.node: labels.get(self._options.node, {})}
        return tuple(Node(name, labels[name]) for name in sorted(labels))

    def add(self, claim: Claim) -> int:
        """Add a claim; return its position."""
        self.claims.append(claim)
        return len(self.claims) - 1

    def shared(self, obj: ApiObject, read: t.Callable[[ApiObject], int]) -> int:
        """The position of a claim that pods may share, which is read once."""
        if obj.key not in self._position_of:
            self._position_of[obj.key] = read(obj)
        return self._position_of[obj.key]

    def units(
        self,
        read_pod: t.Callable[[ApiObject], PodDemand],
        alone: t.Callable[[], t.Iterable[Unit]],
    ) -> tuple[Unit, ...]:
        """The units of the pods; if there are no pods, the units of the claims ``alone``."""
        if not self.of("Pod") and not self._options.only_for_pods:
            units = tuple(alone())
            self._pods = ((),) * len(units)
            return units
        read = [self.refusals.read(obj, read_pod) for obj in self.of("Pod")]
        self._demands = [demand for demand in read if demand is not None]
        names = [str(claim) for claim in self.claims]
        units, self._pods = units_of(self._demands, names, self.refusals)
        return units

    def task(
        self,
        instance: Instance,
        result: t.Callable[[int, ClaimAllocation], dict[str, t.Any]],
        pools: t.Iterable[tuple[str, str, frozenset[str]]],
    ) -> Task:
        """The task of the instance, after all is read."""
        return Task(
            instance,
            result,
            self._pods,
            tuple(pools),
            tuple(self.findings.found),
            tuple(self.refusals.found),
            tuple(self._demands),
        )


def labels_of(node: ApiObject, findings: Findings) -> dict[str, str]:
    """The labels of a Node; invalid ones are left out, with a finding."""
    given = node.manifest["metadata"].get("labels") or {}
    listed = given.items() if isinstance(given, dict) else ()
    labels = {
        name: value
        for name, value in listed
        if isinstance(name, str) and isinstance(value, str) and len(value) <= _MAX_LABEL_LENGTH
    }
    if not isinstance(given, dict) or len(labels) < len(given):
        findings.add(node, "metadata.labels", "has an invalid label, which is ignored")
    return labels


def nodes_for(pod: ApiObject, nodes: t.Sequence[Node]) -> frozenset[str] | None:
    """The nodes that a pod's nodeName, selector and required affinity admit; None for all."""
    spec = pod.manifest.get("spec") or {}
    if spec.get("nodeName"):
        return frozenset([spec["nodeName"]])
    wanted = spec.get("nodeSelector") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not wanted and not required:
        return None
    found = frozenset(node.name for node in nodes if wanted.items() <= node.labels.items())
    return found & selected(Field(pod, _REQUIRED, required), nodes) if required else found


def selected(selector: Field, nodes: t.Sequence[Node]) -> frozenset[str]:
    """The names of the nodes that meet one of the terms of a node selector (core/v1 NodeSelector).

    Raises InvalidInput.
    """
    given = selector.value
    terms = given.get("nodeSelectorTerms") if isinstance(given, dict) else None
    if not isinstance(terms, list) or not all(isinstance(term, dict) for term in terms):
        raise selector.error("a node selector is a mapping with a list of nodeSelectorTerms")
    found: set[str] = set()
    for term in selector["nodeSelectorTerms"].items():
        read = NodeTerm(_requirements(term["matchExpressions"]), _requirements(term["matchFields"]))
        found.update(node.name for node in nodes if read.admits(node.name, node.labels))
    return frozenset(found)


def _requirements(listed: Field) -> tuple[Requirement, ...]:
    found: list[Requirement] = []
    for item in listed.items():
        if not item.value.get("key"):
            raise item["key"].error("the key is missing; name a label")
        if item.value.get("operator") not in _OPERATORS:
            raise item["operator"].error(f"write one of {', '.join(_OPERATORS)}")
        values = frozenset(map(str, item.value.get("values") or ()))
        found.append(Requirement(item.value["key"], item.value["operator"], values))
    return tuple(found)
