# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watcher of sleeping machines: each thing that must not happen is a sentence."""

from __future__ import annotations

import itertools
import json
import typing as t

import pytest

from support.sleep_day import SleepingHall
from support.sleep_watch import MAX_WAIT_SECONDS, Bounds, Look, Watcher

Json = dict[str, t.Any]
A, B = "a", "b"


def record(phase: str, attempts: int = 1) -> str:
    return json.dumps(
        {"phase": phase, "since": "", "owner": "", "reason": "", "attempts": attempts}
    )


def machine(*resets: str, is_on: bool = True, is_up: bool = True) -> Json:
    return {"resets": list(resets), "is_on": is_on, "is_up": is_up}


def look(a: Json | None = None, **more: t.Any) -> Look:
    """Two machines; ``phases`` of tainted ones come with the annotation, unless it is given."""
    phases = more.get("phases", {})
    records = more.get("records", {name: record(phase) for name, phase in phases.items()})
    power = {A: a or machine(), B: machine()}
    cordoned = frozenset(more.get("cordoned", {B}))
    return Look(power, phases, records, cordoned, more.get("pods", {}), more.get("waiting", {}))


@pytest.fixture
def watcher() -> Watcher:
    bounds = Bounds(attempts=2, at_once=1, sleeps=1)
    return Watcher(t.cast("SleepingHall", None), frozenset({B}), frozenset({B}), bounds)


def test_a_whole_cycle_of_a_machine_is_right(watcher: Watcher) -> None:
    looks = [
        look(pods={A: {"web"}}),
        look(phases={A: "draining"}, pods={A: {"web"}}),
        look(machine("GracefulShutdown"), phases={A: "going_off"}),
        look(machine("GracefulShutdown", is_on=False, is_up=False), phases={A: "asleep"}),
        look(machine("GracefulShutdown", "On", is_up=False), phases={A: "waking"}),
        look(machine("GracefulShutdown", "On"), pods={A: {"web"}}),
    ]
    found = [one for pair in itertools.pairwise(looks) for one in watcher.compare(*pair)]
    assert found == []
    assert watcher.sleeps == {A: 1}
    assert (watcher.left(A, "asleep"), watcher.entered("awake")) == (1, 1)


OFF = machine("GracefulShutdown", is_on=False, is_up=False)
GOING = {A: "going_off"}


@pytest.mark.parametrize(
    ("before", "now", "problem"),
    [
        (look(), look(machine("GracefulShutdown")), "a was asked to shut down while awake"),
        (
            look(phases=GOING, pods={A: {"web"}}),
            look(machine("GracefulShutdown"), phases=GOING, pods={A: {"web"}}),
            "a was asked to shut down under ['web']",
        ),
        (
            look(phases=GOING),
            look(machine("GracefulShutdown", "GracefulShutdown"), phases=GOING),
            "a got GracefulShutdown 2 times at once",
        ),
        (look(), look(machine(is_on=False)), "a went off, and its Node did not say so"),
        (
            look(phases=GOING, pods={A: {"web"}}),
            look(machine(is_on=False), phases=GOING, pods={A: {"web"}}),
            "a went off under ['web']",
        ),
        (look(phases={A: "asleep"}), look(machine("On")), "a got On while awake"),
        (
            look(),
            look(phases=GOING, records={}),
            "a is tainted going_off, and its annotation is None",
        ),
        (
            look(),
            look(phases={A: "waking"}, records={A: record("waking", 3)}),
            "a is tried 3 times",
        ),
        (look(), look(phases={A: "draining", B: "going_off"}), "['a', 'b'] go off at once"),
        (look(), look(cordoned=()), "b lost the cordon of its administrator"),
    ],
)
def test_what_must_not_happen_is_told(
    watcher: Watcher, before: Look, now: Look, problem: str
) -> None:
    assert problem in list(watcher.compare(before, now))


def test_no_protected_machine_is_switched(watcher: Watcher) -> None:
    now = Look({A: machine(), B: machine("On")}, {}, {}, frozenset({B}), {}, {})
    assert "b is protected and got On" in list(watcher.compare(look(), now))


def test_a_machine_sleeps_no_more_often_than_it_may(watcher: Watcher) -> None:
    asleep = look(OFF, phases={A: "asleep"})
    assert list(watcher.compare(look(phases=GOING), asleep)) == []
    assert list(watcher.compare(look(phases=GOING), asleep)) == ["a slept 2 times"]


def test_no_pod_waits_for_long(watcher: Watcher) -> None:
    seconds = MAX_WAIT_SECONDS + 1
    watcher.clock = iter([0.0, seconds]).__next__
    waiting = look(waiting={"uid": "web"})
    assert list(watcher.compare(look(), waiting)) == []
    assert list(watcher.compare(waiting, waiting)) == [f"web has waited for {seconds:.0f} s"]
    assert watcher.longest_wait == seconds
