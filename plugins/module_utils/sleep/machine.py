# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A machine that can be switched off, and what switching costs."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Phase(enum.Enum):
    """What a machine's power is doing."""

    AWAKE = "awake"
    DRAINING = "draining"
    GOING_OFF = "going_off"
    ASLEEP = "asleep"
    WAKING = "waking"
    QUARANTINED = "quarantined"


@dataclass(frozen=True)
class Switching:
    """Times in seconds and power draw in watts of one type of machine while it is switched.

    ``boot_seconds`` lasts from the request at the BMC until the Node is ready.
    """

    boot_seconds: float = 300.0
    boot_watts: float = 300.0
    shutdown_seconds: float = 60.0
    shutdown_watts: float = 150.0
    standby_watts: float = 15.0

    @property
    def cycle_joules(self) -> float:
        """Energy of one shutdown and one boot beyond standby."""
        shutdown = self.shutdown_seconds * (self.shutdown_watts - self.standby_watts)
        return shutdown + self.boot_seconds * (self.boot_watts - self.standby_watts)


@dataclass(frozen=True)
class Machine:
    """One node's machine. Times are seconds since the epoch.

    ``since`` is the time of the last change of phase, ``deadline`` the time by which a waking
    machine should be ready. ``switched_off`` are the times of its last switches to off, oldest
    first. ``protection`` says why it must stay awake; it is empty if the machine may sleep.
    """

    name: str
    switching: Switching = Switching()
    phase: Phase = Phase.AWAKE
    since: float = 0.0
    deadline: float | None = None
    switched_off: tuple[float, ...] = ()
    protection: str = ""
    zone: str = ""
    rack: str = ""
