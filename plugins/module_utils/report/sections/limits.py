# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Limits of power and heat: draw and inlets against them, machines with a cap, and evictions."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.units import parse_time
from ..fleet import Fleet, natural
from ..markup import Child, Markup, element
from ..numbers import LACKING, counted, moment, number, quantity, watts
from ..section import Column, Data, Detail, Section, drawn_bar, lead, note, of

_MAX_DRAWN = 50
# Bars end at this share of the limit, so that one domain far above its limit hides no other.
_MAX_SHARE = 1.5
_FILLS = {"above": "other", "unknown": "base"}
_CAPS = {
    "dry_run": "Caps are a dry run: no BMC gets a limit.",
    "off": "Caps are off: no machine gets one.",
}
_DECIMALS = {"W": 0, "°C": 1}


def _collect(fleet: Fleet) -> Data | None:
    document = fleet.sources.limits
    if document is None or not any(document[name] for name in ("domains", "caps", "changes")):
        return None
    domains = [_domain(one) for one in document["domains"]]
    cap, evict = document["cap"], document["evict"]
    return {
        **{name: document[name] for name in ("time", "cap", "evict", "evictions")},
        "is_older": parse_time(document["time"]) < parse_time(fleet.sources.snapshot["time"]),
        "is_eviction_dry": evict != "off" and "dry_run" in (cap, evict),
        "domains": sorted(domains, key=_tightest_first),
        "machines": _machines(document),
    }


def _domain(domain: Data) -> Data:
    """A limit with its value and its unit; ``share`` of the limit is None where that is unknown."""
    is_inlet = domain["kind"] == "inlet"
    value, limit = (
        domain[f"{name}celsius" if is_inlet else f"{name}watts"] for name in ("", "limit_")
    )
    return {
        **domain,
        "value": value,
        "limit": limit,
        "unit": "°C" if is_inlet else "W",
        "share": None if value is None or not limit else round(value / limit, 4),
    }


def _tightest_first(domain: Data) -> tuple[t.Any, ...]:
    share = domain["share"]
    return share is None, -(share or 0.0), domain["kind"], natural(domain["name"])


def _machines(document: Data) -> list[Data]:
    """Machines with a cap in force, or with a change of their limit in this run."""
    caps = {one["name"]: one for one in document["caps"]}
    changes = {one["name"]: one for one in document["changes"]}
    return [
        {"name": name, "cap": caps.get(name), "change": changes.get(name)}
        for name in sorted({*caps, *changes}, key=natural)
    ]


def _render(data: Data, detail: Detail) -> Child:
    domains, evictions = data["domains"], data["evictions"]
    told = [_CAPS.get(data["cap"])]
    if data["is_eviction_dry"]:
        told.append("Evictions are a dry run: no pod leaves.")
    if data["is_older"]:
        told.append("The last run did not look at limits; an earlier one found this.")
    parts = [lead(_words(data)), *(element("p", sentence) for sentence in told if sentence)]
    if domains:
        drawn = dataclasses.replace(detail, most=min(_MAX_DRAWN, detail.most or _MAX_DRAWN))
        parts.append(
            drawn.table("Limits, the tightest first", _columns(domains), domains, "limits")
        )
    if data["machines"]:
        parts.append(element("h3", "Caps of machines"))
        columns = (*_MACHINES, Column("This run", lambda one: _change(one["change"], data["cap"])))
        parts.append(detail.table("Caps of machines", columns, data["machines"], "machines"))
    if evictions:
        parts.append(element("h3", "Evictions"))
        parts.append(detail.table("Evictions", _EVICTIONS, evictions, "pods"))
    words = (
        "The line in a bar is the limit. BMCs measured the power; of a rack the hottest inlet "
        f"counts. Nodes are listed only above their limit. Run of {moment(data['time'])}."
    )
    return [*parts, note(words)]


def _words(data: Data) -> str:
    states = [one["state"] for one in data["domains"]]
    above, unknown = states.count("above"), states.count("unknown")
    capped = sum(one["cap"] is not None for one in data["machines"])
    said = f"{number(above)} of {counted(len(states), 'limit')} exceeded"
    if not states:
        said = "No limit holds any more"
    if unknown:
        said += f", {number(unknown)} unknown"
    if capped:
        said += f", {counted(capped, 'machine')} with a cap"
    outcomes = [one["outcome"] for one in data["evictions"]]
    for outcome, verb in (("evicted", "evicted"), ("planned", "would be evicted")):
        if outcome in outcomes:
            said += f", {counted(outcomes.count(outcome), 'pod')} {verb}"
    return f"{said}."


def _columns(domains: t.Sequence[Data]) -> tuple[Column, ...]:
    """The columns of limits, whose bars have one scale."""
    largest = max(one["share"] or 0.0 for one in domains)
    most = min(_MAX_SHARE, max(1.0, largest))

    def against_limit(one: Data) -> Markup:
        fill = _FILLS.get(one["state"], "ours")
        return drawn_bar(one["share"] or 0.0, most, fill, _distance(one), "bar wide", limit=1.0)

    return (
        Column("Limit of", _title),
        Column("Against the limit", against_limit),
        Column("Now", _now, True),
        Column("Limit", lambda one: _amount(one, one["limit"]), True),
        Column("State", _state),
        Column("With a cap", lambda one: number(one["capped"]) if one["capped"] else "", True),
    )


def _amount(domain: Data, value: float | None) -> str:
    return quantity(value, domain["unit"], _DECIMALS[domain["unit"]])


def _title(domain: Data) -> str:
    if domain["kind"] == "inlet":
        return f"inlet of rack {domain['name']}"
    return f"{domain['kind']} {domain['name']}".strip()


def _now(domain: Data) -> str:
    """The value; without some readings, the machines of the others draw this at least."""
    is_part = domain["state"] == "unknown" and domain["unit"] == "W"
    return f"{'at least ' if is_part else ''}{_amount(domain, domain['value'])}"


def _distance(domain: Data) -> str:
    """How far the value is from the limit; a dash where readings are missing."""
    if domain["value"] is None or domain["state"] == "unknown":
        return LACKING
    distance = domain["value"] - domain["limit"]
    return f"{_amount(domain, abs(distance))} {'above' if distance > 0 else 'below'}"


def _state(domain: Data) -> str:
    """The state, what a rack may draw for its inlet, and what no cap covers."""
    words = [domain["state"]]
    if domain["state"] == "unknown":
        words.append("readings are missing")
    if domain["kind"] == "inlet" and domain["limit_watts"] is not None:
        words.append(f"may draw {watts(domain['limit_watts'])}, draws {watts(domain['watts'])}")
    elif domain["kind"] == "inlet" and domain["state"] == "above":
        words.append("nothing reduces its power")
    if domain["uncovered_watts"]:
        words.append(f"no cap covers {watts(domain['uncovered_watts'])}")
    return "; ".join(words)


def _change(change: Data | None, mode: str) -> str:
    if change is None:
        return "unchanged"
    done = "dry run: would change to" if mode == "dry_run" else "not changed to"
    return f"{'changed to' if change['done'] else done} {_limit(change['watts'])}"


def _limit(value: float | None) -> str:
    return "no limit" if value is None else watts(value)


def _cap(cap: Data | None) -> str:
    return "none" if cap is None else watts(cap["watts"])


def _before(cap: Data | None) -> str:
    return LACKING if cap is None else _limit(cap["before_watts"])


def _outcome(eviction: Data) -> str:
    outcome, reason = eviction["outcome"], eviction["reason"]
    words = "dry run: would be evicted" if outcome == "planned" else outcome
    return f"{words}: {reason}" if reason else words


_MACHINES = (
    Column("Machine", of("name")),
    Column("Cap", of("cap", _cap), True),
    Column("Before", of("cap", _before), True),
)
_EVICTIONS = (
    Column("Pod", lambda one: f"{one['namespace']}/{one['pod']}"),
    Column("Node", of("node")),
    Column("Priority", of("priority", number), True),
    Column("Limit of", _title),
    Column("Outcome", _outcome),
)
SECTION = Section("limits", "Limits", _collect, _render)
