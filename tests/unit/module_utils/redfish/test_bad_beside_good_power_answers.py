# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever one BMC answers to looks, resets and limits, another machine is switched as if alone."""

from __future__ import annotations

import random
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.info import (
    read_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.limiting import (
    limit_power,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.metal3 import (
    hosts_of_nodes,
    nodes_of_metal3,
    unmanaged_because,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.switching import (
    switch_power,
)
from support.bare_metal import bare_metal_host
from support.examples import each_seed, generated, seeds
from support.fake_pace import TaskTime
from support.https_server import HttpsServer, Received, Reply
from support.odd_answers import assert_fit_for_documents, odd_reply, spoilt_documents
from support.odd_values import bounded, spoilt
from support.redfish_trees import ROOT, SERVER, ref
from support.scripted_bmc import RESET, SYSTEM, TYPES, Bmc

Json = dict[str, t.Any]
INFO, MONITOR = f"{SYSTEM}/ResetActionInfo", f"{ROOT}/TaskService/TaskMonitors/1"
CONTROL = f"{SERVER}/Controls/Power"
LIMITS: Json = {
    f"{SERVER}/Controls": {"Members": [ref(CONTROL)]},
    CONTROL: {
        "@odata.etag": 'W/"1"',
        "ControlType": "Power",
        "SetPoint": 400,
        "ControlMode": "Automatic",
        "AllowableMin": 100,
        "AllowableMax": 900,
    },
    f"{SERVER}/EnvironmentMetrics": {"PowerLimitWatts": {"SetPoint": 400}},
    f"{SERVER}/Power": {"PowerControl": [{"Name": "Server", "PowerLimit": {"LimitInWatts": 400}}]},
}


class OddBmc(Bmc):
    """A BMC with odd answers to everything, and to changes."""

    source: random.Random

    def answer(self, received: Received) -> Reply | None:
        if received.method == "GET":
            return None
        if self.source.random() < 0.3:
            return odd_reply(self.source, {"error": {"code": "x", "message": "y"}})
        status = self.source.choice([200, 202, 204, 301, 308, 400, 401, 409, 412, 428, 500, 503])
        headers = self.source.choice([{}, {"Location": MONITOR}, {"Retry-After": "9"}])
        return Reply(status, {}, headers)


def good_tree(bmc: Bmc) -> Json:
    action = {"target": RESET, "@Redfish.ActionInfo": INFO}
    system = {**bmc.system_body(), "Actions": {"#ComputerSystem.Reset": action}}
    chassis = {**t.cast("Json", bmc.tree[SERVER]), "Controls": ref(f"{SERVER}/Controls")}
    return {
        **bmc.tree,
        **LIMITS,
        SERVER: chassis,
        SYSTEM: system,
        INFO: {"Parameters": [{"Name": "ResetType", "AllowableValues": TYPES}]},
        MONITOR: {"TaskState": "Running", "Messages": [{"Message": "x"}]},
    }


def run(work: str, servers: dict[str, HttpsServer]) -> Json:
    given: Json = {
        "targets": [
            {"name": name, "endpoint": server.endpoint, "username": "u", "password": "p"}
            for name, server in servers.items()
        ],
        "allow_plain_http": True,
    }
    if work == "info":
        return read_power(given)
    if work == "limit":
        return limit_power({**given, "limit_watts": 400}, Context(), TaskTime().pace)
    more = {"state": "off", "mode": "graceful_then_force", "timeout": 60, "graceful_timeout": 20}
    return switch_power({**given, **more}, Context(), TaskTime().pace)


def of_good(result: Json) -> list[Json]:
    parts = ("results", "states", "limits", "errors")
    return [item for part in parts for item in result.get(part, []) if item["name"] == "good"]


@each_seed(60)
def test_a_machine_is_switched_as_if_it_were_alone(seed: int) -> None:
    source = random.Random(seed)
    work = source.choice(["switch", "switch", "limit", "info"])
    odd = OddBmc()
    odd.source = source
    results = []
    for names in (["good"], ["bad", "good"]):
        good = Bmc()
        with (
            HttpsServer({**good.tree, **LIMITS}, certificate=None, answer=good.answer) as one,
            HttpsServer(
                spoilt_documents(source, good_tree(odd)), certificate=None, answer=odd.answer
            ) as other,
            bounded(),
        ):
            servers = {"good": one, "bad": other}
            result = run(work, {name: servers[name] for name in names})
        assert_fit_for_documents(result)
        results.append(of_good(result))
    assert results[0] == results[1]
    assert len(results[0]) == 1
    assert "reason" not in results[0][0]


@generated
def test_a_bare_metal_host_of_anything_hinders_no_other_node() -> None:
    for seed in seeds(300):
        source = random.Random(seed)
        good = bare_metal_host("good")
        bad = spoilt(source, bare_metal_host("bad"))
        nodes = [
            {"metadata": {"name": name}, "spec": {"providerID": f"metal3://metal3/{name}/m"}}
            for name in ("good", "bad")
        ]
        odd_nodes = [nodes[0], spoilt(source, nodes[1])]
        for hosts, of_nodes in (([bad, good], nodes), ([good, bad], odd_nodes)):
            snapshot = {"nodes": of_nodes, "bare_metal_hosts": hosts}
            assert hosts_of_nodes(snapshot)["good"] == ("metal3", "good")
            assert "good" in nodes_of_metal3(snapshot)
        assert isinstance(unmanaged_because(bad), str)
        assert unmanaged_because(good) == ""
