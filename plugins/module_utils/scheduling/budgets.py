# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Disruptions that PodDisruptionBudgets allow.

Sources: https://kubernetes.io/docs/tasks/run-application/configure-pdb/ (in policy/v1 an empty
selector selects every pod of the namespace, a missing one none) and
https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/. The order of the decisions is
that of Create in pkg/registry/core/pod/storage/eviction.go of Kubernetes v1.37.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ..base.boundary import Finding, guarded, subject_of
from ..base.fields.strict import mapping, mappings, text, whole_number
from ..base.json_types import Object
from ..base.label_selector import LabelSelector
from .peers import Selection, label_selector, pod_facts

_UNGUARDED_PHASES = ("Pending", "Succeeded", "Failed")
# Limit of the API server on evicted pods that the budget's controller has not seen yet.
_MAX_DISRUPTED = 2000
_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1


@dataclass(frozen=True)
class _Budget:
    """A budget with the fields of its status that decide about evictions.

    ``allowed`` is None if the API server evicts no healthy pod before the budget's controller has
    done its work.
    """

    name: str
    covers: Selection
    allowed: int | None = None
    always_allows_unhealthy: bool = False
    has_enough_healthy: bool = False

    def counts(self, pod: Object) -> bool:
        """Whether the eviction of this pod counts as a disruption."""
        if _is_ready(pod):
            return True
        return not (self.always_allows_unhealthy or self.has_enough_healthy)


class Budgets:
    """Evictions that budgets allow, decided as the API server decides them.

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

    def refusal(self, pods: t.Iterable[Object]) -> str | None:
        """Why the API would refuse to evict the last of these pods after the others, if it would.

        It refuses a pod that several budgets cover, even if that pod is not ready.
        """
        left = self.allowed()
        for pod in pods:
            found = self._covering(pod)
            names = " and ".join(self._budgets[index].name for index in found)
            if len(found) > 1:
                return f"{names} cover the pod, and only one may"
            for index in found:
                if not self._budgets[index].counts(pod):
                    continue
                if self._budgets[index].allowed is None:
                    return f"{names} is still being processed by its controller"
                left[index] -= 1
                if left[index] < 0:
                    return f"{names} allows no more evictions now"
        return None

    def budget_of(self, pod: Object) -> int | None:
        """The index of the budget that the eviction of a pod uses up; None without one."""
        counting = (index for index in self._covering(pod) if self._budgets[index].counts(pod))
        return next(counting, None)

    def allowed(self) -> list[int]:
        """Allowed disruptions of each budget."""
        return [budget.allowed or 0 for budget in self._budgets]

    def _covering(self, pod: Object) -> list[int]:
        """The budgets that the API server asks about a pod; none about one that is at its end, or
        does not run yet."""
        metadata, status = mapping(pod.get("metadata"), "metadata"), _status_of(pod)
        if metadata.get("deletionTimestamp") or status.get("phase") in _UNGUARDED_PHASES:
            return []
        facts = pod_facts(pod)
        labels = dict(facts.labels)
        return [
            index
            for index, budget in enumerate(self._budgets)
            if budget.covers.holds(facts.namespace, labels)
        ]


def _is_ready(pod: Object) -> bool:
    """The state of a pod whose conditions are unknown counts as ready, the safe error."""
    conditions = _status_of(pod).get("conditions")
    if conditions is None:
        return True
    found = mappings(conditions, "status.conditions")
    ready = next((each for each in found if each.get("type") == "Ready"), {})
    return ready.get("status") == "True"


def _status_of(pod: Object) -> Object:
    return mapping(pod.get("status"), "status")


def _read_budget(given: Object) -> _Budget:
    metadata = mapping(given.get("metadata"), "metadata")
    namespace = text(metadata.get("namespace"), "metadata.namespace") or "default"
    name = text(metadata.get("name"), "metadata.name")
    spec, status = mapping(given.get("spec"), "spec"), mapping(given.get("status"), "status")
    selector = spec.get("selector")
    healthy, desired = (
        _number(status, name, "status") for name in ("currentHealthy", "desiredHealthy")
    )
    return _Budget(
        f"PodDisruptionBudget {namespace}/{name}",
        Selection(
            frozenset({namespace}),
            None if selector is None else label_selector(selector, "spec.selector"),
        ),
        _allowed(metadata, status),
        text(spec.get("unhealthyPodEvictionPolicy"), "spec.unhealthyPodEvictionPolicy")
        == "AlwaysAllow",
        healthy >= desired > 0,
    )


def _allowed(metadata: Object, status: Object) -> int | None:
    """Allowed disruptions; None if the status is of an older generation of the budget."""
    observed = _number(status, "observedGeneration", "status", _MAX_INT64)
    if observed < _number(metadata, "generation", "metadata", _MAX_INT64):
        return None
    disrupted = mapping(status.get("disruptedPods"), "status.disruptedPods")
    allowed = _number(status, "disruptionsAllowed", "status")
    return 0 if len(disrupted) > _MAX_DISRUPTED else max(allowed, 0)


def _number(holder: Object, name: str, path: str, most: int = _MAX_INT32) -> int:
    value = holder.get(name)
    return 0 if value is None else whole_number(value, f"{path}.{name}", -most - 1, most)


def _closed_budget(name: str, namespace: str) -> _Budget:
    selection = Selection(frozenset({namespace or "default"}), LabelSelector(()))
    return _Budget(name, selection, 0)
