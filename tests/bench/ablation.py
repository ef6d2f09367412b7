# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The worth of each stage of the `optimal` strategy: the answer with and without it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.kit.ablated import STAGES
from bench.kit.placement_runs import LIBRARIES
from bench.kit.rows import Bench, Json, Metric, Row, metric
from bench.kit.stage import Call, Stage
from support.placement_fleets import TEMPERATURES, Pattern, Size, placement_task

PLACE = "bench.kit.ablated:place"
LIBRARY = Path(__file__).resolve().parents[2] / "plugins" / "module_utils"
TIGHT: tuple[Pattern, ...] = ("memory", "slots", "affinity", "power_off")
BLURRED: tuple[Pattern, ...] = ("memory", "slots")


def ablate(stage: Stage) -> Row:
    """The row's details are raw figures."""
    details = [_fleet(stage, seed, size) for seed, size in _fleets(stage)]
    return Row(
        title="The worth of each stage of the solver",
        work=(
            f"{len(details)} fleets, each placed with every stage and without one of them. Power "
            "is a share of the added power; *bound* is the fall of the lower bound, *processor "
            "time* the stage's share, *pods* the number of additional pods without a node, and "
            "*lines* the length of the stage's own files."
        ),
        command="power.placement.place(nodes, pods) with one name of the library replaced",
        metrics=[figure for name in STAGES for figure in _worth(name, details)],
        notes=[
            "A stage stays if it is worth 0.05 % in the mean of a kind of fleet, 0.5 % in any "
            "fleet, a pod, or a right answer: the mixed-integer model and the ejection chain keep "
            "pods with rules between them from waiting, on fleets that are not in this row.",
            "Prices of resources stay for the bound of fleets with more nodes than the relaxation "
            "has node classes: up to 100 nodes the relaxation's own prices are as good.",
        ],
        details=details,
    )


def _fleets(stage: Stage) -> Iterator[tuple[int, Size]]:
    for nodes, pods in ((10, 50), (30, 200)):
        for seed in stage.runs(4):
            requested = (0.88, 0.7, 0.5, 0.2)[seed]
            temperature = TEMPERATURES[seed % 3]
            yield seed, Size(nodes, pods, requested, types=5 + seed, temperature=temperature)
    base = Size(stage.size(100, 10), stage.size(1000, 50))
    for pattern in TIGHT[: len(stage.runs(len(TIGHT)))]:
        yield 0, Size(base.nodes, base.pods, pattern=pattern)
    yield 0, Size(base.nodes, base.pods, 0.88)
    # More nodes than the relaxation has node classes.
    large = Size(stage.size(1000, 10), stage.size(5000, 50))
    for pattern in BLURRED[: len(stage.runs(len(BLURRED)))]:
        yield 0, Size(large.nodes, large.pods, pattern=pattern)


def _fleet(stage: Stage, seed: int, size: Size) -> Json:
    stage.say(f"  {size.title}")
    names = ["", *STAGES]
    variants = [{"without": name} for name in names]
    calls = stage.calls(PLACE, placement_task(seed, size), variants, LIBRARIES)
    return {
        "fleet": size.title,
        "seed": seed,
        "outcomes": {
            name: _outcome(call, calls[0]) for name, call in zip(names, calls, strict=True)
        },
    }


def _outcome(call: Call, whole: Call) -> Json:
    watts, ours = call.result["watts"], whole.result["watts"]
    added = max(ours["after"] - ours["before"], 1.0)
    return {
        "lost": 100 * (watts["after"] - ours["after"]) / added,
        "bound": 100 * (ours["lower_bound"] - watts["lower_bound"]) / added,
        "gap": 100 * call.result["gap"],
        "pods": len(call.result["unplaced"]) - len(whole.result["unplaced"]),
        "seconds": round(whole.cpu_seconds - call.cpu_seconds, 3),
    }


def _worth(name: str, details: list[Json]) -> Iterator[Metric]:
    outcomes = [each["outcomes"][name] for each in details]
    # An answer that leaves a pod out draws fewer watts, so the two are not comparable.
    comparable = [each for each in outcomes if not each["pods"]] or [{"lost": 0.0, "bound": 0.0}]
    lost = [each["lost"] for each in comparable]
    yield metric(f"{name}: power lost without it", "%", lost)
    yield metric(f"{name}: mean of that", "%", [statistics.fmean(lost)])
    yield metric(f"{name}: bound", "%", [each["bound"] for each in comparable])
    yield metric(f"{name}: pods", "", [each["pods"] for each in outcomes])
    yield metric(f"{name}: processor time", "s", [each["seconds"] for each in outcomes])
    lines = STAGES[name].lines(LIBRARY)
    if lines:
        yield metric(f"{name}: lines", "", [lines])


BENCHES = [Bench("ablation", ablate)]
