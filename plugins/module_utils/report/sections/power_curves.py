# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power curves of all nodes with operating points before and after."""

from __future__ import annotations

import typing as t

from ..fleet import Fleet, Node, grouped
from ..markup import Child, Markup, element
from ..numbers import LACKING, counted, number, percent, watts
from ..section import Column, Data, Detail, Section, note, of, table
from ..sources import Document
from .prediction_error import errors_of, pair

_WIDTH, _HEIGHT, _MARGIN = 120, 60, 4
_MIN_CORES = 1e-6
_NO_REASON = "its power model gave none, or nothing is known of it"
# In the order of precedence.
_SOURCES = {
    "stated": "stated",
    "predictor": "predictor",
    "learnednode": "learned from the node",
    "learnedtype": "learned from its type",
    "publishedprocessor": "published for its processor",
    "publishedseries": "published for its series of processors",
    "publishedgeneration": "published for a neighbouring generation",
    "publishedmodel": "published for processors that fit its model",
    "none": "none",
}


def _collect(fleet: Fleet) -> Data | None:
    if not any(node.curve for node in fleet.nodes):
        return None
    types = grouped(fleet.nodes, "server_type")
    return {
        "sources": _sources(fleet.nodes, fleet.state == "measured"),
        "published": _published(fleet.nodes),
        "lacking": _lacking(fleet),
        "types": [
            {
                "server_type": name,
                "most_cores": max(
                    node.curve.cores[-1] if node.curve else 0.0 for node in types[name]
                ),
                "most_watts": max(_most_watts(node) for node in types[name]),
                "nodes": [
                    _entry(node) for node in sorted(types[name], key=lambda one: -one.added_cores)
                ],
            }
            # Types with a changed node first.
            for name in sorted(
                types, key=lambda name: all(one.added_cores <= _MIN_CORES for one in types[name])
            )
        ],
    }


def _sources(nodes: t.Iterable[Node], is_after: bool) -> list[dict[str, t.Any]]:
    """Numbers of nodes by the source of their curve, with its error against the BMCs.

    Learned ones have samples and the error of the fit too.
    """
    by_source: dict[str, list[Node]] = {}
    for node in nodes:
        by_source.setdefault(_source(node), []).append(node)
    return [
        {
            "source": source,
            "nodes": len(by_source[source]),
            **_evidence(by_source[source]),
            **_metered(by_source[source], is_after),
        }
        for source in _SOURCES.values()
        if source in by_source
    ]


def _source(node: Node) -> str:
    if node.power_curve is None:
        return _SOURCES["none"]
    of = node.evidence("learned").get("of") or node.evidence("published").get("match") or ""
    return _SOURCES.get(f"{node.power_curve.source}{of}", _SOURCES["predictor"])


def _metered(nodes: list[Node], is_after: bool) -> dict[str, t.Any]:
    """Error of the curves of nodes whose power their BMC measures."""
    both = [pair(node, is_after) for node in nodes]
    pairs = [(one, other) for one, other in both if one is not None and other]
    if not pairs:
        return {}
    found = errors_of(pairs)
    return {"metered_nodes": len(pairs), "metered_error_percent": found["node_error_percent"]}


def _lacking(fleet: Fleet) -> list[dict[str, str]]:
    """Nodes without a curve, with the reason if known."""
    reasons = fleet.lacking
    return [
        {"node": node.name, "reason": reasons.get(node.name) or _NO_REASON}
        for node in fleet.nodes
        if node.curve is None
    ]


def _published(nodes: t.Iterable[Node]) -> list[dict[str, t.Any]]:
    """The measurements of published curves, by server."""
    by_server: dict[tuple[str, str], list[Document]] = {}
    for node in nodes:
        told = node.evidence("published")
        if told:
            by_server.setdefault((told["server"], ", ".join(told["of"])), []).append(told)
    return [
        {
            "server": server,
            "nodes": len(alike),
            "of": of,
            "scale": alike[0]["scale"],
            "generations": alike[0]["generations"],
        }
        for (server, of), alike in sorted(by_server.items())
    ]


def _evidence(nodes: list[Node]) -> dict[str, t.Any]:
    learned = [one for node in nodes for one in [node.evidence("learned")] if one]
    if not learned:
        return {}
    errors = [one["error_percent"] for one in learned]
    return {
        "samples": sum(one["samples"] for one in learned),
        "error_percent": round(sum(errors) / len(errors), 2),
        "worst_error_percent": max(errors),
        "load_percent": [
            min(one["load_percent"][0] for one in learned),
            max(one["load_percent"][1] for one in learned),
        ],
    }


def _most_watts(node: Node) -> float:
    by_curve = max(node.curve.watts) if node.curve else 0.0
    return max(by_curve, node.measured_before or 0.0, node.measured_after or 0.0)


def _entry(node: Node) -> dict[str, t.Any]:
    return {
        "node": node.name,
        "cpu": [round(cpu, 3) for cpu in (node.curve.cores if node.curve else ())],
        "watts": [round(watt, 1) for watt in (node.curve.watts if node.curve else ())],
        "measured_before": node.measured_before,
        **node.figures,
    }


def _render(data: Data, detail: Detail) -> Child:
    groups = [
        element("div", _heading(group), _figures(group, detail), class_="group")
        for group in data["types"]
    ]
    parts: list[Child] = [_sources_table(data["sources"])]
    for key, caption, columns, what in (
        ("published", "Servers with a published power curve", _PUBLISHED, "servers"),
        ("lacking", "Nodes without a power curve", _LACKING, "nodes"),
    ):
        parts += [detail.table(caption, columns, data[key], what)] if data[key] else []
    return [*parts, _legend(data), groups]


_LACKING = (Column("Node", of("node")), Column("Reason", of("reason")))
_PUBLISHED = (
    Column("Server", of("server")),
    Column("Nodes", of("nodes", number), True),
    Column("Measured servers", of("of")),
    Column("Generations apart", of("generations", number), True),
    Column("Cores scaled by", lambda entry: number(entry["scale"], 2), True),
)


def _sources_table(sources: t.Sequence[Data]) -> Child:
    """Sources of curves, unless all are predictors."""
    if [entry["source"] for entry in sources] == [_SOURCES["predictor"]]:
        return None
    return [
        table("Sources of power curves", _OF_SOURCES, sources),
        note(
            "Error: the mean absolute error of samples that the fit has not seen. A learned "
            "curve is flat beyond the recorded loads. Off by: the mean absolute error of a "
            "node against its BMC."
        ),
    ]


def _if_there(key: str, show: t.Callable[[t.Any], str]) -> t.Callable[[Data], str]:
    return lambda entry: show(entry[key]) if key in entry else LACKING


_OF_SOURCES = (
    Column("Source of the curve", of("source")),
    Column("Nodes", of("nodes", number), True),
    Column("Samples", _if_there("samples", number), True),
    Column("Error", _if_there("error_percent", percent), True),
    Column("Worst", _if_there("worst_error_percent", percent), True),
    Column(
        "Recorded loads",
        _if_there("load_percent", lambda ends: f"{number(ends[0])} to {percent(ends[1])}"),
        True,
    ),
    Column("Off by", _if_there("metered_error_percent", percent), True),
)


def _heading(group: Data) -> Markup:
    scale = f"0 to {number(group['most_cores'])} cores across, 0 to {watts(group['most_watts'])} up"
    nodes = counted(len(group["nodes"]), "node")
    words = element("small", f"{nodes}, each {scale}")
    return element("h3", group["server_type"], " ", words)


def _figures(group: Data, detail: Detail) -> list[Child]:
    drawn = [_figure(node, group) for node in detail.cut(group["nodes"])]
    return [
        element("div", drawn, class_="curves"),
        detail.rest(group["nodes"], f"nodes of {group['server_type']}"),
    ]


def _figure(node: Data, group: Data) -> Markup:
    added = (node["cpu_after"] or 0) - (node["cpu_before"] or 0)
    changed = added > _MIN_CORES
    caption: list[Child] = [element("b", node["node"])]
    if not node["cpu"]:
        picture = element("p", "no power curve", class_="none")
    else:
        scale = _Scale(group["most_cores"], group["most_watts"])
        picture = _picture(node, scale, changed)
    if changed and node["watts_after"] is not None and node["watts_before"] is not None:
        more = node["watts_after"] - node["watts_before"]
        caption.append(f"{number(added, 1, sign=True)} cores, {watts(more, sign=True)}")
    elif changed:
        caption.append(f"{number(added, 1, sign=True)} cores")
    return element(
        "figure", picture, element("figcaption", caption), class_=None if changed else "spared"
    )


class _Scale(t.NamedTuple):
    """Conversion of cores and watts to units of the picture."""

    most_cores: float
    most_watts: float

    def x(self, cores: float) -> str:
        span = _WIDTH - 2 * _MARGIN
        return _short(_MARGIN + span * min(1.0, cores / (self.most_cores or 1.0)))

    def y(self, watt: float) -> str:
        span = _HEIGHT - 2 * _MARGIN
        return _short(_HEIGHT - _MARGIN - span * min(1.0, watt / (self.most_watts or 1.0)))


def _short(value: float) -> str:
    return f"{value:.1f}".replace(".0", "")


def _line(points: t.Iterable[tuple[str, str]]) -> str:
    return "M" + " ".join(f"{x} {y}" for x, y in points)


def _picture(node: Data, scale: _Scale, changed: bool) -> Markup:
    points = list(zip(node["cpu"], node["watts"]))
    shapes = [
        element("path", d=f"M4 {_HEIGHT - _MARGIN}H{_WIDTH - _MARGIN}", class_="axis"),
        element("path", d=_line((scale.x(cpu), scale.y(watt)) for cpu, watt in points)),
    ]
    before, after = _point(node, "before"), _point(node, "after")
    if before is not None and after is not None and changed:
        between = [point for point in points if before[0] < point[0] < after[0]]
        path = [(scale.x(cpu), scale.y(watt)) for cpu, watt in [before, *between, after]]
        shapes.append(element("path", d=_line(path), class_="way"))
    measured = node["measured_after"]
    if measured is not None and after is not None:
        x, y = scale.x(after[0]), scale.y(measured)
        shapes.append(element("path", d=f"M{x} {y}m-6 0h12", class_="mark"))
    if before is not None:
        shapes.append(_circle(before, scale, "was" if changed else "same"))
    if after is not None and changed:
        shapes.append(_circle(after, scale, "is"))
    return element(
        "svg",
        shapes,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=_words(node, changed),
    )


def _point(node: Data, when: str) -> tuple[float, float] | None:
    cpu, watt = node[f"cpu_{when}"], node[f"watts_{when}"]
    return None if cpu is None or watt is None else (cpu, watt)


def _circle(point: tuple[float, float], scale: _Scale, class_: str) -> Markup:
    return element("circle", cx=scale.x(point[0]), cy=scale.y(point[1]), r=3, class_=class_)


def _words(node: Data, changed: bool) -> str:
    if node["watts_before"] is None or node["cpu_before"] is None:
        return f"Power curve of {node['node']}"
    before = f"{number(node['cpu_before'], 1)} cores at {watts(node['watts_before'])}"
    if not changed or node["watts_after"] is None:
        return f"{node['node']}: {before}"
    return f"{node['node']}: from {before} to {number(node['cpu_after'], 1)} cores at " + watts(
        node["watts_after"]
    )


def _legend(data: Data) -> Markup:
    nodes = [node for group in data["types"] for node in group["nodes"]]
    planned = any(node["cpu_after"] is not None for node in nodes)
    measured = any(node["measured_after"] is not None for node in nodes)
    keys = (
        ("line", "power over cores in use, by the curve", True),
        ("was", "before", planned),
        ("is", "after, predicted", planned),
        ("same", "unchanged", planned),
        ("dash", "after, measured", measured),
    )
    items = [
        element("li", element("i", class_=f"key {kind}"), words)
        for kind, words, is_drawn in keys
        if is_drawn
    ]
    return element("ul", items, class_="legend")


SECTION = Section("power_curves", "Power curves", _collect, _render)
