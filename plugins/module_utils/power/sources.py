# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""An Instance from the module's options: documents, a file with everything, or literal lists."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType

from ..base import documents
from ..base.boundary import Finding, guarded, subject_of
from ..base.errors import InvalidInput
from ..base.fields.strict import mapping, required_text, sequence, text, text_mapping, whole_number
from ..base.json_types import Object
from ..base.manifests import read_file_content
from ..scheduling.budgets import Budgets
from ..scheduling.cache_ways import NodeCaches, pools_by_node, read_caches
from ..scheduling.curve import Curve, Curves
from ..scheduling.intake import Intake, SoundNode, has_node
from ..scheduling.model import Node
from ..scheduling.node_reader import Loads, Occupancy, measured_use, occupancies, read_node
from ..scheduling.nominated_pods import (
    ExistingAntiAffinity,
    NominatedPod,
    has_nomination,
    with_promises,
)
from ..scheduling.peers import Namespaces, read_namespace
from ..scheduling.pod_reader import is_pending
from ..scheduling.scope import Scope
from ..scheduling.volumes.cluster_volumes import ClusterVolumes, with_attachable
from ..scheduling.volumes.objects import VolumeObjects
from ..scheduling.workload import Workload
from ..solving.limits import Limits
from .constraints.instance import Instance, Rules
from .constraints.relation_reader import Surroundings
from .limits.domains import NO_LIMITS, Limited, with_limits
from .waiting_pods import PodUse, WaitingPods, measured_shares

Parameters = t.Mapping[str, t.Any]
T = t.TypeVar("T")

_LISTS = (
    *("device_objects", "namespaces", "node_metrics", "nodes", "pod_disruption_budgets", "pods"),
    *("replica_sets", "rmd_node_states", "running", "volume_objects"),
)
_FILE_KEYS = ("curves", *_LISTS)


@dataclass(frozen=True)
class Source:
    """The readable parts of the cluster. All except pods, budgets and device objects are free of
    errors; ``findings`` are about parts that were left out or replaced for that."""

    nodes: t.Mapping[str, SoundNode]
    pods: t.Sequence[Object]
    running: t.Sequence[Object]
    nominated: t.Sequence[NominatedPod] = ()
    curves: t.Mapping[str, Curve] = field(default_factory=dict)
    measured: t.Mapping[str, int] = field(default_factory=dict)
    namespaces: Namespaces = field(default_factory=Namespaces)
    replica_sets: t.Mapping[str, Object] = field(default_factory=dict)
    budgets: Budgets = field(default_factory=Budgets)
    caches: t.Sequence[NodeCaches] = ()
    device_objects: t.Sequence[Object] = ()
    volume_objects: VolumeObjects | None = None
    previous: t.Mapping[tuple[str, str], str] = field(default_factory=dict)
    scope: Scope | None = None
    shares: t.Mapping[Workload, Decimal] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    limited: Limited = NO_LIMITS


def instance_of(source: Source, parameters: Parameters, limits: Limits | None = None) -> Instance:
    """The task in neutral terms.

    After the patience of the limits, pods with rules about others are left as unsupported.
    """
    return with_limits(_unlimited(source, parameters, limits), source.limited)


def _unlimited(source: Source, parameters: Parameters, limits: Limits | None) -> Instance:
    assumption = Decimal(str(parameters["pod_usage_assumption"]))
    loads = Loads(parameters["usage_source"], assumption, source.measured)
    volumes = None
    if source.volume_objects is not None:
        volumes = ClusterVolumes(source.volume_objects, source.running, source.pods)
    nodes = _nodes(source, loads, volumes)
    labels_of = {name: node.labels for name, node in source.nodes.items()}
    waiting = WaitingPods(
        source.pods,
        Surroundings(
            source.running, list(labels_of.values()), source.namespaces, source.replica_sets
        ),
        ExistingAntiAffinity(source.running, source.nominated, labels_of, source.namespaces),
        PodUse(assumption, source.shares),
        limits.is_too_late if limits is not None else lambda: False,
    )
    waiting.read_volumes(volumes)
    waiting.read_claims(
        [node.given for node in source.nodes.values()],
        source.device_objects,
        parameters["device_power"],
        parameters["seed"],
    )
    pods, peers, nominated = waiting.pods()
    return Instance(
        nodes,
        pods,
        _rules(parameters),
        peers,
        waiting.claims,
        source.previous,
        tuple(waiting.findings),
        volumes.static_claims if volumes is not None else (),
        nominated,
    )


def _nodes(source: Source, loads: Loads, volumes: ClusterVolumes | None) -> tuple[Node, ...]:
    """The nodes by name, with their running pods."""
    occupied = occupancies(source.running)
    pools = pools_by_node(source.caches, source.running)
    found = []
    for name in sorted(source.nodes):
        given, occupancy = source.nodes[name].given, occupied.get(name) or Occupancy()
        node = replace(
            read_node(given, occupancy, loads, source.curves.get(name)),
            cache_pools=pools.get(name),
            eligible=source.scope is None or name in source.scope.nodes,
        )
        node = with_promises(node, source.nominated)
        found.append(node if volumes is None else with_attachable(node, volumes))
    return tuple(found)


def _rules(parameters: Parameters) -> Rules:
    return Rules(
        allow_power_off=parameters["allow_power_off"],
        standby_watts=parameters["standby_watts"],
        use_unpriced=parameters["unpriced"] == "last_resort",
        preference_watts=parameters["preference_watts"],
    )


def _each(
    lists: Object, intake: Intake, part: str, kind: str, read: t.Callable[[Object], T]
) -> list[T]:
    return intake.each(lists.get(part, ()), kind, part, read)


def _namespaces(lists: Object, intake: Intake) -> Namespaces:
    if lists.get("namespaces") is None:
        return Namespaces()
    return Namespaces(dict(_each(lists, intake, "namespaces", "Namespace", read_namespace)))


def _volume_objects(lists: Object, intake: Intake) -> VolumeObjects | None:
    if lists.get("volume_objects") is None:
        return None
    volumes = VolumeObjects.read(lists["volume_objects"])
    intake.findings += volumes.findings
    return volumes


def source_of(
    lists: Object,
    curves: Curves,
    previous: t.Sequence[t.Any],
    scope: Scope | None = None,
    cores_by_uid: t.Mapping[str, float] = MappingProxyType({}),
) -> Source:
    """The readable parts of the cluster, and the findings of the others.

    ``lists`` are named as in a snapshot, with the pods to place in ``pods``, and those with a node
    or nominated for one in ``running``. Without ``namespaces`` their labels are unknown, without
    ``volume_objects`` claims and volumes. ``scope`` None: every node may be used, and every pod
    placed. ``cores_by_uid`` are CPUs in use by running pods.
    """
    intake = Intake()
    nodes, namespaces = intake.nodes(lists.get("nodes", ())), _namespaces(lists, intake)
    there = intake.pods(lists.get("running", ()), "running")
    allocatable = {name: node.allocatable for name, node in nodes.items()}
    running = intake.running([pod for pod in there if not has_nomination(pod)], allocatable)
    budgets = Budgets(lists.get("pod_disruption_budgets", ()))
    return Source(
        nodes=nodes,
        namespaces=namespaces,
        running=running,
        measured=dict(_each(lists, intake, "node_metrics", "NodeMetrics", measured_use)),
        caches=list(
            filter(None, _each(lists, intake, "rmd_node_states", "RmdNodeState", read_caches))
        ),
        replica_sets=dict(_each(lists, intake, "replica_sets", "ReplicaSet", _read_replica_set)),
        previous=dict(intake.each(previous, "placement", "previous_placements", _read_previous)),
        volume_objects=_volume_objects(lists, intake),
        pods=intake.pods(lists.get("pods", ()), "pods"),
        nominated=intake.nominated(pod for pod in there if has_nomination(pod)),
        curves=curves.by_node,
        budgets=budgets,
        device_objects=lists.get("device_objects", ()),
        scope=scope,
        shares=measured_shares(running, cores_by_uid),
        findings=(*intake.findings, *curves.findings, *budgets.findings),
    )


def read_source(parameters: Parameters) -> Source:
    """Content of the completed parameters and of the files that they name. Raises InvalidInput."""
    curves: Object = {}
    if parameters["curves"]:
        curves = documents.load(parameters["curves"], "curves")["curves"]
    if parameters["snapshot"]:
        snapshot = documents.load(parameters["snapshot"], "snapshot")
        return source_of_snapshot(
            snapshot, Curves.from_document(curves), _previous_placements(parameters), parameters
        )
    files = [(f"src {path}: ", _load_file(path)) for path in parameters["src"] or ()]
    lists: dict[str, list[t.Any]] = {}
    for where, content in (("", parameters), *files):
        for part in _LISTS:
            if content.get(part) is not None:
                lists.setdefault(part, []).extend(sequence(content[part], f"{where}{part}"))
    for where, content in files:
        curves = {**mapping(content.get("curves"), f"{where}curves"), **curves}
    return source_of(lists, Curves.from_document(curves), _previous_placements(parameters))


def source_of_snapshot(
    snapshot: Object,
    curves: Curves,
    previous: t.Sequence[t.Any],
    parameters: Parameters,
    scope: Scope | None = None,
    cores_by_uid: t.Mapping[str, float] = MappingProxyType({}),
) -> Source:
    """The cluster of a snapshot, with the curves by node and the placements of the last plan.

    Raises InvalidInput if the snapshot lacks parts that the completed parameters need.
    """
    if parameters["rebalance"] and "pod_disruption_budgets" not in snapshot:
        raise InvalidInput(
            "rebalance: the snapshot has no pod_disruption_budgets, which say what may be moved; "
            "include them in fleet_snapshot_info"
        )
    waiting, there = _divided(snapshot.get("pods", []), parameters, scope)
    lists = {**snapshot, "pods": waiting, "running": there}
    return source_of(lists, curves, previous, scope, cores_by_uid)


def _divided(
    pods: t.Sequence[t.Any], parameters: Parameters, scope: Scope | None
) -> tuple[list[t.Any], list[t.Any]]:
    """The pods to place, and the pods with a node or nominated for one."""
    pending = functools.partial(is_pending, scheduler_name=parameters["scheduler_name"])
    waiting: list[t.Any] = []
    there: list[t.Any] = []
    for pod in pods:
        if has_node(pod):
            there.append(pod)
        elif (
            # An unreadable pod counts as waiting, and is found to be invalid later.
            (scope is None or scope.has_pod(pod))
            and guarded(subject_of(pod, "Pod"), functools.partial(pending, pod)) is not False
        ):
            waiting.append(pod)
        elif has_nomination(pod):
            there.append(pod)
    return waiting, there


def _previous_placements(parameters: Parameters) -> t.Sequence[t.Any]:
    """The placements of the last plan, from its document or from literal ones."""
    if parameters["previous"]:
        placements: list[Object] = documents.load(parameters["previous"], "plan")["placements"]
        return placements
    return sequence(parameters["previous_placements"], "previous_placements")


def _read_previous(placement: Object) -> tuple[tuple[str, str], str]:
    """A pod and its node in the last plan. Raises InvalidField."""
    namespace = text(placement.get("namespace"), "namespace") or "default"
    pod, node = (required_text(placement.get(name), name) for name in ("pod", "node"))
    return (namespace, pod), node


def _read_replica_set(given: Object) -> tuple[str, Object]:
    """A ReplicaSet by its uid. Raises InvalidField."""
    metadata = mapping(given.get("metadata"), "metadata")
    text_mapping(metadata.get("annotations"), "metadata.annotations")
    replicas = mapping(given.get("spec"), "spec").get("replicas")
    if replicas is not None:
        whole_number(replicas, "spec.replicas", 0)
    return text(metadata.get("uid"), "metadata.uid"), given


def _load_file(path: str) -> Parameters:
    content: Parameters = read_file_content(path)
    unknown = sorted(mapping(content, f"src {path}").keys() - set(_FILE_KEYS), key=str)
    if unknown or not content:
        raise InvalidInput(
            f"src {path}: {unknown[0]!r} is not known here; write {', '.join(_FILE_KEYS)}"
            if unknown
            else f"src {path} is empty; write {', '.join(_FILE_KEYS)}"
        )
    return content
