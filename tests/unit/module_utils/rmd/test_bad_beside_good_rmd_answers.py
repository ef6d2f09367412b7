# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever one RMD daemon answers, another one is read and changed as if it were alone."""

from __future__ import annotations

import random
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.apply import apply_workloads
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.info import (
    PARTS,
    read_daemons,
)
from support.examples import each_seed
from support.https_server import HttpsServer, Reply
from support.odd_answers import assert_fit_for_documents, spoilt_documents
from support.odd_values import bounded

Json = dict[str, t.Any]
CACHE: Json = {
    "cache_id": "0",
    "NumWays": "20",
    "share_cpu_list": "0-21",
    "available_ways": "ffffc",
    "available_ways_pool": {"guaranteed": "2-11", "besteffort": "12-17", "shared": "18-19"},
    "available_policy": {"gold": "2", "silver": "3"},
}
TREE: Json = {
    "/v1/workloads": [
        {
            "id": "1",
            "uuid": "kept",
            "core_ids": ["0", "1"],
            "task_ids": [],
            "status": "Successful",
            "cos_name": "0-1-guarantee",
            "origin": "REST",
            "rdt": {"cache": {"max": 2, "min": 2}, "mba": {"percentage": 100}},
            "plugins": {"pstate": {"ratio": 1.5, "monitoring": "on"}},
        },
        {"id": "2", "uuid": "other", "core_ids": ["4"], "rdt": {"cache": {"max": 1, "min": 1}}},
    ],
    "/v1/cache/l3": {"number": 2, "Caches": {"0": CACHE, "1": {**CACHE, "cache_id": "1"}}},
    "/v1/policy": {"gold": {"cache": {"max": 4, "min": 4}, "pstate": {"ratio": 2.0}}},
    "/v1/mba": {"mba": True, "mba_enable": True, "mba_step": 10, "mba_min": 10},
    "/v1/hospitality": {"score": {"l3": {"0": 80, "1": 100}}},
}
WANTED: Json = {
    "name": "kept",
    "core_ids": ["0", "1"],
    "cache": {"max": 2, "min": 2},
    "pstate": {"ratio": 1.5, "monitoring": "on"},
}
Servers = tuple[HttpsServer, HttpsServer]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    # A list as a document would count as a list of replies.
    documents = {path: Reply(body=body) for path, body in TREE.items()}
    with HttpsServer(documents, certificate=None) as good, HttpsServer(certificate=None) as bad:
        yield good, bad


def targets(*servers: tuple[str, HttpsServer]) -> list[Json]:
    return [{"name": name, "endpoint": server.endpoint} for name, server in servers]


def run(work: str, asked: list[Json]) -> Json:
    if work == "info":
        options: Json = {"targets": asked, "gather": list(PARTS), "timeout": 4.0}
        return read_daemons(options, Context())
    wanted = [WANTED, {**WANTED, "name": "new", "core_ids": ["8"]}] if work == "new" else [WANTED]
    return apply_workloads({"targets": asked, "workloads": wanted, "timeout": 4.0}, Context())


def of_good(result: Json) -> list[t.Any]:
    return [
        [item for item in result.get(part, []) if item["name"] == "good"]
        for part in ("daemons", "results", "errors")
    ]


@pytest.fixture(scope="module")
def alone(servers: Servers) -> dict[str, list[t.Any]]:
    good, _bad = servers
    found = {work: of_good(run(work, targets(("good", good)))) for work in ("info", "apply", "new")}
    assert found["info"][0][0]["cache"][0]["free_ways"]["guaranteed"] == list(range(2, 12))
    assert found["info"][2] == []
    assert [item["action"] for item in found["apply"][1]] == ["unchanged"]
    return found


@each_seed(75)
def test_a_daemon_is_served_as_if_it_were_alone(
    servers: Servers, alone: dict[str, list[t.Any]], seed: int
) -> None:
    source = random.Random(seed)
    good, bad = servers
    bad.documents = spoilt_documents(source, TREE)
    bad.forget()
    work = source.choice(["info", "apply", "new"])
    with bounded():
        result = run(work, targets(("bad", bad), ("good", good)))
    assert of_good(result) == alone[work]
    assert_fit_for_documents(result)
    assert bad.total <= 100
