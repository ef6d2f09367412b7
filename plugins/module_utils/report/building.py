# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Building of a report: documents to data, data to a page and a summary, and all to files."""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

from ..base import documents, strict_json, whole_files
from ..base.argspec import ArgumentSpec
from ..base.boundary import Finding, Subject, guarded, shown_text
from ..base.context import Context, Parameters, Result
from . import fleet
from .numbers import counted, finite, number, percent
from .page import page
from .section import Data, Section, unusable
from .sections import SECTIONS, headline
from .sources import Options, Sources, read

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


def summarize(report: Data, page_path: str) -> dict[str, t.Any]:
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


def _lines(first: Data, page_path: str) -> list[str]:
    hottest = first["hottest"]
    return [
        _placed(first, first["waiting"]),
        *_watts(first),
        *([] if hottest is None else [_hottest(hottest)]),
        _failing(first["failing"], first),
        *([first["problem"]] if "problem" in first else []),
        f"report: {page_path}",
    ]


def _placed(first: Data, waiting: int) -> str:
    verb = "would be placed" if first["state"] == "planned" else "placed"
    pods = counted(first["placed"], "pod")
    used = f" on {number(first['nodes_used'])} of {counted(first['nodes'], 'node')}"
    lost = f", {number(first['not_bound'])} not bound" if first["not_bound"] else ""
    return f"{pods} {verb}{used if first['placed'] else ''}{lost}, {number(waiting)} left waiting"


def _watts(first: Data) -> list[str]:
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


def _hottest(hottest: Data) -> str:
    value = _words(number(hottest["inlet_celsius"], 1))
    return f"{'hottest inlet':<20} {value:>8} °C   {hottest['node']}"


def _failing(failing: int, first: Data) -> str:
    lacking = len(first["left_out"])
    words = f"   {counted(lacking, 'node')} not in the sums" if lacking and first["counted"] else ""
    return f"{'failing endpoints':<20} {number(failing):>8}{words}"


Report = dict[str, t.Any]

_DEFAULTS = Options()
SPEC = ArgumentSpec(
    {
        "run_dir": {"type": "path", "required": True},
        "path": {"type": "path"},
        "title": {"type": "str", "default": _DEFAULTS.title},
        "settle_seconds": {"type": "float", "default": _DEFAULTS.settle_seconds},
        "type_label": {"type": "str", "default": _DEFAULTS.type_label},
        "rack_labels": {"type": "list", "elements": "str", "default": list(_DEFAULTS.rack_labels)},
        "position_label": {"type": "str", "default": _DEFAULTS.position_label},
        "price_per_kwh": {"type": "float"},
        "currency": {"type": "str", "default": _DEFAULTS.currency},
    }
)


def write(parameters: Parameters, _context: Context = Context()) -> Result:
    """Write page, data and summary of a run folder; equal documents give equal bytes.

    Raises InvalidInput.
    """
    options = SPEC.complete(parameters)
    folder = Path(options["run_dir"]).expanduser()
    destination = Path(options["path"] or folder / "report.html").expanduser().absolute()
    given = {each.name: options[each.name] for each in dataclasses.fields(Options)}
    report = build(read(str(folder), Options(**given)))
    summary = summarize(report, str(destination))
    whole_files.write(folder / "report.json", _as_json(report))
    whole_files.write(destination, page(report).encode())
    whole_files.write(folder / "summary.json", _as_json(summary))
    return {
        "changed": False,
        "path": str(destination),
        "lines": summary["lines"],
        "summary": summary,
    }


def _as_json(body: t.Mapping[str, t.Any]) -> bytes:
    return f"{strict_json.format_compact(body, sort_keys=True)}\n".encode()


def build(sources: Sources) -> Report:
    """The report document, with the data of every section under its name.

    It depends only on the documents and options, so equal input gives equal output.
    """
    joined = fleet.join(sources)
    found = {section.name: _collected(section, joined) for section in SECTIONS}
    report: Report = {
        "document": documents.document_name("report"),
        "time": sources.time,
        "title": sources.options.title,
        "state": joined.state,
        "sections": {name: data for name, data in found.items() if data is not None},
    }
    if joined.findings:
        report["findings"] = [finding.as_dict() for finding in joined.findings]
    return report


def _collected(section: Section, joined: fleet.Fleet) -> Data | None:
    """Data of a section, or the sentence that replaces it after a failure."""
    found: Data | Finding | None = guarded(
        Subject("section", section.title), lambda: finite(section.collect(joined))
    )
    if not isinstance(found, Finding):
        return found
    return {**(headline.empty(joined) if section.name == "headline" else {}), **unusable(found)}


def build_from(folder: str, **options: t.Any) -> Report:
    """The report of a run folder; ``options`` are the fields of Options. Raises InvalidInput."""
    return build(read(folder, Options(**options)))
