# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The pods to place, each read within a separate boundary.

An unreadable or unsupported pod stays without a node, and does not affect the reading of other
pods: it leaves no claim, and no set of pods from its rules.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, field, replace
from decimal import Decimal

from ..base.boundary import Finding, Subject, guarded, subject_of
from ..base.fields.strict import mapping, with_readable_metadata
from ..base.json_types import Object
from ..scheduling.cache_ways import runs_of_pod
from ..scheduling.intake import is_copy
from ..scheduling.model import NominatedMember, Pod, PodRelations, Shape
from ..scheduling.nominated_pods import ExistingAntiAffinity
from ..scheduling.peers import pod_facts
from ..scheduling.pod_fields import CLAIM_FIELDS, VOLUME_FIELDS, excesses
from ..scheduling.pod_reader import effective_requests, identity, read_pod, refused_pod, unread_pod
from ..scheduling.volumes.cluster_volumes import ClusterVolumes
from ..scheduling.volumes.pod_claims import Unready
from ..scheduling.workload import Workload, workload_of
from .constraints.device_claims import ClaimBook, read_claims
from .constraints.relation_reader import RelationReader, Surroundings, gang_of

_NO_RELATIONS = PodRelations()
_NO_NODES: frozenset[str] = frozenset()
# Steps of the share of a request that a pod uses. Without a limit it may use more than its request.
_STEPS = 20
_MAX_STEPS = 2 * _STEPS


@dataclass(frozen=True)
class PodUse:
    """Shares of requests that pods use; ``measured`` by workload goes before ``assumption``."""

    assumption: Decimal
    measured: t.Mapping[Workload, Decimal] = field(default_factory=dict)

    def of(self, pod: Object) -> Decimal:
        """The share of a waiting pod with readable metadata."""
        if not self.measured:
            return self.assumption
        return self.measured.get(workload_of(pod), self.assumption)


def measured_shares(
    running: t.Iterable[Object], cores_of: t.Mapping[str, float]
) -> dict[Workload, Decimal]:
    """The share by workload of running pods with known cores in use by UID."""
    if not cores_of:
        return {}
    sums: dict[Workload, tuple[float, float]] = {}
    for pod in running:
        read = guarded(subject_of(pod, "Pod"), functools.partial(_requested, pod))
        cores = None if isinstance(read, Finding) else cores_of.get(read[0])
        if isinstance(read, Finding) or cores is None or read[2] <= 0:
            continue
        _uid, workload, requested = read
        before = sums.get(workload, (0.0, 0.0))
        sums[workload] = before[0] + cores, before[1] + requested
    return {
        workload: Decimal(min(_MAX_STEPS, round(_STEPS * used / requested))) / _STEPS
        for workload, (used, requested) in sums.items()
    }


def _requested(pod: Object) -> tuple[str, Workload, float]:
    """UID, workload and requested cores. Raises InvalidField."""
    with_readable_metadata(pod)
    requests = effective_requests(mapping(pod.get("spec"), "spec"))
    return pod["metadata"].get("uid") or "", workload_of(pod), requests.get("cpu", 0) / 1000


@dataclass
class _Draft:
    """A pod as far as it was read; copies have one Shape object."""

    given: Object
    pod: Pod


class WaitingPods:
    """Reads the pods in passes: first each by itself, then claims, then rules between pods."""

    def __init__(
        self,
        given: t.Sequence[Object],
        surroundings: Surroundings,
        anti_affinity: ExistingAntiAffinity,
        use: PodUse,
        is_over: t.Callable[[], bool] = lambda: False,
    ) -> None:
        self.findings: list[Finding] = []
        self.claims = ClaimBook()
        self._surroundings = surroundings
        self._anti_affinity = anti_affinity
        self._use = use
        self._is_over = is_over
        self._drafts = self._read_each(given)

    def read_claims(
        self,
        nodes: t.Sequence[Object],
        device_objects: t.Sequence[Object],
        device_power: str | None,
        seed: int,
    ) -> None:
        """Read the pods' device claims; pods that are refused anyway claim nothing."""
        concerned = [
            draft.given
            for draft in self._drafts
            if not (draft.pod.shape.invalid or draft.pod.shape.unready)
            and CLAIM_FIELDS.issuperset(draft.pod.shape.unsupported)
            and (not draft.pod.shape.unsupported or self._has_sound_rules(draft.given))
        ]
        self.claims = read_claims(concerned, nodes, device_objects, device_power, seed)
        self.findings += self.claims.findings
        for draft in self._drafts:
            shape, key = draft.pod.shape, (draft.pod.namespace, draft.pod.name)
            if key in self.claims.invalid:
                self._refuse(draft, self.claims.invalid[key])
                continue
            asked = self.claims.of_pod.get(key)
            if asked is not None:
                others = (name for name in shape.unsupported if name not in CLAIM_FIELDS)
                shape = replace(
                    shape,
                    unsupported=(*others, *asked.unsupported),
                    device_claims=asked.keys,
                    constraints=replace(shape.constraints, device_nodes=asked.nodes),
                )
                draft.pod = replace(draft.pod, shape=shape)

    def read_volumes(self, volumes: ClusterVolumes | None) -> None:
        """Read the constraints of the pods' volumes; None: the storage objects are unknown."""
        if volumes is None:
            return
        for draft in self._drafts:
            shape = draft.pod.shape
            unsupported = frozenset(shape.unsupported)
            if shape.invalid or not unsupported & VOLUME_FIELDS:
                continue
            subject = Subject("Pod", draft.pod.name, draft.pod.namespace)
            read = guarded(subject, functools.partial(_with_volumes, draft, volumes))
            if isinstance(read, Finding):
                self._refuse(draft, read)
            else:
                draft.pod = replace(draft.pod, shape=read)

    def pods(
        self,
    ) -> tuple[tuple[Pod, ...], tuple[t.Mapping[str, int], ...], tuple[NominatedMember, ...]]:
        """The pods in their order, and the other pods that their rules are about.

        These are running ones of each set by node, and nominated ones.
        """
        accepted = [draft for draft in self._drafts if not draft.pod.shape.refusals]
        given = [draft.given for draft in accepted]
        reader = RelationReader(given, self._surroundings, self._is_over)
        nominated = self._anti_affinity.members_of(reader.sets_of)
        # A Shape lives until its last copy had its turn, so its id stands for it.
        shapes: dict[tuple[t.Any, ...], Shape] = {}
        for draft, rules in zip(accepted, reader.relations()):
            if isinstance(rules, Finding):
                self._refuse(draft, rules)
                continue
            relations, unsupported = rules
            priority = draft.pod.shape.priority
            closed = self._anti_affinity.nodes_closed_to(draft.given, priority)
            if nominated:
                closed |= self._anti_affinity.nodes_refused_by(relations, nominated, priority)
            key = id(draft.pod.shape), relations, unsupported, closed
            if key not in shapes:
                shapes[key] = _related(draft.pod.shape, relations, unsupported, closed)
            draft.pod = replace(draft.pod, shape=shapes[key])
        for draft in self._drafts:
            if draft.pod.shape.refusals:
                self._keep_gang(draft)
        pods = [draft.pod for draft in self._drafts]
        pods.sort(key=lambda pod: (-pod.shape.priority, pod.namespace, pod.name))
        return tuple(pods), reader.peers(), tuple(each for each in nominated if each.member_of)

    def _read_each(self, given: t.Sequence[Object]) -> list[_Draft]:
        taken = {identity(pod) for pod in self._surroundings.running}
        drafts: list[_Draft] = []
        for index, pod in enumerate(given):
            draft = self._draft(pod, drafts[-1] if drafts else None, f"pods[{index}]")
            if draft is None:
                continue
            key = draft.pod.namespace, draft.pod.name
            if key in taken:
                problem = "another pod has this name; the first counts, or the one that runs"
                subject = Subject("Pod", draft.pod.name, draft.pod.namespace)
                self.findings.append(Finding(subject, "metadata.name", problem))
                continue
            taken.add(key)
            drafts.append(draft)
        return drafts

    def _draft(self, pod: Object, former: _Draft | None, place: str) -> _Draft | None:
        """The fields of one pod itself; None if not even its name can be read."""
        if former is not None and not former.pod.shape.invalid and is_copy(pod, former.given):
            name = guarded(subject_of(pod, "Pod", place), functools.partial(identity, pod))
            if not isinstance(name, Finding):
                return _Draft(pod, replace(former.pod, name=name[1]))
        subject = subject_of(pod, "Pod", place)
        read = guarded(subject, functools.partial(self._read, pod))
        if not isinstance(read, Finding):
            return _Draft(pod, read)
        self.findings.append(read)
        refused = guarded(subject, functools.partial(refused_pod, pod, read.field))
        return None if isinstance(refused, Finding) else _Draft(pod, refused)

    def _read(self, pod: Object) -> Pod:
        pod_facts(pod)
        mapping(pod.get("status"), "status")
        too_many = excesses(pod)
        if too_many:
            return unread_pod(pod, Shape(requests=(), use_microcores=0, unsupported=too_many))
        return read_pod(pod, self._use.of(pod), _NO_NODES, runs_of_pod(pod))

    def _has_sound_rules(self, pod: Object) -> bool:
        rules = next(RelationReader([pod], self._surroundings).relations())
        return not isinstance(rules, Finding) and not rules[1]

    def _refuse(self, draft: _Draft, finding: Finding) -> None:
        self.findings.append(finding)
        draft.pod = refused_pod(draft.given, finding.field)

    def _keep_gang(self, draft: _Draft) -> None:
        """The other pods of the pod's group wait with it."""
        relations = guarded(subject_of(draft.given, "Pod"), functools.partial(gang_of, draft.given))
        if not isinstance(relations, Finding) and relations.gang:
            shape = replace(draft.pod.shape, relations=relations)
            draft.pod = replace(draft.pod, shape=shape)


def _with_volumes(draft: _Draft, volumes: ClusterVolumes) -> Shape:
    """The shape with all fields from volumes. Raises InvalidField."""
    shape = draft.pod.shape
    shape = replace(
        shape, unsupported=tuple(f for f in shape.unsupported if f not in VOLUME_FIELDS)
    )
    try:
        needs = volumes.needs(draft.given)
    except Unready as problem:
        # Its claims of devices are read when it can have a node.
        others = tuple(name for name in shape.unsupported if name not in CLAIM_FIELDS)
        return replace(shape, unsupported=others, unready=str(problem))
    return replace(
        shape,
        requests=tuple(sorted({**dict(shape.requests), **needs.requests}.items())),
        constraints=replace(shape.constraints, volumes=needs.demands),
        shared_volumes=needs.shared,
    )


def _related(
    shape: Shape, relations: PodRelations, unsupported: tuple[str, ...], closed: frozenset[str]
) -> Shape:
    """The shape with all fields about other pods."""
    if relations == _NO_RELATIONS and not unsupported and not closed:
        return shape
    return replace(
        shape,
        relations=relations,
        unsupported=(*shape.unsupported, *unsupported),
        constraints=replace(shape.constraints, anti_affinity_nodes=closed),
    )
