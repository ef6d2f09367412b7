# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBMC (bmcweb) as built by default: no Thermal, no Power, and every query is refused.

Traps: a riser and a power board come before the main chassis, each with an inlet of its own, and
each claims the computer system, so that only the system's own link tells them apart; no sensor has
a PhysicalContext; three ambient sensors, listed out of order, of which the first by number counts;
PSU and riser inlets among them; ThermalMetrics readings have nothing but a DataSourceUri;
EnvironmentMetrics.TemperatureCelsius is that of the processor.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.bmc.caps import CapStyle, openbmc_limit, patch_openbmc
from lab.bmc.hardware import Layout
from lab.bmc.live import Live, rounded
from lab.bmc.odata import (
    HEALTHY,
    ROOT,
    Builder,
    Json,
    Sensor,
    air,
    fan,
    fixed,
    link,
    power,
    reading_digits,
    resource,
    sensors,
    steady,
    thermal_subsystem,
)
from lab.bmc.power import COMMON, ResetStyle
from lab.bmc.service import Identity, main_chassis, service
from lab.bmc.tree import Answers, Tree

DIGITS = 3
RISER, POWER_BOARD = "Riser_1", "PDB_0"
IDENTITY = Identity(
    manufacturer="WIWYNN",
    redfish_version="1.17.0",
    system="system",
    manager="bmc",
    firmware="2.18.0-dev",
    main="chassis",
    chassis=(RISER, POWER_BOARD, "chassis"),
    first=0,
    processor="CPU_{}",
    dimm="dimm{}",
    layout=Layout(port="eth{}", adapters="function", interfaces=False),
    reset=ResetStyle(
        (*COMMON, "ForceOn", "GracefulRestart", "PowerCycle"),
        in_action_info=True,
    ),
)
CHASSIS = IDENTITY.chassis_path
SENSORS, SUBSYSTEM = f"{CHASSIS}/Sensors", f"{CHASSIS}/ThermalSubsystem"
METRICS, ENVIRONMENT = f"{SUBSYSTEM}/ThermalMetrics", f"{CHASSIS}/EnvironmentMetrics"

INLET = Sensor("temperature_Ambient_0_Temp", "Ambient 0 Temp", air())
PROCESSOR = Sensor("temperature_CPU_0_Temp", "CPU 0 Temp", air(20, 34))
TOTAL_POWER = Sensor("power_total_power", "total power", power(), kind="Power")
TEMPERATURES = (
    PROCESSOR,
    Sensor("temperature_PSU0_Inlet_Temp", "PSU0 Inlet Temp", air(5, 4)),
    Sensor("temperature_PSU1_Inlet_Temp", "PSU1 Inlet Temp", air(6, 4)),
    Sensor("temperature_Riser_1_Inlet_Temp", "Riser 1 Inlet Temp", air(8, 3)),
    Sensor("temperature_Ambient_2_Temp", "Ambient 2 Temp", air(0.9)),
    INLET,
    Sensor("temperature_Ambient_1_Temp", "Ambient 1 Temp", air(0.6)),
    Sensor("temperature_Outlet_Temp", "Outlet Temp", air(10, 14)),
)
OTHERS = (
    *(
        Sensor(f"fantach_FAN{number}", f"FAN{number}", fan(5000, 7000), kind="Rotational")
        for number in range(6)
    ),
    TOTAL_POWER,
    Sensor("voltage_P12V", "P12V", steady(12.1), kind="Voltage"),
)


def _thermal(path: str, table: Sequence[Sensor]) -> dict[str, Builder]:
    """ThermalSubsystem and ThermalMetrics of the chassis at the path."""

    def metrics(live: Live) -> Json:
        return resource(
            f"{path}/ThermalSubsystem/ThermalMetrics",
            "ThermalMetrics.v1_0_1.ThermalMetrics",
            "Thermal Metrics",
            TemperatureReadingsCelsius=[
                {
                    "DataSourceUri": f"{path}/Sensors/{sensor.id}",
                    "Reading": sensor.reading(live, reading_digits(sensor, DIGITS)),
                }
                for sensor in table
            ],
        )

    return {
        **thermal_subsystem(f"{path}/ThermalSubsystem", "v1_0_0", "Thermal Subsystem"),
        f"{path}/ThermalSubsystem/ThermalMetrics": metrics,
    }


def _module(member: str, table: Sequence[Sensor]) -> dict[str, Builder]:
    """A board within the machine, which bmcweb shows as an ordinary chassis."""
    path = f"{ROOT}/Chassis/{member}"
    return {
        **fixed(
            path,
            "Chassis.v1_22_0.Chassis",
            member,
            ChassisType="Module",
            PowerState="On",
            Status=dict(HEALTHY),
            Sensors=link(f"{path}/Sensors"),
            ThermalSubsystem=link(f"{path}/ThermalSubsystem"),
            Links={
                "ComputerSystems": [link(IDENTITY.system_path)],
                "ContainedBy": link(CHASSIS),
                "ManagedBy": [link(IDENTITY.manager_path)],
            },
        ),
        **_thermal(path, table),
        **sensors(f"{path}/Sensors", "Sensor.v1_2_0.Sensor", table, DIGITS),
    }


def _environment(live: Live) -> Json:
    return resource(
        ENVIRONMENT,
        "EnvironmentMetrics.v1_3_0.EnvironmentMetrics",
        "Chassis Environment Metrics",
        PowerWatts={
            "DataSourceUri": f"{SENSORS}/{TOTAL_POWER.id}",
            "Reading": rounded(live.watts(), DIGITS),
        },
        PowerLimitWatts=openbmc_limit(live.cap),
        TemperatureCelsius={
            "DataSourceUri": f"{SENSORS}/{PROCESSOR.id}",
            "Reading": PROCESSOR.reading(live, DIGITS),
        },
    )


TREE = Tree(
    registry="Base.1.19",
    answers=Answers(f"{SENSORS}/{INLET.id}", INLET.name, ENVIRONMENT, DIGITS, DIGITS),
    resources={
        **service(IDENTITY),
        **_module(RISER, (Sensor("temperature_Riser_1_Inlet_Temp", "Inlet Temp", air(8, 3)),)),
        **_module(
            POWER_BOARD,
            (
                Sensor("temperature_PDB_0_Inlet_Temp", "PDB 0 Inlet Temp", air(12, 8)),
                Sensor("temperature_PDB_0_Temp", "PDB 0 Temp", air(16, 9)),
            ),
        ),
        **main_chassis(
            IDENTITY,
            "Chassis.v1_22_0.Chassis",
            "chassis",
            Sensors=link(SENSORS),
            ThermalSubsystem=link(SUBSYSTEM),
            EnvironmentMetrics=link(ENVIRONMENT),
        ),
        **_thermal(CHASSIS, TEMPERATURES),
        ENVIRONMENT: _environment,
        **sensors(SENSORS, "Sensor.v1_2_0.Sensor", (*TEMPERATURES, *OTHERS), DIGITS),
    },
    expand="refused",
    reset_path=IDENTITY.reset_path,
    reset=IDENTITY.reset,
    cap=CapStyle(ENVIRONMENT, patch_openbmc),
)
