# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Advice about a fleet, the work of fleet_advice_info: from recorded demand to a page and its data."""

from __future__ import annotations

import math
import typing as t
from decimal import Decimal
from pathlib import Path

from ..base import documents, strict_json, whole_files
from ..base.argspec import ArgumentSpec
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput
from ..base.units import format_time
from ..power.sources import Source, source_of
from ..scheduling.curve import Curves
from ..scheduling.model import Node
from ..scheduling.node_reader import Loads, Occupancy, occupancies, read_node
from ..scheduling.pod_reader import owners_of
from ..sleep.machine import Machine, Switching
from ..sleep.protection import CONTROL_PLANE_LABELS
from ..sleep.replay import history
from ..sleep.replay.advice import Advice, Fleet, Options, advise, kwh_a_year
from ..sleep.replay.outcome import Outcome
from ..sleep.replay.trace import Trace, read_trace
from .advice_page import advice_page
from .numbers import counted, number
from .sources import Options as ReportOptions

_SWITCHING = Switching()
SPEC = ArgumentSpec(
    {
        "snapshot": {"type": "path", "required": True},
        "curves": {"type": "path", "required": True},
        "trace": {"type": "path"},
        "prometheus": {"type": "dict", "options": history.PROMETHEUS},
        "path": {"type": "path"},
        "page": {"type": "path"},
        "title": {"type": "str", "default": ""},
        "type_label": {"type": "str", "default": ReportOptions().type_label},
        "spare": {"type": "float", "default": 0.1},
        "pod_usage_assumption": {"type": "float", "default": 0.8},
        "boot_seconds": {"type": "float", "default": _SWITCHING.boot_seconds},
        "standby_watts": {"type": "float", "default": _SWITCHING.standby_watts},
    },
    mutually_exclusive=(("trace", "prometheus"),),
    required_one_of=(("trace", "prometheus"),),
)
_CLOSING = frozenset({"NoSchedule", "NoExecute"})
# Kinds of owners whose pods come with their machine.
_OF_NODES = frozenset({"DaemonSet", "Node"})
# Assumed use during a boot, as a share of the cores.
_LOAD_OF_A_BOOT = 0.3
_POINTS = 600
_OUTCOMES = ("today", "awake", "asleep", "remaining", "remaining_asleep")
_RANGES = {
    "spare": (0.0, 10.0),
    "pod_usage_assumption": (0.01, 10.0),
    "boot_seconds": (0.0, 7200.0),
    "standby_watts": (0.0, 1000.0),
}


def write(parameters: Parameters, context: Context = Context()) -> Result:
    """The advice, written where the options say. Raises InvalidInput."""
    options = SPEC.complete(parameters)
    for name, (least, most) in _RANGES.items():
        value = options[name]
        if not (math.isfinite(value) and least <= value <= most):
            raise InvalidInput(f"{name}: {value} is not from {least:g} to {most:g}")
    fleet, notes = _fleet(options)
    trace, more = _trace(options, context, fleet)
    chosen = Options(options["spare"], options["pod_usage_assumption"])
    found = advise(fleet, trace, chosen)
    document = _document(found, fleet, options, context, [*notes, *more])
    documents.check(document, "advice", "the advice")
    for name, content in (
        ("path", f"{strict_json.format_compact(document, sort_keys=True)}\n"),
        ("page", advice_page(document)),
    ):
        if options[name]:
            whole_files.write(Path(options[name]).expanduser(), content.encode())
    return {"changed": False, "advice": document, "lines": _lines(document)}


def _trace(options: Parameters, context: Context, fleet: Fleet) -> tuple[Trace, list[str]]:
    if options["prometheus"]:
        names = frozenset(node.name for node in fleet.nodes)
        return history.request_history(options["prometheus"], context, names)
    path = Path(options["trace"]).expanduser()
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            return read_trace(lines, f"trace {path}"), []
    except OSError as error:
        raise InvalidInput(f"Cannot read the trace {path}: {error.strerror}") from error


def _nodes(source: Source, options: Parameters) -> t.Iterator[Node]:
    """Each node with the pods that come with it."""
    own = [
        pod
        for pod in source.running
        if any(owner.get("kind") in _OF_NODES for owner in owners_of(pod))
    ]
    occupied = occupancies(own)
    loads = Loads("requests", Decimal(str(options["pod_usage_assumption"])), {})
    for name, node in sorted(source.nodes.items()):
        occupancy = occupied.get(name) or Occupancy()
        yield read_node(node.given, occupancy, loads, source.curves.get(name))


def _fleet(options: Parameters) -> tuple[Fleet, list[str]]:
    """The machines that general pods may use, and notes about the others. Raises InvalidInput."""
    snapshot = documents.load(options["snapshot"], "snapshot")
    curves = Curves.from_document(documents.load(options["curves"], "curves")["curves"])
    running = [pod for pod in snapshot.get("pods", []) if _has_node(pod)]
    source = source_of({"nodes": snapshot["nodes"], "running": running}, curves, [])
    nodes, machines, types = [], [], {}
    left_out: dict[str, list[str]] = {}
    for node in _nodes(source, options):
        why = _reason_to_leave_out(node)
        if why:
            left_out.setdefault(why, []).append(node.name)
            continue
        nodes.append(node)
        machines.append(_machine(node, options))
        types[node.name] = node.labels.get(options["type_label"]) or "of unknown type"
    notes = [f"{counted(len(names), 'node')} left out: {why}." for why, names in left_out.items()]
    if not nodes:
        raise InvalidInput(f"No node can be replayed: {' '.join(notes) or 'there is none'}")
    return Fleet(tuple(nodes), tuple(machines), types), notes


def _has_node(pod: t.Any) -> bool:
    spec = pod.get("spec") if isinstance(pod, dict) else None
    return isinstance(spec, dict) and bool(spec.get("nodeName"))


def _reason_to_leave_out(node: Node) -> str:
    if node.curve is None:
        return "no power curve"
    if not node.ready:
        return "not ready"
    if node.unschedulable:
        return "cordoned"
    if any(taint.effect in _CLOSING for taint in node.taints):
        return "closed to general pods by taints"
    return ""


def _machine(node: Node, options: Parameters) -> Machine:
    if node.curve is None:
        raise AssertionError
    curve = node.curve
    standby = options["standby_watts"]
    switching = Switching(
        boot_seconds=options["boot_seconds"],
        boot_watts=max(standby, curve.watts_at(_LOAD_OF_A_BOOT * curve.cores[-1])),
        shutdown_watts=max(standby, curve.watts[0]),
        standby_watts=standby,
    )
    is_control_plane = any(label in node.labels for label in CONTROL_PLANE_LABELS)
    protection = "It is part of the control plane." if is_control_plane else ""
    return Machine(node.name, switching, protection=protection)


def _document(
    found: Advice, fleet: Fleet, options: Parameters, context: Context, notes: list[str]
) -> Result:
    scenario, outcomes = found.scenario, {name: getattr(found, name) for name in _OUTCOMES}
    seconds = found.today.seconds
    oversized = scenario.oversized
    if oversized:
        notes = [*notes, f"{counted(oversized, 'pod')} fit on no machine and never ran."]
    return {
        "document": documents.document_name("advice"),
        "time": format_time(context.now()),
        "title": options["title"],
        "demand": {
            "source": "prometheus" if options["prometheus"] else "trace",
            "pods": len(scenario.trace.pods),
            "seconds": seconds,
            "peak_cores": max(found.awake.timeline.cores, default=0.0),
        },
        "kwh_a_year": {
            name: round(kwh_a_year(one.total_joules, one.seconds), 1)
            for name, one in outcomes.items()
        },
        "timeline": _timeline(found.asleep),
        "machines": _machines(found, fleet),
        "retirement": [
            {
                "name": each.name,
                "type": fleet.types[each.name],
                "kwh_a_year": round(each.kwh_a_year, 1),
            }
            for each in found.retired
        ],
        "one_more": [
            {**each._asdict(), "kwh_a_year": round(each.kwh_a_year, 1)} for each in found.one_more
        ],
        "notes": notes,
    }


def _timeline(outcome: Outcome) -> Result:
    line = outcome.timeline
    step = max(1, math.ceil(len(line.times) / _POINTS))
    return {
        "hours": [round((time - line.times[0]) / 3600, 3) for time in line.times[::step]],
        "awake": line.awake[::step],
        "cores": [round(cores, 3) for cores in line.cores[::step]],
    }


def _machines(found: Advice, fleet: Fleet) -> list[Result]:
    """Each machine with its part of the work while others sleep."""
    asleep, retired = found.asleep, {each.name for each in found.retired}
    seconds = max(asleep.seconds, 1e-9)
    return [
        {
            "name": node.name,
            "type": fleet.types[node.name],
            "cores": node.free.get("cpu", 0) / 1000,
            "mean_cores": round(float(asleep.core_seconds[index]) / seconds, 3),
            "awake_share": round(min(1.0, float(asleep.awake_seconds[index]) / seconds), 4),
            "kwh_a_year": round(kwh_a_year(float(asleep.joules[index]), seconds), 1),
            "retire": node.name in retired,
            "protection": fleet.machines[index].protection,
        }
        for index, node in enumerate(fleet.nodes)
    ]


def _lines(document: Result) -> list[str]:
    energy, retired = document["kwh_a_year"], document["retirement"]
    saved = sum(entry["kwh_a_year"] for entry in retired)
    machines = counted(len(document["machines"]), "machine")
    return [
        f"{len(retired)} of {machines} could be retired, which saves {number(saved)} kWh a year",
        f"sleep of all machines would save {number(energy['awake'] - energy['asleep'])} kWh a year",
    ]
