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
from ..model.fields import MAX_CLAIMS, at_most, items_of, mapping_of
from ..model.findings import ApiObject, Findings
from ..model.model import Claim, HeldDevice, Instance, Node, Unit
from ..model.task import Options, PodDemand, Refusals, Task, labels_of, nodes_for, units_of
from .claims import ClaimReader
from .classes import Classes, DeviceCatalog
from .pools import Pools
from .status import Results, held_devices, held_for_safety

GROUP = "devmgmtproto.k8s.io"
VERSION = f"{GROUP}/v1alpha1"
CLAIM_KINDS = ("DeviceClaim", "DevicePrivilegedClaim")
KINDS = ("DevicePool", "DeviceClass", "DeviceDriver", *CLAIM_KINDS)

# Forms of an inline claim in the samples.
EMBEDDED = ("template", "spec", "claimSpec", "claim")


def read(objects: t.Sequence[ApiObject], options: Options) -> Task:
    """The task that these objects define. Raises InvalidInput."""
    return _Reader(objects, options).task()


class _Reader:
    def __init__(self, objects: t.Sequence[ApiObject], options: Options) -> None:
        self._options = options
        self._by_kind: dict[str, list[ApiObject]] = {}
        for obj in objects:
            self._by_kind.setdefault(obj.kind, []).append(obj)
        self._findings = Findings()
        self._refusals = Refusals(options.report, self._findings)
        self._nodes = self._read_nodes()
        names = frozenset(node.name for node in self._nodes)
        self._pools = Pools(self._findings, names)
        self._classes = Classes(self._findings, Compiler("flat"))
        for kind, read in (
            ("DevicePool", self._pools.add),
            ("DeviceDriver", self._classes.add_driver),
            ("DeviceClass", self._classes.add),
        ):
            for obj in self._of(kind):
                self._refusals.read(obj, read)
        self._reader = ClaimReader(
            self._findings, self._classes, DeviceCatalog(self._pools.devices)
        )
        self._claims: list[Claim] = []
        self._sources: list[ApiObject] = []
        self._by_name: dict[tuple[str, str], int] = {}
        self._held: list[HeldDevice] = []
        self._taken: set[int] = set()
        self._node_of_claim: dict[tuple[str, str], frozenset[str]] = {}

    def _of(self, *kinds: str) -> list[ApiObject]:
        return [obj for kind in kinds for obj in self._by_kind.get(kind, [])]

    def _read_nodes(self) -> tuple[Node, ...]:
        """The Nodes, and the nodes that pools name."""
        labels = {obj.name: labels_of(obj, self._findings) for obj in self._of("Node")}
        for pool in self._of("DevicePool"):
            named = member(pool.manifest, "spec", "nodeName")
            if isinstance(named, str) and named:
                labels.setdefault(named, {})
        if self._options.node:
            labels = {self._options.node: labels.get(self._options.node, {})}
        return tuple(Node(name, labels[name]) for name in sorted(labels))

    def task(self) -> Task:
        claims = self._of(*CLAIM_KINDS)
        unreadable = [obj for obj in claims if not self._refusals.read(obj, self._read_status)]
        # After the others, so that it takes no devices of theirs where only their number is known.
        for obj in unreadable:
            self._node_of_claim[obj.namespace, obj.name] = frozenset()
            held = held_for_safety(obj, self._pools, self._taken)
            self._held += held
            self._taken.update(one.device for one in held)
        demands: list[PodDemand] = []
        if self._of("Pod") or self._options.only_for_pods:
            read = [self._refusals.read(obj, self._read_pod) for obj in self._of("Pod")]
            demands = [demand for demand in read if demand is not None]
            units, pods = units_of(demands, [str(claim) for claim in self._claims], self._refusals)
        else:
            units, pods = self._one_unit()
        self._classes.check_all()
        instance = Instance(
            self._nodes,
            tuple(self._pools.devices),
            tuple(self._pools.counters),
            tuple(self._reader.matchers),
            tuple(self._claims),
            units,
            tuple(self._held),
        )
        return Task(
            instance,
            Results(
                instance, frozenset(self._pools.counted), self._reader.origins, self._sources
            ).of,
            pods,
            tuple(self._read_pools()),
            tuple(self._findings.found),
            tuple(self._refusals.found),
            tuple(demands),
        )

    def _read_pools(self) -> t.Iterator[tuple[str, str, frozenset[str]]]:
        readable = set(self._pools.names)
        for obj in self._of("DevicePool"):
            if obj.name not in readable:
                continue
            spec = obj.manifest["spec"]
            node = spec.get("nodeName")
            nodes = frozenset([node]) if node else frozenset(node.name for node in self._nodes)
            yield spec["driver"], obj.name, nodes

    def _one_unit(self) -> tuple[tuple[Unit, ...], tuple[tuple[tuple[str, str], ...], ...]]:
        """Claims without a pod count as those of one pod, as in the prototype's SelectNode."""
        read = [
            self._refusals.read(obj, self._read_claim)
            for obj in self._of(*CLAIM_KINDS)
            if (obj.namespace, obj.name) not in self._node_of_claim
        ]
        claims = tuple(claim for claim in read if claim is not None)
        return ((Unit(claims),), ((),)) if claims else ((), ())

    def _read_claim(self, obj: ApiObject) -> int:
        return self._add(obj, mapping_of(obj, obj.manifest.get("spec"), "spec"), obj.name)

    def _add(self, obj: ApiObject, spec: Object, name: str) -> int:
        self._claims.append(self._reader.read(obj, spec, name))
        self._sources.append(obj)
        return len(self._claims) - 1

    def _read_status(self, obj: ApiObject) -> bool:
        """An existing allocation; its devices are not free and the claim is not allocated again."""
        for held in held_devices(obj, self._pools, self._taken):
            self._held.append(held)
            self._taken.add(held.device)
            nodes = self._pools.devices[held.device].nodes
            key = obj.namespace, obj.name
            self._node_of_claim[key] = self._node_of_claim.get(key, nodes) & nodes
        return True

    def _read_pod(self, obj: ApiObject) -> PodDemand:
        spec = mapping_of(obj, obj.manifest.get("spec"), "spec")
        claims: list[int] = []
        if not spec.get("deviceClaims") or is_finished(obj.manifest):
            return PodDemand(obj, ())
        nodes = nodes_for(obj, self._nodes)
        for index, item in enumerate(_device_claims(obj, spec)):
            found = self._read_pod_claim(obj, item, f"spec.deviceClaims[{index}]")
            if isinstance(found, frozenset):
                nodes = found if nodes is None else nodes & found
            elif found not in claims:
                claims.append(found)
        return PodDemand(obj, tuple(claims), nodes, int(spec.get("priority") or 0))

    def _read_pod_claim(self, pod: ApiObject, item: Object, where: str) -> int | frozenset[str]:
        """Position of the claim, or the nodes of one that has its devices already."""
        label = str(item.get("name") or where.rpartition("[")[2].rstrip("]"))
        own_name = f"{pod.name}-{label}"
        embedded = next((item[key] for key in EMBEDDED if isinstance(item.get(key), dict)), None)
        if embedded is not None and "claimName" in embedded:
            item, embedded = embedded, None
        if embedded is not None:
            return self._add(pod, embedded, own_name)
        for key in ("claimName", "claimTemplateName"):
            if item.get(key):
                source = self._find_claim(pod, str(item[key]), f"{where}.{key}")
                if key == "claimName":
                    return self._shared(source)
                return self._add(source, source.manifest.get("spec") or {}, own_name)
        if isinstance(item.get("devices"), list):
            return self._add(pod, {"devices": item["devices"]}, own_name)
        return self._add(pod, {key: item[key] for key in item if key != "name"}, own_name)

    def _find_claim(self, pod: ApiObject, name: str, where: str) -> ApiObject:
        for obj in self._of(*CLAIM_KINDS):
            if (obj.namespace, obj.name) == (pod.namespace, name):
                return obj
        raise pod.error(where, f"there is no DeviceClaim {name!r} in the pod's namespace")

    def _shared(self, source: ApiObject) -> int | frozenset[str]:
        key = source.namespace, source.name
        if key in self._node_of_claim:
            return self._node_of_claim[key]
        if key not in self._by_name:
            self._by_name[key] = self._read_claim(source)
        return self._by_name[key]


def _device_claims(obj: ApiObject, spec: Object) -> t.Sequence[Object]:
    """The pod's claims; the successor's first sample has a mapping of devices instead."""
    value = spec.get("deviceClaims")
    items = items_of(obj, [value] if isinstance(value, dict) else value, "spec.deviceClaims")
    return at_most(obj, items, MAX_CLAIMS, "claims", "spec.deviceClaims")
