# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Moves of running pods step by step: evict one, wait for its replacement, bind that.

The Eviction API refuses, with status 429, evictions that a PodDisruptionBudget forbids; the first
refusal ends the run. Source: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/.
"""

from __future__ import annotations

import functools
import time
import typing as t
from dataclasses import dataclass, replace

from ..base.argspec import KUBERNETES, LEASE, ArgumentSpec
from ..base.boundary import Finding, Subject, guarded, subject_of
from ..base.context import Context, Parameters, Result, difference
from ..base.errors import ApiError, InvalidInput, WattwiseError
from ..base.json_types import MutableObject
from ..bind.bind_time_check import OpenNode, nominated_pods
from ..bind.binding import bind_all, guarded_but_failures
from ..kube.client import Guard, Kube
from ..kube.lease import LeaseLost, alone
from ..kube.source import without_bulk
from ..scheduling.budgets import Budgets
from ..scheduling.nominated_pods import NominatedPod
from ..scheduling.peers import pod_facts
from ..scheduling.plan import Placement, PlannedMove, Step
from ..scheduling.pod_reader import is_pending
from .evictions import Evictions, Fate, NotMade, find_planned, forbidden

SPEC = KUBERNETES.merge(
    LEASE,
    ArgumentSpec(
        {
            "scheduler_name": {"type": "str", "default": "wattwise"},
            "timeout": {"type": "float", "default": 120.0},
        }
    ),
)

_PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class Moves:
    """The outcomes of the moves of all steps, in their order."""

    outcomes: t.Sequence[Outcome]

    @property
    def changed(self) -> bool:
        return any(outcome.fate in ("moved", "evicted") for outcome in self.outcomes)

    @property
    def stopped(self) -> Outcome | None:
        """The outcome that ended the run, if any."""
        return next((outcome for outcome in self.outcomes if outcome.ends_the_run), None)

    def as_result(self) -> Result:
        moved = [outcome.move for outcome in self.outcomes if outcome.fate == "moved"]
        places = ((f"{move.namespace}/{move.pod}", move.source, move.target) for move in moved)
        return {
            "changed": self.changed,
            "moves": [outcome.as_dict() for outcome in self.outcomes],
            "gain_watts": round(sum(move.gain_watts for move in moved), 6),
            "stopped": None if self.stopped is None else self.stopped.as_dict(),
            "diff": difference("moves", places),
        }


def move_pods(kube: Kube, steps: t.Sequence[Step], options: Parameters, context: Context) -> Moves:
    """Execute the steps of a plan, while no other run binds or moves pods.

    ``options`` follow SPEC. Raises InvalidInput and ApiError if nothing was begun.
    """
    # A refusal is an answer and is not repeated.
    once = kube.unrepeating()

    def work(guard: Guard | None) -> Moves:
        mover = Mover(options, context, kube.guarded(guard), once.guarded(guard))
        total = sum(len(step.moves) for step in steps)
        outcomes: list[Outcome] = []
        for step in steps:
            outcomes += _next(mover, step, outcomes)
            skipped = sum(outcome.fate == "skipped" for outcome in outcomes)
            context.progress(done=len(outcomes), total=total, failed=skipped)
        return Moves(outcomes)

    return alone(kube, options, context, work)


def _next(mover: Mover, step: Step, before: t.Sequence[Outcome]) -> list[Outcome]:
    """Outcome of a step after the outcomes of those before it."""
    if any(outcome.ends_the_run for outcome in before):
        return not_made(step, "left", "the run ended before")
    nodes = {node for move in step.moves for node in (move.source, move.target)}
    for outcome in before:
        changed = nodes & {outcome.move.source, outcome.move.target}
        if outcome.fate == "skipped" and changed:
            reason = f"step {outcome.step} on the same node {min(changed)} was skipped"
            return not_made(step, "skipped", reason)
    return mover.carry_out(step)


@dataclass(frozen=True)
class Outcome:
    """Outcome of one move, with the reason of a failure; ``replacement`` is the new pod's name."""

    step: int
    move: PlannedMove
    fate: Fate
    reason: str = ""
    replacement: str | None = None

    @property
    def ends_the_run(self) -> bool:
        return self.fate in ("evicted", "refused", "stopped")

    def as_dict(self) -> dict[str, t.Any]:
        return {
            "step": self.step,
            "namespace": self.move.namespace,
            "pod": self.move.pod,
            "from_node": self.move.source,
            "to_node": self.move.target,
            "outcome": self.fate,
            "replacement": self.replacement,
            "reason": self.reason or None,
        }


def not_made(
    step: Step, fate: Fate, reason: str, known: t.Mapping[PlannedMove, Outcome] | None = None
) -> list[Outcome]:
    """The outcomes of a step: known ones, and a common one for all other moves."""
    return [
        (known or {}).get(move) or Outcome(step.number, move, fate, reason) for move in step.moves
    ]


class Mover:
    """Executes one step after another."""

    def __init__(self, options: Parameters, context: Context, kube: Kube, once: Kube) -> None:
        """``once`` is a client of the same server without repetitions."""
        if options["timeout"] <= 0:
            raise InvalidInput(f"timeout: {options['timeout']} is not more than 0 seconds")
        self._options = options
        self._context = context
        self._kube = kube
        self._evictions = Evictions(kube, once)
        self._prospect = _Prospect(self._kube)

    def carry_out(self, step: Step) -> list[Outcome]:
        """Outcome of each move of a step, in their order."""
        known: dict[PlannedMove, Outcome] = {}
        if len(step.moves) > 1 or self._context.check_mode:
            known = self._rehearse(step)
        if not known and self._context.check_mode:
            return not_made(step, "moved", "")
        for move in () if known else step.moves:
            known[move] = self._make(step, move, begun=bool(known))
            if known[move].fate != "moved":
                break
        return self._with_the_rest(step, known)

    def _with_the_rest(self, step: Step, known: t.Mapping[PlannedMove, Outcome]) -> list[Outcome]:
        """Untried moves get the outcome of the step."""
        last = list(known.values())[-1]
        if last.fate == "skipped":
            return not_made(step, "skipped", f"pod {last.move.pod}: {last.reason}", known)
        return not_made(step, "left", "the run ended before", known)

    def _rehearse(self, step: Step) -> dict[PlannedMove, Outcome]:
        """The first infeasible move, if any; all are checked, none is begun.

        The API checks each eviction alone, so budgets are counted here for all of them together.
        """
        if not self._context.check_mode:
            self._prospect = _Prospect(self._kube)
        pods: list[MutableObject] = []
        for move in step.moves:
            try:
                pods.append(find_planned(self._kube, move, self._options["scheduler_name"]))
                self._prospect.move(move, pods[-1])
                if len(pods) > 1:
                    self._count_budgets(pods)
                self._evictions.evict(move, pods[-1], dry_run=True)
            except (NotMade, ApiError, LeaseLost) as error:
                return {move: self._failed(step, move, error)}
        return {}

    def _failed(
        self, step: Step, move: PlannedMove, error: NotMade | ApiError | LeaseLost
    ) -> Outcome:
        """Outcome of a move after an error; raised again if no pod was evicted yet."""
        if isinstance(error, NotMade):
            return Outcome(step.number, move, error.fate, str(error))
        if not self._evictions.have_begun:
            raise error
        return Outcome(step.number, move, "stopped", str(error))

    def _count_budgets(self, pods: t.Sequence[MutableObject]) -> None:
        """Check that the last of these pods may be evicted after the others."""
        namespace = pods[-1]["metadata"]["namespace"]
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        try:
            budgets = Budgets(self._kube.list(path))
        except ApiError as error:
            raise NotMade("refused", f"the budgets were not read: {error}") from error
        same = [pod for pod in pods if pod["metadata"]["namespace"] == namespace]
        reason = budgets.refusal(same)
        if reason is not None:
            raise NotMade("refused", forbidden(reason))

    def _make(self, step: Step, move: PlannedMove, begun: bool) -> Outcome:
        """Move one pod. An infeasible move ends a begun step and the run."""
        try:
            pod = find_planned(self._kube, move, self._options["scheduler_name"])
            self._wait_for_room(move, pod)
            siblings = {item["metadata"]["uid"] for item in self._waiting(move, pod)}
            self._evictions.evict(move, pod)
            replacement = self._replacement(move, pod, siblings)
            self._bind(move, replacement)
        except (NotMade, ApiError, LeaseLost) as error:
            failed = self._failed(step, move, error)
            ends = begun and failed.fate == "skipped"
            return replace(failed, fate="stopped") if ends else failed
        name = str(replacement["metadata"]["name"])
        return Outcome(step.number, move, "moved", replacement=name)

    def _wait_for_room(self, move: PlannedMove, pod: MutableObject) -> None:
        """Wait until the target accepts the pod, as long as evicted pods there are stopping."""
        deadline = time.monotonic() + self._options["timeout"]
        while (reason := _Prospect(self._kube).refusal(move, pod)) is not None:
            if not self._evictions.are_leaving(move.target) or time.monotonic() >= deadline:
                raise NotMade("skipped", reason)
            time.sleep(_PAUSE_SECONDS)

    def _waiting(self, move: PlannedMove, pod: MutableObject) -> list[MutableObject]:
        """Pods of the same controller that wait for this scheduler."""
        controller = pod_facts(pod).controller
        listed = self._kube.list(
            f"/api/v1/namespaces/{move.namespace}/pods",
            {"fieldSelector": "spec.nodeName="},
            without_bulk,
            refuse=lambda _finding: None,
        )

        def is_wanted(item: MutableObject) -> bool:
            return pod_facts(item).controller == controller and is_pending(
                item, self._options["scheduler_name"]
            )

        # An unreadable pod is no replacement.
        return [
            item
            for item in listed
            if guarded(subject_of(item, "Pod"), functools.partial(is_wanted, item)) is True
        ]

    def _replacement(
        self, move: PlannedMove, pod: MutableObject, before: set[str]
    ) -> MutableObject:
        deadline = time.monotonic() + self._options["timeout"]
        while True:
            try:
                waiting = self._waiting(move, pod)
            except ApiError as error:
                raise NotMade("evicted", f"the replacement was not found: {error}") from error
            new = [item for item in waiting if item["metadata"]["uid"] not in before]
            if new:
                return min(new, key=lambda item: str(item["metadata"]["name"]))
            if time.monotonic() >= deadline:
                seconds = self._options["timeout"]
                reason = f"the pod was evicted, but no replacement appeared in {seconds} s"
                raise NotMade("evicted", reason)
            time.sleep(_PAUSE_SECONDS)

    def _bind(self, move: PlannedMove, replacement: MutableObject) -> None:
        """Bind the new pod; if that fails, the pod waits for the next plan."""
        metadata = replacement["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        placement = Placement(move.namespace, name, move.target, uid)
        [outcome] = bind_all(self._kube, Context(), [placement])
        if outcome.fate == "failed":
            raise NotMade("evicted", f"the pod was evicted, but: {outcome.reason}")
        if outcome.fate == "skipped":
            reason = f"the pod was evicted, and {name} waits: {outcome.reason}"
            raise NotMade("evicted", reason)


class _Prospect:
    """The nodes after simulated moves."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._gone: set[str] = set()
        self._arrived: dict[str, list[MutableObject]] = {}
        self._nominated: list[NominatedPod] | None = None

    def refusal(self, move: PlannedMove, pod: MutableObject) -> str | None:
        """Why the target does not accept the pod; None if it does. Raises ApiError."""
        subject = Subject("Pod", move.pod, move.namespace)
        read = guarded_but_failures(subject, functools.partial(self._refusal, move, pod))
        if isinstance(read, WattwiseError):
            raise read
        return str(read) if isinstance(read, Finding) else read

    def _refusal(self, move: PlannedMove, pod: MutableObject) -> str | None:
        if self._nominated is None:
            self._nominated = nominated_pods(self._kube)
        node = OpenNode.read(self._kube, move.target, self._nominated, without=self._gone)
        if node is None:
            return f"node {move.target} is gone"
        for arrived in self._arrived.get(move.target, ()):
            node.take(arrived)
        return node.refusal(pod)

    def move(self, move: PlannedMove, pod: MutableObject) -> None:
        """Simulate the move if the target accepts the pod."""
        reason = self.refusal(move, pod)
        if reason is not None:
            raise NotMade("skipped", reason)
        self._gone.add(pod["metadata"]["uid"])
        self._arrived.setdefault(move.target, []).append(pod)
