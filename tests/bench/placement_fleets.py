# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about the placer on mixed fleets of real server types: large, small and tight ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from bench.kit.rows import Bench, Metric, Row, at_least, at_most, metric
from bench.kit.stage import MIB, Stage
from support.placement_fleets import PATTERNS, TEMPERATURES, Json, Size, placement_task

PLACE = "power.placement:place"
LIBRARIES = ("numpy", "ortools.math_opt.python.mathopt")
TIGHT = ("memory", "slots", "affinity")
PEERS = ("greedy", "minimize_power", "peaks", "spread")
MOST_SECONDS_FOR_A_PROOF = 2.0


def place_a_hundred_thousand_pods(stage: Stage) -> Row:
    size = Size(stage.size(10_000, 100), stage.size(100_000, 1000))
    call = stage.call(PLACE, placement_task(1, size) | {"time_limit": 30}, LIBRARIES)
    beside_input = call.peak_bytes - call.loaded_bytes
    return Row(
        title=f"Placing {size.pods:,} pods on {size.nodes:,} nodes",
        work=f"`power.place()`: {size.title}. Pods in the short form with `count`.",
        command="power.placement.place(nodes, pods, time_limit=30)",
        metrics=[
            metric("time", "s", [call.seconds], at_most(30.0)),
            metric("memory beside the input", "MiB", [beside_input / MIB], at_most(600)),
            metric("gap", "%", [100 * call.result["gap"]], at_most(0.5)),
            metric("pods left", "", [len(call.result["unplaced"])], at_most(0)),
        ],
        equal="the gap is against a lower bound that does not trust the solver.",
    )


def place_on_tight_fleets(stage: Stage) -> Row:
    nodes, pods = stage.size(1000, 50), stage.size(10_000, 500)
    sizes = [Size(nodes, pods, pattern=pattern) for pattern in PATTERNS if pattern in TIGHT]
    sizes.append(Size(nodes, pods, requested=0.88))
    calls = [
        stage.call(PLACE, placement_task(seed, size), LIBRARIES)
        for size in sizes
        for seed in stage.runs(2)
    ]
    return Row(
        title=f"Placing {pods:,} pods on {nodes:,} nodes where something binds",
        work="Memory, pod slots, 88 % of the CPU, or a quarter of the shapes with node affinity.",
        command="power.placement.place(nodes, pods)",
        metrics=[
            metric("time", "s", [call.seconds for call in calls], at_most(5.0)),
            metric("memory, highest", "MiB", [c.peak_bytes / MIB for c in calls], at_most(300)),
            metric("gap", "%", [100 * c.result["gap"] for c in calls], at_most(1.0, "worst")),
            metric(
                "pods left", "", [len(c.result["unplaced"]) for c in calls], at_most(0, "worst")
            ),
        ],
        equal="each gap is against a lower bound that does not trust the solver.",
    )


def prove_small_placements(stage: Stage) -> Row:
    """Fifty pods on ten nodes."""
    tasks = list(itertools.islice(_small_tasks(), stage.size(100, 4)))
    calls = [stage.call(PLACE, task, LIBRARIES) for task in tasks]
    in_time = [call.result["proven"] and call.seconds <= MOST_SECONDS_FOR_A_PROOF for call in calls]
    return Row(
        title="Placing 50 pods on 10 nodes with a proof",
        work=f"{len(calls)} fleets with up to 40 shapes of pods, 20 to 88 % requested.",
        command="power.placement.place(nodes, pods)",
        metrics=[
            metric("proven within 2 s", "%", [100 * sum(in_time) / len(calls)], at_least(95.0)),
            metric("time", "s", [call.seconds for call in calls], at_most(10.0, "worst")),
            metric("gap", "%", [100 * call.result["gap"] for call in calls]),
        ],
    )


def _small_tasks() -> Iterator[Json]:
    for seed in itertools.count():
        requested = (0.2, 0.5, 0.7, 0.88)[seed % 4]
        temperature = TEMPERATURES[seed % 3]
        size = Size(10, 50, requested, types=5 + seed % 6, temperature=temperature)
        yield placement_task(seed, size)


def save_against_schedulers(stage: Stage) -> Row:
    nodes, pods = stage.size(200, 30), stage.size(2000, 300)
    plain, asleep = [], []
    for types in (5, 10, 20):
        for seed in stage.runs(3):
            plain.append(_savings(stage, seed, Size(nodes, pods, types=types)))
            sleeping = Size(nodes, pods, types=types, pattern="power_off")
            asleep.append(_savings(stage, seed, sleeping))
    return Row(
        title=f"Added watts of {pods:,} pods on {nodes:,} nodes against schedulers",
        work="Fleets of 5, 10 and 20 server types, half of the CPU requested.",
        command="power.placement.place(nodes, pods, compare=[...])",
        metrics=[
            *_saved("", plain, at_least_percent=4.0),
            *_saved(", nodes may sleep", asleep, at_least_percent=20.0),
        ],
        notes=["A scheduler that is near the lower bound leaves nothing to save."],
    )


def _savings(stage: Stage, seed: int, size: Size) -> dict[str, float]:
    """By how many per cent fewer watts are added than by each of the schedulers."""
    task = placement_task(seed, size)
    added = {}
    for strategy in ("optimal", *PEERS):
        watts = stage.call(PLACE, task | {"strategy": strategy}, LIBRARIES).result["watts"]
        added[strategy] = watts["after"] - watts["before"]
    return {peer: 100 * (1 - added["optimal"] / added[peer]) for peer in PEERS}


def _saved(
    where: str, savings: list[dict[str, float]], *, at_least_percent: float
) -> Iterator[Metric]:
    for peer in PEERS:
        target = at_least(at_least_percent, "worst") if peer in PEERS[:2] else None
        yield metric(f"fewer than {peer}{where}", "%", [each[peer] for each in savings], target)


BENCHES = [
    Bench("place-10000-nodes", place_a_hundred_thousand_pods),
    Bench("place-tight-fleets", place_on_tight_fleets),
    Bench("place-small-proven", prove_small_placements),
    Bench("place-against-schedulers", save_against_schedulers),
]
