# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m bench.placement_page`: place on many fleets, and write docs/placement-performance.md.

Times are of the processor, so that they mean something on a busy machine too.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.power import place
from support.placement_fleets import PATTERNS, TEMPERATURES, Json, Size, placement_task

REPOSITORY = Path(os.environ.get("WATTWISE_REPOSITORY") or Path(__file__).resolve().parents[2])
PAGE = REPOSITORY / "docs" / "placement-performance.md"
PEERS = ("greedy", "minimize_power", "peaks", "spread")

HEAD = """# Placement: watts, gaps and times

Written by `python -m bench.placement_page`; do not edit.

Each row is one generated fleet (`tests/support/placement_fleets.py`) of real server types, whose
power curves are in `lab/data/server_power_curves.csv`; those of its types below 1 W or above 40 W
for a core at full load are left out. Pods have up to 40 shapes. *Gap* is what the answer may at
most be above the optimum, in per cent of the added watts. The last four columns say by how many per
cent more watts schedulers add: `greedy` by real added watts, `minimize_power` (WAO), `peaks`, and
`spread` (kube-scheduler). **unplaced** stands where a scheduler left pods that `optimal` placed, so
that watts cannot be compared. Times are processor seconds on the machine that wrote this page,
reading the input included; other work ran beside it.

The rows with the widest gap come first.

"""


@dataclass(frozen=True)
class Measured:
    """One fleet with the answers of all strategies."""

    size: Size
    seed: int
    seconds: float
    results: dict[str, Json]

    @property
    def gap(self) -> float:
        return float(100 * self.results["optimal"]["gap"])

    def cells(self) -> Iterator[str]:
        ours, size = self.results["optimal"], self.size
        yield f"{size.pods:,} on {size.nodes:,}"
        yield f"{size.types} types, {size.requested:.0%}, {size.temperature}, {size.pattern}"
        yield f"{_added(ours):,.0f} W"
        yield f"{self.gap:.3f} %" + (", proven" if ours["proven"] else "")
        yield f"{self.seconds:.1f} s"
        yield str(len(ours["unplaced"]))
        for peer in PEERS:
            theirs = self.results[peer]
            if len(theirs["unplaced"]) != len(ours["unplaced"]):
                yield "unplaced"
            else:
                yield f"{100 * (_added(theirs) / _added(ours) - 1):+.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small fleets, printed only")
    chosen = parser.parse_args()
    measured: list[Measured] = []
    bases = [Size(40, 300)] if chosen.smoke else [Size(200, 2000), Size(1000, 10_000)]
    for base in bases:
        measured += [_measure(size, seed) for seed, size in enumerate(fleets(base))]
        page = HEAD + table(sorted(measured, key=lambda each: -each.gap))
        if chosen.smoke:
            print(page)
        else:
            PAGE.write_text(page, encoding="utf-8")


def fleets(base: Size) -> Iterator[Size]:
    """Each property of a fleet varied on its own."""
    yield from (replace(base, requested=requested) for requested in (0.2, 0.5, 0.7, 0.88))
    yield from (replace(base, temperature=each) for each in TEMPERATURES if each != "rows")
    yield from (replace(base, types=types) for types in (5, 20))
    yield from (replace(base, pattern=pattern) for pattern in PATTERNS if pattern != "plain")


def table(measured: list[Measured]) -> str:
    heads = ["pods on nodes", "fleet", "added", "gap", "time", "unplaced", *PEERS]
    lines = [heads, ["---"] * len(heads), *(list(each.cells()) for each in measured)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _measure(size: Size, seed: int) -> Measured:
    task = placement_task(seed, size)
    started = time.process_time()
    results = {"optimal": place(task)}
    seconds = time.process_time() - started
    for peer in PEERS:
        results[peer] = place(task | {"strategy": peer})
    return Measured(size, seed, seconds, results)


def _added(result: Json) -> float:
    return float(result["watts"]["after"] - result["watts"]["before"])


if __name__ == "__main__":
    main()
