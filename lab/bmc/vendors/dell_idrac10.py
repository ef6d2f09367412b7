# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dell iDRAC 10 (17G): no Thermal, no Power, no SystemBoardInletTemp.

Traps: a storage enclosure is the first chassis; more sensors than fit into one page, in no order,
with the inlet (`InletTemp`, no PhysicalContext) on the second page; ThermalMetrics is empty; a
sensor is listed but missing; processors count from zero; watts are in EnvironmentMetrics only.
"""

from __future__ import annotations

import random

from lab.bmc.caps import CapStyle, dell_attributes, patch_dell
from lab.bmc.hardware import Layout
from lab.bmc.live import Live, rounded
from lab.bmc.odata import (
    Builder,
    Json,
    Sensor,
    air,
    collection,
    expand_query,
    fan,
    link,
    power,
    resource,
    sensors,
    steady,
    thermal_subsystem,
)
from lab.bmc.power import COMMON, ResetStyle
from lab.bmc.service import Identity, main_chassis, service, storage_enclosure
from lab.bmc.tree import Answers, Tree

ENCLOSURE = "Enclosure.Internal.0-1"
IDENTITY = Identity(
    manufacturer="Dell Inc.",
    redfish_version="1.20.1",
    system="System.Embedded.1",
    manager="iDRAC.Embedded.1",
    firmware="1.20.80.51",
    main="System.Embedded.1",
    chassis=(ENCLOSURE, "System.Embedded.1"),
    first=0,
    processor="CPU.Socket.{}",
    dimm="DIMM.Socket.A{}",
    root_properties={
        "Vendor": "Dell",
        "Product": "Integrated Dell Remote Access Controller",
        **expand_query(),
    },
    layout=Layout(
        port="NIC.Slot.1-{}-1",
        adapters="dell",
        switch=("SriovGlobalEnable", "Enabled", "Disabled"),
        whole_bus=True,
        tells_rack=True,
        sku=True,
    ),
    reset=ResetStyle(
        (*COMMON, "GracefulRestart", "PushPowerButton", "PowerCycle"),
        transitions=True,
        already=(409, "IDRAC.4.2", "PSU501"),
        rest_seconds=60.0,
        busy=(503, "IDRAC.4.2", "SYS518"),
    ),
    has_attributes=True,
)
PAGE_SIZE = 50
CHASSIS = IDENTITY.chassis_path
ATTRIBUTES = IDENTITY.attributes_path
SENSORS, SUBSYSTEM = f"{CHASSIS}/Sensors", f"{CHASSIS}/ThermalSubsystem"
METRICS, ENVIRONMENT = f"{SUBSYSTEM}/ThermalMetrics", f"{CHASSIS}/EnvironmentMetrics"
VANISHED = f"{SENSORS}/PCIeSlot7Temp"

INLET = Sensor("InletTemp", "Inlet Temp", air())
SYSTEM_POWER = Sensor("SystemPowerConsumption", "System Power Consumption", power(), kind="Power")
OTHERS = (
    SYSTEM_POWER,
    Sensor("ExhaustTemp", "Exhaust Temp", air(10, 13)),
    Sensor("CPU0Temp", "CPU0 Temp", air(17, 36), "CPU"),
    Sensor("CPU1Temp", "CPU1 Temp", air(17, 35), "CPU"),
    Sensor("PS1Temp", "PS1 Temp", air(11, 6), "PowerSupply"),
    Sensor("PS2Temp", "PS2 Temp", air(12, 6), "PowerSupply"),
    Sensor("PS1Voltage1", "PS1 Voltage 1", steady(230), "PowerSupply", "Voltage"),
    Sensor("PS2Voltage2", "PS2 Voltage 2", steady(231), "PowerSupply", "Voltage"),
    *(
        Sensor(f"DIMM{bank}{slot}Temp", f"DIMM {bank}{slot} Temp", air(9, 14), "Memory")
        for bank in "AB"
        for slot in range(1, 17)
    ),
    *(
        Sensor(f"Fan{number}{side}", f"Fan {number}{side}", fan(4800, 6000), "Fan", "Rotational")
        for side in "AB"
        for number in range(1, 7)
    ),
)


def _in_no_order() -> tuple[Sensor, ...]:
    shuffled = random.Random("arbitrary").sample(OTHERS, len(OTHERS))
    return (*shuffled, INLET)


def _metrics(live: Live) -> Json:
    return resource(METRICS, "ThermalMetrics.v1_3_2.ThermalMetrics", "Thermal Metrics") | {
        "TemperatureReadingsCelsius": []
    }


def _environment(live: Live) -> Json:
    return resource(
        ENVIRONMENT,
        "EnvironmentMetrics.v1_4_0.EnvironmentMetrics",
        "Environment Metrics",
        PowerWatts={
            "DataSourceUri": f"{SENSORS}/{SYSTEM_POWER.id}",
            "Reading": rounded(live.watts(), 0),
        },
    )


def _sensors() -> dict[str, Builder]:
    entries = sensors(SENSORS, "Sensor.v1_10_0.Sensor", _in_no_order(), digits=0)
    members = [path for path in entries if path != SENSORS]
    return entries | collection(SENSORS, "Sensor", [*members[:7], VANISHED, *members[7:]])


TREE = Tree(
    registry="Base.1.18",
    answers=Answers(f"{SENSORS}/{INLET.id}", INLET.name, ENVIRONMENT),
    resources={
        **service(IDENTITY),
        **storage_enclosure(IDENTITY, ENCLOSURE, "BP_PSV 0:1"),
        **main_chassis(
            IDENTITY,
            "Chassis.v1_25_0.Chassis",
            "Computer System Chassis",
            Sensors=link(SENSORS),
            ThermalSubsystem=link(SUBSYSTEM),
            EnvironmentMetrics=link(ENVIRONMENT),
        ),
        **thermal_subsystem(SUBSYSTEM, "v1_3_0", "Thermal Subsystem"),
        METRICS: _metrics,
        ENVIRONMENT: _environment,
        ATTRIBUTES: lambda live: dell_attributes(ATTRIBUTES, live.cap),
        **_sensors(),
    },
    missing=frozenset({VANISHED}),
    expand="members",
    page_size=PAGE_SIZE,
    reset_path=IDENTITY.reset_path,
    reset=IDENTITY.reset,
    cap=CapStyle(ATTRIBUTES, patch_dell),
)
