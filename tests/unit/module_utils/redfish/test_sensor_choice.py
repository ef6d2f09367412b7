# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choice of the inlet among a BMC's temperatures, and the readings that count at all."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.thermal import read_thermal
from support.https_server import Document, HttpsServer
from support.redfish_reading import PIN, inlet, only_error, read
from support.redfish_trees import (
    ROOT,
    SERVER,
    metrics,
    one_server,
    ref,
    sensor,
    sensors,
    temperature,
    thermal,
)


class TestOrder:
    """Choice of the inlet among several sensors."""

    def test_levels_in_their_order(self) -> None:
        levels: list[dict[str, Document]] = [
            metrics({"TemperatureSummaryCelsius": {"Ambient": {"Reading": 28}}}),
            thermal(temperature("Front Temp", 27)),
            sensors(sensor(f"{SERVER}/Sensors/A", "Ambient Temp", 25)),
            thermal(temperature("x", 24, "Intake"), temperature("Front", 27)),
            sensors(sensor(f"{SERVER}/Sensors/A", "y", 23, "Intake")),
            metrics({"TemperatureReadingsCelsius": [{"Reading": 22, "PhysicalContext": "Intake"}]}),
            metrics({"TemperatureSummaryCelsius": {"Intake": {"Reading": 21}}}),
        ]
        found = [inlet(one_server(*levels[: count + 1]))[0] for count in range(len(levels))]
        assert found == [28, 27, 25, 24, 23, 22, 21]

    def test_names_in_thermal_metrics_come_before_those_in_thermal(self) -> None:
        entry = {"DeviceName": "Ambient", "Reading": 20}
        parts = metrics({"TemperatureReadingsCelsius": [entry]}), thermal(temperature("Inlet", 21))
        assert inlet(one_server(*parts)) == (20, "Ambient")

    @pytest.mark.parametrize(
        ("names", "chosen"),
        [
            (["Front", "Ambient", "Inlet"], "Inlet"),
            (["Front", "Ambient"], "Ambient"),
            (["System Inlet", "Inlet Ambient"], "Inlet Ambient"),
            (["Inlet_10", "Inlet_2"], "Inlet_2"),
        ],
    )
    def test_the_better_name_wins_then_the_natural_order(
        self, names: list[str], chosen: str
    ) -> None:
        entries = [temperature(name, 20 + index) for index, name in enumerate(names)]
        assert inlet(one_server(thermal(*entries)))[1] == chosen
        assert inlet(one_server(thermal(*reversed(entries))))[1] == chosen

    def test_two_sensors_of_one_name_are_told_apart_by_their_member_id(self) -> None:
        entries = [temperature("Inlet", 30, MemberId="10"), temperature("Inlet", 20, MemberId="2")]
        assert inlet(one_server(thermal(*entries)))[0] == 20

    @pytest.mark.parametrize(
        "name",
        [
            *("P/S 1 Inlet", "PSU1_INLET", "PS1 Inlet Temp", "Power Supply Inlet", "RISER1_INLET"),
            *("GPU Inlet", "PCIe Inlet", "HGX_Inlet", "32-Board Inlet", "Board Inlet", "PDBInlet"),
            *("Inlet Water Temp", "Coolant Inlet", "NICInlet", "Front Drive Temp", "FPGA Temp"),
            *("SIOC1_FRONT_TEMP", "HDD Front", "ASIC_INLET", "Netzteil Einlass", "電源吸気"),
        ],
    )
    def test_heated_air_and_water_are_never_the_inlet(self, name: str) -> None:
        result, _server = read(one_server(thermal(temperature(name, 30))))
        assert result["readings"][0]["inlet_celsius"] is None
        assert only_error(result)["reason"] == "no_sensor"

    @pytest.mark.parametrize(
        "name",
        [
            *("System Board Inlet Temp", "SystemBoardInletTemp", "01-Inlet Ambient", "INLET_TEMP"),
            *("Ambient Temp", "AmbientTemperature", "TEMP_SENS_FRONT", "FP_TEMP_SENSOR", "AMB_1"),
            *("Chassis 0 Front IO Temp 0", "Temp_Ambient_FP", "Zulufttemperatur", "吸気温度"),
            *("Umgebungstemperatur", "Température d'admission", "进风口温度"),
        ],
    )
    def test_names_of_the_inlet(self, name: str) -> None:
        assert inlet(one_server(thermal(temperature(name, 22)))) == (22, name)

    @pytest.mark.parametrize("name", ["System Temp", "Temp 1", "Exhaust Temp", "", "Peripheral"])
    def test_other_names_are_not_the_inlet(self, name: str) -> None:
        assert inlet(one_server(thermal(temperature(name, 22)))) == (None, None)

    def test_a_sensor_of_a_heated_part_is_told_by_what_it_belongs_to(self) -> None:
        related = [ref(f"{SERVER}/Power#/PowerSupplies/0")]
        heated = temperature("Inlet 1", 35, RelatedItem=related)
        parts = thermal(heated, temperature("Inlet 2", 22))
        assert inlet(one_server(parts)) == (22, "Inlet 2")

    def test_a_sensor_of_another_chassis_is_told_by_where_it_comes_from(self) -> None:
        inner = f"{ROOT}/Chassis/HGX_Chassis_0/Sensors/Inlet"
        entries = [
            {"DeviceName": "Inlet", "Reading": 35, "DataSourceUri": inner},
            {"DeviceName": "Inlet", "Reading": 22, "DataSourceUri": f"{SERVER}/Sensors/Inlet"},
        ]
        assert inlet(one_server(metrics({"TemperatureReadingsCelsius": entries})))[0] == 22

    def test_the_room_counts_only_where_nothing_is_nearer(self) -> None:
        room = temperature("Ambient", 18, "Room")
        assert inlet(one_server(thermal(room))) == (18, "Ambient")
        assert inlet(one_server(thermal(room, temperature("Front", 22)))) == (22, "Front")

    def test_the_room_does_not_stand_in_for_an_intake_without_reading(self) -> None:
        room, broken = temperature("Ambient", 18, "Room"), temperature("Inlet", None, "Intake")
        result, _server = read(one_server(thermal(room, broken)))
        assert "'Inlet'" in only_error(result)["detail"]
        assert only_error(result)["reason"] == "no_sensor"

    def test_sensors_that_differ_much_are_warned_of(self) -> None:
        warnings: list[str] = []
        parts = thermal(temperature("Inlet_1", 20, "Intake"), temperature("Inlet_2", 27, "Intake"))
        with HttpsServer(one_server(parts)) as server:
            one = {"name": "node-1", "endpoint": server.endpoint}
            given = {"targets": [one], "gather": ["inlet"], "tls_fingerprint": PIN}
            read_thermal(given, Context(warn=warnings.append))
        assert len(warnings) == 1
        assert "node-1" in warnings[0]


class TestUsable:
    """Readings that count."""

    @pytest.mark.parametrize("value", [None, "", "N/A", True, [], {}, "nan", "1e999", 10**400])
    def test_null_reading_is_missing_and_never_zero(self, value: t.Any) -> None:
        documents = one_server(thermal(temperature("Inlet", value, "Intake")))
        result, _server = read(documents)
        assert result["readings"][0]["inlet_celsius"] is None
        assert only_error(result)["reason"] == "no_sensor"

    @pytest.mark.parametrize("state", ["Absent", "Disabled", "UnavailableOffline", "absent"])
    def test_a_placeholder_of_an_absent_sensor_is_missing(self, state: str) -> None:
        documents = one_server(thermal(temperature("Inlet", 0, Status={"State": state})))
        assert only_error(read(documents)[0])["reason"] == "no_sensor"

    @pytest.mark.parametrize("status", [None, "OK", {}, {"State": None}, {"State": 7}])
    def test_a_status_that_says_nothing_is_no_hindrance(self, status: t.Any) -> None:
        assert inlet(one_server(thermal(temperature("Inlet", 20, Status=status))))[0] == 20

    @pytest.mark.parametrize("value", [-20.5, 70.5, 2000, -273])
    def test_an_absurd_reading_is_implausible(self, value: float) -> None:
        error = only_error(read(one_server(thermal(temperature("Inlet", value))))[0])
        assert error["reason"] == "implausible"
        assert f"{value:g}" in error["detail"]

    @pytest.mark.parametrize("value", [-20, 0, 70, "21.5", " 21.5 "])
    def test_limits_and_numbers_in_quotes_are_usable(self, value: t.Any) -> None:
        assert inlet(one_server(thermal(temperature("Inlet", value))))[0] == float(value)

    @pytest.mark.parametrize(
        ("units", "reading"), [("[degF]", 71.6), ("K", 295.15), ("Cel", 22), ("°C", 22)]
    )
    def test_units_are_converted(self, units: str, reading: float) -> None:
        member = sensor(f"{SERVER}/Sensors/A", "Inlet", reading, ReadingUnits=units)
        assert inlet(one_server(sensors(member)))[0] == pytest.approx(22)

    @pytest.mark.parametrize(
        "fields",
        [
            {"ReadingType": "Rotational"},
            {"ReadingType": None, "ReadingUnits": "RPM"},
            {"ReadingType": None, "ReadingUnits": None, "Name": "Fan Inlet"},
            {"ReadingType": None, "ReadingUnits": None, "Name": "X"},
        ],
    )
    def test_other_quantities_are_not_temperatures(self, fields: dict[str, t.Any]) -> None:
        member = sensor(f"{SERVER}/Sensors/A", "Inlet", 22, **fields)
        assert inlet(one_server(sensors(member))) == (None, None)

    def test_a_sensor_without_type_and_units_is_told_by_its_context(self) -> None:
        member = sensor(
            f"{SERVER}/Sensors/0", "01", 22, "Intake", ReadingType=None, ReadingUnits=None
        )
        assert inlet(one_server(sensors(member)))[0] == 22

    @pytest.mark.parametrize("context", ["PowerSupply", "GPUSubsystem", "LiquidInlet", "Exhaust"])
    def test_a_context_elsewhere_beats_the_name(self, context: str) -> None:
        assert inlet(one_server(thermal(temperature("Inlet", 35, context)))) == (None, None)
