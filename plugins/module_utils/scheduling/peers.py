# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Sets of pods in rules, by namespace and labels.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
(namespaces, namespaceSelector, matchLabelKeys, mismatchLabelKeys). A term without a label selector
matches no pod, a term with an empty selector every pod.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.boundary import InvalidField
from ..base.errors import InvalidInput
from ..base.fields.strict import mapping, required_text, text, text_mapping, texts
from ..base.json_types import Object
from ..base.label_selector import LabelSelector, Requirement, parse_label_selector
from .model import Labels
from .pod_reader import controller_of, identity, labels_of

T = t.TypeVar("T", bound=t.Hashable)

# Namespace, label and value; an empty label stands for every pod of the namespace.
_Key = tuple[str, str, str]
_EVERYWHERE = "*"  # no name of a namespace
_MAX_NAMESPACES_INDEXED = 10
# Different selectors of the pods of one namespace; each is compared with all namespaces.
_MAX_NAMESPACE_SELECTORS = 100
# Different selections with one key. Those of a whole namespace or cluster have the same.
_MAX_OF_A_KEY = 100
# The API server puts it on every namespace.
_NAME_LABEL = "kubernetes.io/metadata.name"


class PodFacts(t.NamedTuple):
    """Fields that decide a pod's memberships; ``controller`` is the uid of its controller."""

    namespace: str
    labels: frozenset[tuple[str, str]]
    controller: str
    is_leaving: bool

    def index_keys(self) -> t.Iterator[_Key]:
        """The keys under which an index has what may concern the pod."""
        for space in (self.namespace, _EVERYWHERE):
            yield (space, "", "")
            for label, value in self.labels:
                yield (space, label, value)
        yield ("", "", self.controller)


def pod_facts(pod: Object) -> PodFacts:
    """Raises InvalidField for a pod whose names, labels or owners cannot be read."""
    namespace, _name = identity(pod)
    owner = controller_of(pod)
    return PodFacts(
        namespace,
        frozenset(labels_of(pod).items()),
        text(owner.get("uid"), "metadata.ownerReferences.uid"),
        bool(pod["metadata"].get("deletionTimestamp")),
    )


@dataclass(frozen=True)
class Selection:
    """One selection of pods by namespace (None: any) and labels (None: matches no pod)."""

    namespaces: frozenset[str] | None
    selector: LabelSelector | None

    def index_keys(self) -> list[list[_Key]]:
        """Choices of index keys; a selected pod has a key of each choice."""
        spaces = [_EVERYWHERE]
        if self.namespaces is not None and len(self.namespaces) <= _MAX_NAMESPACES_INDEXED:
            spaces = sorted(self.namespaces)
        pairs = [
            [(requirement.key, value) for value in sorted(requirement.values)]
            for requirement in (self.selector.requirements if self.selector else ())
            if requirement.operator == "In"
        ]
        return [[(space, *pair) for space in spaces for pair in each] for each in pairs] or [
            [(space, "", "") for space in spaces]
        ]

    def holds(self, namespace: str, labels: Labels) -> bool:
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return self.selector is not None and self.selector.matches(labels)


@dataclass(frozen=True)
class PeerSet:
    """Pods that meet all selections, or pods of one controller; terminating ones if they count."""

    selections: tuple[Selection, ...] = ()
    controller: str = ""
    counts_leaving: bool = True

    def index_keys(self) -> list[list[_Key]]:
        """Choices of index keys; of each choice a member has one key."""
        if self.controller:
            return [[("", "", self.controller)]]
        found = [keys for selection in self.selections for keys in selection.index_keys()]
        return found or [[(_EVERYWHERE, "", "")]]

    def contains(self, pod: PodFacts, labels: Labels) -> bool:
        """Whether a pod with these facts, and with its labels as a mapping, is a member."""
        if pod.is_leaving and not self.counts_leaving:
            return False
        if self.controller:
            return pod.controller == self.controller
        return all(each.holds(pod.namespace, labels) for each in self.selections)


class PeerIndex(t.Generic[T]):
    """Items by the pods that they may concern, so that few must be compared with each pod."""

    def __init__(self) -> None:
        self._items: dict[_Key, dict[T, None]] = {}

    def add(
        self, item: T, choices: t.Sequence[t.Sequence[_Key]], *, is_bounded: bool = True
    ) -> bool:
        """Add an item under the keys that have the fewest items; False if these have too many."""
        most, keys = min(
            (max((len(self._items.get(key, ())) for key in keys), default=0), keys)
            for keys in choices
        )
        if is_bounded and most >= _MAX_OF_A_KEY:
            return False
        for key in keys:
            self._items.setdefault(key, {})[item] = None
        return True

    def remove(self, item: T, choices: t.Sequence[t.Sequence[_Key]]) -> None:
        """Undo ``add``."""
        for key in (key for keys in choices for key in keys):
            self._items.get(key, {}).pop(item, None)

    def of(self, facts: PodFacts) -> t.Iterator[T]:
        """The items that may concern a pod."""
        for key in facts.index_keys():
            yield from self._items.get(key, ())


class UnknownNamespaces(Exception):
    """The namespaces of a selector are unknown: it needs their labels, or the pods of one namespace
    have too many selectors."""


class Namespaces:
    """The labels of namespaces by name; None if only their names are known."""

    def __init__(self, labels: t.Mapping[str, Labels] | None = None) -> None:
        self._labels = labels
        self._found: dict[LabelSelector, frozenset[str]] = {}
        self._number: dict[str, int] = {}

    def matching(self, selector: LabelSelector, asking: str) -> frozenset[str] | None:
        """Names of the namespaces; None for all. Raises UnknownNamespaces.

        ``asking`` is the namespace of the selector's pod.
        """
        if not selector.requirements:
            return None
        if self._labels is None:
            return self._by_name(selector)
        if selector not in self._found:
            self._number[asking] = self._number.get(asking, 0) + 1
            if self._number[asking] > _MAX_NAMESPACE_SELECTORS:
                raise UnknownNamespaces
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


def read_namespace(given: Object) -> tuple[str, Labels]:
    """Name and labels of a Namespace, or of its short form. Raises InvalidField."""
    metadata = mapping(given.get("metadata", given), "metadata")
    name = required_text(metadata.get("name"), "metadata.name")
    return name, text_mapping(metadata.get("labels"), "metadata.labels")


def read_selection(
    term: Object, pod: PodFacts, namespaces: Namespaces, path: str
) -> tuple[Selection, str]:
    """An affinity term of a pod, and its topology key. Raises InvalidField, UnknownNamespaces."""
    key = required_text(term.get("topologyKey"), f"{path}.topologyKey")
    selector = read_selector(term, pod, path)
    chosen: frozenset[str] | None = frozenset(texts(term.get("namespaces"), f"{path}.namespaces"))
    if term.get("namespaceSelector") is not None:
        wanted = label_selector(term["namespaceSelector"], f"{path}.namespaceSelector")
        found = namespaces.matching(wanted, pod.namespace)
        chosen = None if found is None or chosen is None else chosen | found
    elif not chosen:
        chosen = frozenset({pod.namespace})
    return Selection(chosen, selector), key


def label_selector(given: t.Any, path: str) -> LabelSelector:
    """A label selector at this place of an object. Raises InvalidField."""
    try:
        return parse_label_selector(given)
    except InvalidInput as error:
        raise InvalidField(path, str(error)) from error


def read_selector(term: Object, pod: PodFacts, path: str) -> LabelSelector | None:
    """A term's label selector with the terms of its match keys.

    Raises InvalidField. The API server adds them too, which is idempotent.
    """
    if term.get("labelSelector") is None:
        return None
    own = dict(pod.labels)
    added = [
        Requirement(key, operator, frozenset({own[key]}))
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in texts(term.get(field), f"{path}.{field}")
        if key in own
    ]
    selector = label_selector(term["labelSelector"], f"{path}.labelSelector")
    return LabelSelector((*selector.requirements, *added))
