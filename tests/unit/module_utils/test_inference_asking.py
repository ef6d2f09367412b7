# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Number of requests to an inference server, and the handling of each of its misbehaviours."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import TargetError
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import (
    Credential,
    FleetOptions,
    Pace,
)
from ansible_collections.wattwise.kube.plugins.module_utils.inference import asking, wire
from support.inference_server import InferenceServer, Model, linear_watts

OPTIONS = FleetOptions(timeout=5.0, per_host=8)
EXPECTED = [linear_watts(cpu, 22, 8) for cpu in range(50)]


async def no_pause(_seconds: float) -> None:
    await asyncio.sleep(0)


def row(cpu: float) -> str:
    return f"[{cpu},22,8]"


def inquiry(
    url: str, points: int = 50, limit: int = 1000, credential: Credential | None = None
) -> asking.Inquiry:
    rows = dict.fromkeys(map(row, range(points)))
    model = asking.Model(url, credential, allow_plain_http=True)
    return asking.Inquiry(model, limit, rows)


def ask(*inquiries: asking.Inquiry, options: FleetOptions = OPTIONS) -> None:
    asking.ask(inquiries, options, pace=Pace(sleep=no_pause))


def reasons(asked: asking.Inquiry) -> set[str]:
    """The reasons of the errors; every row must have one."""
    assert asked.outcomes.keys() == asked.rows.keys()
    assert all(isinstance(outcome, TargetError) for outcome in asked.outcomes.values())
    return {outcome.reason for outcome in asked.outcomes.values()}


def values(asked: asking.Inquiry) -> list[float]:
    return [asked.outcomes[row] for row in asked.rows]


@pytest.fixture
def server() -> Iterator[InferenceServer]:
    with InferenceServer({"m": Model()}) as running:
        yield running


@pytest.mark.parametrize("nested", [False, True])
def test_all_rows_go_in_one_request(server: InferenceServer, nested: bool) -> None:
    server.models["m"] = Model(nested=nested)
    asked = inquiry(server.endpoint("m"))
    ask(asked)
    assert values(asked) == EXPECTED
    assert len(server.requests) == asked.requests == 1
    assert server.requests[0].headers["content-type"] == "application/json"
    assert server.requests[0].body == wire.request_body(list(asked.rows))


def test_rows_are_cut_at_the_limit(server: InferenceServer) -> None:
    asked = inquiry(server.endpoint("m"), limit=20)
    ask(asked)
    assert values(asked) == EXPECTED
    assert sorted(len(request.rows) for request in server.requests) == [10, 20, 20]


@pytest.mark.parametrize(
    "model",
    [
        Model(batch_status=400),
        Model(batch_status=413),
        Model(batch_status=422),
        Model(batch_status=500),
        Model(batch_outputs=1),
        Model(batch_outputs=0),
    ],
)
def test_rows_go_one_by_one_to_a_server_that_refuses_batches(
    server: InferenceServer, model: Model
) -> None:
    server.models["m"] = model
    asked = inquiry(server.endpoint("m"))
    ask(asked)
    assert values(asked) == EXPECTED
    sizes = [len(request.rows) for request in server.requests]
    assert len([size for size in sizes if size > 1]) <= 1 + 8  # 50 rows, then at most 8 of 5 each
    assert sizes.count(1) == 50


def test_batches_shrink_to_what_the_server_takes(server: InferenceServer) -> None:
    server.models["m"] = Model(most_rows=6)
    asked = inquiry(server.endpoint("m"))
    ask(asked)
    assert values(asked) == EXPECTED
    assert [len(request.rows) for request in server.requests][:2] == [50, 1]
    assert asked.limit == 5
    assert len(server.requests) == 2 + 10


def test_one_bad_model_does_not_hurt_others(server: InferenceServer) -> None:
    server.models.update(bad=Model(status=500, batch_status=500), odd=Model(raw=b"{}"))
    good, bad, odd = (inquiry(server.endpoint(name)) for name in ("m", "bad", "odd"))
    ask(bad, good, odd)
    assert values(good) == EXPECTED
    assert reasons(bad) == {"server_error"}
    assert reasons(odd) == {"malformed"}


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Model(raw=b"not JSON"), "malformed"),
        (Model(raw=b'{"outputs":[]}'), "malformed"),
        (Model(raw=b'{"outputs":[{"data":[1.0,2.0,3.0]}]}'), "malformed"),
        (Model(status=500, batch_status=500), "server_error"),
        (Model(status=503, batch_status=503), "server_error"),
        (Model(status=403, batch_status=403), "forbidden"),
    ],
)
def test_reason_of_a_model_out_of_order(server: InferenceServer, model: Model, reason: str) -> None:
    server.models["m"] = model
    asked = inquiry(server.endpoint("m"))
    ask(asked)
    assert reasons(asked) == {reason}
    assert len(server.requests) <= 1 + 3  # the batch, then one row with two more attempts


def test_unknown_model_is_asked_once(server: InferenceServer) -> None:
    asked = inquiry(server.endpoint("nowhere"))
    ask(asked)
    assert reasons(asked) == {"not_found"}
    assert len(server.requests) == 1


def test_server_that_is_down() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        first, second = (
            inquiry(f"http://127.0.0.1:{port}/v2/models/{name}/infer") for name in ("a", "b")
        )
        ask(first, second, options=FleetOptions(timeout=5.0, per_host=1))
    assert reasons(first) == reasons(second) == {"unreachable"}
    assert first.requests == 1
    assert second.requests == 0


def test_slow_model_times_out_alone(server: InferenceServer) -> None:
    server.models["slow"] = Model(delay_seconds=30)
    good, slow = inquiry(server.endpoint("m")), inquiry(server.endpoint("slow"))
    ask(slow, good, options=FleetOptions(timeout=1.0, per_host=8))
    assert values(good) == EXPECTED
    assert reasons(slow) == {"timeout"}


def test_login(server: InferenceServer) -> None:
    server.models["m"] = Model(login=("reader", "t0p-Secret"))
    right = inquiry(server.endpoint("m"), credential=Credential("reader", "t0p-Secret"))
    wrong = inquiry(server.endpoint("m"), credential=Credential("reader", "0ther-Secret"))
    without = inquiry(server.endpoint("m"))
    ask(right, wrong, without)
    assert values(right) == EXPECTED
    assert reasons(wrong) == reasons(without) == {"unauthorized"}
    assert "Secret" not in str(wrong.outcomes)


def test_a_row_that_fails_alone_costs_only_itself(server: InferenceServer) -> None:
    server.models["m"] = Model(fails=lambda cpu, _inlet, _delta_p: cpu == 33)
    asked = inquiry(server.endpoint("m"))
    ask(asked)
    failed = {row for row, value in asked.outcomes.items() if isinstance(value, TargetError)}
    assert failed == {row(33)}


def test_a_model_that_fails_row_after_row_is_given_up(server: InferenceServer) -> None:
    server.models["m"] = Model(fails=lambda cpu, _inlet, _delta_p: cpu > 0)
    asked = inquiry(server.endpoint("m"), limit=1)
    ask(asked, options=FleetOptions(timeout=5.0, per_host=1, retries=0))
    assert asked.outcomes[row(0)] == EXPECTED[0]
    assert len(server.requests) == 1 + 21


def test_bad_values_come_back_for_the_caller_to_judge(server: InferenceServer) -> None:
    server.models["m"] = Model(watts=lambda cpu, _inlet, _delta_p: None if cpu else float("inf"))
    asked = inquiry(server.endpoint("m"), points=2)
    ask(asked)
    assert json.dumps(values(asked)) == "[null, null]"
