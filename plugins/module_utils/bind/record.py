# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""What was bound, when, and from which documents: what a later report compares readings with."""

from __future__ import annotations

import datetime
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time


def write(
    options: t.Mapping[str, t.Any],
    result: t.Mapping[str, t.Any],
    now: datetime.datetime,
    made_from: documents.MadeFrom,
) -> None:
    """Write the bindings document to ``options["path"]``, with plan and ``keep`` beside it.

    Pods of the plan that a run before bound are recorded too. A document of ``keep`` that another
    run replaced meanwhile is left out. ``now`` is the moment after the last binding, ``made_from``
    stands for the plan as it was read. Raises InvalidInput.
    """
    path, plan = options["path"], options["plan"]
    kept = [*([plan] if plan else []), *options["keep"]]
    documents.keep(kept, str(Path(path).parent), made_from.run)
    body: dict[str, t.Any] = {
        "time": format_time(now),
        "bound": [*result["bound"], *(result["unchanged"] if plan else [])],
        "skipped": result["skipped"],
        "errors": result["errors"],
    }
    if plan:
        body["plan_time"] = documents.load(plan, "plan")["time"]
    documents.write(path, "bindings", body, made_from)


def is_due(options: t.Mapping[str, t.Any], result: t.Mapping[str, t.Any]) -> bool:
    """Whether something was bound, or all of it by a run that ended before it could record that."""
    if not options["path"] or not options["plan"] or result["bound"] or not result["unchanged"]:
        return bool(options["path"] and result["bound"])
    try:
        recorded = documents.load(options["path"], "bindings").get("plan_time", "")
    except InvalidInput:
        recorded = ""
    return bool(recorded < documents.load(options["plan"], "plan")["time"])
