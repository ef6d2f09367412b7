# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power limits of BMCs with odd values, bounds, answers and chassis, over real sockets with TLS."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.limiting import (
    limit_power,
)
from support.fake_pace import FakeTime
from support.https_server import SHARED_CERTIFICATE, Document, HttpsServer, Received, Reply
from support.redfish_trees import ROOT, SERVER, chassis, collection, one_server, ref
from support.scripted_bmc import SYSTEM, Bmc

Json = dict[str, t.Any]
PIN = [SHARED_CERTIFICATE.fingerprint]
POWER, METRICS = f"{SERVER}/Power", f"{SERVER}/EnvironmentMetrics"
OTHER, OTHER_SYSTEM = f"{ROOT}/Chassis/Other", f"{ROOT}/Systems/2"


@dataclass
class Limits:
    """A BMC whose changes get ``reply`` and, with ``settings``, take hold in EnvironmentMetrics."""

    documents: dict[str, Document]
    reply: Reply = field(default_factory=Reply)
    settings: Json | None = None
    sent: list[Received] = field(default_factory=list)

    def run(self, system: str | None = None, **more: t.Any) -> Json:
        tree = {**one_server(), SYSTEM: Bmc().system_body(), **self.documents}
        with HttpsServer(tree, answer=self._answer) as server:
            self._server = server
            target = {"name": "n1", "endpoint": server.endpoint, "system": system}
            given = {"targets": [target], "tls_fingerprint": PIN, **more}
            return limit_power(given, Context(), FakeTime().pace)

    def _answer(self, received: Received) -> Reply | None:
        if received.method == "GET":
            return None
        self.sent.append(received)
        if self.settings is not None:
            self.settings = {**self.settings, **received.body["PowerLimitWatts"]}
            self._server.documents[METRICS] = {"PowerLimitWatts": self.settings}
        return self.reply


def control(watts: t.Any, **more: t.Any) -> dict[str, Document]:
    limit = {"LimitInWatts": watts, **more}
    return {POWER: {"PowerControl": [{"Name": "Server", "PowerLimit": limit}]}}


def metrics(**settings: t.Any) -> dict[str, Document]:
    return {METRICS: {"PowerLimitWatts": settings}}


def only(result: Json) -> Json:
    assert result["errors"] == []
    [entry] = result["limits"]
    return t.cast("Json", entry)


def only_error(result: Json) -> Json:
    [error] = result["errors"]
    return t.cast("Json", error)


@pytest.mark.parametrize(
    ("given", "watts"),
    [
        *((278, 278), ("278", 278), ("278 W", 278), (" 278.5 watts ", 278.5), ("278W", 278)),
        *((0, None), (-5, None), (32767, None), ("none", None), (True, None), ([278], None)),
        *((1e300, None), ("278 A", None)),
    ],
)
def test_the_limit_in_force(given: t.Any, watts: float | None) -> None:
    assert only(Limits(control(given)).run())["limit_watts"] == watts
    assert only(Limits(metrics(SetPoint=given)).run())["limit_watts"] == watts


def test_bounds_may_be_texts() -> None:
    bmc = Limits(metrics(SetPoint=None, AllowableMin="200 W", AllowableMax="900 W"))
    assert "200 to 900 W" in only_error(bmc.run(limit_watts=1000))["detail"]
    assert bmc.sent == []


def test_bounds_that_contradict_each_other_are_none() -> None:
    settings = {"SetPoint": None, "AllowableMin": 900, "AllowableMax": 200}
    bmc = Limits(metrics(**settings), settings=settings)
    entry = only(bmc.run(limit_watts=400))
    assert (entry["limit_watts"], entry["min_watts"], entry["max_watts"]) == (400, None, None)


@pytest.mark.parametrize("exception", ["HardPowerOff", "hardpoweroff"])
def test_a_limit_that_powers_the_machine_off_is_not_lowered(exception: str) -> None:
    bmc = Limits(control(600, LimitException=exception))
    assert "HardPowerOff" in only_error(bmc.run(limit_watts=300))["detail"]
    assert bmc.sent == []


def test_a_limit_that_is_in_force_is_no_error_though_it_could_not_be_set() -> None:
    bmc = Limits(control(600, LimitException="HardPowerOff"))
    result = bmc.run(limit_watts=600)
    assert (only(result)["action"], result["changed"], bmc.sent) == ("none", False, [])


@pytest.mark.parametrize("units", ["W", "w", "Watts", " W "])
def test_watts_in_any_spelling(units: str) -> None:
    assert only(Limits(metrics(SetPoint=300, SetPointUnits=units)).run())["limit_watts"] == 300


@pytest.mark.parametrize("units", ["%", "kW", "BTU/h"])
def test_other_units_are_no_watts(units: str) -> None:
    bmc = Limits(metrics(SetPoint=80, SetPointUnits=units))
    assert only(bmc.run())["limit_watts"] is None
    assert only_error(bmc.run(limit_watts=300))["reason"] == "refused"
    assert bmc.sent == []


@pytest.mark.parametrize(
    "body",
    [
        {
            "@Message.ExtendedInfo": [
                {"MessageId": "x.PropertyNotWritable", "Message": "Read only."}
            ]
        },
        {"error": {"@Message.ExtendedInfo": {"MessageId": "x.PropertyNotWritable"}}},
        {
            "PowerLimitWatts": {"SetPoint": 500},
            "SetPoint@Message.ExtendedInfo": [{"MessageId": "x.PropertyNotWritable"}],
        },
    ],
)
def test_the_messages_of_a_success_without_effect_are_told(body: Json) -> None:
    bmc = Limits(metrics(SetPoint=500), reply=Reply(200, body))
    error = only_error(bmc.run(limit_watts=400))
    assert error["reason"] == "timeout"
    assert "PropertyNotWritable" in error["detail"]


def two_servers(**more: t.Any) -> dict[str, Document]:
    """A BMC of two servers whose chassis do not say which system they hold."""
    documents: dict[str, Document] = {
        f"{ROOT}/Systems": collection(SYSTEM, OTHER_SYSTEM),
        f"{ROOT}/Chassis": collection(SERVER, OTHER),
        SERVER: chassis(SERVER, system=False),
        OTHER: chassis(OTHER, system=False),
        OTHER_SYSTEM: {
            "@odata.id": OTHER_SYSTEM,
            "PowerState": "On",
            "Links": {"Chassis": [ref(OTHER)]},
        },
        METRICS: {"PowerLimitWatts": {"SetPoint": 300}},
        f"{OTHER}/EnvironmentMetrics": {"PowerLimitWatts": {"SetPoint": 500}},
    }
    return {**documents, **more}


def test_the_limit_of_one_of_several_servers_is_that_of_its_own_chassis() -> None:
    found = [only(Limits(two_servers()).run(system)) for system in (SYSTEM, OTHER_SYSTEM)]
    assert [entry["limit_watts"] for entry in found] == [300, 500]


def test_a_chassis_of_several_servers_has_no_limit_of_one() -> None:
    shared = {
        "ComputerSystems": [ref(SYSTEM), ref(OTHER_SYSTEM)],
    }
    links = {"Links": {"Chassis": [ref(SERVER)]}}
    documents: dict[str, Document] = {
        f"{ROOT}/Systems": collection(SYSTEM, OTHER_SYSTEM),
        SERVER: {**chassis(SERVER), "Links": shared},
        OTHER_SYSTEM: {"@odata.id": OTHER_SYSTEM, "PowerState": "On", **links},
        **metrics(SetPoint=900),
    }
    bmc = Limits(documents)
    error = only_error(bmc.run(OTHER_SYSTEM, limit_watts=400))
    assert f"no chassis is known to hold {OTHER_SYSTEM} alone" in error["detail"]
    assert bmc.sent == []
