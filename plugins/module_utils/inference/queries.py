# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The query to the power model of one node, and the check of its inputs."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ..base.errors import InvalidInput, TargetFailure
from . import wire

V2 = "V2InferenceProtocol"
FAKE = "Fake"
FORMATS = ("percent", "raw")
GRID_POINTS = 21


@dataclass(frozen=True)
class Query:
    """The query to one node's power model: the node's state, and the CPU use in cores.

    A quantity that is None is unknown.
    """

    name: str
    endpoint: str
    type: str = V2
    cpu_capacity: t.Optional[float] = None
    cpu_usage_format: str = "percent"
    inlet_celsius: t.Optional[float] = None
    delta_p_pascal: t.Optional[float] = None

    def cpu(self) -> tuple[float, ...]:
        """CPU use in cores, 21 points from 0 to the capacity. Raises TargetFailure."""
        capacity = self._capacity()
        return tuple(capacity * step / (GRID_POINTS - 1) for step in range(GRID_POINTS))

    def rows(self, cpu: t.Sequence[float]) -> tuple[str, ...]:
        """The value to send for each CPU use, in the unit of the format. Raises TargetFailure."""
        if self.type != V2:
            raise TargetFailure(
                "malformed", f"{self.type!r} is not a type of power predictor; write {V2} or {FAKE}"
            )
        inlet = self._finite(self.inlet_celsius, "inlet temperature")
        delta_p = self._finite(self.delta_p_pascal, "differential pressure")
        if self.cpu_usage_format not in FORMATS:
            raise TargetFailure(
                "malformed",
                f"the CPU usage format {self.cpu_usage_format!r} of node {self.name} is not known;"
                f" write {' or '.join(FORMATS)}",
            )
        factor = 1.0 if self.cpu_usage_format == "raw" else 100 / self._capacity()
        try:
            return wire.rows((cores * factor for cores in cpu), inlet, delta_p)
        except InvalidInput as error:
            raise TargetFailure("malformed", f"node {self.name}: {error}") from error

    def _finite(self, value: float | None, quantity: str) -> float:
        if value is None or not math.isfinite(value):
            raise TargetFailure("no_sensor", f"no {quantity} is known for node {self.name}")
        return value

    def _capacity(self) -> float:
        if self.cpu_capacity is None or not 0 < self.cpu_capacity < math.inf:
            raise TargetFailure(
                "malformed",
                f"the CPU capacity of node {self.name} is not a number of cores above 0, so its"
                " use has no percentage; give cpu_capacity",
            )
        return self.cpu_capacity
