# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about reading a cluster, and about the documents made from it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.kit.hall import Hall, MainJob, main_job
from bench.kit.plays import play
from bench.kit.rows import Bench, Different, Json, Peer, Row, at_least, at_most, metric, ratio
from bench.kit.stage import MIB, Stage, Usage

WAO = "wao.bitmedia.co.jp/v1beta1"
LISTS = (
    ("nodes", "v1", "Node"),
    ("pods", "v1", "Pod"),
    ("node_configs", WAO, "NodeConfig"),
    ("node_config_templates", WAO, "NodeConfigTemplate"),
)
RENDER = "nodeconfig_templates:render"


def read_the_cluster(stage: Stage) -> Row:
    job = main_job(stage)
    room, nodes = job.hall, len(job.hall.machines)
    path = stage.folder() / "snapshot.json"
    ours = [stage.playbook(snapshot(room, path)).seconds for _run in stage.runs(3)]
    stage.say("  k8s_info")
    theirs = [stage.playbook(k8s_info(room)).seconds]
    peak = _compare(stage, room, path)
    return Row(
        title=f"Reading a cluster of {nodes:,} nodes and {job.pods:,} pods",
        work="Nodes, pods, NodeConfigs and their templates, in one document.",
        command="wattwise.kube.fleet_snapshot_info: {include: […], path: snapshot.json}",
        peers=[
            Peer("k8s_info", "four tasks kubernetes.core.k8s_info: {api_version, kind}, registered")
        ],
        metrics=[
            metric("ours", "s", ours),
            metric("k8s_info", "s", theirs),
            ratio("times faster", theirs, ours, at_least(2)),
            metric("k8s_info for the pods, memory", "MiB", [peak / MIB]),
            metric("the document", "MiB", [path.stat().st_size / MIB]),
        ],
        equal="the names in all four lists.",
        notes=[
            "Our memory is in the row of the memory of all modules.",
            "The peer's lists end in variables, ours in a file that the next step reads.",
        ],
    )


def snapshot(room: Hall, path: Path) -> list[Json]:
    include = [name for name, _version, _kind in LISTS]
    options = {"kubeconfig": room.kubeconfig, "path": str(path), "include": include}
    return play({"wattwise.kube.fleet_snapshot_info": options})


def k8s_info(room: Hall) -> list[Json]:
    [first] = play({})
    first["tasks"] = [
        {
            "name": f"Read {name}",
            "kubernetes.core.k8s_info": {
                "kubeconfig": room.kubeconfig,
                "api_version": version,
                "kind": kind,
            },
            "register": name,
        }
        for name, version, kind in LISTS
    ]
    return [first]


def _compare(stage: Stage, room: Hall, path: Path) -> int:
    """Compare our lists with those of the peer's module; return its memory for the pods."""
    document = json.loads(path.read_text(encoding="utf-8"))
    peaks = {}
    for name, version, kind in LISTS:
        options = {"kubeconfig": room.kubeconfig, "api_version": version, "kind": kind}
        done = _module(stage, "kubernetes.core.plugins.modules.k8s_info", options)
        peaks[name] = done.peak_bytes
        theirs = json.loads(done.output[done.output.index("{") :])["resources"]
        if _names(theirs) != _names(document[name]):
            raise Different(f"k8s_info has other {name}")
    return peaks["pods"]


def _module(stage: Stage, module: str, options: Json) -> Usage:
    """Run a module without Ansible around it."""
    arguments = stage.folder() / "arguments.json"
    arguments.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": options}), encoding="utf-8")
    command = [sys.executable, "-m", f"ansible_collections.{module}", str(arguments)]
    return stage.command(command, arguments.parent)


def _names(items: list[Json]) -> set[tuple[str, str]]:
    return {(item["metadata"].get("namespace", ""), item["metadata"]["name"]) for item in items}


def render_a_thousand(stage: Stage) -> Row:
    job = main_job(stage)
    nodes = len(job.hall.machines)
    parameters = {"snapshot": str(job.document("templates"))}
    calls = [stage.call(RENDER, parameters, ("fastjsonschema",)) for _run in stage.runs(5)]
    _compare_endpoints(job, calls[0].result)
    return Row(
        title=f"Rendering {nodes:,} NodeConfigs",
        work="All NodeConfigs of the cluster from the templates of its racks.",
        command="node_config_template.render(snapshot)",
        metrics=[
            metric("time", "s", [call.seconds for call in calls], at_most(1)),
            metric("memory, highest", "MiB", [call.peak_bytes / MIB for call in calls]),
        ],
        equal="each endpoint is the address at which the machine's BMC listens.",
        notes=["Reading the document with nodes, templates and NodeConfigs is part of the time."],
    )


def _compare_endpoints(job: MainJob, result: Json) -> None:
    port = job.hall.settings.ports["bmc"]
    wanted = {item.name: f"https://{item.bmc_address}:{port}" for item in job.hall.machines}
    found = {
        item["spec"]["nodeName"]: item["spec"]["metricsCollector"]["inletTemp"]["endpoint"]
        for item in result["node_configs"]
    }
    if found != wanted:
        raise Different("an endpoint is not that of its machine")


BENCHES = [Bench("snapshot", read_the_cluster), Bench("render", render_a_thousand)]
