# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The row sleep: its figures, and the page and plots that are made of its runs."""

from __future__ import annotations

import dataclasses
import re
from xml.etree import ElementTree

import pytest

from bench import sleep
from bench.kit import sleep_page, sleep_runs
from bench.kit.sleep_runs import BASELINE, OPTIMUM, OURS, POLICIES, Case, Run
from support.sleep_fleets import DEMAND, recorded_demand


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    """All policies on three machines for a day."""
    case = dataclasses.asdict(Case(3, "mixed", days=1))
    return [
        Run.from_json(sleep_runs.replay({"case": case, "policy": name}))
        for name in [*POLICIES, OPTIMUM]
    ]


def test_each_policy_has_a_line_and_each_plot_is_drawn(runs: list[Run]) -> None:
    details = sleep_page.details_of(runs)
    assert {each["policy"] for each in details if each["hours"]} == set(sleep_page.DRAWN)
    made = sleep_page.pages(details)
    text = made["project/sleep-performance.md"]
    assert "## 3 machines, mixed demand" in text
    for name in [*POLICIES, OPTIMUM]:
        assert f"\n| {name} | " in text
    images = re.findall(r"\(\.\./(images/[\w-]+\.svg)\)", text)
    assert sorted(images) == sorted(set(made) - {"project/sleep-performance.md"})
    for name in images:
        assert ElementTree.fromstring(made[name]).tag.endswith("svg")


def test_the_optimum_saves_most(runs: list[Run]) -> None:
    [table] = sleep_runs.named(runs).values()
    for name in POLICIES:
        if not table[name].longest_seconds and not table[name].unplaced:
            assert table[OPTIMUM].joules <= table[name].joules


def test_a_rule_is_ahead_only_in_both(runs: list[Run]) -> None:
    ours = dataclasses.replace(runs[0], joules=100.0, share_waiting=0.1)
    ahead = dataclasses.replace(ours, joules=90.0, share_waiting=0.05)
    assert sleep.is_ahead(ahead, ours)
    assert not sleep.is_ahead(dataclasses.replace(ahead, joules=110.0), ours)
    assert not sleep.is_ahead(dataclasses.replace(ahead, share_waiting=0.1), ours)


def test_the_recorded_demand_is_optional(monkeypatch: pytest.MonkeyPatch, runs: list[Run]) -> None:
    monkeypatch.delenv(DEMAND, raising=False)
    assert recorded_demand() is None
    names = {run.policy for run in runs}
    assert {BASELINE, OURS} <= names
