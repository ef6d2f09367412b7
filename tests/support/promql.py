# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that queries use existing metrics and labels, by Prometheus' syntax tree."""

from __future__ import annotations

import json
import re
import typing as t
import urllib.parse
import urllib.request

Json = dict[str, t.Any]
Labels = frozenset[str]

# Labels of every scrape; roles, endpoint or configuration of the scrape add cluster.
OF_SCRAPES = frozenset({"job", "instance", "cluster"})
# The operator's endpoint adds this to all metrics of the collection.
OF_OPERATOR = "power_fleet"
_SERIES = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? \S+$", re.MULTILINE)
_LABEL = re.compile(r'([A-Za-z_]\w*)="(?:[^"\\]|\\.)*"')


class Unknown(AssertionError):
    """A query with an unknown metric or label."""


def catalogue(exposition: str) -> dict[str, Labels]:
    """The labels of each metric in texts that Prometheus scrapes."""
    found: dict[str, Labels] = {"up": OF_SCRAPES}
    for name, labels in _SERIES.findall(exposition):
        own = {OF_OPERATOR} if not name.startswith("kepler_") else set()
        found[name] = found.get(name, OF_SCRAPES) | frozenset(_LABEL.findall(labels)) | own
    return found


def parsed(port: int, query: str) -> Json:
    """The syntax tree of a query, from a running Prometheus."""
    url = f"http://127.0.0.1:{port}/api/v1/parse_query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return t.cast("Json", json.load(answer)["data"])


def labels_of(tree: Json, known: t.Mapping[str, Labels]) -> Labels:
    """The labels that results of a query may have. Raises Unknown."""
    kind = tree["type"]
    if kind in ("vectorSelector", "matrixSelector"):
        return _of_selector(tree, known)
    if kind in ("numberLiteral", "stringLiteral"):
        return frozenset()
    if kind == "aggregation":
        return _of_aggregation(tree, known)
    if kind == "binaryExpr":
        both = labels_of(tree["lhs"], known) | labels_of(tree["rhs"], known)
        matching = tree["matching"] or {}
        _require(matching.get("labels") or (), both)
        return both
    if kind == "call":
        return _of_call(tree, known)
    return labels_of(tree["expr"], known)


def _of_selector(tree: Json, known: t.Mapping[str, Labels]) -> Labels:
    name = tree["name"]
    if name not in known:
        raise Unknown(f"there is no metric {name}")
    _require((one["name"] for one in tree["matchers"]), known[name] | {"__name__"})
    return known[name]


def _of_aggregation(tree: Json, known: t.Mapping[str, Labels]) -> Labels:
    given, grouping = labels_of(tree["expr"], known), frozenset(tree["grouping"] or ())
    _require(grouping, given)
    if tree["op"] in ("topk", "bottomk"):
        return given
    return given - grouping if tree["without"] else grouping


def _of_call(tree: Json, known: t.Mapping[str, Labels]) -> Labels:
    found: Labels = frozenset().union(*(labels_of(one, known) for one in tree["args"]))
    if tree["func"]["name"] != "label_replace":
        return found
    target, source = (tree["args"][index]["val"] for index in (1, 3))
    _require([source], found)
    return found | {target}


def _require(wanted: t.Iterable[str], there: Labels) -> None:
    for name in wanted:
        if name not in there:
            raise Unknown(f"there is no label {name} beside {', '.join(sorted(there))}")
