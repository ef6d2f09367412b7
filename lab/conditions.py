# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults and time of the lab, in one file that every simulator reads.

Only the BMC simulator's admin API writes it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lab.errors import LabError
from lab.state import LabState

DEAD_BMC = "dead-bmc"
SLOW_BMC = "slow-bmc"
UNAUTHORIZED = "unauthorized"
UNAVAILABLE = "unavailable"
MALFORMED_JSON = "malformed-json"
NULL_READING = "null-reading"
WRONG_CERTIFICATE = "wrong-certificate"
CHANGED_CERTIFICATE = "changed-certificate"
LOCKED_ACCOUNT = "locked-account"
PRESSURE_EMPTY = "pressure-empty"
SHUTDOWN_IGNORED = "shutdown-ignored"
FORCE_OFF_REFUSED = "force-off-refused"
POWER_STATE_STUCK = "power-state-stuck"
RESET_MISSING = "reset-missing"
RESET_BUSY = "reset-busy"
BOOT_FAILS = "boot-fails"
BOOT_LATE = "boot-late"
RMD_DEAD = "rmd-dead"
RMD_SLOW = "rmd-slow"
RMD_GARBAGE = "rmd-garbage"
RMD_POOL_EXHAUSTED = "rmd-pool-exhausted"
RMD_DATABASE_LOST = "rmd-database-lost"

# Kind → effect; `lab fault --help` shows this.
MACHINE_FAULTS: Mapping[str, str] = MappingProxyType(
    {
        DEAD_BMC: "connections are refused; with --silent accepted and never answered",
        SLOW_BMC: "every answer takes --seconds (10) longer",
        UNAUTHORIZED: "HTTP 401 whatever the credentials",
        UNAVAILABLE: "HTTP 503 with Retry-After: --seconds (30)",
        MALFORMED_JSON: "bodies break off in the middle",
        NULL_READING: "every temperature and power reading is null",
        WRONG_CERTIFICATE: "TLS with a certificate of another machine",
        CHANGED_CERTIFICATE: "TLS with a new self-signed certificate",
        LOCKED_ACCOUNT: "HTTP 401 as after too many wrong passwords, until cleared",
        PRESSURE_EMPTY: "the pressure API knows no sensor of the node",
        SHUTDOWN_IGNORED: "the operating system ignores a graceful shutdown",
        FORCE_OFF_REFUSED: "HTTP 400 to a forced power-off",
        POWER_STATE_STUCK: "PowerState is On, whatever the machine does",
        RESET_MISSING: "the system has no Reset action",
        RESET_BUSY: "the BMC is not ready for resets for --seconds (30)",
        BOOT_FAILS: "the next boots never end, although the machine is powered",
        BOOT_LATE: "the next boots take --seconds (60) longer",
    }
)
# Faults of the RMD daemons, kept by their own admin API.
RMD_FAULTS: Mapping[str, str] = MappingProxyType(
    {
        RMD_DEAD: "connections are refused; with --silent accepted and never answered",
        RMD_SLOW: "every answer takes --seconds (10) longer",
        RMD_GARBAGE: "bodies break off in the middle",
        RMD_POOL_EXHAUSTED: "somebody else's group holds all ways of the pools",
        RMD_DATABASE_LOST: "the daemon restarts without its database; its groups stay",
    }
)
DEFAULT_SECONDS: Mapping[str, float] = MappingProxyType(
    {SLOW_BMC: 10.0, UNAVAILABLE: 30.0, RESET_BUSY: 30.0, BOOT_LATE: 60.0, RMD_SLOW: 10.0}
)


@dataclass(frozen=True)
class Fault:
    """One fault of one machine; `seconds` and `silent` as in MACHINE_FAULTS."""

    kind: str
    node: str
    seconds: float = 0.0
    silent: bool = False

    @classmethod
    def parse(
        cls, document: Any, nodes: Container[str], kinds: Mapping[str, str] = MACHINE_FAULTS
    ) -> Fault:
        """From JSON; LabError if the kind, the node or another field is unknown."""
        if not isinstance(document, Mapping) or document.get("kind") not in kinds:
            raise LabError(f"{document!r} is not a fault; its kind is one of {', '.join(kinds)}.")
        if str(document.get("node")) not in nodes:
            raise LabError(f"There is no machine {document.get('node')!r} in this lab.")
        kind, node = document["kind"], document["node"]
        try:
            seconds = float(document.get("seconds") or DEFAULT_SECONDS.get(kind, 0.0))
        except (TypeError, ValueError):
            raise LabError(f"The seconds of {kind} on {node} are not a number.") from None
        if not 0.0 <= seconds < float("inf"):
            raise LabError(f"The seconds of {kind} on {node} must be finite and not negative.")
        return cls(kind, node, seconds, bool(document.get("silent", False)))


@dataclass(frozen=True)
class Conditions:
    """The faults, and a clock that can be moved and stopped (Unix seconds)."""

    faults: tuple[Fault, ...] = ()
    offset_seconds: float = 0.0
    frozen_at: float | None = None

    def now(self) -> float:
        return time.time() + self.offset_seconds if self.frozen_at is None else self.frozen_at

    def fault(self, kind: str, node: str) -> Fault | None:
        return self._faults.get((kind, node))

    @cached_property
    def _faults(self) -> dict[tuple[str, str], Fault]:
        return {(fault.kind, fault.node): fault for fault in self.faults}


class ConditionsFile:
    """Rereads the file after changes; without a file there are no faults."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._version: tuple[int, int] | None = None
        self._conditions = Conditions()

    @classmethod
    def of(cls, state: LabState) -> ConditionsFile:
        return cls(state.run / "conditions.json")

    def read(self) -> Conditions:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return Conditions()
        version = (status.st_mtime_ns, status.st_ino)
        if version != self._version:
            document = json.loads(self.path.read_text())
            faults = tuple(Fault(**fault) for fault in document.pop("faults"))
            self._conditions = Conditions(faults, **document)
            self._version = version
        return self._conditions

    def write(self, conditions: Conditions) -> None:
        temporary = self.path.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(conditions)))
        temporary.replace(self.path)
