# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The page of an advice document, in the manner of the report: one file without requests."""

from __future__ import annotations

import itertools
import typing as t

from .markup import Child, Markup, element
from .numbers import counted, number, percent, quantity
from .page import foot, html, links, part, top
from .section import Column, Detail, drawn_bar, facts, lead, meter, note, of
from .timeline import Line, timeline

_DETAIL = Detail(500, "the advice document")
_FOOT = (
    "Made by wattwise.kube by replays of recorded demand; the same data is in the advice document. "
    "Energy is scaled to a year."
)
_BARS = (
    ("today", "Today", "default scheduler, all awake", "base"),
    ("awake", "Placed by watts", "all awake", "ours"),
    ("remaining", "Retired", "without the machines below", "ours"),
    ("asleep", "Asleep", "all machines, when not needed", "other"),
    ("remaining_asleep", "Both", "retired, and the rest asleep", "other"),
)


def advice_page(document: t.Mapping[str, t.Any]) -> str:
    """The complete HTML file."""
    sections = (
        ("awake", "Awake machines over time", _over_time(document)),
        ("retirement", "Order of retirement", _retirement(document)),
        ("one-more", "One more of a type", _one_more(document)),
        ("machines", "Who carries what", _machines(document)),
    )
    main = element(
        "main",
        part("headline", "Advice", _headline(document), has_heading=False),
        links(sections),
        [part(*section) for section in sections],
    )
    count = counted(len(document["machines"]), "machine")
    return html(document["title"], top(document, count), main, foot(_FOOT))


def _headline(document: t.Mapping[str, t.Any]) -> Child:
    retired, demand = document["retirement"], document["demand"]
    saved = sum(entry["kwh_a_year"] for entry in retired)
    days = demand["seconds"] / 86400
    found = counted(len(retired), "machine")
    words = (
        f"The demand of {number(days, 1)} days never needed {found} of "
        f"{number(len(document['machines']))}. Without them no further pod would have waited, and "
        f"the fleet would draw {quantity(saved, 'kWh')} less a year, if nothing sleeps."
    )
    figures = [
        (counted(demand["pods"], "pod"), "replayed", False),
        (number(demand["peak_cores"]), "cores requested at the peak", False),
    ]
    return [
        element(
            "div",
            element("h1", element("strong", found), " could be retired"),
            lead(words),
            facts(figures),
            class_="say",
        ),
        element("div", _bars(document), [note(each) for each in document["notes"]]),
    ]


def _bars(document: t.Mapping[str, t.Any]) -> Markup:
    energy = document["kwh_a_year"]
    most = max(energy.values())
    return element(
        "dl",
        [
            element(
                "div",
                element("dt", element("b", title), " ", element("small", words)),
                element(
                    "dd",
                    meter(energy[name], most, kind),
                    element(
                        "div",
                        element("span", quantity(energy[name], "kWh"), " a year"),
                        _less(energy[name], energy["today"]),
                        class_="figures",
                    ),
                ),
            )
            for name, title, words, kind in _BARS
        ],
        class_="watts",
    )


def _less(value: float, today: float) -> Markup | None:
    if not today or value == today:
        return None
    return element("span", percent(100 * (value / today - 1), sign=True), class_="plus")


def _over_time(document: t.Mapping[str, t.Any]) -> Child:
    line = document["timeline"]
    if len(line["hours"]) < 2:
        return lead("The demand is too short for a picture.")
    machines = len(document["machines"])
    lines = (
        Line("requested cores", line["cores"], max(*line["cores"], 1e-9), is_staircase=False),
        Line("awake machines", line["awake"], machines, bold=True),
    )
    alternative = "Awake machines and requested cores over time"
    most, least = max(line["awake"]), min(line["awake"][1:])
    words = (
        f"With sleep, {number(least)} to {number(most)} machines would be awake. The replay begins "
        "with all of them awake."
    )
    picture = timeline(line["hours"], lines, alternative)
    return [lead(words), *picture]


def _retirement(document: t.Mapping[str, t.Any]) -> Child:
    entries = document["retirement"]
    if not entries:
        return lead("Every machine is needed at the peak, with its spare.")
    positions = itertools.count(1)
    totals = itertools.accumulate(entry["kwh_a_year"] for entry in entries)
    columns = [
        Column("Order", lambda _entry: number(next(positions))),
        Column("Machine", of("name")),
        Column("Type", of("type")),
        Column("Saves a year", of("kwh_a_year", _kwh), True),
        Column("In total", lambda _entry: _kwh(next(totals)), True),
    ]
    return [
        _DETAIL.table("Machines to retire, in this order", columns, entries, "machines"),
        note("Each saving holds when all machines above it are gone and none sleeps."),
    ]


def _one_more(document: t.Mapping[str, t.Any]) -> Child:
    entries = document["one_more"]
    return [
        _DETAIL.table("One more machine of each type", _ONE_MORE, entries, "types"),
        note("Change against the fleet placed by watts, all awake: its idle draw counts."),
    ]


def _machines(document: t.Mapping[str, t.Any]) -> Child:
    ordered = sorted(document["machines"], key=lambda each: (-each["mean_cores"], each["name"]))
    return [
        lead("Each machine's part of the work if machines sleep when they are not needed."),
        _DETAIL.table("Machines by their mean use", _MACHINES, ordered, "machines"),
    ]


def _kwh(energy: float) -> str:
    return quantity(energy, "kWh")


_ONE_MORE = (
    Column("Type", of("type")),
    Column("Machines", of("machines", number), True),
    Column("Energy a year", lambda one: quantity(one["kwh_a_year"], "kWh", sign=True), True),
    Column("Pods that wait", lambda one: number(one["waiting_pods"], sign=True), True),
)
_MACHINES = (
    Column("Machine", of("name")),
    Column("Type", of("type")),
    Column(
        "Awake",
        of("awake_share", lambda share: drawn_bar(share, 1.0, "ours", percent(100 * share, 0))),
    ),
    Column(
        "Mean use",
        lambda one: f"{number(one['mean_cores'], 1)} of {number(one['cores'])} cores",
        True,
    ),
    Column("Energy a year", of("kwh_a_year", _kwh), True),
    Column("", lambda one: "could be retired" if one["retire"] else one["protection"]),
)
