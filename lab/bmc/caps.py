# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power limits of a machine, at the places and with the quirks of each vendor's BMC."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

from lab.bmc.errors import Refusal
from lab.bmc.live import MAX_WATTS, MIN_WATTS, PowerCap
from lab.bmc.odata import Json, link, resource

_UNUSED_WATTS = 278


Patch = Callable[[PowerCap, Json], None]


@dataclass(frozen=True)
class CapStyle:
    """One vendor's place of the limit: the path to PATCH, and what a PATCH does.

    `needs_tag` refuses a PATCH without If-Match (428); `refuses_tags` one with (412).
    """

    path: str
    patch: Patch
    needs_tag: bool = False
    refuses_tags: bool = False


def tag_of(body: Json) -> str:
    return f'W/"{zlib.crc32(repr(body).encode()):08X}"'


def dell_attributes(path: str, cap: PowerCap) -> Json:
    """The real switch of an iDRAC; its Power resource shows a limit that is not in force."""
    return resource(path, "DellAttributes.v1_0_0.DellAttributes", "OEMAttributeRegistry") | {
        "Attributes": {
            "ServerPwr.1.PowerCapSetting": "Enabled" if cap.enabled else "Disabled",
            "ServerPwr.1.PowerCapValue": cap.watts,
            "ServerPwr.1.PowerCapMinThres": MIN_WATTS,
            "ServerPwr.1.PowerCapMaxThres": MAX_WATTS,
        }
    }


def patch_dell(cap: PowerCap, body: Json) -> None:
    attributes = body.get("Attributes") or {}
    if "ServerPwr.1.PowerCapValue" in attributes:
        was_enabled = cap.enabled
        cap.set(attributes["ServerPwr.1.PowerCapValue"])
        cap.enabled = was_enabled
    if "ServerPwr.1.PowerCapSetting" in attributes:
        cap.enabled = attributes["ServerPwr.1.PowerCapSetting"] == "Enabled"


def dell_power_limit(cap: PowerCap) -> Json:
    watts = cap.watts if cap.enabled else _UNUSED_WATTS
    return {"LimitInWatts": watts, "LimitException": "HardPowerOff", "CorrectionInMs": 0}


def power_limit(cap: PowerCap) -> Json:
    """A PowerLimit that is null when it is off."""
    return {"LimitInWatts": cap.watts if cap.enabled else None, "LimitException": None}


def patch_power_limit(cap: PowerCap, body: Json) -> None:
    """The first entry of PowerControl counts; null ends the limit."""
    entries = body.get("PowerControl")
    given = entries[0].get("PowerLimit") if isinstance(entries, list) and entries else None
    if not isinstance(given, dict) or "LimitInWatts" not in given:
        raise Refusal(400, "PropertyMissing", ("PowerLimit",))
    if given["LimitInWatts"] is None:
        cap.enabled = False
    else:
        cap.set(given["LimitInWatts"])


def refuse_patch(cap: PowerCap, body: Json) -> None:
    raise Refusal(405, "OperationNotAllowed", (), {"Allow": "GET, HEAD"})


def lenovo_control(path: str, chassis: str, cap: PowerCap) -> Json:
    return resource(path, "Control.v1_5_0.Control", "Power Limit") | {
        "ControlType": "Power",
        "SetPointUnits": "W",
        "SetPoint": cap.watts if cap.enabled else None,
        "AllowableMin": 0,
        "AllowableMax": MAX_WATTS,
        "ControlMode": "Manual" if cap.enabled else "Disabled",
        "RelatedItem": [link(chassis)],
    }


def patch_lenovo(cap: PowerCap, body: Json) -> None:
    """Manual with a number, or Disabled with null; nothing else."""
    mode, watts = body.get("ControlMode"), body.get("SetPoint")
    if mode == "Disabled" and "SetPoint" in body and watts is None:
        cap.enabled = False
    elif mode == "Manual" and watts is not None:
        cap.set(watts)
    else:
        raise Refusal(400, "PropertyValueConflict", ("ControlMode", "SetPoint"))


def openbmc_limit(cap: PowerCap) -> Json:
    return {
        "SetPoint": cap.watts,
        "AllowableMin": MIN_WATTS,
        "AllowableMax": MAX_WATTS,
        "ControlMode": "Automatic" if cap.enabled else "Disabled",
    }


def patch_openbmc(cap: PowerCap, body: Json) -> None:
    """ControlMode is Automatic or Disabled; a set point alone does not enable the limit."""
    given = body.get("PowerLimitWatts") or {}
    mode = given.get("ControlMode")
    if mode not in (None, "Automatic", "Disabled"):
        raise Refusal(400, "PropertyValueNotInList", (str(mode), "ControlMode"))
    if "SetPoint" in given:
        was_enabled = cap.enabled
        cap.set(given["SetPoint"])
        cap.enabled = was_enabled
    if mode is not None:
        cap.enabled = mode == "Automatic"
