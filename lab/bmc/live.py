# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Input of a BMC's resources: its machine and the physical state of the moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lab.bmc.errors import Refusal
from lab.machines import Machine
from lab.physics import Truth

MODEL_VERSION = "v0.1.0"
# Range of power limits.
MIN_WATTS, MAX_WATTS = 200, 1200


@dataclass
class PowerCap:
    """The limit of one machine in W, and whether it is in force."""

    watts: int = MAX_WATTS
    enabled: bool = False

    @property
    def effective(self) -> float | None:
        return float(self.watts) if self.enabled else None

    def set(self, watts: Any) -> None:
        """Bring a limit into force. Raises Refusal."""
        if isinstance(watts, bool) or not isinstance(watts, int):
            raise Refusal(400, "PropertyValueTypeError", (repr(watts), "SetPoint"))
        if not MIN_WATTS <= watts <= MAX_WATTS:
            raise Refusal(400, "PropertyValueNotInList", (str(watts), "SetPoint"))
        self.watts, self.enabled = watts, True


@dataclass(frozen=True)
class Live:
    """One machine at one moment; `blank` means that no sensor of it gives a value.

    `power_state` is as the BMC tells it; without `has_reset` the system has no action.
    """

    machine: Machine
    truth: Truth
    predictor_url: str
    blank: bool = False
    power_state: str = "On"
    has_reset: bool = True
    cap: PowerCap = field(default_factory=PowerCap)

    @property
    def utilisation(self) -> float:
        return self.truth.cpu_cores / self.machine.cores

    def celsius(self, above_inlet: float = 0.0, with_load: float = 0.0) -> float | None:
        """An inside temperature: an offset above the inlet when idle, more under full load."""
        if self.blank:
            return None
        return self.truth.inlet_celsius + above_inlet + with_load * self.utilisation

    def watts(self, share: float = 1.0) -> float | None:
        """A share of the machine's power."""
        return None if self.blank else self.truth.power_watts * share


def rounded(value: float | None, digits: int) -> float | None:
    """Value of a sensor with this many decimals; whole numbers are integers in JSON."""
    if value is None:
        return None
    return round(value, digits) if digits else round(value)
