# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The vendors' trees are complete, full of traps, and too hard for a naive reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.bmc.vendors import TREES
from lab.embedded import EmbeddedLab, embedded_lab
from lab.machines import SERVER_TYPES
from support.bmc_client import Answer, BmcClient
from support.naive_redfish import NaiveFailure, read_inlet

ROOT = "/redfish/v1"
VENDORS = sorted(TREES)
LOAD_CORES = 8.0


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLab]:
    with embedded_lab(tmp_path_factory.mktemp("lab")) as running:
        running.admin("POST", "/clock", {"frozen": True})
        running.admin("PUT", "/loads", {machine.name: LOAD_CORES for machine in running.machines})
        yield running


@pytest.fixture(scope="module")
def crawled(lab: EmbeddedLab) -> dict[str, dict[str, Answer]]:
    """Vendor → path → answer, for everything that is reachable."""
    answers = {}
    for vendor in VENDORS:
        with BmcClient(lab, lab.machine(vendor)) as bmc:
            answers[vendor] = bmc.crawl(ROOT)
    return answers


def get(lab: EmbeddedLab, vendor: str, path: str) -> Any:
    with BmcClient(lab, lab.machine(vendor)) as bmc:
        answer = bmc.get(ROOT + path)
    assert answer.status == 200
    return answer.body


def shown(lab: EmbeddedLab, vendor: str) -> dict[str, float]:
    truth = lab.admin("GET", "/truth")[lab.machine(vendor).name]
    values: dict[str, float] = truth["shown"]
    return values


def named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry.get("Name", entry.get("DeviceName")) == name)


def chassis_members(lab: EmbeddedLab, vendor: str) -> list[str]:
    members = get(lab, vendor, "/Chassis")["Members"]
    return [member["@odata.id"].removeprefix(f"{ROOT}/Chassis/") for member in members]


@pytest.mark.parametrize("vendor", VENDORS)
def test_at_least_thirty_resources_can_be_reached(
    crawled: dict[str, dict[str, Answer]], vendor: str
) -> None:
    assert sum(answer.status == 200 for answer in crawled[vendor].values()) >= 30


@pytest.mark.parametrize("vendor", VENDORS)
def test_exactly_the_links_that_should_dangle_do(
    crawled: dict[str, dict[str, Answer]], vendor: str
) -> None:
    tree = TREES[vendor]
    failed = {path: a.status for path, a in crawled[vendor].items() if a.status != 200}
    expected = dict.fromkeys(tree.missing, 404) | dict.fromkeys(tree.busy, 503)
    assert failed == expected


@pytest.mark.parametrize("vendor", VENDORS)
def test_every_resource_of_the_table_can_be_reached_and_says_its_own_path(
    crawled: dict[str, dict[str, Answer]], vendor: str
) -> None:
    answers = crawled[vendor]
    assert set(TREES[vendor].resources) - set(answers) <= {"/redfish"}
    for path, answer in answers.items():
        if answer.status == 200 and "?" not in path:
            assert answer.body["@odata.id"].rstrip("/") == path


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_inlet_is_where_the_tree_says(lab: EmbeddedLab, vendor: str) -> None:
    answers = TREES[vendor].answers
    body = get(lab, vendor, answers.inlet_uri.removeprefix(ROOT))
    entries = body.get("Temperatures", body.get("TemperatureReadingsCelsius", [body]))
    entry = named(entries, answers.inlet_name)
    reading = entry.get("Reading", entry.get("ReadingCelsius"))
    assert reading == shown(lab, vendor)["inlet_celsius"]
    digits = {"openbmc": 3}.get(vendor, 0)
    truth = lab.admin("GET", "/truth")[lab.machine(vendor).name]["inlet_celsius"]
    assert reading == pytest.approx(truth, abs=0.5 * 10**-digits)


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_power_is_where_the_tree_says(lab: EmbeddedLab, vendor: str) -> None:
    body = get(lab, vendor, TREES[vendor].answers.power_uri.removeprefix(ROOT))
    if "PowerControl" in body:
        watts = body["PowerControl"][0]["PowerConsumedWatts"]
    else:
        watts = body["PowerWatts"]["Reading"]
    assert watts == shown(lab, vendor)["power_watts"]


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_system_names_its_predictor(lab: EmbeddedLab, vendor: str) -> None:
    machine = lab.machine(vendor)
    system = get(lab, vendor, "/Systems")["Members"][0]["@odata.id"].removeprefix(ROOT).rstrip("/")
    linked = get(lab, vendor, system)["MachineLearningModel"]["@odata.id"]
    assert get(lab, vendor, linked.removeprefix(ROOT))["PowerConsumptionModel"] == {
        "Name": machine.server_type,
        "Url": f"http://127.0.0.1:{lab.settings.ports['predictor']}",
        "Type": "V2InferenceProtocol",
        "Version": "v0.1.0",
    }


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_system_is_the_machine_of_the_inventory(lab: EmbeddedLab, vendor: str) -> None:
    machine = lab.machine(vendor)
    system = get(lab, vendor, "/Systems")["Members"][0]["@odata.id"].removeprefix(ROOT)
    body = get(lab, vendor, system)
    assert body["HostName"] == machine.name
    assert body["ProcessorSummary"]["CoreCount"] == machine.cores
    sockets = get(lab, vendor, system.rstrip("/") + "/Processors")["Members"]
    states = [
        get(lab, vendor, socket["@odata.id"].removeprefix(ROOT))["Status"]["State"]
        for socket in sockets
    ]
    assert states.count("Enabled") == SERVER_TYPES[machine.server_type].sockets


def test_idrac9_traps(lab: EmbeddedLab) -> None:
    first, vanished, main = chassis_members(lab, "idrac9")
    assert (first, main) == ("Enclosure.Internal.0-1", "System.Embedded.1")
    assert ":" in vanished
    sensors = f"/Chassis/{main}/Sensors"
    assert get(lab, "idrac9", f"{sensors}/SystemBoardInletTemp")["PhysicalContext"] == "SystemBoard"
    assert (
        get(lab, "idrac9", f"{sensors}/SystemBoardExhaustTemp")["PhysicalContext"] == "SystemBoard"
    )
    sensor_watts = get(lab, "idrac9", f"{sensors}/SystemBoardPwrConsumption")["Reading"]
    assert sensor_watts < shown(lab, "idrac9")["power_watts"]


def test_idrac10_traps(lab: EmbeddedLab) -> None:
    chassis = "/Chassis/System.Embedded.1"
    assert chassis_members(lab, "idrac10")[0] == "Enclosure.Internal.0-1"
    assert not {"Thermal", "Power"} & get(lab, "idrac10", chassis).keys()
    metrics = get(lab, "idrac10", f"{chassis}/ThermalSubsystem/ThermalMetrics")
    assert metrics["TemperatureReadingsCelsius"] == []
    page = get(lab, "idrac10", f"{chassis}/Sensors")
    paths = [member["@odata.id"] for member in page["Members"]]
    assert len(paths) == 50 < page["Members@odata.count"]
    assert paths != sorted(paths)
    assert f"{ROOT}{chassis}/Sensors/InletTemp" not in paths
    rest = get(lab, "idrac10", page["Members@odata.nextLink"].removeprefix(ROOT))
    assert "Members@odata.nextLink" not in rest
    paths += [member["@odata.id"] for member in rest["Members"]]
    assert len(set(paths)) == page["Members@odata.count"]
    assert "PhysicalContext" not in get(lab, "idrac10", f"{chassis}/Sensors/InletTemp")
    with BmcClient(lab, lab.machine("idrac10")) as bmc:
        gone = bmc.get(f"{ROOT}{chassis}/Sensors/SystemBoardInletTemp")
    assert gone.status == 404
    information = gone.body["error"]["@Message.ExtendedInfo"][0]
    assert information["MessageId"] == "Base.1.18.ResourceMissingAtURI"


def test_hpe_traps(lab: EmbeddedLab) -> None:
    members = get(lab, "hpe", "/Chassis")["Members"]
    assert all(member["@odata.id"].endswith("/") for member in members)
    assert chassis_members(lab, "hpe")[0] == "DE00A000/"
    inlet = shown(lab, "hpe")["inlet_celsius"]
    temperatures = get(lab, "hpe", "/Chassis/1/Thermal")["Temperatures"]
    for decoy in ("25-P/S 1 Inlet", "27-P/S 2 Inlet", "32-Board Inlet"):
        assert named(temperatures, decoy)["ReadingCelsius"] > inlet
    absent = named(temperatures, "05-P1 PMM 1-6")
    assert (absent["ReadingCelsius"], absent["Status"]) == (0, {"State": "Absent"})
    sensor = get(lab, "hpe", "/Chassis/1/Sensors/0")
    assert sensor["PhysicalContext"] == "Intake"
    assert not {"ReadingType", "ReadingUnits"} & sensor.keys()
    metrics = get(lab, "hpe", "/Chassis/1/ThermalSubsystem/ThermalMetrics")
    assert metrics["TemperatureSummaryCelsius"].keys() == {"Ambient"}
    assert "DataSourceUri" not in metrics["TemperatureReadingsCelsius"][0]
    assert "Name" not in get(lab, "hpe", "/Chassis/1/Power")["PowerControl"][0]
    assert sensor["@odata.etag"].startswith('W/"')
    machine = lab.machine("hpe")
    with BmcClient(lab, machine) as bmc:
        moved = bmc.request("GET", f"{ROOT}/Chassis?$expand=.", {})
    assert moved.status == 308
    assert moved.headers["Location"] == (
        f"https://{machine.bmc_address}{ROOT}/Chassis/?%24expand=."
    )


def test_lenovo_traps(lab: EmbeddedLab, crawled: dict[str, dict[str, Answer]]) -> None:
    assert "PhysicalContext" not in repr([answer.body for answer in crawled["lenovo"].values()])
    names = [t["Name"] for t in get(lab, "lenovo", "/Chassis/1/Thermal")["Temperatures"]]
    assert "Ambient Temp" in names
    assert not any("inlet" in name.lower() for name in names)
    controls = get(lab, "lenovo", "/Chassis/1/Power")["PowerControl"]
    assert named(controls, "CPU Sub-system Power")["PowerConsumedWatts"] > 0
    with BmcClient(lab, lab.machine("lenovo")) as bmc:
        assert bmc.get(f"{ROOT}/Chassis/1/Sensors/128L0").status == 404


def test_supermicro_traps(lab: EmbeddedLab) -> None:
    chassis = get(lab, "supermicro", "/Chassis/1")
    assert not {"Sensors", "ThermalSubsystem", "EnvironmentMetrics"} & chassis.keys()
    temperatures = get(lab, "supermicro", "/Chassis/1/Thermal")["Temperatures"]
    absent = named(temperatures, "Inlet Temp")
    assert (absent["ReadingCelsius"], absent["Status"]["State"]) == (0, "Absent")
    inlet = named(temperatures, "Inlet Temp 2")["ReadingCelsius"]
    assert named(temperatures, "System Temp")["ReadingCelsius"] > inlet + 5
    assert "ProtocolFeaturesSupported" not in get(lab, "supermicro", "")


def test_openbmc_traps(lab: EmbeddedLab, crawled: dict[str, dict[str, Answer]]) -> None:
    paths = crawled["openbmc"]
    assert not any(path.endswith(("/Thermal", "/Power")) for path in paths)
    assert chassis_members(lab, "openbmc") == ["Riser_1", "PDB_0", "chassis"]
    for member in chassis_members(lab, "openbmc"):
        assert get(lab, "openbmc", f"/Chassis/{member}")["Links"]["ComputerSystems"]
    system = get(lab, "openbmc", "/Systems/system")
    assert system["Links"]["Chassis"] == [{"@odata.id": f"{ROOT}/Chassis/chassis"}]
    metrics = get(lab, "openbmc", "/Chassis/chassis/ThermalSubsystem/ThermalMetrics")
    readings = metrics["TemperatureReadingsCelsius"]
    assert all(entry.keys() == {"DataSourceUri", "Reading"} for entry in readings)
    ambient = [
        entry["DataSourceUri"][-6:-5] for entry in readings if "Ambient" in entry["DataSourceUri"]
    ]
    assert ambient == ["2", "0", "1"]
    inlet = shown(lab, "openbmc")["inlet_celsius"]
    for decoy in ("PSU0_Inlet", "Riser_1_Inlet"):
        sensor = get(lab, "openbmc", f"/Chassis/chassis/Sensors/temperature_{decoy}_Temp")
        assert sensor["Reading"] > inlet + 3
    environment = get(lab, "openbmc", "/Chassis/chassis/EnvironmentMetrics")
    assert environment["TemperatureCelsius"]["Reading"] > inlet + 15


@pytest.mark.parametrize("vendor", ["idrac9", "hpe", "lenovo"])
def test_expand_puts_members_in_where_it_is_offered(lab: EmbeddedLab, vendor: str) -> None:
    members = get(lab, vendor, "/Chassis?$expand=.")["Members"]
    dangling = [member for member in members if member.keys() == {"@odata.id"}]
    assert len(dangling) == 1
    assert sum("ChassisType" in member for member in members) == len(members) - 1


def test_expanded_pages_stay_expanded(lab: EmbeddedLab) -> None:
    path = "/Chassis/System.Embedded.1/Sensors?$expand=*($levels=1)"
    page = get(lab, "idrac10", path)
    following = get(lab, "idrac10", page["Members@odata.nextLink"].removeprefix(ROOT))
    assert {"Reading", "Name"} <= following["Members"][-1].keys()


def test_supermicro_ignores_and_openbmc_refuses_queries(lab: EmbeddedLab) -> None:
    members = get(lab, "supermicro", "/Chassis?$expand=.")["Members"]
    assert all(member.keys() == {"@odata.id"} for member in members)
    with BmcClient(lab, lab.machine("openbmc")) as bmc:
        refused = bmc.get(f"{ROOT}/Chassis?$expand=.")
    assert refused.status == 501
    assert refused.body["error"]["code"] == "Base.1.19.QueryNotSupported"


def test_a_naive_reader_is_wrong_or_helpless_on_five_of_the_six(lab: EmbeddedLab) -> None:
    outcome: dict[str, float | str] = {}
    for vendor in VENDORS:
        try:
            read = read_inlet(lab, lab.machine(vendor))
        except NaiveFailure as failure:
            outcome[vendor] = str(failure)
        else:
            outcome[vendor] = read - shown(lab, vendor)["inlet_celsius"]
    assert outcome == {
        "idrac9": 0.0,
        "idrac10": f"{ROOT}/Chassis/Enclosure.Internal.0-1/Thermal answers 404",
        "hpe": f"{ROOT}/Chassis/DE00A000//Thermal answers 404",
        "lenovo": f"no Inlet in {ROOT}/Chassis/1/Thermal",
        "supermicro": pytest.approx(10, abs=1.5),
        "openbmc": f"{ROOT}/Chassis/Riser_1/Thermal answers 404",
    }


def test_a_naive_reader_takes_null_for_zero(lab: EmbeddedLab) -> None:
    machine = lab.machine("idrac9")
    lab.admin("POST", "/faults", {"kind": "null-reading", "node": machine.name})
    try:
        assert read_inlet(lab, machine) == 0.0
    finally:
        lab.admin("DELETE", "/faults")
        lab.admin("POST", "/clock", {"frozen": True})
