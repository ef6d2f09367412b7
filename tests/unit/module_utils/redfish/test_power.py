# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power draw of the whole server: never those of a part, from any vendor's place."""

from __future__ import annotations

import itertools
import random
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.redfish import parts, power
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.supplies import sum_of_supplies
from support.examples import each_seed
from support.https_server import Document
from support.redfish_reading import read
from support.redfish_trees import ROOT, SERVER, chassis, collection, one_server, ref

Body = dict[str, t.Any]
PLACE = f"{SERVER}/Power"


def watts_of(body: Body) -> float | None:
    found = power.of_power(PLACE, body)
    return found.watts if found else None


def supply(watts: t.Any, **more: t.Any) -> Body:
    return {"PowerInputWatts": watts, "Status": {"State": "Enabled", "Health": "OK"}, **more}


def state(name: str, health: str = "OK") -> Body:
    return {"Status": {"State": name, "Health": health}}


PARTS = [
    *("CPU Sub-system Power", "Memory Sub-system Power", "GPU Subsystem", "CPU1", "CPUs Power"),
    *("Processor 1 Package", "Total CPU Power", "System Memory Power", "DIMM A1", "cpu0_power"),
    *("Accelerator0 Power Control", "HGX GPU Baseboard", "Server Fan Power", "Fans", "PUMP1"),
    *("Storage Power", "Drives", "NVMe SSD 3", "Backplane1", "PCIe Slot 4", "Riser 2 Power"),
    *("NIC1", "OCP NIC Power", "Network Adapter", "VR_CPU0", "VRM Output", "P12V_AUX", "12V Rail"),
    *("3.3V", "Mainboard", "Board Power", "Blade 3 Power Control", "Enclosure Power", "Sled 2"),
    *("PSU1 Power", "Power Supply 2 Input", "PS1 Input Power", "Other Components", "BMC Power"),
    *("SystemFanPower", "ServerCPUPower", "MEM_PWR", "SoC Power", "iLO", "Netzteil 1"),
]
WHOLE = [
    *(
        "Server Power Control",
        "System Power Control",
        "System Input Power",
        "Chassis Power Control",
    ),
    *("Node Power Control", "Total Power", "total_power", "SystemPowerConsumption", "Sys Power"),
    *("System Board Pwr Consumption", "SystemBoardPwrConsumption", "PSU Total Input Power"),
    *("Platform Power", "Chassis_0_TotalHSC_Power_0"),
]


@pytest.mark.parametrize("name", PARTS)
def test_names_of_parts(name: str) -> None:
    assert parts.named(name) == "part"


@pytest.mark.parametrize("name", WHOLE)
def test_names_of_the_whole_server(name: str) -> None:
    assert parts.named(name) == "whole"


@pytest.mark.parametrize("name", ["POWER_USAGE", "Power Control", "nil", "Pwr Consumption", "1"])
def test_names_that_tell_nothing(name: str) -> None:
    assert parts.named(name) == "unknown"


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("key", ["Name", "MemberId"])
def test_a_part_is_never_told_as_the_server(name: str, key: str) -> None:
    part = {key: name, "PowerConsumedWatts": 88}
    assert watts_of({"PowerControl": [part]}) is None
    server = {"Name": "Server Power Control", "PowerConsumedWatts": None}
    for controls in itertools.permutations([part, server]):
        assert watts_of({"PowerControl": list(controls)}) is None
    both = {"PowerControl": [part, server], "PowerSupplies": [supply(140), supply(136)]}
    assert watts_of(both) == 276


@pytest.mark.parametrize(
    "structure",
    [
        {"PhysicalContext": "CPU"},
        {"PhysicalContext": "GPUSubsystem"},
        {"PhysicalContext": "Fan"},
        {"RelatedItem": [ref("/redfish/v1/Systems/1/Processors/CPU1")]},
        {
            "RelatedItem": [
                ref("/redfish/v1/Systems/1/Memory/1"),
                ref("/redfish/v1/Chassis/1/Drives/1"),
            ]
        },
    ],
)
def test_structure_tells_a_part_where_the_name_does_not(structure: Body) -> None:
    assert watts_of({"PowerControl": [{"PowerConsumedWatts": 88, **structure}]}) is None
    # Firmware links the control of the server to a processor (Supermicro X10).
    named = {"Name": "System Power Control", "PowerConsumedWatts": 200, **structure}
    assert watts_of({"PowerControl": [named]}) == 200


@pytest.mark.parametrize(
    "structure",
    [
        {"PhysicalContext": "PowerSupply"},
        {"PhysicalContext": "Intake"},
        {"RelatedItem": [ref("/redfish/v1/Chassis/1"), ref("/redfish/v1/Systems/1")]},
        {},
    ],
)
def test_a_control_without_a_telling_name_counts(structure: Body) -> None:
    assert watts_of({"PowerControl": [{"PowerConsumedWatts": 165, **structure}]}) == 165


def test_supplies_go_before_a_later_control() -> None:
    controls: list[Body] = [
        {"Name": "Server Power Control", "MemberId": "0", "PowerConsumedWatts": None},
        {"Name": "System Power", "MemberId": "1", "PowerConsumedWatts": 251},
    ]
    assert watts_of({"PowerControl": controls}) == 251
    both = {"PowerControl": controls, "PowerSupplies": [supply(140), supply(136)]}
    assert watts_of(both) == 276
    controls[0]["PowerConsumedWatts"] = 270
    assert watts_of(both) == 270
    for unbelievable in (0, -1, 200_000):
        controls[0]["PowerConsumedWatts"] = unbelievable
        assert watts_of(both) == 276


def test_all_ones_are_no_reading() -> None:
    control = {"Name": "System Power Control", "PowerConsumedWatts": 65535}
    body = {"PowerControl": [control], "PowerSupplies": [supply(140), supply(136)]}
    assert watts_of(body) == 276
    assert not power.Power(65535, PLACE).is_plausible


@pytest.mark.parametrize(
    ("fields", "watts"),
    [
        ({"ReadingUnits": "W", "ReadingType": "Power"}, 280),
        ({"ReadingUnits": "Watts", "ReadingType": "power"}, 280),
        ({"ReadingUnits": "kW"}, None),
        ({"ReadingUnits": "W", **state("Absent")}, None),
        ({"ReadingUnits": "W", **state("Disabled")}, None),
    ],
)
def test_readings_of_sensors(fields: Body, watts: float | None) -> None:
    found = power.of_sensor(PLACE, {"Name": "Total Power", "Reading": 280, **fields})
    assert (found.watts if found else None) == watts


def test_controls_of_several_nodes_are_none_of_this_server() -> None:
    nodes = [
        {"Name": f"Node {number} Power Control", "PowerConsumedWatts": 100 * number}
        for number in (1, 2)
    ]
    assert watts_of({"PowerControl": nodes}) is None
    whole = {"Name": "Chassis Power Control", "PowerConsumedWatts": 320}
    assert watts_of({"PowerControl": [*nodes, whole]}) == 320


@pytest.mark.parametrize(
    ("supplies", "watts"),
    [
        ([supply(140), supply(136)], 276),
        ([supply("140"), supply(136.5)], 276.5),
        ([supply(140), supply(None, **state("Absent"))], 140),
        # A stale reading of an absent supply.
        ([supply(140), supply(90, **state("Absent"))], 140),
        ([supply(140), supply(None, **state("Disabled"))], 140),
        ([supply(140), supply(None, **state("StandbySpare"))], 140),
        ([supply(140), supply(None, **state("UnavailableOffline", "Critical"))], 140),
        ([supply(140), supply(None, **state("Enabled", "Critical"))], 140),
        ([supply(140), supply(None, LineInputVoltage=0)], 140),
        ([supply(393), supply(5, PowerOutputWatts=0)], 398),
        ([supply(140), supply(0)], 140),
        ([supply(140), supply(None)], None),
        ([supply(140), supply(-3)], None),
        ([supply(140), supply(65535)], None),
        ([supply(65535, PowerOutputWatts=128)], 128),
        ([supply(None), supply(None)], None),
        ([], None),
        # Input before output; output where that is all.
        ([supply(140, PowerOutputWatts=128)], 140),
        ([supply(None, PowerOutputWatts=128), supply(0, PowerOutputWatts=120)], 248),
        ([supply(None, LastPowerOutputWatts=203, PowerCapacityWatts=750)], 203),
        # Ratings in the place of readings.
        ([supply(900, PowerCapacityWatts=750, PowerOutputWatts=203)], 203),
        ([supply(900, InputRanges=[{"OutputWattage": 750}])], None),
        ([supply(None, LastPowerOutputWatts=750, PowerCapacityWatts=750)], None),
        ([supply(None, LastPowerOutputWatts=1600)], None),
        # Supplies that feed only themselves: the server is off.
        ([supply(13, PowerOutputWatts=0), supply(14, PowerOutputWatts=0)], None),
        # The same supply twice.
        ([supply(140, MemberId="0"), supply(136, MemberId="1"), supply(140, MemberId="0")], 276),
        ([supply(140, **ref("/p/0")), supply(140, **ref("/p/0"))], 140),
        ([supply(120), supply(120)], 240),
    ],
)
def test_sums_of_supplies(supplies: list[Body], watts: float | None) -> None:
    assert sum_of_supplies({"PowerSupplies": supplies}) == watts


def huawei(key: str, *readings: t.Any) -> Body:
    standby = {"PowerInputWatts": None, "ActiveStandby": "Standby"}
    blocks = [{"PowerInputWatts": watts, "PowerOutputWatts": 1} for watts in readings]
    return {
        "PowerControl": [{"Name": "System Power Control 1", "PowerConsumedWatts": None}],
        "PowerSupplies": [
            {"MemberId": str(index), "Oem": {key: block}}
            for index, block in enumerate([*blocks, standby])
        ],
    }


def fujitsu(key: str, consumption: Body, **sensors: t.Any) -> Body:
    entries = [
        {
            "Designation": name.replace("_", " "),
            "EntityId": entity,
            "CurrentPowerConsumptionW": value,
        }
        for name, (entity, value) in sensors.items()
    ]
    return {"Oem": {key: {"ChassisPowerConsumption": consumption, "ChassisPowerSensors": entries}}}


SUPPLY, MONITOR = "Power Supply", "Power Monitoring"
VENDORS = {
    "Fujitsu iRMC": (fujitsu("ts_fujitsu", {"CurrentPowerConsumptionW": 162}), 162),
    "Fsas iRMC": (fujitsu("Fsas", {"CurrentPowerConsumptionW": "162"}), 162),
    "Fujitsu by its sensors": (
        fujitsu(
            "ts_fujitsu",
            {"AveragePowerW": 158},
            PSU1_Power=(SUPPLY, 84),
            Total_Power=(MONITOR, 163),
            CPU1_Power=("Processor", 37),
        ),
        163,
    ),
    "Fujitsu by its supplies": (
        fujitsu("ts_fujitsu", {}, PSU1_Power=(SUPPLY, 84), PSU2_Power=(SUPPLY, 78), CPU1=("", 37)),
        162,
    ),
    "Huawei iBMC": (huawei("Huawei", 118, 121), 239),
    "xFusion iBMC": (huawei("xFusion", "118", 121.0), 239),
    "Inspur": (
        {"PowerControl": [], "Oem": {"Public": {"TotalPower": 307, "CurrentCPUPowerWatts": 121}}},
        307,
    ),
    "Inspur, as a text": (
        {"Oem": {"Public": {"CurrentFANPowerWatts": 31, "TotalPower": "307"}}},
        307,
    ),
    "a vendor's block of the control": (
        {
            "PowerControl": [
                {
                    "PowerConsumedWatts": None,
                    "Oem": {
                        "Vendor": {"CurrentSystemPowerWatts": 210, "CurrentBoardPowerWatts": 90}
                    },
                }
            ]
        },
        210,
    ),
    "the resource itself, as of iLO 4": ({"PowerControl": [], "PowerConsumedWatts": 93}, 93),
    "a nested block": ({"Oem": {"Vendor": {"PowerMetrics": {"TotalPowerConsumption": 210}}}}, 210),
    "a vendor that measures nothing": ({"Oem": {"Public": {"TotalPower": 0}}}, None),
    "a vendor with parts alone": (
        {"Oem": {"Public": {"CurrentCPUPowerWatts": 121, "TotalFanPower": 9}}},
        None,
    ),
}


@pytest.mark.parametrize("name", VENDORS)
def test_vendors_own_blocks_over_https(name: str) -> None:
    body, watts = VENDORS[name]
    documents = one_server({PLACE: {"@odata.id": PLACE, **body}})
    result, _server = read(documents, "power")
    assert result["readings"][0]["power_watts"] == watts
    assert [error["reason"] for error in result["errors"]] == ([] if watts else ["no_sensor"])
    if watts is not None:
        again, server = read(documents, "power", target={"sensors": result["sensors"][0]})
        assert (again["readings"][0]["power_watts"], server.total) == (watts, 1)


@each_seed(40)
def test_the_order_of_the_lists_does_not_matter(seed: int) -> None:
    chance = random.Random(seed)
    controls = [
        {"MemberId": str(index), "Name": name, "PowerConsumedWatts": 10 + index}
        for index, name in enumerate([*chance.sample(PARTS, 5), "System Power Control", "Power"])
    ]
    supplies = [supply(watts, MemberId=str(watts)) for watts in (140, 136)]
    body = {"PowerControl": controls, "PowerSupplies": supplies}
    shuffled = {key: chance.sample(items, len(items)) for key, items in body.items()}
    assert watts_of(shuffled) == watts_of(body) == 15


class TestEnvironment:
    """EnvironmentMetrics and sensors of the chassis."""

    METRICS = f"{SERVER}/EnvironmentMetrics"

    def watts(self, metrics: Body, sensor: Body | None = None, **fields: t.Any) -> t.Any:
        uri = f"{SERVER}/Sensors/S"
        documents = one_server({self.METRICS: metrics}, {uri: sensor or {}}, **fields)
        return read(documents, "power")[0]["readings"][0]["power_watts"]

    def test_metrics_of_a_processor_are_not_the_server_s(self) -> None:
        place = f"{ROOT}/Systems/1/Processors/1/EnvironmentMetrics"
        documents = one_server(
            {place: {"PowerWatts": {"Reading": 88}}}, EnvironmentMetrics=ref(place)
        )
        assert read(documents, "power")[0]["readings"][0]["power_watts"] is None

    @pytest.mark.parametrize("name", ["CPU0_Power", "HGX_GPU_0_Power_0", "PSU1_InputPower"])
    def test_a_reading_from_the_sensor_of_a_part_is_not_the_server_s(self, name: str) -> None:
        source = {"DataSourceUri": f"{SERVER}/Sensors/{name}", "Reading": 88}
        assert self.watts({"PowerWatts": source}) is None

    @pytest.mark.parametrize(
        ("more", "watts"),
        [
            ({}, 374),
            ({"PhysicalContext": "SystemBoard", "PhysicalSubContext": "Input"}, 374),
            ({"PhysicalContext": "CPU"}, None),
            ({"Name": "CPU Power"}, None),
            ({"ReadingType": "EnergykWh"}, None),
            ({"RelatedItem": [ref(f"{ROOT}/Systems/1/Processors/1")]}, None),
        ],
    )
    def test_a_sensor_may_tell_that_it_is_of_a_part(self, more: Body, watts: float | None) -> None:
        metrics = {"PowerWatts": {"DataSourceUri": f"{SERVER}/Sensors/S"}}
        sensor = {"ReadingType": "Power", "ReadingUnits": "W", "Reading": 374, **more}
        assert self.watts(metrics, sensor) == watts


@pytest.mark.parametrize(
    ("readings", "expand"),
    [
        ([(140, 128), (136, 125)], False),
        ([(140, 128), (136, 125)], True),
        ([(None, 140), (136, None)], False),
    ],
)
def test_supplies_of_a_power_subsystem(readings: list[tuple[t.Any, t.Any]], expand: bool) -> None:
    place = f"{SERVER}/PowerSubsystem"
    supplies = [f"{place}/PowerSupplies/{number}" for number in range(len(readings))]
    metrics: dict[str, Document] = {
        f"{uri}/Metrics": {
            "InputPowerWatts": {"Reading": consumed},
            "OutputPowerWatts": {"Reading": output},
        }
        for uri, (consumed, output) in zip(supplies, readings, strict=True)
    }
    documents = one_server(
        {place: {"PowerSupplies": ref(f"{place}/PowerSupplies")}},
        {f"{place}/PowerSupplies": collection(*supplies)},
        {uri: {**ref(uri), "Metrics": ref(f"{uri}/Metrics")} for uri in supplies},
        metrics,
        PowerSubsystem=ref(place),
    )
    if expand:
        root = t.cast("dict[str, t.Any]", documents[ROOT])
        features = {"ExpandQuery": {"NoLinks": True}}
        documents[ROOT] = {**root, "ProtocolFeaturesSupported": features}
    result, _server = read(documents, "power", server={"expand": expand})
    reading = result["readings"][0]
    assert (reading["power_watts"], reading["power_uri"]) == (276, f"{place}/PowerSupplies")
    known = {"sensors": result["sensors"][0]}
    again, server = read(documents, "power", target=known, server={"expand": expand})
    assert again["readings"][0]["power_watts"] == 276
    # A later read does not know whether the BMC expands collections.
    assert server.total == 5


def test_watts_of_one_of_several_servers_are_told_of_none() -> None:
    nodes = [f"{ROOT}/Chassis/Node{number}" for number in (1, 2)]
    systems = [f"{ROOT}/Systems/{number}" for number in (1, 2)]
    documents = one_server({f"{ROOT}/Systems": collection(*systems)})
    for node, system in zip(nodes, systems, strict=True):
        documents[system] = {"PowerState": "On", "Links": {"Chassis": [ref(node)]}}
        documents[node] = chassis(node, "Sled", Links={"ComputerSystems": [ref(system)]})
        documents[f"{node}/Power"] = {"PowerControl": [{"PowerConsumedWatts": 210}]}
    result, _server = read(documents, "power")
    [error] = result["errors"]
    assert "has 2 servers (/redfish/v1/Chassis/Node1, " in error["detail"]
    # Both boards of a server with two are the same one.
    for node in nodes:
        links = {"ComputerSystems": [ref(system) for system in systems]}
        documents[node] = chassis(node, "Sled", Links=links)
    assert read(documents, "power")[0]["readings"][0]["power_watts"] == 210


def test_a_sled_is_the_server_and_not_the_enclosure_that_its_system_links_to() -> None:
    home = f"{ROOT}/Chassis/Home"
    sled = chassis(SERVER, "Sled")
    sled["Links"] = {**sled["Links"], "ContainedBy": ref(home)}
    documents: dict[str, Document] = {
        **one_server({PLACE: {"PowerControl": [{"PowerConsumedWatts": 210}]}}),
        f"{ROOT}/Systems/1": {"Links": {"Chassis": [ref(home), ref(SERVER)]}},
        f"{ROOT}/Chassis": collection(home, SERVER),
        home: chassis(home, "Enclosure"),
        f"{home}/Power": {"PowerControl": [{"PowerConsumedWatts": 1800}]},
        SERVER: sled,
    }
    assert read(documents, "power")[0]["readings"][0]["power_watts"] == 210
