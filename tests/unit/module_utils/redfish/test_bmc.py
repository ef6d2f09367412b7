# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One visit of a BMC for temperature, power and models, and models that are not requested again."""

from __future__ import annotations

import datetime
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.models import models_of
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.poll import (
    poll,
    poll_targets,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.readings import Answers
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import (
    Targets,
    resolve,
)
from ansible_collections.wattwise.kube.plugins.module_utils.observe import pressure
from ansible_collections.wattwise.kube.plugins.module_utils.redfish import bmc, models, thermal
from support.https_server import SHARED_CERTIFICATE, Document, HttpsServer, Reply
from support.redfish_trees import ROOT, SERVER, one_server, power, temperature
from support.redfish_trees import thermal as thermal_of
from support.wao import fake, node, node_config

Json = dict[str, t.Any]

NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
ACCOUNT = ("monitor", "secret")
MODEL = {
    "PowerConsumptionModel": {
        "Name": "m",
        "Url": "http://10.0.0.20",
        "Type": "V2InferenceProtocol",
        "Version": "1",
    }
}
SYSTEM = f"{ROOT}/Systems/1"


def tree() -> dict[str, Document]:
    found = one_server(thermal_of(temperature("Inlet", 22.5)), power(180.0))
    [system] = t.cast("Json", found[f"{ROOT}/Systems"])["Members"]
    return {**found, f"{system['@odata.id']}/MachineLearningModel": MODEL}


def targets(*servers: HttpsServer, provider: str = "") -> Targets:
    """A node n0, n1, … for each server; their models are named by ``provider``, else the BMC."""
    configs = []
    for index, server in enumerate(servers):
        config = node_config(f"c{index}", f"n{index}")
        term = {"type": "Redfish", "endpoint": server.endpoint}
        config["spec"]["metricsCollector"] = {"inletTemp": term, "deltaP": fake()}
        named = {**term, "endpoint": provider or server.endpoint}
        config["spec"]["predictor"] = {"powerConsumptionEndpointProvider": named}
        configs.append(config)
    return resolve([node(f"n{index}") for index in range(len(servers))], configs)


def options(account: tuple[str, str] = ACCOUNT, **more: t.Any) -> Json:
    default = dict(zip(("username", "password"), account, strict=True))
    given = {
        "snapshot": "none",
        "tls_fingerprint": [SHARED_CERTIFICATE.fingerprint],
        "credentials": {"default": default},
        "default_credential_namespaces": ["wao-system"],
        "timeout": 5.0,
        **more,
    }
    return thermal.SPEC.complete(given)


def at(minutes: float) -> Context:
    return Context(now=lambda: NOON + datetime.timedelta(minutes=minutes))


def visit(found: Targets, minutes: float = 0, last: t.Sequence[Json] = (), **more: t.Any) -> Json:
    former = models_of(list(last))
    answers = bmc.read(found, options(**more), at(minutes), {}, former, model_max_age=600.0)
    return {"thermal": as_json(answers.thermal), "models": as_json(answers.models)}


def as_json(answers: Answers) -> Json:
    """The answers in the form of the modules' results."""
    return {
        "readings": [
            {"name": name, **{quantity: value.value for quantity, value in values.items()}}
            for name, values in answers.values.items()
        ],
        "errors": [error.as_dict() for error in answers.errors],
        "authentication": list(answers.authentication.values()),
        "models": [models.as_document() for models in answers.models],
    }


def test_all_is_read_on_one_connection_one_request_at_a_time_as_the_modules_read_it() -> None:
    with HttpsServer(tree(), account=ACCOUNT) as one, HttpsServer(tree(), account=ACCOUNT) as two:
        found = targets(one, two)
        result = visit(found)
        assert [len(server.seen.peers) for server in (one, two)] == [1, 1]
        assert [server.seen.most_in_flight for server in (one, two)] == [1, 1]
        inlets = poll_targets(found, "inlet_temp")
        providers = poll_targets(found, "power_consumption_endpoint_provider")
        plan = thermal.ThermalPlan.of(inlets, options(), {}, NOON)
        named = models.ModelPlan.of(providers, options(), [], 600.0, NOON)
        alone = {
            "thermal": as_json(plan.concluded(poll(plan.jobs, options(), at(0)), at(0)).answers()),
            "models": as_json(named.concluded(poll(named.jobs, options(), at(0)))),
        }
    assert result == alone
    assert [reading["inlet_celsius"] for reading in result["thermal"]["readings"]] == [22.5, 22.5]
    assert [reading["power_watts"] for reading in result["thermal"]["readings"]] == [180.0, 180.0]
    assert [entry["power_consumption"]["name"] for entry in result["models"]["models"]] == ["m"] * 2


def test_a_password_that_was_refused_for_the_temperature_is_not_tried_for_the_models() -> None:
    with HttpsServer(tree(), account=ACCOUNT) as server:
        result = visit(targets(server), account=("monitor", "wrong"))
        assert sum(server.seen.refused.values()) == 1
    for part in ("thermal", "models"):
        [error] = result[part]["errors"]
        assert (error["name"], error["reason"]) == ("n0", "unauthorized")
        # One refusal, though two readings met it.
        assert [entry["failures"] for entry in result[part]["authentication"]] == [1]


def test_a_bmc_that_cannot_be_reached_is_tried_once_and_both_readings_say_so() -> None:
    with HttpsServer(tree()) as gone, HttpsServer(tree(), account=ACCOUNT) as well:
        found = targets(gone, well)
        gone.documents = {path: Reply(drop=True) for path in (*gone.documents, ROOT)}
        result = visit(found)
        first = f"{ROOT}/Systems/1/MachineLearningModel"
        assert gone.requests[f"{ROOT}/Systems"] == gone.requests[first] == 0
    for part in ("thermal", "models"):
        [error] = result[part]["errors"]
        assert (error["name"], error["reason"]) == ("n0", "unreachable")
    assert [entry["name"] for entry in result["models"]["models"]] == ["n1"]


def test_a_bmc_whose_temperature_never_comes_names_its_models_all_the_same() -> None:
    with HttpsServer(tree()) as server:
        found = targets(server)
        server.documents[f"{SERVER}/Thermal"] = Reply(delay_seconds=30.0)
        result = visit(found, timeout=1.0)
    assert [error["reason"] for error in result["thermal"]["errors"]] == ["timeout"]
    assert [entry["name"] for entry in result["models"]["models"]] == ["n0"]


def test_models_of_another_server_than_the_bmc_are_read_there() -> None:
    with HttpsServer(tree()) as one, HttpsServer(tree()) as other:
        result = visit(targets(one, provider=other.endpoint))
        assert f"{SERVER}/Thermal" in one.requests
        assert not any("MachineLearningModel" in path for path in one.requests)
        assert any("MachineLearningModel" in path for path in other.requests)
    assert result["models"]["models"][0]["bmc"] == other.endpoint


def test_readers_run_at_the_same_time_in_threads() -> None:
    with HttpsServer(tree()) as server, ThreadPoolExecutor() as threads:
        found = targets(server)
        of_bmcs = threads.submit(visit, found)
        given = pressure.SPEC.complete({"snapshot": "none"})
        fakes = poll_targets(found, "delta_p")
        of_pressure = threads.submit(pressure.read, fakes, given, at(0), {})
        assert of_pressure.result().as_result()["readings"][0]["pascals"] == 7.5
        assert of_bmcs.result()["thermal"]["readings"][0]["inlet_celsius"] == 22.5


class TestModelsThatAreKept:
    """A BMC's names from a few minutes ago are not requested again."""

    @pytest.mark.parametrize(
        ("minutes", "more", "is_asked"),
        [
            (9.9, {}, False),
            (10.0, {}, True),
            (5.0, {"refresh": True}, True),
            # A clock that was set back says nothing about an age.
            (-1.0, {}, True),
        ],
    )
    def test_until_they_are_ten_minutes_old(
        self, minutes: float, more: Json, is_asked: bool
    ) -> None:
        with HttpsServer(tree()) as server:
            found = targets(server)
            last = visit(found)["models"]["models"]
            server.forget()
            [entry] = visit(found, minutes, last, **more)["models"]["models"]
            asked = any("MachineLearningModel" in path for path in server.requests)
        assert asked is is_asked
        assert entry.get("kept", False) is not is_asked
        assert entry["power_consumption"] == last[0]["power_consumption"]
        kept_time = "2026-01-31T12:00:00Z"
        assert (entry["time"] == kept_time) is not is_asked

    def test_and_no_longer_than_they_were_named_though_they_are_handed_on(self) -> None:
        with HttpsServer(tree()) as server:
            found = targets(server)
            first = visit(found)["models"]["models"]
            second = visit(found, 9, first)["models"]["models"]
            third = visit(found, 11, second)["models"]["models"]
        assert [entry[0].get("kept") for entry in (first, second, third)] == [None, True, None]

    def test_but_not_those_that_another_bmc_named(self) -> None:
        with HttpsServer(tree()) as server, HttpsServer(tree()) as other:
            last = visit(targets(other))["models"]["models"]
            [entry] = visit(targets(server), 1, last)["models"]["models"]
        assert "kept" not in entry

    @pytest.mark.parametrize(
        "spoilt", [{"time": "noon"}, {"time": None}, {"power_consumption": None}, {"bmc": 1}]
    )
    def test_nor_those_of_an_entry_that_is_none(self, spoilt: Json) -> None:
        with HttpsServer(tree()) as server:
            found = targets(server)
            [good] = visit(found)["models"]["models"]
            last: list[t.Any] = ["odd", {**good, **spoilt}]
            [entry] = visit(found, 1, last)["models"]["models"]
        assert "kept" not in entry

    def test_a_node_config_with_a_problem_is_an_error_whatever_was_kept(self) -> None:
        with HttpsServer(tree()) as server:
            found = targets(server)
            last = visit(found)["models"]["models"]
        kind: t.Literal["power_consumption_endpoint_provider"]
        kind = "power_consumption_endpoint_provider"
        [target] = found.nodes
        broken = replace(target.endpoints[kind], problem="it is broken")
        endpoints = {**target.endpoints, kind: broken}
        result = visit(Targets((replace(target, endpoints=endpoints),)), 1, last)
        assert [error["detail"] for error in result["models"]["errors"]] == ["it is broken"]
