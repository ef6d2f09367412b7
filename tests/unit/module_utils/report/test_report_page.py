# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page: complete, harmless and small, whatever the cluster's texts."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.report import building
from ansible_collections.wattwise.kube.plugins.module_utils.report.building import build_from
from ansible_collections.wattwise.kube.plugins.module_utils.report.markup import element, escape
from ansible_collections.wattwise.kube.plugins.module_utils.report.numbers import (
    counted,
    listed,
    number,
    quantity,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report.page import MAX_PAGE, page
from support.report_documents import STANDARD, Case, write

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>&\u202ex\x00"
VOID = {"meta", "br", "wbr"}


class Reader(HTMLParser):
    """Elements, attributes and text of a page; fails if elements are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.opened: list[str] = []
        self.feed(text)
        self.close()
        assert self.opened == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.opened.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


def page_of(folder: Path, case: Case = STANDARD, title: str = "hall-1") -> str:
    return page(build_from(str(write(folder, case)), title=title))


@pytest.mark.parametrize(
    "case",
    [
        Case(),
        Case(waiting=4, lacking=3),
        Case(read_again=False),
        Case(bound=False, baseline=False, comparison=False),
        Case(pods=0, bound=False, baseline=False),
        Case(pods=0, bound=False, baseline=False, lacking=20),
        Case(nodes=250, pods=900),
        Case(steps=0),
        Case(steps=6),
        Case(metered=4),
        Case(limited=True),
    ],
)
def test_a_page_is_one_file_without_scripts_and_requests(tmp_path: Path, case: Case) -> None:
    html = page_of(tmp_path, case)
    read = Reader(html)
    assert html.startswith("<!doctype html>")
    assert not {"script", "link", "img", "iframe", "object", "form", "use"} & set(read.elements)
    assert not [name for name, _value in read.attributes if name.startswith("on")]
    links = [value for name, value in read.attributes if name in ("href", "src", "xlink:href")]
    assert all(link.startswith("#") for link in links)
    assert "url(" not in html and "@import" not in html
    names = [value for name, value in read.attributes if name == "id"]
    assert len(set(names)) == len(names)
    assert {link[1:] for link in links} <= set(names)
    assert "None" not in read.text and "nan" not in read.text.split()


def test_the_same_documents_give_the_same_bytes(tmp_path: Path) -> None:
    case = Case(waiting=2, lacking=2)
    assert page_of(tmp_path / "one", case) == page_of(tmp_path / "two", case)


def test_what_the_cluster_says_is_text_and_nothing_else(tmp_path: Path) -> None:
    case = Case(waiting=2, lacking=2, steps=5, metered=2, limited=True)
    plain = Reader(page_of(tmp_path / "plain", case))
    case = dataclasses.replace(case, suffix=HOSTILE)
    hostile = Reader(page_of(tmp_path / "hostile", case, title=HOSTILE))
    assert hostile.elements == plain.elements
    assert [item[0] for item in hostile.attributes] == [item[0] for item in plain.attributes]
    shown = HOSTILE.replace("\u202e", "\ufffd").replace("\x00", "\ufffd")
    for text in (f"large-0{shown}", f"inlet of rack r1{shown}", f"shop/batch-1{shown}"):
        assert text in hostile.text


@given(st.text(), st.text())
def test_no_text_leaves_its_element_or_attribute(content: str, value: str) -> None:
    read = Reader(element("p", content, title=value, class_="x"))
    assert read.elements == ["p"]
    assert [name for name, _value in read.attributes] == ["title", "class"]
    assert escape(escape(content)) == escape(content)


def test_lacking_values_are_shown_as_lacking(tmp_path: Path) -> None:
    html = page_of(tmp_path, Case(lacking=3))
    assert html.count("no power curve") == 3
    text = Reader(html).text
    assert "3 nodes without a temperature" in text
    assert "no value" in text
    assert "3 nodes left out: " in text


def test_an_old_baseline_is_shown_with_its_date_and_a_warning(tmp_path: Path) -> None:
    text = Reader(page_of(tmp_path)).text
    assert "measured 12:05" in text and "from the plan" not in text
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "time": "2026-01-28T11:00:00Z"}))
    text = Reader(page(build_from(str(tmp_path)))).text
    assert "measured 2026-01-28 11:00" in text
    assert "power was read 3 days from the plan" in text


@pytest.mark.large
def test_a_page_of_a_large_fleet_is_whole_and_small(tmp_path: Path) -> None:
    case = Case(nodes=1000, racks=25, pods=10_000, waiting=500, lacking=20)
    html = page_of(tmp_path, case)
    assert len(html.encode()) < MAX_PAGE == 2_000_000
    assert html.count("<figure") == 1000
    assert html.count("<li>shop/web-") == 10_000


@pytest.mark.large
def test_what_does_not_fit_is_left_out_and_the_page_says_so(tmp_path: Path) -> None:
    case = Case(nodes=400, racks=25, pods=6_000, waiting=6_000, suffix="-" + "x" * 200)
    html = page_of(tmp_path, case)
    assert len(html.encode()) < MAX_PAGE
    [more] = re.findall(r"([\d,]+) more nodes of altra-max-128c", html)
    shown = len(re.findall(r"<figcaption><b>", html))
    assert int(more.replace(",", "")) > 0 and shown < 400
    assert "more pods are in report.json" in html


def test_page_data_and_summary_are_written_from_one_report(tmp_path: Path) -> None:
    folder, wanted = write(tmp_path), tmp_path / "index.html"
    made = building.write({"run_dir": str(folder), "title": "hall-1", "path": str(wanted)})
    report = json.loads((folder / "report.json").read_text())
    assert report == json.loads(json.dumps(build_from(str(folder), title="hall-1")))
    assert wanted.read_text() == page(report)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["report"] == made["path"] == str(wanted)
    assert made["lines"] == summary["lines"]


@pytest.mark.parametrize(
    ("case", "title"),
    [
        (Case(), "saved"),
        (Case(read_again=False), "less, as predicted"),
        (Case(comparison=False, baseline=False), "added"),
        (Case(pods=0, bound=False, baseline=False), "drawn"),
        (Case(pods=0, bound=False, baseline=False, lacking=20), "Power not known"),
    ],
)
def test_the_title_says_the_watts_and_what_they_are(tmp_path: Path, case: Case, title: str) -> None:
    [heading] = re.findall(r"<h1>(.*?)</h1>", page_of(tmp_path, case))
    assert Reader(f"<p>{heading}</p>").text.endswith(title)


@pytest.mark.parametrize(
    ("given_", "shown"),
    [
        (number(1234.5), "1,234"),
        (number(-0.3), "0"),
        (number(-3.0), "\u22123"),
        (number(0.04, 1, sign=True), "0.0"),
        (number(12.34, 1, sign=True), "+12.3"),
        (number(None), "\u2013"),
        (quantity(None, "W"), "\u2013"),
        (quantity(5, "W"), "5\u202fW"),
        (counted(1, "pod"), "1 pod"),
        (counted(2, "pod"), "2 pods"),
        (listed([]), ""),
        (listed(["a"]), "a"),
        (listed(["a", "b", "c"]), "a, b and c"),
        (listed(["a", "b", "c", "d", "e"]), "a, b, c and 2 more"),
    ],
)
def test_numbers_are_written_for_people(given_: str, shown: t.Any) -> None:
    assert given_ == shown
