# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Why a run takes place, and what of the run before it must be known for that.

The watcher asks for a run by annotations, and ansible-operator begins one every interval. The
annotation of a request stays, so the run folder remembers which request was served; a folder that
was lost makes the next run a whole one, and nothing else.
"""

from __future__ import annotations

import datetime
import json
import typing as t
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import whole_files
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import (
    format_time,
    parse_time,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import (
    REQUESTED_AT,
    REQUESTED_FOR,
    PowerFleet,
)

START, SPEC_CHANGED, INTERVAL = "start", "spec", "interval"
# What a request may be for; several are separated by commas.
REQUESTS = ("pods", "nodes", "node-configs", "rmd")
_NODE_CONFIG_REQUESTS = frozenset({"nodes", "node-configs"})
# Requests that follow one another closely must not keep the machines from being read.
_LONGEST_WITHOUT_READING = 2.0
_FILE = "power-fleet.json"


@dataclass(frozen=True)
class Trigger:
    """Why a run takes place. ``requests`` is empty where everything is to be done."""

    name: str
    requests: frozenset[str] = frozenset()

    @property
    def is_whole(self) -> bool:
        """Whether everything is done, and every machine is read whose fetchInterval is over."""
        return not self.requests

    @property
    def renders(self) -> bool:
        """Whether NodeConfigs are made of their templates."""
        return self.is_whole or bool(self.requests & _NODE_CONFIG_REQUESTS)

    @property
    def refreshes_rmd(self) -> bool:
        """Whether RmdWorkloads are brought to their daemons."""
        return self.is_whole or "rmd" in self.requests


@dataclass(frozen=True)
class Memory:
    """What the run folder remembers; empty where there was no run, or one for another fleet."""

    uid: str = ""
    generation: int = 0
    request: str = ""
    whole_at: datetime.datetime | None = None
    succeeded_at: datetime.datetime | None = None

    @classmethod
    def read(cls, folder: Path) -> Memory:
        """Never fails: a file that cannot be read is none."""
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
        """Raises InvalidInput where the folder cannot be written."""
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
        """What is to be remembered once a run for the fleet was made."""
        last = self.succeeded_at if self.uid == fleet.uid else None
        return Memory(
            uid=fleet.uid,
            generation=fleet.generation,
            request=fleet.annotation(REQUESTED_AT),
            whole_at=now if trigger.is_whole else self.whole_at,
            succeeded_at=now if succeeded else last,
        )


def trigger_of(fleet: PowerFleet, memory: Memory, now: datetime.datetime) -> Trigger:
    """Why the run that begins now takes place."""
    if memory.uid != fleet.uid or memory.whole_at is None:
        return Trigger(START)
    if memory.generation != fleet.generation:
        return Trigger(SPEC_CHANGED)
    requests = _requests_of(fleet)
    is_new = fleet.annotation(REQUESTED_AT) not in ("", memory.request)
    age = (now - memory.whole_at).total_seconds()
    if not is_new or not requests or age > _LONGEST_WITHOUT_READING * fleet.interval_seconds:
        return Trigger(INTERVAL)
    return Trigger(",".join(one for one in REQUESTS if one in requests), requests)


def _requests_of(fleet: PowerFleet) -> frozenset[str]:
    given: t.Iterable[str] = fleet.annotation(REQUESTED_FOR)[:100].split(",")
    return frozenset(one.strip() for one in given) & frozenset(REQUESTS)
