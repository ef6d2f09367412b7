# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choice of the server's chassis, following of its links, and the small number of requests."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.thermal import read_thermal
from support.https_server import Document, HttpsServer, Reply
from support.redfish_reading import PIN, inlet, only_error, read
from support.redfish_trees import (
    ROOT,
    SERVER,
    chassis,
    collection,
    one_server,
    power,
    ref,
    sensor,
    sensors,
    temperature,
    thermal,
)


def ref_systems() -> dict[str, t.Any]:
    return {"ComputerSystems": [ref(f"{ROOT}/Systems/1")]}


class TestChassis:
    """Choice of the server among several chassis."""

    def enclosure_and_server(self) -> dict[str, Document]:
        """The enclosure comes first and has an intake; the server has only a name."""
        enclosure = f"{ROOT}/Chassis/CMC"
        return {
            f"{ROOT}/Chassis": collection(enclosure, SERVER),
            enclosure: chassis(enclosure, "Enclosure", system=False),
            SERVER: chassis(SERVER, "Enclosure"),
            **thermal(temperature("Intake", 30, "Intake"), uri=enclosure),
            **thermal(temperature("FRONT", 22)),
            **power(900, uri=enclosure),
        }

    def test_the_chassis_with_the_system_beats_a_better_sensor_of_the_enclosure(self) -> None:
        assert inlet(self.enclosure_and_server()) == (22, "FRONT")

    def test_the_power_of_an_enclosure_is_not_the_server_s(self) -> None:
        result, _server = read(self.enclosure_and_server(), "power")
        assert result["readings"][0]["power_watts"] is None
        assert only_error(result)["reason"] == "no_sensor"

    def test_an_enclosure_stands_in_where_the_server_has_no_sensor_at_all(self) -> None:
        documents = self.enclosure_and_server()
        del documents[f"{SERVER}/Thermal"]
        assert inlet(documents) == (30, "Intake")

    def test_an_enclosure_does_not_stand_in_for_a_sensor_that_pauses(self) -> None:
        documents = {**self.enclosure_and_server(), **thermal(temperature("FRONT", None))}
        assert only_error(read(documents)[0])["reason"] == "no_sensor"

    def test_an_enclosure_does_not_stand_in_for_a_server_that_is_out_of_order(self) -> None:
        documents = {**self.enclosure_and_server(), SERVER: Reply(501)}
        assert only_error(read(documents)[0])["reason"] == "server_error"

    def test_a_chassis_that_is_out_of_order_does_not_hinder_the_server(self) -> None:
        documents = {**self.enclosure_and_server(), f"{ROOT}/Chassis/CMC": Reply(501)}
        assert inlet(documents) == (22, "FRONT")

    def test_boards_within_the_server_do_not_count(self) -> None:
        board = f"{ROOT}/Chassis/Baseboard"
        documents = {
            f"{ROOT}/Chassis": collection(board, SERVER),
            board: chassis(board, "Card", Links={"ContainedBy": ref(SERVER), **ref_systems()}),
            SERVER: chassis(SERVER),
            **thermal(temperature("Intake", 30, "Intake"), uri=board),
            **thermal(temperature("Ambient", 22)),
        }
        assert inlet(documents) == (22, "Ambient")

    def test_a_blade_in_an_enclosure_is_the_server(self) -> None:
        enclosure = f"{ROOT}/Chassis/Enclosure"
        links = {"ContainedBy": [ref(enclosure)], **ref_systems()}
        documents = {
            f"{ROOT}/Chassis": collection(enclosure, SERVER),
            enclosure: chassis(enclosure, "Enclosure", system=False),
            SERVER: chassis(SERVER, "Blade", Links=links),
            **thermal(temperature("Inlet", 30), uri=enclosure),
            **thermal(temperature("Inlet", 22)),
        }
        assert inlet(documents)[0] == 22

    def test_without_any_system_the_type_decides(self) -> None:
        module = f"{ROOT}/Chassis/A"
        documents = {
            f"{ROOT}/Chassis": collection(module, SERVER),
            module: chassis(module, "Module", system=False),
            SERVER: chassis(SERVER, "Sled", system=False),
            **thermal(temperature("Inlet", 30), uri=module),
            **thermal(temperature("Inlet", 22)),
        }
        assert inlet(documents)[0] == 22

    def test_the_system_s_own_link_saves_the_walk_over_all_chassis(self) -> None:
        documents = one_server(thermal(temperature("Inlet", 22, "Intake")))
        _result, server = read(documents)
        assert f"{ROOT}/Chassis" not in server.requests

    def test_accelerators_that_a_system_links_to_are_not_read(self) -> None:
        gpus = [f"{ROOT}/Chassis/HGX_GPU_{number}" for number in range(8)]
        system = {"Links": {"Chassis": [ref(uri) for uri in (*gpus, SERVER)]}}
        documents = one_server(thermal(temperature("Inlet", 22)))
        documents[f"{ROOT}/Systems/1"] = system
        result, server = read(documents)
        assert result["readings"][0]["inlet_celsius"] == 22
        assert not server.requests.keys() & set(gpus)

    def test_a_broken_list_of_systems_is_no_hindrance(self) -> None:
        documents = one_server(thermal(temperature("Inlet", 22)))
        documents[f"{ROOT}/Systems"] = Reply(501)
        assert inlet(documents)[0] == 22


class TestLinks:
    """References in the forms that BMCs use."""

    def test_trailing_slashes_fragments_and_absolute_urls(self) -> None:
        documents = one_server(thermal(temperature("Inlet", 22)), power(100))
        with HttpsServer(documents) as server:
            server.documents[ROOT] = {
                "Systems": ref(f"{ROOT}/Systems/"),
                "Chassis": ref(f"{server.endpoint}{ROOT}/Chassis"),
            }
            server.documents[f"{ROOT}/Systems"] = collection(f"{server.endpoint}{ROOT}/Systems/1/")
            server.documents[SERVER] = {
                **chassis(SERVER),
                "Thermal": ref(f"{SERVER}/Thermal/#/Temperatures/0"),
                "Power": ref(f"{SERVER}/Power/"),
            }
            one = {"name": "n", "endpoint": f"{server.endpoint}/redfish/v1/"}
            given = {"targets": [one], "tls_fingerprint": PIN}
            reading = read_thermal(given, Context())["readings"][0]
        assert (reading["inlet_celsius"], reading["power_watts"]) == (22, 100)
        assert reading["source_uri"] == f"{SERVER}/Thermal"
        assert reading["power_uri"] == f"{SERVER}/Power"

    def test_a_link_to_another_host_is_not_followed(self) -> None:
        with HttpsServer({}) as other:
            stray = {"Thermal": ref(f"{other.endpoint}{SERVER}/Thermal")}
            result, _server = read(one_server(**stray))
            assert other.total == 0
        assert other.endpoint in only_error(result)["detail"]

    def test_quoted_identifiers_stay_quoted(self) -> None:
        uri = f"{SERVER}/Sensors/iDRAC.Embedded.1%23InletTemp"
        documents = one_server({f"{SERVER}/Sensors": collection(uri)})
        documents[f"{SERVER}/Sensors/iDRAC.Embedded.1#InletTemp"] = sensor(uri, "Inlet", 22)[uri]
        result, server = read(documents)
        assert result["readings"][0]["source_uri"] == uri
        assert server.requests[uri] == 1

    def test_all_pages_are_read(self) -> None:
        pages = [f"{SERVER}/Sensors?page={number}" for number in range(1, 4)]
        documents = one_server(sensors(sensor(f"{SERVER}/Sensors/Inlet", "Inlet", 22)))
        documents[f"{SERVER}/Sensors"] = [
            Reply(body={"Members": [], "Members@odata.nextLink": page}) for page in pages
        ] + [Reply(body=collection(f"{SERVER}/Sensors/Inlet"))]
        assert inlet(documents)[0] == 22

    def test_temperatures_may_have_pages_too(self) -> None:
        documents = one_server(
            thermal(temperature("Temp 1", 40)),
            {f"{SERVER}/More": {"Temperatures": [temperature("Inlet", 22)]}},
        )
        first = t.cast("dict[str, t.Any]", documents[f"{SERVER}/Thermal"])
        first["Temperatures@odata.nextLink"] = f"{SERVER}/More"
        result, _server = read(documents)
        assert result["readings"][0]["inlet_celsius"] == 22
        again, server = read(documents, target={"sensors": result["sensors"][0]})
        assert again["readings"][0]["inlet_celsius"] == 22
        assert server.total == 2

    def test_pages_that_go_round_in_a_circle_end(self) -> None:
        circle = {"Members": [], "Members@odata.nextLink": f"{SERVER}/Sensors?p=1"}
        documents = one_server({f"{SERVER}/Sensors": circle})
        result, server = read(documents)
        assert only_error(result)["reason"] == "no_sensor"
        assert server.total < 20

    def test_pages_without_end_end(self) -> None:
        replies = [
            Reply(body={"Members": [], "Members@odata.nextLink": f"{SERVER}/Sensors?p={number}"})
            for number in range(200)
        ]
        _result, server = read(one_server({f"{SERVER}/Sensors": replies}))
        assert 40 <= server.total <= 60

    def test_sensors_that_cannot_matter_are_not_read(self) -> None:
        names = ["Fan1", "CPU1Temp", "PS1Voltage", "SystemBoardPwrConsumption", "InletTemp"]
        members = [sensor(f"{SERVER}/Sensors/{name}", name, 22) for name in names]
        _result, server = read(one_server(sensors(*members)))
        read_members = [path for path in server.requests if path.startswith(f"{SERVER}/Sensors/")]
        assert read_members == [f"{SERVER}/Sensors/InletTemp"]

    def test_contents_in_place_of_links_are_taken_where_the_bmc_offers_them(self) -> None:
        members = [sensor(f"{SERVER}/Sensors/{number}", f"T{number}", 40) for number in range(30)]
        wanted = sensor(f"{SERVER}/Sensors/30", "Inlet", 22, "Intake")
        documents = one_server(sensors(*members, wanted))
        features = {"ProtocolFeaturesSupported": {"ExpandQuery": {"NoLinks": True}}}
        documents[ROOT] = {**t.cast("dict[str, t.Any]", documents[ROOT]), **features}
        result, server = read(documents, server={"expand": True})
        assert result["readings"][0]["source_uri"] == f"{SERVER}/Sensors/30"
        assert server.total < 10

    @pytest.mark.parametrize("status", [400, 501, 404])
    def test_an_expansion_that_fails_is_done_without(self, status: int) -> None:
        documents = one_server(sensors(sensor(f"{SERVER}/Sensors/A", "Inlet", 22)))
        collected = documents[f"{SERVER}/Sensors"]
        documents[f"{SERVER}/Sensors"] = [Reply(status), Reply(body=collected)]
        features = {"ProtocolFeaturesSupported": {"ExpandQuery": {"NoLinks": True}}}
        documents[ROOT] = {**t.cast("dict[str, t.Any]", documents[ROOT]), **features}
        assert inlet(documents)[0] == 22
