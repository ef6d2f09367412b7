# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the report about machines that sleep: who, why, why not, and the energy saved."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.report.building import build_from
from ansible_collections.wattwise.kube.plugins.module_utils.report.page import page
from support.report_documents import Case, write

Json = dict[str, t.Any]

CASE = Case(nodes=4, pods=8)
TIME = "2026-01-01T00:00:00Z"
COLUMNS = ("awake", "asleep", "waking", "quarantined", "needed")
NO_TIMELINE: Json = {
    "since": "1970-01-01T00:00:00Z",
    "hours": [],
    **{name: [] for name in COLUMNS},
}


def machine(name: str, phase: str, word: str, reason: str, watts: float = 110.0) -> Json:
    return {
        "name": name,
        "phase": phase,
        "word": word,
        "reason": reason,
        "power_state": "Off" if phase == "asleep" else "On",
        "watts": watts,
        "is_measured": word != "quarantined",
    }


def report(folder: Path, options: Json | None = None, **changed: t.Any) -> Json:
    path = str(write(folder, CASE))
    body: Json = {
        "time": TIME,
        "mode": "on",
        "machines": [
            machine("node-10", "awake", "needed", "It carries pods or the reserve."),
            machine("node-2", "awake", "reserve", "Without it the reserve has no <b>room</b>."),
            machine("node-3", "asleep", "asleep", "Its BMC says that it is off."),
            machine(
                "node-4", "quarantined", "quarantined", "Its Node was not ready after 3 boots."
            ),
        ],
        "transitions": [],
        "obstacle": None,
        "notes": [],
        "reserve": {"cpu": 8000.0},
        "findings": [],
        "awake": 2,
        "draining": 0,
        "going_off": 0,
        "asleep": 1,
        "waking": 0,
        "quarantined": 1,
        "saved_watts": 110.0,
        "saved_joules": 9e6,
        "cycles": 1,
        "wakes_in_time": 5,
        "wakes_late": 2,
        "timeline": NO_TIMELINE,
        "dry_run_days": [],
        **changed,
    }
    documents.write(f"{path}/sleep.json", "sleep", body)
    return build_from(path, **(options or {}))


def test_each_machine_has_a_word_and_a_sentence(tmp_path: Path) -> None:
    found = report(tmp_path)
    data = found["sections"]["sleeping"]
    names = [one["name"] for one in data["machines"]]
    assert names == ["node-3", "node-4", "node-2", "node-10"]
    assert data["saved_kilowatt_hours"] == 2.5 and data["would_sleep"] == []
    text = page(found)
    for sentence in (
        "1 machine asleep, 2 awake; sleep saves",
        "Its BMC says that it is off.",
        "Its Node was not ready after 3 boots.",
        "<b>1</b> switch to off",
        "<b>5</b> woken in time",
        '<li class="bad"><b>2</b> woken late</li>',
        "The idle draw was measured for 3 of 4 machines,",
    ):
        assert sentence in text
    assert "<b>room" not in text and "dry run" not in text
    assert "Awake machines over time" not in text


def test_notes_of_the_run_are_shown(tmp_path: Path) -> None:
    note = "Energy costs 1.30 times its mean in the next hours."
    assert f"<p>{note}</p>" in page(report(tmp_path, notes=[note]))


def test_energy_has_its_cost_where_a_price_is_given(tmp_path: Path) -> None:
    assert "saved 2.50\u202fkWh so far" in page(report(tmp_path / "without"))
    priced = report(tmp_path / "with", {"price_per_kwh": 0.3, "currency": "EUR"})
    assert "2.50\u202fkWh, worth 0.75\u202fEUR, so far" in page(priced)


def test_awake_machines_are_drawn_over_the_demand_until_the_run(tmp_path: Path) -> None:
    timeline = {
        "since": "2025-12-30T00:00:00Z",
        "hours": [0.0, 12.0, 24.0],
        "awake": [8, 3, 5],
        "asleep": [0, 4, 3],
        "waking": [0, 1, 0],
        "quarantined": [0, 0, 0],
        "needed": [2, 1, 4],
    }
    found = report(tmp_path, timeline=timeline)
    drawn = found["sections"]["sleeping"]["timeline"]
    assert (drawn["hours"], drawn["awake"]) == ([0.0, 12.0, 24.0, 48.0], [8, 3, 5, 5])
    text = page(found)
    assert "Since 2025-12-30 00:00:00 UTC, 3 to 8 machines of the fleet were awake." in text
    assert "needed at least 1 to 4" in text
    # Both lines on one scale of all eight machines.
    assert 'd="M0.0 0.0H190.0V118.8H380.0V71.2H760.0V71.2"' in text
    assert 'd="M0.0 142.5H190.0V166.2H380.0V95.0H760.0V95.0"' in text


def test_a_dry_run_tells_what_it_would_have_switched_day_by_day(tmp_path: Path) -> None:
    day = {"day": "2025-12-31", "most_asleep": 3, "watts": 288.0, "saved_joules": 1.8e7}
    off = machine("node-5", "awake", "off", "The others carry its 3 pods and the reserve.")
    obstacle = "The readings are 905 s old; nothing is switched off on old readings."
    found = report(tmp_path, mode="dry_run", machines=[off], dry_run_days=[day], obstacle=obstacle)
    assert found["sections"]["sleeping"]["would_sleep"] == ["node-5"]
    text = page(found)
    for sentence in (
        "This is a dry run: no machine is switched.",
        "1 machine would be switched off.",
        obstacle,
        "Dry runs by day",
        "2025-12-31",
        "288",
    ):
        assert sentence in text


def test_without_the_document_the_report_is_what_it_was(tmp_path: Path) -> None:
    without = build_from(str(write(tmp_path / "without", CASE)))["sections"]
    sections = report(tmp_path / "with")["sections"]
    assert {name: data for name, data in sections.items() if name != "sleeping"} == without
