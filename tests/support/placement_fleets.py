# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets of real server types with work to place: tasks of power_placement of any size.

The power curves are those of lab/data/server_power_curves.csv. Its rows below 1 W or above 40 W for
a core at full load are left out, because their number of cores is not that of the measured machine.
"""

from __future__ import annotations

import csv
import functools
import itertools
import os
import random
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

Json = dict[str, t.Any]

Temperature = t.Literal["even", "rows", "scattered"]
Pattern = t.Literal["plain", "memory", "slots", "affinity", "power_off", "uneven"]
TEMPERATURES: tuple[Temperature, ...] = t.get_args(Temperature)
PATTERNS: tuple[Pattern, ...] = t.get_args(Pattern)

PLAUSIBLE_WATTS_PER_CORE = (1.0, 40.0)
SHAPES = 40
GIB_PER_CORE = 4
RACKS = 20
# Relative growth of a machine's power per degree of inlet temperature, by leakage and fans.
SHARE_PER_CELSIUS = 0.006
MODELLED_CELSIUS = 22.0
# Requested share of memory or slots, in patterns where these bind.
TIGHT_SHARE = 0.93
# Share of all shapes that may not run everywhere, in the pattern "affinity".
SHARE_OF_CHOOSY_SHAPES = 0.25


@dataclass(frozen=True)
class ServerType:
    """A machine with its watts at 0, 10, … 100 % of CPU use."""

    name: str
    cores: int
    watts: tuple[float, ...]


@dataclass(frozen=True)
class Size:
    """``requested`` is the share of the fleet's CPU that all pods together ask for."""

    nodes: int
    pods: int
    requested: float = 0.5
    types: int = 12
    temperature: Temperature = "rows"
    pattern: Pattern = "plain"

    @property
    def title(self) -> str:
        return (
            f"{self.pods} pods on {self.nodes} nodes of {self.types} types, "
            f"{self.requested:.0%} requested, {self.temperature}, {self.pattern}"
        )


@functools.cache
def server_types() -> tuple[ServerType, ...]:
    """All plausible server types."""
    repository = Path(os.environ.get("WATTWISE_REPOSITORY", Path(__file__).parents[2]))
    with (repository / "lab/data/server_power_curves.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    found = []
    for row in rows:
        cores = int(float(row["cores"]))
        watts = tuple(float(row[f"watts_{percent}"]) for percent in range(0, 101, 10))
        if PLAUSIBLE_WATTS_PER_CORE[0] <= watts[-1] / cores <= PLAUSIBLE_WATTS_PER_CORE[1]:
            found.append(ServerType(f"{row['processor']}-{row['node_type']}", cores, watts))
    return tuple(found)


def placement_task(seed: int, size: Size) -> Json:
    """Parameters of power_placement; equal arguments give equal tasks."""
    source = random.Random(f"{seed} {size}")
    chosen = source.sample(server_types(), size.types)
    nodes = [_node(source, index, source.choice(chosen), size) for index in range(size.nodes)]
    free = sum(_free_cores(node) for node in nodes)
    capacity = sum(int(node["allocatable"]["cpu"]) for node in nodes)
    used = capacity - free
    asked = max(size.requested * capacity - used, 0.05 * free)
    pods = _pods(source, size, asked, sum(map(_free_gib, nodes)))
    return {
        "nodes": nodes,
        "pods": pods,
        **({"allow_power_off": True, "standby_watts": 5.0} if size.pattern == "power_off" else {}),
    }


def _free_cores(node: Json) -> float:
    return int(node["allocatable"]["cpu"]) - int(node["used"].get("cpu", "0m")[:-1]) / 1000


def _free_gib(node: Json) -> float:
    used = int(node["used"].get("memory", "0Mi")[:-2]) / 1024
    return int(node["allocatable"]["memory"][:-2]) - used


def _node(source: random.Random, index: int, kind: ServerType, size: Size) -> Json:
    used = {}
    if size.pattern != "power_off" and source.random() < 0.5:
        share = source.uniform(0.02, 0.15)
        used = {
            "cpu": f"{round(kind.cores * share * 100) * 10}m",
            "memory": f"{round(kind.cores * GIB_PER_CORE * share * 1024)}Mi",
        }
    slots = 110
    if size.pattern == "slots":
        average = size.pods / size.nodes / TIGHT_SHARE
        slots = max(1, round(average * source.choice([0.8, 1.0, 1.2])))
    return {
        "name": f"node-{index:05}",
        "allocatable": {
            "cpu": str(kind.cores),
            "memory": f"{kind.cores * GIB_PER_CORE}Gi",
            "pods": str(slots),
        },
        "used": used,
        "labels": {
            "topology.kubernetes.io/zone": f"zone-{index % 3}",
            "wattwise.github.io/rack": f"rack-{index % RACKS:02}",
            "node.kubernetes.io/instance-type": kind.name,
            "disk": "ssd" if index % 4 else "hdd",
        },
        "curve": _curve(source, kind, _celsius(source, index, size), size),
    }


def _celsius(source: random.Random, index: int, size: Size) -> float:
    match size.temperature:
        case "even":
            return MODELLED_CELSIUS
        case "rows":
            return 18.0 + 14.0 * (index % RACKS) / (RACKS - 1)
        case "scattered":
            return source.uniform(18.0, 34.0)


def _curve(source: random.Random, kind: ServerType, celsius: float, size: Size) -> Json:
    warmth = 1 + SHARE_PER_CELSIUS * (celsius - MODELLED_CELSIUS)
    cpu = [kind.cores * step / 10 for step in range(11)]
    watts = list(kind.watts)
    if size.pattern == "uneven":
        # As a trained model predicts: 21 points, each slightly off.
        cpu = [kind.cores * step / 20 for step in range(21)]
        middles = [(left + right) / 2 for left, right in itertools.pairwise(kind.watts)]
        watts = [value for pair in zip(kind.watts, middles, strict=False) for value in pair]
        watts = [each * source.uniform(0.99, 1.01) for each in [*watts, kind.watts[-1]]]
    return {"cpu": cpu, "watts": [round(each * warmth, 3) for each in watts]}


def _pods(source: random.Random, size: Size, cores: float, gib: float) -> list[Json]:
    """Pods of SHAPES shapes that request this many cores in total."""
    shapes = min(SHAPES, size.pods)
    weights = [
        source.choice([1, 1, 2, 2, 4, 8, 16]) * source.uniform(0.7, 1.3)
        for _number in range(shapes)
    ]
    shares = [source.uniform(0.3, 1.7) for _number in range(shapes)]
    counts = _apportioned(size.pods, shares)
    unit = 1000 * cores / sum(weight * count for weight, count in zip(weights, counts, strict=True))
    milli = [_as_people_write(unit * weight) for weight in weights]
    ratios = [source.choice([0.5, 1, 2, 3, 4]) for _number in range(shapes)]
    memory = [cpu / 1000 * ratio for cpu, ratio in zip(milli, ratios, strict=True)]
    if size.pattern == "memory":
        asked = sum(each * count for each, count in zip(memory, counts, strict=True))
        memory = [each * TIGHT_SHARE * gib / asked for each in memory]
    choosy = round(shapes * SHARE_OF_CHOOSY_SHAPES) if size.pattern == "affinity" else 0
    return [
        {
            "name": f"shape-{index:02}",
            "count": counts[index],
            "requests": {
                "cpu": f"{milli[index]}m",
                "memory": f"{64 * max(1, round(memory[index] * 16))}Mi",
            },
            **(_wish(source, index) if index < choosy else {}),
        }
        for index in range(shapes)
    ]


def _as_people_write(millicores: float) -> int:
    """The nearest number that a person would write: multiples of 50m, of larger ones of 500m."""
    step = next(
        step
        for step, above in ((500, 4000), (250, 2000), (100, 500), (50, 0))
        if millicores > above
    )
    return max(step, round(millicores / step) * step)


def _apportioned(total: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers in about these proportions, none below 1, with this sum."""
    spare = total - len(shares)
    exact = [spare * share / sum(shares) for share in shares]
    counts = [1 + int(each) for each in exact]
    for index in range(total - sum(counts)):
        counts[index % len(counts)] += 1
    return counts


def _wish(source: random.Random, index: int) -> Json:
    """Nodes on which a choosy shape may run."""
    zone = source.choice(["zone-0", "zone-1", "zone-2"])
    preferred: list[Json] = [
        {"node_selector": {"topology.kubernetes.io/zone": zone}},
        {"node_selector": {"disk": "hdd"}},
        {
            "affinity": {
                "node_affinity": {
                    "required_during_scheduling_ignored_during_execution": {
                        "node_selector_terms": [
                            {
                                "match_expressions": [
                                    {
                                        "key": "wattwise.github.io/rack",
                                        "operator": "In",
                                        "values": [
                                            f"rack-{rack:02}"
                                            for rack in sorted(source.sample(range(RACKS), 6))
                                        ],
                                    }
                                ]
                            }
                        ]
                    }
                }
            }
        },
    ]
    return preferred[index % len(preferred)]
