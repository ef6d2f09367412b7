# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Answers to the filter and prioritize calls of kube-scheduler."""

from __future__ import annotations

import typing as t

from ..base.boundary import Finding, guarded, subject_of
from ..base.errors import InvalidInput
from . import wire
from .cluster_state import ClusterState
from .views import AskingPod, asking_pod

CROWDED = "the placement plan of wattwise.kube reserves this node for waiting pods"


class Extender:
    """Answers for pods of the schedulers in ``scheduler_names``; for all pods if it is empty.

    Every profile of a kube-scheduler calls every extender, also for pods of other profiles.
    """

    def __init__(self, state: ClusterState, scheduler_names: t.Collection[str] = ()) -> None:
        self.state = state
        self._scheduler_names = frozenset(scheduler_names)

    def filter(self, body: bytes) -> str:
        """ExtenderFilterResult. Raises InvalidInput for a body that kube-scheduler never sends."""
        call = wire.read_call(body)
        pod = self._judged(call)
        if pod is None:
            return wire.filter_reply(call.names, {})
        found = self.state.filtered(pod, call.names)
        crowded = dict.fromkeys(sorted(found.crowded), CROWDED)
        return wire.filter_reply(found.passing, {**crowded, **found.limited})

    def prioritize(self, body: bytes) -> str:
        """HostPriorityList. Raises InvalidInput for a body that kube-scheduler never sends."""
        call = wire.read_call(body)
        pod = self._judged(call)
        scores = [0] * len(call.names) if pod is None else self.state.scores(pod, call.names)
        return wire.prioritize_reply(call.names, scores)

    def _judged(self, call: wire.Call) -> AskingPod | None:
        """The pod; None for a pod of another scheduler. Raises InvalidInput."""
        pod = guarded(subject_of(call.pod, "Pod"), lambda: asking_pod(call.pod))
        if isinstance(pod, Finding):
            raise InvalidInput(f"{pod}; it is scheduled without the extender")
        if self._scheduler_names and pod.scheduler_name not in self._scheduler_names:
            return None
        return pod
