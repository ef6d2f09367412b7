# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Moves of running pods that the newest plan proposes, with the gain of each step."""

from __future__ import annotations

import itertools

from ..fleet import Fleet
from ..markup import Child, Markup
from ..numbers import counted, listed, number, watts
from ..section import Column, Data, Detail, Section, drawn_bar, lead, note, of

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


def _render(data: Data, detail: Detail) -> Child:
    steps = data["steps"]
    if not steps:
        return lead("No move of running pods would save enough.")
    most = max(step["gain_watts"] for step in steps)
    positions = itertools.count(1)
    columns = [
        Column("Step", lambda _step: number(next(positions))),
        Column("Saves", of("gain_watts", lambda gain: drawn_bar(gain, most, "ours", watts(gain)))),
        Column("Pods that move", of("moves", lambda moves: _moves(moves, detail))),
        Column("May sleep", of("asleep", lambda names: listed(names, _NODES_NAMED))),
        Column("If interrupted", _cost_if_stopped, True),
    ]
    told = (
        f"{counted(data['moves'], 'move')} of running pods would save {watts(data['gain_watts'])}."
    )
    return [
        lead(told),
        detail.table("Moves of running pods, by step", columns, steps, "steps"),
        note(
            "Proposed by the plan. A run may end after any step. The last column is the largest "
            "cost of an end within the step, until its other moves are made."
        ),
    ]


def _cost_if_stopped(step: Data) -> str:
    return watts(step["cost_if_stopped_watts"]) if len(step["moves"]) > 1 else ""


def _moves(moves: list[Data], detail: Detail) -> Markup:
    texts = [f"{move['pod']}: {move['from_node']} → {move['to_node']}" for move in moves]
    return detail.names(texts, f"{number(len(texts))} pods", "moves", _MOVES_IN_SIGHT)


SECTION = Section("moves", "Moves", _collect, _render)
