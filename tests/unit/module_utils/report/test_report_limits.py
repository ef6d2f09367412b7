# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the report about limits: draw against them, caps, evictions, and dry runs."""

from __future__ import annotations

import html
import re
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.report import building
from ansible_collections.wattwise.kube.plugins.module_utils.report.building import build_from
from ansible_collections.wattwise.kube.plugins.module_utils.report.page import page
from support.report_documents import READ_AGAIN, Case, write
from support.report_limits import cap, domain, eviction, inlet, limits_document

Json = dict[str, t.Any]

CASE = Case(nodes=4, pods=8, racks=2)
NODES = ["r1-n01", "r2-n01", "r1-n02"]
EMPTY: Json = {"domains": [], "changes": [], "caps": [], "evictions": []}


def folder_of(folder: Path, body: Json, time: str = READ_AGAIN) -> Path:
    path = write(folder, CASE)
    documents.write(str(path / "limits.json"), "limits", {"time": time, **body})
    return path


def report(folder: Path, **changed: t.Any) -> Json:
    body = {**limits_document(["r1", "r2"], NODES), **changed}
    return build_from(str(folder_of(folder, body)))


def rows(text: str) -> list[list[str]]:
    """The text of the cells of each row of the section."""
    section = re.search(r'<section id="limits".*?</section>', text, re.DOTALL)
    assert section is not None
    return [
        [
            html.unescape(re.sub("<.*?>", "", cell)).replace("\u202f", " ")
            for cell in re.findall(r"<t[dh].*?>(.*?)</t[dh]>", row)
        ]
        for row in re.findall("<tr>(.*?)</tr>", section.group())
    ]


def test_each_limit_has_its_draw_its_distance_and_its_state_the_tightest_first(
    tmp_path: Path,
) -> None:
    found = report(tmp_path)
    data = found["sections"]["limits"]
    assert [(one["kind"], one["name"], one["share"]) for one in data["domains"]] == [
        ("node", "r1-n01", 1.0467),
        ("rack", "r1", 1.0401),
        ("inlet", "r1", 0.9857),
        ("inlet", "r2", 0.95),
        ("fleet", "", 0.7583),
        ("rack", "r2", 0.34),
    ]
    text = page(found)
    assert "2 of 6 limits exceeded, 1 unknown, 2 machines with a cap, 1 pod evicted." in text
    assert rows(text)[1:7] == [
        ["node r1-n01", "21 W above", "471 W", "450 W", "above; no cap covers 12 W", "1"],
        ["rack r1", "120 W above", "3,120 W", "3,000 W", "above", ""],
        ["inlet of rack r1", "0.4 °C below", "27.6 °C", "28.0 °C", "within", ""],
        [
            *("inlet of rack r2", "1.4 °C below", "26.6 °C", "28.0 °C"),
            *("reduced; may draw 2,700 W, draws 2,650 W", ""),
        ],
        ["fleet", "2,900 W below", "9,100 W", "12,000 W", "within", ""],
        ["rack r2", "–", "at least 1,020 W", "3,000 W", "unknown; readings are missing", ""],
    ]
    # All bars have the scale of the largest share, with the limit at 1 of 1.0467.
    assert text.count('class="limit" style="left:95.54%"') == 6
    assert 'class="fill other" style="width:100.00%"' in text
    assert 'class="fill base" style="width:32.48%"' in text
    assert "dry run" not in text


def test_machines_and_pods_have_their_outcome(tmp_path: Path) -> None:
    found = report(tmp_path)
    assert found["sections"]["limits"]["machines"][1:] == [
        {"name": "r1-n02", "cap": cap("r1-n02", 300.0, 500.0), "change": None},
        {
            **{"name": "r2-n01", "cap": None},
            "change": {"name": "r2-n01", "watts": 380.0, "done": False},
        },
    ]
    assert rows(page(found))[7:] == [
        ["Machine", "Cap", "Before", "This run"],
        ["r1-n01", "440 W", "no limit", "changed to 440 W"],
        ["r1-n02", "300 W", "500 W", "unchanged"],
        ["r2-n01", "none", "–", "not changed to 380 W"],
        ["Pod", "Node", "Priority", "Limit of", "Outcome"],
        ["shop/batch-1", "r1-n01", "−10", "rack r1", "evicted"],
        ["shop/batch-2", "r2-n01", "−10", "rack r1", "refused: a budget says no"],
    ]


def test_a_dry_run_says_that_nothing_is_changed(tmp_path: Path) -> None:
    planned = eviction("batch-1", "r1-n01", "inlet", "r1", "planned")
    changes = [
        {"name": "r1-n01", "watts": 440.0, "done": False},
        {"name": "r1-n02", "watts": None, "done": False},
    ]
    # Evictions are only told where caps are a dry run.
    text = page(
        report(
            tmp_path,
            **{"cap": "dry_run", "evict": "on", "changes": changes},
            **{"caps": [cap("r1-n02", 300.0, None)], "evictions": [planned]},
        )
    )
    assert "<p>Caps are a dry run: no BMC gets a limit.</p>" in text
    assert "<p>Evictions are a dry run: no pod leaves.</p>" in text
    assert "1 machine with a cap, 1 pod would be evicted." in text
    assert rows(text)[8:] == [
        ["r1-n01", "none", "–", "dry run: would change to 440 W"],
        ["r1-n02", "300 W", "no limit", "dry run: would change to no limit"],
        ["Pod", "Node", "Priority", "Limit of", "Outcome"],
        ["shop/batch-1", "r1-n01", "−10", "inlet of rack r1", "dry run: would be evicted"],
    ]


def test_an_inlet_without_a_remedy_or_a_reading_says_so(tmp_path: Path) -> None:
    hot, silent = inlet("r1", 30.0, 28.0, "above"), inlet("r2", None, 28.0, "unknown")
    text = page(report(tmp_path, cap="off", evict="off", domains=[silent, hot], caps=[]))
    assert "<p>Caps are off: no machine gets one.</p>" in text
    assert "1 of 2 limits exceeded, 1 unknown, 1 pod evicted." in text
    assert [row[:1] + row[4:5] for row in rows(text)[1:3]] == [
        ["inlet of rack r1", "above; nothing reduces its power"],
        ["inlet of rack r2", "unknown; readings are missing"],
    ]
    assert "Evictions are" not in text


def test_fifty_limits_are_drawn_and_the_others_counted(tmp_path: Path) -> None:
    domains = [domain("rack", f"r{number}", 1000.0, float(number)) for number in range(60)]
    found = report(tmp_path, domains=domains)
    assert len(found["sections"]["limits"]["domains"]) == 60
    text = page(found)
    names = [row[0] for row in rows(text) if row[0].startswith("rack ")]
    assert names == [f"rack r{number}" for number in range(59, 9, -1)]
    assert "10 more limits are in report.json." in text


def test_a_domain_far_above_its_limit_hides_no_other(tmp_path: Path) -> None:
    domains = [domain("rack", "r1", 1.0, 900.0, "above"), domain("rack", "r2", 1000.0, 750.0)]
    text = page(report(tmp_path, domains=domains))
    assert 'class="fill ours" style="width:50.00%"' in text
    assert text.count('class="limit" style="left:66.67%"') == 2


def test_an_earlier_run_is_named(tmp_path: Path) -> None:
    body = limits_document(["r1", "r2"], NODES)
    sentence = "The last run did not look at limits; an earlier one found this."
    assert sentence not in page(report(tmp_path / "this"))
    older = page(build_from(str(folder_of(tmp_path / "older", body, "2026-01-30T12:00:00Z"))))
    assert sentence in older and "Run of 2026-01-30 12:00:00 UTC." in older


def test_without_limits_the_report_is_what_it_was(tmp_path: Path) -> None:
    without = build_from(str(write(tmp_path / "without", CASE)))
    assert report(tmp_path / "none", **EMPTY) == without
    sections = report(tmp_path / "with")["sections"]
    assert {name: data for name, data in sections.items() if name != "limits"} == without[
        "sections"
    ]
    ended = report(tmp_path / "ended", **{**EMPTY, "caps": [cap("r1-n01", 300.0, None)]})
    assert "No limit holds any more, 1 machine with a cap." in page(ended)


def test_the_report_document_with_limits_keeps_its_schema(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, limits_document(["r1", "r2"], NODES))
    building.write({"run_dir": str(folder)})
    written = documents.load(str(folder / "report.json"), "report")
    assert written["sections"]["limits"]["cap"] == "on"
