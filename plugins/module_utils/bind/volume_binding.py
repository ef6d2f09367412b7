# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Claims of pods that are about to be bound, as in kube-scheduler's PreBind phase.

A Binding skips that phase, so the volume of a claim would never be requested, and the pod would
wait on its node forever. Here a claim gets an existing volume, or an annotation with the node for
its provisioner, and a pod is bound after its claims. A claim without a volume in time is given
back. Claims whose node cannot provision a volume get existing ones first; the others take remaining
smaller volumes, which kube-scheduler prefers to new ones.

Source: volumebinding/binder.go of Kubernetes v1.34.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ..base.boundary import Finding, guarded, subject_of
from ..base.errors import ApiError
from ..base.fields.strict import text_mapping
from ..base.json_types import MutableObject
from ..kube.client import MERGE_CONTENT_TYPE, Kube
from ..kube.source import read_source, without_bulk
from ..scheduling.feasibility import (
    CLAIM_IN_USE,
    NO_VOLUME,
    TOO_MANY_VOLUMES,
    shortages,
    volume_obstacles,
)
from ..scheduling.model import Constraints, Node
from ..scheduling.volumes.cluster_volumes import ClusterVolumes, VolumeNeeds
from ..scheduling.volumes.matching import matched
from ..scheduling.volumes.objects import SELECTED_NODE, Claim, Key, VolumeObjects, read_claim
from ..scheduling.volumes.pod_claims import Unready, claim_names, class_of, ready_claims
from ..scheduling.volumes.reachable_nodes import made_on
from ..snapshot.snapshot import SOURCES

VOLUME_TIMEOUT = 60.0
_POLL_SECONDS = 1.0
_GONE_OR_CHANGED = (404, 409)

T = t.TypeVar("T")

_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"

_Volumes = tuple[str, ...]


@dataclass
class _State:
    """Storage objects, read once for a run of bindings, and the run's changes of them."""

    objects: VolumeObjects
    versions: t.Mapping[tuple[str, str, str], str]
    chosen: t.Mapping[Key, str]
    requests: dict[Key, VolumeRequest] = field(default_factory=dict)
    users: dict[str, dict[Key, str]] = field(default_factory=dict)


class VolumeBinding:
    """The volumes of one run of bindings. Thread-safe.

    ``planned`` gives all pods of the run with the names of their nodes, because existing volumes
    are assigned to all claims together.
    """

    def __init__(
        self,
        kube: Kube,
        planned: t.Callable[[], t.Sequence[tuple[MutableObject, str]]],
        timeout: float = VOLUME_TIMEOUT,
        sleep: t.Callable[[float], None] = time.sleep,
        clock: t.Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._planned = planned
        self._timeout = timeout
        self._sleep, self._clock = sleep, clock
        self._lock = threading.Lock()
        self._known: _State | None = None

    def _state(self) -> _State:
        with self._lock:
            if self._known is None:
                items, _findings = read_source(self._kube, SOURCES["volume_objects"], None)
                objects = VolumeObjects.read(items)
                self._known = _State(
                    objects,
                    {
                        _identity(item): item["metadata"].get("resourceVersion", "")
                        for item in items
                    },
                    choose(objects, self._planned(), functools.partial(_nodes, self._kube)),
                )
            return self._known

    def refusal(
        self, pod: MutableObject, node: Node, on_node: t.Iterable[t.Mapping[str, t.Any]]
    ) -> str | None:
        """Why the pod's volumes exclude the node now, beside these pods; None if they do not.

        Raises ApiError, and InvalidField for an unreadable object.
        """
        state = self._state()
        cluster = ClusterVolumes(state.objects, on_node, [pod])
        try:
            needs = cluster.needs(pod)
            claims = [claim for _name, claim in ready_claims(pod, state.objects)]
        except Unready as problem:
            return str(problem)
        obstacles = volume_obstacles(Constraints(volumes=needs.demands), node)
        if obstacles:
            return obstacles[0]
        if not _can_attach(cluster, needs, node.name):
            return TOO_MANY_VOLUMES
        for claim in claims:
            request = state.requests.get(claim.key)
            if not claim.is_bound and (
                claim.key not in state.chosen or (request is not None and request.node != node.name)
            ):
                return NO_VOLUME
        return CLAIM_IN_USE if self._is_in_use(state, pod, claims) else None

    def _is_in_use(self, state: _State, pod: MutableObject, claims: t.Iterable[Claim]) -> bool:
        """Whether another pod has an exclusive claim of the pod; if not, the pod has it now."""
        exclusive = [claim for claim in claims if claim.is_exclusive]
        if not exclusive:
            return False
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        with self._lock:
            if namespace not in state.users:
                state.users[namespace] = self._users_in(namespace)
            users = state.users[namespace]
            if any(users.get(claim.key, uid) != uid for claim in exclusive):
                return True
            users.update({claim.key: uid for claim in exclusive})
            return False

    def _users_in(self, namespace: str) -> dict[Key, str]:
        """Claims of pods on nodes, with the uid of such a pod."""
        selector = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        found = {}
        path = f"/api/v1/namespaces/{namespace}/pods"
        for pod in self._kube.list(path, {"fieldSelector": selector}, without_bulk):
            names = guarded(subject_of(pod, "Pod"), functools.partial(claim_names, pod))
            for name in () if isinstance(names, Finding) else names:
                found[name.key] = pod["metadata"]["uid"]
        return found

    def ask(self, pod: MutableObject, node: str) -> list[VolumeRequest]:
        """Assign volumes to the pod's claims, or request them; return the claims to wait for.

        Raises ApiError, and Unready if a claim or volume changed since it was read.
        """
        state = self._state()
        found = []
        for _name, claim in ready_claims(pod, state.objects):
            if claim.is_bound:
                continue
            request = VolumeRequest(claim, node, state.chosen[claim.key])
            with self._lock:
                is_new = claim.key not in state.requests
                state.requests[claim.key] = request
            found.append(request)
            if is_new and claim.selected_node != node:
                try:
                    send(self._kube, request, state.objects, state.versions)
                except ApiError as error:
                    if error.status not in _GONE_OR_CHANGED:
                        raise
                    raise Unready(
                        f"the claim {request.name} or its volume changed meanwhile; the next run "
                        "reads them again"
                    ) from error
        return found

    def wait(self, pending: t.Mapping[T, t.Sequence[VolumeRequest]]) -> dict[T, str]:
        """Wait until the claims of all pods are bound; return the reasons of unbound ones.

        Raises ApiError. Claims that are not bound by then are given back.
        """
        waiting = {each.claim.key: each for all_of in pending.values() for each in all_of}
        failed: dict[Key, str] = {}
        until = self._clock() + self._timeout
        while True:
            found = self._read_claims({key[0] for key in waiting})
            for key, each in list(waiting.items()):
                problem = each.problem(found.get(key))
                if problem is not None:
                    del waiting[key]
                    failed.update({key: problem} if problem else {})
            if not waiting or self._clock() >= until:
                break
            self._sleep(_POLL_SECONDS)
        failed.update({key: self._too_late(each) for key, each in waiting.items()})
        for key, each in waiting.items():
            withdraw(self._kube, each, found[key])
        return {
            pod: "; ".join(failed[each.claim.key] for each in all_of if each.claim.key in failed)
            for pod, all_of in pending.items()
            if any(each.claim.key in failed for each in all_of)
        }

    def _read_claims(self, namespaces: t.Iterable[str]) -> dict[Key, MutableObject]:
        return {
            (claim["metadata"]["namespace"], claim["metadata"]["name"]): claim
            for namespace in sorted(namespaces)
            for claim in self._kube.list(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")
        }

    def _too_late(self, request: VolumeRequest) -> str:
        seconds = f"{self._timeout:.0f} s"
        if request.volume:
            return f"binding volumes: claim {request.name} was not bound to {request.volume} in {seconds}"
        of_class = request.claim.wanted.storage_class
        provisioner = self._state().objects.classes[of_class].provisioner
        return (
            f"binding volumes: provisioner {provisioner} made no volume for claim {request.name} on "
            f"node {request.node} in {seconds}"
        )


def _can_attach(cluster: ClusterVolumes, needs: VolumeNeeds, node: str) -> bool:
    apart, attachable = cluster.room(node)
    if shortages(needs.requests.items(), apart):
        return False
    if attachable is None or needs.shared is None:
        return True
    new = Counter(dict(needs.shared.own_disks))
    new.update(disk.driver for disk in needs.shared.disks if disk not in attachable.present)
    left = dict(attachable.left)
    return all(number <= left[driver] for driver, number in new.items())


def _identity(item: MutableObject) -> tuple[str, str, str]:
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace") or "", metadata["name"]


@dataclass(frozen=True)
class VolumeRequest:
    """A claim with an assigned volume, or with an annotated node for its provisioner."""

    claim: Claim
    node: str
    volume: str = ""

    @property
    def name(self) -> str:
        return "/".join(self.claim.key)

    @property
    def path(self) -> str:
        """The path of the object that is written: the volume, or the claim without one."""
        if self.volume:
            return f"/api/v1/persistentvolumes/{self.volume}"
        claim = self.claim
        return f"/api/v1/namespaces/{claim.namespace}/persistentvolumeclaims/{claim.name}"

    def problem(self, given: MutableObject | None) -> str | None:
        """Why the claim will not be bound; empty if it is, None if it may be yet."""
        if given is None or given["metadata"].get("uid") != self.claim.uid:
            return f"binding volumes: claim {self.name} is gone"
        claim = guarded(subject_of(given, "claim"), functools.partial(read_claim, given))
        if isinstance(claim, Finding):
            return f"binding volumes: {claim}"
        if claim.is_bound and self.volume not in ("", claim.volume):
            return f"binding volumes: claim {self.name} was bound to another volume meanwhile"
        if claim.is_bound:
            return ""
        if not self.volume and claim.selected_node != self.node:
            return f"binding volumes: claim {self.name} cannot have its volume on node {self.node}"
        return None


def send(
    kube: Kube,
    request: VolumeRequest,
    objects: VolumeObjects,
    versions: t.Mapping[tuple[str, str, str], str],
) -> None:
    """Assign the volume to the claim, or the node to its provisioner. Raises ApiError.

    ``versions`` are the resource versions of the objects by kind, namespace and name.
    """
    claim = request.claim
    if not request.volume:
        version = versions["PersistentVolumeClaim", claim.namespace, claim.name]
        _patch(kube, request, version, {SELECTED_NODE: request.node})
        return
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
    }
    is_for_claim = objects.volumes[request.volume].is_for(claim)
    annotations = {} if is_for_claim else {_BOUND_BY_CONTROLLER: "yes"}
    version = versions["PersistentVolume", "", request.volume]
    _patch(kube, request, version, annotations, {"claimRef": reference})


def withdraw(kube: Kube, request: VolumeRequest, given: MutableObject) -> None:
    """Undo a request, unless another client changed the claim or the volume meanwhile."""
    with contextlib.suppress(ApiError):
        if not request.volume:
            _patch(kube, request, given["metadata"]["resourceVersion"], {SELECTED_NODE: None})
            return
        named = {"fieldSelector": f"metadata.name={request.volume}"}
        for volume in kube.list("/api/v1/persistentvolumes", named):
            reference = volume["spec"].get("claimRef") or {}
            if reference.get("uid") == request.claim.uid:
                version = volume["metadata"]["resourceVersion"]
                _patch(kube, request, version, {_BOUND_BY_CONTROLLER: None}, {"claimRef": None})


def _patch(
    kube: Kube,
    request: VolumeRequest,
    version: str,
    annotations: t.Mapping[str, str | None],
    spec: MutableObject | None = None,
) -> None:
    """Change the object, conditionally on the version that was read."""
    body: MutableObject = {"metadata": {"resourceVersion": version, "annotations": annotations}}
    if spec is not None:
        body = {**body, "spec": spec}
    kube.request("PATCH", request.path, body, MERGE_CONTENT_TYPE)


class _VolumeOptions(t.NamedTuple):
    """A claim on a node, the suitable volumes there, and whether one can be provisioned there."""

    claim: Claim
    volumes: _Volumes
    can_be_made: bool


def choose(
    objects: VolumeObjects,
    planned: t.Sequence[tuple[MutableObject, str]],
    nodes_of: t.Callable[[t.Sequence[str]], t.Mapping[str, Node]],
) -> dict[Key, str]:
    """The volume of each unbound claim; empty for one to be provisioned, none for one without any.

    ``planned`` are pods with the names of their nodes, which ``nodes_of`` reads. Claims that need an
    existing volume get one by bipartite matching, the others greedily.
    """
    cluster = ClusterVolumes(objects, (), ())
    claims = _claims_of(objects, planned)
    nodes = nodes_of(sorted({node for _claim, node in claims}))
    options = [
        _volume_options(claim, nodes[node], cluster, objects)
        for claim, node in claims
        if node in nodes
    ]
    in_order = sorted(options, key=lambda each: (each.claim.wanted.size, each.claim.key))
    found = _matched([each for each in in_order if not each.can_be_made])
    taken = set(found.values())
    for each in in_order:
        if each.claim.key not in found:
            free = next((volume for volume in each.volumes if volume not in taken), "")
            if free or each.can_be_made:
                found[each.claim.key] = free
                taken.add(free)
    return found


def _claims_of(
    objects: VolumeObjects, planned: t.Sequence[tuple[MutableObject, str]]
) -> list[tuple[Claim, str]]:
    """The unbound claims of pods, each once, with a node."""
    found: dict[Key, tuple[Claim, str]] = {}
    for pod, node in planned:
        read = guarded(subject_of(pod, "Pod"), functools.partial(_unbound, pod, objects))
        for claim in () if isinstance(read, Finding) else read:
            found.setdefault(claim.key, (claim, node))
    return list(found.values())


def _unbound(pod: MutableObject, objects: VolumeObjects) -> list[Claim]:
    try:
        return [claim for _name, claim in ready_claims(pod, objects) if not claim.is_bound]
    except Unready:
        return []


def _nodes(kube: Kube, names: t.Sequence[str]) -> dict[str, Node]:
    """The nodes with their labels, without missing and unreadable ones."""
    given = kube.in_parallel(lambda name: kube.find(f"/api/v1/nodes/{name}"), names)
    found = {}
    for name, item in zip(names, given):
        read = guarded(subject_of(item, "Node"), functools.partial(_labels, item or {}))
        if not isinstance(read, Finding):
            found[name] = Node(name, {}, labels=read)
    return found


def _labels(node: MutableObject) -> t.Mapping[str, str]:
    return text_mapping(node["metadata"].get("labels"), "metadata.labels")


def _volume_options(
    claim: Claim, node: Node, cluster: ClusterVolumes, objects: VolumeObjects
) -> _VolumeOptions:
    of_class = class_of(claim, objects)
    demands = made_on(claim, of_class, objects) if of_class is not None else []
    can_be_made = not volume_obstacles(Constraints(volumes=tuple(demands)), node)
    if claim.selected_node:
        return _VolumeOptions(claim, (), can_be_made)
    volumes = tuple(
        name
        for name, terms in cluster.volumes_for(claim)
        if terms is None or any(term.admits(node.name, node.labels) for term in terms)
    )
    return _VolumeOptions(claim, volumes, can_be_made)


def _matched(needing: t.Sequence[_VolumeOptions]) -> dict[Key, str]:
    pairs = matched(Counter(each.volumes for each in needing))
    by_volumes: dict[_Volumes, list[str]] = {}
    for volumes, volume in pairs or ():
        by_volumes.setdefault(volumes, []).append(volume)
    if pairs is None:
        return {}
    return {each.claim.key: by_volumes[each.volumes].pop(0) for each in needing}
