# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Results of the steps of a run: time, changes, counts, warnings, errors and progress."""

from __future__ import annotations

import contextlib
import functools
import time
import typing as t
from dataclasses import dataclass, field, replace

from ..base.context import Context, Result
from ..base.errors import WattwiseError

DOCUMENTS = "documents"


@dataclass
class Step:
    """One step. ``failure`` is the error that ended it, if any."""

    name: str
    seconds: float = 0.0
    changed: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    errors: list[t.Mapping[str, t.Any]] = field(default_factory=list)
    failure: str | None = None

    def as_dict(self) -> Result:
        return {**vars(self), "seconds": round(self.seconds, 3)}


class StepLog:
    """The steps of one run, in the order of their beginning, and what they add to its result."""

    def __init__(self, context: Context, clock: t.Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._clock = clock
        self._steps: dict[str, Step] = {}
        self._aside = 0.0
        self.diff: list[t.Mapping[str, t.Any]] = []
        self.summary: Result = {}
        # Results of single steps by their name in the result of the run.
        self.results: Result = {}

    def of(self, name: str) -> Step:
        """The step of this name; the first call begins it."""
        return self._steps.setdefault(name, Step(name))

    @contextlib.contextmanager
    def step(self, name: str) -> t.Iterator[tuple[Step, Context]]:
        """Context of a step, which records its time, warnings and progress."""
        step = self.of(name)
        started, aside = self._clock(), self._aside
        try:
            yield step, self._context_of(step)
        except WattwiseError as error:
            step.failure = str(error)
            raise
        finally:
            step.seconds += self._clock() - started - (self._aside - aside)

    @contextlib.contextmanager
    def documents(self) -> t.Iterator[None]:
        """Count the time inside as writing of documents instead of the surrounding step."""
        started = self._clock()
        try:
            yield
        finally:
            spent = self._clock() - started
            self._aside += spent
            self.of(DOCUMENTS).seconds += spent

    def _context_of(self, step: Step) -> Context:
        def warn(sentence: str) -> None:
            step.warnings.append(sentence)
            self._context.warn(sentence)

        progress = self._context.progress_of(step.name)
        return replace(self._context, warn=warn, progress=progress)

    @property
    def changed(self) -> bool:
        return any(step.changed for step in self._steps.values())

    def as_list(self) -> list[Result]:
        """All steps, with the documents last."""
        ordered = sorted(self._steps.values(), key=lambda step: step.name == DOCUMENTS)
        return [step.as_dict() for step in ordered]


def shares(context: Context, count: int) -> list[Context]:
    """Contexts for concurrent work with a common progress."""
    told: list[tuple[int, int, int]] = [(0, 0, 0)] * count

    def tell(index: int, done: int, total: int, failed: int) -> None:
        told[index] = (done, total, failed)
        all_done, all_total, all_failed = (sum(part) for part in zip(*told))
        context.progress(done=all_done, total=all_total, failed=all_failed)

    return [replace(context, progress=functools.partial(tell, index)) for index in range(count)]
