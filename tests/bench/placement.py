# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about the placer."""

from __future__ import annotations

import random

from bench.kit.rows import Bench, Json, Row, at_most, exactly, metric
from bench.kit.stage import MIB, Stage
from lab.machines import build_machines
from lab.physics import curve
from lab.workload import SHAPES

PLACE = "power.placement:place"
LIBRARIES = ("numpy", "ortools.math_opt.python.mathopt")


def place_a_thousand_nodes(stage: Stage) -> Row:
    nodes, pods = stage.size(1000, 50), stage.size(10_000, 500)
    calls = [
        stage.call(PLACE, fleet(nodes, pods, seed) | {"time_limit": 5, "seed": seed}, LIBRARIES)
        for seed in stage.runs(3)
    ]
    results = [call.result for call in calls]
    return Row(
        title=f"Placing {pods:,} pods on {nodes:,} nodes",
        work="`power.place()` with its imports done: nine server types, ten shapes of pods.",
        command="power.placement.place(nodes, pods, time_limit=5)",
        metrics=[
            metric("time", "s", [call.seconds for call in calls], at_most(5.0)),
            metric(
                "memory, highest", "MiB", [call.peak_bytes / MIB for call in calls], at_most(300)
            ),
            metric("gap", "%", [100 * item["gap"] for item in results], at_most(0.3, "worst")),
            metric("pods left", "", [len(item["unplaced"]) for item in results], exactly(0)),
        ],
        equal="each gap is relative to a lower bound that does not trust the solver.",
    )


def fleet(nodes: int, pods: int, seed: int) -> Json:
    """Nodes and pods in the short form: the lab's server types with their published curves."""
    chance = random.Random(seed)
    weights = [shape.share for shape in SHAPES]
    chosen = chance.choices(SHAPES, weights, k=pods)
    return {
        "nodes": [
            {
                "name": machine.name,
                "allocatable": {
                    "cpu": str(machine.cores),
                    "memory": f"{machine.memory_gib}Gi",
                    "pods": "110",
                },
                "labels": {"kubernetes.io/arch": machine.architecture},
                "curve": {
                    "cpu": [machine.cores * step / 10 for step in range(11)],
                    "watts": list(curve(machine.server_type)),
                },
            }
            for machine in build_machines(nodes, max(1, nodes // 50), seed)
        ],
        "pods": [
            {
                "name": f"{shape.name}-{number}",
                "namespace": "bench",
                "requests": {"cpu": shape.cpu, "memory": shape.memory},
                "node_selector": (
                    {"kubernetes.io/arch": shape.architecture} if shape.architecture else {}
                ),
            }
            for number, shape in enumerate(chosen)
        ],
    }


BENCHES = [Bench("place-1000-nodes", place_a_thousand_nodes)]
