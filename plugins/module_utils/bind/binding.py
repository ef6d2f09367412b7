# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Binding of pods to the nodes of a plan after a check of both, the work of the ``bind`` step."""

from __future__ import annotations

import functools
import threading
import typing as t
from dataclasses import dataclass, field

from ..base.argspec import KUBERNETES, LEASE, ArgumentSpec
from ..base.boundary import Finding, Subject, guarded, subject_of
from ..base.context import Context, Parameters, Result, difference
from ..base.errors import ApiError, InvalidInput, WattwiseError
from ..base.fields.strict import object_name
from ..base.json_types import MutableObject, Object
from ..kube.client import Guard, Kube
from ..kube.lease import alone
from ..kube.unschedulable import Unplaced, mark
from ..scheduling.nominated_pods import NominatedPod
from ..scheduling.plan import Placement, Plan
from ..scheduling.pod_fields import DEVICE_CLAIMS_ANNOTATION
from ..scheduling.pod_reader import identity, is_finished
from ..scheduling.volumes.cluster_volumes import depends_on_storage
from ..scheduling.volumes.pod_claims import Unready
from ..snapshot.pods import trim_pod
from .bind_time_check import OpenNode, nominated_pods
from .volume_binding import VOLUME_TIMEOUT, VolumeBinding, VolumeRequest

T = t.TypeVar("T")

VOLUME_TIMEOUT_SPEC = ArgumentSpec({"volume_timeout": {"type": "float", "default": VOLUME_TIMEOUT}})

SPEC = KUBERNETES.merge(
    LEASE, VOLUME_TIMEOUT_SPEC, ArgumentSpec({"mark_unplaced": {"type": "bool", "default": True}})
)

_ATTEMPTS = 3
# The Lease excludes other runs meanwhile.
_MAX_VOLUME_TIMEOUT = 3600
# From this number on, pods are listed instead of read one by one.
_LIST_FROM = 20
NEEDS_DEVICES = (
    "the pod has claims, and its node would not start it before they have devices; "
    "device_reconciliation allocates them and binds the pod (the devices role: devices_reconcile)"
)


Fate = t.Literal["bound", "unchanged", "skipped", "failed", "waiting"]


@dataclass(frozen=True)
class Outcome:
    """Outcome of one placement; ``reason`` is set if it was skipped or failed.

    ``is_told`` means that the pod's condition gets the reason. A waiting one is bound after its
    volumes exist. ``waits`` is False for a skipped pod that needs no node any more, or not yet.
    """

    placement: Placement
    fate: Fate
    reason: str = ""
    is_told: bool = False
    waits: bool = True

    def as_unplaced(self) -> Unplaced:
        one = self.placement
        return Unplaced(one.namespace, one.pod, self.reason, one.uid)


@dataclass(frozen=True)
class Bindings:
    """The outcomes of all placements, and the conditions of pods without a node.

    ``marked`` are the written conditions, ``unmarked`` the errors about others.
    """

    outcomes: t.Sequence[Outcome]
    marked: t.Sequence[Object] = ()
    unmarked: t.Sequence[Object] = ()

    def of(self, fate: Fate) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.fate == fate]

    @property
    def still_waiting(self) -> dict[tuple[str, str], str]:
        """Reasons of planned pods that wait after binding, by namespace and name."""
        return {
            (each.placement.namespace, each.placement.pod): each.reason
            for each in (*self.of("skipped"), *self.of("failed"))
            if each.waits
        }

    def judge(self) -> None:
        """Raise WattwiseError, with the result in its fields, if all attempted bindings failed."""
        failed = self.of("failed")
        if failed and not self.of("bound"):
            raise WattwiseError(
                f"None of {len(failed)} bindings succeeded; the first reason is: "
                f"{failed[0].reason}",
                **self.as_result(),
            )

    def as_result(self) -> Result:
        bound = self.of("bound")
        after = {
            f"{each.placement.namespace}/{each.placement.pod}": each.placement.node
            for each in bound
        }
        after.update(
            {f"{each['namespace']}/{each['pod']}": each["message"] for each in self.marked}
        )
        failed = [{**each.placement.names, "detail": each.reason} for each in self.of("failed")]
        return {
            "changed": bool(bound) or any(each["transition"] for each in self.marked),
            "bound": [each.placement.names for each in bound],
            "unchanged": [each.placement.names for each in self.of("unchanged")],
            "skipped": [
                {**each.placement.names, "reason": each.reason, "waits": each.waits}
                for each in self.of("skipped")
            ],
            "marked": [*self.marked],
            "errors": [*failed, *self.unmarked],
            "diff": difference("pods", ((name, "", text) for name, text in after.items())),
        }


# Records bindings for later reports; raises InvalidInput.
Record = t.Callable[[Bindings], None]


def bind(kube: Kube, plan: Plan, options: Parameters, context: Context, record: Record) -> Bindings:
    """Bind the pods of the plan that still can be bound, and mark its unplaced pods.

    ``options`` follow SPEC. The Lease excludes other runs, so no other run invalidates the
    nodes and pods that were read. Raises WattwiseError if all attempted bindings failed.
    """
    volume_timeout = volume_timeout_of(options)

    def work(guard: Guard | None) -> Bindings:
        guarded = kube.guarded(guard)
        outcomes = bind_all(guarded, context, plan.placements, volume_timeout=volume_timeout)
        unplaced: list[Unplaced] = []
        if options["mark_unplaced"]:
            unplaced += plan.unplaced
            unplaced += [each.as_unplaced() for each in outcomes if each.is_told]
        bindings = Bindings(outcomes, *_mark_all(guarded, context, unplaced))
        bindings.judge()
        if not context.check_mode:
            try:
                record(bindings)
            except InvalidInput as error:
                raise InvalidInput(str(error), **bindings.as_result()) from error
        return bindings

    return alone(kube, options, context, work)


def volume_timeout_of(options: Parameters) -> float:
    """The seconds to wait for volumes. Raises InvalidInput."""
    seconds: float = options["volume_timeout"]
    if not 0 <= seconds <= _MAX_VOLUME_TIMEOUT:
        raise InvalidInput(
            f"volume_timeout: {seconds} is not from 0 to {_MAX_VOLUME_TIMEOUT} seconds"
        )
    return seconds


def bind_all(
    kube: Kube,
    context: Context,
    placements: t.Sequence[Placement],
    *,
    have_devices: bool = False,
    volume_timeout: float = VOLUME_TIMEOUT,
) -> list[Outcome]:
    """Bind, with nodes in parallel and the pods of a node in this order; outcomes in this order.

    Pods with device claims are skipped, unless the caller declares that they have devices. Pods
    whose volumes must be provisioned come last, after one wait for all of these volumes.
    """
    if not placements:
        return []
    listed, wanted = _waiting(kube, placements), {(each.namespace, each.pod) for each in placements}
    nominated = [pod for pod in nominated_pods(kube) if identity(pod.given) not in wanted]
    binder = _Binder(kube, context, placements, have_devices, volume_timeout, listed, nominated)
    outcomes = binder.bind_by_node(placements)
    outcomes.update(binder.bind_waiting())
    return [outcomes[placement] for placement in placements]


def _waiting(kube: Kube, placements: t.Sequence[Placement]) -> dict[str, MutableObject]:
    """Waiting pods of many placements by path, from one list.

    A Binding is valid only for the version of the pod that was read. A pod that changed after the
    list is therefore refused and read again, as are pods that are not in the list.
    """
    if len(placements) < _LIST_FROM:
        return {}
    wanted = {placement.path for placement in placements}

    def trim(pod: MutableObject) -> MutableObject:
        """The path and the pod; empty if it is not wanted or unreadable."""
        path = guarded(subject_of(pod, "Pod"), functools.partial(_path_of, pod))
        if isinstance(path, Finding) or path not in wanted:
            return {}
        trimmed = guarded(subject_of(pod, "Pod"), functools.partial(trim_pod, pod))
        return {} if isinstance(trimmed, Finding) else {"path": path, "pod": trimmed}

    waiting = {"fieldSelector": "spec.nodeName="}
    # A pod that is beyond the limits is read alone afterwards, and refused with the reason.
    found = kube.list("/api/v1/pods", waiting, trim, refuse=lambda _finding: None)
    return {entry["path"]: entry["pod"] for entry in found if entry}


def _path_of(pod: MutableObject) -> str:
    metadata = pod["metadata"]
    return Placement(metadata["namespace"], metadata["name"], "").path


def judge(placement: Placement, pod: MutableObject | None) -> Outcome | None:
    """Outcome by the state of the pod; None if it still waits for its node."""
    if pod is None:
        return _no_longer(placement, "the pod is gone")
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    if placement.uid not in (None, "", metadata["uid"]):
        return _no_longer(placement, "the pod was replaced by another of the same name")
    node = spec.get("nodeName")
    if node == placement.node:
        return Outcome(placement, "unchanged")
    if node:
        return _no_longer(placement, f"the pod is bound to node {node} already")
    if metadata.get("deletionTimestamp"):
        return _no_longer(placement, "the pod is being deleted")
    if is_finished(pod):
        return _no_longer(placement, "the pod has finished")
    if spec.get("schedulingGates"):
        return _no_longer(placement, "the pod has scheduling gates")
    return None


def _no_longer(placement: Placement, reason: str) -> Outcome:
    """The planned pod needs no node."""
    return Outcome(placement, "skipped", reason, waits=False)


def needs_devices(pod: MutableObject) -> bool:
    """Whether the pod has device claims; without devices its node does not start it."""
    annotations = pod["metadata"].get("annotations") or {}
    return bool(pod["spec"].get("resourceClaims")) or DEVICE_CLAIMS_ANNOTATION in annotations


@dataclass
class _Binder:
    """Binds pods by node. Thread-safe."""

    kube: Kube
    context: Context
    placements: t.Sequence[Placement]
    have_devices: bool
    volume_timeout: float
    listed: t.Mapping[str, MutableObject]
    nominated: t.Sequence[NominatedPod]
    _done: int = 0
    _failed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _requests: dict[Placement, t.Sequence[VolumeRequest]] = field(default_factory=dict)
    _volumes: VolumeBinding = field(init=False)

    def __post_init__(self) -> None:
        self._volumes = VolumeBinding(self.kube, self._waiting_pods, self.volume_timeout)

    def _waiting_pods(self) -> list[tuple[MutableObject, str]]:
        """The pods that still wait, with their nodes."""

        def read(placement: Placement) -> MutableObject | None:
            return self.listed.get(placement.path) or self.kube.find(placement.path)

        pods = self.kube.in_parallel(read, self.placements)
        return [
            (pod, placement.node)
            for placement, pod in zip(self.placements, pods)
            if pod is not None and judge(placement, pod) is None
        ]

    def bind_by_node(self, placements: t.Sequence[Placement]) -> dict[Placement, Outcome]:
        by_node: dict[str, list[Placement]] = {}
        for placement in placements:
            by_node.setdefault(placement.node, []).append(placement)
        outcomes: dict[Placement, Outcome] = {}
        for of_one_node in self.kube.in_parallel(self.bind_all, list(by_node.items())):
            outcomes.update({outcome.placement: outcome for outcome in of_one_node})
        return outcomes

    def bind_waiting(self) -> dict[Placement, Outcome]:
        """Bind the pods with requested volumes after these exist."""
        waiting = [placement for placement in self.placements if placement in self._requests]
        if not waiting:
            return {}
        try:
            failed = self._volumes.wait({each: self._requests[each] for each in waiting})
        except WattwiseError as error:
            return {each: self._count(Outcome(each, "failed", str(error))) for each in waiting}
        outcomes = {
            placement: self._count(Outcome(placement, "skipped", reason, is_told=True))
            for placement, reason in failed.items()
        }
        return {**outcomes, **self.bind_by_node([each for each in waiting if each not in failed])}

    def bind_all(self, of_one_node: tuple[str, list[Placement]]) -> list[Outcome]:
        """Bind the pods of one node, in the order of the plan."""
        name, placements = of_one_node
        read = guarded_but_failures(
            Subject("Node", name),
            lambda: OpenNode.read(self.kube, object_name(name, "node"), self.nominated),
        )
        if isinstance(read, (WattwiseError, Finding)):
            return [self._count(_not_bound(item, read)) for item in placements]
        return [self._count(self._bind_within(item, read)) for item in placements]

    def _bind_within(self, placement: Placement, node: OpenNode | None) -> Outcome:
        """Outcome of one pod; its defects affect no other pod."""
        subject = Subject("Pod", placement.pod, placement.namespace)
        outcome = guarded_but_failures(subject, functools.partial(self._bind, placement, node))
        if isinstance(outcome, (WattwiseError, Finding)):
            return _not_bound(placement, outcome)
        return outcome

    def _count(self, outcome: Outcome) -> Outcome:
        if outcome.fate == "waiting":
            return outcome
        with self._lock:
            self._done += 1
            self._failed += outcome.fate == "failed"
            self.context.progress(done=self._done, total=len(self.placements), failed=self._failed)
        return outcome

    def _bind(self, placement: Placement, node: OpenNode | None) -> Outcome:
        object_name(placement.namespace, "namespace")
        object_name(placement.pod, "pod")
        problem = ""
        try:
            for attempt in range(_ATTEMPTS):
                pod = self.listed.get(placement.path) if attempt == 0 else None
                pod = pod or self.kube.find(placement.path)
                outcome = judge(placement, pod)
                # The answer to an earlier, successful attempt was lost.
                is_bound = attempt > 0 and outcome is not None and outcome.fate == "unchanged"
                if outcome is not None and not is_bound:
                    return outcome
                if pod is None or node is None:
                    return Outcome(placement, "skipped", f"node {placement.node} is gone")
                problem = "" if is_bound else self._try(placement, pod, node)
                if not problem:
                    node.take(pod)
                    return Outcome(placement, "bound")
        except _NeedsVolumes:
            return Outcome(placement, "waiting")
        except (_Refused, Unready) as refused:
            return Outcome(placement, "skipped", str(refused))
        except InvalidInput:
            raise
        except WattwiseError as error:
            problem = str(error)
            if error.fields.get("is_of_object"):
                return Outcome(placement, "skipped", problem)
        return Outcome(placement, "failed", problem)

    def _try(self, placement: Placement, pod: MutableObject, node: OpenNode) -> str:
        """Send one Binding; returns an error that a new reading of the pod may explain."""
        if needs_devices(pod) and not self.have_devices:
            raise _Refused(NEEDS_DEVICES)
        reason = node.refusal(pod)
        if reason is not None:
            raise _Refused(reason)
        if depends_on_storage(pod):
            self._prepare_volumes(placement, pod, node)
        if not self.context.check_mode:
            try:
                self.kube.request("POST", f"{placement.path}/binding", _binding(placement, pod))
            except ApiError as error:
                if error.status not in (0, 404, 409) and error.status < 500:
                    raise
                return str(error)
        return ""

    def _prepare_volumes(self, placement: Placement, pod: MutableObject, node: OpenNode) -> None:
        """Raises _Refused if volumes exclude the node, and _NeedsVolumes if the pod must wait."""
        if placement in self._requests:
            return
        reason = self._volumes.refusal(pod, node.node, node.pods)
        if reason is not None:
            raise _Refused(reason.replace("node(s)", f"node {placement.node}"))
        if self.context.check_mode:
            return
        requests = self._volumes.ask(pod, placement.node)
        if requests:
            self._requests[placement] = requests
            node.take(pod)
            raise _NeedsVolumes


def _not_bound(placement: Placement, problem: WattwiseError | Finding) -> Outcome:
    """Skipped for a defect of the object, failed for an error of the API."""
    fate: Fate = "skipped" if isinstance(problem, Finding) else "failed"
    return Outcome(placement, fate, str(problem))


class _NeedsVolumes(Exception):
    """Volumes of the pod were requested."""


def guarded_but_failures(subject: Subject, work: t.Callable[[], T]) -> T | Finding | WattwiseError:
    """Like ``guarded``, but errors of the API and the Lease stay failures.

    They are no defects of the object, and the next run may succeed. An object that is too large to
    be read is one.
    """

    def attempt() -> T | WattwiseError:
        try:
            return work()
        except InvalidInput:
            raise
        except WattwiseError as error:
            if error.fields.get("is_of_object"):
                raise InvalidInput(str(error)) from error
            return error

    return guarded(subject, attempt)


class _Refused(Exception):
    """The node does not accept the pod; the text is the reason."""


def _binding(placement: Placement, pod: MutableObject) -> MutableObject:
    """A Binding for exactly this uid and resource version of the pod."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": placement.pod,
            "namespace": placement.namespace,
            "uid": pod["metadata"]["uid"],
            "resourceVersion": pod["metadata"]["resourceVersion"],
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": placement.node},
    }


def _mark_all(
    kube: Kube, context: Context, unplaced: t.Sequence[Unplaced]
) -> tuple[list[Object], list[Object]]:
    """Written conditions, and errors."""

    def marked(item: Unplaced) -> Object | None:
        object_name(item.namespace, "namespace")
        object_name(item.pod, "pod")
        return mark(kube, context, item)

    def attempt(item: Unplaced) -> Object | Finding | WattwiseError | None:
        subject = Subject("Pod", item.pod, item.namespace)
        return guarded_but_failures(subject, functools.partial(marked, item))

    written: list[Object] = []
    errors: list[Object] = []
    for item, found in zip(unplaced, kube.in_parallel(attempt, unplaced)):
        if isinstance(found, (WattwiseError, Finding)):
            errors.append({"namespace": item.namespace, "pod": item.pod, "detail": str(found)})
        elif found is not None:
            written.append(found)
    return written, errors
