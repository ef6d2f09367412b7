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


@dataclass
class _Budget:
    covers: Selection
    left: int


class Budgets:
    """What is left of each budget; one without a status lets nobody go."""

    def __init__(self, given: t.Sequence[Object]) -> None:
        self._budgets = [_read_budget(item) for item in given]

    def permit(self, pod: PodFacts) -> bool:
        """Whether the pod may be evicted. The API refuses a pod that several budgets cover."""
        found = self._of(pod)
        return len(found) < 2 and all(budget.left > 0 for budget in found)

    def take(self, pod: PodFacts) -> None:
        """Count an eviction."""
        for budget in self._of(pod):
            budget.left -= 1

    def _of(self, pod: PodFacts) -> list[_Budget]:
        labels = dict(pod.labels)
        return [each for each in self._budgets if each.covers.holds(pod.namespace, labels)]


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
    return _Budget(Selection(frozenset({namespace}), parsed), allowed)
