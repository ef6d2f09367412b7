# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Disruptions that PodDisruptionBudgets allow.

Sources: https://kubernetes.io/docs/tasks/run-application/configure-pdb/ (in policy/v1 an empty
selector selects every pod of the namespace, a missing one none) and
https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import (
    Finding,
    guarded,
    subject_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.label_selector import LabelSelector
from ansible_collections.wattwise.kube.plugins.module_utils.base.object_shapes import (
    Object,
    mapping,
    text,
    whole_number,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.peers import (
    PodFacts,
    Selection,
    label_selector,
)


@dataclass(frozen=True)
class _Budget:
    name: str
    covers: Selection
    allowed: int


class Budgets:
    """Allowed disruptions of each budget; 0 without a status.

    An unreadable budget covers its whole namespace and allows none, because keeping a pod is the
    safe error. ``findings`` has these.
    """

    def __init__(self, given: t.Sequence[t.Any] = ()) -> None:
        self.findings: list[Finding] = []
        self._budgets: list[_Budget] = []
        for index, item in enumerate(given):
            subject = subject_of(item, "PodDisruptionBudget", f"pod_disruption_budgets[{index}]")
            read = guarded(subject, functools.partial(_read_budget, item))
            if isinstance(read, Finding):
                self.findings.append(read)
                read = _closed_budget(str(subject), subject.namespace)
            self._budgets.append(read)

    def refusal(self, pods: t.Iterable[PodFacts]) -> str | None:
        """Why the API would refuse to evict the last of these pods after the others, if it would.

        It refuses a pod that several budgets cover.
        """
        left = [budget.allowed for budget in self._budgets]
        for pod in pods:
            found = self._covering(pod)
            names = " and ".join(self._budgets[index].name for index in found)
            if len(found) > 1:
                return f"{names} cover the pod, and only one may"
            for index in found:
                left[index] -= 1
                if left[index] < 0:
                    return f"{names} allows no more evictions now"
        return None

    def budget_of(self, pod: PodFacts) -> int | None:
        """The index of the budget of a pod that may be evicted alone; None without a budget."""
        return next(iter(self._covering(pod)), None)

    def allowed(self) -> list[int]:
        """Allowed disruptions of each budget."""
        return [budget.allowed for budget in self._budgets]

    def _covering(self, pod: PodFacts) -> list[int]:
        labels = dict(pod.labels)
        return [
            index
            for index, budget in enumerate(self._budgets)
            if budget.covers.holds(pod.namespace, labels)
        ]


def _read_budget(given: Object) -> _Budget:
    metadata = mapping(given.get("metadata"), "metadata")
    namespace = text(metadata.get("namespace"), "metadata.namespace") or "default"
    name = text(metadata.get("name"), "metadata.name")
    selector = mapping(given.get("spec"), "spec").get("selector")
    allowed = mapping(given.get("status"), "status").get("disruptionsAllowed")
    return _Budget(
        f"PodDisruptionBudget {namespace}/{name}",
        Selection(
            frozenset({namespace}),
            None if selector is None else label_selector(selector, "spec.selector"),
        ),
        0 if allowed is None else whole_number(allowed, "status.disruptionsAllowed"),
    )


def _closed_budget(name: str, namespace: str) -> _Budget:
    return _Budget(name, Selection(frozenset({namespace or "default"}), LabelSelector(())), 0)
