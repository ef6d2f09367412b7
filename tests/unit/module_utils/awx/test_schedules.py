# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recurrences of schedules: what AWX refuses is refused before, and nothing else."""

from __future__ import annotations

import random
import zoneinfo

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.awx.workflow import (
    problem_of_recurrence,
)
from lab.awx.schedules import problems_of_recurrence
from support.examples import each_seed

START = "DTSTART:20300308T050000Z"
LOCAL = "DTSTART;TZID=Europe/Berlin:20300308T050000"
DAILY = "RRULE:FREQ=DAILY;INTERVAL=1"


@pytest.mark.parametrize(
    "text",
    [
        "DTSTART:20260101T000000Z RRULE:FREQ=MINUTELY;INTERVAL=15",
        f"{LOCAL} {DAILY}",
        f"DTSTART;TZID=UTC:20210101T0700 {DAILY}",
        f"{START} {DAILY};COUNT=999",
        f"{START} {DAILY};UNTIL=20310101T000000Z",
        f"{LOCAL} {DAILY};UNTIL=20310101T000000",
        f"{START} {DAILY};UNTIL=20310101T000000",
        f"{START} {DAILY};BYDAY=MO,TU;WKST=SU",
        f"{START} RRULE:FREQ=MONTHLY;INTERVAL=1;BYDAY=-1FR",
        f"{START} RRULE:FREQ=MONTHLY;INTERVAL=1;BYSETPOS=-1;BYDAY=SA,SU",
        f"{START} RRULE:FREQ=YEARLY;INTERVAL=1;BYYEARDAY=1,-1;BYMONTH=1,12",
        f"{START} RRULE:FREQ=YEARLY;INTERVAL=1;BYWEEKNO=20",
        f"{START} RRULE:FREQ=YEARLY;INTERVAL=1;BYEASTER=0",
        f"{START} RRULE:FREQ=HOURLY;INTERVAL=2;BYHOUR=1,3;BYMINUTE=0;BYSECOND=0",
        f"{START} {DAILY} RRULE:INTERVAL=1;FREQ=WEEKLY EXRULE:FREQ=WEEKLY;INTERVAL=1;BYDAY=SU",
        f"{LOCAL} {DAILY} EXRULE:FREQ=WEEKLY;INTERVAL=1;UNTIL=20310101T0000",
        f"{START} rrule:freq=daily;interval=1",
    ],
)
def test_recurrences_that_awx_takes(text: str) -> None:
    assert problems_of_recurrence(text) == []
    assert problem_of_recurrence(text) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "does not begin with a start"),
        ("DTSTART:NONSENSE", "does not begin with a start"),
        (DAILY, "does not begin with a start"),
        (f"{START} FREQ=WEEKLY;INTERVAL=1", "has no rule; write RRULE: before FREQ"),
        (START, "has no rule"),
        (f"DTSTART:20300308T050000 {DAILY}", "without a zone"),
        (f"DTSTART;TZID=Europe/Berlin:20300308T050000Z {DAILY}", "both TZID and Z"),
        (f"DTSTART;TZID=US-Eastern:20300308T050000 {DAILY}", "unknown time zone US-Eastern"),
        (f"DTSTART:20300230T050000Z {DAILY}", "20300230T050000, which is no time"),
        (f"DTSTART:20300308T250000Z {DAILY}", "which is no time"),
        (f"{START} {START} {DAILY}", "more than one DTSTART"),
        (f"{START} {DAILY} EXDATE:20220401T000000Z", "has the part EXDATE"),
        (f"{START} {DAILY} RDATE:20220401T000000Z", "has the part RDATE"),
        (f"{START} RRULE:FREQ=DAILY", "has no INTERVAL in its RRULE"),
        (f"{START} RRULE:INTERVAL=1", "has no FREQ in its RRULE"),
        (f"{START} RRULE:NONSENSE", "has no FREQ"),
        (f"{START} {DAILY} EXRULE:FREQ=WEEKLY;BYDAY=SU", "has no INTERVAL in its EXRULE"),
        (f"{START} EXRULE:FREQ=WEEKLY;INTERVAL=1", "has no rule"),
        (f"{START} RRULE:FREQ=SECONDLY;INTERVAL=5", "repeats each second"),
        (f"{START} RRULE:FREQ=REGULARLY;INTERVAL=1", "invalid FREQ=REGULARLY"),
        (f"{START} RRULE:FREQ=DAILY;INTERVAL=two", "invalid INTERVAL=TWO"),
        (f"{START} {DAILY};COUNT=1000", "AWX takes 1 to 999"),
        (f"{START} {DAILY};COUNT=5;UNTIL=20310101T000000Z", "both COUNT and UNTIL"),
        (f"{START} {DAILY};UNTIL=20310101", "invalid UNTIL=20310101 in its RRULE; write"),
        (f"{START} {DAILY};UNTIL=20311301T000000Z", "invalid UNTIL"),
        (f"{START} RRULE:FREQ=YEARLY;INTERVAL=1;BYDAY=5MO", "no number before the first day"),
        (f"{START} {DAILY};BYDAY=XX", "invalid BYDAY"),
        (f"{START} {DAILY};BYHOUR=25", "invalid BYHOUR=25"),
        (f"{START} {DAILY};BYSECONDS=1", "invalid BYSECONDS=1"),
        (f"{START} {DAILY};", "invalid"),
        (f"{START} RRULE:FREQ=HOURLY;INTERVAL=2;BYHOUR=6", "BYHOUR=6 is not reached"),
        (f"{START} RRULE:FREQ=MINUTELY;INTERVAL=15;BYMINUTE=7", "BYMINUTE=7 is not reached"),
        (f"{START} {DAILY} RRULE:FREQ=DAILY;INTERVAL=1;COUNT=2000", "AWX takes 1 to 999"),
    ],
)
def test_recurrences_that_awx_refuses(text: str, sentence: str) -> None:
    assert problems_of_recurrence(text)
    assert sentence in (problem_of_recurrence(text) or "")


@pytest.mark.parametrize(
    "text",
    [f"{START} RRULE:FREQ=DAILY;INTERVAL=0", f"{DAILY} {START}", f"{START} {DAILY};FREQ=DAILY"],
)
def test_recurrences_that_awx_takes_and_nobody_means(text: str) -> None:
    assert problems_of_recurrence(text) == []
    assert problem_of_recurrence(text)


_PARTS = (
    *("FREQ=MINUTELY", "FREQ=HOURLY", "FREQ=DAILY", "FREQ=WEEKLY", "FREQ=YEARLY", "FREQ=SECONDLY"),
    *("INTERVAL=1", "INTERVAL=6", "INTERVAL=x", "COUNT=9", "COUNT=1000", "COUNT=-1", "WKST=MO"),
    *("WKST=1MO", "UNTIL=20310101T000000Z", "UNTIL=20310101T000000", "UNTIL=20310101", "BYDAY=MO"),
    *("BYDAY=+1MO,-2TU", "BYDAY=1MO", "BYDAY=MO,1TU", "BYDAY=", "BYHOUR=0,23", "BYHOUR=24"),
    *("BYMINUTE=30", "BYMINUTE=-1", "BYSECOND=59", "BYSETPOS=0", "BYSETPOS=1", "BYMONTHDAY=1,-1"),
    *("BYMONTH=13", "BYWEEKNO=54", "BYEASTER=-2", "BYNOTHING=1", "byday=tu", "", "FREQ", "=1"),
)
_STARTS = (START, LOCAL, "DTSTART:20300308T0500Z", "DTSTART:20300308T050000", "DTSTART;TZID=X:1T1")


@each_seed(1000)
def test_no_recurrence_is_taken_that_awx_refuses(seed: int) -> None:
    rng = random.Random(seed)
    rules = [
        rng.choice(["RRULE:", "RRULE:", "EXRULE:", "EXDATE:", ""])
        + ";".join(
            ["FREQ=DAILY", "INTERVAL=1"][: rng.choice([2, 2, 0])]
            + rng.sample(_PARTS, rng.randint(0, 3))
        )
        for _rule in range(rng.randint(1, 2))
    ]
    text = " ".join([rng.choice(_STARTS), *rules])
    if problem_of_recurrence(text) is None:
        assert problems_of_recurrence(text) == [], text


def test_zones_are_not_checked_without_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", missing)
    monkeypatch.setattr(zoneinfo, "available_timezones", lambda: set())
    assert problem_of_recurrence(f"{LOCAL} {DAILY}") is None
