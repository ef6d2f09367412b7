# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about requests to power models."""

from __future__ import annotations

import http.client
import json
import random
from contextlib import closing
from pathlib import Path

from bench.kit.forwarder import forwarding
from bench.kit.hall import MainJob, main_job
from bench.kit.rows import Bench, Different, Json, Peer, Row, at_most, exactly, metric
from bench.kit.stage import MIB, Call, Stage

PREDICT = "inference.prediction:predict_power"
POINTS = 21
SAMPLED_NODES = 10


def predict_a_thousand_nodes(stage: Stage) -> Row:
    job = main_job(stage)
    nodes = len(job.hall.machines)
    beyond, server, requests, calls = [], [], [], []
    for _run in stage.runs(5):
        with forwarding(job.hall.settings.ports["predictor"]) as (port, traffic):
            call = _predict(stage, job, port)
        calls.append(call)
        server.append(traffic.busy_seconds)
        beyond.append(call.seconds - traffic.busy_seconds)
        requests.append(traffic.requests)
    models = {machine.server_type for machine in job.hall.machines}
    _compare(job, calls[0].result)
    return Row(
        title=f"Predicting {nodes:,} nodes at {POINTS} points each",
        work=f"The curves of all nodes from {len(models)} models of a real inference server.",
        command="inference.predict_power(snapshot, readings, models)",
        peers=[Peer("the server's own time", "the same requests, timed between us and the server")],
        metrics=[
            metric("beyond the server's own time", "s", beyond, at_most(1)),
            metric("the server's own time", "s", server),
            metric("requests", "", requests, exactly(len(models))),
            metric("memory, highest", "MiB", [call.peak_bytes / MIB for call in calls]),
            metric("processor time", "s", [call.cpu_seconds for call in calls]),
        ],
        equal=f"{SAMPLED_NODES} nodes, each point asked alone.",
        notes=[
            "The models of one server are asked at the same time; its own time is that in which "
            "at least one request is with it.",
            "Equal points are asked once.",
        ],
    )


def _predict(stage: Stage, job: MainJob, port: int) -> Call:
    """Predict through a port other than the inference server's."""
    folder = stage.folder()
    asked, instead = f":{job.hall.settings.ports['predictor']}/", f":{port}/"
    files: dict[str, str] = {}
    for kind in ("snapshot", "readings", "models"):
        path = folder / f"{kind}.json"
        text = job.document(kind).read_text(encoding="utf-8")
        path.write_text(text.replace(asked, instead), encoding="utf-8")
        files[kind] = str(path)
    parameters = {**files, "kubeconfig": job.hall.kubeconfig, "min_success": 1.0}
    parameters["path"] = str(folder / "curves.json")
    call = stage.call(PREDICT, parameters, ("aiohttp", "fastjsonschema"))
    if call.result["errors"]:
        raise Different(f"{call.result['errors'][0]}")
    return call


def _compare(job: MainJob, result: Json) -> None:
    readings = _document(job.document("readings"))["readings"]
    machines = {machine.name: machine for machine in job.hall.machines}
    curves = {item["name"]: item for item in result["predictions"]}
    if curves.keys() != machines.keys():
        raise Different("a node has no curve")
    port = job.hall.settings.ports["predictor"]
    for name in random.Random(1).sample(sorted(machines), min(SAMPLED_NODES, len(machines))):
        reading, curve = readings[name], curves[name]
        for cpu, watts in zip(curve["cpu"], curve["watts"], strict=True):
            percent = 100 * cpu / machines[name].cores
            point = [percent, reading["inlet_celsius"], reading["delta_p_pascal"]]
            alone = _ask(port, machines[name].server_type, point)
            if abs(alone - watts) > 1e-3 * watts:
                raise Different(f"{name} at {cpu} cores: {watts} W, asked alone {alone} W")


def _ask(port: int, model: str, point: list[float]) -> float:
    tensor = {"name": "one", "shape": [1, 3], "datatype": "FP32", "data": [point]}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        body = json.dumps({"inputs": [tensor]})
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"/v2/models/{model}/infer", body, headers)
        return float(json.load(connection.getresponse())["outputs"][0]["data"][0])


def _document(path: Path) -> Json:
    document: Json = json.loads(path.read_text(encoding="utf-8"))
    return document


BENCHES = [Bench("predict", predict_a_thousand_nodes)]
