# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The true state of the machine room. Only the simulated sensors may use it.

    watts = curve(utilisation) × fans(inlet) × airflow(delta p)      the result of `nominal_watts`
            × bias of the machine × bias of its rack × ripple        hidden from all readers

Pure functions of seed, machine, time and load. Standard library only: the predictor's environment
imports this file.
"""

from __future__ import annotations

import csv
import hashlib
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lab.machines import RACK_UNITS, SERVER_TYPES, Machine

CURVES_FILE = Path(__file__).resolve().parent / "data" / "server_power_curves.csv"
LOAD_STEPS = 10
CPU_USAGE_ANNOTATION = "lab.wattwise.github.io/cpu-usage-cores"
MIN_USE, MAX_USE = 0.6, 1.0

FANS_SPEED_UP_CELSIUS = 24.0
WATTS_PER_CELSIUS = 0.006
WATTS_PER_SQUARE_CELSIUS = 0.0004
REFERENCE_PASCAL = 5.0
WATTS_PER_PASCAL = -0.0015
AIRFLOW_LIMIT = 0.05

RIPPLE = 0.003
RIPPLE_SECONDS = 37.0
# Together they change an inlet by at most 0.31 °C a minute.
SLOW_CELSIUS, SLOW_SECONDS = 0.8, 2400.0
QUICK_CELSIUS, QUICK_SECONDS = 0.2, 420.0
PRESSURE_SWING_PASCAL, PRESSURE_SWING_SECONDS = 0.8, 900.0

_CPU_UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3}


@dataclass(frozen=True)
class HiddenFacts:
    """Deviations of one machine and its rack, drawn from the lab's seed.

    The biases are factors on the power draw, the phases are radians.
    """

    machine_bias: float
    rack_bias: float
    inlet_celsius: float
    delta_p_pascal: float
    slow_phase: float
    quick_phase: float
    ripple_phase: float


@dataclass(frozen=True)
class Truth:
    """The physical state of one machine at one moment; `cpu_cores` are the cores in use."""

    inlet_celsius: float
    delta_p_pascal: float
    power_watts: float
    cpu_cores: float


def nominal_watts(
    server_type: str, utilisation: float, inlet_celsius: float, delta_p_pascal: float
) -> float:
    """Power draw of a machine of this type without any bias; `utilisation` is clamped to 0 … 1."""
    load = min(max(utilisation, 0.0), 1.0) * LOAD_STEPS
    step = min(int(load), LOAD_STEPS - 1)
    low, high = curve(server_type)[step : step + 2]
    watts = low + (high - low) * (load - step)
    return watts * _fans(inlet_celsius) * _airflow(delta_p_pascal)


def hidden_facts(machine: Machine, seed: int) -> HiddenFacts:
    """Draw the machine's hidden facts: the same for equal name, rack, position and seed.

    Air is warmer and the pressure lower towards the top of a rack.
    """
    rack = random.Random(f"{seed} {machine.rack} room")
    own = random.Random(f"{seed} {machine.name} machine")
    height = (machine.position - 1) / RACK_UNITS
    return HiddenFacts(
        machine_bias=own.uniform(0.97, 1.03),
        rack_bias=rack.uniform(0.99, 1.01),
        inlet_celsius=19.0 + rack.uniform(-1.0, 2.5) + 5.5 * height + own.uniform(-0.4, 0.4),
        delta_p_pascal=rack.uniform(6.5, 17.0) - 8.5 * height + own.uniform(-1.5, 1.5),
        slow_phase=rack.uniform(0.0, math.tau),
        quick_phase=own.uniform(0.0, math.tau),
        ripple_phase=own.uniform(0.0, math.tau),
    )


def truth(machine: Machine, hidden: HiddenFacts, now: float, load_cores: float) -> Truth:
    """The machine's state at Unix time `now` (s), with pods that want `load_cores` of its CPU."""
    used = min(max(load_cores, 0.0), float(machine.cores))
    inlet = inlet_celsius(hidden, now)
    delta_p = delta_p_pascal(hidden, now)
    watts = nominal_watts(machine.server_type, used / machine.cores, inlet, delta_p)
    ripple = 1.0 + RIPPLE * _wave(now, RIPPLE_SECONDS, hidden.ripple_phase)
    watts *= hidden.machine_bias * hidden.rack_bias * ripple
    return Truth(inlet, delta_p, watts, used)


def inlet_celsius(hidden: HiddenFacts, now: float) -> float:
    """The temperature of the air that the machine draws in at Unix time `now` (s)."""
    slow = SLOW_CELSIUS * _wave(now, SLOW_SECONDS, hidden.slow_phase)
    quick = QUICK_CELSIUS * _wave(now, QUICK_SECONDS, hidden.quick_phase)
    return hidden.inlet_celsius + slow + quick


def delta_p_pascal(hidden: HiddenFacts, now: float) -> float:
    """The pressure in front of the machine minus that behind it at Unix time `now` (s), in Pa."""
    swing = _wave(now, PRESSURE_SWING_SECONDS, hidden.slow_phase)
    return hidden.delta_p_pascal + PRESSURE_SWING_PASCAL * swing


def pod_cpu_cores(pod: Mapping[str, Any]) -> float:
    """Cores that a bound pod really uses, from its Kubernetes object.

    The annotation's value, else the pod's CPU request × its use factor. Raises ValueError if the
    annotation or a request is not a CPU quantity.
    """
    metadata = pod["metadata"]
    stated = metadata.get("annotations", {}).get(CPU_USAGE_ANNOTATION)
    if stated is not None:
        return cpu_quantity(stated)
    return requested_cpu_cores(pod["spec"]) * use_factor(metadata["namespace"], metadata["name"])


def requested_cpu_cores(pod_spec: Mapping[str, Any]) -> float:
    """CPU requests of the containers that run for as long as the pod does (sidecars too)."""
    containers = list(pod_spec.get("containers", []))
    containers += [
        container
        for container in pod_spec.get("initContainers", [])
        if container.get("restartPolicy") == "Always"
    ]
    requests = [
        container.get("resources", {}).get("requests", {}).get("cpu", "0")
        for container in containers
    ]
    return math.fsum(cpu_quantity(request) for request in requests)


@cache
def use_factor(namespace: str, name: str) -> float:
    """Used share of a pod's request: evenly spread over 0.6 … 1.0, always the same for a pod."""
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).digest()
    share = int.from_bytes(digest[:6], "big") / (1 << 48)
    return MIN_USE + (MAX_USE - MIN_USE) * share


def cpu_quantity(text: str | float) -> float:
    """Cores from a Kubernetes CPU quantity (`500m`, `2`); ValueError for others."""
    number = str(text)
    unit = _CPU_UNITS.get(number[-1:])
    value = float(number[:-1]) * unit if unit else float(number)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{number!r} is not a CPU quantity")
    return value


def curve(server_type: str) -> tuple[float, ...]:
    """Power draw of the type at 0, 10, … 100 % load, at the reference temperature and pressure."""
    return _curves()[SERVER_TYPES[server_type].node_type]


@cache
def _curves() -> dict[int, tuple[float, ...]]:
    columns = [f"watts_{100 // LOAD_STEPS * step}" for step in range(LOAD_STEPS + 1)]
    with CURVES_FILE.open(newline="") as file:
        return {
            int(row["node_type"]): tuple(float(row[column]) for column in columns)
            for row in csv.DictReader(file)
        }


def _fans(inlet: float) -> float:
    above = max(inlet - FANS_SPEED_UP_CELSIUS, 0.0)
    return 1.0 + WATTS_PER_CELSIUS * above + WATTS_PER_SQUARE_CELSIUS * above**2


def _airflow(delta_p: float) -> float:
    """Pressure from the cold aisle relieves the fans, within limits."""
    effect = WATTS_PER_PASCAL * (delta_p - REFERENCE_PASCAL)
    return 1.0 + min(max(effect, -AIRFLOW_LIMIT), AIRFLOW_LIMIT)


def _wave(now: float, period_seconds: float, phase: float) -> float:
    return math.sin(math.tau * (now % period_seconds) / period_seconds + phase)
