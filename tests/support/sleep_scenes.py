# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenes of a day of machines that sleep: demand rises and falls, and parts fail meanwhile.

Each scene causes events, and waits for the states that must follow.
"""

from __future__ import annotations

import random
import sys
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lab.operator.latencies import Latencies
from lab.process import wait_until
from support.sleep_day import HOLD, MAX_ATTEMPTS, SleepingHall
from support.sleep_watch import Watcher

CPU = 10
# Longer than bootTimeoutSeconds, with the usual boot.
LATE_SECONDS = 5.0
_MOVING = ("draining", "going_off", "waking")
# A loaded computer takes its time for a run.
_PATIENCE_SECONDS = 150.0

Deed = Callable[[], None]


@dataclass
class Day:
    """A hall with a PowerFleet, its watcher, and what the day has shown so far.

    ``held``, ``cordoned`` and ``bare`` are protected by an annotation, an administrator and a pod
    that nothing would replace.
    """

    hall: SleepingHall
    watcher: Watcher
    chance: random.Random
    held: str
    cordoned: str
    bare: str
    latencies: Latencies = field(default_factory=lambda: Latencies(print))

    @property
    def protected(self) -> set[str]:
        return {self.held, self.cordoned, self.bare}

    def room(self, *without: str) -> int:
        """The number of pods that fit on all machines but these, beside the bare pod."""
        names = self.hall.machines.keys() - {self.cordoned, *without}
        return sum((self.hall.machines[name].cores - (name == self.bare)) // CPU for name in names)

    def expect(self, kind: str, what: str, holds: Callable[[], bool]) -> None:
        self.latencies.expect(kind, what, holds)

    def settle(self) -> None:
        self.latencies.settle(_PATIENCE_SECONDS)
        self.watcher.check()

    # Scenes

    def pods_arrive(self, replicas: int) -> None:
        self.hall.create_deployment(replicas, str(CPU))
        self.expect(
            "pods arrive → running",
            f"{replicas} pods run",
            lambda: self.hall.is_deployed(replicas),
        )

    def demand_falls(self, replicas: int, deed: Deed | None = None) -> None:
        """Pods go; idle machines are emptied and sleep. The deed is done in the middle."""
        before = self.watcher.entered("asleep")
        self.hall.scale(replicas)
        self.expect(
            "demand falls → machines asleep",
            "a machine sleeps, and no other is underway",
            lambda: self.watcher.entered("asleep") > before and self.is_calm(),
        )
        if deed is not None:
            deed()
        self.settle()
        assert self.hall.is_deployed(replicas)

    def demand_rises(self, deed: Deed | None = None) -> int:
        """Pods come, so many that every machine is woken; the number that runs in the end.

        Those for a machine whose boot fails go again.
        """
        broken = self.hall.in_phase("quarantined")
        before = self.watcher.entered("waking")
        self.hall.scale(self.room(*broken))
        self.expect(
            "pods wait → machine asked to boot",
            "a machine is waking",
            lambda: self.watcher.entered("waking") > before,
        )
        if deed is not None:
            deed()
        self.settle()
        replicas = self.room(*self.hall.in_phase("quarantined"))
        self.hall.scale(replicas)
        self.expect(
            "pods wait for a boot → running",
            f"{replicas} pods run",
            lambda: self.hall.is_deployed(replicas),
        )
        self.settle()
        return replicas

    def sleep_is_turned_off(self) -> None:
        """Every machine comes back, also from quarantine after its repair."""
        self.hall.mend_machines()
        self.hall.change_fleet({"spec": {"sleep": {"mode": "off"}}})
        self.expect(
            "sleep is turned off → all awake",
            "every machine is awake and on",
            lambda: (
                not self.hall.in_phase(*_MOVING, "asleep", "quarantined")
                and all(one["is_up"] for one in self.hall.power().values())
            ),
        )
        self.settle()

    def is_calm(self) -> bool:
        return not self.hall.in_phase(*_MOVING)

    # Deeds in the middle of a scene

    def at_a_moment(self, phases: t.Sequence[str], deed: Deed) -> Deed:
        """Do the deed when the next machines enter a phase by chance."""
        phase, count = self.chance.choice(phases), self.chance.randint(1, 2)

        def wait() -> None:
            before = self.watcher.entered(phase)
            wait_until(
                lambda: self.watcher.entered(phase) >= before + count,
                _PATIENCE_SECONDS,
                f"{count} machines to be {phase}",
                interval=0.05,
            )
            deed()

        return wait

    def operator_is_killed(self) -> None:
        self.hall.kill_operator()

    # Machines with faults

    def boot_fails(self, name: str) -> None:
        self.hall.fault("boot-fails", name)
        self.expect(
            "boots fail → quarantined",
            f"{name} is quarantined",
            lambda: name in self.hall.in_phase("quarantined"),
        )

    def boot_is_late(self, name: str) -> None:
        self.hall.fault("boot-late", name, LATE_SECONDS)
        self.expect(
            "boot is late → awake",
            f"{name} is awake",
            lambda: name in self.hall.in_phase("awake"),
        )

    def bmc_lies(self, name: str) -> None:
        """Its PowerState is On, whatever it does, so that its sleep is never proven."""
        self.hall.fault("power-state-stuck", name)
        self.expect(
            "BMC says On for ever → quarantined",
            f"{name} is quarantined",
            lambda: name in self.hall.in_phase("quarantined"),
        )


@contextmanager
def day(hall: SleepingHall, seed: int) -> Iterator[Day]:
    """A day whose protected machines are chosen, before the PowerFleet exists."""
    signed = [name for name, one in hall.machines.items() if one.certificate == "lab-ca"]
    small = sorted(signed, key=lambda name: hall.machines[name].cores)[:3]
    held, cordoned, bare = small
    hall.annotate_node(held, **{HOLD: "maintenance"})
    hall.cordon(cordoned)
    hall.create_pod("bare", nodeName=bare)
    watcher = Watcher(hall, frozenset(small), frozenset({cordoned}), MAX_ATTEMPTS)
    with watcher:
        try:
            yield Day(hall, watcher, random.Random(seed), held, cordoned, bare)
        except BaseException:
            sys.stdout.write(
                f"phases: {hall.phases()}\nstatus: {hall.status()}\n{hall.state_of_pods()}"
            )
            sys.stdout.write(hall.running.operator.log[-5000:])
            raise
        watcher.check()
