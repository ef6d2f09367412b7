# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bad node, reading, plan or text never loses the report: the rest is shown, and nothing
executes.
"""

from __future__ import annotations

import copy
import json
import random
import typing as t
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.report.building import (
    build_from,
    summarize,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report.page import page
from ansible_collections.wattwise.kube.plugins.module_utils.report.sections import SECTIONS
from support.examples import each_seed
from support.odd_values import bounded, odd_value, spoilt
from support.report_documents import Case, write

CASE = Case(nodes=5, racks=2, pods=8, waiting=2, daemons=2, devices=2, metered=2, steps=2)
DOCUMENTS = (
    "snapshot.json",
    "readings.json",
    "curves.json",
    "plan.json",
    "rmd.json",
    "devices.json",
    "metering.json",
    "bound/bindings.json",
    "bound/plan.json",
    "bound/readings.json",
)
ELEMENTS = frozenset(
    "a b body br caption circle code dd details div dl dt figcaption figure footer h1 h2 h3 head "
    "header html i li line main meta nav ol p path rect section small span strong style summary "
    "svg table tbody td text th thead time title tr ul wbr".split()
)
ATTRIBUTES = frozenset(
    "aria-hidden aria-label charset class content cx cy d data-label datetime height href "
    "http-equiv id lang name r role scope style title viewbox width x y x1 x2 y1 y2".split()
)


class Reader(HTMLParser):
    """Fail if a page has an element or an attribute that no report has."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS
        for name, value in attrs:
            assert name in ATTRIBUTES
            assert name != "href" or (value or "").startswith("#")

    handle_startendtag = handle_starttag


def read(html: str) -> None:
    assert html.encode("utf-8")
    Reader(convert_charrefs=True).feed(html)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("good"), CASE)


@pytest.fixture(scope="module")
def good(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in DOCUMENTS}


def spoil(folder: Path, good: dict[str, str], name: str, body: t.Any) -> None:
    """Make the folder good except for this document."""
    for other, text in good.items():
        (folder / other).write_text(text)
    (folder / name).write_text(json.dumps(body))


@each_seed(20)
def test_a_node_that_is_odd_leaves_all_others_as_they_are(
    seed: int, folder: Path, good: dict[str, str]
) -> None:
    source = random.Random(seed)
    body = json.loads(good["snapshot.json"])
    last = body["nodes"][-1]
    body["nodes"][-1] = spoilt(source, last, keep=[("metadata", "name")])
    name = last["metadata"]["name"]
    spoil(folder, good, "snapshot.json", body)
    with bounded():
        beside = build_from(str(folder))
        read(page(beside))
    spoil(folder, good, "snapshot.json", json.loads(good["snapshot.json"]))
    alone = build_from(str(folder))
    assert not [name for name, data in beside["sections"].items() if "problem" in data]
    for section in ("freshness", "placements"):
        rows = [
            [entry for entry in report["sections"][section]["nodes"] if entry["node"] != name]
            for report in (beside, alone)
        ]
        assert rows[0] == rows[1]


@each_seed(30)
def test_a_document_that_is_odd_never_loses_the_report(
    seed: int, folder: Path, good: dict[str, str]
) -> None:
    source = random.Random(seed)
    name = source.choice(DOCUMENTS)
    body = json.loads(good[name])
    keep = [("document",), ("time",), ("cluster",)]
    spoil(folder, good, name, spoilt(source, body, keep=keep, finite=False))
    with bounded():
        try:
            report = build_from(str(folder))
        except InvalidInput as error:
            # A document that violates its schema is not ours; one sentence reports it.
            assert len(str(error)) < 100_000
            return
        json.dumps(report, allow_nan=False)
        read(page(report))
        summary = summarize(report, "/tmp/report.html")
        assert all(line.isprintable() for line in summary["lines"])
        json.dumps(summary, allow_nan=False)
        assert report["sections"].keys() >= {"headline", "temperatures", "freshness"}


@pytest.fixture(scope="module")
def report(folder: Path, good: dict[str, str]) -> dict[str, t.Any]:
    spoil(folder, good, "snapshot.json", json.loads(good["snapshot.json"]))
    return build_from(str(folder))


@each_seed(25)
def test_a_section_that_is_odd_is_a_sentence_and_the_rest_stands(
    seed: int, report: dict[str, t.Any]
) -> None:
    source = random.Random(seed)
    odd = copy.deepcopy(report)
    name = source.choice(sorted(odd["sections"]))
    odd["sections"][name] = spoilt(source, odd["sections"][name], finite=False)
    if source.randrange(10) == 0:
        odd["sections"][name] = {"nodes": odd_value(source)}
    with bounded():
        html = page(odd)
        read(html)
    for section in SECTIONS:
        if section.name != name and section.name in report["sections"]:
            assert f'<section id="{section.name}"' in html
    assert html.count("This part cannot be shown") <= 1
