# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the report about power draw of namespaces and workloads."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.report.building import build_from
from ansible_collections.wattwise.kube.plugins.module_utils.report.page import page
from support.report_documents import Case, write

Json = dict[str, t.Any]

CASE = Case(nodes=4, pods=8, metered=3)


def test_without_metering_the_report_says_nothing_of_namespaces(tmp_path: Path) -> None:
    report = build_from(str(write(tmp_path, Case(nodes=4, pods=8))))
    assert "metering" not in report["sections"]
    assert "Power by namespace" not in page(report)


def test_watts_are_summed_by_namespace_and_workload_the_most_first(tmp_path: Path) -> None:
    data = build_from(str(write(tmp_path, CASE)))["sections"]["metering"]
    assert [(one["namespace"], one["watts"], one["pods"]) for one in data["namespaces"]] == [
        ("shop", 45.0, 6),
        ("db", 3.0, 3),
    ]
    assert [(one["workload"], one["watts"], one["dram_watts"]) for one in data["workloads"]] == [
        ("web", 30.0, 3.0),
        ("cart", 15.0, 1.5),
        ("pg", 3.0, 0.3),
    ]
    assert (data["watts"], data["pods"], data["failed"]) == (48.0, 9, 1)


def test_nodes_show_what_no_pod_has_and_a_dash_without_a_bmc(tmp_path: Path) -> None:
    report = build_from(str(write(tmp_path, CASE)))
    first, second, _third = report["sections"]["metering"]["nodes"]
    assert [first[key] for key in ("pods_watts", "rapl_watts", "measured_watts")] == [16, 58, 98]
    assert first["difference_watts"] == 40.0
    assert (second["measured_watts"], second["difference_watts"]) == (None, None)


def test_metered_watts_change_no_other_part(tmp_path: Path) -> None:
    with_it = build_from(str(write(tmp_path / "with", CASE)))["sections"]
    without = build_from(str(write(tmp_path / "without", Case(nodes=4, pods=8))))["sections"]
    assert {name: data for name, data in with_it.items() if name != "metering"} == without


@pytest.mark.parametrize("currency", ["EUR", ""])
def test_energy_and_cost_are_shown_with_a_price_alone(tmp_path: Path, currency: str) -> None:
    folder = str(write(tmp_path, CASE))
    assert "kWh" not in page(build_from(folder))
    report = build_from(folder, price_per_kwh=0.5, currency=currency)
    shop = report["sections"]["metering"]["namespaces"][0]
    assert (shop["kwh"], shop["cost"]) == (32.4, 16.2)
    html = page(report)
    assert "32.4\u202fkWh" in html
    assert (f"16.20\u202f{currency}" if currency else ">16.20<") in html
    assert report["sections"]["metering"]["energy"]["basis"] == "estimated"
    assert ">Energy of 30 days, estimated<" in html and ">Cost, estimated<" in html
    assert "No energy was counted yet" in html


def counted(folder: Path) -> str:
    """The folder of a report whose metering counted energy in two parts of 90 minutes."""
    path = write(folder, CASE) / "metering.json"
    document = json.loads(path.read_text())

    def part(begin: str, end: str, *joules: tuple[str, str, str, float]) -> Json:
        names = ("namespace", "workload_kind", "workload", "joules")
        workloads = [dict(zip(names, one, strict=True)) for one in joules]
        return {
            "begin": f"2026-01-31T{begin}Z",
            "end": f"2026-01-31T{end}Z",
            "workloads": workloads,
        }

    web, ended = ("shop", "Deployment", "web"), ("shop", "", "")
    document["energy"] = [
        part("09:00:00", "10:30:00", (*web, 3.6e6), ("batch", "", "", 1.8e6)),
        part("10:30:00", "12:00:00", (*web, 3.6e6), (*ended, 7.2e6)),
    ]
    path.write_text(json.dumps(document))
    return str(path.parent)


def test_counted_energy_is_shown_with_its_period_and_never_mixed_with_an_estimate(
    tmp_path: Path,
) -> None:
    report = build_from(counted(tmp_path), price_per_kwh=0.5, currency="EUR")
    data = report["sections"]["metering"]
    assert (data["energy"]["basis"], data["energy"]["seconds"]) == ("counted", 3 * 3600)
    assert data["energy"]["kwh"] == 4.5
    figures = [
        (one["namespace"], one["watts"], one["kwh"], one["cost"]) for one in data["namespaces"]
    ]
    # Nothing was counted for the pods of db, and those of batch have ended.
    assert figures == [
        ("shop", 45.0, 4.0, 2.0),
        ("db", 3.0, None, None),
        ("batch", 0.0, 0.5, 0.25),
    ]
    of_workloads = [(one["namespace"], one["workload"], one["kwh"]) for one in data["workloads"]]
    assert of_workloads == [
        *(("shop", "web", 2.0), ("shop", "cart", None), ("db", "pg", None)),
        *(("shop", "", 2.0), ("batch", "", 0.5)),
    ]
    html = page(report)
    assert (
        "in 9 pods of 2 namespaces, on 3 of 4 nodes. Pods used 4.500\u202fkWh in 3\u202fh." in html
    )
    assert ">Energy of 3\u202fh, counted<" in html and ">Cost, counted<" in html
    assert "from 2026-01-31 09:00:00 UTC to 2026-01-31 12:00:00 UTC" in html
    assert "estimate" not in html[html.index("Power by namespace") : html.index("Whole machine")]
    assert "shop, pods that have ended" in html
    # Invalid times leave an estimate.
    path = tmp_path / "metering.json"
    path.write_text(path.read_text().replace("T12:00:00Z", "T99:00:00Z"))
    assert build_from(str(tmp_path))["sections"]["metering"]["energy"]["basis"] == "estimated"
    # Without a price there is only energy.
    without = page(build_from(counted(tmp_path / "without")))
    assert ">Energy of 3\u202fh, counted<" in without and "Cost" not in without


def test_the_part_is_told_in_words_with_headings(tmp_path: Path) -> None:
    text = page(build_from(str(write(tmp_path, CASE))))
    assert "48.0\u202fW of package and memory in 9 pods of 2 namespaces, on 3 of 4 nodes." in text
    assert "shop/web (Deployment)" in text
    assert text.count(">Whole machine</th>") == 1
    assert "1 meter gave no or not all power" in text
