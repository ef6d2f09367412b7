# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Results of a replay."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...base.libraries import numpy

if t.TYPE_CHECKING:
    from ...solving.arrays import Booleans, Floats, Integers

_DAY = 86400.0


@dataclass
class Timeline:
    """Samples at equal intervals; ``cores`` are requested by running pods."""

    times: list[float] = field(default_factory=list)
    awake: list[int] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """One policy on one scenario.

    By machine: ``joules``, ``awake_seconds``, ``core_seconds`` of CPU use, and ``switches_off``.
    ``waited[k]`` are the seconds that pod k had no node. ``for_boot[k]`` says whether a machine
    that was not awake would have taken it. ``unplaced`` pods had no node at the end, or never.
    ``most_cycles_a_day`` is that of any machine in any 24 hours. ``joules_by_hour`` are those of
    all machines in each hour since the start.
    """

    policy: str
    seconds: float
    joules: Floats
    awake_seconds: Floats
    core_seconds: Floats
    switches_off: Integers
    most_cycles_a_day: int
    waited: Floats
    for_boot: Booleans
    unplaced: int
    evictions: int
    timeline: Timeline
    joules_by_hour: tuple[float, ...] = ()

    @property
    def total_joules(self) -> float:
        return float(self.joules.sum())

    @property
    def boot_waits(self) -> Floats:
        """Seconds that each pod waited for a boot; 0 for most."""
        waits: Floats = numpy.where(self.for_boot, self.waited, 0.0)
        return waits

    @property
    def share_waiting(self) -> float:
        """Share of the pods that waited for a boot."""
        return float((self.boot_waits > 0).mean()) if len(self.waited) else 0.0

    def wait_quantile(self, quantile: float) -> float:
        """Seconds of waiting for a boot at a quantile over all pods."""
        if not len(self.waited):
            return 0.0
        return float(numpy.quantile(self.boot_waits, quantile, method="higher"))

    @property
    def longest_wait(self) -> float:
        """Seconds that a pod waited for a boot at most."""
        return float(self.boot_waits.max(initial=0.0))

    @property
    def cycles_a_machine_and_day(self) -> float:
        machine_days = len(self.joules) * self.seconds / _DAY
        return float(self.switches_off.sum()) / machine_days if machine_days else 0.0

    def saving(self, baseline: Outcome) -> float:
        """Share of the energy of another policy on the same scenario."""
        return saved_share(self.total_joules, baseline.total_joules)


def saved_share(joules: float, baseline: float) -> float:
    """Saving as a share of the energy of a baseline."""
    return 1.0 - joules / baseline if baseline else 0.0


def most_in_a_day(times: t.Sequence[float]) -> int:
    """The largest number of these ascending times within any 24 hours."""
    most = first = 0
    for last, time in enumerate(times):
        while time - times[first] >= _DAY:
            first += 1
        most = max(most, last - first + 1)
    return most
