# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about the placer on mixed fleets of real server types: large, small and tight ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from bench.kit.placement_runs import LIBRARIES, PEERS, PLACE, FleetRun, cases, fleet_run
from bench.kit.rows import Bench, Json, Metric, Row, at_least, at_most, metric
from bench.kit.stage import Stage
from support.placement_fleets import TEMPERATURES, Size, placement_task

TIGHT = ("memory", "slots", "affinity")
SECONDS_FOR_A_SMALL_FLEET = 2
SMALL_GAP_PERCENT = 0.05
# Smaller possible savings, in per cent, are not worth a share of them.
MIN_POSSIBLE_SAVING = 0.1


def place_a_hundred_thousand_pods(stage: Stage) -> Row:
    run = fleet_run(stage, 1, _largest(stage))
    size, ours = run.size, run.ours
    return Row(
        title=f"Placing {size.pods:,} pods on {size.nodes:,} nodes",
        work=f"`power.place()`: {size.title}. Pods in the short form with `count`.",
        command="power.placement.place(nodes, pods, time_limit=30)",
        metrics=[
            metric("time", "s", [ours.seconds], at_most(30.0)),
            metric(
                "memory beside the input",
                "MiB",
                [ours.mebibytes - ours.loaded_mebibytes],
                at_most(600),
            ),
            metric("gap", "%", [100 * ours.gap], at_most(0.5)),
            metric("pods left", "", [ours.unplaced], at_most(0)),
        ],
        equal="the gap is relative to a lower bound that does not trust the solver.",
    )


def place_on_tight_fleets(stage: Stage) -> Row:
    large = _large(stage)
    tight = [size for size in cases(large) if size.pattern in TIGHT or size.requested > 0.85]
    ours = [fleet_run(stage, 0, size).ours for size in tight]
    return Row(
        title=f"Placing {large.pods:,} pods on {large.nodes:,} nodes where something binds",
        work="Memory, pod slots, 88 % of the CPU, or a quarter of the shapes with node affinity.",
        command="power.placement.place(nodes, pods)",
        metrics=[
            metric("time", "s", [each.seconds for each in ours], at_most(5.0)),
            metric("memory, highest", "MiB", [each.mebibytes for each in ours], at_most(300)),
            metric("gap", "%", [100 * each.gap for each in ours], at_most(1.0, "worst")),
            metric("pods left", "", [each.unplaced for each in ours], at_most(0, "worst")),
        ],
        equal="each gap is relative to a lower bound that does not trust the solver.",
    )


def place_on_ten_nodes(stage: Stage) -> Row:
    return _small_fleets(stage, nodes=10, pods=50)


def place_on_thirty_nodes(stage: Stage) -> Row:
    return _small_fleets(stage, nodes=30, pods=200)


def _small_fleets(stage: Stage, nodes: int, pods: int) -> Row:
    tasks = list(itertools.islice(_small_tasks(nodes, pods), stage.size(100, 4)))
    given = {"time_limit": SECONDS_FOR_A_SMALL_FLEET}
    calls = stage.calls(PLACE, given, tasks, LIBRARIES)
    gaps = [100 * call.result["gap"] for call in calls]
    close = sum(gap <= SMALL_GAP_PERCENT for gap in gaps)
    proven = sum(call.result["proven"] for call in calls)
    return Row(
        title=f"Placing {pods} pods on {nodes} nodes",
        work=f"{len(calls)} fleets with up to 40 shapes of pods, 20 to 88 % requested.",
        command=f"power.placement.place(nodes, pods, time_limit={SECONDS_FOR_A_SMALL_FLEET})",
        metrics=[
            metric("gap at most 0.05 %", "%", [100 * close / len(calls)], at_least(99.0)),
            metric("gap", "%", gaps),
            metric("proven", "%", [100 * proven / len(calls)]),
            metric("time", "s", [call.seconds for call in calls]),
        ],
    )


def _small_tasks(nodes: int, pods: int) -> Iterator[Json]:
    for seed in itertools.count():
        requested = (0.2, 0.5, 0.7, 0.88)[seed % 4]
        temperature = TEMPERATURES[seed % 3]
        size = Size(nodes, pods, requested, types=5 + seed % 6, temperature=temperature)
        yield placement_task(seed, size)


def place_on_many_fleets(stage: Stage) -> Row:
    """The row's details are raw figures of every fleet; placement_page.py makes a page of them."""
    runs = _runs(stage)
    ours = [run.ours for run in runs]
    return Row(
        title="Placing on many kinds of fleets",
        work=(
            "Fleets of 10 to 10,000 nodes with ten pods for each node, one property varied at a "
            "time. [Placement performance](placement-performance.md) shows each of them."
        ),
        command="power.placement.place(nodes, pods, strategy=…)",
        metrics=[
            metric("fleets", "", [len(runs)]),
            metric("gap", "%", [100 * each.gap for each in ours]),
            metric("pods left", "", [each.unplaced for each in ours]),
        ],
        details=[run.as_json() for run in runs],
    )


def save_against_schedulers(stage: Stage) -> Row:
    runs = _runs(stage)
    awake = [run for run in runs if run.size.pattern != "power_off"]
    asleep = [run for run in runs if run.size.pattern == "power_off"]
    return Row(
        title="Added power against schedulers",
        work=(
            f"{len(runs)} fleets of 5 to 20 server types. Compared where the scheduler placed as "
            "many pods."
        ),
        command="power.placement.place(nodes, pods, strategy=…)",
        metrics=[
            *_saved("", awake),
            *_saved(", nodes may sleep", asleep),
        ],
        notes=[
            "The possible saving is the scheduler's distance from the lower bound: no placer can "
            "save more."
        ],
    )


def _largest(stage: Stage) -> Size:
    return Size(stage.size(10_000, 40), stage.size(100_000, 400))


def _large(stage: Stage) -> Size:
    return Size(stage.size(1000, 50), stage.size(10_000, 500))


def _runs(stage: Stage) -> list[FleetRun]:
    """Every kind of fleet in two sizes, and one kind in all sizes."""
    small, large = Size(stage.size(100, 20), stage.size(1000, 200)), _large(stage)
    fleets = [(seed, size) for seed in stage.runs(2) for size in cases(small)]
    # Only the costliest or hardest of the large fleets: all of them take a quarter of an hour.
    fleets += [(0, size) for size in cases(large) if _is_telling(size)]
    fleets += [(seed, Size(10, 100)) for seed in stage.runs(3)]
    fleets += [(1, _largest(stage))]
    return [fleet_run(stage, seed, size) for seed, size in fleets]


def _is_telling(size: Size) -> bool:
    return size.pattern in (*TIGHT, "power_off") or size.requested != 0.5 or size.types == 20


def _saved(where: str, runs: Sequence[FleetRun]) -> Iterator[Metric]:
    for peer in PEERS:
        pairs = [
            (saved, possible)
            for run in runs
            if (saved := run.saved(peer)) is not None
            and (possible := run.savable(peer)) is not None
        ]
        shares = [100 * saved / most for saved, most in pairs if most >= MIN_POSSIBLE_SAVING]
        if pairs:
            saved_percents = [saved for saved, _most in pairs]
            yield metric(f"fewer than {peer}{where}", "%", saved_percents, at_least(0.0, "worst"))
        if shares:
            name = f"of the possible saving against {peer}{where}"
            yield metric(name, "%", shares, at_least(95.0, "worst"))


BENCHES = [
    Bench("place-10000-nodes", place_a_hundred_thousand_pods),
    Bench("place-tight-fleets", place_on_tight_fleets),
    Bench("place-10-nodes", place_on_ten_nodes),
    Bench("place-30-nodes", place_on_thirty_nodes),
    Bench("place-fleets", place_on_many_fleets),
    Bench("place-against-schedulers", save_against_schedulers),
]
