# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reader of Kubernetes' dynamic resource allocation (resource.k8s.io/v1), with Pods and Nodes."""

from __future__ import annotations

import typing as t

from ...base.boundary import shown
from ...base.json_types import Object
from ...cel.selector import Compiler
from ...scheduling.pod_reader import is_finished
from ..model.findings import MAX_CLAIMS, ApiObject, Defect, Field, Findings, too_many
from ..model.model import Claim, HeldDevice, Instance, Node, Unit
from ..model.task import Options, PodDemand, Refusals, Task, labels_of, nodes_for, units_of
from .claims import ClaimReader
from .extended_resources import ExtendedResources, extended_claim, offered_by
from .matching import DeviceCatalog, DeviceClasses
from .pods import made_for
from .slices import Slices
from .status import Results, allocation_of, held_devices
from .writes import nodes_of_devices

GROUP = "resource.k8s.io"
VERSION = "resource.k8s.io/v1"
KINDS = (
    "ResourceSlice",
    "DeviceClass",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "DeviceTaintRule",
)
# Not every cluster serves the rules in v1.
_RULE_VERSIONS = (VERSION, "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3")


def read(objects: t.Sequence[ApiObject], options: Options) -> Task:
    """The task that these objects define. Raises InvalidInput."""
    return _Reader(objects, options).task()


def _check_kind(obj: ApiObject) -> ApiObject:
    version, kind = obj.manifest["apiVersion"], obj.kind
    allowed = _RULE_VERSIONS if kind == "DeviceTaintRule" else (VERSION, "v1")
    if version not in allowed:
        raise obj.error("apiVersion", f"{shown(version)} is not supported; write {VERSION}")
    if version != "v1" and kind not in KINDS:
        raise obj.error("kind", f"unsupported; known are {', '.join(KINDS)}")
    return obj


def _nodes_named(obj: ApiObject) -> list[str]:
    """The nodes that a slice or its devices name."""
    parts = (obj["spec"], *obj["spec"]["devices"].items())
    names = [part["nodeName"].value for part in parts]
    return [name for name in names if isinstance(name, str) and name]


class _Reader:
    def __init__(self, objects: t.Sequence[ApiObject], options: Options) -> None:
        self._options = options
        self._findings = Findings()
        self._refusals = Refusals(options.report, self._findings)
        self._by_kind: dict[str, list[ApiObject]] = {}
        for obj in objects:
            if self._refusals.read(obj, _check_kind):
                self._by_kind.setdefault(obj.kind, []).append(obj)
        self._nodes = self._read_nodes()
        self._slices = Slices(self._findings, self._nodes)
        self._slices.read(self._of("ResourceSlice"))
        self._published = DeviceCatalog(self._slices)
        for obj in self._of("DeviceTaintRule"):
            problem = self._published.add_rule(obj)
            if problem:
                self._findings.note(problem)
        classes = DeviceClasses(Compiler("dra"), self._of("DeviceClass"))
        self._reader = ClaimReader(classes, self._published)
        self._extended = ExtendedResources(
            [obj.manifest for obj in self._of("DeviceClass")],
            offered_by(obj.manifest for obj in self._of("Node")),
        )
        self._claims: list[Claim] = []
        self._specs: list[Field] = []
        self._by_name: dict[tuple[str, str], int] = {}

    def _of(self, kind: str) -> list[ApiObject]:
        return self._by_kind.get(kind, [])

    def _read_nodes(self) -> tuple[Node, ...]:
        """The Nodes, and the nodes that slices name."""
        labels = {obj.name: labels_of(obj, self._findings) for obj in self._of("Node")}
        for obj in self._of("ResourceSlice"):
            named = obj.attempt(_nodes_named)
            # Reading the slice finds its defects.
            for name in () if isinstance(named, Defect) else named:
                labels.setdefault(name, {})
        if self._options.node:
            labels = {self._options.node: labels.get(self._options.node, {})}
        return tuple(Node(name, labels[name]) for name in sorted(labels))

    def task(self) -> Task:
        held = [
            one
            for obj in self._of("ResourceClaim")
            for one in held_devices(obj, self._slices, self._findings)
        ]
        demands: list[PodDemand] = []
        if self._of("Pod") or self._options.only_for_pods:
            read = [self._refusals.read(obj, self._read_pod) for obj in self._of("Pod")]
            demands = [demand for demand in read if demand is not None]
            units, pods = units_of(demands, [str(claim) for claim in self._claims], self._refusals)
        else:
            units = tuple(self._single_units())
            pods = ((),) * len(units)
        instance = Instance(
            self._nodes,
            tuple(self._slices.devices),
            tuple(self._slices.counters),
            tuple(self._reader.matchers),
            tuple(self._claims),
            units,
            tuple(held),
            self._slices.unsettled,
        )
        self._find_overdrawn(instance, held)
        return Task(
            instance,
            Results(instance, self._slices, self._reader.origins, self._specs).of,
            pods,
            tuple(self._slices.pools),
            tuple(self._findings.found),
            tuple(self._refusals.found),
            tuple(demands),
        )

    def _single_units(self) -> t.Iterator[Unit]:
        """Without pods each claim that waits is a unit."""
        for obj in self._of("ResourceClaim"):
            claim = self._refusals.read(obj, self._waiting)
            if claim is not None:
                yield Unit((claim,))

    def _find_overdrawn(self, instance: Instance, held: t.Sequence[HeldDevice]) -> None:
        """Report allocations that exceed the capacity; no further claim gets these devices."""
        taken = [0] * len(instance.counters)
        for device in {one.device for one in held if not one.admin}:
            for position, amount in instance.devices[device].consumes:
                taken[position] += amount
        for counter, sum_taken in zip(instance.counters, taken):
            if sum_taken > counter.capacity:
                self._findings.add(
                    self._slices.sources[counter.driver, counter.pool],
                    f"spec.sharedCounters.{counter.counter_set}.{counter.name}",
                    "existing allocations exceed the capacity",
                    serious=False,
                )

    def _add(self, spec: Field, name: str) -> int:
        self._claims.append(self._reader.read(spec, name))
        self._specs.append(spec)
        return len(self._claims) - 1

    def _waiting(self, obj: ApiObject) -> int | None:
        """The claim by its position; None if it has its devices or is being deleted."""
        if allocation_of(obj) or obj.manifest["metadata"].get("deletionTimestamp"):
            return None
        return self._shared(obj)

    def _shared(self, obj: ApiObject) -> int:
        if obj.key not in self._by_name:
            self._by_name[obj.key] = self._add(obj["spec"], obj.name)
        return self._by_name[obj.key]

    def _read_pod(self, obj: ApiObject) -> PodDemand:
        spec = obj["spec"].mapping()
        named = obj["spec"]["resourceClaims"].items(MAX_CLAIMS, too_many("claims"))
        items: list[Object] = [item.value for item in named]
        # A pod on a node has its devices already.
        extended = [] if spec.get("nodeName") else self._extended.requests(obj)
        if extended and extended_claim(obj):
            items.append({"resourceClaimName": extended_claim(obj)})
            extended = []
        if not (items or extended) or is_finished(obj.manifest):
            return PodDemand(obj, ())
        claims: list[int] = []
        nodes = nodes_for(obj, self._nodes)
        for index, item in enumerate(items):
            where = f"spec.resourceClaims[{index}]"
            source = self._source(obj, item, where)
            if source is None:
                continue
            if source.kind == "ResourceClaimTemplate":
                body = Field(source, "spec", source["spec"]["spec"].mapping())
                claims.append(self._add(body, f"{obj.name}-{item.get('name')}"))
                continue
            if source.manifest["metadata"].get("deletionTimestamp"):
                raise obj.error(where, f"{source} is being deleted")
            if not allocation_of(source):
                claims.append(self._shared(source))
            reached = nodes_of_devices(source, self._nodes)
            if reached is not None:
                nodes = reached if nodes is None else nodes & reached
        if extended:
            body = Field(obj, "spec", {"devices": {"requests": extended}})
            claims.append(self._add(body, f"{obj.name}-extended-resources"))
        return PodDemand(obj, tuple(dict.fromkeys(claims)), nodes, int(spec.get("priority") or 0))

    def _source(self, pod: ApiObject, item: Object, where: str) -> ApiObject | None:
        """The claim that a pod names, the claim made for it, or its template.

        None if Kubernetes' controller found that no claim is needed.
        """
        kind, name = "ResourceClaim", item.get("resourceClaimName")
        if name is None:
            name = made_for(pod).get(str(item.get("name")))
            if name == "":
                return None
        if name is None:
            kind, name = "ResourceClaimTemplate", item.get("resourceClaimTemplateName")
        for obj in self._of(kind):
            if obj.key == (pod.namespace, name):
                return obj
        raise pod.error(where, f"there is no {kind} {shown(name)} in the pod's namespace")
