# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Step merge alone, on the results of reading modules, with its documents as JSON."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.observe import observation
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.reconciliation import (
    reconcile_fleet,
)

Json = dict[str, t.Any]


def observe(folder: Path, context: Context = Context(), **parameters: t.Any) -> Json:
    """Readings, errors, findings and the number of statuses; the run folder has a snapshot."""
    merge = {name: parameters.pop(name) for name in observation.OPTIONS if name in parameters}
    given = {"thermal": [], "steps": ["merge"], "run_dir": str(folder), "merge": merge}
    result = reconcile_fleet({**given, **parameters}, context)
    document = documents.load(str(folder / "readings.json"), "readings")
    [step] = [step for step in result["steps"] if step["name"] == "merge"]
    return {
        "changed": result["changed"],
        "summary": result["summary"],
        "readings": document["readings"],
        "errors": document["errors"],
        "findings": [error for error in step["errors"] if "problem" in error],
        "statuses": len(statuses(folder)),
    }


def statuses(folder: Path) -> list[Json]:
    """The manifests of new statuses."""
    found: list[Json] = documents.load(str(folder / "statuses.json"), "node_configs")["statuses"]
    return found
