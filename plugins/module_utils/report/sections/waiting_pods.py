# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pods without a node, grouped by the reason."""

from __future__ import annotations

from ..fleet import Fleet
from ..markup import Child, Markup, element
from ..numbers import counted, number
from ..section import Column, Data, Detail, Section, lead, of


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


_NOT_BOUND = (
    Column("Pod", of("pod")),
    Column("Planned node", of("node")),
    Column("Reason", of("reason")),
)


def _render(data: Data, detail: Detail) -> Child:
    if not data["waiting"] and not data["not_bound"]:
        return lead("No pod is waiting.")
    columns = [
        Column("Reason", of("message")),
        Column("Pods", of("pods", lambda pods: number(len(pods))), True),
        Column("Names", of("pods", lambda pods: _names(pods, detail))),
    ]
    parts = [lead(f"{counted(data['waiting'], 'pod')} waiting.")]
    if data["reasons"]:
        caption = "Pods without a node, by reason"
        parts.append(detail.table(caption, columns, data["reasons"], "reasons"))
    if data["not_bound"]:
        parts.append(element("h3", "Planned, but not bound"))
        caption = "Pods that were planned and not bound"
        parts.append(detail.table(caption, _NOT_BOUND, data["not_bound"], "pods"))
    return element("div", parts)


def _names(names: list[str], detail: Detail) -> Markup:
    return detail.names(names, f"{names[0]} and {number(len(names) - 1)} more", "pods", in_sight=3)


SECTION = Section("waiting_pods", "Waiting pods", collect, _render)
