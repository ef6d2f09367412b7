# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Watts of namespaces and workloads that Kepler metered, and of nodes beside those of their BMCs.

These are watts of package and memory that pods cause. They enter no other part of the report, whose
watts are those of whole machines.
"""

from __future__ import annotations

import math
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.report.fleet import Fleet, natural
from ansible_collections.wattwise.kube.plugins.module_utils.report.markup import (
    Child,
    Markup,
    element,
    join,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report.numbers import (
    counted,
    moment,
    number,
    quantity,
    watts,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report.section import (
    Column,
    Data,
    Detail,
    Section,
    meter,
    note,
    table,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report.sources import Document

DAYS = 30
_KWH_OF_A_WATT = DAYS * 24 / 1000
_SOURCES = {"prometheus": "Prometheus", "kepler": "Kepler"}

Entry = dict[str, t.Any]


def _collect(fleet: Fleet) -> Data | None:
    document = fleet.sources.metering
    if document is None or not (document["pods"] or document["nodes"]):
        return None
    price = fleet.sources.options.price_per_kwh
    pods = document["pods"]
    return {
        "time": document["time"],
        "source": document["source"],
        "watts": round(math.fsum(map(_pod_watts, pods)), 1),
        "pods": len(pods),
        "all_nodes": len(fleet.nodes),
        "failed": len({error["name"] for error in document.get("errors") or []}),
        "price_per_kwh": price,
        "currency": fleet.sources.options.currency,
        "namespaces": _summed(pods, ("namespace",), price),
        "workloads": _summed(pods, ("namespace", "workload_kind", "workload"), price),
        "nodes": _nodes(document),
    }


def _pod_watts(pod: Document) -> float:
    return (pod["package_watts"] or 0.0) + (pod["dram_watts"] or 0.0)


def _summed(pods: t.Iterable[Document], keys: tuple[str, ...], price: float | None) -> list[Entry]:
    """Sums by the values of these keys, the largest first."""
    groups: dict[tuple[str, ...], list[Document]] = {}
    for pod in pods:
        groups.setdefault(tuple(pod.get(key) or "" for key in keys), []).append(pod)
    entries: list[Entry] = []
    for values, members in groups.items():
        total = math.fsum(map(_pod_watts, members))
        kwh = total * _KWH_OF_A_WATT
        entries.append(
            {
                **dict(zip(keys, values)),
                "pods": len(members),
                "watts": round(total, 3),
                "dram_watts": round(math.fsum(pod["dram_watts"] or 0.0 for pod in members), 3),
                "kwh": round(kwh, 3),
                "cost": None if price is None else round(kwh * price, 4),
            }
        )
    return sorted(entries, key=lambda one: (-one["watts"], *(natural(one[key]) for key in keys)))


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


def _render(data: Data, detail: Detail) -> Markup:
    spaces, workloads, nodes = data["namespaces"], data["workloads"], data["nodes"]
    return join(
        [
            element("p", _lead(data), class_="lead"),
            _table("Watts by namespace", "Namespace", spaces, _namespace, data, detail),
            detail.rest(spaces, "namespaces"),
            _table("Watts by workload", "Workload", workloads, _workload, data, detail),
            detail.rest(workloads, "workloads"),
            _node_table(nodes, detail) if nodes else None,
            detail.rest(nodes, "nodes"),
            note(*_notes(data)),
        ]
    )


def _lead(data: Data) -> str:
    if not data["pods"]:
        return "No pod was metered."
    pods = counted(data["pods"], "pod")
    spaces = counted(len(data["namespaces"]), "namespace")
    nodes = f"{number(len(data['nodes']))} of {counted(data['all_nodes'], 'node')}"
    return f"{watts(data['watts'], 1)} of package and memory in {pods} of {spaces}, on {nodes}."


def _table(
    caption: str,
    heading: str,
    entries: t.Sequence[Entry],
    name: t.Callable[[Entry], Child],
    data: Data,
    detail: Detail,
) -> Markup | None:
    if not entries:
        return None
    has_price = data["price_per_kwh"] is not None
    columns = [Column(heading), Column("Watts"), Column("Memory", True), Column("Pods", True)]
    if has_price:
        columns += [Column(f"{DAYS} days", True), Column("Cost", True)]
    most = max(entry["watts"] for entry in entries)
    rows: list[list[Child]] = []
    for entry in detail.cut(entries):
        text = element("span", watts(entry["watts"], 1))
        watts_bar = element("span", meter(entry["watts"], most, "ours"), text, class_="bar")
        memory, pods = watts(entry["dram_watts"], 1), number(entry["pods"])
        row: list[Child] = [name(entry), watts_bar, memory, pods]
        if has_price:
            row += [quantity(entry["kwh"], "kWh", 1), _cost(entry["cost"], data["currency"])]
        rows.append(row)
    return table(caption, columns, rows)


def _namespace(entry: Entry) -> Child:
    return str(entry["namespace"])


def _workload(entry: Entry) -> Child:
    kind = f" ({entry['workload_kind']})" if entry["workload_kind"] else ""
    return f"{entry['namespace']}/{entry['workload']}{kind}"


def _cost(cost: float | None, currency: str) -> str:
    return quantity(cost, currency, 2) if currency else number(cost, 2)


def _node_table(nodes: t.Sequence[Entry], detail: Detail) -> Markup:
    columns = [
        Column("Node"),
        Column("Pods", True),
        Column("Package and memory", True),
        Column("Whole machine", True),
        Column("Difference", True),
    ]
    rows = [
        [
            node["node"],
            watts(node["pods_watts"], 1),
            watts(node["rapl_watts"], 1),
            watts(node["measured_watts"], 1),
            watts(node["difference_watts"], 1),
        ]
        for node in detail.cut(nodes)
    ]
    return table("Watts of nodes by package and memory, and by BMC", columns, rows)


def _notes(data: Data) -> t.Iterator[str]:
    source = _SOURCES[data["source"]]
    yield f"Metered by {source} at {moment(data['time'])}. "
    yield (
        "Kepler gives pods their part of the power of package and memory; idle power, fans, disks "
        "and losses are nobody's. "
    )
    if data["price_per_kwh"] is not None:
        yield f"Energy and cost are those of {DAYS} days at these watts. "
    if data["failed"]:
        yield f"{counted(data['failed'], 'meter')} gave no or not all watts; see metering.json."


SECTION = Section("metering", "Watts by namespace", _collect, _render)
