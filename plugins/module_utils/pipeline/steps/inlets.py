# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Inlet limits of one run: racks above them, and the power that these may still draw.

A machine that sleeps has no fan that moves air past its sensor, so that its inlet does not count.
"""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass

from ...base.context import Context, Result
from ...nodeconfig.readings import Readings
from ...power.limits.domains import Limit, by_rack
from ...power.limits.options import PowerLimits, limit_of
from ...power.limits.reductions import (
    MARGIN_CELSIUS,
    ODD_CELSIUS,
    RackReading,
    Reduction,
    next_reduction,
    rack_inlet,
)
from ...scheduling.curve import Curves
from ..limits_record import Entries, Entry, RackReduction, rack_key
from .capping import Capping

_QUANTITY = "inlet_celsius"


@dataclass(frozen=True)
class RackInlet:
    """A rack with an inlet limit, its hottest inlet that counts, and its reduction after this run.

    ``odd`` are nodes whose inlets do not count. ``watts`` is the power of its machines with a reading.
    """

    name: str
    nodes: tuple[str, ...]
    limit_celsius: float
    hottest: str | None
    celsius: float | None
    odd: frozenset[str]
    watts: float
    reduction: Reduction | None

    @property
    def is_above(self) -> bool:
        """Above the limit, or not yet below it by the margin while the power is reduced."""
        if self.celsius is None:
            return False
        margin = 0.0 if self.reduction is None else MARGIN_CELSIUS
        return self.celsius > self.limit_celsius - margin

    @property
    def limit(self) -> Limit | None:
        """What the rack may draw."""
        if self.reduction is None:
            return None
        return Limit("inlet", self.name, self.nodes, self.reduction.watts)

    @property
    def may_evict(self) -> bool:
        """Whether fewer pods may cool the inlet, which is above its limit now."""
        is_hot = self.celsius is not None and self.celsius > self.limit_celsius
        return is_hot and self.reduction is not None and self.reduction.helps(self.celsius or 0.0)
