# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""From documents to the report's data, and from that to a page: pure functions but for reading."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import (
    Finding,
    Subject,
    guarded,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report import fleet
from ansible_collections.wattwise.kube.plugins.module_utils.report.numbers import finite
from ansible_collections.wattwise.kube.plugins.module_utils.report.page import page
from ansible_collections.wattwise.kube.plugins.module_utils.report.section import (
    Data,
    Section,
    unusable,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report.sections import (
    SECTIONS,
    headline,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report.sources import (
    Options,
    Sources,
    read,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report.summary import summarize

Report = dict[str, t.Any]


def build(sources: Sources) -> Report:
    """The report document: what every section has to say, under its name.

    It depends on the documents and options alone, not on the clock: equal input, equal output.
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
    """What a section has to say, or the sentence that stands for it."""
    found = guarded(Subject("section", section.title), lambda: finite(section.collect(joined)))
    if not isinstance(found, Finding):
        return t.cast("Data | None", found)
    return {**(headline.empty(joined) if section.name == "headline" else {}), **unusable(found)}


def build_from(folder: str, **options: t.Any) -> Report:
    """The report of a run folder; ``options`` are the fields of Options. Raises InvalidInput."""
    return build(read(folder, Options(**options)))


def html_from(path: str) -> str:
    """The page of the report document at ``path``. Raises InvalidInput."""
    return page(documents.load(path, "report"))


def summary_from(path: str, page_path: str) -> dict[str, t.Any]:
    """The summary document of the report at ``path``; its page is ``page_path``.

    Raises InvalidInput.
    """
    return summarize(documents.load(path, "report"), page_path)
