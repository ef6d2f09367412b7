# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated RMD daemon answers as real daemons did (v0.2 and v0.3, November 2026).

The transcripts have the calls whose answer or resctrl groups the simulator once had otherwise, with
the real ones. Long answers are cut. A group without CPUs, tasks and limits is in no transcript.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from lab.rmd.access import Door
from lab.rmd.api import Reply, Request, answer
from lab.rmd.bitmaps import bits_of, list_text
from lab.rmd.daemon import Daemon
from lab.rmd.host import BootError, Configuration, Host

Json = dict[str, t.Any]

TRANSCRIPTS = Path(__file__).parent / "rmd"
CACHES = {0: tuple(range(22)), 1: tuple(range(22, 44))}
TASKS = {"19256": frozenset({5})}
SOCKETS_OF_V03 = Host(
    CACHES, ways=16, architecture="skylake", processes=TASKS, mba=True, mba_closids=15
)
POOLS_OF_V03 = Configuration(wire="0.3", guarantee=6, besteffort=3, shared=1)
# Calls with equal answers are in no transcript; these changed the state.
DELETED_EDGE: Json = {"number": 51, "method": "DELETE", "path": "/v1/workloads/1"}
OTHER_OF_V02: list[Json] = [
    {
        "number": 55,
        "method": "POST",
        "path": "/v1/workloads",
        "body": {"core_ids": ["1"], "cache": {"max": 1, "min": 1}},
    },
    {"number": 56, "method": "DELETE", "path": "/v1/workloads/2"},
]


def transcript(version: str) -> list[Json]:
    calls: list[Json] = json.loads((TRANSCRIPTS / f"real-v{version}.json").read_text("utf-8"))
    return calls


def calls_of_v03() -> list[Json]:
    return sorted([*transcript("0.3"), DELETED_EDGE], key=lambda call: int(call["number"]))


def calls_of_v02() -> list[Json]:
    """The recorded calls, and v0.3's in the form of v0.2, which were the same three places later."""
    calls: dict[int, Json] = {}
    for call in calls_of_v03():
        body = call.get("body")
        if isinstance(body, dict) and "rdt" in body:
            body = {**{name: value for name, value in body.items() if name != "rdt"}, **body["rdt"]}
        if call["number"] >= 50:
            number = call["number"] + 3
            same = {"method": call["method"], "path": call["path"], "number": number}
            calls[number] = {**same, **({"body": body} if body is not None else {})}
    for call in [*OTHER_OF_V02, *transcript("0.2")]:
        calls[call["number"]] = call
    return [calls[number] for number in sorted(calls)]


def ask(daemon: Daemon, call: Json) -> Reply:
    body = call.get("body")
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    headers = {"content-type": "application/json"} if body is not None else {}
    asked = Request(call["method"], call["path"], headers, content if body is not None else b"")
    return answer(daemon, Door(), asked)


def groups(daemon: Daemon) -> Json:
    found = {}
    for name, group in daemon.hardware.resctrl.groups.items():
        masks = {str(cache): f"{mask:x}" for cache, mask in group.masks.items()}
        found[name] = {"cpus": list_text(bits_of(group.cpus)), "masks": masks}
    return found


def require_equal(daemon: Daemon, calls: t.Iterable[Json]) -> int:
    """Send all calls and compare their answers and groups; the number of comparisons."""
    compared = 0
    for call in calls:
        reply = ask(daemon, call)
        if "status" in call:
            text = reply.content.decode()
            told = text[: len(call["content"])] if call.get("is_cut") else text
            found = (reply.status, reply.content_type, told)
            assert found == (call["status"], call["content_type"], call["content"]), call["number"]
            compared += 1
        if "groups" in call:
            own = groups(daemon)
            expected = call["groups"]
            assert {name: own.get(name) for name in expected} == expected, call["number"]
            compared += 1
    return compared


def test_answers_of_v02() -> None:
    assert (
        require_equal(Daemon(Host(CACHES, processes=TASKS), Configuration()), calls_of_v02()) == 19
    )


def test_answers_and_groups_of_v03() -> None:
    assert require_equal(Daemon(SOCKETS_OF_V03, POOLS_OF_V03), calls_of_v03()) > 20


def test_a_backward_range_has_no_cpu_in_v03() -> None:
    daemon = Daemon(SOCKETS_OF_V03, POOLS_OF_V03)
    body = {"core_ids": ["9-4"], "rdt": {"cache": {"max": 1, "min": 1}}}
    reply = ask(daemon, {"method": "POST", "path": "/v1/workloads", "body": body})
    assert reply.status == 201
    assert groups(daemon)["COS2"]["cpus"] == ""


def test_v03_does_not_start_with_equal_numbers_of_classes() -> None:
    with pytest.raises(BootError, match="as many classes"):
        Daemon(Host(CACHES, mba=True, mba_closids=16), Configuration(wire="0.3"))
    Daemon(Host(CACHES, mba=True, mba_closids=16), Configuration())
