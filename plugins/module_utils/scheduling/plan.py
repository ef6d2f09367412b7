# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A plan: nodes of waiting pods, pods without a node, and moves of running pods."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..base.errors import InvalidInput
from ..base.json_types import Object
from ..kube.events import Event
from ..kube.unschedulable import Unplaced


def pod_path(namespace: str, pod: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{pod}"


@dataclass(frozen=True)
class Placement:
    """The planned node of a pod. ``uid`` None means the present pod of this name."""

    namespace: str
    pod: str
    node: str
    uid: str | None = None
    resource_version: str | None = None

    @property
    def path(self) -> str:
        return pod_path(self.namespace, self.pod)

    @property
    def names(self) -> dict[str, str]:
        return {"namespace": self.namespace, "pod": self.pod, "node": self.node}


@dataclass(frozen=True)
class UnplacedPod(Unplaced):
    """A pod without a node, with the number of nodes for each reason.

    ``fits_empty_fleet`` None: the pod itself has a reason. ``starts`` is the time for which a pod
    waits by itself; such a pod needs no further node.
    """

    reasons: t.Mapping[str, int] = field(default_factory=dict)
    fits_empty_fleet: bool | None = None
    starts: str | None = None

    @property
    def condition_reason(self) -> str:
        """Reason of the condition PodScheduled=False."""
        return super().condition_reason if self.starts is None else "Deferred"

    @property
    def event(self) -> Event:
        found = super().event
        return found if self.starts is None else replace(found, type="Normal", reason="Deferred")


@dataclass(frozen=True)
class PlannedMove:
    """A running pod to move to another node, and the watts that this saves by itself."""

    namespace: str
    pod: str
    source: str
    target: str
    gain_watts: float
    uid: str | None = None

    @property
    def path(self) -> str:
        return pod_path(self.namespace, self.pod)

    @classmethod
    def from_document(cls, body: Object) -> PlannedMove:
        names = body["namespace"], body["pod"], body["from_node"], body["to_node"]
        return cls(*names, body["gain_watts"], body.get("uid"))

    def as_document(self) -> dict[str, t.Any]:
        return {
            "namespace": self.namespace,
            "pod": self.pod,
            "uid": self.uid,
            "from_node": self.source,
            "to_node": self.target,
            "gain_watts": self.gain_watts,
        }


@dataclass(frozen=True)
class Step:
    """Moves that pay together, in their order; ``number`` counts from 1.

    ``cost_if_stopped_watts`` is the highest cost of an end before the last move. ``asleep`` are
    nodes that may sleep only after the step.
    """

    number: int
    moves: tuple[PlannedMove, ...]
    gain_watts: float = 0.0
    cost_if_stopped_watts: float = 0.0
    asleep: tuple[str, ...] = ()

    @classmethod
    def from_document(cls, number: int, body: Object) -> Step:
        moves = tuple(map(PlannedMove.from_document, body["moves"]))
        costs = body["gain_watts"], body["cost_if_stopped_watts"]
        return cls(number, moves, *costs, tuple(body["asleep"]))

    def as_document(self) -> dict[str, t.Any]:
        return {
            "gain_watts": self.gain_watts,
            "cost_if_stopped_watts": self.cost_if_stopped_watts,
            "asleep": list(self.asleep),
            "moves": [move.as_document() for move in self.moves],
        }


@dataclass(frozen=True)
class Plan:
    """The result of a placement.

    ``watts`` are those of the fleet before and after, and their lower bound. ``steps`` None: moves
    were not asked for. ``allocations``, ``nodes``, ``findings``, ``comparison``, ``limits`` and
    ``closed`` are as in the document. ``time`` None: the plan is in no document yet.
    """

    placements: tuple[Placement, ...]
    watts: t.Mapping[str, float] = field(default_factory=dict)
    gap: float | None = None
    proven: bool | None = None
    method: str | None = None
    stopped_by: str | None = None
    asleep: t.Sequence[str] = ()
    unpriced: t.Sequence[str] = ()
    preference_watts: float = 0.0
    unplaced: tuple[UnplacedPod, ...] = ()
    allocations: t.Sequence[Object] = ()
    nodes: t.Sequence[Object] = ()
    findings: t.Sequence[Object] = ()
    steps: tuple[Step, ...] | None = None
    comparison: t.Sequence[Object] | None = None
    limits: t.Sequence[Object] | None = None
    closed: t.Mapping[str, str] | None = None
    time: str | None = None

    def as_document(self) -> dict[str, t.Any]:
        """The body of the document, and the result of the module."""
        parts = {
            **vars(self),
            "placements": [
                {
                    "namespace": one.namespace,
                    "pod": one.pod,
                    "uid": one.uid,
                    "resource_version": one.resource_version,
                    "node": one.node,
                }
                for one in self.placements
            ],
            "unplaced": [
                {
                    "namespace": one.namespace,
                    "pod": one.pod,
                    "uid": one.uid,
                    "reasons": one.reasons,
                    "message": one.message,
                    "fits_empty_fleet": one.fits_empty_fleet,
                    **({} if one.starts is None else {"starts": one.starts}),
                }
                for one in self.unplaced
            ],
            "steps": None if self.steps is None else [step.as_document() for step in self.steps],
        }
        return {name: part for name, part in parts.items() if part is not None}

    @classmethod
    def from_document(cls, body: Object) -> Plan:
        """The plan of a document. Raises InvalidInput."""
        return cls(
            **{
                **{name: body[name] for name in cls.__dataclass_fields__ if name in body},
                "placements": _placements(body["placements"]),
                "unplaced": tuple(_unplaced(one) for one in body.get("unplaced") or ()),
                "steps": _steps(body),
            }
        )


def is_comparable(entry: Object, nodes: t.Sequence[str], unpriced: t.Iterable[str]) -> bool:
    """Whether a strategy of a comparison placed as many pods, and as many on priced nodes.

    ``nodes`` are those of the placements. A strategy that places fewer pods, or more on nodes
    without a power model, draws less.
    """
    without_model = set(unpriced)
    on_unpriced = sum(node in without_model for node in nodes)
    return (entry["placed"], entry.get("placed_unpriced", 0)) == (len(nodes), on_unpriced)


def _steps(body: Object) -> tuple[Step, ...] | None:
    steps = body.get("steps")
    if steps is None:
        return None
    return tuple(Step.from_document(number, step) for number, step in enumerate(steps, 1))


def _placements(listed: t.Iterable[Object]) -> tuple[Placement, ...]:
    found: dict[tuple[str, str], Placement] = {}
    for one in listed:
        key = one.get("namespace") or "default", one["pod"]
        if key in found:
            raise InvalidInput(f"placements: the pod {'/'.join(key)} is listed twice")
        found[key] = Placement(*key, one["node"], one.get("uid"), one.get("resource_version"))
    return tuple(found.values())


def _unplaced(one: Object) -> UnplacedPod:
    for name in ("pod", "message"):
        if not isinstance(one.get(name), str):
            raise InvalidInput(f"unplaced: {name} is missing; give what power_placement returns")
    return UnplacedPod(
        one.get("namespace") or "default",
        one["pod"],
        one["message"],
        one.get("uid"),
        one.get("reasons") or {},
        one.get("fits_empty_fleet"),
        one.get("starts"),
    )
