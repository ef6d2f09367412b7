# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Nodes that the required anti-affinity of running pods closes to a new pod.

It applies regardless of the new pod's own rules. Source:
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.base.object_shapes import (
    Object,
    mapping,
    mappings,
    texts,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.peers import (
    Namespaces,
    PodFacts,
    Selection,
    UnknownNamespaces,
    pod_facts,
    read_selection,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.pod_reader import is_finished

_NOBODY: frozenset[str] = frozenset()
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PATH = f"spec.affinity.podAntiAffinity.{_REQUIRED}"


@dataclass
class _Term:
    """One anti-affinity term with the domains of its topology key in which pods have it."""

    selection: Selection
    topology_key: str
    domains: set[str] = field(default_factory=set)


class RunningAntiAffinity:
    """Required anti-affinity of running pods to others; ``labels_of`` are the nodes' labels."""

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
            required = anti_affinity_terms(pod)
            if required and not is_finished(pod):
                self._add(pod, required)

    def nodes_closed_to(self, pod: Object) -> frozenset[str]:
        """Names of the nodes that running pods' terms close to this pod."""
        if not self._terms:
            return _NOBODY
        facts = pod_facts(pod)
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

    def _add(self, pod: Object, required: t.Sequence[Object]) -> None:
        node_labels = self._labels_of.get(pod["spec"].get("nodeName") or "", {})
        facts = pod_facts(pod)
        for term in required:
            domain = node_labels.get(term.get("topologyKey") or "")
            if domain is None:
                continue
            keys = [*(term.get("matchLabelKeys") or ()), *(term.get("mismatchLabelKeys") or ())]
            own = [dict(facts.labels).get(key) for key in keys]
            known = json.dumps([facts.namespace, term, own], sort_keys=True)
            if known not in self._terms:
                self._terms[known] = _Term(*_selection(term, facts, self._namespaces, _PATH))
            self._terms[known].domains.add(domain)


def anti_affinity_terms(pod: Object) -> t.Sequence[Object]:
    """The required anti-affinity terms of a pod. Raises InvalidField."""
    spec = mapping(pod.get("spec"), "spec")
    affinity = mapping(spec.get("affinity"), "spec.affinity")
    anti_affinity = mapping(affinity.get("podAntiAffinity"), "spec.affinity.podAntiAffinity")
    return mappings(anti_affinity.get(_REQUIRED), _PATH)


def check_anti_affinity(pod: Object, facts: PodFacts, namespaces: Namespaces) -> None:
    """Raise InvalidField if the required anti-affinity of a running pod cannot be read."""
    for index, term in enumerate(anti_affinity_terms(pod)):
        path = f"{_PATH}[{index}]"
        _selection(term, facts, namespaces, path)
        for name in ("matchLabelKeys", "mismatchLabelKeys"):
            texts(term.get(name), f"{path}.{name}")


def _selection(
    term: Object, facts: PodFacts, namespaces: Namespaces, path: str
) -> tuple[Selection, str]:
    """A namespace selector with unknown labels stands for every namespace, for safety."""
    try:
        return read_selection(term, facts, namespaces, path)
    except UnknownNamespaces:
        return read_selection({**term, "namespaceSelector": {}}, facts, namespaces, path)
