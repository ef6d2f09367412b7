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
from ..model.findings import MAX_CLAIMS, ApiObject, Field, too_many
from ..model.model import HeldDevice, Instance, Unit
from ..model.task import Options, PodDemand, Task, TaskReader, nodes_for
from .claims import ClaimReader
from .matching import DeviceCatalog, DeviceClasses
from .pods import ExtendedResources, extended_claim, made_for, offered_by
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
    return _Reader(objects, options).read()


def _nodes_named(obj: ApiObject) -> list[t.Any]:
    """The nodes that a slice or its devices name."""
    return [part["nodeName"].value for part in (obj["spec"], *obj["spec"]["devices"].items())]


class _Reader(TaskReader):
    def __init__(self, objects: t.Sequence[ApiObject], options: Options) -> None:
        super().__init__(objects, options, "ResourceSlice", _nodes_named)
        self._slices = Slices(self.findings, self.nodes)
        self._slices.read(self.of("ResourceSlice"))
        published = DeviceCatalog(self._slices)
        for obj in self.of("DeviceTaintRule"):
            published.add_rule(obj, self.findings)
        classes = DeviceClasses(Compiler("dra"), self.of("DeviceClass"))
        self._reader = ClaimReader(classes, published)
        self._extended = ExtendedResources(
            [obj.manifest for obj in self.of("DeviceClass")],
            offered_by(obj.manifest for obj in self.of("Node")),
        )
        self._specs: list[Field] = []

    def check(self, obj: ApiObject) -> ApiObject:
        version, kind = obj.manifest["apiVersion"], obj.kind
        allowed = _RULE_VERSIONS if kind == "DeviceTaintRule" else (VERSION, "v1")
        if version not in allowed:
            raise obj.error("apiVersion", f"{shown(version)} is not supported; write {VERSION}")
        if version != "v1" and kind not in KINDS:
            raise obj.error("kind", f"unsupported; known are {', '.join(KINDS)}")
        return obj

    def read(self) -> Task:
        held = [
            one
            for obj in self.of("ResourceClaim")
            for one in held_devices(obj, self._slices, self.findings)
        ]
        units = self.units(self._read_pod, self._single_units)
        instance = Instance(
            self.nodes,
            tuple(self._slices.devices),
            tuple(self._slices.counters),
            tuple(self._reader.matchers),
            tuple(self.claims),
            units,
            tuple(held),
            self._slices.unsettled,
        )
        self._find_overdrawn(instance, held)
        results = Results(instance, self._slices, self._reader.origins, self._specs)
        return self.task(instance, results.of, self._slices.pools)

    def _single_units(self) -> t.Iterator[Unit]:
        """Without pods each claim that waits is a unit."""
        for obj in self.of("ResourceClaim"):
            claim = self.refusals.read(obj, self._waiting)
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
                self.findings.add(
                    self._slices.sources[counter.driver, counter.pool],
                    f"spec.sharedCounters.{counter.counter_set}.{counter.name}",
                    "existing allocations exceed the capacity",
                    serious=False,
                )

    def _add(self, spec: Field, name: str) -> int:
        position = self.add(self._reader.read(spec, name))
        self._specs.append(spec)
        return position

    def _waiting(self, obj: ApiObject) -> int | None:
        """The claim by its position; None if it has its devices or is being deleted."""
        if allocation_of(obj) or obj.manifest["metadata"].get("deletionTimestamp"):
            return None
        return self.shared(obj, self._read_claim)

    def _read_claim(self, obj: ApiObject) -> int:
        return self._add(obj["spec"], obj.name)

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
        nodes = nodes_for(obj, self.nodes)
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
                claims.append(self.shared(source, self._read_claim))
            reached = nodes_of_devices(source, self.nodes)
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
        for obj in self.of(kind):
            if obj.key == (pod.namespace, name):
                return obj
        raise pod.error(where, f"there is no {kind} {shown(name)} in the pod's namespace")
