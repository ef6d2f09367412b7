# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""redfish_thermal_info's function: results, known sensors, failures, snapshots."""

from __future__ import annotations

import datetime
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.thermal import read_thermal
from support.https_server import Document, HttpsServer, Reply
from support.redfish_reading import PIN, Result, inlet, only_error, read
from support.redfish_trees import (
    ROOT,
    SERVER,
    metrics,
    one_server,
    power,
    ref,
    sensor,
    sensors,
    temperature,
    thermal,
)
from support.snapshots import with_targets


def test_everything_that_a_bmc_gives() -> None:
    documents = one_server(thermal(temperature("Inlet", 21.5, "Intake")), power(250))
    result, server = read(documents, "inlet power")
    assert result["readings"] == [
        {
            "name": "node-1",
            "inlet_celsius": 21.5,
            "sensor_name": "Inlet",
            "source_uri": f"{SERVER}/Thermal",
            "rule": "thermal_physical_context_intake",
            "power_watts": 250.0,
            "power_uri": f"{SERVER}/Power",
            "vendor": "Contoso",
        }
    ]
    assert result["sensors"] == [
        {
            "name": "node-1",
            "inlet_uri": f"{SERVER}/Thermal",
            "inlet_name": "Inlet",
            "power_uri": f"{SERVER}/Power",
            "vendor": "Contoso",
        }
    ]
    assert (result["errors"], result["authentication"], result["changed"]) == ([], [], False)
    assert max(server.requests.values()) == 1


class TestPower:
    """The power draw of the whole server."""

    def power_of(self, documents: dict[str, Document]) -> tuple[t.Any, t.Any]:
        reading = read(documents, "power")[0]["readings"][0]
        return reading["power_watts"], reading["power_uri"]

    def test_environment_metrics_come_first(self) -> None:
        place = f"{SERVER}/EnvironmentMetrics"
        documents = one_server(power(344), {place: {"PowerWatts": {"Reading": 374}}})
        assert self.power_of(documents) == (374, place)

    def test_environment_metrics_may_only_name_a_sensor(self) -> None:
        uri = f"{SERVER}/Sensors/Total"
        documents = one_server(
            power(344),
            {f"{SERVER}/EnvironmentMetrics": {"PowerWatts": {"DataSourceUri": uri}}},
            {uri: {"ReadingType": "Power", "ReadingUnits": "W", "Reading": 374.5}},
        )
        assert self.power_of(documents) == (374.5, uri)
        known = {"power_uri": uri}
        result, server = read(documents, "power", target={"sensors": known})
        assert (result["readings"][0]["power_watts"], server.total) == (374.5, 1)

    def test_the_control_of_the_server_is_chosen_by_name(self) -> None:
        controls = [
            {"Name": "Accelerator", "PowerConsumedWatts": 70},
            {"Name": "Server Power Control", "PowerConsumedWatts": 200},
        ]
        assert self.power_of(one_server({f"{SERVER}/Power": {"PowerControl": controls}}))[0] == 200

    def test_supplies_are_summed_where_no_control_measures(self) -> None:
        supplies: list[dict[str, t.Any]] = [
            {"PowerInputWatts": 100.5},
            {"PowerInputWatts": "99.5"},
            {"PowerInputWatts": None, "Status": {"State": "Absent"}},
        ]
        documents = one_server({f"{SERVER}/Power": {"PowerSupplies": supplies}})
        assert self.power_of(documents)[0] == 200
        supplies[0]["PowerInputWatts"] = None
        assert self.power_of(documents)[0] is None

    @pytest.mark.parametrize("watts", [0, -5, 200_000])
    def test_watts_that_cannot_be_are_implausible_and_named(self, watts: float) -> None:
        result, _server = read(one_server(power(watts)), "power")
        assert only_error(result)["reason"] == "implausible"
        assert f"{watts:g} W" in only_error(result)["detail"]
        reading = result["readings"][0]
        assert (reading["power_watts"], reading["power_uri"]) == (None, f"{SERVER}/Power")

    def test_zero_watts_of_a_server_that_is_off_are_no_reading(self) -> None:
        documents = one_server(power(0), PowerState="Off")
        documents[f"{ROOT}/Systems/1"] = {"PowerState": "Off", "Links": {"Chassis": [ref(SERVER)]}}
        result, _server = read(documents, "power")
        assert only_error(result)["reason"] == "no_sensor"
        assert result["readings"][0]["power_uri"] is None

    def test_the_power_of_fans_is_not_the_server_s(self) -> None:
        assert self.power_of(one_server(metrics({"PowerWatts": {"Reading": 24}})))[0] is None


class TestKnownSensors:
    """The steady poll: paths from an earlier result are requested first."""

    def documents(self, name: str = "Inlet", celsius: t.Any = 22) -> dict[str, Document]:
        return one_server(thermal(temperature(name, celsius, "Intake")), power(100))

    def known(self) -> dict[str, t.Any]:
        found: list[dict[str, t.Any]] = read(self.documents(), "inlet power")[0]["sensors"]
        return found[0]

    def test_one_request_for_each_quantity(self) -> None:
        result, server = read(self.documents(), "inlet power", target={"sensors": self.known()})
        assert dict(server.requests) == {f"{SERVER}/Thermal": 1, f"{SERVER}/Power": 1}
        reading = result["readings"][0]
        assert (reading["inlet_celsius"], reading["power_watts"]) == (22, 100)
        assert (reading["rule"], reading["vendor"]) == ("known_sensor", "Contoso")
        assert result["sensors"] == [self.known()]

    def test_one_request_in_all_where_one_resource_has_both(self) -> None:
        both = {
            "Temperatures": [temperature("Inlet", 22)],
            "PowerControl": [{"PowerConsumedWatts": 100}],
        }
        known = {"inlet_uri": "/both", "inlet_name": "Inlet", "power_uri": "/both/"}
        result, server = read({"/both": both}, "inlet power", target={"sensors": known})
        assert result["errors"] == []
        assert server.total == 1

    def test_a_sensor_that_moved_is_found_again(self) -> None:
        known = {**self.known(), "inlet_uri": f"{SERVER}/Sensors/Gone"}
        result, _server = read(self.documents(), target={"sensors": known})
        assert result["readings"][0]["inlet_celsius"] == 22
        assert result["sensors"][0]["inlet_uri"] == f"{SERVER}/Thermal"

    def test_a_sensor_of_another_name_is_found_again(self) -> None:
        result, _server = read(self.documents("Ambient"), target={"sensors": self.known()})
        assert result["readings"][0]["sensor_name"] == "Ambient"
        assert result["sensors"][0]["inlet_name"] == "Ambient"

    def test_a_sensor_that_pauses_is_not_exchanged_for_another(self) -> None:
        documents = one_server(
            thermal(temperature("Inlet", None, "Intake"), temperature("Inlet 2", 30, "Intake"))
        )
        known = self.known()
        result, server = read(documents, target={"sensors": known})
        assert only_error(result)["reason"] == "no_sensor"
        assert result["sensors"] == [known]
        assert server.total == 1

    @pytest.mark.parametrize("first", [0, 1])
    def test_of_two_sensors_of_one_name_the_same_is_read_again(self, first: int) -> None:
        entries = [temperature("Inlet", 30, MemberId="10"), temperature("Inlet", 20, MemberId="2")]
        documents = one_server(thermal(entries[first], entries[1 - first]))
        result, _server = read(documents, target={"sensors": self.known()})
        assert result["readings"][0]["inlet_celsius"] == 20

    def test_a_bmc_that_is_out_of_order_is_not_walked(self) -> None:
        documents = {**self.documents(), f"{SERVER}/Thermal": Reply(501)}
        result, server = read(documents, target={"sensors": self.known()})
        assert only_error(result)["reason"] == "server_error"
        assert set(server.requests) == {f"{SERVER}/Thermal"}

    def test_a_power_resource_that_moved_is_found_again(self) -> None:
        known = {**self.known(), "power_uri": f"{SERVER}/Gone"}
        result, _server = read(self.documents(), "power", target={"sensors": known})
        assert result["readings"][0]["power_watts"] == 100

    def test_known_power_of_zero_is_implausible(self) -> None:
        documents = one_server(power(0))
        result, server = read(documents, "power", target={"sensors": self.known()})
        assert only_error(result)["reason"] == "implausible"
        assert server.total == 1

    def test_metrics_and_sensors_are_read_again_too(self) -> None:
        summary = one_server(metrics({"TemperatureSummaryCelsius": {"Intake": {"Reading": 21}}}))
        member = one_server(sensors(sensor(f"{SERVER}/Sensors/A", "Inlet", 23)))
        for documents, expected in ((summary, 21), (member, 23)):
            known = read(documents)[0]["sensors"][0]
            result, server = read(documents, target={"sensors": known})
            assert (result["readings"][0]["inlet_celsius"], server.total) == (expected, 1)


class TestFailures:
    """Reports about machines without values."""

    def test_a_machine_without_redfish(self) -> None:
        error = only_error(read({"/": {}}, "inlet power")[0])
        assert error["reason"] == "not_found"
        assert "no Redfish service" in error["detail"]

    @pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b"7"])
    def test_a_machine_that_answers_nonsense(self, body: bytes) -> None:
        documents: dict[str, Document] = dict.fromkeys(one_server(), Reply(body=body))
        result, _server = read(documents, "inlet power")
        assert only_error(result)["reason"] == "malformed"
        assert result["readings"] == []

    def test_an_answer_without_json_content_type_is_read(self) -> None:
        documents = one_server(thermal(temperature("Inlet", 22)))
        as_text = {
            path: Reply(body=body, headers={"Content-Type": "text/html"})
            for path, body in documents.items()
        }
        assert inlet(dict(as_text))[0] == 22

    def test_an_error_that_is_answered_as_success_is_no_resource(self) -> None:
        documents = one_server(thermal(temperature("Inlet", 22)))
        documents[f"{SERVER}/Sensors"] = {"error": {"code": "Base.1.0.GeneralError"}}
        assert inlet(documents)[0] == 22

    def test_nothing_is_written_down_about_the_reason_of_a_wrong_password(self) -> None:
        documents = one_server(thermal(temperature("Inlet", 22)))
        target = {"username": "admin", "password": "s3cr3t-wrong"}
        result, server = read(documents, target=target, server={"account": ("admin", "right")})
        assert only_error(result)["reason"] == "unauthorized"
        assert "s3cr3t" not in json.dumps(result)
        assert sum(server.requests.values()) == 2

    def test_what_was_read_before_the_deadline_is_kept(self) -> None:
        documents = one_server(thermal(temperature("Inlet", 22, "Intake")))
        documents[f"{SERVER}/EnvironmentMetrics"] = Reply(delay_seconds=5)
        result, _server = read(documents, "inlet power", timeout=0.5)
        assert result["readings"][0]["inlet_celsius"] == 22
        assert only_error(result)["reason"] == "timeout"

    def test_power_is_read_although_the_inlet_is_missing(self) -> None:
        result, _server = read(one_server(power(100)), "inlet power")
        assert result["readings"][0]["power_watts"] == 100
        assert only_error(result)["reason"] == "no_sensor"

    def test_a_dead_machine_of_two_does_not_fail_the_task(self) -> None:
        with HttpsServer(one_server(thermal(temperature("Inlet", 22)))) as server:
            targets = [
                {"name": "dead", "endpoint": "https://127.0.0.1:9"},
                {"name": "alive", "endpoint": server.endpoint},
            ]
            parameters = {"targets": targets, "gather": ["inlet"], "tls_fingerprint": PIN}
            result = read_thermal(parameters, Context())
            assert [entry["name"] for entry in result["readings"]] == ["alive"]
            assert [entry["reason"] for entry in result["errors"]] == ["unreachable"]
            with pytest.raises(WattwiseError, match="Only 1 of 2 .* dead") as caught:
                read_thermal({**parameters, "min_success": 0.6}, Context())
            assert len(caught.value.fields["readings"]) == 1
            with pytest.raises(WattwiseError):
                read_thermal({**parameters, "on_error": "fail"}, Context())

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"targets": [{"name": "a", "endpoint": "x"}] * 2}, r"'a' is used in targets\[0\]"),
            ({"targets": [], "timeout": 0}, "timeout"),
            ({"targets": [], "concurrency": 0}, "concurrency"),
            ({"targets": [], "min_success": 1.5}, "min_success"),
            ({"targets": [], "gather": []}, "gather"),
            ({"targets": [], "tls_fingerprint": ["abc"]}, "fingerprint"),
            ({"targets": [], "ca_path": "/no/such/ca.pem"}, "/no/such/ca.pem"),
            ({"targets": [], "credentials": "admin"}, "credentials"),
        ],
    )
    def test_input_that_cannot_be_meant(self, parameters: Result, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            read_thermal(parameters, Context())

    def test_unverified_certificates_are_warned_of_once_with_their_number(self) -> None:
        warnings: list[str] = []
        targets = [
            {"name": f"n{number}", "endpoint": f"https://127.0.0.1:{number}"} for number in (8, 9)
        ]
        parameters = {"targets": targets, "validate_certs": False}
        read_thermal(parameters, Context(warn=warnings.append))
        assert len(warnings) == 1
        assert "2 targets" in warnings[0]


class TestSnapshot:
    """The BMCs of NodeConfigs."""

    def config(self, node: str, endpoint: str, kind: str = "Redfish", **status: t.Any) -> Result:
        term = {"type": kind, "endpoint": endpoint}
        return {
            "apiVersion": "wao.bitmedia.co.jp/v1beta1",
            "kind": "NodeConfig",
            "metadata": {"name": node, "namespace": "wao-system"},
            "spec": {
                "nodeName": node,
                "metricsCollector": {"inletTemp": term, "deltaP": {"type": "Fake", "endpoint": ""}},
                "predictor": {},
            },
            "status": status,
        }

    def write(self, folder: Path, *configs: Result) -> str:
        body = {
            "document": "wattwise.kube/snapshot/v1",
            "time": "2026-11-21T12:00:00Z",
            "cluster": {},
            "nodes": [
                {"metadata": {"name": item["spec"]["nodeName"], "labels": {"hall": "2"}}}
                for item in configs
            ],
            "node_configs": list(configs),
        }
        path = folder / "snapshot.json"
        path.write_text(json.dumps(with_targets(body)))
        return str(path)

    def status(self, minutes_ago: int) -> dict[str, t.Any]:
        moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=minutes_ago)
        return {
            "sensors": {
                "inletTemp": {"uri": f"{SERVER}/Thermal", "name": "Inlet"},
                "vendor": "Contoso",
            },
            "readings": {"inletTemp": {"celsius": 20, "time": moment.isoformat()}},
        }

    def read(self, path: str, **parameters: t.Any) -> Result:
        given = {"snapshot": path, "gather": ["inlet"], "tls_fingerprint": PIN, **parameters}
        return read_thermal(given, Context())

    def test_configs_are_read_where_their_status_says(self, tmp_path: Path) -> None:
        with HttpsServer(one_server(thermal(temperature("Inlet", 22)))) as server:
            path = self.write(tmp_path, self.config("n", server.endpoint, **self.status(1)))
            assert self.read(path)["readings"][0]["inlet_celsius"] == 22
            assert server.total == 1

    def test_a_sensor_that_gave_nothing_for_long_is_looked_for_anew(self, tmp_path: Path) -> None:
        entries = temperature("Inlet", None), temperature("Inlet 2", 30)
        with HttpsServer(one_server(thermal(*entries))) as server:
            young = self.write(tmp_path, self.config("n", server.endpoint, **self.status(10)))
            assert only_error(self.read(young))["reason"] == "no_sensor"
            old = self.write(tmp_path, self.config("n", server.endpoint, **self.status(20)))
            assert self.read(old)["readings"][0]["sensor_name"] == "Inlet 2"

    def test_fakes_answer_without_http(self, tmp_path: Path) -> None:
        result = self.read(self.write(tmp_path, self.config("n", "", "Fake")))
        assert result["readings"][0]["inlet_celsius"] == 15.5
        assert result["readings"][0]["power_watts"] is None
        assert result["errors"] == []

    def test_an_unknown_type_is_that_node_s_error(self, tmp_path: Path) -> None:
        error = only_error(self.read(self.write(tmp_path, self.config("n", "https://h", "IPMI"))))
        assert error["reason"] == "malformed"
        assert "IPMI" in error["detail"]

    def test_only_the_selected_nodes_are_read(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, self.config("n", "", "Fake"))
        assert len(self.read(path, node_selector="hall in (2, 3)")["readings"]) == 1
        assert self.read(path, node_selector="hall!=2")["readings"] == []
