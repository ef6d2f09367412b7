# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PowerFleets as an API server stores them: every default of the CRD is filled in."""

from __future__ import annotations

import copy
import datetime
import typing as t
from dataclasses import replace
from functools import cache
from pathlib import Path

import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.ownership import divide
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import (
    API_VERSION,
    PowerFleet,
    parse,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.status import Outcome
from support.binding_api import node

Json = dict[str, t.Any]

DEFINITION = (
    Path(__file__).resolve().parents[2] / "roles/crds/files/wattwise.github.io_powerfleets.yaml"
)

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
SUMMARY: Json = {
    "configured": 2,
    "fresh": 2,
    "stale": 0,
    "failed": 0,
    "hottest_node": "n1",
    "hottest_inlet_celsius": 24.26,
    "measured_nodes": 2,
    "measured_watts": 400.0,
    "watts": {"before": 400.0, "after": 410.04, "lower_bound": 409.96},
    "gap": 0.001,
    "bound": 1,
}
LIMITING: Json = {
    "cap": "on",
    "evict": "dry_run",
    "capped": ["n1", "n2"],
    "evicted": 0,
    "domains": [
        {
            "kind": "fleet",
            "name": "",
            "limit_watts": 9000.0,
            "watts": 7000.0,
            "state": "within",
            "uncovered_watts": 0.0,
            "capped": 2,
            "evicted": 0,
        },
        {
            "kind": "rack",
            "name": "r1",
            "limit_watts": 4000.0,
            "watts": 4120.5,
            "state": "above",
            "uncovered_watts": 40.0,
            "capped": 2,
            "evicted": 0,
        },
    ],
}
INLET: Json = {
    "kind": "inlet",
    "name": "r1",
    "limit_watts": 3900.0,
    "limit_celsius": 32.0,
    "celsius": 34.4,
    "watts": 3880.0,
    "state": "above",
    "uncovered_watts": 0.0,
    "capped": 2,
    "evicted": 0,
}
SLEEP: Json = {
    "mode": "on",
    "awake": 3,
    "draining": 1,
    "going_off": 1,
    "asleep": 2,
    "waking": 0,
    "quarantined": 1,
    "reserve": {"cpu": 8000.0, "memory": 1e9},
    "switched": 1,
    "saved_watts": 220.5,
    "saved_joules": 7.2e6,
    "cycles": 7,
    "wakes_in_time": 5,
    "wakes_late": 1,
    "obstacle": None,
}


@cache
def schema(part: str = "spec") -> Json:
    """The schema of spec or status."""
    definition = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))
    [version] = definition["spec"]["versions"]
    return t.cast("Json", version["schema"]["openAPIV3Schema"]["properties"][part])


def defaulted(of: Json, given: t.Any) -> t.Any:
    """A value completed with the defaults of its schema, as by the API server."""
    if not isinstance(given, dict):
        return given
    filled = dict(given)
    for name, member in of.get("properties", {}).items():
        if name not in filled and "default" in member:
            filled[name] = copy.deepcopy(member["default"])
        if name in filled:
            filled[name] = defaulted(member, filled[name])
    return filled


def manifest(name: str = "fleet", created: str = "2026-01-01T00:00:00Z", **spec: t.Any) -> Json:
    """A stored PowerFleet; keyword arguments are those of its spec."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PowerFleet",
        "metadata": {
            "name": name,
            "namespace": "power",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": created,
        },
        "spec": defaulted(schema(), spec),
    }


def parsed(obj: Json) -> PowerFleet:
    """The parsed fleet, which must be readable."""
    fleet = parse(obj)
    assert isinstance(fleet, PowerFleet), fleet
    return fleet


def fleet(name: str = "fleet", created: str = "2026-01-01T00:00:00Z", **spec: t.Any) -> PowerFleet:
    return parsed(manifest(name, created, **spec))


def outcome(**parts: t.Any) -> Outcome:
    """The outcome of a successful run, except for these parts."""
    given = Outcome(
        trigger="interval",
        began=NOW,
        seconds=2.04,
        steps=[{"name": "snapshot", "seconds": 0.11}],
        ownership=divide([fleet()], [node("n1"), node("n2")], []),
        summary=SUMMARY,
        errors=[],
        unplaced=[],
        waiting=1,
    )
    summary = {**SUMMARY, **parts.pop("summary", {})}
    return replace(given, summary=summary, **parts)
