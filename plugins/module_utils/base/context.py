# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The context of one library call: mode, clock, and callbacks for progress and warnings."""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass


class ProgressCallback(t.Protocol):
    """Receives the numbers of finished, of all and of failed targets."""

    def __call__(self, done: int, total: int, failed: int) -> None: ...


def ignore_progress(done: int, total: int, failed: int) -> None:
    """Progress callback of callers that show no progress."""


def _ignore_text(text: str) -> None:
    """Ignore warnings and secrets, for callers without a user."""


def utc_now() -> datetime.datetime:
    """The current time, as an aware datetime in UTC."""
    return datetime.datetime.now(datetime.timezone.utc)


@dataclass(frozen=True)
class Context:
    """Second argument of every library function; the default suits tests and scripts.

    ``warn`` shows a sentence to the user. ``protect`` registers a text that no output may contain.
    ``progress_of`` returns the progress callback of a step by its name.
    """

    check_mode: bool = False
    progress: ProgressCallback = ignore_progress
    progress_of: t.Callable[[str], ProgressCallback] = lambda _step: ignore_progress
    warn: t.Callable[[str], None] = _ignore_text
    protect: t.Callable[[str], None] = _ignore_text
    now: t.Callable[[], datetime.datetime] = utc_now


Parameters = t.Mapping[str, t.Any]
Result = dict[str, t.Any]
Work = t.Callable[[Parameters, Context], Result]


def difference(title: str, changes: t.Iterable[tuple[str, t.Any, t.Any]]) -> list[dict[str, t.Any]]:
    """The ``diff`` of a result, in Ansible's form: one entry, or none without changes.

    ``changes`` are names with the text before and after, "" for nothing.
    """
    before: dict[str, t.Any] = {}
    after: dict[str, t.Any] = {}
    for name, old, new in changes:
        before[name], after[name] = old, new
    if not after:
        return []
    headers = {"before_header": f"{title} (before)", "after_header": f"{title} (after)"}
    return [{**headers, "before": before, "after": after}]
