# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Redfish reader of the usual kind, kept to show that the simulated trees are hard.

It tries the URIs built into WAO, then the first chassis, believes the first sensor whose name
contains "Inlet", and takes null for 0.
"""

from __future__ import annotations

from lab.embedded import EmbeddedLab
from lab.machines import Machine
from support.bmc_client import BmcClient

IDRAC = "/redfish/v1/Chassis/System.Embedded.1/Sensors/SystemBoardInletTemp"
XCLARITY = "/redfish/v1/Chassis/1/Sensors/128L0"
SUPERMICRO = "/redfish/v1/Chassis/1/Thermal"


class NaiveFailure(Exception):
    """The reader found no value."""


def read_inlet(lab: EmbeddedLab, machine: Machine) -> float:
    """The inlet temperature in °C according to the reader; raises NaiveFailure."""
    with BmcClient(lab, machine) as bmc:
        found = _built_in(bmc)
        return _first_chassis(bmc) if found is None else found


def _built_in(bmc: BmcClient) -> float | None:
    idrac = bmc.get(IDRAC)
    if idrac.status == 200:
        return float(idrac.body["Reading"] or 0)
    xclarity = bmc.get(XCLARITY)
    if xclarity.status == 200 and xclarity.body["Name"] == "Ambient Temp":
        return float(xclarity.body["Reading"] or 0)
    supermicro = bmc.get(SUPERMICRO)
    for entry in (supermicro.body or {}).get("Temperatures", []):
        if entry["Name"] == "System Temp":
            return float(entry["ReadingCelsius"] or 0)
    return None


def _first_chassis(bmc: BmcClient) -> float:
    chassis = bmc.get("/redfish/v1/Chassis").body["Members"][0]["@odata.id"]
    thermal = bmc.get(f"{chassis}/Thermal")
    if thermal.status != 200:
        raise NaiveFailure(f"{chassis}/Thermal answers {thermal.status}")
    for entry in thermal.body["Temperatures"]:
        if "Inlet" in entry["Name"]:
            return float(entry["ReadingCelsius"] or 0)
    raise NaiveFailure(f"no Inlet in {chassis}/Thermal")
