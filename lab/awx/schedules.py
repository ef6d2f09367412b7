# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recurrences as AWX checks them: SchedulePreviewSerializer and Schedule.rrulestr of AWX 24.6."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import dateutil.parser
import dateutil.rrule
import dateutil.tz

_UTC = {name: dateutil.tz.tzutc() for name in dateutil.parser.parserinfo().UTCZONE}
_RULE = re.compile(r"RULE:\S*")
_START = re.compile(r"DTSTART(?:;[^:]+)?:[0-9]+T[0-9]+Z?")


def problems_of_recurrence(text: str) -> list[str]:
    """AWX's errors about a recurrence, in its order."""
    if not text.strip():
        return ["This field may not be blank."]
    starts, lower = _START.findall(text), text.lower()
    for word in ("EXDATE", "RDATE"):
        if f"{word.lower()}:" in lower:
            return [f"{word} not allowed in rrule."]
    found = [
        problem
        for applies, problem in (
            (
                not starts,
                "Valid DTSTART required in rrule. Value should start with: "
                "DTSTART:YYYYMMDDTHHMMSSZ",
            ),
            (
                re.search(r"DTSTART:[0-9]+T[0-9]+ ", text),
                "DTSTART cannot be a naive datetime.  Specify ;TZINFO= or YYYYMMDDTHHMMSSZZ.",
            ),
            (len(starts) > 1, "Multiple DTSTART is not supported."),
            ("rrule:" not in lower, "One or more rule required in rrule."),
        )
        if applies
    ]
    for rule in _RULE.findall(text):
        found += [f"{problem}: {rule}" for problem in _problems_of_rule(rule)]
    try:
        _parse(text)
    except Exception as error:  # noqa: BLE001 AWX answers with any exception of its parser.
        found.append(f"rrule parsing failed validation: {error}")
    return found


def _problems_of_rule(rule: str) -> list[str]:
    count = re.search(r"COUNT=([0-9]+)", rule)
    has_interval = "interval" in rule.lower()
    return [
        problem
        for applies, problem in (
            (not has_interval, "INTERVAL required in rrule"),
            (has_interval and "secondly" in rule.lower(), "SECONDLY is not supported"),
            (
                re.search(r"BYDAY[:=][0-9]+[a-zA-Z]{2}", rule),
                "BYDAY with numeric prefix not supported",
            ),
            ("COUNT" in rule and "UNTIL" in rule, "RRULE may not contain both COUNT and UNTIL"),
            (count and int(count[1]) > 999, "COUNT > 999 is unsupported"),
        )
        if applies
    ]


def _parse(text: str) -> None:
    parts = [_with_until_in_utc(part, text) for part in text.split()]
    rules = dateutil.rrule.rrulestr(" ".join(parts), tzinfos=_UTC, forceset=True)
    if any(rule._dtstart.tzinfo is None for rule in rules._rrule):
        raise ValueError("A valid TZID must be provided (e.g., America/New_York)")


def _with_until_in_utc(part: str, text: str) -> str:
    """The rule with an end in UTC; AWX takes an end without zone for one in the start's zone."""
    if "until=" not in part.lower():
        return part
    until = re.search(r"UNTIL=([0-9]+T[0-9]+)(Z?)", part)
    if until is None:
        raise ValueError("'NoneType' object has no attribute 'group'")
    if until[2]:
        return part
    start = re.sub(r"^.*(DTSTART\S+)\s.*$", r"\1", text)
    rule = f"{start} RRULE:FREQ=DAILY;INTERVAL=1;COUNT=1"
    zone = dateutil.rrule.rrulestr(rule, tzinfos=_UTC, forceset=True)._rrule[0]._dtstart.tzinfo
    local = datetime.strptime(until[1], "%Y%m%dT%H%M%S").replace(tzinfo=zone)
    return part.replace(f"UNTIL={until[1]}", f"UNTIL={local.astimezone(UTC):%Y%m%dT%H%M%SZ}")
