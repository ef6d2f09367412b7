# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The power that the same demand draws under three ways to serve it, and the tables of a day."""

from __future__ import annotations

import statistics
import typing as t
from collections.abc import Mapping, Sequence

from lab.operator.hall import SCHEDULER
from lab.process import wait_until
from lab.workload import wait_for_load
from support.sleep_day import SleepingHall
from support.sleep_scenes import CPU, MOVING, PATIENCE_SECONDS

NIGHT_HOURS, DAY_HOURS = 16, 8


class Power(t.NamedTuple):
    """Power of all machines in watts, as their BMCs measure it, by night and by day."""

    night: float
    day: float

    @property
    def kilowatt_hours(self) -> float:
        """Energy of one day and one night."""
        return (NIGHT_HOURS * self.night + DAY_HOURS * self.day) / 1000


def measured_power(hall: SleepingHall, low: int, high: int) -> dict[str, Power]:
    """Power with ``low`` pods by night and ``high`` by day; afterwards there is no PowerFleet."""
    hall.create_deployment(high, str(CPU), schedulerName="default-scheduler")
    day = _watts(hall, high)
    found = {"default scheduler, all awake": Power(_watts(hall, low), day)}
    hall.remove_deployment()
    hall.create_fleet(mode="off")
    hall.create_deployment(high, str(CPU), schedulerName=SCHEDULER)
    day = _watts(hall, high)
    found["wattwise, all awake"] = Power(_watts(hall, low), day)
    hall.change_fleet({"spec": {"sleep": {"mode": "on"}}})
    _wait(lambda: bool(hall.in_phase("asleep")) and not hall.in_phase(*MOVING), "sleep")
    night = _watts(hall, low)
    found["wattwise, idle machines asleep"] = Power(night, _watts(hall, high))
    hall.change_fleet({"spec": {"sleep": {"mode": "off"}}})
    _wait(lambda: set(hall.phases().values()) == {"awake"}, "all machines to be awake")
    hall.remove_deployment()
    hall.remove_fleet()
    return found


def _watts(hall: SleepingHall, replicas: int) -> float:
    hall.scale(replicas)
    _wait(
        lambda: hall.is_deployed(replicas) and not hall.in_phase(*MOVING),
        f"{replicas} running pods",
    )
    wait_for_load(hall.api, hall.settings)
    return hall.watts()


def _wait(holds: t.Callable[[], bool], what: str) -> None:
    wait_until(holds, PATIENCE_SECONDS, what, interval=0.2)


def tables(
    seconds: Mapping[str, Sequence[float]], survived: Mapping[str, int], longest_wait: float
) -> list[str]:
    """The tables of docs/operate/sleep.md; times in seconds by kind of event, faults by name."""
    return [
        *("| event → state | events | median | longest |", "| --- " * 4 + "|"),
        *(
            f"| {kind} | {len(values)} | {statistics.median(values):.0f} s | {max(values):.0f} s |"
            for kind, values in seconds.items()
        ),
        "",
        *("| fault | survived |", "| --- | --- |"),
        *(f"| {name} | {count} |" for name, count in sorted(survived.items())),
        "",
        f"The longest wait of a pod was {longest_wait:.0f} s.",
    ]


def table_of_energy(power: Mapping[str, Power]) -> list[str]:
    """The table of energies there; the first one is compared with the others."""
    default = next(iter(power.values())).kilowatt_hours
    return [
        *("| placement | by night | by day | 16 h and 8 h | saving |", "| --- " * 5 + "|"),
        *(
            f"| {name} | {one.night:.0f} W | {one.day:.0f} W | {one.kilowatt_hours:.1f} kWh"
            f" | {1 - one.kilowatt_hours / default:.0%} |"
            for name, one in power.items()
        ),
    ]
