# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the report about watts of namespaces and workloads."""

from __future__ import annotations

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
    assert "Watts by namespace" not in page(report)


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


def test_the_part_is_told_in_words_with_headings(tmp_path: Path) -> None:
    text = page(build_from(str(write(tmp_path, CASE))))
    assert "48.0\u202fW of package and memory in 9 pods of 2 namespaces, on 3 of 4 nodes." in text
    assert "shop/web (Deployment)" in text
    assert text.count(">Whole machine</th>") == 1
    assert "1 meter gave no or not all watts" in text
