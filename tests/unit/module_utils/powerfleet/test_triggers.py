# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reasons for a run: events are served once, and never starve the reading of machines."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import (
    REQUESTED_AT,
    REQUESTED_FOR,
    PowerFleet,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.triggers import (
    Memory,
    Trigger,
    trigger_of,
)
from support.power_fleets import manifest, parsed

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def asked(at: str, what: str = "pods", generation: int = 1) -> PowerFleet:
    made = manifest()
    made["metadata"]["annotations"] = {REQUESTED_AT: at, REQUESTED_FOR: what}
    made["metadata"]["generation"] = generation
    return parsed(made)


def later(seconds: float) -> datetime.datetime:
    return NOW + datetime.timedelta(seconds=seconds)


def remembered(fleet: PowerFleet) -> Memory:
    return Memory().after(fleet, Trigger("start"), NOW, succeeded=True)


def test_without_a_memory_everything_is_done() -> None:
    assert trigger_of(asked("1"), Memory(), NOW) == Trigger("start")
    other = Memory(uid="another", generation=1, request="0", whole_at=NOW)
    assert trigger_of(asked("1"), other, NOW) == Trigger("start")


def test_a_request_is_served_once() -> None:
    memory = remembered(asked("1"))
    assert trigger_of(asked("1"), memory, later(10)).name == "interval"
    served = trigger_of(asked("2"), memory, later(10))
    assert served == Trigger("pods", frozenset({"pods"}))
    memory = memory.after(asked("2"), served, later(10), succeeded=False)
    assert memory.whole_at == NOW
    assert trigger_of(asked("2"), memory, later(20)).is_whole


def test_requests_without_end_do_not_keep_the_machines_from_being_read() -> None:
    memory = remembered(asked("1"))
    assert not trigger_of(asked("2"), memory, later(119)).is_whole
    assert trigger_of(asked("2"), memory, later(121)) == Trigger("interval")


def test_another_generation_is_a_whole_run() -> None:
    assert trigger_of(asked("2", generation=2), remembered(asked("1")), later(1)) == Trigger("spec")


@pytest.mark.parametrize(
    ("what", "name", "renders", "refreshes"),
    [
        ("pods", "pods", False, False),
        ("nodes", "nodes", True, False),
        ("node-configs", "node-configs", True, False),
        ("rmd,pods", "pods,rmd", False, True),
        ("rmd, nodes , nonsense", "nodes,rmd", True, True),
    ],
)
def test_a_request_says_what_is_done_beside_placing(
    what: str, name: str, renders: bool, refreshes: bool
) -> None:
    found = trigger_of(asked("2", what), remembered(asked("1")), later(1))
    assert (found.name, found.renders, found.refreshes_rmd) == (name, renders, refreshes)


@pytest.mark.parametrize("what", ["", "everything", "{{ 1 }}", "pod" * 100_000, "\x00"])
def test_a_request_for_nothing_that_is_known_is_a_whole_run(what: str) -> None:
    assert trigger_of(asked("2", what), remembered(asked("1")), later(1)) == Trigger("interval")


def test_the_memory_outlives_the_process_and_a_broken_file_is_none(tmp_path: Path) -> None:
    memory = remembered(asked("{{ odd }} \u2603"))
    memory.write(tmp_path)
    assert Memory.read(tmp_path) == memory
    for content in ("", "[]", "{}", '{"uid": 1}', "\x00", "null"):
        (tmp_path / "power-fleet.json").write_text(content, encoding="utf-8")
        assert Memory.read(tmp_path) == Memory()
    with pytest.raises(InvalidInput, match="check the run folder"):
        memory.write(tmp_path / "missing")
