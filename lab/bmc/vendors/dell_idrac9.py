# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dell iDRAC 9, firmware 5: sensors and the older Thermal and Power resources.

Traps: a storage enclosure is the first chassis and its Thermal answers 503; another one is listed
but missing; the PhysicalContext of the inlet is SystemBoard, like that of the exhaust; a power
sensor differs from PowerControl; ids hold dots and colons.
"""

from __future__ import annotations

from lab.bmc.caps import CapStyle, dell_attributes, dell_power_limit, patch_dell
from lab.bmc.hardware import Layout
from lab.bmc.live import Live
from lab.bmc.odata import (
    ROOT,
    Json,
    Sensor,
    air,
    expand_query,
    fan,
    link,
    links,
    power,
    power_control,
    power_supplies,
    resource,
    sensors,
    steady,
    thermal,
)
from lab.bmc.power import COMMON, ResetStyle
from lab.bmc.service import Identity, main_chassis, service, storage_enclosure
from lab.bmc.tree import Answers, Tree, with_context

ENCLOSURE, VANISHED = "Enclosure.Internal.0-1", "Enclosure.Internal.0-1:RAID.SL.3-1"
IDENTITY = Identity(
    manufacturer="Dell Inc.",
    redfish_version="1.11.0",
    system="System.Embedded.1",
    manager="iDRAC.Embedded.1",
    firmware="5.10.50.00",
    main="System.Embedded.1",
    chassis=(ENCLOSURE, VANISHED, "System.Embedded.1"),
    processor="CPU.Socket.{}",
    dimm="DIMM.Socket.A{}",
    root_properties={
        "Vendor": "Dell",
        "Product": "Integrated Dell Remote Access Controller",
        **expand_query(),
    },
    layout=Layout(
        port="NIC.Integrated.1-{}-1",
        adapters="dell",
        switch=("SriovGlobalEnable", "Enabled", "Disabled"),
        whole_bus=True,
        tells_rack=True,
        sku=True,
    ),
    reset=ResetStyle(
        (*COMMON, "GracefulRestart", "PushPowerButton", "PowerCycle"),
        transitions=True,
        already=(409, "IDRAC.2.5", "PSU501"),
        busy=(503, "IDRAC.2.5", "SYS518"),
    ),
    has_attributes=True,
)
CHASSIS = IDENTITY.chassis_path
ATTRIBUTES = IDENTITY.attributes_path
THERMAL, POWER, SENSORS = f"{CHASSIS}/Thermal", f"{CHASSIS}/Power", f"{CHASSIS}/Sensors"

FANS = tuple(
    Sensor(
        f"Fan.Embedded.{number}{side}",
        f"System Board Fan{number}{side}",
        fan(5400, 5200),
        "SystemBoard",
        "Rotational",
    )
    for side in "AB"
    for number in (1, 2, 3, 4)
)
INLET = Sensor("SystemBoardInletTemp", "System Board Inlet Temp", air(), "SystemBoard")
EXHAUST = Sensor("SystemBoardExhaustTemp", "System Board Exhaust Temp", air(9, 12), "SystemBoard")
PROCESSORS = (
    Sensor("CPU1Temp", "CPU1 Temp", air(18, 34), "CPU"),
    Sensor("CPU2Temp", "CPU2 Temp", air(17, 33), "CPU"),
)
TABLE = (
    Sensor("PS1Current1", "PS1 Current 1", steady(1.8), "PowerSupply", "Current"),
    Sensor("PS1Voltage1", "PS1 Voltage 1", steady(208), "PowerSupply", "Voltage"),
    Sensor("PS2Voltage2", "PS2 Voltage 2", steady(208), "PowerSupply", "Voltage"),
    Sensor(
        "SystemBoardPwrConsumption",
        "System Board Pwr Consumption",
        power(0.97),
        "SystemBoard",
        "Power",
    ),
    Sensor("CPU1VCOREVR", "CPU1 VCORE VR", steady(1.79), "CPU", "Voltage"),
    *FANS,
    EXHAUST,
    *PROCESSORS,
    INLET,
)


def _power(live: Live) -> Json:
    return resource(
        POWER,
        "Power.v1_6_1.Power",
        "Power",
        PowerControl=[
            power_control(
                POWER,
                live,
                Name="System Power Control",
                PowerCapacityWatts=1512,
                RelatedItem=links([CHASSIS, IDENTITY.system_path]),
                PowerLimit=dell_power_limit(live.cap),
            )
        ],
        PowerSupplies=power_supplies(POWER, live, ("PS1 Status", "PS2 Status")),
    )


TREE = Tree(
    registry="Base.1.12",
    answers=Answers(f"{SENSORS}/{INLET.id}", INLET.name, POWER),
    resources={
        **service(IDENTITY),
        **storage_enclosure(
            IDENTITY,
            ENCLOSURE,
            "PCIe SSD Backplane 1",
            Thermal=link(f"{ROOT}/Chassis/{ENCLOSURE}/Thermal"),
        ),
        **main_chassis(
            IDENTITY,
            "Chassis.v1_13_0.Chassis",
            "Computer System Chassis",
            Thermal=link(THERMAL),
            Power=link(POWER),
            Sensors=link(SENSORS),
        ),
        THERMAL: thermal(THERMAL, "v1_6_2", (*PROCESSORS, EXHAUST, INLET), FANS),
        POWER: _power,
        ATTRIBUTES: lambda live: dell_attributes(ATTRIBUTES, live.cap),
        **sensors(SENSORS, "Sensor.v1_1_1.Sensor", TABLE, digits=0),
    },
    missing=frozenset({f"{ROOT}/Chassis/{VANISHED}"}),
    busy=frozenset({f"{ROOT}/Chassis/{ENCLOSURE}/Thermal"}),
    expand="members",
    reset_path=IDENTITY.reset_path,
    reset=IDENTITY.reset,
    cap=CapStyle(ATTRIBUTES, patch_dell),
    finish=with_context,
)
