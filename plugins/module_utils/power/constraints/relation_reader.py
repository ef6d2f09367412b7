# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Rules of waiting pods about other pods, required and preferred, from their fields.

Pods that no rule selects stay interchangeable, regardless of their labels: a pod has only its
memberships in the sets that some rule names.
"""

from __future__ import annotations

import functools
import math
import typing as t
from dataclasses import dataclass, field, replace

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import (
    Finding,
    guarded,
    subject_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.object_shapes import (
    Object,
    mapping,
    mappings,
    required_text,
    whole_number,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.instance import (
    EvenStart,
    Labels,
    PeerPreference,
    PodAffinity,
    PodAntiAffinity,
    PodRelations,
    Spreading,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.peers import (
    Namespaces,
    PeerSet,
    PodFacts,
    Selection,
    UnknownNamespaces,
    pod_facts,
    read_selection,
    read_selector,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.pod_fields import (
    POD_GROUP_LABEL,
    PODSPREAD_ANNOTATIONS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.pod_reader import (
    LARGEST_WEIGHT,
    controller_of,
    identity,
    is_finished,
    labels_of,
)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REGION = "topology.kubernetes.io/region"
_ZONE = "topology.kubernetes.io/zone"
_NO_RELATIONS = PodRelations()

# What a pod demands, and paths of its fields that cannot be understood here.
Rules = tuple[PodRelations, tuple[str, ...]]


@dataclass(frozen=True)
class Surroundings:
    """Objects that a pod's rules may refer to: running pods, and labels of nodes and namespaces.

    ``replica_sets`` by uid, only those with an annotation for PodSpread.
    """

    running: t.Sequence[Object] = ()
    node_labels: t.Sequence[Labels] = ()
    namespaces: Namespaces = field(default_factory=Namespaces)
    replica_sets: t.Mapping[str, Object] = field(default_factory=dict)


class RelationReader:
    """The relations of all waiting pods.

    First every rule is read, then the memberships. An unreadable or unsupported pod leaves no set
    behind.
    """

    def __init__(self, pods: t.Sequence[Object], surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._sets: dict[PeerSet, int] = {}
        self._marked: dict[tuple[str, str] | None, list[PeerSet]] = {}
        self._sizes: dict[str, int] | None = None
        self._waiting = pods
        self._rules = [self._kept(pod) for pod in pods]
        self._members: dict[PodFacts, frozenset[int]] = {}

    def relations(self) -> t.Iterator[Rules | Finding]:
        """The relations of each pod, or the reason why they cannot be read."""
        for pod, rules in zip(self._waiting, self._rules):
            if isinstance(rules, Finding) or not self._sets:
                yield rules
                continue
            relations, unsupported = rules
            members = frozenset() if unsupported else self._sets_of(pod_facts(pod))
            yield (replace(relations, member_of=members) if members else relations), unsupported

    def peers(self) -> tuple[t.Mapping[str, int], ...]:
        """Number of running pods of each set on each node."""
        found: list[dict[str, int]] = [{} for _set in self._sets]
        if not found:
            return ()
        for pod in self._surroundings.running:
            node = (pod.get("spec") or {}).get("nodeName")
            if node and not is_finished(pod):
                for index in self._sets_of(pod_facts(pod)):
                    found[index][node] = found[index].get(node, 0) + 1
        return tuple(found)

    def _sets_of(self, facts: PodFacts) -> frozenset[int]:
        if facts not in self._members:
            self._members[facts] = frozenset(
                self._sets[peer_set]
                for mark in (*facts.marks(), None)
                for peer_set in self._marked.get(mark, ())
                if peer_set.contains(facts)
            )
        return self._members[facts]

    def _index(self, peer_set: PeerSet) -> int:
        if peer_set not in self._sets:
            marks: list[tuple[str, str] | None] = [*peer_set.marks()]
            for mark in marks or [None]:
                self._marked.setdefault(mark, []).append(peer_set)
        return self._sets.setdefault(peer_set, len(self._sets))

    def _forget(self, known: int) -> None:
        """Leave out the sets after the first ones."""
        while len(self._sets) > known:
            peer_set, _index = self._sets.popitem()
            marks: list[tuple[str, str] | None] = [*peer_set.marks()]
            for mark in marks or [None]:
                self._marked[mark].remove(peer_set)

    def _kept(self, pod: Object) -> Rules | Finding:
        known = len(self._sets)
        rules = guarded(subject_of(pod, "Pod"), functools.partial(self._read, pod))
        if isinstance(rules, Finding):
            self._forget(known)
        elif rules[1]:
            self._forget(known)
            rules = gang_of(pod), rules[1]
        return rules

    def _read(self, pod: Object) -> Rules:
        spec = mapping(pod.get("spec"), "spec")
        affinity = mapping(spec.get("affinity"), "spec.affinity")
        gang = gang_of(pod)
        start = self._even_start(pod)
        constraints = spec.get("topologySpreadConstraints")
        near = mapping(affinity.get("podAffinity"), "spec.affinity.podAffinity")
        away = mapping(affinity.get("podAntiAffinity"), "spec.affinity.podAntiAffinity")
        if not (start or constraints or near or away):
            return gang, ()
        reader = _PodReader(self._index, pod_facts(pod), self._surroundings.namespaces)
        hard, soft = reader.spreadings(constraints)
        relations = replace(
            gang,
            anti_affinity=reader.anti_affinity(away.get(_REQUIRED)),
            affinity=reader.affinity(near.get(_REQUIRED)),
            spreadings=hard,
            soft_spreadings=soft,
            even_start=start,
            peer_preferences=(
                *reader.preferences(near.get(_PREFERRED), near=True),
                *reader.preferences(away.get(_PREFERRED), near=False),
            ),
        )
        return relations, tuple(dict.fromkeys(reader.unsupported))

    def _even_start(self, pod: Object) -> EvenStart | None:
        """WAO's PodSpread; upstream too skips other controllers and rates that are no share."""
        metadata = mapping(pod.get("metadata"), "metadata")
        owner = controller_of(pod)
        if owner.get("kind") != "ReplicaSet" or not owner.get("uid"):
            return None
        replica_set = self._surroundings.replica_sets.get(owner["uid"], {})
        rate = _podspread_rate(metadata)
        if rate is None:
            rate = _podspread_rate(replica_set.get("metadata") or {})
        if rate is None:
            return None
        redundancy = math.floor(round(self._replicas(owner["uid"], replica_set) * rate, 6))
        peers = self._index(PeerSet(controller=owner["uid"]))
        return EvenStart(peers, self._area_key(), redundancy)

    def _replicas(self, uid: str, replica_set: Object) -> int:
        replicas = (replica_set.get("spec") or {}).get("replicas")
        if isinstance(replicas, int):
            return replicas
        if self._sizes is None:
            self._sizes = {}
            for pod in (*self._waiting, *self._surroundings.running):
                facts = pod_facts(pod)
                if not (facts.is_leaving or is_finished(pod)):
                    self._sizes[facts.controller] = self._sizes.get(facts.controller, 0) + 1
        return self._sizes.get(uid, 0)

    def _area_key(self) -> str:
        for key in (_REGION, _ZONE):
            if len({each[key] for each in self._surroundings.node_labels if key in each}) > 1:
                return key
        return ""


def gang_of(pod: Object) -> PodRelations:
    """The pod group that a pod belongs to, as the only relation. Raises InvalidField."""
    gang = labels_of(pod).get(POD_GROUP_LABEL)
    if not gang:
        return _NO_RELATIONS
    namespace, _name = identity(pod)
    return PodRelations(gang=f"{namespace}/{gang}")


def _podspread_rate(metadata: Object) -> float | None:
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    for name in PODSPREAD_ANNOTATIONS:
        if name in annotations:
            try:
                rate = float(annotations[name])
            except (TypeError, ValueError):
                return None
            return rate if 0 <= rate <= 1 else None
    return None


class _PodReader:
    """The rules of one pod. Unsupported fields are added to ``unsupported``."""

    def __init__(
        self,
        index: t.Callable[[PeerSet], int],
        facts: PodFacts,
        namespaces: Namespaces,
    ) -> None:
        self._index = index
        self._facts = facts
        self._namespaces = namespaces
        self.unsupported: list[str] = []

    def _selection(self, term: Object, part: str, path: str) -> tuple[Selection, str] | None:
        try:
            return read_selection(term, self._facts, self._namespaces, path)
        except UnknownNamespaces:
            self.unsupported.append(f"spec.affinity.{part}.namespaceSelector")
            return None

    def _selections(self, terms: t.Any, part: str) -> list[tuple[Selection, str]]:
        path = f"spec.affinity.{part}.{_REQUIRED}"
        return [
            found
            for index, term in enumerate(mappings(terms, path))
            if (found := self._selection(term, part, f"{path}[{index}]")) is not None
        ]

    def anti_affinity(self, terms: t.Any) -> tuple[PodAntiAffinity, ...]:
        return tuple(
            PodAntiAffinity(self._index(PeerSet((selection,))), key)
            for selection, key in self._selections(terms, "podAntiAffinity")
        )

    def affinity(self, terms: t.Any) -> PodAffinity | None:
        """A pod counts for each of the terms only if it meets all of them."""
        found = self._selections(terms, "podAffinity")
        if not found:
            return None
        selections = tuple(dict.fromkeys(selection for selection, _key in found))
        keys = tuple(sorted({key for _selection, key in found}))
        return PodAffinity(self._index(PeerSet(selections)), keys)

    def preferences(self, terms: t.Any, *, near: bool) -> t.Iterator[PeerPreference]:
        part = "podAffinity" if near else "podAntiAffinity"
        path = f"spec.affinity.{part}.{_PREFERRED}"
        for index, preferred_term in enumerate(mappings(terms, path)):
            place = f"{path}[{index}]"
            weight = whole_number(
                preferred_term.get("weight"), f"{place}.weight", 1, LARGEST_WEIGHT
            )
            term = mapping(preferred_term.get("podAffinityTerm"), f"{place}.podAffinityTerm")
            found = self._selection(term, part, f"{place}.podAffinityTerm")
            if found is not None:
                yield PeerPreference(weight, self._index(PeerSet((found[0],))), found[1], near)

    def spreadings(self, constraints: t.Any) -> tuple[tuple[Spreading, ...], tuple[Spreading, ...]]:
        """The hard constraints and the soft ones."""
        path = "spec.topologySpreadConstraints"
        hard: list[Spreading] = []
        soft: list[Spreading] = []
        for index, constraint in enumerate(mappings(constraints, path)):
            is_soft = constraint.get("whenUnsatisfiable") == "ScheduleAnyway"
            (soft if is_soft else hard).append(self._spreading(constraint, f"{path}[{index}]"))
        return _with_keys(hard), _with_keys(soft)

    def _spreading(self, constraint: Object, path: str) -> Spreading:
        selector = read_selector(constraint, self._facts, path)
        selection = Selection(frozenset({self._facts.namespace}), selector)
        min_domains = constraint.get("minDomains")
        return Spreading(
            self._index(PeerSet((selection,), counts_leaving=False)),
            required_text(constraint.get("topologyKey"), f"{path}.topologyKey"),
            whole_number(constraint.get("maxSkew"), f"{path}.maxSkew", 1),
            1 if min_domains is None else whole_number(min_domains, f"{path}.minDomains", 1),
            (constraint.get("nodeAffinityPolicy") or "Honor") == "Honor",
            (constraint.get("nodeTaintsPolicy") or "Ignore") == "Honor",
        )


def _with_keys(spreadings: list[Spreading]) -> tuple[Spreading, ...]:
    """A node counts for a constraint only if it has the keys of all constraints of the pod."""
    keys = tuple(sorted({each.topology_key for each in spreadings}))
    return tuple(each._replace(required_keys=keys) for each in spreadings)
