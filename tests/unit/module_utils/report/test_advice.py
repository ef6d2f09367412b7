# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fleet_advice_info: retirement, one more machine, the document and the page."""

from __future__ import annotations

import json
import re
import stat
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents as library
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.report.advice import write
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay import advice as replays
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay.scenario import (
    build_scenario,
)
from support.advised_fleets import documents, node, pod, trace

Json = dict[str, t.Any]
DAY_KWH = 24 / 1000
YEAR_DAYS = 365.25

NODES = (node("a", "new"), node("b", "middle"), node("c", "middle"), node("d", "old"))


def advised(folder: Path, nodes: t.Any = NODES, pods: t.Any = (), **more: t.Any) -> Json:
    given = {**documents(folder, nodes, pods), **more}
    found: Json = write(given)["advice"]
    return found


def names(advice: Json) -> list[str]:
    return [entry["name"] for entry in advice["retirement"]]


def test_the_least_efficient_machines_go_first(tmp_path: Path) -> None:
    advice = advised(tmp_path, trace=trace(tmp_path, (0, 24, 20000, 1024)))
    assert names(advice) == ["d", "b", "c"]
    # None of them had work: each saves its idle draw.
    saved = [entry["kwh_a_year"] for entry in advice["retirement"]]
    assert saved == pytest.approx(
        [120 * DAY_KWH * YEAR_DAYS, *[80 * DAY_KWH * YEAR_DAYS] * 2], 1e-3
    )
    energy = advice["kwh_a_year"]
    assert energy["awake"] - energy["remaining"] == pytest.approx(sum(saved), rel=1e-3)
    assert energy["asleep"] < energy["awake"] <= energy["today"]


def test_a_machine_that_the_peak_needs_stays(tmp_path: Path) -> None:
    pods = (0, 24, 20000, 1024), (12, 13, 15000, 1024)
    advice = advised(tmp_path, trace=trace(tmp_path, *pods))
    assert names(advice) == ["d", "b"]


def test_a_pod_that_ends_as_it_arrives_counts_at_the_peak(tmp_path: Path) -> None:
    demand = trace(tmp_path, (0, 24, 20000, 1024), (12, 12, 11000, 1024))
    assert names(advised(tmp_path, trace=demand, spare=0.0)) == ["d", "b", "c"]
    assert names(advised(tmp_path, trace=demand, spare=0.1)) == ["d", "b"]


def test_each_fleet_becomes_a_scenario_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []

    def counted(nodes: t.Any, *more: t.Any) -> t.Any:
        built.append(tuple(each.name for each in nodes))
        return build_scenario(nodes, *more)

    monkeypatch.setattr(replays, "build_scenario", counted)
    advised(tmp_path, trace=trace(tmp_path, (0, 24, 20000, 1024), (12, 13, 15000, 1024)))
    assert built.count(("a", "b", "c", "d")) == 1


def test_spare_room_keeps_machines(tmp_path: Path) -> None:
    demand = trace(tmp_path, (0, 24, 30000, 1024))
    assert names(advised(tmp_path, trace=demand, spare=0.0)) == ["d", "b", "c"]
    assert names(advised(tmp_path, trace=demand, spare=0.1)) == ["d", "b"]
    assert names(advised(tmp_path, trace=demand, spare=1.0)) == ["d"]


def test_memory_counts_as_cpu_does(tmp_path: Path) -> None:
    demand = trace(tmp_path, (0, 24, 100, 120 << 10), (0, 24, 100, 60 << 10))
    assert names(advised(tmp_path, trace=demand, spare=0.0)) == ["d", "b"]


def test_pods_that_fit_in_sum_alone_keep_a_machine(tmp_path: Path) -> None:
    pods = [(0.0, 24.0, 9000, 1024)] * 3 + [(0.0, 24.0, 4000, 1024)]
    nodes = (node("a", "middle"), node("b", "middle"), node("c", "middle"))
    # 31 cores on two machines of 16: each holds one pod of 9 cores only.
    assert names(advised(tmp_path, nodes, trace=trace(tmp_path, *pods), spare=0.0)) == []


def test_one_more_machine_saves_where_it_is_more_efficient(tmp_path: Path) -> None:
    nodes = (node("a", "new"), node("d", "old"))
    pods = (0, 24, 32000, 1024), (0, 24, 8000, 1024), (0, 24, 24000, 1024)
    advice = advised(tmp_path, nodes, trace=trace(tmp_path, *pods))
    more = {entry["type"]: entry for entry in advice["one_more"]}
    assert more["new"]["waiting_pods"] == -1
    assert more["old"]["waiting_pods"] == 0
    assert more["old"]["kwh_a_year"] == pytest.approx(120 * DAY_KWH * YEAR_DAYS, rel=1e-3)
    assert "1 pod" not in " ".join(advice["notes"])


def test_nodes_that_general_pods_cannot_use_are_left_out(tmp_path: Path) -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    unready = node("sick", "old")
    unready["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    nodes = (
        *NODES,
        node("dark", "old"),
        node("gpu", "old", taints=[taint]),
        node("cordoned", "old", unschedulable=True),
        unready,
    )
    advice = advised(tmp_path, nodes, trace=trace(tmp_path, (0, 24, 1000, 1024)))
    assert [entry["name"] for entry in advice["machines"]] == ["a", "b", "c", "d"]
    assert sorted(advice["notes"]) == [
        "1 node left out: closed to general pods by taints.",
        "1 node left out: cordoned.",
        "1 node left out: no power curve.",
        "1 node left out: not ready.",
    ]


def test_the_control_plane_stays(tmp_path: Path) -> None:
    control = node("z", "old", labels={"node-role.kubernetes.io/control-plane": ""})
    advice = advised(tmp_path, (*NODES, control), trace=trace(tmp_path, (0, 24, 1000, 1024)))
    assert "z" not in names(advice)
    [kept] = [entry for entry in advice["machines"] if entry["name"] == "z"]
    assert kept["awake_share"] == 1.0
    assert kept["protection"] == "It is part of the control plane."


def test_one_machine_always_stays(tmp_path: Path) -> None:
    advice = advised(tmp_path, (node("a", "new"),), trace=trace(tmp_path, (0, 1, 1000, 1)))
    assert names(advice) == []


def test_pods_of_daemon_sets_take_room_of_their_node(tmp_path: Path) -> None:
    nodes = (node("a", "middle"), node("b", "middle"))
    demand = trace(tmp_path, (0, 24, 14000, 1024), (0, 24, 1000, 1024))
    ordinary = [pod("web", "a", "4")]
    assert len(names(advised(tmp_path, nodes, ordinary, trace=demand, spare=0.0))) == 1
    daemons = [pod(f"agent-{name}", name, "4", "DaemonSet") for name in "ab"]
    advice = advised(tmp_path, nodes, daemons, trace=demand, spare=0.0)
    assert "1 pod fit on no machine and never ran." in advice["notes"]


def test_document_and_page_are_written_for_their_owner(tmp_path: Path) -> None:
    page, path = tmp_path / "advice.html", tmp_path / "advice.json"
    demand = trace(tmp_path, (0, 24, 20000, 1024), (3, 4, 30000, 1024))
    result = write(
        {
            **documents(tmp_path, NODES),
            "trace": demand,
            "page": str(page),
            "path": str(path),
            "title": "hall <1>",
        }
    )
    assert result["changed"] is False
    assert library.load(str(path), "advice") == json.loads(json.dumps(result["advice"]))
    text = page.read_text(encoding="utf-8")
    assert "hall &lt;1&gt;" in text
    assert "could be retired" in text
    assert not re.search(r"<script|https?://|src=|…", text)
    for each in (page, path):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    assert result["lines"][0].startswith("1 of 4 machines could be retired, which saves ")


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    given = {**documents(tmp_path, NODES), "trace": trace(tmp_path, (0, 1, 1, 1))}
    given["page"] = str(tmp_path / "no" / "advice.html")
    with pytest.raises(InvalidInput, match="Cannot write .*; make the folder"):
        write(given)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("spare", -0.1, "spare: -0.1 is not from 0 to 10"),
        ("pod_usage_assumption", float("nan"), "pod_usage_assumption: nan is not from 0.01"),
        ("boot_seconds", 1e9, "boot_seconds: 1000000000.0 is not from 0 to 7200"),
        ("standby_watts", float("inf"), "standby_watts: inf is not from 0 to 1000"),
    ],
)
def test_options_have_ranges(tmp_path: Path, option: str, value: float, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        advised(tmp_path, trace=trace(tmp_path, (0, 1, 1, 1)), **{option: value})


def test_a_trace_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"Cannot read the trace .*/missing.csv: No such file"):
        advised(tmp_path, trace=str(tmp_path / "missing.csv"))


def test_a_fleet_without_curves_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No node can be replayed: 1 node left out"):
        advised(tmp_path, (node("dark", "old"),), trace=trace(tmp_path, (0, 1, 1, 1)))


def test_demand_that_fits_nowhere_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No pod of the demand fits on any machine"):
        advised(tmp_path, trace=trace(tmp_path, (0, 1, 100000, 1)))
