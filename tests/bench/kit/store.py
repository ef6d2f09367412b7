# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of benches in one JSON file; a run replaces only the rows that it measured."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

from bench.kit import machine
from bench.kit.rows import Json, Row


def read(path: Path) -> Json:
    """Row name → `{measured, machine, load, row}`."""
    if not path.exists():
        return {}
    rows: Json = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return rows


def is_quiet(entry: Json) -> bool:
    """Whether a processor was free before the row was measured, or load changes no figure of it."""
    if not entry["row"].get("is_timed", True):
        return True
    processors = re.search(r"(\d+) logical processors", entry["machine"]["processor"])
    return float(entry["load"]) < (int(processors[1]) if processors else 1)


def merge(path: Path, name: str, row: Row, load: float) -> Json:
    """Write this row beside the others; return all. `load` is the machine's before the run."""
    entry = {
        "measured": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine.describe(),
        "load": round(load, 1),
        "row": row.as_json(),
    }
    rows = dict(sorted({**read(path), name: entry}.items()))
    temporary = path.with_suffix(".new")
    text = json.dumps({"rows": rows}, indent=2, ensure_ascii=False)
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(path)
    return rows
