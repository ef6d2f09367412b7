# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switches and limits of BMCs with answers of their own, over real sockets with TLS."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import (
    Client,
    Target,
    Trust,
    visit,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.bmc import BmcHand
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.info import (
    read_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.limiting import (
    limit_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.planning import (
    Observation,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.switching import (
    switch_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.system import (
    ExpectedMachine,
)
from support.fake_pace import FakeTime
from support.https_server import SHARED_CERTIFICATE, Document, HttpsServer, Received, Reply
from support.redfish_trees import ROOT, SERVER, collection, one_server, ref
from support.scripted_bmc import RESET, SYSTEM, TYPES, Bmc, Fujitsu

Json = dict[str, t.Any]
PIN = [SHARED_CERTIFICATE.fingerprint]


def switch(bmc: Bmc, state: str = "off", **more: t.Any) -> tuple[Json, FakeTime]:
    time = FakeTime()
    with HttpsServer(bmc.tree, answer=bmc.answer, own_address=bmc.own_address) as server:
        target = {"name": "n1", "endpoint": server.endpoint, **more.pop("target", {})}
        account = {"username": "u", "password": "p"}
        given = {"targets": [{**account, **target}], "tls_fingerprint": PIN, "state": state, **more}
        return switch_power(given, Context(), time.pace), time


def only(result: Json) -> Json:
    assert result["errors"] == []
    [entry] = result["results"]
    return t.cast("Json", entry)


def error_of(message: str) -> Json:
    return {"error": {"@Message.ExtendedInfo": [{"MessageId": message, "Message": "No."}]}}


def test_a_bmc_of_fujitsu_is_switched_by_its_own_action() -> None:
    bmc = Fujitsu()
    entry = only(switch(bmc, "cycle")[0])
    assert [(one["parameter"], one["value"]) for one in entry["requests"]] == [
        ("FTSResetType", "GracefulPowerOff"),
        ("FTSResetType", "PowerOn"),
    ]
    assert [post.path for post in bmc.posts] == [Fujitsu.target, Fujitsu.target]


@pytest.mark.parametrize("status", [409, 400])
def test_a_refusal_may_mean_that_the_machine_has_the_state(status: int) -> None:
    bmc = Bmc(replies=[Reply(status, error_of("IDRAC.2.8.PSU501"))])

    def answer(received: Received) -> Reply | None:
        if received.method == "POST":
            bmc.state = "Off"
        return Bmc.answer(bmc, received)

    with HttpsServer(bmc.tree, answer=answer) as server:
        given = {
            "targets": [{"name": "n1", "endpoint": server.endpoint}],
            "tls_fingerprint": PIN,
            "state": "off",
        }
        result = switch_power(given, Context(), FakeTime().pace)
    entry = only(result)
    assert (entry["power_state"], entry["changed"], len(bmc.posts)) == ("Off", False, 1)


def test_another_400_is_an_error_at_once() -> None:
    bmc = Bmc(replies=[Reply(400, error_of("Base.1.8.ActionParameterMissing"))])
    result, time = switch(bmc)
    [error] = result["errors"]
    assert (error["reason"], len(bmc.posts), sum(time.slept)) == ("refused", 1, 0.0)
    assert "HTTP 400 Base.1.8.ActionParameterMissing: No." in error["detail"]


def test_a_refused_shutdown_is_forced_only_by_the_mode_that_says_so() -> None:
    replies = [Reply(400, error_of("x.NoAgent")), Reply(204)]
    entry = only(switch(Bmc(replies=[*replies]), mode="graceful_then_force")[0])
    assert [one["value"] for one in entry["requests"]] == ["GracefulShutdown", "ForceOff"]
    bmc = Bmc(replies=[*replies])
    assert switch(bmc)[0]["errors"][0]["reason"] == "refused"
    assert len(bmc.posts) == 1


def test_retry_after_is_obeyed() -> None:
    replies = [Reply(503, {}, {"Retry-After": "17"}), Reply(503, {}, {"Retry-After": "3"})]
    bmc = Bmc(replies=[*replies, Reply(204)])
    entry = only(switch(bmc)[0])
    assert [one["seconds"] for one in entry["requests"]] == [0.0, 17.0, 20.0]


class TestTask:
    """HTTP 202 with a task monitor."""

    monitor = f"{ROOT}/TaskService/TaskMonitors/7"

    def bmc(self, *states: Reply, **more: t.Any) -> Bmc:
        # The address that a BMC behind NAT knows.
        headers = {"Location": f"https://10.0.0.9{self.monitor}"}
        return Bmc(
            replies=[Reply(202, {}, headers)], documents={self.monitor: list(states)}, **more
        )

    def test_a_task_that_ends_well(self) -> None:
        bmc = self.bmc(Reply(202, {"TaskState": "Running"}), Reply(200, {"TaskState": "Completed"}))
        assert only(switch(bmc)[0])["power_state"] == "Off"

    @pytest.mark.parametrize(
        "last",
        [
            Reply(200, {"TaskState": "Exception", "Messages": [{"Message": "Fan failure."}]}),
            Reply(400, {"error": {"code": "x", "message": "Fan failure."}}),
        ],
    )
    def test_a_task_that_fails(self, last: Reply) -> None:
        bmc = self.bmc(Reply(202, {"TaskState": "Running"}), last, deaf=True)
        result, time = switch(bmc)
        [error] = result["errors"]
        assert error["reason"] == "refused"
        assert "the task of GracefulShutdown failed" in error["detail"]
        assert "Fan failure." in error["detail"]
        assert sum(time.slept) < 10

    def test_a_task_monitor_that_is_gone_says_nothing(self) -> None:
        bmc = self.bmc(Reply(404, {}))
        assert only(switch(bmc)[0])["power_state"] == "Off"


def test_an_accepted_request_without_effect_is_an_error_after_the_time() -> None:
    bmc = Bmc(deaf=True)
    result, time = switch(bmc, "off", timeout=100)
    [error] = result["errors"]
    assert (error["reason"], len(bmc.posts)) == ("timeout", 1)
    assert 100 <= sum(time.slept) < 101


def test_a_lost_answer_is_not_sent_again() -> None:
    bmc = Bmc(replies=[Reply(drop=True)], deaf=True)
    result, _time = switch(bmc, timeout=60)
    assert result["errors"][0]["reason"] == "timeout"
    assert len(bmc.posts) == 1
    assert result["changed"]
    arrived = Bmc(replies=[Reply(drop=True)])
    assert only(switch(arrived)[0])["power_state"] == "Off"


def test_a_bmc_that_restarts_meanwhile_is_waited_for() -> None:
    bmc = Bmc()
    silent = 3

    def answer(received: Received) -> Reply | None:
        nonlocal silent
        if bmc.posts and received.method == "GET" and silent:
            silent -= 1
            return Reply(drop=True) if silent else Reply(500, {})
        return Bmc.answer(bmc, received)

    with HttpsServer(bmc.tree, answer=answer) as server:
        targets = [{"name": "n1", "endpoint": server.endpoint}]
        given = {"targets": targets, "tls_fingerprint": PIN, "state": "off"}
        assert only(switch_power(given, Context(), FakeTime().pace))["power_state"] == "Off"


def test_a_bmc_that_hangs_does_not_take_the_time_of_the_switch() -> None:
    bmc = Bmc()
    looks_so_far: list[Observation] = []

    def answer(received: Received) -> Reply | None:
        return Reply(delay_seconds=30.0) if looks_so_far else Bmc.answer(bmc, received)

    async def look_twice(client: Client, _target: Target) -> list[Observation]:
        hand = BmcHand(client, SYSTEM, ExpectedMachine(), FakeTime().pace, look_seconds=0.2)
        looks_so_far.append(await hand.look())
        return [*looks_so_far, await hand.look()]

    with HttpsServer(bmc.tree, answer=answer) as server:
        trust = Trust(fingerprints=tuple(PIN))
        [looks] = visit([Target("n1", server.endpoint, trust=trust)], look_twice)
    assert isinstance(looks, list)
    assert [look.power_state for look in looks] == ["On", None]
    assert looks[1].problem == "no answer within 0.2 s; check the BMC's load"


def test_a_task_monitor_that_the_account_may_not_read_says_nothing() -> None:
    monitor = f"{ROOT}/TaskService/TaskMonitors/7"
    bmc = Bmc(replies=[Reply(202, {}, {"Location": monitor})], documents={monitor: Reply(403, {})})
    assert only(switch(bmc)[0])["power_state"] == "Off"


class TestAllowedValues:
    def test_they_may_be_in_an_action_info(self) -> None:
        info = f"{SYSTEM}/ResetActionInfo"
        parameters = [{"Name": "ResetType", "AllowableValues": TYPES}]
        bmc = Bmc(
            system={
                "Actions": {"#ComputerSystem.Reset": {"target": RESET, "@Redfish.ActionInfo": info}}
            },
            documents={info: {"@odata.id": info, "Parameters": parameters}},
        )
        assert only(switch(bmc)[0])["power_state"] == "Off"

    @pytest.mark.parametrize("values", [None, [], ["On", "PushPowerButton"]])
    def test_without_the_type_nothing_is_sent(self, values: list[str] | None) -> None:
        action: Json = {"target": RESET}
        if values is not None:
            action.update(Bmc().values(values))
        bmc = Bmc(system={"Actions": {"#ComputerSystem.Reset": action}})
        result, _time = switch(bmc)
        assert (result["errors"][0]["reason"], bmc.posts) == ("refused", [])
        assert "GracefulShutdown" in result["errors"][0]["detail"]


class TestRedirects:
    """Credentials never leave the address of the BMC."""

    def test_a_bmc_that_redirects_to_its_own_address_is_switched(self) -> None:
        bmc = Bmc(own_address="https://10.9.9.9")
        entry = only(switch(bmc)[0])
        assert (entry["power_state"], len(bmc.posts)) == ("Off", 1)

    def test_a_redirect_of_a_reset_is_followed_at_the_endpoint_alone(self) -> None:
        moved = Reply(308, {}, {"Location": f"https://10.9.9.9{RESET}/"})
        with HttpsServer({}) as other:
            elsewhere = Reply(307, {}, {"Location": f"{other.endpoint}{RESET}?x=1"})
            bmc = Bmc(replies=[moved, elsewhere, Reply(204)])
            assert only(switch(bmc)[0])["power_state"] == "Off"
            assert len(bmc.posts) == 3
            assert other.total == 0

    def test_a_redirect_that_would_not_repeat_the_request_is_an_error(self) -> None:
        bmc = Bmc(replies=[Reply(303, {}, {"Location": RESET})])
        result, _time = switch(bmc)
        assert (result["errors"][0]["reason"], len(bmc.posts)) == ("refused", 1)

    def test_an_action_at_another_address_is_not_used(self) -> None:
        with HttpsServer({}) as other:
            bmc = Bmc(path=f"{other.endpoint}{RESET}")
            result, _time = switch(bmc)
            assert result["errors"][0]["reason"] == "server_error"
            assert other.total == 0


def test_a_bmc_that_wants_an_entity_tag_gets_it_for_a_reset_too() -> None:
    bmc = Bmc(replies=[Reply(428), Reply(204)], system={"@odata.etag": 'W/"7"'})
    only(switch(bmc)[0])
    assert [post.headers.get("If-Match") for post in bmc.posts] == [None, 'W/"7"']


@pytest.mark.parametrize("path", ["", "/redfish/v1", "/redfish/v1/"])
def test_an_address_of_the_service_root_names_no_system(path: str) -> None:
    bmc = Bmc()
    with HttpsServer(bmc.tree, answer=bmc.answer) as server:
        targets = [{"name": "n1", "endpoint": f"{server.endpoint}{path}"}]
        result = read_power({"targets": targets, "tls_fingerprint": PIN})
        assert result["states"][0]["power_state"] == "On"
        given = {"targets": targets, "tls_fingerprint": PIN, "state": "off"}
        assert only(switch_power(given, Context(), FakeTime().pace))["power_state"] == "Off"


def test_several_systems_are_told_apart_by_their_path() -> None:
    other = f"{ROOT}/Systems/2"
    bmc = Bmc(
        documents={
            f"{ROOT}/Systems": collection(SYSTEM, other),
            other: {"@odata.id": other, "PowerState": "On"},
        }
    )
    result, _time = switch(bmc)
    assert "append the path" in result["errors"][0]["detail"]
    entry = only(switch(bmc, target={"system": SYSTEM})[0])
    assert (entry["system"], entry["power_state"]) == (SYSTEM, "Off")


def test_two_addresses_of_one_machine_are_switched_once() -> None:
    identity = {"UUID": "9A1C6F00-1234-4321-8888-0123456789AB", "SerialNumber": "7XK2LM3"}
    bmc = Bmc(system=identity)
    with (
        HttpsServer(bmc.tree, answer=bmc.answer) as one,
        HttpsServer(bmc.tree, answer=bmc.answer, host="127.0.0.2") as two,
    ):
        targets = [
            {"name": name, "endpoint": server.endpoint} for name, server in (("a", one), ("b", two))
        ]
        given = {"targets": targets, "tls_fingerprint": PIN, "state": "off"}
        result = switch_power(given, Context(), FakeTime().pace)
    assert [(error["name"], error["reason"]) for error in result["errors"]] == [("b", "conflict")]
    assert len(bmc.posts) == 1


class TestLimits:
    """Places and tags that the lab's machines do not have."""

    power = f"{SERVER}/Power"

    def limit(self, documents: dict[str, Document], **more: t.Any) -> tuple[Json, list[Received]]:
        sent: list[Received] = []
        refusals: dict[str | None, int] = more.pop("refusals", {})
        apply = more.pop("apply", None)

        def answer(received: Received) -> Reply | None:
            if received.method == "GET":
                return None
            sent.append(received)
            status = refusals.get(received.headers.get("If-Match"), 200)
            if status == 200 and apply is not None:
                return t.cast("Reply", apply(server, received))
            return Reply(status, {})

        tree = {**one_server(), SYSTEM: Bmc().system_body(), **documents}
        with HttpsServer(tree, answer=answer) as server:
            targets = [{"name": "n1", "endpoint": server.endpoint}]
            given = {"targets": targets, "tls_fingerprint": PIN, **more}
            return limit_power(given, Context(), FakeTime().pace), sent

    def controls(self, watts: t.Any, **more: t.Any) -> dict[str, Document]:
        part = {"Name": "CPU Sub-system Power", "PowerLimit": {"LimitInWatts": 88}}
        server = {"Name": "Server Power Control", "PowerLimit": {"LimitInWatts": watts, **more}}
        body = {"@odata.id": self.power, "@odata.etag": 'W/"1"', "PowerControl": [part, server]}
        return {self.power: body}

    def set_watts(self, server: HttpsServer, received: Received) -> Reply:
        watts = received.body["PowerControl"][1]["PowerLimit"]["LimitInWatts"]
        server.documents.update(self.controls(watts))
        return Reply(200, {})

    def test_the_position_in_the_list_is_that_of_the_servers_control(self) -> None:
        result, sent = self.limit(self.controls(None), limit_watts=300, apply=self.set_watts)
        assert result["errors"] == []
        assert sent[0].body == {"PowerControl": [{}, {"PowerLimit": {"LimitInWatts": 300}}]}
        assert result["limits"][0]["limit_watts"] == 300

    @pytest.mark.parametrize(
        ("refusals", "tags"),
        [
            ({}, ['W/"1"']),
            ({'W/"1"': 412}, ['W/"1"', '"1"']),
            ({'W/"1"': 412, '"1"': 412}, ['W/"1"', '"1"', None]),
        ],
    )
    def test_entity_tags_are_tried_in_order(
        self, refusals: dict[str | None, int], tags: list[str | None]
    ) -> None:
        result, sent = self.limit(
            self.controls(None), limit_watts=300, apply=self.set_watts, refusals=refusals
        )
        assert result["errors"] == []
        assert [received.headers.get("If-Match") for received in sent] == tags

    def test_a_vendor_that_ends_a_limit_by_0(self) -> None:
        def ignores_null(server: HttpsServer, received: Received) -> Reply:
            watts = received.body["PowerControl"][1]["PowerLimit"]["LimitInWatts"]
            if watts is not None:
                server.documents.update(self.controls(watts))
            return Reply(200, {})

        result, sent = self.limit(self.controls(300), state="absent", apply=ignores_null)
        assert result["errors"] == []
        assert len(sent) == 2
        assert result["limits"][0]["limit_watts"] is None

    def test_a_limit_that_would_power_the_machine_off_is_not_set(self) -> None:
        given = self.controls(None, LimitException="HardPowerOff")
        result, sent = self.limit(given, limit_watts=300)
        assert (result["errors"][0]["reason"], sent) == ("refused", [])
        assert "HardPowerOff" in result["errors"][0]["detail"]

    def test_a_limit_that_does_not_take_hold_is_an_error(self) -> None:
        result, _sent = self.limit(self.controls(None), limit_watts=300)
        [error] = result["errors"]
        assert (error["reason"], result["limits"][0]["action"]) == ("timeout", "failed")
        assert "the BMC accepted 300 W" in error["detail"]

    def test_a_set_point_in_percent_is_not_set(self) -> None:
        place = f"{SERVER}/Controls/Power"
        control = {"ControlType": "Power", "SetPoint": 80, "SetPointUnits": "%"}
        documents: dict[str, Document] = {
            f"{SERVER}/Controls": collection(place),
            place: control,
            SERVER: {**one_server()[SERVER], "Controls": ref(f"{SERVER}/Controls")},  # type: ignore[dict-item]
        }
        result, sent = self.limit(documents, limit_watts=300)
        assert (result["errors"][0]["reason"], sent) == ("refused", [])
        assert "in %, not in W" in result["errors"][0]["detail"]

    def test_a_server_without_a_place_for_a_limit_is_an_error(self) -> None:
        result, _sent = self.limit({}, limit_watts=300)
        assert result["errors"][0]["reason"] == "not_found"
