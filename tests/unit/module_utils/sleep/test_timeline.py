# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The timeline of awake machines stays short, and says what the pods needed."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.demand_record import (
    SleepRecord,
    record_of_body,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.node_changes import TAINT
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.timeline import (
    Counts,
    as_columns,
    counts_of,
    with_counts,
)

Json = dict[str, t.Any]
NOW = 1_800_000_000.0
FIRST = Counts(NOW, 4, 0, 0, 0, 2)


def node(name: str, cpu: str, phase: str | None = None) -> Json:
    taints = [] if phase is None else [{"key": TAINT, "value": phase, "effect": "NoSchedule"}]
    return {
        "metadata": {"name": name},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}},
    }


def pod(cpu: str, memory: str = "1Gi", kind: str = "ReplicaSet", phase: str = "Running") -> Json:
    owner = {"kind": kind, "name": "x", "uid": "x", "controller": True}
    requests = {"requests": {"cpu": cpu, "memory": memory}}
    return {
        "metadata": {"name": "p", "namespace": "a", "ownerReferences": [owner]},
        "spec": {"containers": [{"resources": requests}]},
        "status": {"phase": phase},
    }


def test_machines_count_by_phase_and_demand_in_the_largest_machines() -> None:
    phases = ("draining", "going_off", "asleep", "waking", "quarantined", None)
    nodes = [node(f"n{number}", "8", phase) for number, phase in enumerate(phases)]
    nodes.append({"metadata": {"name": "hostile"}, "status": {"allocatable": {"cpu": ["x"]}}})
    pods = [pod("6"), pod("6"), pod("6"), pod("6", kind="DaemonSet"), pod("6", phase="Failed")]
    found = counts_of(nodes, [*pods, {"metadata": {}, "spec": 1}], NOW)
    assert found == Counts(NOW, awake=4, asleep=1, waking=1, quarantined=1, needed=3)
    by_memory = counts_of(nodes, [pod("1m", "100Gi"), pod("1m", "100Gi")], NOW)
    assert by_memory.needed == 4
    assert counts_of([], [pod("1")], NOW).needed == 0


def test_one_entry_a_quarter_of_an_hour_has_its_last_counts_and_largest_demand() -> None:
    assert with_counts([], FIRST) == [FIRST]
    busier = replace(FIRST, at=NOW + 300, awake=3, needed=3)
    quieter = replace(busier, at=NOW + 600, awake=2, asleep=2, needed=1)
    found = with_counts(with_counts([FIRST], busier), quieter)
    assert found == [replace(quieter, at=NOW, needed=3)]
    later = replace(FIRST, at=NOW + 3600)
    assert with_counts([FIRST], later) == [FIRST]
    assert with_counts(found, later) == [*found, later]


def test_a_year_of_runs_leaves_two_weeks() -> None:
    timeline: list[Counts] = []
    for number in range(365 * 24):
        timeline = with_counts(timeline, replace(FIRST, at=NOW + 3600 * number, needed=number % 3))
    assert len(timeline) == 14 * 24
    columns = as_columns(timeline)
    assert {len(values) for name, values in columns.items() if name != "since"} == {14 * 24}
    assert (columns["hours"][0], columns["hours"][-1]) == (0.0, 14 * 24 - 1)
    assert as_columns([])["hours"] == []


def test_the_record_keeps_the_timeline_and_changes_with_it_only() -> None:
    record = SleepRecord(since=NOW, at=NOW, is_stored=True)
    record.note_counts(FIRST)
    assert record.is_changed
    read = record_of_body(record.as_body(), NOW)
    assert read.timeline == [FIRST]
    for seconds in (300.0, 900.0, 1800.0):
        read.note_counts(replace(FIRST, at=NOW + seconds))
    assert not read.is_changed
