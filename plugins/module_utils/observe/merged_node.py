# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Values and failures of one node in an observation."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..base.errors import TargetError
from ..base.json_types import Object
from ..nodeconfig.readings import FRESH_SOURCES, Reading, Value


@dataclass
class MergedNode:
    """Values and failures of one node, while they are merged.

    ``needed`` are the quantities with a source in the NodeConfig. Without a power model, the power
    draw of a BMC suffices in place of its inlet temperature. ``failing`` are pairs of endpoint
    (``bmc`` or ``pressure``) and reason.
    """

    node: str
    needed: frozenset[str] = frozenset({"inlet_celsius"})
    has_power_model: bool = True
    system: Object = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    errors: list[TargetError] = field(default_factory=list)
    failing: set[tuple[str, str]] = field(default_factory=set)

    def fail(self, endpoint: str, error: TargetError) -> None:
        self.errors.append(error)
        self.failing.add((endpoint, error.reason))

    @property
    def fresh(self) -> set[str]:
        """The quantities with fresh readings."""
        return {name for name, value in self.values.items() if value.source in FRESH_SOURCES}

    @property
    def is_fresh(self) -> bool:
        """Whether all configured quantities have fresh readings."""
        fresh = self.fresh
        if "power_watts" in fresh and not self.has_power_model:
            fresh.add("inlet_celsius")
        return self.needed <= fresh

    @property
    def reading(self) -> Reading:
        return Reading(self.values, self.system)
