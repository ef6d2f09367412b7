# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Steps of a plan: moves of running pods that pay together."""

from __future__ import annotations

import itertools
import typing as t
from dataclasses import dataclass

from ..base.json_types import Object

_DECIMALS = 6


@dataclass(frozen=True)
class PodMove:
    """A running pod to move to another node, and the power draw that this saves by itself.

    ``uid`` None stands for the present pod of this name, ``gain_watts`` None for an unknown gain.
    """

    namespace: str
    pod: str
    source: str
    target: str
    uid: str | None = None
    gain_watts: float | None = None

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}"

    @classmethod
    def of_document(cls, item: Object) -> PodMove:
        return cls(
            item.get("namespace") or "default",
            item["pod"],
            item["from_node"],
            item["to_node"],
            item.get("uid"),
            item.get("gain_watts"),
        )

    def as_document(self) -> dict[str, t.Any]:
        return {
            "namespace": self.namespace,
            "pod": self.pod,
            "uid": self.uid,
            "from_node": self.source,
            "to_node": self.target,
            "gain_watts": round(self.gain_watts or 0.0, _DECIMALS),
        }


@dataclass(frozen=True)
class Step:
    """Moves that pay together, in their order, and nodes that may sleep only after them.

    ``number`` counts from 1.
    """

    number: int
    moves: tuple[PodMove, ...]
    asleep: tuple[str, ...] = ()

    def as_document(self) -> dict[str, t.Any]:
        saved = list(itertools.accumulate(move.gain_watts or 0.0 for move in self.moves))
        return {
            "gain_watts": round(saved[-1], _DECIMALS),
            "cost_if_stopped_watts": round(max(0.0, -min([0.0, *saved[:-1]])), _DECIMALS),
            "asleep": list(self.asleep),
            "moves": [move.as_document() for move in self.moves],
        }


def steps_of(plan: Object) -> list[Step]:
    """The steps of a plan document."""
    return [
        Step(
            number,
            tuple(PodMove.of_document(move) for move in step["moves"]),
            tuple(step.get("asleep") or ()),
        )
        for number, step in enumerate(plan.get("steps") or (), 1)
    ]
