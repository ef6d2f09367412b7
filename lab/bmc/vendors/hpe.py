# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HPE iLO 6 (Gen11).

Traps: every link ends in a slash, and a path without one is redirected to the BMC's own address and
usual port; a drive enclosure is the first chassis, another one is listed but missing; "P/S n Inlet"
and "Board Inlet" are warmer than the inlet air; sensor ids are bare numbers, without ReadingType or
ReadingUnits; unplugged parts read 0; ThermalMetrics has only Ambient in its summary and readings
without DataSourceUri; PowerControl has no name; only `$expand=.` is offered.
"""

from __future__ import annotations

import zlib

from lab.bmc.caps import CapStyle, patch_power_limit, power_limit
from lab.bmc.hardware import Layout
from lab.bmc.live import Live
from lab.bmc.odata import (
    ROOT,
    Builder,
    Json,
    Sensor,
    air,
    collection,
    expand_query,
    fan,
    link,
    power_control,
    power_supplies,
    resource,
    steady,
    thermal,
    thermal_subsystem,
)
from lab.bmc.power import COMMON, ResetStyle
from lab.bmc.service import Identity, main_chassis, service, storage_enclosure
from lab.bmc.tree import Answers, Tree, with_context, with_slashes

ENCLOSURE, VANISHED = "DE00A000", "DE00B000"
IDENTITY = Identity(
    manufacturer="HPE",
    redfish_version="1.20.0",
    system="1",
    manager="1",
    firmware="iLO 6 v1.66",
    main="1",
    chassis=(ENCLOSURE, VANISHED, "1"),
    dimm="proc1dimm{}",
    root_properties={
        "Vendor": "HPE",
        "Product": "ProLiant",
        **expand_query(is_full=False),
    },
    layout=Layout(
        bus="oem",
        switch=("Sriov", "Enabled", "Disabled"),
        smart_storage=True,
        tells_rack=True,
    ),
    reset=ResetStyle(
        (*COMMON, "PushPowerButton", "GracefulRestart"),
        status=200,
        already=(400, "iLO.2.26", "InvalidOperationForSystemState"),
        busy=(400, "iLO.2.26", "InvalidOperationForSystemState"),
    ),
)
CHASSIS = IDENTITY.chassis_path
THERMAL, POWER, SENSORS = f"{CHASSIS}/Thermal", f"{CHASSIS}/Power", f"{CHASSIS}/Sensors"
SUBSYSTEM = f"{CHASSIS}/ThermalSubsystem"
METRICS = f"{SUBSYSTEM}/ThermalMetrics"

_ROWS = (
    # name, value, PhysicalContext, is it absent
    ("01-Inlet Ambient", air(), "Intake", False),
    ("02-CPU 1 PkgTmp", air(17, 35), "CPU", False),
    ("03-CPU 2 PkgTmp", air(16, 34), "CPU", False),
    ("04-P1 DIMM 1-6", air(11, 12), "Memory", False),
    ("05-P1 PMM 1-6", steady(0), "Memory", True),
    ("06-P1 DIMM 7-12", air(12, 12), "Memory", False),
    ("07-P2 DIMM 1-6", air(11, 12), "Memory", False),
    ("08-P2 PMM 1-6", steady(0), "Memory", True),
    ("12-VR P1", air(14, 16), "SystemBoard", False),
    ("13-VR P2", air(14, 16), "SystemBoard", False),
    ("15-HD Max", air(8, 4), "Backplane", False),
    ("19-Chipset", air(21, 6), "SystemBoard", False),
    ("21-BMC", air(24, 2), "SystemBoard", False),
    ("25-P/S 1 Inlet", air(11, 5), "PowerSupply", False),
    ("26-P/S 1", air(15, 6), "PowerSupply", False),
    ("27-P/S 2 Inlet", air(12, 5), "PowerSupply", False),
    ("28-P/S 2", air(15, 6), "PowerSupply", False),
    ("32-Board Inlet", air(4, 1), "SystemBoard", False),
    ("38-PCI 1 M2", steady(0), "SystemBoard", True),
    ("40-Sys Exhaust 1", air(10, 12), "SystemBoard", False),
)
TABLE = tuple(
    Sensor(str(number), name, value, context, absent=absent)
    for number, (name, value, context, absent) in enumerate(_ROWS)
)
FANS = tuple(
    Sensor(str(number), f"Fan {number}", fan(4200, 7000), "System", "Rotational")
    for number in range(1, 7)
)


def _sensors() -> dict[str, Builder]:
    def builder(sensor: Sensor) -> Builder:
        return lambda live: resource(
            f"{SENSORS}/{sensor.id}",
            "Sensor.v1_10_0.Sensor",
            sensor.name,
            PhysicalContext=sensor.context,
            Reading=sensor.reading(live, 0),
            Status=sensor.status,
        )

    entries = {f"{SENSORS}/{sensor.id}": builder(sensor) for sensor in TABLE}
    return collection(SENSORS, "Sensor", list(entries)) | entries


def _metrics(live: Live) -> Json:
    present = [sensor for sensor in TABLE if not sensor.absent]
    return resource(
        METRICS,
        "ThermalMetrics.v1_3_1.ThermalMetrics",
        "ThermalMetrics",
        TemperatureReadingsCelsius=[
            {
                "DeviceName": sensor.name,
                "PhysicalContext": sensor.context,
                "Reading": sensor.reading(live, 0),
            }
            for sensor in present
        ],
        TemperatureSummaryCelsius={"Ambient": {"Reading": TABLE[0].reading(live, 0)}},
    )


def _power(live: Live) -> Json:
    return resource(
        POWER,
        "Power.v1_7_1.Power",
        "PowerMetrics",
        PowerControl=[
            power_control(POWER, live, PowerCapacityWatts=1600, PowerLimit=power_limit(live.cap))
        ],
        PowerSupplies=power_supplies(POWER, live, ("HpeServerPowerSupply",) * 2),
    )


def _finish(body: Json) -> Json:
    tag = zlib.crc32(repr(body).encode())
    return {"@odata.etag": f'W/"{tag:08X}"', **with_slashes(with_context(body))}


TREE = Tree(
    registry="Base.1.18",
    answers=Answers(METRICS, TABLE[0].name, POWER),
    resources={
        **service(IDENTITY),
        **storage_enclosure(IDENTITY, ENCLOSURE, "8 SFF 24G x4NVMe/SAS UBM6 BC BP"),
        **main_chassis(
            IDENTITY,
            "Chassis.v1_25_1.Chassis",
            "Computer System Chassis",
            Thermal=link(THERMAL),
            Power=link(POWER),
            Sensors=link(SENSORS),
            ThermalSubsystem=link(SUBSYSTEM),
        ),
        **thermal_subsystem(SUBSYSTEM, "v1_3_2", "ThermalSubsystem"),
        THERMAL: thermal(THERMAL, "v1_7_1", TABLE, FANS),
        METRICS: _metrics,
        POWER: _power,
        **_sensors(),
    },
    missing=frozenset({f"{ROOT}/Chassis/{VANISHED}"}),
    expand="members",
    has_slashes=True,
    reset_path=IDENTITY.reset_path,
    reset=IDENTITY.reset,
    cap=CapStyle(POWER, patch_power_limit),
    finish=_finish,
)
