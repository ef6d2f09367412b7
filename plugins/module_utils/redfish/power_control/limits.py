# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power limits of whole servers: their places in a BMC's tree, and the changes that set them.

Sources: Redfish Control 1.8, EnvironmentMetrics 1.1 and Power; the guides of iDRAC9, iLO 5 and XCC2;
bmcweb; Cray's power capping daemon.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ...base.errors import TargetFailure
from ...base.fields.lenient import member, number, text
from ...base.json_types import Object
from .. import parts
from ..discovery import SYSTEMS, Chassis, Survey, nothing_found
from ..links import identity, last_segment, link, links
from ..power import MAX_WATTS, server_controls
from ..systems import is_server
from ..tree import ROOT, Tree
from ..walk import require_one_server

Place = t.Literal["dell_attributes", "control", "environment_metrics", "power_control"]

_MAX_CONTROLS, _MAX_SYSTEMS = 32, 16
_DELL_SETTING, _DELL_VALUE = "ServerPwr.1.PowerCapSetting", "ServerPwr.1.PowerCapValue"
_DELL_BOUNDS = ("ServerPwr.1.PowerCapMinThres", "ServerPwr.1.PowerCapMaxThres")
_DELL_ATTRIBUTES = (
    "/redfish/v1/Managers/iDRAC.Embedded.1/Oem/Dell/DellAttributes/System.Embedded.1",
    "/redfish/v1/Managers/System.Embedded.1/Attributes",
)
_NO_LIMIT = 32_767.0
_UNIT = re.compile(r"(?<=[\d\s.])w(?:atts?)?\s*$", re.IGNORECASE)
_IN_FORCE = ("Automatic", "Override", "Manual")


@dataclass(frozen=True)
class PowerLimit:
    """The limit at one place. ``watts`` None means that none is in force.

    ``problem`` is why it cannot be set. ``position`` is that of the server's PowerControl, ``mode``
    the ControlMode of a limit in force. ``trigger`` is an action that must follow a change.
    """

    place: Place
    uri: str
    vendor: str
    watts: float | None
    min_watts: float | None = None
    max_watts: float | None = None
    mode: str = ""
    position: int = 0
    problem: str = ""
    trigger: str = ""

    def is_at(self, watts: float | None) -> bool:
        """Whether exactly this limit is in force; None is no limit."""
        if watts is None or self.watts is None:
            return watts is self.watts
        return abs(self.watts - watts) < 0.5

    def require_possible(self, watts: float | None) -> None:
        """Raise TargetFailure for a limit outside of the BMC's bounds, or one that cannot be set."""
        if watts is None:
            return
        low, high = self.min_watts, self.max_watts
        if (low is not None and watts < low) or (high is not None and watts > high):
            bounds = f"{low or 0:g} W or more" if high is None else f"{low or 0:g} to {high:g} W"
            raise TargetFailure(
                "refused",
                f"the limit {watts:g} W is outside of the bounds of {self.uri}, {bounds}, so that "
                "nothing was sent; give a limit within them",
            )
        if self.problem:
            raise TargetFailure("refused", f"{self.uri}: {self.problem}")

    def changes(self, watts: float | None) -> list[Object]:
        """The bodies of a PATCH that sets the limit, the likeliest first."""
        given = None if watts is None else int(watts) if watts == int(watts) else watts
        if self.place == "dell_attributes":
            if given is None:
                return [{"Attributes": {_DELL_SETTING: "Disabled"}}]
            return [{"Attributes": {_DELL_SETTING: "Enabled", _DELL_VALUE: given}}]
        if self.place == "power_control":
            # The schema ends a limit by null, and many vendors by 0.
            return [
                self._of_power_control(one) for one in ([None, 0] if given is None else [given])
            ]
        settings = self._settings(given)
        if self.place == "environment_metrics":
            return [{"PowerLimitWatts": one} for one in settings]
        return settings

    def _of_power_control(self, watts: float | None) -> Object:
        """The position in the list is that of the control."""
        entries: list[Object] = [{} for _index in range(self.position)]
        return {"PowerControl": [*entries, {"PowerLimit": {"LimitInWatts": watts}}]}

    def _settings(self, watts: float | None) -> list[Object]:
        is_lenovo = self.vendor.lower().startswith("lenovo")
        if watts is not None:
            return [{"ControlMode": self.mode, "SetPoint": watts}]
        both = {"ControlMode": "Disabled", "SetPoint": None}
        return [both] if is_lenovo else [{"ControlMode": "Disabled"}, both, {"SetPoint": None}]


async def find_limit(tree: Tree, found: Survey, system: str, body: Object) -> PowerLimit:
    """The limit of the server at the place that its BMC obeys. Raises TargetFailure.

    ``system`` and ``body`` are the URI of its system and that resource.
    """
    vendor = found.vendor or ""
    whole = await _own_chassis(tree, found, system, body)
    require_one_server(whole)
    readers = [_of_controls, _of_environment, _of_power]
    if vendor.lower().startswith("dell"):
        managers = links(member(body, "Links", "ManagedBy"))
        for uri in [*await _dell_attributes(tree, managers), *_DELL_ATTRIBUTES]:
            limit = of_dell_attributes(uri, await tree.read(uri) or {})
            if limit is not None:
                return limit
        # Its PowerLimit shows a limit though none is in force.
        readers = readers[:2]
    for chassis in whole:
        for read in readers:
            limit = await read(tree, chassis, vendor)
            if limit is not None:
                return limit
    raise nothing_found(tree, "power limit of the whole server", "not_found")


async def _own_chassis(tree: Tree, found: Survey, system: str, body: Object) -> list[Chassis]:
    """The chassis of this server and of no other one. Raises TargetFailure."""
    root = await tree.read(ROOT) or {}
    members = await tree.members(link(root.get("Systems")) or SYSTEMS) or []
    bodies = {identity(uri): await tree.read(uri) or {} for uri in members[:_MAX_SYSTEMS]}
    bodies.pop(identity(system), None)
    others = {uri: other for uri, other in bodies.items() if is_server((uri, other))}
    whole = [one for one in found.whole if _is_of_any(one, {identity(system): body})]
    if not others:
        return whole or found.whole
    alone = [one for one in whole if not _is_of_any(one, others)]
    if not alone:
        raise TargetFailure(
            "not_found",
            f"no chassis is known to hold {system} alone, because the BMC has other servers too; "
            "limit the enclosure in another way",
        )
    return alone


def _is_of_any(chassis: Chassis, systems: t.Mapping[str, Object]) -> bool:
    """Whether a chassis holds one of the systems, by a link in either direction."""
    linked = (links(member(body, "Links", "Chassis")) for body in systems.values())
    uris = {identity(uri) for one in linked for uri in one}
    return bool(chassis.systems & systems.keys()) or identity(chassis.uri) in uris


async def read_limit(tree: Tree, known: PowerLimit) -> PowerLimit:
    """The same limit again. Raises TargetFailure."""
    body = await tree.require(known.uri) or {}
    if known.place == "dell_attributes":
        limit = of_dell_attributes(known.uri, body)
    elif known.place == "control":
        limit = of_control(known.uri, body, known.vendor)
    elif known.place == "environment_metrics":
        limit = of_environment(known.uri, body, known.vendor)
    else:
        limit = of_power(known.uri, body, known.vendor)
    if limit is None:
        raise TargetFailure("malformed", f"{known.uri} has no power limit any more; try again")
    return limit


async def _dell_attributes(tree: Tree, managers: t.Sequence[str]) -> list[str]:
    found = [
        uri
        for manager in managers[:4]
        for uri in links(member(await tree.read(manager), "Links", "Oem", "Dell", "DellAttributes"))
    ]
    return [uri for uri in found if last_segment(identity(uri)) == "System.Embedded.1"]


async def _of_controls(tree: Tree, chassis: Chassis, vendor: str) -> PowerLimit | None:
    uri = chassis.link("Controls")
    for place in (await tree.members(uri) or [] if uri else [])[:_MAX_CONTROLS]:
        limit = of_control(place, await tree.read(place) or {}, vendor)
        if limit is not None:
            return limit
    return None


async def _of_environment(tree: Tree, chassis: Chassis, vendor: str) -> PowerLimit | None:
    uri = chassis.link("EnvironmentMetrics")
    return of_environment(uri, await tree.read(uri) or {}, vendor)


async def _of_power(tree: Tree, chassis: Chassis, vendor: str) -> PowerLimit | None:
    uri = chassis.link("Power")
    return of_power(uri, await tree.read(uri) or {}, vendor)


def of_dell_attributes(uri: str, body: Object) -> PowerLimit | None:
    """Dell's switch of the limit, which LimitInWatts does not show."""
    attributes = member(body, "Attributes")
    setting = text(member(attributes, _DELL_SETTING))
    if not setting:
        return None
    value = _watts(member(attributes, _DELL_VALUE))
    low, high = _bounds(*(member(attributes, name) for name in _DELL_BOUNDS))
    is_enabled = setting.lower() == "enabled"
    return PowerLimit("dell_attributes", uri, "Dell", value if is_enabled else None, low, high)


def of_control(uri: str, body: Object, vendor: str) -> PowerLimit | None:
    """The limit of a Control of the power of the whole server."""
    if text(body.get("ControlType")).lower() != "power" or parts.of_entry(body) == "part":
        return None
    return _of_settings("control", uri, body, vendor)


def of_environment(uri: str, body: Object, vendor: str) -> PowerLimit | None:
    """The limit in the EnvironmentMetrics of a chassis."""
    settings = member(body, "PowerLimitWatts")
    if not isinstance(settings, dict) or parts.is_below_part(uri):
        return None
    if settings.keys().isdisjoint({"SetPoint", "ControlMode"}):
        return None
    return _of_settings("environment_metrics", uri, settings, vendor)


def _of_settings(place: Place, uri: str, settings: Object, vendor: str) -> PowerLimit:
    mode, watts = text(settings.get("ControlMode")), _watts(settings.get("SetPoint"))
    units = text(settings.get("SetPointUnits"))
    problem = ""
    if units.lower() not in ("", "w", "watt", "watts"):
        problem = f"the set point is in {units}, not in W; set it there"
    low, high = _bounds(settings.get("AllowableMin"), settings.get("AllowableMax"))
    return PowerLimit(
        place,
        uri,
        vendor,
        None if mode.lower() == "disabled" or problem else watts,
        low,
        high,
        mode=_mode_in_force(mode, settings.get("ControlMode@Redfish.AllowableValues"), vendor),
        problem=problem,
    )


def _mode_in_force(mode: str, allowed: t.Any, vendor: str) -> str:
    """The ControlMode of a limit in force; vendors mean different things by the same words."""
    preferred = ("Manual", *_IN_FORCE) if vendor.lower().startswith("lenovo") else _IN_FORCE
    values = allowed if isinstance(allowed, list) else []
    listed = next((one for one in preferred if one in values), None)
    return listed or (mode if mode in _IN_FORCE else preferred[0])


def of_power(uri: str, body: Object, vendor: str) -> PowerLimit | None:
    """The limit of the server's control in a Power resource."""
    controls = [one for one in server_controls(body) if isinstance(one.get("PowerLimit"), dict)]
    if not controls:
        return None
    limit: Object = controls[0]["PowerLimit"]
    position = next(index for index, one in enumerate(body["PowerControl"]) if one is controls[0])
    watts = _watts(limit.get("LimitInWatts"))
    problem = ""
    if text(limit.get("LimitException")).lower() == "hardpoweroff":
        problem = (
            "LimitException is HardPowerOff, so that the machine would be powered off above the "
            "limit; set LimitException to NoAction first"
        )
    actions = member(body, "Actions")
    given = list(actions.values()) if isinstance(actions, dict) else []
    triggers = [link(member(action, "target")) for action in given]
    return PowerLimit(
        "power_control",
        uri,
        vendor,
        watts,
        position=position,
        problem=problem,
        # Gigabyte's; it has the values Activate and Deactivate.
        trigger=next((one for one in triggers if one.endswith("/LimitTrigger")), ""),
    )


def _watts(value: t.Any) -> float | None:
    """A number or a text in W; None for no limit, which is also 0 and a number of iDRACs."""
    found = number(_UNIT.sub("", value) if isinstance(value, str) else value)
    return found if found is not None and 0 < found <= MAX_WATTS and found != _NO_LIMIT else None


def _bounds(low: t.Any, high: t.Any) -> tuple[float | None, float | None]:
    """The bounds in W; None without one, and if they contradict each other."""
    least, most = _watts(low), _watts(high)
    return (None, None) if least and most and least > most else (least, most)
