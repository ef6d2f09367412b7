# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""What waiting pods demand and wish regarding other pods, from their fields.

Pods that no rule speaks of stay interchangeable, whatever their labels: a pod knows only to which
of the sets it belongs that some rule names.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, field, replace

from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import (
    Attraction,
    EvenStart,
    Exclusion,
    Labels,
    PeerPreference,
    PodRelations,
    Spreading,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.peers import (
    Namespaces,
    PeerSet,
    PodFacts,
    Selection,
    UnknownNamespaces,
    pod_facts,
    read_selection,
    read_selector,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.pod_fields import (
    POD_GROUP_LABEL,
    PODSPREAD_ANNOTATIONS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.pod_reader import (
    describe,
    identity,
    is_finished,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.reading import (
    Object,
    mapping,
    mappings,
    required_text,
)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REGION = "topology.kubernetes.io/region"
_ZONE = "topology.kubernetes.io/zone"
_NO_RELATIONS = PodRelations()


@dataclass(frozen=True)
class Surroundings:
    """What a pod's rules may refer to: what runs, and labels of nodes and namespaces.

    ``replica_sets`` by uid, those with an annotation for PodSpread.
    """

    running: t.Sequence[Object] = ()
    node_labels: t.Sequence[Labels] = ()
    namespaces: Namespaces = field(default_factory=Namespaces)
    replica_sets: t.Mapping[str, Object] = field(default_factory=dict)


class RelationReader:
    """The relations of all waiting pods. First every rule is read, then who belongs to what."""

    def __init__(self, pods: t.Sequence[Object], surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._sets: dict[PeerSet, int] = {}
        self._marked: dict[tuple[str, str] | None, list[PeerSet]] = {}
        self._sizes: dict[str, int] | None = None
        self._waiting = pods
        self._rules = [self._read(pod) for pod in pods]
        self._members: dict[PodFacts, frozenset[int]] = {}

    def relations(self) -> t.Iterator[tuple[PodRelations, tuple[str, ...]]]:
        """Of each pod its relations, and paths of fields that cannot be understood here."""
        for pod, (rules, unsupported) in zip(self._waiting, self._rules):
            members = self._sets_of(pod_facts(pod, "pods")) if self._sets else frozenset()
            yield (replace(rules, member_of=members) if members else rules), unsupported

    def peers(self) -> tuple[t.Mapping[str, int], ...]:
        """How many running pods of each set are on each node."""
        found: list[dict[str, int]] = [{} for _set in self._sets]
        if not found:
            return ()
        for pod in self._surroundings.running:
            node = (pod.get("spec") or {}).get("nodeName")
            if node and not is_finished(pod):
                for index in self._sets_of(pod_facts(pod, "running")):
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

    def _read(self, pod: Object) -> tuple[PodRelations, tuple[str, ...]]:
        spec, metadata = pod.get("spec") or {}, pod.get("metadata") or {}
        affinity = spec.get("affinity") or {}
        gang = (metadata.get("labels") or {}).get(POD_GROUP_LABEL) or ""
        start = self._even_start(pod)
        constraints = spec.get("topologySpreadConstraints")
        near, away = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
        if not (gang or start or constraints or near or away):
            return _NO_RELATIONS, ()
        namespace, name = identity(pod, "pods")
        reader = _PodReader(
            self._index,
            pod_facts(pod, "pods"),
            self._surroundings.namespaces,
            describe(namespace, name),
        )
        hard, soft = reader.spreadings(constraints)
        relations = PodRelations(
            exclusions=reader.exclusions(away.get(_REQUIRED)),
            attraction=reader.attraction(near.get(_REQUIRED)),
            spreadings=hard,
            wished_spreadings=soft,
            even_start=start,
            peer_preferences=(
                *reader.preferences(near.get(_PREFERRED), near=True),
                *reader.preferences(away.get(_PREFERRED), near=False),
            ),
            gang=f"{namespace}/{gang}" if gang else "",
        )
        return relations, tuple(dict.fromkeys(reader.unsupported))

    def _even_start(self, pod: Object) -> EvenStart | None:
        """WAO's PodSpread; upstream skips it too for other controllers and for no share of 1."""
        metadata = pod.get("metadata") or {}
        owners = metadata.get("ownerReferences") or []
        owner: Object = next((each for each in owners if each.get("controller")), {})
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
                facts = pod_facts(pod, "pods")
                if not (facts.is_leaving or is_finished(pod)):
                    self._sizes[facts.controller] = self._sizes.get(facts.controller, 0) + 1
        return self._sizes.get(uid, 0)

    def _area_key(self) -> str:
        for key in (_REGION, _ZONE):
            if len({each[key] for each in self._surroundings.node_labels if key in each}) > 1:
                return key
        return ""


def _podspread_rate(metadata: Object) -> float | None:
    annotations = metadata.get("annotations") or {}
    for name in PODSPREAD_ANNOTATIONS:
        if name in annotations:
            try:
                rate = float(annotations[name])
            except (TypeError, ValueError):
                return None
            return rate if 0 <= rate <= 1 else None
    return None


class _PodReader:
    """The rules of one pod. What cannot be understood is added to ``unsupported``."""

    def __init__(
        self,
        index: t.Callable[[PeerSet], int],
        facts: PodFacts,
        namespaces: Namespaces,
        where: str,
    ) -> None:
        self._index = index
        self._facts = facts
        self._namespaces = namespaces
        self._where = where
        self.unsupported: list[str] = []

    def _selection(self, term: Object, part: str) -> tuple[Selection, str] | None:
        try:
            return read_selection(
                term, self._facts, self._namespaces, f"{self._where}: spec.affinity.{part}"
            )
        except UnknownNamespaces:
            self.unsupported.append(f"spec.affinity.{part}.namespaceSelector")
            return None

    def _selections(self, terms: t.Any, part: str) -> list[tuple[Selection, str]]:
        given = mappings(terms, f"{self._where}: spec.affinity.{part}")
        return [found for term in given if (found := self._selection(term, part)) is not None]

    def exclusions(self, terms: t.Any) -> tuple[Exclusion, ...]:
        return tuple(
            Exclusion(self._index(PeerSet((selection,))), key)
            for selection, key in self._selections(terms, "podAntiAffinity")
        )

    def attraction(self, terms: t.Any) -> Attraction | None:
        """A pod counts for any of the terms only if it meets all of them."""
        found = self._selections(terms, "podAffinity")
        if not found:
            return None
        selections = tuple(dict.fromkeys(selection for selection, _key in found))
        keys = tuple(sorted({key for _selection, key in found}))
        return Attraction(self._index(PeerSet(selections)), keys)

    def preferences(self, terms: t.Any, *, near: bool) -> t.Iterator[PeerPreference]:
        part = "podAffinity" if near else "podAntiAffinity"
        path = f"{self._where}: spec.affinity.{part}"
        for wish in mappings(terms, path):
            weight = _whole_number(wish.get("weight"), f"{path}: weight")
            term = mapping(wish.get("podAffinityTerm"), f"{path}: podAffinityTerm")
            found = self._selection(term, part)
            if found is not None:
                yield PeerPreference(weight, self._index(PeerSet((found[0],))), found[1], near)

    def spreadings(self, constraints: t.Any) -> tuple[tuple[Spreading, ...], tuple[Spreading, ...]]:
        """Those that must be kept, and those that are wishes."""
        path = f"{self._where}: spec.topologySpreadConstraints"
        hard: list[Spreading] = []
        soft: list[Spreading] = []
        for constraint in mappings(constraints, path):
            wished = constraint.get("whenUnsatisfiable") == "ScheduleAnyway"
            (soft if wished else hard).append(self._spreading(constraint, path))
        return _with_keys(hard), _with_keys(soft)

    def _spreading(self, constraint: Object, path: str) -> Spreading:
        try:
            selector = read_selector(constraint, self._facts)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from error
        selection = Selection(frozenset({self._facts.namespace}), selector)
        min_domains = constraint.get("minDomains")
        return Spreading(
            self._index(PeerSet((selection,), counts_leaving=False)),
            required_text(constraint.get("topologyKey"), f"{path}: topologyKey"),
            _whole_number(constraint.get("maxSkew"), f"{path}: maxSkew"),
            1 if min_domains is None else _whole_number(min_domains, f"{path}: minDomains"),
            (constraint.get("nodeAffinityPolicy") or "Honor") == "Honor",
            (constraint.get("nodeTaintsPolicy") or "Ignore") == "Honor",
        )


def _with_keys(spreadings: list[Spreading]) -> tuple[Spreading, ...]:
    """Only nodes that have the keys of all constraints of a pod count for any of them."""
    keys = tuple(sorted({each.topology_key for each in spreadings}))
    return tuple(each._replace(required_keys=keys) for each in spreadings)


def _whole_number(value: t.Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInput(f"{where}: {value!r} is not a whole number of 1 or more")
    return value
