# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Nodes that running pods keep a new pod away from, by their required anti-affinity.

A new pod must respect it, whatever it demands itself. Source:
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.power.peers import (
    Namespaces,
    PodFacts,
    Selection,
    UnknownNamespaces,
    pod_facts,
    read_selection,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.pod_reader import (
    describe,
    identity,
    is_finished,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.reading import Object, mappings

_NOBODY: frozenset[str] = frozenset()


@dataclass
class _Term:
    """One anti-affinity term with the domains of its topology key where pods demand it."""

    selection: Selection
    topology_key: str
    domains: set[str] = field(default_factory=set)


class Repulsion:
    """What running pods demand of pods that come near; ``labels_of`` are the nodes' labels."""

    def __init__(
        self,
        running: t.Iterable[Object],
        labels_of: t.Mapping[str, t.Mapping[str, str]],
        namespaces: Namespaces | None = None,
    ) -> None:
        self._labels_of = labels_of
        self._namespaces = namespaces or Namespaces()
        self._terms: dict[str, _Term] = {}
        self._known: dict[tuple[str, frozenset[tuple[str, str]]], frozenset[str]] = {}
        for pod in running:
            affinity = (pod.get("spec") or {}).get("affinity") or {}
            anti_affinity = affinity.get("podAntiAffinity") or {}
            required = anti_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
            if required and not is_finished(pod):
                self._add(pod, required)

    def nodes_closed_to(self, pod: Object) -> frozenset[str]:
        """Names of the nodes where this pod is not wanted."""
        if not self._terms:
            return _NOBODY
        facts = pod_facts(pod, "pods")
        key = (facts.namespace, facts.labels)
        if key not in self._known:
            labels = dict(facts.labels)
            concerned = [
                term
                for term in self._terms.values()
                if term.selection.holds(facts.namespace, labels)
            ]
            self._known[key] = frozenset(
                node
                for node, node_labels in self._labels_of.items()
                if any(node_labels.get(term.topology_key) in term.domains for term in concerned)
            )
        return self._known[key]

    def _add(self, pod: Object, required: t.Any) -> None:
        namespace, name = identity(pod, "running")
        where = f"{describe(namespace, name)}: required anti-affinity"
        node_labels = self._labels_of.get(pod["spec"].get("nodeName") or "", {})
        facts = pod_facts(pod, "running")
        for term in mappings(required, where):
            domain = node_labels.get(term.get("topologyKey") or "")
            if domain is None:
                continue
            keys = [*(term.get("matchLabelKeys") or ()), *(term.get("mismatchLabelKeys") or ())]
            own = [dict(facts.labels).get(key) for key in keys]
            known = json.dumps([namespace, term, own], sort_keys=True)
            if known not in self._terms:
                self._terms[known] = self._read(term, facts, where)
            self._terms[known].domains.add(domain)

    def _read(self, term: Object, facts: PodFacts, where: str) -> _Term:
        """A namespace selector whose labels are not known stands for every namespace: to refuse a
        node is the safe mistake."""
        try:
            return _Term(*read_selection(term, facts, self._namespaces, where))
        except UnknownNamespaces:
            everywhere = {**term, "namespaceSelector": {}}
            return _Term(*read_selection(everywhere, facts, self._namespaces, where))
