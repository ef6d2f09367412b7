# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Nodes that the required anti-affinity of running pods closes to a new pod.

It applies regardless of the new pod's own rules. Source:
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
"""

from __future__ import annotations

import typing as t

from ..base.fields.strict import mapping, mappings, texts
from ..base.json_types import Object
from ..base.label_selector import LabelSelector
from .peers import (
    Namespaces,
    PeerIndex,
    PodFacts,
    Selection,
    UnknownNamespaces,
    pod_facts,
    read_selection,
)
from .pod_reader import is_finished

_NOBODY: frozenset[str] = frozenset()
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PATH = f"spec.affinity.podAntiAffinity.{_REQUIRED}"
_EVERY_POD = LabelSelector(())


class _Term(t.NamedTuple):
    """One anti-affinity term."""

    selection: Selection
    topology_key: str


class RunningAntiAffinity:
    """Required anti-affinity of running pods to others; ``labels_of`` are the nodes' labels.

    Tenants decide the number of terms. A pod whose terms are about the same pods as very many other
    terms keeps all pods of the namespaces that its terms name out of its domains. That is more than
    it asks for, and never less.
    """

    def __init__(
        self,
        running: t.Iterable[Object],
        labels_of: t.Mapping[str, t.Mapping[str, str]],
        namespaces: Namespaces | None = None,
    ) -> None:
        self._labels_of = labels_of
        self._namespaces = namespaces or Namespaces()
        # The domains in which pods have a term, by its topology key and selection.
        self._domains: dict[_Term, set[str]] = {}
        self._index: PeerIndex[_Term] = PeerIndex()
        self._known: dict[tuple[str, frozenset[tuple[str, str]]], frozenset[str]] = {}
        holders = [(anti_affinity_terms(pod), pod) for pod in running]
        # The pods with the fewest terms first, because they are served exactly.
        for required, pod in sorted(holders, key=lambda holder: len(holder[0])):
            if required and not is_finished(pod):
                self._add(pod, required)

    def nodes_closed_to(self, pod: Object) -> frozenset[str]:
        """Names of the nodes that running pods' terms close to this pod."""
        if not self._domains:
            return _NOBODY
        facts = pod_facts(pod)
        key = (facts.namespace, facts.labels)
        if key not in self._known:
            labels = dict(facts.labels)
            closed: dict[str, set[str]] = {}
            for term in self._index.of(facts):
                if term.selection.holds(facts.namespace, labels):
                    closed.setdefault(term.topology_key, set()).update(self._domains[term])
            self._known[key] = frozenset(
                node
                for node, node_labels in self._labels_of.items()
                if any(node_labels.get(name) in domains for name, domains in closed.items())
            )
        return self._known[key]

    def _add(self, pod: Object, required: t.Sequence[Object]) -> None:
        node_labels = self._labels_of.get(pod["spec"].get("nodeName") or "", {})
        facts = pod_facts(pod)
        binding = [term for term in required if (term.get("topologyKey") or "") in node_labels]
        terms = (_term(term, facts, self._namespaces, _PATH) for term in binding)
        if not all(self._note(term, node_labels) for term in terms):
            for term in _widened(binding, facts):
                self._note(term, node_labels, is_wide=True)

    def _note(self, term: _Term, node_labels: t.Mapping[str, str], is_wide: bool = False) -> bool:
        """Note a term of a pod on a node; False if there are too many like it."""
        if term not in self._domains:
            if not self._index.add(term, term.selection.index_keys(), is_bounded=not is_wide):
                return False
            self._domains[term] = set()
        self._domains[term].add(node_labels[term.topology_key])
        return True


def _widened(required: t.Sequence[Object], facts: PodFacts) -> list[_Term]:
    """A term for each topology key: for the pod's own namespace, or for all namespaces."""
    keys: dict[str, bool] = {}
    for term in required:
        key = term["topologyKey"]
        named = {facts.namespace, *(term.get("namespaces") or ())}
        is_own = named == {facts.namespace} and term.get("namespaceSelector") is None
        keys[key] = keys.get(key, True) and is_own
    return [
        _Term(Selection(frozenset({facts.namespace}) if is_own else None, _EVERY_POD), key)
        for key, is_own in keys.items()
    ]


def anti_affinity_terms(pod: Object) -> t.Sequence[Object]:
    """The required anti-affinity terms of a pod. Raises InvalidField."""
    spec = mapping(pod.get("spec"), "spec")
    affinity = mapping(spec.get("affinity"), "spec.affinity")
    anti_affinity = mapping(affinity.get("podAntiAffinity"), "spec.affinity.podAntiAffinity")
    return mappings(anti_affinity.get(_REQUIRED), _PATH)


def check_anti_affinity(pod: Object, facts: PodFacts) -> None:
    """Raise InvalidField if the required anti-affinity of a running pod cannot be read."""
    namespaces = Namespaces()
    for index, term in enumerate(anti_affinity_terms(pod)):
        path = f"{_PATH}[{index}]"
        _term(term, facts, namespaces, path)
        for name in ("matchLabelKeys", "mismatchLabelKeys"):
            texts(term.get(name), f"{path}.{name}")


def _term(term: Object, facts: PodFacts, namespaces: Namespaces, path: str) -> _Term:
    """A namespace selector with unknown labels stands for every namespace, for safety."""
    try:
        return _Term(*read_selection(term, facts, namespaces, path))
    except UnknownNamespaces:
        return _Term(*read_selection({**term, "namespaceSelector": {}}, facts, namespaces, path))
