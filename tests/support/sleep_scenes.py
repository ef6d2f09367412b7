# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenes of a day of machines that sleep: demand rises and falls, and parts fail meanwhile.

Each scene causes events, and waits for the states that must follow.
"""

from __future__ import annotations

import json
import random
import sys
import typing as t
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lab.operator import unchanged
from lab.operator.latencies import Latencies
from lab.process import wait_until
from support.sleep_day import (
    ANNOTATION,
    HOLD,
    LEASE_SECONDS,
    MAX_ATTEMPTS,
    MAX_CYCLES,
    SleepingHall,
)
from support.sleep_watch import Bounds, Watcher

CPU = 10
# Longer than bootTimeoutSeconds, with the usual boot.
LATE_SECONDS = 5.0
MOVING = ("draining", "going_off", "waking")
BUSY_SECONDS = 5.0
# A loaded computer takes its time for a run.
PATIENCE_SECONDS = 600.0

Deed = Callable[[], None]


@dataclass
class Day:
    """A hall with a PowerFleet, its watcher, and what the day has shown so far.

    ``held``, ``cordoned`` and ``bare`` are protected by an annotation, an administrator and a pod
    that nothing would replace. ``survived`` counts faults by name.
    """

    hall: SleepingHall
    watcher: Watcher
    chance: random.Random
    held: str
    cordoned: str
    bare: str
    latencies: Latencies = field(default_factory=lambda: Latencies(print))
    survived: Counter[str] = field(default_factory=Counter)

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
        self.latencies.settle(PATIENCE_SECONDS)
        self.watcher.check()

    # Scenes

    def pods_arrive(self, replicas: int) -> None:
        self.hall.create_deployment(replicas, str(CPU))
        self.expect(
            "pods arrive → running",
            f"{replicas} pods run",
            lambda: self.hall.is_deployed(replicas),
        )

    def first_sleepers(self, replicas: int, lying: str) -> list[str]:
        """Demand falls; the machines that sleep when the lying one is asked to go off again."""
        self.settle()
        self.bmc_lies(lying)
        self.hall.scale(replicas)

        def is_asked_again() -> bool:
            record = self.hall.nodes()[lying]["metadata"].get("annotations", {}).get(ANNOTATION)
            return record is not None and json.loads(record)["attempts"] == MAX_ATTEMPTS

        wait_until(
            lambda: len(self.in_phase("asleep")) > 1 and is_asked_again(),
            PATIENCE_SECONDS,
            f"machines asleep, and {lying} asked to shut down again",
            interval=0.2,
        )
        assert self.hall.is_deployed(replicas)
        self.watcher.check()
        return sorted(self.in_phase("asleep"))

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
        broken = self.in_phase("quarantined")
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
        replicas = self.room(*self.in_phase("quarantined"))
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
                not self.in_phase(*MOVING, "asleep", "quarantined")
                and all(one["is_up"] for one in self.hall.power().values())
            ),
        )
        self.settle()

    def in_phase(self, *phases: str) -> set[str]:
        """The machines that the watcher last saw in one of these phases."""
        return {name for name in self.hall.machines if self.watcher.phase(name) in phases}

    def is_calm(self) -> bool:
        return not self.in_phase(*MOVING)

    def night(self, low: int, deed: Deed) -> set[str]:
        """Demand falls to ``low``, with the deed in the middle; the machines that sleep then."""
        self.annotation_is_forged(self.bare, phase="asleep", deadline="2999-01-01T00:00:00Z")
        self.demand_falls(low, self.at_a_moment(("going_off", "asleep"), deed))
        return self.in_phase("asleep")

    def morning(self, deed: Deed) -> None:
        """Demand rises on machines of which one is on already, one does not boot, and one is late."""
        touched, failing, late = self.chance.sample(sorted(self.in_phase("asleep")), 3)
        self.is_switched_on_by_hand(touched)
        self.settle()
        self.boot_fails(failing)
        self.boot_is_late(late)
        self.demand_rises(self.at_a_moment(("waking",), deed))

    def night_with_faults(self, low: int, sleepers: set[str], deed: Deed) -> None:
        """Demand falls to ``low``, and four of the machines that should sleep have a fault."""
        self.sleep_is_turned_off()
        self.hall.change_fleet({"spec": {"sleep": {"mode": "on"}}})
        lying, busy, dead, deaf = self.chance.sample(sorted(sleepers), 4)
        before = self.hall.power()[dead]["resets"]
        self.bmc_lies(lying)
        self.bmc_is_busy(busy)
        self.bmc_is_dead(dead)
        self.shutdown_is_ignored(deaf)
        self.demand_falls(low, self.at_a_moment(("going_off", "asleep"), deed))
        assert self.hall.power()[dead]["resets"] == before

    def cycles_are_used_up(self) -> None:
        """No machine that has slept today sleeps again."""
        before = dict(self.watcher.sleeps)
        self.hall.change_fleet({"spec": {"sleep": {"mode": "on", "maxCyclesADay": 1}}})
        ended = unchanged.runs_ended(self.hall.running)
        # The first of them may have begun before the change.
        wait_until(
            lambda: unchanged.runs_ended(self.hall.running) >= ended + 3,
            PATIENCE_SECONDS,
            "three runs",
            interval=0.5,
        )
        after = self.watcher.sleeps
        assert before
        assert {name: after[name] for name in before} == before

    # Deeds in the middle of a scene

    def at_a_moment(self, phases: t.Sequence[str], deed: Deed) -> Deed:
        """Do the deed when the next machines enter a phase by chance."""
        phase, count = self.chance.choice(phases), self.chance.randint(1, 2)

        def wait() -> None:
            before = self.watcher.entered(phase)
            wait_until(
                lambda: self.watcher.entered(phase) >= before + count,
                PATIENCE_SECONDS,
                f"{count} machines to be {phase}",
                interval=0.05,
            )
            deed()

        return wait

    def then_kill(self, deed: Deed) -> Deed:
        """The deed, and the death of the operator a few looks of the watcher later."""
        looks = self.chance.randint(1, 25)

        def both() -> None:
            deed()
            until = self.watcher.looks + looks
            wait_until(
                lambda: self.watcher.looks >= until, PATIENCE_SECONDS, "looks", interval=0.05
            )
            self.operator_is_killed()

        return both

    def operator_is_killed(self) -> None:
        self.hall.kill_operator()
        self.survived["operator killed"] += 1

    def operator_is_replaced(self) -> None:
        """The operator that leads is killed, and one that has done nothing so far takes over."""
        assert self.hall.second is not None
        assert unchanged.runs_ended(self.hall.second) == 0
        seconds = self.hall.replace_leader()
        # A candidate looks every two seconds, and a busy computer is late.
        assert seconds < LEASE_SECONDS + 10.0
        self.latencies.seconds["operator is killed → another one leads"] = [seconds]

    def apiserver_is_restarted(self) -> None:
        self.hall.restart_apiserver()
        self.survived["API server restarted"] += 1

    def a_playbook_runs_beside(self) -> None:
        self.hall.play_sleep()
        self.survived["`sleep` playbook beside the operator"] += 1

    def a_second_operator_runs(self) -> None:
        """A second operator elects no leader, and ends after two runs."""
        self.hall.start_second(waits=False)
        self.both_operators_run(2)
        assert self.hall.second is not None
        self.hall.second.stop()
        self.survived["second operator beside the first"] += 1

    def both_operators_run(self, runs: int) -> None:
        """Return after so many more runs of each."""
        operators = [one for one in (self.hall.running, self.hall.second) if one is not None]
        until = [unchanged.runs_ended(one) + runs for one in operators]
        wait_until(
            lambda: all(
                unchanged.runs_ended(one) >= n for one, n in zip(operators, until, strict=True)
            ),
            PATIENCE_SECONDS,
            f"{runs} runs of each operator",
            interval=0.5,
        )

    # Machines with faults

    def boot_fails(self, name: str) -> None:
        self.hall.fault("boot-fails", name)
        self.expect(
            "boots fail → quarantined",
            f"{name} is quarantined",
            lambda: name in self.in_phase("quarantined"),
        )
        self.survived["boot that fails"] += 1

    def boot_is_late(self, name: str) -> None:
        self.hall.fault("boot-late", name, LATE_SECONDS)
        self.expect(
            "boot is late → awake",
            f"{name} is awake",
            lambda: name in self.in_phase("awake"),
        )
        self.survived["boot that is late"] += 1

    def bmc_lies(self, name: str) -> None:
        """Its PowerState is On, whatever it does, so that its sleep is never proven."""
        self.hall.fault("power-state-stuck", name)
        self.expect(
            "BMC says On for ever → quarantined",
            f"{name} is quarantined",
            lambda: name in self.in_phase("quarantined"),
        )
        self.survived["BMC that says `On` for ever"] += 1

    def bmc_is_busy(self, name: str) -> None:
        self.hall.fault("reset-busy", name, BUSY_SECONDS)
        self.expect(
            "BMC is not ready for a switch → asleep",
            f"{name} is asleep",
            lambda: name in self.in_phase("asleep"),
        )
        self.survived["BMC that is not ready for a switch"] += 1

    def bmc_is_dead(self, name: str) -> None:
        """The machine stays awake, because nobody could wake it."""
        self.hall.fault("dead-bmc", name)
        self.survived["BMC that is dead"] += 1

    def shutdown_is_ignored(self, name: str) -> None:
        self.hall.fault("shutdown-ignored", name)
        before = self.watcher.left(name, "going_off")
        self.expect(
            "shutdown never ends → stays awake",
            f"{name} is awake",
            lambda: (
                self.watcher.left(name, "going_off") > before and name in self.in_phase("awake")
            ),
        )
        self.survived["shutdown that never ends"] += 1

    def is_switched_on_by_hand(self, name: str) -> None:
        before = self.watcher.left(name, "asleep")
        self.hall.press_button(name)
        self.expect(
            "switched on at its front → not asleep",
            f"{name} is not asleep",
            lambda: self.watcher.left(name, "asleep") > before,
        )
        self.survived["switch at the front"] += 1

    def annotation_is_forged(self, name: str, **record: t.Any) -> None:
        """A kubelet writes the annotation of its own Node."""
        claim = {"since": "2000-01-01T00:00:00Z", "owner": name, "attempts": 0, **record}
        self.watcher.forged.add(name)
        self.hall.annotate_node(name, **{ANNOTATION: json.dumps(claim)})

        def is_gone() -> bool:
            return ANNOTATION not in self.hall.nodes()[name]["metadata"].get("annotations", {})

        self.expect("annotation is forged → taken away", f"{name} has none", is_gone)
        self.survived["annotation written by a kubelet"] += 1


@contextmanager
def day(hall: SleepingHall, seed: int, max_share: float = 1.0) -> Iterator[Day]:
    """A day whose protected machines are chosen, before the PowerFleet exists."""
    signed = [name for name, one in hall.machines.items() if one.certificate == "lab-ca"]
    small = sorted(signed, key=lambda name: hall.machines[name].cores)[:3]
    held, cordoned, bare = small
    hall.annotate_node(held, **{HOLD: "maintenance"})
    hall.cordon(cordoned)
    hall.create_pod("bare", nodeName=bare)
    bounds = Bounds(MAX_ATTEMPTS, max(1, int(max_share * len(hall.machines))), MAX_CYCLES)
    watcher = Watcher(hall, frozenset(small), frozenset({cordoned}), bounds)
    with watcher:
        wait_until(lambda: watcher.looks > 0, PATIENCE_SECONDS, "the first look", interval=0.1)
        try:
            yield Day(hall, watcher, random.Random(seed), held, cordoned, bare)
        except BaseException:
            sys.stdout.write(
                f"seed: {seed}\nphases: {hall.phases()}\nstatus: {hall.status()}\n"
                f"{hall.state_of_pods()}\ntransitions: {watcher.transitions}\n"
            )
            sys.stdout.write(hall.running.operator.log[-5000:])
            raise
        watcher.check()
