# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets of real server types that may sleep, with demand for them."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curve
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import Node
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Machine, Switching
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.scenario import (
    Scenario,
    build_scenario,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.trace import (
    GPU,
    Trace,
    TracePod,
    read_trace,
    sorted_trace,
)
from support.placement_fleets import GIB_PER_CORE, server_types

# File of recorded demand; it is not part of the project.
DEMAND = "WATTWISE_DEMAND"
SMALLEST_CORES = 32
TYPES = 20
BOOT_SECONDS, STANDBY_WATTS = 200.0, 8.0
SHUTDOWN_SECONDS = 60.0
LOAD_OF_A_BOOT = 0.3
GIB = 1 << 30


def sleeping_machine(name: str, cores: int, watts: Sequence[float]) -> tuple[Node, Machine]:
    """A machine with its watts at 0, 10, … 100 % of CPU use."""
    steps = len(watts) - 1
    curve = Curve(tuple(cores * step / steps for step in range(steps + 1)), tuple(watts))
    free = {"cpu": 1000 * cores, "memory": cores * GIB_PER_CORE * GIB, "pods": 110}
    switching = Switching(
        boot_seconds=BOOT_SECONDS,
        boot_watts=curve.watts_at(LOAD_OF_A_BOOT * cores),
        shutdown_seconds=SHUTDOWN_SECONDS,
        shutdown_watts=watts[0],
        standby_watts=STANDBY_WATTS,
    )
    return Node(name, free, curve=curve, labels={}), Machine(name, switching)


def sleeping_fleet(number: int, seed: int) -> tuple[list[Node], list[Machine]]:
    """Machines of up to twenty types; equal arguments give the same fleet."""
    large = [kind for kind in server_types() if kind.cores >= SMALLEST_CORES]
    kinds = random.Random(seed).sample(large, min(number, TYPES if number > 100 else number))
    pairs = [
        sleeping_machine(f"node-{index:03}", kind.cores, kind.watts)
        for index in range(number)
        for kind in [kinds[index % len(kinds)]]
    ]
    return [node for node, _machine in pairs], [machine for _node, machine in pairs]


def recorded_demand() -> Trace | None:
    """The trace of the file that WATTWISE_DEMAND names, without GPUs; None without the variable."""
    path = os.environ.get(DEMAND)
    if not path:
        return None
    with Path(path).open(encoding="utf-8", newline="") as lines:
        return read_trace(lines, Path(path).name).without(GPU)


def clipped_scenario(nodes: list[Node], machines: list[Machine], trace: Trace) -> Scenario:
    """The trace on the fleet, without requests beyond the largest machine."""
    largest = {name: max(node.free[name] for node in nodes) for name in ("cpu", "memory")}
    return build_scenario(nodes, machines, trace.clipped(largest))


def small_trace(*pods: tuple[float, float, int]) -> Trace:
    """Pods by arrival, departure and millicores."""
    return sorted_trace(
        TracePod(arrival, departure, (("cpu", millicores), ("memory", GIB)))
        for arrival, departure, millicores in pods
    )
