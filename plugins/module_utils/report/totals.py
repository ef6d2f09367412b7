# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power draw of the fleet, summed over the same nodes for every quantity, and the saving.

Sums over different nodes are not comparable. So a node counts only if all shown quantities are
known, and a quantity is shown only if it is known for at least half of the configured nodes.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..scheduling.plan import is_comparable
from .fleet import Fleet, Node

# Quantities of a node.
_OF_NODE = (
    *("measured_before", "predicted_before", "predicted_after", "measured_after"),
    *("baseline", "asleep"),
)


@dataclass(frozen=True)
class Saving:
    """Saved watts: ``against_added``, which the pods add under ``against``, minus our added power.

    ``basis`` is ``measured`` if both sides are, ``predicted`` if ours or both are predicted.
    """

    watts: float
    against: str
    against_added: float
    basis: str

    @property
    def percent_of_added(self) -> float | None:
        return 100 * self.watts / self.against_added if self.against_added > 0 else None

    def as_dict(self) -> dict[str, t.Any]:
        share = self.percent_of_added
        return {
            "watts": round(self.watts, 1),
            "percent_of_added": None if share is None else round(share, 1),
            "against": self.against,
            "against_added": round(self.against_added, 1),
            "basis": self.basis,
        }


@dataclass(frozen=True)
class Totals:
    """Sums in watts, None if not shown; ``left_out`` are nodes without a complete set of values."""

    watts: dict[str, t.Optional[float]]
    counted: int
    left_out: tuple[str, ...]

    @property
    def before(self) -> float | None:
        """The measured sum, else the predicted one."""
        measured = self.watts["measured_before"]
        return self.watts["predicted_before"] if measured is None else measured

    def added(self, name: str) -> float | None:
        """Power that the pods add: predicted minus predicted, or measured minus measured."""
        value, before = self.watts[name], self.before
        if name == "predicted_after":
            before = self.watts["predicted_before"]
        return None if value is None or before is None else value - before

    @property
    def our_added(self) -> float | None:
        """Measured added power of the placement, else the predicted ones."""
        measured = self.added("measured_after")
        return self.added("predicted_after") if measured is None else measured


def add_up(fleet: Fleet) -> Totals:
    """Sum every quantity over the nodes with all shown quantities."""
    configured = [node for node in fleet.nodes if node.expected is None or node.expected]

    def known(name: str, nodes: t.Iterable[Node]) -> list[Node]:
        return [node for node in nodes if getattr(node, name) is not None]

    shown = [
        name
        for name in (_OF_NODE[:1] if fleet.state == "observed" else _OF_NODE)
        if configured and 2 * len(known(name, configured)) >= len(configured)
    ]
    complete = list(fleet.nodes) if shown else []
    for name in shown:
        complete = known(name, complete)
    sums: dict[str, t.Optional[float]] = dict.fromkeys(_OF_NODE)
    if complete:
        sums.update({name: sum(getattr(node, name) for node in complete) for name in shown})
    names = {node.name for node in complete}
    left_out = tuple(node.name for node in fleet.nodes if node.name not in names)
    return Totals(sums, len(complete), left_out)


def saving(fleet: Fleet, totals: Totals) -> Saving | None:
    """Saving of the placement by the best evidence; None without any, or if pods were not bound.

    The order of evidence is BMC readings under both schedulers, BMC readings under the other
    scheduler with our prediction, and predictions for a strategy that spreads pods as the default
    scheduler does.
    """
    if fleet.state not in ("planned", "pending", "measured") or fleet.not_bound:
        # The other scheduler placed the unbound pods too.
        return None
    added, theirs = totals.our_added, totals.added("baseline")
    if added is not None and theirs is not None:
        basis = "predicted" if totals.watts["measured_after"] is None else "measured"
        return Saving(theirs - added, "default scheduler", theirs, basis)
    plan = fleet.plan or {}
    nodes = [one["node"] for one in plan.get("placements") or ()]
    for entry in plan.get("comparison") or []:
        if entry["strategy"] == "spread" and is_comparable(
            entry, nodes, plan.get("unpriced") or ()
        ):
            theirs = entry["watts_after"] - plan["watts"]["before"]
            saved = entry["watts_after"] - plan["watts"]["after"]
            return Saving(saved, "spreading the pods", theirs, "predicted")
    return None
