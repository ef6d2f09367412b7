# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pods without a node, grouped by the reason."""

from __future__ import annotations

from ..fleet import Fleet
from ..markup import Markup, element
from ..numbers import counted, number
from ..section import Column, Data, Detail, Section, table


def collect(fleet: Fleet) -> Data | None:
    newest = fleet.sources.plan or fleet.plan
    if newest is None:
        return None
    groups: dict[str, list[str]] = {}
    for entry in newest["unplaced"]:
        message = str(entry.get("message") or "no reason is given")
        groups.setdefault(message, []).append(f"{entry.get('namespace')}/{entry.get('pod')}")
    bindings = fleet.sources.bindings or {}
    told = {
        (str(entry.get("namespace")), str(entry.get("pod"))): (
            entry.get("reason") or entry.get("detail")
        )
        for entry in [*(bindings.get("errors") or []), *(bindings.get("skipped") or [])]
    }
    not_bound = [
        {
            "pod": f"{entry['namespace']}/{entry['pod']}",
            "node": entry["node"],
            "reason": str(told.get((entry["namespace"], entry["pod"])) or "no reason is given"),
        }
        for entry in fleet.not_bound
    ]
    return {
        "waiting": sum(map(len, groups.values())),
        "reasons": [
            {"message": message, "pods": groups[message]}
            for message in sorted(groups, key=lambda message: (-len(groups[message]), message))
        ],
        "not_bound": not_bound,
    }


def _render(data: Data, detail: Detail) -> Markup:
    if not data["waiting"] and not data["not_bound"]:
        return element("p", "No pod is waiting.", class_="lead")
    rows = [
        [reason["message"], number(len(reason["pods"])), _names(reason["pods"], detail)]
        for reason in detail.cut(data["reasons"])
    ]
    columns = [Column("Reason"), Column("Pods", True), Column("Names")]
    parts = [element("p", f"{counted(data['waiting'], 'pod')} waiting.", class_="lead")]
    if rows:
        parts.append(table("Pods without a node, by reason", columns, rows))
        parts += filter(None, [detail.rest(data["reasons"], "reasons")])
    if data["not_bound"]:
        rows = [
            [entry["pod"], entry["node"], entry["reason"]]
            for entry in detail.cut(data["not_bound"])
        ]
        parts.append(element("h3", "Planned, but not bound"))
        heads = [Column("Pod"), Column("Planned node"), Column("Reason")]
        parts.append(table("Pods that were planned and not bound", heads, rows))
        parts += filter(None, [detail.rest(data["not_bound"], "pods")])
    return element("div", parts)


def _names(names: list[str], detail: Detail) -> Markup:
    shown = [element("li", name) for name in detail.cut(names)]
    items = element("ul", shown, class_="names")
    if len(names) <= 3:
        return items
    summary = element("summary", f"{names[0]} and {number(len(names) - 1)} more")
    return element("details", summary, items, detail.rest(names, "pods"))


SECTION = Section("waiting_pods", "Waiting pods", collect, _render)
