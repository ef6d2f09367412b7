# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The report as ten lines for people and as a small document for programs."""

from __future__ import annotations

import typing as t

from ..base import documents
from ..base.boundary import shown_text
from .numbers import counted, number, percent

Report = t.Mapping[str, t.Any]

_MAX_LINE_LENGTH = 1000

_FIGURES = (
    *("nodes", "placed", "not_bound", "waiting", "failing"),
    *("watts", "added", "saved", "hottest"),
)
_ROWS = (
    ("measured_before", "before"),
    ("baseline", "default scheduler"),
    ("predicted_after", "wattwise, predicted"),
    ("measured_after", "wattwise, measured"),
    ("asleep", "idle machines off"),
)


def summarize(report: Report, page_path: str) -> dict[str, t.Any]:
    """The summary document; ``lines`` are for a terminal."""
    first = report["sections"]["headline"]
    return {
        "document": documents.document_name("summary"),
        **{name: report[name] for name in ("time", "title", "state")},
        **{name: first[name] for name in _FIGURES},
        "report": page_path,
        # Names of a cluster may contain control sequences of terminals.
        "lines": [shown_text(line, _MAX_LINE_LENGTH) for line in _lines(first, page_path)],
    }


def _lines(first: Report, page_path: str) -> list[str]:
    hottest = first["hottest"]
    return [
        _placed(first, first["waiting"]),
        *_watts(first),
        *([] if hottest is None else [_hottest(hottest)]),
        _failing(first["failing"], first),
        *([first["problem"]] if "problem" in first else []),
        f"report: {page_path}",
    ]


def _placed(first: Report, waiting: int) -> str:
    verb = "would be placed" if first["state"] == "planned" else "placed"
    pods = counted(first["placed"], "pod")
    used = f" on {number(first['nodes_used'])} of {counted(first['nodes'], 'node')}"
    lost = f", {number(first['not_bound'])} not bound" if first["not_bound"] else ""
    return f"{pods} {verb}{used if first['placed'] else ''}{lost}, {number(waiting)} left waiting"


def _watts(first: Report) -> list[str]:
    """Lines of the known sums and the saving."""
    lines = []
    for name, label in _ROWS if first["state"] != "observed" else (("measured_before", "fleet"),):
        value, added = first["watts"][name], first["added"].get(name)
        if value is not None:
            plus = "" if added is None else f"   the pods add {_plain(added)} W"
            if name == "asleep" and first["watts"]["measured_after"] is not None:
                plus = f"   {_plain(first['watts']['measured_after'] - value)} W less, measured"
            lines.append(f"{label:<20} {_plain(value):>8} W{plus}")
        elif name == "measured_after" and first["state"] == "pending":
            lines.append(f"{label:<20} pending; read it after {first['pending_until']}")
    saved = first["saved"]
    if saved is not None:
        share = saved["percent_of_added"]
        words = "" if share is None else f"   {_words(percent(share))} of what they add otherwise"
        label = "saved" if saved["basis"] == "measured" else "saved, predicted"
        lines.append(f"{label:<20} {_plain(saved['watts']):>8} W{words}")
    return lines


def _plain(value: float) -> str:
    return _words(number(value))


def _words(text: str) -> str:
    """Text for terminals, with ASCII minus and ordinary spaces."""
    return text.replace("\u2212", "-").replace("\u202f", " ")


def _hottest(hottest: Report) -> str:
    value = _words(number(hottest["inlet_celsius"], 1))
    return f"{'hottest inlet':<20} {value:>8} °C   {hottest['node']}"


def _failing(failing: int, first: Report) -> str:
    lacking = len(first["left_out"])
    words = f"   {counted(lacking, 'node')} not in the sums" if lacking and first["counted"] else ""
    return f"{'failing endpoints':<20} {number(failing):>8}{words}"
