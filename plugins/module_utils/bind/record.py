# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""What was bound, when, and from which documents: what a later report compares readings with."""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time


@dataclass(frozen=True)
class Files:
    """Where the bindings document goes, and which documents are kept beside it."""

    path: str | None
    plan: str | None = None
    others: tuple[str, ...] = ()


def keep(
    files: Files,
    plan_time: str | None,
    result: t.Mapping[str, t.Any],
    now: datetime.datetime,
    made_from: documents.MadeFrom,
) -> bool:
    """Write the bindings document with the plan and the others beside it; whether that was due.

    Pods of the plan that a run before bound are recorded too. A document that another run
    replaced meanwhile is left out. ``now`` is the moment after the last binding, ``made_from``
    stands for the plan as it was read. Raises InvalidInput.
    """
    if files.path is None or not is_due(files.path, plan_time, result):
        return False
    kept = [*([files.plan] if files.plan else []), *files.others]
    documents.keep(kept, str(Path(files.path).parent), made_from.run)
    documents.write(files.path, "bindings", body_of(plan_time, result, now), made_from)
    return True


def body_of(
    plan_time: str | None, result: t.Mapping[str, t.Any], now: datetime.datetime
) -> dict[str, t.Any]:
    """The bindings document of a result of binding."""
    body: dict[str, t.Any] = {
        "time": format_time(now),
        "bound": [*result["bound"], *(result["unchanged"] if plan_time else [])],
        "skipped": result["skipped"],
        "errors": result["errors"],
    }
    if plan_time:
        body["plan_time"] = plan_time
    return body


def is_due(path: str, plan_time: str | None, result: t.Mapping[str, t.Any]) -> bool:
    """Whether something was bound, or all of it by a run that ended before it could record that."""
    if result["bound"] or not plan_time or not result["unchanged"]:
        return bool(result["bound"])
    try:
        recorded = documents.load(path, "bindings").get("plan_time", "")
    except InvalidInput:
        recorded = ""
    return bool(recorded < plan_time)
