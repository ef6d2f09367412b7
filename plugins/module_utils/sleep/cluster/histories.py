# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The histories of the machines in the record: their switches, and the energy that these save."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..machine import Phase
from .bmcs import Bmcs, Power
from .demand_record import MachineHistory, SleepRecord
from .lifecycle import Change
from .record import NodeRecord

_REST_SECONDS = 86400.0
# Power supplies and sensors need a moment after a shutdown.
_SETTLED_SECONDS = 60.0
_ASLEEP = (Phase.ASLEEP, Phase.WAKING, Phase.QUARANTINED)

Records = t.Mapping[str, NodeRecord]


@dataclass(frozen=True)
class Histories:
    """Notes what runs did. Power draws are in watts: those of idle machines by name, as measured,
    and that of a machine that is off, as assumed.
    """

    record: SleepRecord
    idle_watts: t.Mapping[str, float]
    standby_watts: float

    def saved_watts(self, name: str) -> float:
        """What the sleep of a machine saves: idle less standby, as measured, else as assumed."""
        measured = self.record.machines.get(name, MachineHistory()).standby_watts
        standby = self.standby_watts if measured is None else measured
        return max(0.0, self.idle_watts.get(name, 0.0) - standby)

    def note(self, before: NodeRecord | None, change: Change, now: float) -> None:
        """Note a transition that was written."""
        history = self.record.machine(change.name)
        if before is not None and before.phase is Phase.WAKING and before.attempts <= 1:
            history.booted(is_late=change.is_warning)
        if change.record is None:
            if before is not None and before.phase in _ASLEEP:
                history.woke(now)
            if change.is_warning:
                history.left_alone_until = now + _REST_SECONDS
        elif change.phase is Phase.ASLEEP and not change.is_out_of_service:
            self._fell_asleep(change.name, now)

    def follow(self, names: t.Iterable[str], records: Records, now: float) -> None:
        """Note sleeps and wakes that a run was killed before it could record.

        A run writes annotation and taint at once, so an assumed record is no such sleep.
        """
        for name in names:
            node, history = records.get(name), self.record.machines.get(name)
            since = None if history is None else history.asleep_since
            if node is not None and node.is_assumed:
                continue
            if node is not None and node.phase is Phase.ASLEEP and since is None:
                self._fell_asleep(name, node.since)
            elif node is None and since is not None:
                self.record.machine(name).woke(now)

    def measure_standby(
        self, bmcs: Bmcs, records: Records, powers: t.Mapping[str, Power], now: float
    ) -> None:
        """Ask the BMCs of machines that are off, once in each sleep."""
        due = {
            name
            for name, one in records.items()
            if one.phase is Phase.ASLEEP
            and powers.get(name, Power()).state == "Off"
            and now - one.since > _SETTLED_SECONDS
            and not self.record.machines.get(name, MachineHistory()).is_probed
        }
        watts = bmcs.read_standby(due) if due else {}
        for name in due:
            self.record.machine(name).measured(watts.get(name))

    def _fell_asleep(self, name: str, moment: float) -> None:
        idle = self.idle_watts.get(name, 0.0)
        self.record.machine(name).fell_asleep(moment, idle, self.standby_watts)
