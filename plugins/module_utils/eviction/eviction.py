# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Moves of running pods step by step: evict one, wait for its replacement, bind that.

The Eviction API refuses, with status 429, evictions that a PodDisruptionBudget forbids; the first
refusal ends the run. Source: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.argspec import KUBERNETES, LEASE, ArgumentSpec
from ..base.context import Context, Parameters, Result, difference
from ..kube.client import Guard, Kube
from ..kube.lease import alone
from ..scheduling.plan import Step
from .runner import Mover, Outcome, not_made

SPEC = KUBERNETES.merge(
    LEASE,
    ArgumentSpec(
        {
            "scheduler_name": {"type": "str", "default": "wattwise"},
            "timeout": {"type": "float", "default": 120.0},
        }
    ),
)


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
