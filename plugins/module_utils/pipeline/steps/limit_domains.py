# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""What one run says of each limit: its state in the document, and warnings."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ...base.context import Result
from ...power.limits.caps import CapPlan
from ...power.limits.domains import Limit, title_of
from .capping import Capping
from .inlets import RackInlet
from .limit_evictions import EvictionOutcome


@dataclass(frozen=True)
class Domains:
    """The limits in W, among them those of reduced racks, and the racks with an inlet limit."""

    limits: t.Sequence[Limit]
    racks: t.Sequence[RackInlet]
    plan: CapPlan
    capping: Capping

    def tell(self, mode: str, told: EvictionOutcome) -> list[Result]:
        """Each limit as the document has it, after the warnings; nodes only above theirs."""
        domains = [*self._of_watts(told), *self._of_inlets(told)]
        for sentence in (*self._shared(), *(text for one in self.racks for text in one.problems())):
            self.capping.context.warn(sentence)
        above = [one for one in domains if one["state"] == "above"]
        for domain in above:
            self.capping.context.warn(self._sentence(domain, mode))
        if above and told.sentence:
            self.capping.context.warn(told.sentence)
        return domains

    @functools.cached_property
    def _limited(self) -> frozenset[str]:
        """The racks with a limit in W."""
        return frozenset(one.name for one in self.limits if one.kind == "rack")

    @functools.cached_property
    def _unread(self) -> t.Mapping[str, t.Sequence[str]]:
        return self.capping.unread(self._limited | {one.name for one in self.racks})

    def _shared(self) -> t.Iterator[str]:
        for rack, names in self._unread.items():
            limit, value = "inlet limit", "inlet"
            if rack in self._limited:
                limit, value = "limit", "power"
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            yield (
                f"The {limit} of rack {rack} does not count the {value} of {min(names)}{more}, which "
                "this run does not read; let one PowerFleet or run have all machines of the rack"
            )

    def _of_watts(self, told: EvictionOutcome) -> t.Iterator[Result]:
        for index, limit in enumerate(self.limits):
            is_above = index in self.plan.above
            is_whole = limit.kind != "rack" or limit.name not in self._unread
            is_known = is_whole and all(name in self.capping.watts for name in limit.nodes)
            if limit.kind != "inlet" and (is_above or limit.kind != "node"):
                state = "above" if is_above else "within" if is_known else "unknown"
                yield self._domain(limit, index, told, state)

    def _of_inlets(self, told: EvictionOutcome) -> t.Iterator[Result]:
        places = {one.name: index for index, one in enumerate(self.limits) if one.kind == "inlet"}
        for rack in self.racks:
            limit = Limit("inlet", rack.name, rack.nodes, 0.0)
            state = (
                "unknown" if rack.state == "within" and rack.name in self._unread else rack.state
            )
            yield {
                **self._domain(limit, places.get(rack.name), told, state),
                "limit_watts": None if rack.reduction is None else rack.reduction.watts,
                "limit_celsius": rack.limit_celsius,
                "celsius": rack.celsius,
            }

    def _domain(
        self, limit: Limit, index: int | None, told: EvictionOutcome, state: str
    ) -> dict[str, t.Any]:
        capping = self.capping
        uncovered = 0.0 if index is None else self.plan.uncovered.get(index, 0.0)
        return {
            "kind": limit.kind,
            "name": limit.name,
            "limit_watts": limit.watts,
            "watts": round(sum(capping.watts.get(name, 0.0) for name in limit.nodes), 1),
            "state": state,
            "uncovered_watts": round(uncovered, 1),
            "capped": sum(name in capping.caps for name in limit.nodes),
            "evicted": sum(node in limit.nodes for node in told.evicted_from),
        }

    def _sentence(self, domain: Result, mode: str) -> str:
        covered = {
            "on": "caps would be set" if self.capping.context.check_mode else "caps are set",
            "dry_run": "limits.cap is dry_run, so that no cap is set",
            "off": "limits.cap is off",
        }
        uncovered, title = domain["uncovered_watts"], title_of(domain["kind"], domain["name"])
        left = f"; no cap covers {uncovered:,.0f} W of it" if uncovered and mode != "off" else ""
        if domain["kind"] != "inlet":
            return (
                f"The {title} draws {domain['watts']:,.0f} W, above its limit of "
                f"{domain['limit_watts']:,.0f} W; {covered[mode]}{left}"
            )
        hottest = next(one.hottest for one in self.racks if one.name == domain["name"])
        now, limit = domain["celsius"], domain["limit_celsius"]
        if domain["limit_watts"] is None:
            return (
                f"The {title} has {now:.3g} °C at {hottest}, above its limit of {limit:g} °C; nothing "
                "reduces its power"
            )
        return (
            f"The inlet of rack {domain['name']} has {now:.3g} °C at {hottest}, above its limit of "
            f"{limit:g} °C; the rack draws {domain['watts']:,.0f} W and may draw "
            f"{domain['limit_watts']:,.0f} W; {covered[mode]}{left}"
        )
