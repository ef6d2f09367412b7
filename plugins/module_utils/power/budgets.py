# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""How many pods PodDisruptionBudgets let go.

Sources: https://kubernetes.io/docs/tasks/run-application/configure-pdb/ (in policy/v1 an empty
selector takes every pod of the namespace, none takes none) and
https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.label_selector import (
    parse_label_selector,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.peers import PodFacts, Selection
from ansible_collections.wattwise.kube.plugins.module_utils.power.reading import Object, mapping


@dataclass(frozen=True)
class _Budget:
    name: str
    covers: Selection
    allowed: int


class Budgets:
    """What each budget lets go; one without a status lets nobody go."""

    def __init__(self, given: t.Sequence[Object]) -> None:
        self._budgets = [_read_budget(item) for item in given]

    def refusal(self, pods: t.Iterable[PodFacts]) -> str | None:
        """Why the API would not let the last of these pods go after those before; None if it would.

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
        """The number of the budget that covers a pod that may go alone; None without any."""
        return next(iter(self._covering(pod)), None)

    def allowed(self) -> list[int]:
        """How many pods each budget lets go."""
        return [budget.allowed for budget in self._budgets]

    def _covering(self, pod: PodFacts) -> list[int]:
        labels = dict(pod.labels)
        return [
            index
            for index, budget in enumerate(self._budgets)
            if budget.covers.holds(pod.namespace, labels)
        ]


def _read_budget(given: Object) -> _Budget:
    metadata = mapping(given.get("metadata"), "pod_disruption_budgets: metadata")
    namespace, name = metadata.get("namespace") or "default", metadata.get("name")
    where = f"PodDisruptionBudget {namespace}/{name}"
    selector = mapping(given.get("spec"), f"{where}: spec").get("selector")
    allowed = mapping(given.get("status"), f"{where}: status").get("disruptionsAllowed") or 0
    if not isinstance(allowed, int):
        raise InvalidInput(f"{where}: disruptionsAllowed: {allowed!r} is not a number of pods")
    try:
        parsed = None if selector is None else parse_label_selector(selector)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error
    return _Budget(where, Selection(frozenset({namespace}), parsed), allowed)
