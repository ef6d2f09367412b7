# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Moves of running pods that the newest plan proposes, with the gain of each step."""

from __future__ import annotations

from ..fleet import Fleet
from ..markup import Child, Markup, element, join
from ..numbers import counted, listed, number, watts
from ..section import Column, Data, Detail, Section, meter, note, table

_MOVES_IN_SIGHT = 3
_NODES_NAMED = 3


def _collect(fleet: Fleet) -> Data | None:
    newest = fleet.sources.plan or fleet.plan
    if newest is None or newest.get("steps") is None:
        return None
    steps = [
        {
            "gain_watts": round(step["gain_watts"], 1),
            "cost_if_stopped_watts": round(step["cost_if_stopped_watts"], 1),
            "asleep": step["asleep"],
            "moves": [
                {
                    "pod": f"{move['namespace']}/{move['pod']}",
                    "from_node": move["from_node"],
                    "to_node": move["to_node"],
                }
                for move in step["moves"]
            ],
        }
        for step in newest["steps"]
    ]
    return {
        "gain_watts": round(sum(step["gain_watts"] for step in newest["steps"]), 1),
        "moves": sum(len(step["moves"]) for step in steps),
        "steps": steps,
    }


def _render(data: Data, detail: Detail) -> Markup:
    steps = data["steps"]
    if not steps:
        return element("p", "No move of running pods would save enough.", class_="lead")
    most = max(step["gain_watts"] for step in steps)
    rows = [
        [number(position), *_cells(step, most, detail)]
        for position, step in enumerate(detail.cut(steps), 1)
    ]
    columns = [
        Column("Step"),
        Column("Saves"),
        Column("Pods that move"),
        Column("May sleep"),
        Column("If interrupted", True),
    ]
    told = (
        f"{counted(data['moves'], 'move')} of running pods would save {watts(data['gain_watts'])}."
    )
    return join(
        [
            element("p", told, class_="lead"),
            table("Moves of running pods, by step", columns, rows),
            detail.rest(steps, "steps"),
            note(
                "Proposed by the plan. A run may end after any step. The last column is the largest "
                "cost of an end within the step, until its other moves are made."
            ),
        ]
    )


def _cells(step: Data, most: float, detail: Detail) -> list[Child]:
    gain = step["gain_watts"]
    track = meter(gain, most, "ours")
    return [
        element("span", track, element("span", watts(gain)), class_="bar"),
        _moves(step["moves"], detail),
        listed(step["asleep"], _NODES_NAMED),
        watts(step["cost_if_stopped_watts"]) if len(step["moves"]) > 1 else "",
    ]


def _moves(moves: list[Data], detail: Detail) -> Markup:
    texts = [f"{move['pod']}: {move['from_node']} → {move['to_node']}" for move in moves]
    items = element("ul", [element("li", text) for text in detail.cut(texts)], class_="names")
    if len(texts) <= _MOVES_IN_SIGHT:
        return items
    summary = element("summary", f"{number(len(texts))} pods")
    return element("details", summary, items, detail.rest(texts, "moves"))


SECTION = Section("moves", "Moves", _collect, _render)
