# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""What was bound, when, and from which documents: what a later report compares readings with."""

from __future__ import annotations

import datetime
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils import documents
from ansible_collections.wattwise.kube.plugins.module_utils.units import format_time


def write(
    options: t.Mapping[str, t.Any], result: t.Mapping[str, t.Any], now: datetime.datetime
) -> None:
    """Write the bindings document to ``options["path"]``, with plan and ``keep`` beside it.

    A document of ``keep`` that another run replaced meanwhile is left out.

    ``now`` is the moment after the last binding. Raises InvalidInput.
    """
    path, plan = options["path"], options["plan"]
    made_from = documents.MadeFrom.read(plan)
    kept = [*([plan] if plan else []), *options["keep"]]
    documents.keep(kept, str(Path(path).parent), made_from.run)
    body: dict[str, t.Any] = {
        "time": format_time(now),
        "bound": result["bound"],
        "skipped": result["skipped"],
        "errors": result["errors"],
    }
    if plan:
        body["plan_time"] = documents.load(plan, "plan")["time"]
    documents.write(path, "bindings", body, made_from)
