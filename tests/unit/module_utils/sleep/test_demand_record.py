# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of demand stays bounded, whatever tenants create."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster import demand_record

NOW = 1_800_000_000.0


def pods(run: int, count: int) -> list[dict[str, t.Any]]:
    """Pods of which each has requests of its own."""
    return [
        {
            "metadata": {
                "name": f"p{run}-{number}",
                "namespace": "a",
                "uid": f"{run}-{number}",
                "creationTimestamp": "2027-01-15T08:00:00Z",
            },
            "spec": {
                "nodeName": "n1",
                "containers": [
                    {"resources": {"requests": {"cpu": f"{run * count + number + 1}m"}}}
                ],
            },
            "status": {"phase": "Running"},
        }
        for number in range(count)
    ]


def test_shapes_of_pods_that_are_forgotten_are_forgotten(monkeypatch: t.Any) -> None:
    monkeypatch.setattr(demand_record, "_MAX_EVENTS", 30)
    record = demand_record.SleepRecord(since=NOW, at=NOW, is_stored=True)
    for run in range(20):
        record.observe(pods(run, 10), NOW + run)
    events = len(record.arrivals) + len(record.departures)
    assert 0 < events <= 70
    assert len(record.shapes) <= events + 10
    used = {shape for _at, shape in (*record.arrivals, *record.departures)}
    assert used.union(record.present.values()) == set(range(len(record.shapes)))
    last = sorted(record.shapes[shape]["cpu"] for shape in record.present.values())
    assert last == [191.0 + number for number in range(10)]
