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
from collections import Counter
from dataclasses import dataclass, field, replace

from ...base.boundary import Finding, guarded, subject_of
from ...base.fields.strict import mapping, mappings, required_text, whole_number
from ...base.json_types import Object
from ...scheduling.model import (
    EvenStart,
    Labels,
    PeerPreference,
    PodAffinity,
    PodAntiAffinity,
    PodRelations,
    Spreading,
)
from ...scheduling.peers import (
    Namespaces,
    PeerIndex,
    PeerSet,
    PodFacts,
    Selection,
    UnknownNamespaces,
    pod_facts,
    read_selection,
    read_selector,
)
from ...scheduling.pod_fields import POD_GROUP_LABEL, PODSPREAD_ANNOTATIONS
from ...scheduling.pod_reader import MAX_WEIGHT, controller_of, identity, is_finished, labels_of

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REGION = "topology.kubernetes.io/region"
_ZONE = "topology.kubernetes.io/zone"
_NO_RELATIONS = PodRelations()

# Reasons of pods that wait with their rules, until other pods with rules have their nodes.
TOO_MANY_ALIKE = "too many rules about the same pods"
TOO_MUCH_WORK = "too many rules about other pods"
OUT_OF_TIME = "rules about other pods that time_limit left unread"

# The work of rules that is never too much, for each waiting pod and for all together.
_BUDGET_PER_POD, _MIN_BUDGET = 8, 300
# The part of it that may be about pods of other namespaces.
_BUDGET_ABROAD, _MIN_BUDGET_ABROAD = 2, 100

# What a pod demands, and paths of its fields that cannot be understood here.
Rules = tuple[PodRelations, tuple[str, ...]]
# The number of a set of pods, and what a rule says about it.
_Rule = tuple[int, t.Hashable]


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
    behind. ``is_over``: whether the time for reading is over.
    """

    def __init__(
        self,
        pods: t.Sequence[Object],
        surroundings: Surroundings,
        is_over: t.Callable[[], bool] = lambda: False,
    ) -> None:
        self._surroundings = surroundings
        self._is_over = is_over
        self._sets: dict[PeerSet, int] = {}
        self._index: PeerIndex[PeerSet] = PeerIndex()
        self._has_room = True
        self._sizes: dict[str, int] | None = None
        self._waiting = pods
        self._rules = [self._kept(pod) for pod in pods]
        self._members: dict[PodFacts, frozenset[int]] = {}
        self._keep_to_the_budget()

    def relations(self) -> t.Iterator[Rules | Finding]:
        """The relations of each pod, or the reason why they cannot be read."""
        for pod, rules in zip(self._waiting, self._rules):
            if isinstance(rules, Finding) or not self._sets:
                yield rules
                continue
            relations, unsupported = rules
            members = frozenset() if unsupported else self.sets_of(pod_facts(pod))
            yield (replace(relations, member_of=members) if members else relations), unsupported

    def peers(self) -> tuple[t.Mapping[str, int], ...]:
        """Number of running pods of each set on each node."""
        found: list[dict[str, int]] = [{} for _set in self._sets]
        if not found:
            return ()
        for pod in self._surroundings.running:
            node = (pod.get("spec") or {}).get("nodeName")
            if node and not is_finished(pod):
                for index in self.sets_of(pod_facts(pod)):
                    found[index][node] = found[index].get(node, 0) + 1
        return tuple(found)

    def sets_of(self, facts: PodFacts) -> frozenset[int]:
        """The sets to which a pod belongs."""
        if facts not in self._members:
            labels = dict(facts.labels)
            self._members[facts] = frozenset(
                self._sets[peer_set]
                for peer_set in self._index.of(facts)
                if peer_set.contains(facts, labels)
            )
        return self._members[facts]

    def _number(self, peer_set: PeerSet) -> int:
        if peer_set not in self._sets:
            self._has_room &= self._index.add(peer_set, peer_set.index_keys())
        return self._sets.setdefault(peer_set, len(self._sets))

    def _forget(self, known: int) -> None:
        """Leave out the sets after the first ones."""
        while len(self._sets) > known:
            peer_set, _number = self._sets.popitem()
            self._index.remove(peer_set, peer_set.index_keys())

    def _keep_to_the_budget(self) -> None:
        """Refuse the pods whose rules are too much work beside those of the other pods.

        The work of a rule is the number of different pods that it is about; less of it may be about
        other namespaces than the pod's own. Pods of each namespace come in the order of their own
        work, and pods of all namespaces in the order of the work of their namespace until then, so
        that no tenant uses up the budget of the others.
        """
        if not self._sets:
            return
        accepted = {
            index: _rules_in(rules[0])
            for index, rules in enumerate(self._rules)
            if not isinstance(rules, Finding) and not rules[1]
        }
        facts = frozenset(pod_facts(pod) for pod in self._waiting)
        members = self._members_by_namespace(facts)
        work = [1 + sum(each.values()) for each in members]
        needed = {
            index: sum(work[peers] for peers, _kind in rules)
            for index, rules in accepted.items()
            if rules
        }
        left = _BUDGET_PER_POD * len(facts) + _MIN_BUDGET
        left_abroad = _BUDGET_ABROAD * len(facts) + _MIN_BUDGET_ABROAD
        kept: set[_Rule] = set()
        for index in self._by_turns(needed):
            own, _name = identity(self._waiting[index])
            new = [peers for peers, _kind in accepted[index] - kept]
            total = sum(work[peers] for peers in new)
            abroad = total - len(new) - sum(members[peers][own] for peers in new)
            if total <= left and abroad <= left_abroad:
                left, left_abroad = left - total, left_abroad - abroad
                kept |= accepted[index]
            else:
                self._rules[index] = gang_of(self._waiting[index]), (TOO_MUCH_WORK,)
        used = {peers for peers, _kind in kept}
        self._members = {key: sets & used for key, sets in self._members.items()}

    def _members_by_namespace(self, facts: t.Iterable[PodFacts]) -> list[Counter[str]]:
        """The number of different waiting pods of each set by namespace."""
        members: list[Counter[str]] = [Counter() for _set in self._sets]
        for each in facts:
            for number in self.sets_of(each):
                members[number][each.namespace] += 1
        return members

    def _by_turns(self, needed: t.Mapping[int, int]) -> list[int]:
        """Indices of pods, those first whose namespace needs the least until then."""
        until: dict[str, int] = {}
        turns = []
        for index in sorted(needed, key=lambda index: needed[index]):
            namespace, _name = identity(self._waiting[index])
            until[namespace] = until.get(namespace, 0) + needed[index]
            turns.append((until[namespace], index))
        return [index for _until, index in sorted(turns)]

    def _kept(self, pod: Object) -> Rules | Finding:
        known, self._has_room = len(self._sets), True
        rules = guarded(subject_of(pod, "Pod"), functools.partial(self._read, pod))
        if not self._has_room:
            rules = gang_of(pod), (TOO_MANY_ALIKE,)
        if not isinstance(rules, Finding) and not rules[1]:
            return rules
        self._forget(known)
        return rules if isinstance(rules, Finding) else (gang_of(pod), rules[1])

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
        if self._is_over():
            return gang, (OUT_OF_TIME,)
        reader = _PodReader(self._number, pod_facts(pod), self._surroundings.namespaces)
        hard, soft = reader.spreadings(constraints)
        relations = replace(
            gang,
            anti_affinity=reader.anti_affinity(away),
            affinity=reader.affinity(near),
            spreadings=hard,
            soft_spreadings=soft,
            even_start=start,
            peer_preferences=(
                *reader.preferences(near, near=True),
                *reader.preferences(away, near=False),
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
        peers = self._number(PeerSet(controller=owner["uid"]))
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


def _rules_in(relations: PodRelations) -> frozenset[_Rule]:
    """The different rules of a pod, each with the set of pods that it is about."""
    near, start = relations.affinity, relations.even_start
    found: list[_Rule] = [(rule.peers, rule) for rule in relations.anti_affinity]
    found += [(rule.peers, rule) for rule in relations.spreadings]
    found += [(rule.peers, rule) for rule in relations.soft_spreadings]
    found += [(rule.peers, rule._replace(weight=0)) for rule in relations.peer_preferences]
    if near is not None:
        found += [(near.peers, key) for key in near.topology_keys]
    if start is not None:
        found.append((start.peers, start))
    return frozenset(found)


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
        self, index: t.Callable[[PeerSet], int], facts: PodFacts, namespaces: Namespaces
    ) -> None:
        self._index = index
        self._facts = facts
        self._namespaces = namespaces
        self.unsupported: list[str] = []

    def _terms(
        self, affinity: Object, part: str, kind: str
    ) -> t.Iterator[tuple[int, Selection, str]]:
        """Weight, 0 if required, pods and topology key of each supported term."""
        path = f"spec.affinity.{part}.{kind}"
        for index, term in enumerate(mappings(affinity.get(kind), path)):
            place, weight = f"{path}[{index}]", 0
            if kind == _PREFERRED:
                weight = whole_number(term.get("weight"), f"{place}.weight", 1, MAX_WEIGHT)
                place = f"{place}.podAffinityTerm"
                term = mapping(term.get("podAffinityTerm"), place)
            try:
                yield (weight, *read_selection(term, self._facts, self._namespaces, place))
            except UnknownNamespaces:
                self.unsupported.append(f"spec.affinity.{part}.namespaceSelector")

    def anti_affinity(self, affinity: Object) -> tuple[PodAntiAffinity, ...]:
        found = list(self._terms(affinity, "podAntiAffinity", _REQUIRED))
        return tuple(
            PodAntiAffinity(self._index(PeerSet((selection,))), key)
            for _weight, selection, key in found
        )

    def affinity(self, affinity: Object) -> PodAffinity | None:
        """A pod counts for each of the terms only if it meets all of them."""
        found = list(self._terms(affinity, "podAffinity", _REQUIRED))
        if not found:
            return None
        selections = tuple(dict.fromkeys(selection for _weight, selection, _key in found))
        keys = tuple(sorted({key for *_others, key in found}))
        return PodAffinity(self._index(PeerSet(selections)), keys)

    def preferences(self, affinity: Object, *, near: bool) -> t.Iterator[PeerPreference]:
        part = "podAffinity" if near else "podAntiAffinity"
        for weight, selection, key in self._terms(affinity, part, _PREFERRED):
            yield PeerPreference(weight, self._index(PeerSet((selection,))), key, near)

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
