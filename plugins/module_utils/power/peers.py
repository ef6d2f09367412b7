# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Sets of pods that rules speak of, by namespace and labels.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
(namespaces, namespaceSelector, matchLabelKeys, mismatchLabelKeys). A term without a label selector
is met by no pod, one with an empty selector by every pod.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.label_selector import (
    LabelSelector,
    Requirement,
    parse_label_selector,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import Labels
from ansible_collections.wattwise.kube.plugins.module_utils.power.pod_reader import identity
from ansible_collections.wattwise.kube.plugins.module_utils.power.reading import (
    Object,
    mapping,
    mappings,
    required_text,
)

# The API server puts it on every namespace.
_NAME_LABEL = "kubernetes.io/metadata.name"


class PodFacts(t.NamedTuple):
    """What decides to which sets a pod belongs; ``controller`` is the uid of its controller."""

    namespace: str
    labels: frozenset[tuple[str, str]]
    controller: str
    is_leaving: bool

    def marks(self) -> t.Iterable[tuple[str, str]]:
        """What a set may be found by."""
        return (*self.labels, ("", self.controller))


def pod_facts(pod: Object, where: str) -> PodFacts:
    """Raises InvalidInput for a pod without a name."""
    namespace, _name = identity(pod, where)
    metadata = pod["metadata"]
    labels = mapping(metadata.get("labels"), f"{where}: labels")
    owners = metadata.get("ownerReferences") or []
    controller = next((owner.get("uid") or "" for owner in owners if owner.get("controller")), "")
    return PodFacts(
        namespace,
        frozenset((key, str(value)) for key, value in labels.items()),
        controller,
        bool(metadata.get("deletionTimestamp")),
    )


@dataclass(frozen=True)
class Selection:
    """One demand on a pod: its namespace (None: any) and its labels (None: no pod has them)."""

    namespaces: frozenset[str] | None
    selector: LabelSelector | None

    def holds(self, namespace: str, labels: Labels) -> bool:
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return self.selector is not None and self.selector.matches(labels)


@dataclass(frozen=True)
class PeerSet:
    """Pods that meet all selections, or those of one controller; leaving ones if they count."""

    selections: tuple[Selection, ...] = ()
    controller: str = ""
    counts_leaving: bool = True

    def marks(self) -> list[tuple[str, str]]:
        """A member has one of these marks; without any, every pod has to be looked at."""
        if self.controller:
            return [("", self.controller)]
        for selection in self.selections:
            for requirement in selection.selector.requirements if selection.selector else ():
                if requirement.operator == "In":
                    return [(requirement.key, value) for value in sorted(requirement.values)]
        return []

    def contains(self, pod: PodFacts) -> bool:
        if pod.is_leaving and not self.counts_leaving:
            return False
        if self.controller:
            return pod.controller == self.controller
        labels = dict(pod.labels)
        return all(each.holds(pod.namespace, labels) for each in self.selections)


class UnknownNamespaces(Exception):
    """A namespace selector asks for labels, and those of the namespaces are not known."""


class Namespaces:
    """The labels of namespaces by name; None where only their names are known."""

    def __init__(self, labels: t.Mapping[str, Labels] | None = None) -> None:
        self._labels = labels
        self._found: dict[LabelSelector, frozenset[str]] = {}

    def matching(self, selector: LabelSelector) -> frozenset[str] | None:
        """Names of the namespaces; None for all. Raises UnknownNamespaces."""
        if not selector.requirements:
            return None
        if self._labels is None:
            return self._by_name(selector)
        if selector not in self._found:
            self._found[selector] = frozenset(
                name
                for name, labels in self._labels.items()
                if selector.matches({_NAME_LABEL: name, **labels})
            )
        return self._found[selector]

    def _by_name(self, selector: LabelSelector) -> frozenset[str]:
        names: frozenset[str] | None = None
        for requirement in selector.requirements:
            if (requirement.key, requirement.operator) != (_NAME_LABEL, "In"):
                raise UnknownNamespaces
            names = requirement.values if names is None else names & requirement.values
        return names or frozenset()


def read_namespaces(given: t.Any, where: str) -> Namespaces:
    """From Namespace objects; None where there are none given. Raises InvalidInput."""
    if given is None:
        return Namespaces()
    labels = {}
    for index, item in enumerate(mappings(given, where)):
        metadata = mapping(item.get("metadata", item), f"{where}[{index}]")
        name = required_text(metadata.get("name"), f"{where}[{index}].name")
        labels[name] = mapping(metadata.get("labels"), f"{where}[{index}].labels")
    return Namespaces(labels)


def read_selection(
    term: Object, pod: PodFacts, namespaces: Namespaces, where: str
) -> tuple[Selection, str]:
    """An affinity term of a pod, and its topology key. Raises InvalidInput, UnknownNamespaces."""
    key = required_text(term.get("topologyKey"), f"{where}: topologyKey")
    try:
        selector = read_selector(term, pod)
        chosen: frozenset[str] | None = frozenset(term.get("namespaces") or ())
        if term.get("namespaceSelector") is not None:
            found = namespaces.matching(parse_label_selector(term["namespaceSelector"]))
            chosen = None if found is None or chosen is None else chosen | found
        elif not chosen:
            chosen = frozenset({pod.namespace})
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error
    return Selection(chosen, selector), key


def read_selector(term: Object, pod: PodFacts) -> LabelSelector | None:
    """A term's label selector with what its match keys add. Raises InvalidInput.

    The API server adds them too; twice is as good as once.
    """
    if term.get("labelSelector") is None:
        return None
    own = dict(pod.labels)
    added = [
        Requirement(key, operator, frozenset({own[key]}))
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(field) or ()
        if key in own
    ]
    selector = parse_label_selector(term["labelSelector"])
    return LabelSelector((*selector.requirements, *added))
