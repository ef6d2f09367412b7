# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs over machines with the lab's physics, as documents and without a lab."""

from __future__ import annotations

import datetime
import random
import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time
from ansible_collections.wattwise.kube.plugins.module_utils.inference import samples
from ansible_collections.wattwise.kube.plugins.module_utils.inference.curves import PowerCurve
from ansible_collections.wattwise.kube.plugins.module_utils.inference.learning import NodeState
from ansible_collections.wattwise.kube.plugins.module_utils.inference.samples import Samples
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.readings import readings_of
from lab.machines import Machine, build_machines
from lab.physics import HiddenFacts, Truth, hidden_facts, truth

Json = dict[str, t.Any]
START = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
PERIOD_SECONDS = 600
DAY_SECONDS = 86_400.0


@dataclass
class Hall:
    """Some machines at random loads from ``least`` to ``most``, which every run observes."""

    count: int = 24
    least: float = 0.05
    most: float = 0.8
    seed: int = 1
    runs: int = 0
    recorded: Samples = field(default_factory=Samples)

    def __post_init__(self) -> None:
        self.machines = build_machines(self.count, 2, self.seed)
        self.hidden: dict[str, HiddenFacts] = {
            machine.name: hidden_facts(machine, self.seed) for machine in self.machines
        }
        self.source = random.Random(self.seed)

    @property
    def now(self) -> datetime.datetime:
        return START + datetime.timedelta(seconds=self.runs * PERIOD_SECONDS)

    @property
    def types(self) -> dict[str, str]:
        return {machine.name: machine.server_type for machine in self.machines}

    def truth(self, machine: Machine, cores: float) -> Truth:
        """The current truth, regardless of the recordings."""
        return truth(machine, self.hidden[machine.name], self.now.timestamp(), cores)

    def observe(self, runs: int) -> None:
        """Record this many runs, each from its own documents."""
        for _run in range(runs):
            self.runs += 1
            snapshot, readings = self.documents()
            observed = samples.observe(snapshot, readings_of({"readings": readings}))
            self.recorded = samples.extended(self.recorded, observed, self.now, DAY_SECONDS)

    def documents(self) -> tuple[Json, Json]:
        """Snapshot and readings of a run, at new loads."""
        nodes, metrics, readings = [], [], {}
        for machine in self.machines:
            cores = round(self.source.uniform(self.least, self.most) * machine.cores, 3)
            nodes.append(node_of(machine))
            metrics.append(
                {"metadata": {"name": machine.name}, "usage": {"cpu": f"{round(cores * 1000)}m"}}
            )
            readings[machine.name] = self.reading(machine, cores)
        return {"nodes": nodes, "node_metrics": metrics, "pods": []}, readings

    def reading(self, machine: Machine, cores: float) -> Json:
        state = self.truth(machine, cores)
        sources = dict.fromkeys(("inlet_celsius", "delta_p_pascal", "power_watts"), "read")
        return {
            "inlet_celsius": round(state.inlet_celsius, 1),
            "delta_p_pascal": round(state.delta_p_pascal, 1),
            "power_watts": float(round(state.power_watts)),
            "time": format_time(self.now),
            "times": dict.fromkeys(sources, format_time(self.now)),
            "source": sources,
            "stale": False,
        }

    def state(self, machine: Machine) -> NodeState:
        state = self.truth(machine, 0.0)
        return NodeState(
            machine.name,
            float(machine.cores),
            machine.server_type,
            state.inlet_celsius,
            state.delta_p_pascal,
        )

    def errors(self, curves: t.Mapping[str, PowerCurve]) -> list[float]:
        """Relative errors of the curves at their points, compared with the current truth."""
        return [
            abs(watts / self.truth(machine, cores).power_watts - 1)
            for machine in self.machines
            if machine.name in curves
            for cores, watts in points(curves[machine.name])
        ]


def points(curve: PowerCurve) -> list[tuple[float, float]]:
    """Cores and power draw of a curve."""
    return list(zip(curve.curve.cores, curve.curve.watts, strict=True))


def node_of(machine: Machine) -> Json:
    """The Node of a machine."""
    labels = {"node.kubernetes.io/instance-type": machine.server_type}
    return {
        "metadata": {"name": machine.name, "labels": labels},
        "status": {"capacity": {"cpu": str(machine.cores)}},
    }
