# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Record of a binding for later reports: pods, time and documents."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from ..base import documents
from ..base.units import format_time
from .binding import Bindings


@dataclass(frozen=True)
class Files:
    """Path of the bindings document, and the documents to keep beside it."""

    path: str
    plan: str
    others: tuple[str, ...]


def keep(
    files: Files,
    plan_time: str,
    bindings: Bindings,
    now: datetime.datetime,
    made_from: documents.MadeFrom,
) -> bool:
    """Write the bindings document and keep its documents; True if something was written.

    Planned pods that an earlier run bound are recorded too. A document that another run replaced
    meanwhile is left out. ``now`` is the time after the last binding, ``made_from`` the run of the
    plan that was read. Raises InvalidInput.
    """
    if not _is_due(files.path, plan_time, bindings):
        return False
    documents.keep([files.plan, *files.others], str(Path(files.path).parent), made_from.run)
    result = bindings.as_result()
    body = {
        "time": format_time(now),
        "bound": [*result["bound"], *result["unchanged"]],
        "skipped": result["skipped"],
        "errors": result["errors"],
        "plan_time": plan_time,
    }
    documents.write(files.path, "bindings", body, made_from)
    return True


def _is_due(path: str, plan_time: str, bindings: Bindings) -> bool:
    """Whether a pod was bound, or an interrupted run bound all pods without a record."""
    if bindings.of("bound") or not bindings.of("unchanged"):
        return bool(bindings.of("bound"))
    recorded = documents.last(path, "bindings") or {}
    return bool(recorded.get("plan_time", "") < plan_time)
