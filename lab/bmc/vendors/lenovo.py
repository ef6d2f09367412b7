# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lenovo XClarity Controller.

Traps: no sensor has a PhysicalContext and the inlet is called "Ambient Temp", without the word;
its id is 49L0, not the 128L0 of other models; a backplane without sensors and a missing member
follow the main chassis; processors and memory have power controls beside the server's.
"""

from __future__ import annotations

from lab.bmc.caps import CapStyle, lenovo_control, patch_lenovo
from lab.bmc.hardware import Layout
from lab.bmc.live import Live, rounded
from lab.bmc.odata import (
    HEALTHY,
    ROOT,
    Json,
    Sensor,
    air,
    collection,
    expand_query,
    fan,
    fixed,
    link,
    power_control,
    power_supplies,
    resource,
    sensors,
    steady,
    thermal,
)
from lab.bmc.power import COMMON, ResetStyle
from lab.bmc.service import Identity, main_chassis, service
from lab.bmc.tree import Answers, Tree, with_context

BACKPLANE, VANISHED = "2", "3"
# Parts of the server with a control of their own, and their shares of its power.
PARTS = (("CPU", 0.32), ("Memory", 0.08))
IDENTITY = Identity(
    manufacturer="Lenovo",
    redfish_version="1.15.0",
    system="1",
    manager="1",
    firmware="AFBT58B-5.70",
    main="1",
    chassis=("1", BACKPLANE, VANISHED),
    dimm="{}",
    root_properties={
        "Vendor": "Lenovo",
        "Product": "ThinkSystem",
        **expand_query(levels=2),
    },
    layout=Layout(
        port="NIC{}",
        adapters="device",
        switch=("DevicesandIOPorts_SRIOV", "Enable", "Disable"),
        tells_rack=True,
    ),
    reset=ResetStyle((*COMMON, "GracefulRestart", "ForceOn")),
)
CHASSIS = IDENTITY.chassis_path
CONTROLS = f"{CHASSIS}/Controls"
CONTROL = f"{CONTROLS}/PowerLimit"
THERMAL, POWER, SENSORS = f"{CHASSIS}/Thermal", f"{CHASSIS}/Power", f"{CHASSIS}/Sensors"

INLET = Sensor("49L0", "Ambient Temp", air())
TEMPERATURES = (
    Sensor("1L0", "CPU 1 Temp", air(19, 33)),
    Sensor("2L0", "CPU 2 Temp", air(18, 33)),
    *(Sensor(f"{8 + number}L0", f"DIMM {number} Temp", air(9, 13)) for number in range(1, 9)),
    Sensor("45L0", "PCH Temp", air(20, 5)),
    INLET,
    Sensor("50L0", "Exhaust Temp", air(9, 13)),
)
FANS = tuple(
    Sensor(f"{64 + number}L0", f"Fan {number} Tach", fan(5600, 6000), kind="Rotational")
    for number in range(1, 7)
)
VOLTAGES = (
    Sensor("97L0", "SysBrd 12V", steady(12.06), kind="Voltage"),
    Sensor("98L0", "CMOS Battery", steady(3.08), kind="Voltage"),
)


def _power(live: Live) -> Json:
    return resource(
        POWER,
        "Power.v1_5_0.Power",
        "Power",
        PowerControl=[
            power_control(POWER, live, Name="Server Power Control", PowerCapacityWatts=1800),
            *(
                {
                    "@odata.id": f"{POWER}#/PowerControl/{number}",
                    "MemberId": str(number),
                    "Name": f"{part} Sub-system Power",
                    "PowerConsumedWatts": rounded(live.watts(share), 0),
                }
                for number, (part, share) in enumerate(PARTS, start=1)
            ),
        ],
        PowerSupplies=power_supplies(POWER, live, ("PSU 1", "PSU 2")),
    )


TREE = Tree(
    registry="Base.1.15",
    answers=Answers(f"{SENSORS}/{INLET.id}", INLET.name, POWER),
    resources={
        **service(IDENTITY),
        **main_chassis(
            IDENTITY,
            "Chassis.v1_11_0.Chassis",
            "Chassis",
            Thermal=link(THERMAL),
            Power=link(POWER),
            Sensors=link(SENSORS),
            Controls=link(CONTROLS),
        ),
        **collection(CONTROLS, "Control", [CONTROL]),
        CONTROL: lambda live: lenovo_control(CONTROL, CHASSIS, live.cap),
        **fixed(
            f"{ROOT}/Chassis/{BACKPLANE}",
            "Chassis.v1_11_0.Chassis",
            "Internal Drive Backplane",
            ChassisType="Component",
            Status=dict(HEALTHY),
            Links={"ContainedBy": link(CHASSIS)},
        ),
        THERMAL: thermal(THERMAL, "v1_6_1", TEMPERATURES, FANS),
        POWER: _power,
        **sensors(SENSORS, "Sensor.v1_2_0.Sensor", (*FANS, *TEMPERATURES, *VOLTAGES), digits=0),
    },
    missing=frozenset({f"{ROOT}/Chassis/{VANISHED}"}),
    expand="members",
    reset_path=IDENTITY.reset_path,
    reset=IDENTITY.reset,
    cap=CapStyle(CONTROL, patch_lenovo, needs_tag=True),
    finish=with_context,
)
