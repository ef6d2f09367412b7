# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Building of a report: documents to data, data to a page, and both to files."""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

from ..base import documents, strict_json, whole_files
from ..base.argspec import ArgumentSpec
from ..base.boundary import Finding, Subject, guarded
from ..base.context import Context, Parameters, Result
from . import fleet
from .numbers import finite
from .page import page
from .section import Data, Section, unusable
from .sections import SECTIONS, headline
from .sources import Options, Sources, read
from .summary import summarize

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
