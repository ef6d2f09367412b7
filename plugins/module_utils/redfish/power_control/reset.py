# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The reset action of a computer system, and its power state.

Sources: Redfish ComputerSystem 1.28 and Resource (PowerState, ResetType); Fujitsu iRMC S6 Redfish
API (FTSComputerSystem.Reset).
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, replace

from ...base.fields.lenient import member, objects, text
from ...base.json_types import Object
from ..links import identity, link

PowerState = t.Literal["On", "Off", "PoweringOn", "PoweringOff", "Paused"]
Purpose = t.Literal["on", "graceful_off", "force_off"]

_POWER_STATES: dict[str, PowerState] = {state.lower(): state for state in t.get_args(PowerState)}
_MAX_VALUES = 64
_STANDARD, _OF_FUJITSU = "#ComputerSystem.Reset", "#FTSComputerSystem.Reset"

# The only value of each purpose by the action's parameter; no other one replaces it.
_VALUES: dict[str, dict[Purpose, str]] = {
    "ResetType": {"on": "On", "graceful_off": "GracefulShutdown", "force_off": "ForceOff"},
    "FTSResetType": {"on": "PowerOn", "graceful_off": "GracefulPowerOff", "force_off": "PowerOff"},
    # Metal3 decides itself between a graceful and a forced shutdown.
    "spec.online": {"on": "true", "graceful_off": "false", "force_off": "false"},
}
_RESET_TYPES = (
    *("On", "ForceOn", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi"),
    *("PushPowerButton", "PowerCycle", "FullPowerCycle", "Suspend", "Pause", "Resume"),
)
# A Supermicro BMC has GracefulShutdownGracefulRestart in one text (bmclib, smc_1.14.0).
_LONGEST_FIRST = "|".join(sorted(_RESET_TYPES, key=len, reverse=True))
_FUSED = re.compile(rf"(?:{_LONGEST_FIRST})+", re.IGNORECASE)
_EACH = re.compile(_LONGEST_FIRST, re.IGNORECASE)


def power_state_of(value: t.Any) -> PowerState | None:
    """A PowerState in any case and with blanks; None for null and unknown ones."""
    return _POWER_STATES.get(re.sub(r"[\s_-]", "", text(value)).lower())


@dataclass(frozen=True)
class ResetAction:
    """The action that switches a system, with the values that the BMC allows now.

    ``values`` None means that only the resource ``action_info`` lists them, or nothing does.
    """

    target: str
    parameter: str
    values: frozenset[str] | None
    action_info: str = ""

    def reset_type(self, purpose: Purpose) -> str | None:
        """The reset type for the purpose in the BMC's spelling if it is allowed, else None."""
        name = self.name_of(purpose)
        spellings = {value for value in self.values or () if value.lower() == name.lower()}
        return name if name in spellings else min(spellings, default=None)

    def name_of(self, purpose: Purpose) -> str:
        """The reset type for the purpose, whether it is allowed or not."""
        return _VALUES[self.parameter][purpose]

    def with_info(self, body: Object) -> ResetAction:
        """The action with the values of its ActionInfo resource."""
        values = next(
            (
                _values(parameter.get("AllowableValues"))
                for parameter in objects(body.get("Parameters"))
                if text(parameter.get("Name")).lower() == self.parameter.lower()
            ),
            None,
        )
        return replace(self, values=values)


def reset_action_of(system: Object) -> ResetAction | None:
    """The reset action of a ComputerSystem; None if it has none.

    It may be in a vendor's block. Older firmware of Fujitsu has only an action of its own, which
    takes other values.
    """
    uri, actions = identity(link(system)), member(system, "Actions")
    own = list(_of_vendors(member(actions, "Oem")))
    of_vendor = next((one for name, one in own if name == _STANDARD), None)
    given = member(actions, _STANDARD) or of_vendor
    standard = _action(given, "ResetType", uri, "Actions/ComputerSystem.Reset")
    if standard is not None and standard.values is not None:
        return standard
    given = next((one for name, one in own if name.endswith(_OF_FUJITSU)), None)
    fujitsu = _action(given, "FTSResetType", uri, "Actions/Oem/FTSComputerSystem.Reset")
    return fujitsu or standard


def _of_vendors(actions: t.Any) -> t.Iterator[tuple[str, t.Any]]:
    """Vendors' actions by their names, which may begin with the URL of a schema."""
    for name, one in actions.items() if isinstance(actions, dict) else ():
        yield text(name), one
        for inner, action in one.items() if isinstance(one, dict) else ():
            yield text(inner), action


def _action(given: t.Any, parameter: str, system: str, usual_target: str) -> ResetAction | None:
    if not isinstance(given, dict):
        return None
    target = _below(system, link(given.get("target")) or usual_target)
    values = _values(given.get(f"{parameter}@Redfish.AllowableValues"))
    info = _below(system, link(given.get("@Redfish.ActionInfo")))
    return ResetAction(target, parameter, values, info)


def _below(system: str, uri: str) -> str:
    """A reference of a system; one without a path from the root is below the system."""
    is_relative = re.match(r"/|redfish/|[a-z]+:", uri, re.IGNORECASE) is None
    return f"{system}/{uri}" if uri and is_relative else uri


def _values(given: t.Any) -> frozenset[str] | None:
    """The allowed values; None without a list, or with an empty one."""
    items = given if isinstance(given, list) else []
    found = {
        value
        for item in items[:_MAX_VALUES]
        for part in re.split(r"[\s,;|]+", text(item))
        for value in (_EACH.findall(part) if _FUSED.fullmatch(part) else [part])
        if value
    }
    return frozenset(found) or None
