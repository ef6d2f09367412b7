# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The row about RMD: many workloads over many daemons."""

from __future__ import annotations

import shutil
import typing as t
from collections.abc import Mapping

from ansible_collections.wattwise.kube.plugins.module_utils.rmd.reconciliation import SPEC
from bench.kit.rows import Bench, Different, Json, Row, at_most, metric
from bench.kit.stage import Stage
from lab import faults, pki, process, rmd
from lab.machines import Machine, build_machines
from lab.rmd import certificates
from lab.state import LabSettings, LabState

NODES_PER_RACK = 50
NODES_OF_A_WORKLOAD = 5
CPUS_OF_A_WORKLOAD = 2
WRITING = ("POST", "PATCH", "DELETE")


def reconcile(stage: Stage) -> Row:
    nodes, workloads = stage.size(500, 20), stage.size(200, 8)
    state = LabState(stage.folder() / "lab")
    settings = LabSettings(nodes, max(1, nodes // NODES_PER_RACK), parts=("rmd",))
    daemons = started(stage, state, settings)
    wanted = {f"workload-{number}": place(number, daemons) for number in range(workloads)}
    options = options_of(state, daemons, settings)
    given = {"objects": objects(daemons, wanted), "options": options}
    first, second = [], []
    for _run in stage.runs(3):
        call(settings, "POST", "/restart", [{"node": node.name, "clean": True} for node in daemons])
        first.append(stage.call("bench.kit.rmd_visit:visit", given).seconds)
        require_equal(call(settings, "GET", "/daemons"), wanted)
        call(settings, "DELETE", "/requests")
        second.append(stage.call("bench.kit.rmd_visit:visit", given).seconds)
    written = [
        daemon["requests"].get(method, 0)
        for daemon in call(settings, "GET", "/daemons").values()
        for method in WRITING
    ]
    return Row(
        title=f"{workloads} RmdWorkloads over {nodes} RMD daemons",
        work=(
            f"One call of the library. Each RmdWorkload is for {NODES_OF_A_WORKLOAD} nodes. Half "
            "of the daemons speak TLS with client certificates, half plain HTTP; half are RMD "
            "v0.2, half v0.3."
        ),
        command="rmd.cluster.reconcile_objects(objects, options)",
        metrics=[
            metric("all workloads to be made", "s", first, at_most(5)),
            metric("nothing to do", "s", second, at_most(5)),
            metric("requests that write, nothing to do", "", [sum(written)], at_most(0, "worst")),
        ],
        equal="each daemon has the workloads that name its node, with their CPUs, and no other.",
        notes=["The simulated daemons run on the same processors and take a part of the time."],
    )


def started(stage: Stage, state: LabState, settings: LabSettings) -> list[Machine]:
    """The daemons of a lab without other services."""
    state.create()
    pki.create_authority(state.pki)
    shutil.copy(state.pki / "ca.pem", state.ca_certificate)
    settings.ports.update({name: process.free_port() for name in rmd.PORTS})
    state.write_settings(settings)
    process.start(rmd.services(state, settings), state)
    stage.resources.callback(process.stop, state)
    return build_machines(settings.nodes, settings.racks, settings.seed)


def place(number: int, machines: list[Machine]) -> Json:
    """The spec of a workload with CPUs that no other workload on its nodes has."""
    count = len(machines)
    chosen = [machines[(number + step * count // 5) % count] for step in range(NODES_OF_A_WORKLOAD)]
    first = 1 + CPUS_OF_A_WORKLOAD * (number * NODES_OF_A_WORKLOAD // count % 3)
    cores = [str(first + step) for step in range(CPUS_OF_A_WORKLOAD)]
    return {
        "coreIds": cores,
        "cache": {"max": 1, "min": 1},
        "nodes": [machine.name for machine in chosen],
    }


def objects(machines: list[Machine], wanted: Mapping[str, Json]) -> Json:
    return {
        "nodes": [{"metadata": {"name": item.name, "uid": item.name}} for item in machines],
        "rmd_workloads": [
            {"metadata": {"name": name, "namespace": "default", "generation": 1}, "spec": spec}
            for name, spec in wanted.items()
        ],
        **{name: [] for name in ("rmd_node_states", "rmd_configs", "rmd_pods")},
    }


def options_of(state: LabState, machines: list[Machine], settings: LabSettings) -> Json:
    folder = certificates.folder(state)
    client = {
        "ca_path": str(state.ca_certificate),
        "client_cert": str(folder / f"{certificates.ADMIN}.pem"),
        "client_key": str(folder / f"{certificates.ADMIN}-key.pem"),
        "min_success": 1.0,
    }
    endpoints = rmd.endpoints(machines, settings)
    return SPEC.complete({"endpoints": endpoints, "daemons": client, "run_dir": "unused"})


def require_equal(found: Mapping[str, Json], wanted: Mapping[str, Json]) -> None:
    """Raise Different if a daemon has other workloads."""
    for node, daemon in found.items():
        expected = {name: spec["coreIds"] for name, spec in wanted.items() if node in spec["nodes"]}
        if {item["uuid"]: item["core_ids"] for item in daemon["workloads"]} != expected:
            raise Different(f"{node} has {daemon['workloads']} instead of {expected}")


def call(settings: LabSettings, method: str, path: str, body: t.Any = None) -> t.Any:
    return faults.call(settings, method, path, body, port=faults.RMD_ADMIN)


BENCHES = [Bench("rmd", reconcile)]
