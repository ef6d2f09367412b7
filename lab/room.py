# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine room: machines, their hidden facts, their load, and their faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.conditions import ConditionsFile
from lab.machines import Machine, build_machines
from lab.physics import HiddenFacts, Truth, hidden_facts, truth
from lab.state import LabSettings, LabState


class Room:
    """True state of each machine now; `load_cores` (by node) is maintained by its owner."""

    def __init__(
        self, machines: Sequence[Machine], seed: int, conditions_file: ConditionsFile
    ) -> None:
        self.machines: Mapping[str, Machine] = {machine.name: machine for machine in machines}
        self.load_cores: dict[str, float] = {}
        self.conditions_file = conditions_file
        self._hidden: Mapping[str, HiddenFacts] = {
            machine.name: hidden_facts(machine, seed) for machine in machines
        }

    @classmethod
    def of(cls, state: LabState, settings: LabSettings) -> Room:
        machines = build_machines(settings.nodes, settings.racks, settings.seed)
        return cls(machines, settings.seed, ConditionsFile.of(state))

    def now(self) -> float:
        """Unix time (s) in the lab, which may be shifted or stopped."""
        return self.conditions_file.read().now()

    def truth(self, node: str) -> Truth:
        load = self.load_cores.get(node, 0.0)
        return truth(self.machines[node], self._hidden[node], self.now(), load)
