# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Evictions of one run through the Eviction API, and the pods that are still leaving."""

from __future__ import annotations

import typing as t

from ..base.errors import ApiError
from ..base.json_types import MutableObject
from ..kube.client import Kube
from ..power.rebalance import surely_movable
from ..scheduling.plan import PlannedMove, pod_path

_TOO_MANY_REQUESTS = 429

# ``evicted``: the pod is gone, but its replacement is not on the target.
Fate = t.Literal["moved", "evicted", "refused", "stopped", "skipped", "left"]


class Departure(t.NamedTuple):
    """A running pod to evict, and the sentence of its Event."""

    namespace: str
    pod: str
    source: str
    uid: str
    note: str

    @property
    def path(self) -> str:
        return pod_path(self.namespace, self.pod)


Planned = t.Union[Departure, PlannedMove]


class NotMade(Exception):
    """The move is not made; the text is the reason."""

    def __init__(self, fate: Fate, reason: str) -> None:
        super().__init__(reason)
        self.fate: Fate = fate


def find_planned(kube: Kube, planned: Planned, scheduler_name: str) -> MutableObject:
    """The pod, if it is still the planned one and may be evicted. Raises NotMade and ApiError."""
    pod = kube.find(planned.path)
    if pod is None:
        raise NotMade("skipped", "the pod is gone")
    if planned.uid not in (None, "", pod["metadata"]["uid"]):
        raise NotMade("skipped", "the pod was replaced by another of the same name")
    if pod["spec"].get("nodeName") != planned.source:
        raise NotMade("skipped", f"the pod is no longer on node {planned.source}")
    if not surely_movable(pod, scheduler_name):
        reason = "the pod would not come back to this scheduler, or must not be evicted"
        raise NotMade("skipped", reason)
    return pod


def forbidden(reason: str) -> str:
    """The detail of an eviction that a budget forbids."""
    return f"a PodDisruptionBudget forbids the eviction: {reason}"


class Evictions:
    """``once`` is a client of the same server without repetitions."""

    def __init__(self, kube: Kube, once: Kube) -> None:
        self._kube = kube
        self._once = once
        # Evicted pods of each node, and their uids, which may take long to stop.
        self._leaving: dict[str, dict[str, str]] = {}

    @property
    def have_begun(self) -> bool:
        """Whether a pod was evicted."""
        return bool(self._leaving)

    def are_leaving(self, node: str) -> bool:
        """Whether a pod evicted from the node is still there."""
        found = ((self._kube.find(path), uid) for path, uid in self._leaving.get(node, {}).items())
        return any(pod is not None and pod["metadata"]["uid"] == uid for pod, uid in found)

    def evict(self, move: Planned, pod: MutableObject, dry_run: bool = False) -> None:
        """Raises NotMade if the API refuses."""
        options: MutableObject = {"preconditions": {"uid": pod["metadata"]["uid"]}}
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": move.namespace, "name": move.pod},
            "deleteOptions": options,
        }
        try:
            # A dry run is no write, and needs no Lease.
            kube = self._once.guarded(None) if dry_run else self._once
            kube.request("POST", f"{move.path}/eviction", body)
        except ApiError as error:
            if not dry_run and self._has_gone(move, pod, error):
                return
            refused = error.status == _TOO_MANY_REQUESTS
            detail = forbidden(str(error)) if refused else f"the eviction failed: {error}"
            raise NotMade("refused", detail) from error
        if not dry_run:
            self._note_leaving(move, pod)

    def _note_leaving(self, move: Planned, pod: MutableObject) -> None:
        self._leaving.setdefault(move.source, {})[move.path] = pod["metadata"]["uid"]

    def _has_gone(self, move: Planned, pod: MutableObject, error: ApiError) -> bool:
        """Whether the eviction took effect despite its lost answer. Raises ApiError."""
        if error.status and error.status < 500:
            return False
        found = self._kube.find(move.path)
        stays = found is not None and found["metadata"]["uid"] == pod["metadata"]["uid"]
        if stays and not (found or {})["metadata"].get("deletionTimestamp"):
            return False
        self._note_leaving(move, pod)
        return True
