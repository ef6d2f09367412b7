# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switches of BMCs whose systems, actions, tags and tasks are odd, over real sockets with TLS."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.info import (
    read_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.switching import (
    switch_power,
)
from support.fake_pace import FakeTime
from support.https_server import SHARED_CERTIFICATE, HttpsServer, Received, Reply
from support.redfish_trees import ROOT, collection
from support.scripted_bmc import RESET, SYSTEM, TYPES, Bmc

Json = dict[str, t.Any]
PIN = [SHARED_CERTIFICATE.fingerprint]
MONITOR = f"{ROOT}/TaskService/TaskMonitors/7"
INFO = f"{SYSTEM}/ResetActionInfo"


def switch(bmc: Bmc, state: str = "off", **more: t.Any) -> Json:
    with HttpsServer(bmc.tree, answer=bmc.answer, own_address=bmc.own_address) as server:
        target = {"name": "n1", "endpoint": server.endpoint, **more.pop("target", {})}
        given = {"targets": [target], "tls_fingerprint": PIN, "state": state, **more}
        return switch_power(given, Context(), FakeTime().pace)


def only(result: Json) -> Json:
    assert result["errors"] == []
    [entry] = result["results"]
    return t.cast("Json", entry)


def only_error(result: Json) -> Json:
    [error] = result["errors"]
    return t.cast("Json", error)


@dataclass
class TaskBmc(Bmc):
    """A BMC whose reset is a task; the machine has the state at the last answer of its monitor."""

    def __init__(self, *states: Reply, location: str = MONITOR, **more: t.Any) -> None:
        headers = {"Location": location}
        super().__init__(replies=[Reply(202, {}, headers)], deaf=True, **more)
        self.left = list(states)

    def answer(self, received: Received) -> Reply | None:
        if received.path != MONITOR:
            return super().answer(received)
        reply = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if len(self.left) == 1:
            self.state = "Off"
        return reply


class TestTask:
    """The monitor of an accepted reset, which never hides the power state."""

    def test_a_monitor_that_redirects_to_the_bmcs_own_address_has_not_failed(self) -> None:
        running = Reply(202, {"TaskState": "Running"})
        bmc = TaskBmc(running, running, Reply(204), own_address="https://10.9.9.9")
        assert only(switch(bmc))["power_state"] == "Off"

    def test_a_task_that_runs_is_asked_again(self) -> None:
        running = Reply(200, {"TaskState": "Running"})
        failed = Reply(200, {"TaskState": "Killed", "Messages": [{"Message": "Fan failure."}]})
        bmc = TaskBmc(running, running, failed)
        bmc.answer = lambda received: (  # type: ignore[method-assign]
            bmc.left.pop(0) if received.path == MONITOR else Bmc.answer(bmc, received)
        )
        error = only_error(switch(bmc))
        assert error["reason"] == "refused"
        assert "Fan failure." in error["detail"]

    @pytest.mark.parametrize(
        "last",
        [
            Reply(drop=True),
            Reply(429, {}),
            Reply(200, b"<html>"),
            Reply(200, {"TaskState": ["Running"]}),
            Reply(301, {}, {"Location": "/"}),
            Reply(308, {}, {"Location": MONITOR}),
        ],
    )
    def test_a_monitor_that_says_nothing_does_not_hide_the_state(self, last: Reply) -> None:
        assert only(switch(TaskBmc(Reply(202), last)))["power_state"] == "Off"

    @pytest.mark.parametrize("location", ["", "https://[", "mailto:x", "/%zz", "//10.0.0.9", "\t"])
    def test_any_location_is_survived(self, location: str) -> None:
        bmc = Bmc(replies=[Reply(202, {}, {"Location": location})])
        assert only(switch(bmc))["power_state"] == "Off"


class TestTags:
    def test_a_tag_that_only_the_header_has_is_sent_with_a_reset(self) -> None:
        bmc = Bmc(replies=[Reply(428), Reply(204)])

        def answer(received: Received) -> Reply | None:
            reply = Bmc.answer(bmc, received)
            is_system = received.method == "GET" and received.path == SYSTEM
            return Reply(body=reply.body, headers={"ETag": '"9"'}) if reply and is_system else reply

        bmc.answer = answer  # type: ignore[method-assign]
        only(switch(bmc))
        assert [post.headers.get("If-Match") for post in bmc.posts] == [None, '"9"']

    def test_a_tag_that_cannot_be_read_is_a_refusal_of_the_reset(self) -> None:
        bmc = Bmc(replies=[Reply(428)])

        def answer(received: Received) -> Reply | None:
            is_read = received.method == "GET" and received.path == SYSTEM
            return Reply(400, {}) if bmc.posts and is_read else Bmc.answer(bmc, received)

        bmc.answer = answer  # type: ignore[method-assign]
        result = switch(bmc, timeout=30)
        assert (only_error(result)["reason"], result["changed"]) == ("refused", False)


class TestSystem:
    """The machine that is switched is the one that is meant."""

    @pytest.mark.parametrize("status", [500, 400])
    def test_a_system_that_cannot_be_read_is_not_replaced_by_another(self, status: int) -> None:
        broken = f"{ROOT}/Systems/0"
        bmc = Bmc(
            documents={f"{ROOT}/Systems": collection(broken, SYSTEM), broken: Reply(status, {})}
        )
        error = only_error(switch(bmc))
        assert f"HTTP {status} to GET {broken}" in error["detail"]
        assert bmc.posts == []
        # Its path tells which one is meant.
        assert only(switch(bmc, target={"system": SYSTEM}))["power_state"] == "Off"

    @pytest.mark.parametrize("slash", ["", "/"])
    def test_the_endpoint_may_name_one_of_several_systems(self, slash: str) -> None:
        other = f"{ROOT}/Systems/2"
        bmc = Bmc(
            documents={
                f"{ROOT}/Systems": collection(other, SYSTEM),
                other: {"@odata.id": other, "PowerState": "Off"},
            }
        )
        with HttpsServer(bmc.tree, answer=bmc.answer) as server:
            targets = [{"name": "n1", "endpoint": f"{server.endpoint}{SYSTEM}{slash}"}]
            given = {"targets": targets, "tls_fingerprint": PIN}
            assert read_power(given)["states"][0]["system"] == SYSTEM
            result = switch_power({**given, "state": "off"}, Context(), FakeTime().pace)
        assert (only(result)["system"], bmc.state) == (SYSTEM, "Off")

    @pytest.mark.parametrize("path", ["/redfish/v1/Chassis/Server", "/redfish/v1/Systems"])
    def test_the_path_of_something_else_is_an_error_at_once(self, path: str) -> None:
        bmc = Bmc()
        bmc.documents["/redfish/v1/Chassis/Server"] = {
            "@odata.type": "#Chassis.v1_14_0.Chassis",
            "PowerState": "On",
        }
        bmc.documents["/redfish/v1/Systems"] = {
            "@odata.type": "#ComputerSystemCollection.ComputerSystemCollection",
            **collection(SYSTEM),
        }
        with HttpsServer(bmc.tree, answer=bmc.answer) as server:
            targets = [{"name": "n1", "endpoint": server.endpoint, "system": path}]
            result = read_power({"targets": targets, "tls_fingerprint": PIN})
        error = only_error(result)
        assert error["reason"] == "not_found"
        assert f"no computer system {path}" in error["detail"]

    @pytest.mark.parametrize("own", [None, 3, "", f"https://10.9.9.9{SYSTEM}", "/elsewhere"])
    def test_an_action_without_target_is_below_the_system_that_was_read(self, own: t.Any) -> None:
        action = {"#ComputerSystem.Reset": Bmc().values(TYPES)}
        bmc = Bmc(system={"@odata.id": own, "Actions": action})
        assert only(switch(bmc))["power_state"] == "Off"
        assert [post.path for post in bmc.posts] == [RESET]


class TestActions:
    @pytest.mark.parametrize(
        "listed", [["on", "forceoff", "gracefulshutdown"], ["GRACEFULSHUTDOWN"]]
    )
    def test_a_value_is_sent_in_the_spelling_of_the_bmc(self, listed: list[str]) -> None:
        action = {"target": RESET, **Bmc().values(listed)}
        bmc = Bmc(system={"Actions": {"#ComputerSystem.Reset": action}})
        entry = only(switch(bmc))
        assert [one["value"] for one in entry["requests"]] == [listed[-1]]
        assert [post.body for post in bmc.posts] == [{"ResetType": listed[-1]}]

    @pytest.mark.parametrize("vendor", ["Public", "Huawei", "ts_fujitsu"])
    def test_an_action_may_be_in_the_block_of_a_vendor(self, vendor: str) -> None:
        action = {"target": RESET, **Bmc().values(TYPES)}
        bmc = Bmc(system={"Actions": {"Oem": {vendor: {"#ComputerSystem.Reset": action}}}})
        assert only(switch(bmc))["power_state"] == "Off"

    @pytest.mark.parametrize("target", ["Actions/ComputerSystem.Reset", RESET[1:]])
    @pytest.mark.parametrize("info", ["ResetActionInfo", INFO[1:], f"{INFO}/"])
    def test_references_may_be_relative(self, target: str, info: str) -> None:
        action = {"target": target, "@Redfish.ActionInfo": info}
        parameters = [{"Name": "resettype", "AllowableValues": TYPES}]
        bmc = Bmc(
            system={"Actions": {"#ComputerSystem.Reset": action}},
            documents={INFO: {"Parameters": parameters}},
        )
        assert only(switch(bmc))["power_state"] == "Off"
        assert [post.path for post in bmc.posts] == [RESET]

    def info_bmc(self, *infos: Reply, state: str = "On") -> Bmc:
        action = {"target": RESET, "@Redfish.ActionInfo": INFO}
        good = Reply(body={"Parameters": [{"Name": "ResetType", "AllowableValues": TYPES}]})
        return Bmc(
            state,
            system={"Actions": {"#ComputerSystem.Reset": action}},
            documents={INFO: [*infos, good]},
        )

    def test_an_action_info_that_fails_for_a_while_is_read_again(self) -> None:
        # It is read once before the first request, and again when the machine is off.
        good = Reply(body={"Parameters": [{"Name": "ResetType", "AllowableValues": TYPES}]})
        bmc = self.info_bmc(good, good, *[Reply(400, {})] * 3)
        entry = only(switch(bmc, "cycle"))
        assert [one["value"] for one in entry["requests"]] == ["GracefulShutdown", "On"]

    def test_a_machine_that_has_the_state_needs_no_action_info(self) -> None:
        assert only(switch(self.info_bmc(*[Reply(400, {})] * 3), "on"))["action"] == "none"

    def test_an_action_info_that_is_absent_allows_nothing(self) -> None:
        bmc = self.info_bmc(*[Reply(404, {})] * 9)
        error = only_error(switch(bmc))
        assert "does not say which ResetType values it allows" in error["detail"]
        assert bmc.posts == []
