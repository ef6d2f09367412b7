# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Views of Pods, Nodes and their metrics, with only the fields for power and room."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ..base.errors import InvalidInput
from ..base.fields.lenient import member, objects
from ..base.fields.strict import mapping, text
from ..base.json_types import Object
from ..base.units import parse_duration, parse_time
from ..scheduling.amounts import quantities
from ..scheduling.model import ASLEEP_TAINT
from ..scheduling.node_reader import Occupancy, measured_use
from ..scheduling.nominated_pods import has_nomination
from ..scheduling.pod_reader import (
    effective_requests,
    identity,
    is_daemon,
    is_finished,
    priority_of,
)
from .publication import PodKey

Requests = tuple[tuple[str, int], ...]
Allocatable = t.Mapping[str, int]

_DEFAULT_SCHEDULER = "default-scheduler"


class PodLoad(t.NamedTuple):
    """A pod with a node, or waiting for one (``node`` is empty).

    ``nominated_for`` is the node that kube-scheduler has chosen for a waiting pod. ``started_at``
    is Unix time, 0 for a pod that has not started.
    """

    uid: str
    node: str
    requests: Requests
    is_workload: bool
    priority: int = 0
    started_at: float = 0.0
    nominated_for: str = ""

    @property
    def millicores(self) -> int:
        return dict(self.requests).get("cpu", 0)


class Measured(t.NamedTuple):
    """CPU use of a node in microcores, as the mean of the time from ``since`` to ``until`` (Unix)."""

    microcores: int
    since: float
    until: float


class NodeView(t.NamedTuple):
    """The resources of a node for pods, and whether its machine would have to be woken.

    See Headroom for the power of a machine that is not ready.
    """

    allocatable: Allocatable
    is_asleep: bool = False
    is_ready: bool = True


@dataclass(frozen=True)
class AskingPod:
    """The pod of kube-scheduler's call."""

    key: PodKey
    load: PodLoad
    scheduler_name: str


def asking_pod(pod: Object) -> AskingPod:
    """Raises InvalidField."""
    spec = mapping(pod.get("spec"), "spec")
    requests = {**effective_requests(spec), "pods": 1}
    load = PodLoad(_uid(pod), "", _shared(requests), not is_daemon(pod), priority_of(spec))
    name = text(spec.get("schedulerName"), "spec.schedulerName") or _DEFAULT_SCHEDULER
    return AskingPod(identity(pod), load, name)


def view_pod(pod: Object) -> PodLoad | None:
    """The load of a pod on its node; None for a finished pod. Raises InvalidField."""
    if is_finished(pod):
        return None
    spec = mapping(pod.get("spec"), "spec")
    occupancy = Occupancy()
    occupancy.add(pod)
    return PodLoad(
        _uid(pod),
        text(spec.get("nodeName"), "spec.nodeName"),
        _shared(occupancy.requests),
        occupancy.hosts_workload,
        priority_of(spec),
        0.0 if occupancy.starting_millicores else _started_at(pod),
        _nomination(pod),
    )


def _nomination(pod: Object) -> str:
    if not has_nomination(pod):
        return ""
    return text(pod["status"]["nominatedNodeName"], "status.nominatedNodeName")


def view_node(node: Object) -> NodeView:
    """Raises InvalidField."""
    status = mapping(node.get("status"), "status")
    taints = objects(member(node, "spec", "taints"))
    return NodeView(
        quantities(status.get("allocatable"), "status.allocatable"),
        any(taint.get("key") == ASLEEP_TAINT for taint in taints),
        all(
            one.get("status") == "True"
            for one in objects(status.get("conditions"))
            if one.get("type") == "Ready"
        ),
    )


def measured(metrics: Object) -> tuple[str, Measured]:
    """A node and its use, from an object of metrics.k8s.io. Raises InvalidField."""
    name, microcores = measured_use(metrics)
    window = metrics.get("window")
    seconds = parse_duration(window, "window") if isinstance(window, str) else 0.0
    time = parse_time(text(metrics.get("timestamp"), "timestamp"), "timestamp").timestamp()
    return name, Measured(microcores, time - seconds, time)


def occupancy_of(loads: t.Iterable[PodLoad], since: float) -> Occupancy:
    """Sum of these pods on a node.

    A pod that started after ``since`` is in no measurement yet.
    """
    found = Occupancy()
    for load in loads:
        for name, amount in load.requests:
            found.requests[name] = found.requests.get(name, 0) + amount
            if name == "cpu" and (not load.started_at or load.started_at > since):
                found.starting_millicores += amount
        found.hosts_workload = found.hosts_workload or load.is_workload
    return found


def _uid(pod: Object) -> str:
    return text(mapping(pod.get("metadata"), "metadata").get("uid"), "metadata.uid")


def _started_at(pod: Object) -> float:
    """The start of its last container, because the kubelet accepts a pod before it pulls images.

    Without any time it is long ago, because a running pod is in its node's measurements.
    """
    status = mapping(pod.get("status"), "status")
    containers = objects(status.get("containerStatuses"))
    given = [
        status.get("startTime"),
        *(member(one, "state", "running", "startedAt") for one in containers),
    ]
    return max(map(_seconds, given))


def _seconds(time: t.Any) -> float:
    try:
        return parse_time(time).timestamp() if isinstance(time, str) else 1.0
    except InvalidInput:
        return 1.0


def _shared(requests: t.Mapping[str, int]) -> Requests:
    return _interned(tuple(sorted(requests.items())))


@functools.lru_cache(maxsize=4096)
def _interned(requests: Requests) -> Requests:
    """The same tuple for equal requests, because a fleet has few shapes of pods."""
    return requests
