# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Predicted results of other strategies for the same pods and snapshot."""

from __future__ import annotations

from ...scheduling.plan import is_comparable
from ..fleet import Fleet
from ..markup import Child, Markup
from ..numbers import number, percent, watts
from ..section import Column, Data, Detail, Section, drawn_bar, lead, note, of, table

_WORDS = {
    "optimal": "optimal: all pods at once",
    "greedy": "greedy: one pod after the other",
    "minimize_power": "minimize_power: WAO's score",
    "peaks": "peaks: the PEAKS score",
    "spread": "spread: as the default scheduler does",
}


def _collect(fleet: Fleet) -> Data | None:
    plan = fleet.plan or {}
    others = plan.get("comparison")
    if fleet.state == "observed" or not others:
        return None
    nodes, unpriced = [one["node"] for one in plan["placements"]], plan.get("unpriced") or ()
    before, after = plan["watts"]["before"], plan["watts"]["after"]
    placed = len(plan["placements"])
    ours = {
        "strategy": "this plan",
        "watts_added": after - before,
        "placed": placed,
        "ours": True,
        "comparable": True,
    }
    entries = [
        {
            **{name: entry[name] for name in ("strategy", "watts_added", "placed")},
            "ours": False,
            "comparable": is_comparable(entry, nodes, unpriced),
        }
        for entry in others
    ]
    return {
        "lower_bound_added": round(plan["watts"]["lower_bound"] - before, 1),
        "proven": bool(plan.get("proven")),
        "strategies": [
            {**entry, "watts_added": round(entry["watts_added"], 1)}
            for entry in [ours, *sorted(entries, key=lambda entry: float(entry["watts_added"]))]
        ],
    }


def _render(data: Data, _detail: Detail) -> Child:
    entries = data["strategies"]
    ours = entries[0]["watts_added"]
    most = max(entry["watts_added"] for entry in entries)

    def added(entry: Data) -> Markup:
        kind = "ours" if entry["ours"] else "other" if entry["comparable"] else "base"
        return drawn_bar(entry["watts_added"], most, kind, watts(entry["watts_added"]))

    def more(entry: Data) -> str:
        if entry["comparable"] and not entry["ours"] and ours > 0:
            return percent(100 * (entry["watts_added"] / ours - 1), sign=True)
        return "" if entry["ours"] else "other pods placed"

    columns = [
        Column("Strategy", of("strategy", lambda name: _WORDS.get(name, name))),
        Column("Pods add", added),
        Column("Placed", of("placed", number), True),
        Column("More", more, True),
    ]
    bound = watts(data["lower_bound_added"])
    words = "and this plan is proven to be the best" if data["proven"] else "by a proven bound"
    return [
        lead(_compared(entries)),
        table("Power that the pods add, by strategy", columns, entries),
        note(
            "Predicted on the same snapshot with the same curves. No placement of these pods "
            f"can add less than {bound}, {words}."
        ),
    ]


def _compared(entries: list[Data]) -> str:
    """Comparable strategies with the least and the most power; empty without any."""
    ours, *others = [entry for entry in entries if entry["comparable"]]
    if not others or ours["watts_added"] <= 0:
        return ""
    nearest, farthest = others[0], others[-1]
    text = f"Placed by {nearest['strategy']}, the same pods would add {_more(nearest, ours)}"
    if farthest is not nearest:
        text += f"; by {farthest['strategy']}, {_more(farthest, ours)}"
    return f"{text}."


def _more(entry: Data, ours: Data) -> str:
    share = 100 * (entry["watts_added"] / ours["watts_added"] - 1)
    return f"{percent(abs(share))} {'less' if share < 0 else 'more'}"


SECTION = Section("strategies", "Other strategies", _collect, _render)
