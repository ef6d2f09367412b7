# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The page of an advice document, in the manner of the report: one file without requests."""

from __future__ import annotations

import typing as t

from .markup import Child, Markup, element, join
from .numbers import counted, moment, number, percent, quantity
from .page import head
from .section import Column, Detail, meter, note, table
from .timeline import Line, timeline

_DETAIL = Detail(500)
_BARS = (
    ("today", "Today", "default scheduler, all awake", "base"),
    ("awake", "Placed by watts", "all awake", "ours"),
    ("remaining", "Retired", "without the machines below", "ours"),
    ("asleep", "Asleep", "all machines, when not needed", "other"),
    ("remaining_asleep", "Both", "retired, and the rest asleep", "other"),
)


def advice_page(document: t.Mapping[str, t.Any]) -> str:
    """The complete HTML file."""
    title = f"{document['title']} · wattwise" if document["title"] else "wattwise"
    sections = (
        ("awake", "Awake machines over time", _over_time(document)),
        ("retirement", "Order of retirement", _retirement(document)),
        ("one-more", "One more of a type", _one_more(document)),
        ("machines", "Who carries what", _machines(document)),
    )
    links = [
        element("li", element("a", heading, href=f"#{name}")) for name, heading, _body in sections
    ]
    main = element(
        "main",
        element("section", _headline(document), id="headline", aria_label="Advice"),
        element("nav", element("ul", links), aria_label="Sections"),
        [
            element("section", element("h2", heading), body, id=name, aria_label=heading)
            for name, heading, body in sections
        ],
    )
    foot = element(
        "footer",
        element(
            "p",
            "Made by wattwise.kube by replays of recorded demand; the same data is in the advice "
            "document. Energy is scaled to a year.",
        ),
    )
    body = element("body", _top(document), main, foot)
    return "<!doctype html>\n" + element("html", head(title), body, lang="en") + "\n"


def _top(document: t.Mapping[str, t.Any]) -> Markup:
    facts: list[Child] = [element("span", element("b", "wattwise"), class_="brand")]
    if document["title"]:
        facts.append(element("span", document["title"]))
    facts.append(element("span", counted(len(document["machines"]), "machine")))
    facts.append(element("time", moment(document["time"]), datetime=document["time"]))
    return element("header", facts)


def _headline(document: t.Mapping[str, t.Any]) -> Markup:
    retired, demand = document["retirement"], document["demand"]
    saved = sum(entry["kwh_a_year"] for entry in retired)
    days = demand["seconds"] / 86400
    found = counted(len(retired), "machine")
    words = (
        f"The demand of {number(days, 1)} days never needed {found} of "
        f"{number(len(document['machines']))}. Without them no further pod would have waited, and "
        f"the fleet would draw {quantity(saved, 'kWh')} less a year, if nothing sleeps."
    )
    facts = [
        (counted(demand["pods"], "pod"), "replayed"),
        (number(demand["peak_cores"]), "cores requested at the peak"),
    ]
    items = [element("li", element("b", value), " ", word) for value, word in facts]
    return join(
        [
            element(
                "div",
                element("h1", element("strong", found), " could be retired"),
                element("p", words, class_="lead"),
                element("ul", items, class_="facts"),
                class_="say",
            ),
            element("div", _bars(document), [note(each) for each in document["notes"]]),
        ]
    )


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


def _over_time(document: t.Mapping[str, t.Any]) -> Markup:
    line = document["timeline"]
    if len(line["hours"]) < 2:
        return element("p", "The demand is too short for a picture.", class_="lead")
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
    return join([element("p", words, class_="lead"), *picture])


def _retirement(document: t.Mapping[str, t.Any]) -> Markup:
    entries = document["retirement"]
    if not entries:
        return element("p", "Every machine is needed at the peak, with its spare.", class_="lead")
    total = 0.0
    rows = []
    for position, entry in enumerate(_DETAIL.cut(entries), start=1):
        total += entry["kwh_a_year"]
        saved = quantity(entry["kwh_a_year"], "kWh")
        rows.append([number(position), entry["name"], entry["type"], saved, quantity(total, "kWh")])
    columns = [
        Column("Order"),
        Column("Machine"),
        Column("Type"),
        Column("Saves a year", True),
        Column("In total", True),
    ]
    return join(
        [
            table("Machines to retire, in this order", columns, rows),
            _rest(entries, "machines"),
            note("Each saving holds when all machines above it are gone and none sleeps."),
        ]
    )


def _one_more(document: t.Mapping[str, t.Any]) -> Markup:
    columns = [
        Column("Type"),
        Column("Machines", True),
        Column("Energy a year", True),
        Column("Pods that wait", True),
    ]
    rows = [
        [
            entry["type"],
            number(entry["machines"]),
            quantity(entry["kwh_a_year"], "kWh", sign=True),
            number(entry["waiting_pods"], sign=True),
        ]
        for entry in _DETAIL.cut(document["one_more"])
    ]
    return join(
        [
            table("One more machine of each type", columns, rows),
            _rest(document["one_more"], "types"),
            note("Change against the fleet placed by watts, all awake: its idle draw counts."),
        ]
    )


def _machines(document: t.Mapping[str, t.Any]) -> Markup:
    ordered = sorted(document["machines"], key=lambda each: (-each["mean_cores"], each["name"]))
    columns = [
        Column("Machine"),
        Column("Type"),
        Column("Awake"),
        Column("Mean use", True),
        Column("Energy a year", True),
        Column(""),
    ]
    rows = [
        [
            each["name"],
            each["type"],
            _share(each["awake_share"]),
            f"{number(each['mean_cores'], 1)} of {number(each['cores'])} cores",
            quantity(each["kwh_a_year"], "kWh"),
            "could be retired" if each["retire"] else each["protection"],
        ]
        for each in _DETAIL.cut(ordered)
    ]
    return join(
        [
            element(
                "p",
                "Each machine's part of the work if machines sleep when they are not needed.",
                class_="lead",
            ),
            table("Machines by their mean use", columns, rows),
            _rest(ordered, "machines"),
        ]
    )


def _share(share: float) -> Markup:
    return element(
        "span",
        meter(share, 1.0, "ours"),
        element("span", percent(100 * share, 0)),
        class_="bar",
    )


def _rest(entries: t.Sequence[t.Any], what: str) -> Markup | None:
    more = len(entries) - len(_DETAIL.cut(entries))
    return note(f"{number(more)} more {what} are in the advice document.") if more else None
