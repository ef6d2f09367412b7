# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reason of a run, and the state of the run before it.

The watcher requests a run by annotations, and ansible-operator begins one every interval. The
annotation of a request stays, so the run folder remembers the served request. A lost folder only
makes the next run a full one.
"""

from __future__ import annotations

import datetime
import json
import typing as t
from dataclasses import dataclass
from pathlib import Path

from ..base import whole_files
from ..base.errors import InvalidInput
from ..base.units import format_time, parse_time
from .resource import REQUESTED_AT, REQUESTED_FOR, PowerFleet

START, SPEC_CHANGED, INTERVAL = "start", "spec", "interval"
# Reasons of a request, separated by commas.
REQUESTS = ("pods", "nodes", "node-configs", "rmd")
_NODE_CONFIG_REQUESTS = frozenset({"nodes", "node-configs"})
# Frequent requests must not prevent the reading of machines.
_MAX_WITHOUT_READING = 2.0
_FILE = "power-fleet.json"


@dataclass(frozen=True)
class Trigger:
    """Reason of a run. ``requests`` is empty for a full run."""

    name: str
    requests: frozenset[str] = frozenset()

    @property
    def is_whole(self) -> bool:
        """Whether the run is full, and reads every machine whose fetchInterval is over."""
        return not self.requests

    @property
    def renders(self) -> bool:
        """Whether NodeConfigs are rendered from their templates."""
        return self.is_whole or bool(self.requests & _NODE_CONFIG_REQUESTS)

    @property
    def refreshes_rmd(self) -> bool:
        """Whether RmdWorkloads are written to their daemons."""
        return self.is_whole or "rmd" in self.requests


@dataclass(frozen=True)
class Memory:
    """State in the run folder; empty without a former run for this fleet."""

    uid: str = ""
    generation: int = 0
    request: str = ""
    whole_at: datetime.datetime | None = None
    succeeded_at: datetime.datetime | None = None

    @classmethod
    def read(cls, folder: Path) -> Memory:
        """Never fails: an unreadable file counts as missing."""
        try:
            stored = json.loads((folder / _FILE).read_text(encoding="utf-8"))
            return cls(
                uid=str(stored["uid"]),
                generation=int(stored["generation"]),
                request=str(stored["request"]),
                whole_at=parse_time(stored["whole_at"]),
                succeeded_at=parse_time(stored["succeeded_at"]) if stored["succeeded_at"] else None,
            )
        except (OSError, ValueError, KeyError, TypeError, InvalidInput):
            return cls()

    def write(self, folder: Path) -> None:
        """Raises InvalidInput if the folder cannot be written."""
        moments = {"whole_at": self.whole_at, "succeeded_at": self.succeeded_at}
        content = {
            **vars(self),
            **{name: format_time(moment) if moment else "" for name, moment in moments.items()},
        }
        try:
            whole_files.replace(folder / _FILE, json.dumps(content).encode())
        except OSError as error:
            raise InvalidInput(
                f"Cannot write {folder / _FILE}: {error.strerror}; check the run folder"
            ) from error

    def after(
        self, fleet: PowerFleet, trigger: Trigger, now: datetime.datetime, succeeded: bool
    ) -> Memory:
        """The state to remember after a run for the fleet."""
        last = self.succeeded_at if self.uid == fleet.uid else None
        return Memory(
            uid=fleet.uid,
            generation=fleet.generation,
            request=fleet.annotation(REQUESTED_AT),
            whole_at=now if trigger.is_whole else self.whole_at,
            succeeded_at=now if succeeded else last,
        )


def trigger_of(fleet: PowerFleet, memory: Memory, now: datetime.datetime) -> Trigger:
    """Reason of the run that begins now."""
    if memory.uid != fleet.uid or memory.whole_at is None:
        return Trigger(START)
    if memory.generation != fleet.generation:
        return Trigger(SPEC_CHANGED)
    requests = _requests_of(fleet)
    is_new = fleet.annotation(REQUESTED_AT) not in ("", memory.request)
    age = (now - memory.whole_at).total_seconds()
    if not is_new or not requests or age > _MAX_WITHOUT_READING * fleet.interval_seconds:
        return Trigger(INTERVAL)
    return Trigger(",".join(one for one in REQUESTS if one in requests), requests)


def _requests_of(fleet: PowerFleet) -> frozenset[str]:
    given: t.Iterable[str] = fleet.annotation(REQUESTED_FOR)[:100].split(",")
    return frozenset(one.strip() for one in given) & frozenset(REQUESTS)
