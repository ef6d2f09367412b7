# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cache ways and devices in the report: pictures, texts, and omissions."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.report.building import build_from
from ansible_collections.wattwise.kube.plugins.module_utils.report.page import MAX_PAGE, page
from ansible_collections.wattwise.kube.plugins.module_utils.report.parts import colour, letter
from support.report_documents import Case, write


def sections_of(folder: Path, case: Case) -> dict[str, t.Any]:
    found: dict[str, t.Any] = build_from(str(write(folder, case)))["sections"]
    return found


def html_of(folder: Path, case: Case) -> str:
    return page(build_from(str(write(folder, case))))


def section_of(html: str, name: str) -> str:
    [found] = re.findall(rf'<section id="{name}".*?</section>', html, re.DOTALL)
    return str(found)


def test_without_daemons_the_report_says_nothing_of_caches(tmp_path: Path) -> None:
    assert "cache_ways" not in sections_of(tmp_path, Case())


def test_nodes_whose_free_ways_lie_apart_come_first(tmp_path: Path) -> None:
    ways = sections_of(tmp_path, Case(daemons=6))["cache_ways"]
    assert [node["node"] for node in ways["nodes"]] == ["r3-n01", "r1-n02", "r2-n01"]
    [first, _second] = ways["nodes"][0]["caches"]
    assert (first["guaranteed"], first["free"], first["longest_run"]) == (10, 6, 3)
    assert (ways["daemons"], ways["silent"]) == (5, ["r2-n02"])


def test_ways_are_drawn_to_scale_and_told_in_words(tmp_path: Path) -> None:
    drawn = section_of(html_of(tmp_path, Case(daemons=6)), "cache_ways")
    assert "Free ways are not contiguous on r3-n01" in drawn
    assert "No answer from r2-n02" in drawn
    [words, *_others] = re.findall('aria-label="(way.*?)"', drawn)
    assert words == (
        "way 0 of the operating system; ways 1 to 3 free, guaranteed; ways 4 to 5, guaranteed: B; "
        "ways 6 to 8 free, guaranteed; ways 9 to 10, guaranteed: A; ways 11 to 13 free, best "
        "effort; ways 14 to 17, best effort: C; ways 18 to 19, shared: D"
    )
    widths = [float(width) for width in re.findall(r'width="([\d.]+)"', drawn.split("</svg>")[4])]
    assert [(width + 1) / 16 for width in widths] == [1, 3, 2, 3, 2, 3, 4, 2]
    assert "workload 4 from another source" in drawn
    assert drawn.count('class="unknown"') == 2  # in the legend and on the node that lost one


def test_where_nothing_is_held_one_idle_node_of_each_kind_is_drawn(tmp_path: Path) -> None:
    folder = write(tmp_path, Case(daemons=2))
    rmd = documents.load(str(folder / "rmd.json"), "rmd")
    [idle] = rmd["daemons"].values()
    small = {**idle, "caches": idle["caches"][:1]}
    daemons = {"n1": idle, "n2": small, "n3": small, "n4": small}
    documents.write(str(folder / "rmd.json"), "rmd", {**rmd, "daemons": daemons})
    drawn = section_of(page(build_from(str(folder))), "cache_ways")
    assert "No workload holds cache ways on 4 nodes with RMD" in drawn
    assert re.findall("<h3>(.*?)</h3>", drawn) == ["n2 and 2 nodes like it", "n1"]
    assert drawn.count("<figure") == 3 and "<table" not in drawn


@pytest.mark.parametrize(("number", "shown"), [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ")])
def test_holders_have_letters_and_neighbours_other_colours(number: int, shown: str) -> None:
    assert letter(number) == shown
    assert colour(shown) == f"h{number % 4}"


def test_without_device_objects_the_report_says_nothing_of_devices(tmp_path: Path) -> None:
    assert "devices" not in sections_of(tmp_path, Case())


def test_devices_are_counted_by_driver_and_a_divided_one_counts_once(tmp_path: Path) -> None:
    devices = sections_of(tmp_path, Case(devices=4))["devices"]
    counted = ("driver", "nodes", "devices", "used", "unusable", "parts")
    assert [tuple(entry[name] for name in counted) for entry in devices["drivers"]] == [
        ("fpga.example.com", 4, 4, 0, 4, 0),
        ("gpu.example.com", 4, 16, 4, 0, 4),
        ("nic.example.com", 4, 4, 2, 0, 2),
    ]
    assert [node["node"] for node in devices["nodes"]] == ["r1-n01", "r3-n01"]


def test_partitions_of_a_gpu_are_drawn_to_scale(tmp_path: Path) -> None:
    drawn = section_of(html_of(tmp_path, Case(devices=1)), "devices")
    [gpu] = re.findall("<figure>(?:(?!<figure>).)*gpu-0</b>25Gi of 40Gi memory in use", drawn)
    boxes = re.findall(r'<rect x="([\d.]+)" y="0.5" width="([\d.]+)" .*? class="(\w+)"/>', gpu)
    # 8 slices are 256 wide: all of them as free, slice 0 and slices 4 to 7 on top
    assert [(float(x), float(width), kind) for x, width, kind in boxes[-3:]] == [
        (0.5, 255, "free"), (0.5, 31, "h1"), (128.5, 127, "h0"),
    ]  # fmt: skip
    assert "gpu-0-mig-3g-20gb-4 in slices from 4: A" in gpu
    assert "1 more that can be divided is free." in drawn


def test_the_newest_snapshot_with_device_objects_counts(tmp_path: Path) -> None:
    folder = write(tmp_path, Case(devices=2))
    snapshot = documents.load(str(folder / "snapshot.json"), "snapshot")
    held = documents.load(str(folder / "devices.json"), "snapshot")["device_objects"]
    free = [item for item in held if item["kind"] != "ResourceClaim"]
    later = {**snapshot, "device_objects": free, "time": "2026-01-31T13:00:00Z"}
    documents.write(str(folder / "snapshot.json"), "snapshot", later)
    devices = build_from(str(folder))["sections"]["devices"]
    assert (devices["time"], devices["nodes"]) == ("2026-01-31T13:00:00Z", [])


@pytest.mark.large
def test_of_a_large_fleet_some_nodes_are_drawn_and_all_are_listed(tmp_path: Path) -> None:
    case = Case(nodes=1000, racks=25, pods=10_000, daemons=1000, devices=300)
    html = html_of(tmp_path, case)
    assert len(html.encode()) <= MAX_PAGE
    ways = section_of(html, "cache_ways")
    assert "24 are drawn, the table has them all" in ways
    assert (ways.count('<div class="card">'), ways.count("<tr>")) == (24, 1 + 666)
    drawn = section_of(html, "devices")
    assert drawn.count('<div class="card">') == 24
    assert drawn.count("<tr>") == 1 + 3 + 1 + 150
    assert "24 nodes are drawn, the table has all that are in use" in drawn
