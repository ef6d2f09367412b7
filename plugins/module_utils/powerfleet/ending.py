# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Runs for deleted fleets whose machines must be woken.

ansible-operator skips a deleted resource without its own finalizer, which it would add to every
fleet. So the watcher begins these runs, with the playbook of the operator.

Source: https://github.com/operator-framework/ansible-operator-plugins, Reconcile
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import typing as t

# Pauses between the runs for a fleet, whose machines boot for minutes. Each one is twice as long as
# the one before: a machine that cannot be woken waits for people.
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 15.0, 120.0
# A run takes less than a minute.
_MAX_SECONDS = 600.0
# For a run that is asked to end; the watcher does nothing else meanwhile.
_GRACE_SECONDS = 10.0

Say = t.Callable[[str], None]


class EndingRuns:
    """Begins runs one after the other. Times are those of a monotonic clock, in seconds."""

    def __init__(
        self, command: t.Sequence[str], say: Say, grace_seconds: float = _GRACE_SECONDS
    ) -> None:
        """``command`` runs the playbook; variables follow it. Without one nothing is begun."""
        self._command, self._say, self._grace_seconds = tuple(command), say, grace_seconds
        # Time of the next run of each fleet, and its last pause.
        self._due: dict[str, float] = {}
        self._pauses: dict[str, float] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._fleet, self._until = "", 0.0

    def add(self, fleet: str, now: float) -> None:
        """Take note of a deleted fleet that waits for a run."""
        self._due.setdefault(fleet, now)

    def forget(self, fleet: str) -> None:
        """Take note of a fleet that is gone or does not wait."""
        self._due.pop(fleet, None)
        self._pauses.pop(fleet, None)

    def turn(self, now: float) -> None:
        """End a run that is over, and begin the next one that is due."""
        if self._process is not None:
            self._end(self._process, now)
        due = [fleet for fleet, at in self._due.items() if at <= now]
        if due and self._command and self._process is None:
            self._begin(min(due, key=lambda fleet: self._due[fleet]), now)

    def stop(self) -> None:
        """End the present run; another watcher begins it again."""
        process, self._process = self._process, None
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process is not None and process.poll() is None:
                os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(self._grace_seconds)

    def _begin(self, fleet: str, now: float) -> None:
        namespace, _separator, name = fleet.partition("/")
        variables = {"ansible_operator_meta": {"namespace": namespace, "name": name}}
        command = (*self._command, "--extra-vars", json.dumps(variables))
        self._say(f"{fleet} is deleted when its machines are awake; begin a run")
        self._fleet, self._until = fleet, now + _MAX_SECONDS
        try:
            self._process = subprocess.Popen(command, start_new_session=True)
        except OSError as error:
            self._say(f"cannot begin a run of {fleet}: {command[0]}: {error.strerror}")
            self._pause(fleet, now)

    def _end(self, process: subprocess.Popen[bytes], now: float) -> None:
        status = process.poll()
        if status is None and now > self._until:
            self._say(f"the run of {self._fleet} takes too long and is ended")
            self.stop()
        elif status is None:
            return
        elif status:
            self._say(f"the run of {self._fleet} failed with status {status}")
        self._process = None
        if self._fleet in self._due:
            self._pause(self._fleet, now)

    def _pause(self, fleet: str, now: float) -> None:
        pause = 2 * self._pauses.get(fleet, FIRST_PAUSE_SECONDS / 2)
        self._pauses[fleet] = min(pause, MAX_PAUSE_SECONDS)
        self._due[fleet] = now + self._pauses[fleet]
