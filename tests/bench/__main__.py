# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m bench`: measure and write docs/performance.json and docs/project/performance.md.

A row is a `Bench` in the list BENCHES of a module in this folder. Without names, every row is
measured; rows that are not measured keep their results.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import os
import pkgutil
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import bench
from bench.kit import machine, page, placement_page, scale, sleep_page, store
from bench.kit.rows import Bench, Json
from bench.kit.stage import Stage, open_stage

REPOSITORY = Path(os.environ.get("WATTWISE_REPOSITORY") or Path(__file__).resolve().parents[2])
DOCS = REPOSITORY / "docs"
RESULTS = "performance.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a row could not be measured."""
    chosen = _parser().parse_args(arguments)
    if chosen.page:
        write_pages(store.read(DOCS / RESULTS), DOCS)
        return 0
    rows = _select(benches(), chosen.rows)
    if chosen.list:
        print("\n".join(item.name for item in rows))
        return 0
    signal.signal(signal.SIGTERM, _terminate)  # so that the labs end with this process
    with open_stage(chosen.smoke) as stage:
        docs = stage.folder() if chosen.smoke else DOCS
        failed = [item.name for item in rows if not _measure(item, stage, docs)]
    if failed:
        print(f"not measured, see above: {', '.join(failed)}")
    return 1 if failed else 0


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def benches() -> list[Bench]:
    """The benches of all modules, sorted by module name."""
    names = sorted(item.name for item in pkgutil.iter_modules(bench.__path__))
    modules = [importlib.import_module(f"bench.{name}") for name in names if name != "__main__"]
    found: list[Bench] = []
    for module in modules:
        found += getattr(module, "BENCHES", [])
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__)
    parser.add_argument("rows", nargs="*", help="names, also with * (default: all)")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument("--smoke", action="store_true", help="small sizes; results are not kept")
    parser.add_argument("--page", action="store_true", help="only write the page anew")
    return parser


def _select(all_benches: list[Bench], patterns: Sequence[str]) -> list[Bench]:
    for pattern in patterns:
        if not any(fnmatch.fnmatch(item.name, pattern) for item in all_benches):
            names = ", ".join(item.name for item in all_benches)
            raise SystemExit(f"There is no row {pattern!r}; there are {names}.")
    wanted = patterns or ["*"]
    return [
        item
        for item in all_benches
        if any(fnmatch.fnmatch(item.name, pattern) for pattern in wanted)
    ]


def _measure(item: Bench, stage: Stage, docs: Path) -> bool:
    load = machine.load() if stage.smoke else machine.settled_load()
    stage.say(f"{item.name} (load of the machine: {load:.1f})")
    try:
        row = item.measure(stage)
        write_pages(store.merge(docs / RESULTS, item.name, row, load), docs)
    except Exception:  # noqa: BLE001 - one row that fails must not lose the others
        traceback.print_exc()
        return False
    for figure in row.metrics:
        verdict = "  MISSED" if figure.strain > 1.0 and not stage.smoke else ""
        stage.say(f"  {figure.name}: {figure.median:g} {figure.unit}{verdict}")
    return True


def write_pages(results: Json, docs: Path) -> None:
    """Rewrite the pages from the results."""
    for name, text in pages(results).items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def pages(results: Json) -> dict[str, str]:
    """File name below docs/ → content, for every page that has results."""
    found = {"project/performance.md": page.render(results, [item.name for item in benches()])}
    if "costs" in results:
        found["operate/scale.md"] = scale.render(results)
    if placement_page.ROW in results:
        found |= placement_page.pages(results[placement_page.ROW]["row"]["details"])
    if sleep_page.ROW in results:
        found |= sleep_page.pages(results[sleep_page.ROW]["row"]["details"])
    return found


if __name__ == "__main__":
    sys.exit(main())
