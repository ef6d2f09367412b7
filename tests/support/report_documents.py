# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run folder of any size, as the steps of the main job write it; equal calls give equal files."""

from __future__ import annotations

import random
import typing as t
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from support.report_limits import limits_document
from support.report_shares import device_objects, rmd_document
from support.report_sleep import sleep_document

Json = dict[str, t.Any]

PLANNED = "2026-01-31T12:00:00Z"
BOUND = "2026-01-31T12:00:10Z"
READ_AGAIN = "2026-01-31T12:05:00Z"
# Idle watts, watts of the first core, growth of a core's watts up to full load; cores.
TYPES = {
    "altra-max-128c": (85.0, 0.8, 1.4, 128),
    "epyc-9754-128c": (90.0, 1.9, 1.3, 128),
    "xeon-8480-112c": (210.0, 2.1, 4.0, 112),
    "epyc-7351-32c": (110.0, 9.0, 0.3, 32),
}


@dataclass(frozen=True)
class Case:
    """Properties of the folder.

    Nodes of the first types get all pods. ``lacking`` nodes have no reading and no curve.
    ``suffix`` is part of their names and of the pods'. The first ``daemons`` nodes have cache ways,
    the first ``devices`` nodes devices, and pods of the first ``metered`` nodes have watts of their
    own. The plan proposes moves in ``steps`` steps. The first ``sleeping`` nodes are asleep.
    A fleet that is ``limited`` has limits, and more than two nodes.
    """

    nodes: int = 20
    racks: int = 4
    pods: int = 60
    waiting: int = 0
    lacking: int = 0
    bound: bool = True
    read_again: bool = True
    baseline: bool = True
    comparison: bool = True
    daemons: int = 0
    devices: int = 0
    metered: int = 0
    steps: int | None = None
    sleeping: int = 0
    limited: bool = False
    suffix: str = ""


STANDARD = Case()


def write(folder: Path, case: Case = STANDARD) -> Path:
    """Write the documents of the case; return the folder."""
    (folder / "bound").mkdir(parents=True, exist_ok=True)
    chance = random.Random(1)
    nodes = [_node(number, case) for number in range(case.nodes)]
    known = nodes[: case.nodes - case.lacking]
    added = _added_cores(known, case)
    before = {_name(node): _watts(node, 0.0) for node in known}
    after = {_name(node): _watts(node, added.get(_name(node), 0.0)) for node in known}
    curves = {_name(node): _curve(node) for node in known}
    readings = _readings(nodes, before, PLANNED, chance)
    plan = _plan(known, before, after, added, case)
    place = folder / "bound" if case.bound else folder
    _write(place, "snapshot", {"cluster": {}, "nodes": nodes, "pods": []}, PLANNED)
    _write(place, "readings", readings, PLANNED)
    _write(place, "curves", {"curves": curves, "errors": []}, PLANNED)
    _write(place, "plan", plan, PLANNED)
    if case.bound:
        placements = [_plain(entry) for entry in plan["placements"]]
        body = {"bound": placements, "skipped": [], "errors": [], "plan_time": PLANNED}
        _write(place, "bindings", body, BOUND)
        _write_last_run(folder, case, nodes, plan, curves, after if case.read_again else before)
    if case.baseline:
        spread = {name: watts * 1.25 for name, watts in before.items()}
        _write(folder, "readings", _readings(nodes, spread, PLANNED, chance), PLANNED, "baseline")
    if case.daemons:
        names = [_name(node) for node in nodes[: case.daemons]]
        _write(folder, "rmd", rmd_document(names, case.suffix), READ_AGAIN)
    if case.devices:
        names = [_name(node) for node in nodes[: case.devices]]
        objects = device_objects(names, case.suffix)
        parts = {"cluster": {}, "nodes": nodes, "device_objects": objects}
        _write(folder, "snapshot", parts, READ_AGAIN, "devices")
    if case.metered:
        names = [_name(node) for node in nodes[: case.metered]]
        _write(folder, "metering", metering_document(names, case.suffix), READ_AGAIN)
    if case.sleeping:
        names = [_name(node) for node in nodes]
        body = sleep_document(names, case.sleeping, case.suffix)
        _write(folder, "sleep", body, READ_AGAIN)
    if case.limited:
        racks = [f"r{number + 1}{case.suffix}" for number in range(case.racks)]
        body = limits_document(racks, [_name(node) for node in nodes], case.suffix)
        _write(folder, "limits", body, READ_AGAIN)
    return folder


def metering_document(nodes: t.Sequence[str], suffix: str = "") -> Json:
    """Three pods on each node, of two namespaces, with 10, 5 and 1 W and a tenth of it in memory.

    The BMC of every other node reads 40 W more than package and memory.
    """
    kinds = [("shop", "web", 10.0), ("shop", "cart", 5.0), ("db", "pg", 1.0)]
    pods = [
        {
            "namespace": namespace + suffix,
            "pod": f"{workload}-{number}{suffix}",
            "uid": f"{workload}-{number}",
            "node": node,
            "workload_kind": "Deployment",
            "workload": workload + suffix,
            "package_watts": watts * 0.9,
            "dram_watts": watts * 0.1,
        }
        for number, node in enumerate(nodes)
        for namespace, workload, watts in kinds
    ]
    of_nodes = {
        node: {
            "package_watts": 50.0,
            "dram_watts": 8.0,
            "rapl_watts": 58.0,
            "measured_watts": None if number % 2 else 98.0,
            "difference_watts": None if number % 2 else 40.0,
        }
        for number, node in enumerate(nodes)
    }
    lost = {"name": "n9", "endpoint": "http://n9:28282", "reason": "timeout", "detail": "late"}
    return {"source": "kepler", "pods": pods, "nodes": of_nodes, "left_out": 0, "errors": [lost]}


def _write_last_run(
    folder: Path, case: Case, nodes: list[Json], plan: Json, curves: Json, watts: dict[str, float]
) -> None:
    """Documents of a run after the binding, or of the same run if not read again."""
    moment = READ_AGAIN if case.read_again else PLANNED
    pods = [_running(entry) for entry in plan["placements"]] if case.read_again else []
    _write(folder, "snapshot", {"cluster": {}, "nodes": nodes, "pods": pods}, moment)
    _write(folder, "readings", _readings(nodes, watts, moment, random.Random(2)), moment)
    _write(folder, "curves", {"curves": curves, "errors": []}, moment)
    last = {**plan, "placements": []} if case.read_again else plan
    _write(folder, "plan", last, moment)


def _write(folder: Path, kind: str, body: Json, time: str, name: str = "") -> None:
    path = folder / f"{name or kind}.json"
    documents.write(str(path), t.cast("documents.DocumentKind", kind), {**body, "time": time})


def _name(node: Json) -> str:
    return str(node["metadata"]["name"])


def _node(number: int, case: Case) -> Json:
    rack, index = number % case.racks, number // case.racks
    server_type = list(TYPES)[number % 7 % len(TYPES)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"r{rack + 1}-n{index + 1:02d}{case.suffix}",
            "labels": {
                "node.kubernetes.io/instance-type": server_type + case.suffix,
                "topology.kubernetes.io/zone": f"r{rack + 1}{case.suffix}",
                "wattwise.github.io/rack-unit": str(2 * index + 1),
            },
        },
        "status": {"allocatable": {"cpu": str(TYPES[server_type][3])}},
    }


def _watts(node: Json, cores: float) -> float:
    label = node["metadata"]["labels"]["node.kubernetes.io/instance-type"]
    idle, first, growth, most = next(
        values for name, values in TYPES.items() if label.startswith(name)
    )
    return idle + first * cores * (1 + (growth - 1) * cores / most / 2)


def _curve(node: Json) -> Json:
    most = int(node["status"]["allocatable"]["cpu"])
    cpu = [round(most * step / 20, 3) for step in range(21)]
    return {"cpu": cpu, "watts": [round(_watts(node, cores), 2) for cores in cpu]}


def _added_cores(known: list[Json], case: Case) -> dict[str, float]:
    """Pods with one core each, on nodes of the cheapest types up to 80 % of each."""
    added: dict[str, float] = {}
    order = sorted(known, key=lambda node: _watts(node, 1.0) - _watts(node, 0.0))
    left = case.pods
    for node in order:
        taken = min(left, int(0.8 * int(node["status"]["allocatable"]["cpu"])))
        added[_name(node)] = float(taken)
        left -= taken
    assert left == 0, "the case has more pods than its nodes take"
    return added


def _readings(nodes: list[Json], watts: dict[str, float], time: str, chance: random.Random) -> Json:
    readings: Json = {}
    errors: list[Json] = []
    for node in nodes:
        name = _name(node)
        if name not in watts:
            empty = dict.fromkeys(("inlet_celsius", "delta_p_pascal", "power_watts"))
            readings[name] = {**empty, "time": time, "times": {}, "source": {}, "stale": False}
            detail = f"Cannot connect to the BMC of {name}"
            error = {"name": name, "endpoint": "https://127.0.0.1:1", "reason": "unreachable"}
            errors.append({**error, "detail": detail})
            continue
        values = {
            "inlet_celsius": round(17 + chance.random() * 12, 1),
            "delta_p_pascal": round(8 + chance.random() * 6, 1),
            "power_watts": round(watts[name] * (1 + chance.gauss(0, 0.02)), 1),
        }
        readings[name] = {
            **values,
            "time": time,
            "times": dict.fromkeys(values, time),
            "source": dict.fromkeys(values, "read"),
            "stale": False,
        }
    return {"readings": readings, "errors": errors}


def _plan(
    known: list[Json],
    before: dict[str, float],
    after: dict[str, float],
    added: dict[str, float],
    case: Case,
) -> Json:
    names = [name for name, cores in added.items() for _pod in range(int(cores))]
    placements = [
        {"namespace": "shop", "pod": f"web-{number}-7d9f8b6c5d-x2k4p{case.suffix}", "node": node}
        for number, node in enumerate(names)
    ]
    low, high = sum(before.values()), sum(after.values())
    strategies = {"greedy": 1.06, "minimize_power": 1.3, "spread": 1.8}
    compared = [
        {
            "strategy": name,
            "watts_after": round(low + (high - low) * factor, 3),
            "watts_added": round((high - low) * factor, 3),
            "placed": case.pods,
            "unplaced": case.waiting,
        }
        for name, factor in strategies.items()
    ]
    message = f"0/{case.nodes} nodes are available: {case.nodes} Insufficient cpu.{case.suffix}"
    return {
        "placements": placements,
        "watts": {"before": low, "after": high, "lower_bound": low + 0.99 * (high - low)},
        "unplaced": [
            {"namespace": "shop", "pod": f"large-{number}{case.suffix}", "message": message}
            for number in range(case.waiting)
        ],
        "nodes": [
            {
                "name": _name(node),
                "cpu_before": 0.0,
                "cpu_after": added.get(_name(node), 0.0),
                "watts_before": round(before[_name(node)], 3),
                "watts_after": round(after[_name(node)], 3),
            }
            for node in known
        ],
        **({"comparison": compared} if case.comparison else {}),
        **(
            {} if case.steps is None else {"steps": [_step(one, case) for one in range(case.steps)]}
        ),
    }


def _step(number: int, case: Case) -> Json:
    """One move in the first step, two in the second and so on; the third empties a node."""
    moves = [
        {
            "namespace": "shop",
            "pod": f"cart-{number}-{one}{case.suffix}",
            "uid": f"{number}-{one}",
            "from_node": f"r1-n{number}{case.suffix}",
            "to_node": f"r2-n{one}{case.suffix}",
            "gain_watts": 60.0 if one == number else -5.0,
        }
        for one in range(number + 1)
    ]
    return {
        "gain_watts": 60.0 - 5.0 * number,
        "cost_if_stopped_watts": 5.0 * number,
        "asleep": [f"r1-n{number}{case.suffix}"] if number > 1 else [],
        "moves": moves,
    }


def _plain(placement: Json) -> Json:
    return {key: placement[key] for key in ("namespace", "pod", "node")}


def _running(placement: Json) -> Json:
    return {
        "metadata": {"namespace": placement["namespace"], "name": placement["pod"]},
        "spec": {"nodeName": placement["node"]},
    }
