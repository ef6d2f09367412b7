# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The workflows with an approval, and the starts of their and of other templates' jobs.

Recurrences of schedules are checked before AWX would refuse them.
"""

from __future__ import annotations

import datetime
import math
import re
import typing as t
import zoneinfo
from collections.abc import Callable, Sequence

from ..base.errors import InvalidInput
from ..base.json_types import MutableObject, Object
from ..base.texts import shown_text
from .naming import Naming, listed, quoted

_START = re.compile(r"DTSTART(?:;TZID=(?P<zone>[^:;]+))?:(?P<time>\d+T\d+)(?P<utc>Z?)", re.ASCII)
_TIME = re.compile(r"\d{8}T\d{4}(?:\d\d)?", re.ASCII)
_UNTIL = re.compile(r"(\d+T\d+)Z?", re.ASCII)
_DAY = re.compile(r"(?:[+-]?[1-9]\d?)?(?:MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")
_MAX_STARTS = 999

# Ranges of the numbers of each list; a list with negative numbers has no zero.
_NUMBERS = {
    "BYMONTH": (1, 12),
    "BYMONTHDAY": (-31, 31),
    "BYYEARDAY": (-366, 366),
    "BYWEEKNO": (-53, 53),
    "BYSETPOS": (-366, 366),
    "BYHOUR": (0, 23),
    "BYMINUTE": (0, 59),
    "BYSECOND": (0, 59),
}


def problem_of_recurrence(text: str) -> str | None:
    """What AWX would refuse in the recurrence of a schedule, as the end of a sentence.

    AWX 24 takes a subset of RFC 5545 on one line: one start with a time zone, then rules. This
    grammar accepts no text that AWX refuses. It refuses some that AWX takes, such as an interval of
    0, at which AWX never ends its search for the next start.
    """
    first, *rules = text.split() or [""]
    if problem := _problem_of_start(first):
        return problem
    if any(rule.startswith("DTSTART") for rule in rules):
        return "has more than one DTSTART"
    if not any(rule.upper().startswith("RRULE:") for rule in rules):
        return "has no rule; write RRULE: before FREQ"
    time = first.rpartition("T")[2]
    hour_and_minute = int(time[:2]), int(time[2:4])
    problems = (_problem_of_rule(rule.upper(), *hour_and_minute) for rule in rules)
    return next(filter(None, problems), None)


def _problem_of_start(start: str) -> str | None:
    found = _START.fullmatch(start)
    if found is None:
        return (
            "does not begin with a start; write DTSTART:YYYYMMDDTHHMMSSZ or "
            "DTSTART;TZID=Europe/Berlin:YYYYMMDDTHHMMSS"
        )
    if not _is_time(found["time"]):
        return f"starts at {found['time']}, which is no time"
    if found["zone"] is None:
        return None if found["utc"] else "starts at a time without a zone; append Z, or set TZID"
    if found["utc"]:
        return "has both TZID and Z at its start; remove one of them"
    return None if _is_zone(found["zone"]) else f"names the unknown time zone {found['zone']}"


def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.datetime.strptime(text.ljust(15, "0"), "%Y%m%dT%H%M%S")
    except ValueError:
        return False
    return True


def _is_zone(name: str) -> bool:
    """Whether the zone exists; true on a machine without a database of zones."""
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return not zoneinfo.available_timezones()
    return True


def _problem_of_rule(rule: str, hour: int, minute: int) -> str | None:
    kind, _colon, body = rule.partition(":")
    if kind not in ("RRULE", "EXRULE"):
        return f"has the part {kind}; AWX knows only DTSTART, RRULE and EXRULE"
    pairs = [pair.partition("=") for pair in body.split(";")]
    values = {name: value for name, _equals, value in pairs}
    if len(values) < len(pairs):
        return f"sets a part of {kind} twice"
    for name in ("FREQ", "INTERVAL"):
        if name not in values:
            return f"has no {name} in its {kind}"
    if values["FREQ"] == "SECONDLY":
        return "repeats each second, which AWX does not support"
    if "COUNT" in values and "UNTIL" in values:
        return f"has both COUNT and UNTIL in its {kind}"
    for name, value in values.items():
        if not _is_valid(name, value):
            return f"has an invalid {name}={value} in its {kind}{_HINTS.get(name, '')}"
    for frequency, name, start, period in (
        ("HOURLY", "BYHOUR", hour, 24),
        ("MINUTELY", "BYMINUTE", minute, 60),
    ):
        if values["FREQ"] == frequency and name in values:
            step = math.gcd(int(values["INTERVAL"]), period)
            if all((int(each) - start) % step for each in values[name].split(",")):
                return f"never starts: {name}={values[name]} is not reached from its DTSTART"
    return None


def _is_valid(name: str, value: str) -> bool:
    if name in _NUMBERS:
        return all(_is_number(each, *_NUMBERS[name]) for each in value.split(","))
    check = _CHECKS.get(name)
    return check is not None and check(value)


def _is_number(text: str, lowest: int, highest: int) -> bool:
    if not re.fullmatch(r"[+-]?\d{1,9}", text, re.ASCII):
        return False
    return lowest <= int(text) <= highest and (int(text) != 0 or lowest == 0)


def _is_until(text: str) -> bool:
    found = _UNTIL.fullmatch(text)
    return found is not None and _is_time(found[1])


def _are_days(text: str) -> bool:
    """Days of the week; AWX refuses the list if a number without a sign begins it."""
    return not text[:1].isdigit() and all(_DAY.fullmatch(day) for day in text.split(","))


_CHECKS: dict[str, Callable[[str], bool]] = {
    "FREQ": lambda value: value in _FREQUENCIES,
    "INTERVAL": lambda value: _is_number(value, 1, 999_999_999),
    "COUNT": lambda value: _is_number(value, 1, _MAX_STARTS),
    "UNTIL": _is_until,
    "WKST": lambda value: bool(_DAY.fullmatch(value)) and len(value) == len("MO"),
    "BYDAY": _are_days,
    "BYEASTER": lambda value: all(
        each == "0" or _is_number(each, -366, 366) for each in value.split(",")
    ),
}
_HINTS: t.Final = {
    "FREQ": f"; AWX knows {', '.join(_FREQUENCIES)}",
    "COUNT": f"; AWX takes 1 to {_MAX_STARTS}",
    "UNTIL": "; write YYYYMMDDTHHMMSSZ",
    "BYDAY": "; AWX takes no number before the first day",
}


# Workflow, as schedules name it → the setting with its nodes, and its description.
WORKFLOWS: t.Mapping[str, tuple[str, str]] = {
    "place_with_approval": ("workflow_nodes", "Binds a plan after a person approved it."),
    "sleep_with_approval": (
        "sleep_workflow_nodes",
        "Switches machines off after a person approved it.",
    ),
}
EVENTS = ("started", "success", "error", "approvals")
LINKS = ("success_nodes", "failure_nodes", "always_nodes")
# Their jobs publish a summary, which the workflow's own notification lacks.
_NOTIFYING_PLAYBOOKS = ("bind", "place", "site")


class WorkflowObjects:
    """Builds the workflows, their approvers, schedules, and the notifications of templates."""

    def __init__(self, settings: Object, naming: Naming) -> None:
        self._of = settings
        self._naming = naming

    def events_of(self, playbook: str | None) -> MutableObject:
        """The notifications of a job template, or of a workflow, by event."""
        events = EVENTS if playbook is None else EVENTS[:3]
        return {
            f"notification_templates_{event}": [
                item["name"]
                for item in self._of["notifications"]
                if event in item.get("events", ("error", "success", "approvals"))
                and (playbook is None or playbook in item.get("playbooks", _NOTIFYING_PLAYBOOKS))
            ]
            for event in events
        }

    def workflows(self) -> list[MutableObject]:
        """The workflows that have nodes."""
        return [
            self._workflow(key, setting, description)
            for key, (setting, description) in WORKFLOWS.items()
            if self._of[setting]
        ]

    def _workflow(self, key: str, setting: str, description: str) -> MutableObject:
        item = {
            "name": self._naming.workflow(key),
            "organization": self._naming.organization,
            "inventory": self._naming.prefix,
            "ask_limit_on_launch": True,
            **self.events_of(None),
            "simplified_workflow_nodes": self._nodes(setting),
        }
        return self._naming.described(item, description)

    def _nodes(self, setting: str) -> list[MutableObject]:
        given = self._of[setting]
        identifiers = [node["identifier"] for node in given]
        templates = {
            item["playbook"]: item.get("name") or self._naming.template(item["playbook"])
            for item in self._of["job_templates"]
        }
        nodes: list[MutableObject] = []
        for node in given:
            linked = [name for link in LINKS for name in node.get(link) or []]
            if unknown := [name for name in linked if name not in identifiers]:
                raise InvalidInput(
                    f"awx_{setting}: node {quoted(node['identifier'])} leads to "
                    f"{listed(unknown)}, but the nodes are {listed(identifiers)}"
                )
            item: MutableObject = {"identifier": node["identifier"]}
            if node.get("approval"):
                item["approval_node"] = dict(node["approval"])
            elif node.get("playbook") in templates:
                item["unified_job_template"] = templates[node["playbook"]]
                item["lookup_organization"] = self._naming.organization
                item["extra_data"] = dict(node.get("extra_data") or {})
                item["job_tags"] = node.get("job_tags") or ""
            else:
                raise InvalidInput(
                    f"awx_{setting}: node {quoted(node['identifier'])} needs approval, or one "
                    f"of the playbooks {listed(templates)} of awx_job_templates"
                )
            nodes.append({**item, **{link: list(node.get(link) or []) for link in LINKS}})
        return nodes

    def schedule(self, given: MutableObject, names: Sequence[str]) -> MutableObject:
        """One schedule; ``names`` has all templates and workflows. Raises InvalidInput."""
        playbook = given["playbook"]
        is_workflow = playbook in WORKFLOWS
        template = (
            self._naming.workflow(playbook) if is_workflow else self._naming.template(playbook)
        )
        of_playbook = [
            item.get("name") or template
            for item in self._of["job_templates"]
            if item["playbook"] == playbook
        ]
        template = of_playbook[0] if of_playbook else template
        if template not in names:
            raise InvalidInput(
                f"awx_schedules: schedule {quoted(given['name'])} starts "
                f"{quoted(playbook)}, which is neither a playbook of awx_job_templates nor one of "
                f"the workflows {listed(WORKFLOWS)}"
            )
        # Ansible accepts null and numbers where an option is a text.
        if problem := problem_of_recurrence(str(given["rrule"] or "")):
            raise InvalidInput(
                f"awx_schedules: the rrule of schedule {quoted(given['name'])} "
                f"{shown_text(problem, 300)}"
            )
        item = {
            "name": given["name"],
            "organization": self._naming.organization,
            "unified_job_template": template,
            "rrule": given["rrule"],
            "enabled": bool(given.get("enabled", True)),
            "extra_data": dict(given.get("extra_data") or {}),
        }
        return self._naming.described(item, "")

    def roles(self) -> list[MutableObject]:
        """Approvers, in addition to administrators of the organization."""
        given = {"users": self._of["approver_users"], "teams": self._of["approver_teams"]}
        actors = {kind: list(names) for kind, names in given.items() if names}
        names = [item["name"] for item in self.workflows()]
        return [{"role": "approval", "workflows": names, **actors}] if actors and names else []
