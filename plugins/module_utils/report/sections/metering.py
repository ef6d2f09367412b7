# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power and energy of namespaces and workloads that Kepler metered, and power draw of nodes.

This is the power of package and memory that pods cause. They enter no other part of the report,
whose power is that of whole machines.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ...base.errors import InvalidInput
from ...base.units import parse_time
from ..fleet import Fleet, natural
from ..markup import Child, Markup
from ..numbers import counted, moment, money, number, quantity, watts
from ..section import Column, Data, Detail, Section, drawn_bar, lead, note, of
from ..sources import Document

DAYS = 30
_KWH_OF_A_WATT = DAYS * 24 / 1000
_JOULES_OF_A_KWH = 3.6e6
_SOURCES = {"prometheus": "Prometheus", "kepler": "Kepler"}

Entry = dict[str, t.Any]


def _collect(fleet: Fleet) -> Data | None:
    document = fleet.sources.metering
    if document is None or not (document["pods"] or document["nodes"]):
        return None
    price = fleet.sources.options.price_per_kwh
    pods, energy = document["pods"], _Energy.of(document, price)
    return {
        "time": document["time"],
        "source": document["source"],
        "watts": round(math.fsum(map(_pod_watts, pods)), 1),
        "pods": len(pods),
        "all_nodes": len(fleet.nodes),
        "failed": len({error["name"] for error in document.get("errors") or []}),
        "price_per_kwh": price,
        "currency": fleet.sources.options.currency,
        "energy": energy.as_dict(),
        "namespaces": _summed(pods, ("namespace",), energy),
        "workloads": _summed(pods, ("namespace", "workload_kind", "workload"), energy),
        "nodes": _nodes(document),
    }


@dataclass(frozen=True)
class _Energy:
    """Counted joules of workloads; without any, energy is an estimate from power."""

    price: float | None
    workloads: t.Sequence[Document] = ()
    begin: str = ""
    end: str = ""
    seconds: float = 0.0

    @classmethod
    def of(cls, document: Document, price: float | None) -> _Energy:
        parts = document.get("energy") or []
        try:
            begin, end = parts[0]["begin"], parts[-1]["end"]
            seconds = (parse_time(end) - parse_time(begin)).total_seconds()
        except (IndexError, InvalidInput):
            return cls(price)
        workloads = [one for part in parts for one in part["workloads"]]
        return cls(price, workloads, begin, end, seconds)

    @property
    def is_counted(self) -> bool:
        return self.seconds > 0

    def as_dict(self) -> Entry:
        """Origin, period and sum of the energy."""
        if not self.is_counted:
            return {"basis": "estimated", "seconds": DAYS * 86_400.0, "kwh": None}
        kwh = round(math.fsum(one["joules"] for one in self.workloads) / _JOULES_OF_A_KWH, 6)
        return {
            "basis": "counted",
            "begin": self.begin,
            "end": self.end,
            "seconds": self.seconds,
            "kwh": kwh,
        }

    def of_entry(self, watts: float, joules: float | None) -> Entry:
        """Energy and cost at this power, or of these joules; None without counts."""
        if not self.is_counted:
            kwh: float | None = watts * _KWH_OF_A_WATT
        else:
            kwh = None if joules is None else joules / _JOULES_OF_A_KWH
        cost = None if kwh is None or self.price is None else round(kwh * self.price, 4)
        return {"kwh": None if kwh is None else round(kwh, 6), "cost": cost}


def _pod_watts(pod: Document) -> float:
    return (pod["package_watts"] or 0.0) + (pod["dram_watts"] or 0.0)


def _summed(pods: t.Iterable[Document], keys: tuple[str, ...], energy: _Energy) -> list[Entry]:
    """Sums by the values of these keys, the largest first; ended pods have only energy."""
    groups: dict[tuple[str, ...], list[Document]] = {}
    for pod in pods:
        groups.setdefault(tuple(pod.get(key) or "" for key in keys), []).append(pod)
    joules: dict[tuple[str, ...], float] = {}
    for one in energy.workloads:
        values = tuple(one[key] for key in keys)
        joules[values] = joules.get(values, 0.0) + one["joules"]
        groups.setdefault(values, [])
    entries: list[Entry] = []
    for values, members in groups.items():
        total = math.fsum(map(_pod_watts, members))
        entries.append(
            {
                **dict(zip(keys, values)),
                "pods": len(members),
                "watts": round(total, 3),
                "dram_watts": round(math.fsum(pod["dram_watts"] or 0.0 for pod in members), 3),
                **energy.of_entry(total, joules.get(values)),
            }
        )
    return sorted(
        entries,
        key=lambda one: (-one["watts"], -(one["kwh"] or 0.0), *(natural(one[key]) for key in keys)),
    )


def _nodes(document: Document) -> list[Entry]:
    of_pods: dict[str, list[float]] = {}
    for pod in document["pods"]:
        of_pods.setdefault(pod["node"], []).append(_pod_watts(pod))
    return [
        {
            "node": name,
            "pods_watts": round(math.fsum(of_pods.get(name, ())), 1),
            **{
                key: None if node[key] is None else round(node[key], 1)
                for key in ("rapl_watts", "measured_watts", "difference_watts")
            },
        }
        for name, node in sorted(document["nodes"].items(), key=lambda item: natural(item[0]))
    ]


def _render(data: Data, detail: Detail) -> Child:
    spaces, workloads, nodes = data["namespaces"], data["workloads"], data["nodes"]
    return [
        lead(_lead(data)),
        _table("namespace", spaces, of("namespace"), data, detail),
        _table("workload", workloads, _workload, data, detail),
        detail.table(_OF_NODES, _NODES, nodes, "nodes") if nodes else None,
        note(*_notes(data)),
    ]


def _lead(data: Data) -> str:
    if not data["pods"]:
        return "No pod was metered."
    pods = counted(data["pods"], "pod")
    spaces = counted(sum(one["pods"] > 0 for one in data["namespaces"]), "namespace")
    nodes = f"{number(len(data['nodes']))} of {counted(data['all_nodes'], 'node')}"
    drawn = f"{watts(data['watts'], 1)} of package and memory in {pods} of {spaces}, on {nodes}."
    energy = data["energy"]
    if energy["basis"] != "counted":
        return drawn
    used, period = quantity(energy["kwh"], "kWh", 3), _duration(energy["seconds"])
    return f"{drawn} Pods used {used} in {period}."


def _duration(seconds: float) -> str:
    hours = seconds / 3600
    if hours < 2:
        return quantity(seconds / 60, "min")
    return quantity(hours, "h") if hours < 72 else quantity(hours / 24, "days")


def _table(
    what: str,
    entries: t.Sequence[Entry],
    name: t.Callable[[Data], Child],
    data: Data,
    detail: Detail,
) -> Markup | None:
    if not entries:
        return None
    most = max(entry["watts"] for entry in entries) or 1.0
    columns = [
        Column(what.capitalize(), name),
        Column("Watts", of("watts", lambda value: drawn_bar(value, most, "ours", watts(value, 1)))),
        Column("Memory", lambda entry: watts(entry["dram_watts"], 1), True),
        Column("Pods", of("pods", number), True),
    ]
    basis, has_price = data["energy"]["basis"], data["price_per_kwh"] is not None
    is_counted = basis == "counted"
    period = _duration(data["energy"]["seconds"]) if is_counted else f"{DAYS} days"
    decimals = 3 if is_counted else 1
    if has_price or is_counted:
        energy = of("kwh", lambda kwh: quantity(kwh, "kWh", decimals))
        columns.append(Column(f"Energy of {period}, {basis}", energy, True))
    if has_price:
        cost = of("cost", lambda amount: money(amount, data["currency"]))
        columns.append(Column(f"Cost, {basis}", cost, True))
    return detail.table(f"Power by {what}", columns, entries, f"{what}s")


def _workload(entry: Data) -> Child:
    if not entry["workload"]:
        return f"{entry['namespace']}, pods that have ended"
    kind = f" ({entry['workload_kind']})" if entry["workload_kind"] else ""
    return f"{entry['namespace']}/{entry['workload']}{kind}"


def _exact(value: float | None) -> str:
    return watts(value, 1)


_OF_NODES = "Power draw of nodes by package and memory, and by BMC"
_NODES = (
    Column("Node", of("node")),
    Column("Pods", of("pods_watts", _exact), True),
    Column("Package and memory", of("rapl_watts", _exact), True),
    Column("Whole machine", of("measured_watts", _exact), True),
    Column("Difference", of("difference_watts", _exact), True),
)


def _notes(data: Data) -> t.Iterator[str]:
    source = _SOURCES[data["source"]]
    yield f"Metered by {source} at {moment(data['time'])}. "
    yield (
        "Kepler gives pods their part of the power of package and memory; idle power, fans, disks "
        "and losses are not attributed. "
    )
    energy = data["energy"]
    if energy["basis"] == "counted":
        yield (
            "Energy is the growth of Kepler's counters from "
            f"{moment(energy['begin'])} to {moment(energy['end'])}. "
        )
    elif data["price_per_kwh"] is not None:
        yield f"No energy was counted yet: it is an estimate, {DAYS} days at this power. "
    if data["failed"]:
        yield f"{counted(data['failed'], 'meter')} gave no or not all power; see metering.json."


SECTION = Section("metering", "Power by namespace", _collect, _render)
