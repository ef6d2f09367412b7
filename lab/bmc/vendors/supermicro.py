# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Supermicro H11: all values are in Thermal and Power; there are no Sensors.

Traps: "Inlet Temp" is absent and reads 0, and "Inlet Temp 2" measures the air; "System Temp" is a
board sensor, some 9 °C too warm; a RAID enclosure is the first chassis and answers 503 until its
controller is up; the service root offers no queries and `$expand` is ignored.
"""

from __future__ import annotations

from lab.bmc.caps import CapStyle, power_limit, refuse_patch
from lab.bmc.hardware import Layout
from lab.bmc.live import Live
from lab.bmc.odata import (
    ROOT,
    Json,
    Sensor,
    air,
    fan,
    link,
    links,
    power_control,
    power_supplies,
    resource,
    steady,
    thermal,
)
from lab.bmc.power import ResetStyle
from lab.bmc.service import Identity, main_chassis, service
from lab.bmc.tree import Answers, Tree, with_context

RAID = "HA-RAID.0.StorageEnclosure.0"
IDENTITY = Identity(
    manufacturer="Supermicro",
    redfish_version="1.8.0",
    system="1",
    manager="1",
    firmware="01.02.06",
    main="1",
    chassis=(RAID, "1"),
    layout=Layout(bus="chassis", switch=("SR_IOVSupport_002B", "Enabled", "Disabled")),
    reset=ResetStyle(
        ("On", "ForceOff", "GracefulShutdownGracefulRestart", "ForceRestart", "Nmi", "ForceOn"),
        status=200,
    ),
)
CHASSIS = IDENTITY.chassis_path
THERMAL, POWER = f"{CHASSIS}/Thermal", f"{CHASSIS}/Power"

INLET = Sensor("inlet2", "Inlet Temp 2", air(), "SystemBoard")
TEMPERATURES = (
    Sensor("cpu1", "CPU1 Temp", air(18, 36), "CPU"),
    Sensor("cpu2", "CPU2 Temp", air(18, 35), "CPU"),
    Sensor("inlet", "Inlet Temp", steady(0), "SystemBoard", absent=True),
    Sensor("system", "System Temp", air(9, 4), "SystemBoard"),
    Sensor("peripheral", "Peripheral Temp", air(14, 6), "SystemBoard"),
    INLET,
    Sensor("vrm1", "VRMCpu1 Temp", air(16, 18), "VoltageRegulator"),
    Sensor("nvme", "M2NVMeSSD Temp1", steady(0), "SystemBoard", absent=True),
    Sensor("dimm-a", "P1-DIMMABCD Temp", air(10, 14), "SystemBoard"),
    Sensor("dimm-e", "P1-DIMMEFGH Temp", steady(0), "SystemBoard", absent=True),
)
FANS = tuple(
    Sensor(f"fan{number}", f"FAN{number}", fan(5600, 5200), "Fan", "Rotational")
    for number in range(1, 7)
)


def _power(live: Live) -> Json:
    return resource(
        POWER,
        "Power.v1_5_1.Power",
        "Power",
        PowerControl=[
            power_control(
                POWER,
                live,
                Name="System Power Control",
                PhysicalContext="Chassis",
                RelatedItem=links([IDENTITY.system_path]),
                PowerLimit=power_limit(live.cap),
            )
        ],
        PowerSupplies=power_supplies(POWER, live, ("Power Supply Bay 1", "Power Supply Bay 2")),
    )


TREE = Tree(
    registry="Base.v1_4_0",
    answers=Answers(THERMAL, INLET.name, POWER),
    resources={
        **service(IDENTITY),
        **main_chassis(
            IDENTITY,
            "Chassis.v1_9_1.Chassis",
            "Computer System Chassis",
            Thermal=link(THERMAL),
            Power=link(POWER),
        ),
        THERMAL: thermal(THERMAL, "v1_4_0", TEMPERATURES, FANS),
        POWER: _power,
    },
    busy=frozenset({f"{ROOT}/Chassis/{RAID}"}),
    reset_path=IDENTITY.reset_path,
    reset=IDENTITY.reset,
    cap=CapStyle(POWER, refuse_patch),
    finish=with_context,
)
