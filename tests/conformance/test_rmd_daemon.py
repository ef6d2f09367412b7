# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated RMD daemon against tables of RMD's behaviour in code: texts, codes, ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.rmd import bitmaps
from lab.rmd.access import Door
from lab.rmd.api import Reply, Request, answer
from lab.rmd.bitmaps import PanicError, WrongExpressionError
from lab.rmd.daemon import Daemon
from lab.rmd.host import SKYLAKE, BootError, Configuration, Host
from lab.rmd.resctrl import Group

BROADWELL = Host({0: tuple(range(22)), 1: tuple(range(22, 44))}, processes={"5": frozenset({3})})
NARROW = Host(BROADWELL.caches, ways=11, architecture="skylake")
JSON = {"content-type": "application/json"}
REASON = "Failed to validate workload. Reason: "
STORED = REASON + "Workload validation in database failed. Details: "


class Client:
    """Sends requests to a daemon without a socket in between."""

    def __init__(self, configuration: Configuration | None = None, host: Host = BROADWELL) -> None:
        self.daemon = Daemon(host, configuration or Configuration())

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        content = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
        given = {**(JSON if method in ("POST", "PATCH") else {}), **headers}
        given = {name.replace("_", "-"): value for name, value in given.items()}
        return answer(self.daemon, Door(), Request(method, path, given, content))

    def post(self, **workload: Any) -> Reply:
        return self.ask("POST", "/v1/workloads", workload)

    def made(self, **workload: Any) -> dict[str, Any]:
        reply = self.post(**workload)
        assert reply.status == 201, reply
        document: dict[str, Any] = json.loads(reply.content)
        return document

    def get(self, path: str) -> Any:
        reply = self.ask("GET", path)
        assert reply.status == 200, reply
        return json.loads(reply.content)

    def masks(self, name: str) -> str:
        group = self.daemon.hardware.resctrl.groups[name]
        return " / ".join(f"{mask:x}" for mask in group.masks.values())

    def available(self) -> str:
        caches = self.get("/v1/cache/l3")["Caches"].values()
        return " / ".join(cache["available_ways"] for cache in caches)


def cache(most: int, least: int) -> dict[str, int]:
    return {"max": most, "min": least}


# --- the order of checks of POST (reference, section 1.4) -----------------------------------------

ONE = {"core_ids": ["1", "2"], "uuid": "x", "cache": cache(2, 2)}
TASK = {"task_ids": ["5"], "cache": cache(2, 2)}


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"", 500, "EOF"),
        (b"{", 500, "unexpected EOF"),
        (
            {"core_ids": "3"},
            500,
            "json: cannot unmarshal string into Go struct field RDTWorkLoad.core_ids of type"
            " []string",
        ),
        (
            {"core_ids": ["3"], "cache": cache(-1, 2)},
            500,
            "json: cannot unmarshal number -1 into Go struct field .cache.max of type uint32",
        ),
        ({"cache": cache(2, 2)}, 400, REASON + "No task or core id specified"),
        ({"task_ids": ["199999"]}, 400, REASON + "The task: 199999 does not exist"),
        (
            {"core_ids": ["3"], "cache": {"max": 2}},
            400,
            REASON + "Need to provide both *_cache or none of them",
        ),
        (
            {"core_ids": ["3"], "cache": cache(2, 2), "pstate": {"ratio": 1.5}},
            400,
            REASON + "P-State configuration given while plugin not enabled",
        ),
        (
            {"core_ids": ["3"], "policy": "foo"},
            400,
            REASON + "Could not find the Policy. Can not find specified policy foo",
        ),
        ({"core_ids": ["3"]}, 400, REASON + "No Cache neither PState params in workload"),
        (
            {**ONE, "core_ids": ["3"], "id": "1"},
            400,
            STORED + "Workload with id 1 already exists\n",
        ),
        ({**ONE, "core_ids": ["3"]}, 400, STORED + "UUID x already exists in workload 1\n"),
        (TASK, 400, STORED + "TaskID 5 already exists in workload 2\n"),
        (
            {"core_ids": ["0-2"], "cache": cache(2, 2)},
            400,
            STORED + "CPU list 6 has been assigned\n",
        ),
        (
            {"core_ids": ["3", "abc1-8"], "cache": cache(2, 2)},
            400,
            STORED + "wrong expression : abc1-8\n",
        ),
        (
            {"core_ids": ["3"], "cache": cache(2, 0)},
            500,
            "Bad cache ways request. Details: max_cache=2, min_cache=0, doesn't support\n",
        ),
        (
            {"core_ids": ["3"], "cache": cache(1, 2)},
            500,
            "Bad cache ways request. Details: max_cache=1, min_cache=2, doesn't support\n",
        ),
        ({"core_ids": ["3"], "cache": cache(11, 11)}, 500, "Not enough cache left on cache_id 0"),
        (
            {"core_ids": ["50"], "cache": cache(2, 2)},
            500,
            "Error to commit resource group for workload.. Details: write"
            " /sys/fs/resctrl/50-guarantee/cpus: invalid argument\n",
        ),
    ],
)
def test_a_refused_post(body: Any, status: int, text: str) -> None:
    client = Client()
    client.made(**ONE)
    client.made(**TASK)
    before = client.get("/v1/workloads")
    reply = client.ask("POST", "/v1/workloads", body)
    assert (reply.status, reply.content.decode()) == (status, text)
    assert client.get("/v1/workloads") == before


@pytest.mark.parametrize(
    ("pstate", "text"),
    [
        ({"ratio": 0}, "Invalid P-State Branch Ratio given"),
        ({"ratio": -1.5}, "Invalid P-State Branch Ratio given"),
        ({"ratio": 1.5, "monitoring": "On"}, "Invalid P-State Monitoring value"),
    ],
)
def test_a_refused_p_state(pstate: dict[str, Any], text: str) -> None:
    client = Client(Configuration(pstate=True))
    reply = client.post(core_ids=["3"], cache=cache(2, 2), pstate=pstate)
    assert (reply.status, reply.content.decode()) == (400, REASON + text)


def test_p_state_with_its_plugin() -> None:
    client = Client(Configuration(pstate=True))
    made = client.made(core_ids=["3"], cache=cache(2, 2), pstate={"ratio": 1.5})
    assert made["pstate"] == {"ratio": 1.5, "monitoring": "on"}
    upper = client.made(core_ids=["4"], pstate={"ratio": 3, "monitoring": "OFF"})
    assert upper["pstate"] == {"ratio": 3, "monitoring": "off"}
    assert client.get("/v1/pstate/3") == {"core_id": 3, "monitoring": "on", "ratio_threshold": 1.5}


@pytest.mark.parametrize(
    ("stored", "asked", "shown"),
    [
        (["1", "2"], ["1", "2"], "6"),
        (["1", "40"], ["1", "43"], "0,00000002"),
        (["43"], ["40-43"], "800,00000000"),
        (["1", "2", "43"], ["1", "2"], "6"),
    ],
)
def test_the_overlap_is_a_hexadecimal_mask(stored: list[str], asked: list[str], shown: str) -> None:
    client = Client()
    client.made(core_ids=stored, cache=cache(2, 2))
    reply = client.post(core_ids=asked, cache=cache(2, 2))
    assert reply.content.decode() == f"{STORED}CPU list {shown} has been assigned\n"


@pytest.mark.parametrize(("asked", "shown"), [(["1-2"], "[1 2]"), (["40"], "[]")])
def test_v03_shows_the_overlap_of_the_lowest_cpus_only(asked: list[str], shown: str) -> None:
    client = Client(Configuration(wire="0.3"))
    client.made(core_ids=["1", "2", "40"], rdt={"cache": cache(2, 2)})
    reply = client.post(core_ids=asked, rdt={"cache": cache(2, 2)})
    assert reply.content.decode() == f"{STORED}CPU list {shown} has been assigned\n"


@pytest.mark.parametrize("core", ["abc", "64"])
def test_v02_dies_of_what_is_no_cpu(core: str) -> None:
    with pytest.raises(PanicError):
        Client().post(core_ids=[core], cache=cache(2, 2))


def test_classes_of_service_run_out() -> None:
    client = Client(host=Host(BROADWELL.caches, closids=4))
    client.made(core_ids=["1"], cache=cache(1, 1))
    client.made(core_ids=["2"], cache=cache(1, 1))
    after = client.post(core_ids=["3"], cache=cache(1, 1))
    assert (after.status, after.content.decode()) == (
        500,
        "Error while try to commit resource group for default group.. Details:"
        " error, not enough CLOS on host, 4 used\n",
    )
    assert "3-guarantee" not in client.daemon.hardware.resctrl.groups
    full = Group(dict.fromkeys(BROADWELL.caches, BROADWELL.full))
    client.daemon.hardware.resctrl.groups["libvirt"] = full
    before = client.post(core_ids=["3"], cache=cache(1, 1))
    assert (before.status, before.content.decode()) == (
        500,
        "Unable to read cache schemata; error, not enough CLOS on host, 4 used",
    )
    assert client.ask("GET", "/v1/cache/l3") == Reply(400)


def test_the_kernel_has_fewer_classes_with_bandwidth() -> None:
    client = Client(Configuration(mba_mode=None), Host(BROADWELL.caches, mba=True, mba_closids=2))
    client.made(core_ids=["1"], cache=cache(1, 1))
    reply = client.post(core_ids=["2"], cache=cache(1, 1))
    assert reply.content.decode() == (
        "Error to commit resource group for workload.. Details: mkdir /sys/fs/resctrl/2-guarantee:"
        " no space left on device\n"
    )


def test_a_pool_that_is_not_configured() -> None:
    client = Client(Configuration(guarantee=19, besteffort=0, shared=0))
    reply = client.post(core_ids=["3"], cache=cache(2, 1))
    assert (reply.status, reply.content.decode()) == (
        500,
        "Unable to read cache schemata; error doesn't support pool besteffort",
    )
    with pytest.raises(PanicError):
        client.ask("POST", "/v1/hospitality", {"max_cache": 0, "min_cache": 0})
    assert set(client.get("/v1/cache/l3/0")["available_ways_pool"]) == {"guaranteed", "os"}


def test_the_documented_status_is_a_switch() -> None:
    client = Client(Configuration(documented_status=True))
    assert client.post(core_ids=["3"], cache=cache(11, 11)).status == 400


# --- workloads ------------------------------------------------------------------------------------


def test_the_answer_to_a_post_is_printed_as_go_does() -> None:
    reply = Client().post(
        core_ids=["0", "1", "2", "3"], cache=cache(2, 2), uuid="rmdworkload-guaranteed-cache"
    )
    assert (reply.status, reply.content_type) == (201, "application/json")
    assert reply.content.decode() == (
        '{\n  "id": "1",\n  "core_ids": [\n   "0",\n   "1",\n   "2",\n   "3"\n  ],\n'
        '  "status": "Successful",\n  "cos_name": "0_1_2_3-guarantee",\n'
        '  "cache": {\n   "max": 2,\n   "min": 2\n  },\n  "pstate": {},\n'
        '  "uuid": "rmdworkload-guaranteed-cache",\n  "origin": "REST"\n }'
    )


def test_v03_answers_in_its_own_form() -> None:
    client = Client(Configuration(wire="0.3"), Host(BROADWELL.caches, mba=True))
    made = client.made(core_ids=["0-3", "6"], rdt={"cache": cache(2, 2)})
    assert made["rdt"] == {"cache": cache(2, 2), "mba": {}}
    assert (made["cos_name"], "cache" in made, "pstate" in made) == ("COS2", False, False)
    reply = client.ask("POST", "/v1/workloads", b"{")
    assert reply.content.decode().startswith("Failed to read request correctly.")


@pytest.mark.parametrize(
    ("rdt", "status", "text"),
    [
        ({"cache": cache(2, 2), "mba": {"percentage": 50}}, 201, ""),
        ({"cache": cache(2, 2), "mba": {"mbps": 50}}, 400, "Please provide MBA in Percentage"),
        ({"cache": cache(2, 2), "mba": {"percentage": 101}}, 400, "range from 1 to 100"),
        ({"cache": cache(2, 1), "mba": {"percentage": 50}}, 400, "MBA only supported for Guarante"),
        ({"cache": cache(0, 0), "mba": {"percentage": 50}}, 400, "MBA only supported for Guarante"),
        ({"cache": cache(0, 0), "mba": {"percentage": 100}}, 500, "MBA forbidden for shared group"),
        ({"mba": {"percentage": 50}}, 400, "Need to provide both cache and mba"),
        ({"cache": cache(1, 2)}, 500, "Min cache value cannot be greater than max cache value"),
        ({"cache": {"max": 2}}, 400, "Need to provide both cache.* or none of them"),
        ({}, 400, "No RDT/Plugins params in workload"),
    ],
)
def test_v03_checks_bandwidth(rdt: dict[str, Any], status: int, text: str) -> None:
    client = Client(Configuration(wire="0.3"), Host(BROADWELL.caches, mba=True))
    reply = client.post(core_ids=["1"], rdt=rdt)
    assert (reply.status, text in reply.content.decode()) == (status, True)


def test_v03_without_bandwidth_or_plugin() -> None:
    client = Client(Configuration(wire="0.3"))
    mba = client.post(core_ids=["1"], rdt={"cache": cache(2, 2), "mba": {"percentage": 50}})
    assert b"This machine supports only cache and not MBA" in mba.content
    plugin = client.post(core_ids=["1"], plugins={"pstate": {"ratio": 1.5}})
    assert b"Trying to use module that is not loaded" in plugin.content


def test_the_story_of_rmd_s_own_integration_test() -> None:
    client = Client()
    assert client.get("/v1/workloads") == []
    client.made(task_ids=["5"], cache=cache(1, 1))
    names = []
    for most, least in ((1, 1), (2, 1), (0, 0)):
        made = client.made(core_ids=["4-5"], cache=cache(most, least))
        assert (made["status"], made["core_ids"], made["cache"]) == (
            "Successful", ["4-5"], cache(most, least),
        )  # fmt: skip
        assert client.daemon.hardware.resctrl.groups[made["cos_name"]].cpus == {4, 5}
        names.append(made["cos_name"])
        assert client.ask("DELETE", f"/v1/workloads/{made['id']}").status == 200
    assert names == ["4-5-guarantee", "4-5-besteffort", "shared"]


def test_a_policy_overrides_what_is_given() -> None:
    made = Client().made(core_ids=["1"], policy="silver", cache=cache(4, 4))
    assert (made["policy"], made["cache"]) == ("silver", cache(2, 1))
    assert made["cos_name"] == "1-besteffort"


def test_the_names_of_groups_keep_the_lists_as_they_were_given() -> None:
    assert Client().made(core_ids=["0-3", "6"], cache=cache(2, 2))["cos_name"] == "0-3_6-guarantee"
    assert Client().made(core_ids=["1-8,^3-4"], cache=cache(0, 0))["cos_name"] == "shared"
    assert Client().made(**TASK)["cos_name"] == "5-guarantee"


def test_workloads_are_listed_by_the_bytes_of_their_id() -> None:
    client = Client()
    assert client.ask("GET", "/v1/workloads").content == b"[]"
    for core in range(1, 11):
        client.made(core_ids=[str(core)], cache=cache(0, 0))
    assert [item["id"] for item in client.get("/v1/workloads/")] == [
        "1", "10", "2", "3", "4", "5", "6", "7", "8", "9",
    ]  # fmt: skip


def test_ids_are_never_used_again() -> None:
    client = Client()
    client.made(core_ids=["1"], cache=cache(1, 1))
    assert client.ask("DELETE", "/v1/workloads/1") == Reply(200)
    assert client.made(core_ids=["1"], cache=cache(1, 1))["id"] == "2"
    assert client.made(core_ids=["2"], cache=cache(1, 1), id="mine")["id"] == "mine"


def test_delete_gives_ways_and_cpus_back() -> None:
    client = Client()
    client.made(core_ids=["1", "2"], cache=cache(2, 2))
    client.ask("DELETE", "/v1/workloads/1")
    groups = client.daemon.hardware.resctrl.groups
    assert list(groups) == ["."]
    assert groups["."].cpus == set(BROADWELL.cpus)
    assert client.available() == "fffff / fffff"


def test_the_shared_group_stays_while_it_has_a_member() -> None:
    client = Client()
    for core in ("1", "23"):
        client.made(core_ids=[core], cache=cache(0, 0))
    client.ask("DELETE", "/v1/workloads/1")
    assert client.daemon.hardware.resctrl.groups["shared"].cpus == {23}
    client.ask("DELETE", "/v1/workloads/2")
    assert "shared" not in client.daemon.hardware.resctrl.groups


def test_v03_frees_only_cpu_0_of_a_range() -> None:
    client = Client(Configuration(wire="0.3", os_cpus=frozenset({43})))
    client.made(core_ids=["0-3"], rdt={"cache": cache(2, 2)})
    client.ask("DELETE", "/v1/workloads/1")
    assert client.daemon.hardware.resctrl.groups["COS2"].cpus == {1, 2, 3}


def test_a_workload_on_the_os_cpu_silently_loses_it() -> None:
    client = Client()
    client.made(core_ids=["0", "1"], cache=cache(2, 2))
    assert client.daemon.hardware.resctrl.groups["0_1-guarantee"].cpus == {1}


# --- PATCH (section 1.5) --------------------------------------------------------------------------


def patched(client: Client, **patch: Any) -> tuple[int, str]:
    reply = client.ask("PATCH", "/v1/workloads/1", patch)
    return reply.status, reply.content.decode()


def test_patch_of_cache_and_cores() -> None:
    client = Client()
    client.made(core_ids=["1"], cache=cache(2, 2))
    assert patched(client, core_ids=["1"], cache=cache(4, 2))[0] == 200
    assert client.masks("1-besteffort") == "3c000 / fffff"
    assert "1-guarantee" not in client.daemon.hardware.resctrl.groups
    assert patched(client, core_ids=["23"], cache=cache(2, 2))[0] == 200
    assert client.masks("23-guarantee") == "fffff / 300"


def test_patch_of_cores_alone_always_fails() -> None:
    client = Client()
    client.made(core_ids=["1"], cache=cache(2, 2))
    expected = (
        "Failed to validate workload. Details: Workload validation in database failed."
        " Details: Workload with id 1 already exists\n\n"
    )
    assert patched(client, core_ids=["2"], cache=cache(2, 2)) == (500, expected)
    nothing = "Failed to validate workload. Details: No task or core id specified\n"
    assert patched(client, cache=cache(2, 2)) == (500, nothing)


def test_patch_without_a_difference_does_nothing() -> None:
    client = Client()
    made = client.made(core_ids=["1"], cache=cache(2, 2), uuid="a")
    status, text = patched(client, core_ids=["1"], cache=cache(2, 2), uuid="b")
    assert (status, json.loads(text)) == (200, made)


def test_a_value_clears_the_policy() -> None:
    client = Client()
    client.made(core_ids=["1"], policy="gold")
    assert "policy" not in json.loads(patched(client, core_ids=["1"], cache=cache(3, 3))[1])
    assert json.loads(patched(client, core_ids=["1"], policy="gold")[1])["policy"] == "gold"


def test_a_patch_that_fails_leaves_daemon_and_hardware_apart() -> None:
    client = Client()
    made = client.made(core_ids=["1"], cache=cache(2, 2))
    status, text = patched(client, core_ids=["1"], cache=cache(12, 12))
    assert (status, text) == (500, "Not enough cache left on cache_id 0")
    assert client.get("/v1/workloads") == [made]
    assert "1-guarantee" not in client.daemon.hardware.resctrl.groups


def test_only_what_rest_made_can_be_changed() -> None:
    client = Client()
    client.made(core_ids=["1"], cache=cache(2, 2))
    stored = client.daemon.workloads
    stored["1"] = stored["1"].with_(origin="OPENSTACK")
    ending = "REST origin workloads"
    assert patched(client, cache=cache(4, 4)) == (
        200, f"200: You only have permission to modify {ending}",
    )  # fmt: skip
    reply = client.ask("DELETE", "/v1/workloads/1")
    assert reply.content.decode() == f"200: You only have permission to delete {ending}"
    assert "1" in stored


# --- ways (sections 6.2 and 6.4) ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "configuration", "expected"),
    [
        (BROADWELL, Configuration(), ["7fe / 3ff", "3f800 / 1fc00", "c0000 / 60000"]),
        (NARROW, SKYLAKE, ["7e / 3f", "380 / 1c0", "400 / 200"]),
    ],
)
def test_pools_lie_above_the_ways_of_the_os(
    host: Host, configuration: Configuration, expected: list[str]
) -> None:
    pools = Daemon(host, configuration).ways.pools.values()
    assert [" / ".join(f"{mask:x}" for mask in pool.values()) for pool in pools] == expected


def test_the_worked_run_on_twenty_ways() -> None:
    client = Client()
    assert client.masks(".") == "fffff / fffff"
    assert client.available() == "fffff / fffff"
    run = [
        (["1", "2"], 2, 2, "600 / fffff", "1ff", "ff800 / fffff"),
        (["3"], 2, 2, "180 / fffff", "7f", "ff800 / fffff"),
        (["4", "23"], 4, 4, "78 / 3c0", "7", "ff800 / ffc3f"),
        (["5"], 4, 4, "", "7", "ff800 / ffc3f"),
        (["6"], 4, 2, "3c000 / fffff", "7", "c3800 / ffc3f"),
        (["7"], 4, 2, "3800 / fffff", "7", "c0000 / ffc3f"),
        (["8"], 4, 2, "", "7", "c0000 / ffc3f"),
    ]
    for cores, most, least, masks, os_mask, available in run:
        reply = client.post(core_ids=cores, cache=cache(most, least))
        if masks:
            assert client.masks(json.loads(reply.content)["cos_name"]) == masks
        else:
            assert reply.content == b"Not enough cache left on cache_id 0"
        assert client.masks(".").partition(" / ")[0] == os_mask
        assert client.available() == available


def test_the_worked_run_on_eleven_ways() -> None:
    client = Client(SKYLAKE, NARROW)
    found = []
    for core in ("1", "2", "3"):
        made = client.made(core_ids=[core], cache=cache(2, 2))
        masks = client.masks(made["cos_name"]), client.masks(".")
        found.append(tuple(mask.partition(" / ")[0] for mask in masks))
    assert found == [("60", "1f"), ("18", "7"), ("6", "1")]
    assert client.available().startswith("780 /")
    assert client.post(core_ids=["4"], cache=cache(2, 2)).status == 500
    made = client.made(core_ids=["4"], cache=cache(3, 1))
    assert client.masks(made["cos_name"]).startswith("380 /")
    assert client.available().startswith("400 /")


def test_best_effort_shrinks_where_that_is_configured() -> None:
    client = Client(Configuration(shrink=True))
    first = client.made(core_ids=["1"], cache=cache(7, 2))
    assert client.masks(first["cos_name"]) == "3f800 / fffff"
    second = client.made(core_ids=["2"], cache=cache(4, 2))
    assert client.masks(second["cos_name"]) == "1800 / fffff"
    assert client.masks(first["cos_name"]) == "3e000 / fffff"


# --- caches, policies, hospitality ----------------------------------------------------------------


def test_a_fresh_cache_tells_its_pools() -> None:
    info = Client().get("/v1/cache/llc")["Caches"]["0"]
    assert info["available_ways"] == "fffff"
    assert info["available_ways_pool"] == {
        "besteffort": "11-17", "guaranteed": "1-10", "os": "0", "shared": "18-19",
    }  # fmt: skip
    assert info["available_policy"] == {"bronze": 10, "gold": 5, "silver": 7}
    assert (info["share_cpu_list"], info["NumWays"]) == ("0-21", 20)
    full = Client()
    full.made(core_ids=["1"], cache=cache(10, 10))
    assert full.get("/v1/cache/l3/0")["available_ways_pool"]["guaranteed"] == ""


@pytest.mark.parametrize(
    ("path", "status", "content"),
    [
        ("/v1/cache/l2", 400, b""),
        ("/v1/cache/llc-1", 404, b"404: Page Not Found"),
        ("/v1/cache/zzz", 404, b"404: Page Not Found"),
        ("/v1/cache/l3/99", 404, b"Cache id 99 for level 3 is not found"),
        ("/v1/cache/l2/0", 500, b""),
        ("/v1/foo", 404, b"404 page not found\n"),
        ("/v1/pstate", 404, b"404 page not found\n"),
        ("/v1/workloads/abc", 404, b"404: Could not found workload"),
        ("/v1/workloads/9", 404, b"404: Could not found workload"),
    ],
)
def test_what_is_not_there(path: str, status: int, content: bytes) -> None:
    reply = Client().ask("GET", path)
    assert (reply.status, reply.content) == (status, content)


def test_methods_and_media_types() -> None:
    client = Client()
    assert client.ask("DELETE", "/v1/workloads/").content == b"405: Method Not Allowed"
    assert client.ask("PUT", "/v1/workloads/1").status == 405
    unsupported = client.ask("POST", "/v1/workloads", b"{}", **{"content-type": "text/plain"})
    assert (unsupported.status, unsupported.content) == (415, b"415: Unsupported Media Type")
    assert client.ask("GET", "/v1/policy", content_type="text/plain").status == 415
    assert client.ask("GET", "/v1/policy").status == 200
    refused = client.ask("GET", "/v1/policy", accept="text/html")
    assert (refused.status, refused.content) == (406, b"406: Not Acceptable")


def test_policies_are_texts_in_v02_and_numbers_in_v03() -> None:
    assert Client().get("/v1/policy")["gold"] == {
        "cache": {"max": "2", "min": "2"}, "pstate": {"ratio": "1.5"},
    }  # fmt: skip
    assert Client(Configuration(wire="0.3")).get("/v1/policy")["gold"] == {"cache": cache(2, 2)}


def test_bandwidth_and_summary() -> None:
    assert Client().get("/v1/mba") == {"mba": False}
    assert Client(host=Host(BROADWELL.caches, mba=True)).get("/v1/mba") == {
        "mba": True, "mba_enable": True, "mba_step": 10, "mba_min": 10,
    }  # fmt: skip
    summary = Client().get("/v1/cache")
    assert set(summary) == {"rdt", "cqm", "cdp", "cdp_enable", "cat", "cat_enable", "caches"}
    assert summary["caches"]["l3"] == {"number": 2, "caches_id": ["0", "1"]}


@pytest.mark.parametrize(
    ("asked", "scores"),
    [
        ({"max_cache": 10, "min_cache": 10}, {"0": 0, "1": 100}),
        ({"max_cache": 8, "min_cache": 8}, {"0": 100, "1": 100}),
        ({"max_cache": 14, "min_cache": 7}, {"0": 50, "1": 50}),
        ({"max_cache": 2, "min_cache": 1, "cache_id": 0}, {"0": 100}),
        ({}, {"0": 100, "1": 100}),
        ({"policy": "gold"}, {"0": 100, "1": 100}),
    ],
)
def test_hospitality(asked: dict[str, Any], scores: dict[str, int]) -> None:
    client = Client()
    client.made(core_ids=["1"], cache=cache(2, 2))
    reply = client.ask("POST", "/v1/hospitality", asked or b"{}")
    assert json.loads(reply.content) == {"score": {"l3": scores}}


@pytest.mark.parametrize(("most", "least"), [(1, 0), (0, 1), (1, 2)])
def test_hospitality_refuses_what_is_no_request(most: int, least: int) -> None:
    reply = Client().ask("POST", "/v1/hospitality", {"max_cache": most, "min_cache": least})
    expected = f"Bad request, max_cache={most}, min_cache={least}"
    assert (reply.status, reply.content.decode()) == (500, expected)


def test_hospitality_by_policy() -> None:
    unknown = Client().ask("POST", "/v1/hospitality", {"policy": "foo"})
    assert unknown.content.endswith(b"Can not find specified policy foo\n")
    v03 = Client(Configuration(wire="0.3")).ask("POST", "/v1/hospitality", {"policy": "gold"})
    assert (v03.status, v03.content) == (500, b"Unknown AppError type!")


# --- boot and restart -----------------------------------------------------------------------------


def test_the_defaults_do_not_boot_on_eleven_ways() -> None:
    with pytest.raises(BootError, match="20 cache ways, the host has 11"):
        Daemon(NARROW, Configuration())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[CachePool]\nguarantee = 18", "28 cache ways"),
        ("[InfraGroup]\ncacheways = 21\ncpuset = '2-3'", "infra group asks for 21"),
        ("[default]\nunixsock = '/run/rmd'", "Unix listener"),
        ("[rdt]\nmbaMode = 'x'", "cannot be read"),
        ("not toml", "cannot be read"),
    ],
)
def test_a_configuration_with_which_the_daemon_ends(text: str, message: str) -> None:
    with pytest.raises(BootError, match=message):
        Daemon(BROADWELL, Configuration.from_toml(text))


def test_rmd_toml_is_read() -> None:
    read = Configuration.from_toml(
        '[default]\nclientauth = "no"\nplugins = "pstate"\n[OSGroup]\ncacheways = 2\ncpuset = "0-1"'
        "\n[CachePool]\nguarantee = 6\nbesteffort = 2\nshared = 1\nshrink = true\n[debug]\n"
        "enabled = true\n",
        wire="0.3",
    )
    assert read == Configuration(
        wire="0.3", os_ways=2, os_cpus=frozenset({0, 1}), guarantee=6, besteffort=2, shared=1,
        shrink=True, debug=True, client_auth="no", pstate=True,
    )  # fmt: skip


def test_a_lost_database_leaves_groups_behind_that_keep_their_ways() -> None:
    client = Client()
    client.made(core_ids=["1"], cache=cache(6, 6))
    client.daemon.restart(loses_database=True)
    assert client.get("/v1/workloads") == []
    assert client.masks("1-guarantee") == "7e0 / fffff"
    assert client.post(core_ids=["1"], cache=cache(6, 6)).status == 500
    # A group of the same name is overwritten, so its old ways are free afterwards.
    assert client.made(core_ids=["1"], cache=cache(4, 4))["id"] == "1"
    assert client.masks("1-guarantee") == "1e / fffff"


def test_entries_without_a_group_are_dropped_at_the_start() -> None:
    client = Client()
    client.made(core_ids=["1"], cache=cache(2, 2))
    client.made(core_ids=["2"], cache=cache(2, 2))
    client.daemon.hardware.resctrl.remove("1-guarantee")
    client.daemon.restart()
    assert [item["id"] for item in client.get("/v1/workloads")] == ["2"]


# --- sets of CPUs and ways (section 4.6) ----------------------------------------------------------


def test_a_list_of_cpus_as_a_mask() -> None:
    expressions = ["1-8,^3-4,^7,9", "56-87,^86,^61-65"]
    bits = bitmaps.bits_of(bitmaps.cpus_of(expressions))
    assert bitmaps.hex_groups(bits, 88) == "bffffc,1f000000,00000366"


@pytest.mark.parametrize("text", ["\n4", "4x", "4,,5", "-4"])
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(WrongExpressionError):
        bitmaps.cpus_of([text])


def test_v03_trims_lists() -> None:
    assert bitmaps.cpus_of(["\n4"], strips=True) == {4}
    assert bitmaps.cpus_of(["4-9"]) == {4, 5, 6, 7, 8, 9}


@pytest.mark.parametrize(
    ("count", "offset", "expected"),
    [(3, 0, 0x700), (3, 1, 0x700), (2, 0, 3), (2, 1, 0x300), (1, 1, 2)],
)
def test_runs_from_the_bottom(count: int, offset: int, expected: int) -> None:
    assert bitmaps.take_from_bottom(0xF03, count, 12, offset) == expected


@pytest.mark.parametrize(
    ("count", "offset", "expected"), [(3, 0, 0xE00), (3, 1, 0x700), (2, 0, 0xC00), (2, 1, 0x600)]
)
def test_runs_from_the_top(count: int, offset: int, expected: int) -> None:
    assert bitmaps.take_from_top(0xF03, count, 12, offset) == expected


def test_runs_that_are_not_there() -> None:
    assert bitmaps.take_from_bottom(0x7FF, 12, 11) == 0
    assert bitmaps.take_from_top(0x101, 2, 9) == 0


def test_texts_of_bits() -> None:
    bits = 0xF00000 << 64 | 0x10 << 32 | 0xF011000C
    assert bitmaps.list_text(bits) == "2-3,16,20,28-31,36,84-87"
    assert bitmaps.list_text(0) == ""
    assert bitmaps.longest_run(0x7F0F) == 0x7F00


@pytest.mark.parametrize(("cpus", "caches"), [([0, 1], [0]), ([0, 1, 2, 3, 4], [0, 1]), ([4], [1])])
def test_the_caches_of_cpus_get_the_ways(cpus: list[int], caches: list[int]) -> None:
    host = Host({0: (0, 1, 2, 3), 1: (4, 5, 6, 7)})
    client = Client(host=host)
    made = client.made(core_ids=[str(cpu) for cpu in cpus], cache=cache(1, 1))
    masks = client.daemon.hardware.resctrl.groups[made["cos_name"]].masks
    assert [key for key, mask in masks.items() if mask != host.full] == caches
