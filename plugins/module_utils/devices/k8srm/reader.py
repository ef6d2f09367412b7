# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reader of the prototype's objects (devmgmtproto.k8s.io/v1alpha1), with Pods and Nodes."""

from __future__ import annotations

import typing as t

from ...base.fields.lenient import member
from ...base.json_types import Object
from ...cel.selector import Compiler
from ...scheduling.pod_reader import is_finished
from ..model.findings import MAX_CLAIMS, ApiObject, Field, Key, too_many
from ..model.model import HeldDevice, Instance, Unit
from ..model.task import Options, PodDemand, Task, TaskReader, nodes_for
from .claims import ClaimReader
from .classes import Classes, DeviceCatalog
from .pools import Pools
from .status import Results, held_devices, held_for_safety

GROUP = "devmgmtproto.k8s.io"
VERSION = f"{GROUP}/v1alpha1"
CLAIM_KINDS = ("DeviceClaim", "DevicePrivilegedClaim")
KINDS = ("DevicePool", "DeviceClass", "DeviceDriver", *CLAIM_KINDS)

# Fields of an inline claim in the samples.
_EMBEDDED = ("template", "spec", "claimSpec", "claim")


def read(objects: t.Sequence[ApiObject], options: Options) -> Task:
    """The task that these objects define. Raises InvalidInput."""
    return _Reader(objects, options).read()


def form_of(item: Object) -> tuple[t.Literal["claimName", "claimTemplateName", ""], t.Any]:
    """The field by which a pod names a claim or template, with the name; "" with an inline spec."""
    embedded = next((item[key] for key in _EMBEDDED if isinstance(item.get(key), dict)), None)
    if embedded is not None and "claimName" not in embedded:
        return "", embedded
    named = item if embedded is None else embedded
    if named.get("claimName"):
        return "claimName", named["claimName"]
    if named.get("claimTemplateName"):
        return "claimTemplateName", named["claimTemplateName"]
    return "", {key: value for key, value in named.items() if key != "name"}


class _Reader(TaskReader):
    def __init__(self, objects: t.Sequence[ApiObject], options: Options) -> None:
        super().__init__(
            objects, options, "DevicePool", lambda pool: [member(pool.manifest, "spec", "nodeName")]
        )
        self._pools = Pools(self.findings, frozenset(node.name for node in self.nodes))
        self._classes = Classes(self.findings, Compiler("flat"))
        for kind, read in (
            ("DevicePool", self._pools.add),
            ("DeviceDriver", self._classes.add_driver),
            ("DeviceClass", self._classes.add),
        ):
            for obj in self.of(kind):
                self.refusals.read(obj, read)
        devices = DeviceCatalog(self._pools.devices)
        self._reader = ClaimReader(self.findings, self._classes, devices)
        self._held: list[HeldDevice] = []
        self._taken: set[int] = set()
        self._node_of_claim: dict[Key, frozenset[str]] = {}

    def read(self) -> Task:
        claims = self.of(*CLAIM_KINDS)
        unreadable = [obj for obj in claims if not self.refusals.read(obj, self._read_status)]
        # After the others, so that it takes no devices of theirs where only their number is known.
        for obj in unreadable:
            self._node_of_claim[obj.key] = frozenset()
            held = held_for_safety(obj, self._pools, self._taken)
            self._held += held
            self._taken.update(one.device for one in held)
        units = self.units(self._read_pod, self._one_unit)
        self._classes.check_all()
        instance = Instance(
            self.nodes,
            tuple(self._pools.devices),
            tuple(self._pools.counters),
            tuple(self._reader.matchers),
            tuple(self.claims),
            units,
            tuple(self._held),
        )
        results = Results(instance, frozenset(self._pools.counted), self._reader.origins)
        return self.task(instance, results.of, self._pools.pools)

    def _one_unit(self) -> t.Iterator[Unit]:
        """Claims without a pod count as those of one pod, as in the prototype's SelectNode."""
        waiting = [obj for obj in self.of(*CLAIM_KINDS) if obj.key not in self._node_of_claim]
        read = [self.refusals.read(obj, self._read_claim) for obj in waiting]
        claims = tuple(claim for claim in read if claim is not None)
        if claims:
            yield Unit(claims)

    def _read_claim(self, obj: ApiObject) -> int:
        return self._add(obj, obj["spec"].mapping(), obj.name)

    def _add(self, obj: ApiObject, spec: Object, name: str) -> int:
        return self.add(self._reader.read(Field(obj, "spec", spec), name))

    def _read_status(self, obj: ApiObject) -> bool:
        """An existing allocation; its devices are not free and the claim is not allocated again."""
        for held in held_devices(obj, self._pools, self._taken):
            self._held.append(held)
            self._taken.add(held.device)
            nodes = self._pools.devices[held.device].nodes
            self._node_of_claim[obj.key] = self._node_of_claim.get(obj.key, nodes) & nodes
        return True

    def _read_pod(self, obj: ApiObject) -> PodDemand:
        spec = obj["spec"].mapping()
        claims: list[int] = []
        if not spec.get("deviceClaims") or is_finished(obj.manifest):
            return PodDemand(obj, ())
        nodes = nodes_for(obj, self.nodes)
        value = spec["deviceClaims"]
        # The successor's first sample has a mapping of devices instead of a list.
        listed = Field(obj, "spec.deviceClaims", [value] if isinstance(value, dict) else value)
        for index, item in enumerate(listed.items(MAX_CLAIMS, too_many("claims"))):
            found = self._read_pod_claim(item, str(item.value.get("name") or index))
            if isinstance(found, frozenset):
                nodes = found if nodes is None else nodes & found
            elif found not in claims:
                claims.append(found)
        return PodDemand(obj, tuple(claims), nodes, int(spec.get("priority") or 0))

    def _read_pod_claim(self, field: Field, label: str) -> int | frozenset[str]:
        """Position of the claim, or the nodes of one that has its devices already."""
        pod, own_name = field.obj, f"{field.obj.name}-{label}"
        key, given = form_of(field.value)
        if key:
            source = self._find_claim(field[key], given)
            if key == "claimName":
                return self._shared(source)
            return self._add(source, source.manifest.get("spec") or {}, own_name)
        return self._add(pod, given, own_name)

    def _find_claim(self, named: Field, name: t.Any) -> ApiObject:
        for obj in self.of(*CLAIM_KINDS):
            if obj.key == (named.obj.namespace, str(name)):
                return obj
        raise named.error(f"there is no DeviceClaim {str(name)!r} in the pod's namespace")

    def _shared(self, source: ApiObject) -> int | frozenset[str]:
        if source.key in self._node_of_claim:
            return self._node_of_claim[source.key]
        return self.shared(source, self._read_claim)
