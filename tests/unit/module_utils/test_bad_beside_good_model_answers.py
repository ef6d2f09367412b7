# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever one model server answers, nodes of another one get their watts as if it were alone."""

from __future__ import annotations

import random
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from support.examples import each_seed
from support.https_server import HttpsServer
from support.odd_answers import assert_fit_for_documents, spoilt_documents
from support.odd_values import bounded
from support.predictions import predict_queries

Json = dict[str, t.Any]
PATH = "/v2/models/m/versions/v1/infer"
WATTS = [100.5 + 10.0 * step for step in range(21)]
TREE: Json = {
    PATH: {
        "model_name": "m",
        "outputs": [
            {
                "name": "predict",
                "shape": [21],
                "datatype": "FP64",
                "data": [100.5, [110.5], *WATTS[2:]],
            }
        ],
    }
}
GOOD = {"name": "good", "cpu": [8.0 * step / 20 for step in range(21)], "watts": WATTS}


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[HttpsServer, HttpsServer]]:
    with HttpsServer(TREE, certificate=None) as good, HttpsServer(certificate=None) as bad:
        yield good, bad


def query(name: str, server: HttpsServer) -> Json:
    return {
        "name": name,
        "endpoint": server.endpoint + PATH,
        "cpu_capacity": 8,
        "inlet_celsius": 22,
        "delta_p_pascal": 5,
    }


@each_seed(75)
def test_a_node_gets_its_watts_as_if_it_were_alone(
    servers: tuple[HttpsServer, HttpsServer], seed: int
) -> None:
    good, bad = servers
    bad.documents = spoilt_documents(random.Random(seed), TREE)
    bad.forget()
    queries = [query("bad", bad), query("good", good)]
    with bounded():
        result = predict_queries(queries, Context(), timeout=4.0)
    assert [item for item in result["predictions"] if item["name"] == "good"] == [GOOD]
    assert not [error for error in result["errors"] if error["name"] == "good"]
    assert_fit_for_documents(result)
    # All rows at once, then each alone, each with its retries.
    assert bad.total <= 20
