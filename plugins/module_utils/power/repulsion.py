# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Nodes that running pods keep a new pod away from, by their required anti-affinity.

A new pod with affinities of its own is refused by pod_fields.py, but one without any must still
respect those of the pods that are there. Source:
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.label_selector import (
    LabelSelector,
    parse_label_selector,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import Labels
from ansible_collections.wattwise.kube.plugins.module_utils.power.pod_reader import (
    describe,
    identity,
    is_finished,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.reading import Object, mappings

_NOBODY: frozenset[str] = frozenset()


@dataclass
class _Term:
    """One anti-affinity term with the domains of its topology key where pods demand it.

    ``namespaces`` None stands for all: a namespace selector is taken to match every namespace,
    because namespaces' labels are not in the snapshot, and refusing a node is the safe mistake.
    """

    namespaces: frozenset[str] | None
    selector: LabelSelector | None
    topology_key: str
    domains: set[str] = field(default_factory=set)

    def concerns(self, namespace: str, labels: Labels) -> bool:
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return self.selector is not None and self.selector.matches(labels)


class Repulsion:
    """What running pods demand of pods that come near; ``labels_of`` are the nodes' labels."""

    def __init__(
        self, running: t.Iterable[Object], labels_of: t.Mapping[str, t.Mapping[str, str]]
    ) -> None:
        self._labels_of = labels_of
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
        metadata = pod["metadata"]
        namespace, labels = metadata.get("namespace") or "default", metadata.get("labels") or {}
        key = (namespace, frozenset(labels.items()))
        if key not in self._known:
            concerned = [term for term in self._terms.values() if term.concerns(namespace, labels)]
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
        for term in mappings(required, where):
            domain = node_labels.get(term.get("topologyKey") or "")
            if domain is not None:
                key = json.dumps([namespace, term], sort_keys=True)
                if key not in self._terms:
                    self._terms[key] = _read_term(term, namespace, where)
                self._terms[key].domains.add(domain)


def _read_term(term: Object, namespace: str, where: str) -> _Term:
    selector = term.get("labelSelector")
    everywhere = term.get("namespaceSelector") is not None
    try:
        return _Term(
            None if everywhere else frozenset(term.get("namespaces") or [namespace]),
            None if selector is None else parse_label_selector(selector),
            term["topologyKey"],
        )
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error
