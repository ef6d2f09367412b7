# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rmd_info's function on simulated daemons."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.apply import apply_workloads
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.info import read_daemons
from lab.rmd.host import Configuration, Host
from support.https_server import HttpsServer, Reply
from support.rmd import BROADWELL, RmdDaemons, rmd_daemons

EVERYTHING = ["workloads", "cache", "policies", "mba", "hospitality"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RmdDaemons]:
    configurations = {
        "old": Configuration(),
        "new": Configuration(wire="0.3"),
        "secure": Configuration(debug=False),
    }
    hosts = {"new": Host(BROADWELL.caches, mba=True)}
    with rmd_daemons(tmp_path_factory.mktemp("rmd"), configurations, hosts=hosts) as daemons:
        workload = {"name": "a", "core_ids": ["1-2"], "cache": {"max": 2, "min": 2}}
        apply_workloads({"targets": daemons.targets, "workload": workload, **daemons.tls})
        yield daemons


@pytest.fixture
def daemons(running: RmdDaemons) -> Iterator[RmdDaemons]:
    yield running
    running.mend()


def read(daemons: RmdDaemons, **options: t.Any) -> dict[str, t.Any]:
    return read_daemons({"targets": daemons.targets, **daemons.tls, **options})


def test_a_daemon_without_workloads_is_asked_for_them_once(tmp_path: Path) -> None:
    with rmd_daemons(tmp_path / "rmd", ["idle"]) as daemons:
        asked = []
        for gather in (["workloads"], []):
            station = daemons.fleet.stations["idle"]
            before = station.requests["GET"]
            assert read(daemons, gather=gather)["errors"] == []
            asked.append(station.requests["GET"] - before)
    with_workloads, wire_alone = asked
    assert with_workloads == wire_alone


def test_everything_of_every_daemon(daemons: RmdDaemons) -> None:
    found = read(daemons, gather=EVERYTHING, request={"max": 9, "min": 9})
    assert (found["errors"], found["changed"]) == ([], False)
    by_name = {item["name"]: item for item in found["daemons"]}
    assert list(by_name) == ["old", "new", "secure"]
    assert {name: item["wire"] for name, item in by_name.items()} == {
        "old": "0.2", "new": "0.3", "secure": "0.2",
    }  # fmt: skip
    old = by_name["old"]
    assert old["workloads"] == [
        {
            "id": "1", "uuid": "a", "core_ids": ["1-2"], "cpus": [1, 2], "task_ids": [],
            "cos_name": "1-2-guarantee", "status": "Successful", "origin": "REST",
            "cache": {"max": 2, "min": 2},
        }
    ]  # fmt: skip
    first, second = old["cache"]
    assert first["free_ways"]["guaranteed"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert (first["longest_runs"]["guaranteed"], second["longest_runs"]["guaranteed"]) == (8, 10)
    assert old["policies"]["gold"] == {"cache": {"max": 2, "min": 2}, "pstate": {"ratio": 1.5}}
    assert by_name["new"]["policies"]["gold"]["cache"] == {"max": 2, "min": 2}
    assert (old["mba"]["supported"], by_name["new"]["mba"]["supported"]) == (False, True)
    assert [(item["cache_id"], item["score"]) for item in old["hospitality"]] == [(0, 0), (1, 100)]


def test_a_part_that_is_forbidden_is_null_and_an_error(daemons: RmdDaemons) -> None:
    user = daemons.files.user
    options = {"client_cert": str(user.certificate), "client_key": str(user.key)}
    found = read(daemons, gather=["workloads", "mba"], **options)
    [secure] = [item for item in found["daemons"] if item["name"] == "secure"]
    assert (secure["mba"], len(secure["workloads"])) == (None, 1)
    [error] = found["errors"]
    assert (error["name"], error["reason"]) == ("secure", "forbidden")


def test_daemons_that_are_away_or_slow_stop_no_other(daemons: RmdDaemons) -> None:
    daemons.break_it("old", "rmd-dead")
    daemons.break_it("new", "rmd-slow", seconds=2)
    found = read(daemons, timeout=0.5)
    assert [item["name"] for item in found["daemons"]] == ["secure"]
    assert [error["reason"] for error in found["errors"]] == ["unreachable", "timeout"]
    with pytest.raises(WattwiseError, match="Only 1 of 3"):
        read(daemons, timeout=0.5, min_success=0.5)


def test_garbage_is_no_entry(daemons: RmdDaemons) -> None:
    daemons.break_it("old", "rmd-garbage")
    found = read(daemons)
    assert [item["name"] for item in found["daemons"]] == ["new", "secure"]
    assert [error["reason"] for error in found["errors"]] == ["malformed"]


@pytest.mark.parametrize(
    "documents",
    [
        {"/v1/workloads": {}},
        {"/v1/workloads": {"a": 1}, "/v1/cache/l3": {"Caches": 3}},
        {"/v1/workloads": [1], "/v1/cache/l3": {"Caches": {"0": {"available_ways": "zz"}}}},
    ],
)
def test_what_is_no_rmd_is_malformed(documents: dict[str, t.Any]) -> None:
    given = {path: Reply(body=body) for path, body in documents.items()}
    with HttpsServer(given, certificate=None) as server:
        found = read_daemons({"targets": [{"name": "x", "endpoint": server.endpoint}]})
    assert found["daemons"] == []
    assert found["errors"][0]["reason"] in ("malformed", "not_found")


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (
            {"mba": True, "mba_enable": True, "mba_step": 10, "mba_min": 20},
            {"supported": True, "enabled": True, "step": 10, "min": 20},
        ),
        ({"mba": True}, {"supported": True, "enabled": False, "step": None, "min": None}),
        ({"mba": False}, {"supported": False, "enabled": False, "step": None, "min": None}),
    ],
)
def test_bandwidth_as_rmd_s_own_tests_have_it(
    told: dict[str, t.Any], shown: dict[str, t.Any]
) -> None:
    with HttpsServer({"/v1/mba": Reply(body=told)}, certificate=None) as server:
        targets = [{"name": "x", "endpoint": server.endpoint}]
        found = read_daemons({"targets": targets, "gather": ["mba"], "wire": "0.3"})
    assert found["daemons"][0]["mba"] == shown


def test_a_version_that_the_user_says_is_not_asked_for(daemons: RmdDaemons) -> None:
    found = read(daemons, gather=["mba"], wire="0.3")
    assert {item["wire"] for item in found["daemons"]} == {"0.3"}


def test_hospitality_of_each_policy(daemons: RmdDaemons) -> None:
    found = read(daemons, gather=["hospitality"])
    assert found["errors"] == []
    for daemon in found["daemons"]:
        asked = {(item["policy"], item["max"], item["min"]) for item in daemon["hospitality"]}
        assert asked == {("gold", 2, 2), ("silver", 2, 1), ("bronze", 0, 0)}


def test_hospitality_of_a_daemon_without_a_shared_pool(tmp_path: Path) -> None:
    narrow = Configuration(guarantee=19, besteffort=0, shared=0)
    with rmd_daemons(tmp_path, {"n": narrow}) as daemons:
        [daemon] = read(daemons, gather=["hospitality"])["daemons"]
    assert [item["policy"] for item in daemon["hospitality"]] == ["gold", "gold"]


def test_names_are_distinct(daemons: RmdDaemons) -> None:
    with pytest.raises(InvalidInput, match="'old' is listed twice"):
        read_daemons({"targets": [daemons.targets[0]] * 2})
