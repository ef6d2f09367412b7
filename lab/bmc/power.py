# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The power of one machine: its states over time, its draw, and its BMC's answers to resets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace

from lab.bmc.errors import Refusal, unavailable
from lab.bmc.odata import Json
from lab.machines import SERVER_TYPES
from lab.physics import Truth

STANDBY_WATTS = 8.0
# Fans and processors run at full speed for most of a boot.
BOOT_SHARE_OF_IDLE = 1.6
RETRY_SECONDS = 10.0

COMMON = ("On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi")
_STARTING = frozenset({"On", "ForceOn"})
_STOPPING = frozenset({"ForceOff", "GracefulShutdown"})


@dataclass(frozen=True)
class ResetStyle:
    """Reset types and answers of one vendor's BMC.

    `types` are listed in the system or, with `in_action_info`, in a resource of their own. A machine
    that has the state answers `already` (status, registry, message); without it nothing is checked.
    With `transitions` the BMC tells PoweringOn and PoweringOff. It refuses to switch on within
    `rest_seconds` of a power-off. `busy` is the answer while it is not ready.
    """

    types: tuple[str, ...] = COMMON
    in_action_info: bool = False
    transitions: bool = False
    status: int = 204
    already: tuple[int, str, str] | None = None
    rest_seconds: float = 0.0
    busy: tuple[int, str, str] | None = None

    @property
    def offered(self) -> set[str]:
        """The types that the BMC accepts; two may be fused in one text of the list."""
        fused = {"GracefulShutdownGracefulRestart": ("GracefulShutdown", "GracefulRestart")}
        return {one for listed in self.types for one in fused.get(listed, (listed,))}


@dataclass(frozen=True)
class Times:
    """Seconds of the machine's transitions. `power_on` is the time that PoweringOn is told."""

    boot: float = 120.0
    power_on: float = 5.0
    shutdown: float = 30.0
    force_off: float = 3.0

    def scaled(self, factor: float) -> Times:
        return Times(*(seconds * factor for seconds in astuple(self)))


@dataclass(frozen=True)
class Troubles:
    """What is wrong with the machine's power; see lab/conditions.py."""

    ignores_shutdown: bool = False
    refuses_force_off: bool = False
    lies: bool = False
    has_no_reset: bool = False
    busy_seconds: float = 0.0
    fails_boot: bool = False
    late_seconds: float = 0.0


@dataclass
class MachinePower:
    """The power of one machine. `now` is always Unix time (s), so tests need not wait.

    `resets` are the accepted requests by type, in their order. The `factor` of the times applies
    to the rest between a power-off and the next start. A boot lasts as its start decided.
    """

    times: Times = field(default_factory=Times)
    factor: float = 1.0
    resets: list[str] = field(default_factory=list)
    _is_on: bool = True
    _since: float = float("-inf")
    _boot_seconds: float = 0.0
    _due: float | None = None
    _busy_since: float | None = None

    @classmethod
    def of(cls, server_type: str, factor: float) -> MachinePower:
        """A machine of this type, whose usual times are multiplied by the factor."""
        usual = Times(boot=SERVER_TYPES[server_type].boot_seconds)
        return cls(usual.scaled(factor), factor)

    def is_on(self, now: float) -> bool:
        """Whether the machine is powered."""
        self._settle(now)
        return self._is_on

    def is_up(self, now: float) -> bool:
        """Whether the operating system runs."""
        return self.is_on(now) and now - self._since >= self._boot_seconds

    def shown(self, style: ResetStyle, troubles: Troubles, now: float) -> str:
        """PowerState as the BMC tells it."""
        if troubles.lies:
            return "On"
        if not self.is_on(now):
            return "Off"
        if style.transitions and self._due is not None:
            return "PoweringOff"
        if style.transitions and now - self._since < self.times.power_on:
            return "PoweringOn"
        return "On"

    def felt(self, truth: Truth, idle_watts: float, now: float) -> Truth:
        """The physical state with this power: standby when off, more than idle during a boot."""
        if not self.is_on(now):
            return replace(truth, power_watts=STANDBY_WATTS, cpu_cores=0.0)
        if not self.is_up(now):
            return replace(truth, power_watts=idle_watts * BOOT_SHARE_OF_IDLE, cpu_cores=0.0)
        return truth

    def reset(self, style: ResetStyle, kind: str, troubles: Troubles, now: float) -> None:
        """Obey a reset. Raises Refusal."""
        self._require_ready(style, troubles, now)
        if kind not in style.offered:
            raise Refusal(400, "ActionParameterValueNotInList", (kind, "ResetType", "Reset"))
        is_on = self.is_on(now)
        if style.already is not None and kind in (_STOPPING if not is_on else _STARTING):
            status, registry, message = style.already
            raise Refusal(status, message, registry=registry)
        rest_seconds = style.rest_seconds * self.factor
        if kind in _STARTING and not is_on and now - self._since < rest_seconds:
            raise Refusal(409, "ActionParameterValueConflict", ("ResetType", kind))
        if kind == "ForceOff" and troubles.refuses_force_off:
            raise Refusal(400, "OperationFailed")
        self.resets.append(kind)
        self._obey(kind, troubles, is_on, now)

    def press_button(self, troubles: Troubles, now: float) -> None:
        """A person switches the machine on at its front; no effect if it is on."""
        if not self.is_on(now):
            self._start(troubles, now)

    def _require_ready(self, style: ResetStyle, troubles: Troubles, now: float) -> None:
        if not troubles.busy_seconds:
            self._busy_since = None
            return
        if self._busy_since is None:
            self._busy_since = now
        if now - self._busy_since < troubles.busy_seconds:
            if style.busy is None:
                raise unavailable(RETRY_SECONDS)
            status, registry, message = style.busy
            raise Refusal(status, message, registry=registry)

    def _obey(self, kind: str, troubles: Troubles, is_on: bool, now: float) -> None:
        if kind in _STARTING and not is_on:
            self._start(troubles, now)
        elif kind == "ForceOff" and is_on:
            self._due = min(self._due or now + self.times.force_off, now + self.times.force_off)
        elif kind == "GracefulShutdown" and is_on and not troubles.ignores_shutdown:
            self._due = self._due or now + self.times.shutdown
        elif kind in ("ForceRestart", "GracefulRestart", "PowerCycle") and is_on:
            self._start(troubles, now)

    def _start(self, troubles: Troubles, now: float) -> None:
        self._is_on, self._since, self._due = True, now, None
        usual = self.times.boot + troubles.late_seconds
        self._boot_seconds = float("inf") if troubles.fails_boot else usual

    def _settle(self, now: float) -> None:
        if self._due is not None and now >= self._due:
            self._is_on, self._since, self._due = False, self._due, None


def actions(style: ResetStyle, system_path: str) -> Json:
    """The member Actions of a ComputerSystem."""
    reset: Json = {"target": f"{system_path}/Actions/ComputerSystem.Reset"}
    if style.in_action_info:
        reset["@Redfish.ActionInfo"] = f"{system_path}/ResetActionInfo"
    else:
        reset["ResetType@Redfish.AllowableValues"] = list(style.types)
    return {"#ComputerSystem.Reset": reset}


def action_info(path: str, types: Sequence[str]) -> Json:
    """The ActionInfo of a reset."""
    parameter = {
        "Name": "ResetType",
        "Required": True,
        "DataType": "String",
        "AllowableValues": list(types),
    }
    return {
        "@odata.id": path,
        "@odata.type": "#ActionInfo.v1_1_2.ActionInfo",
        "Id": "ResetActionInfo",
        "Name": "Reset Action Info",
        "Parameters": [parameter],
    }
