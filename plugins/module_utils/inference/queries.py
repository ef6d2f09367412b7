# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The query to the power model of one node, its inputs, and earlier answers that still hold."""

from __future__ import annotations

import datetime
import math
import typing as t
from dataclasses import dataclass, field

from ..base.errors import InvalidInput, TargetFailure
from ..fleet.credentials import CredentialReference
from . import wire
from .curves import Inputs, PowerCurve, PowerCurves

V2 = "V2InferenceProtocol"
FAKE = "Fake"
FORMATS = ("percent", "raw")
GRID_POINTS = 21


@dataclass(frozen=True)
class Query:
    """The query to one node's power model: the node's state, and the account.

    A quantity that is None is unknown. ``problem`` is the reason why it cannot be sent, if any.
    """

    name: str
    endpoint: str
    type: str = V2
    cpu_capacity: t.Optional[float] = None
    cpu_usage_format: str = "percent"
    inlet_celsius: t.Optional[float] = None
    delta_p_pascal: t.Optional[float] = None
    named: CredentialReference = field(default_factory=CredentialReference)
    problem: TargetFailure | None = None

    @property
    def needs_credential(self) -> bool:
        return not self.named.is_silent and self.type == V2 and self.problem is None

    def inputs(self, now: datetime.datetime) -> Inputs:
        """The inputs of its curve."""
        names = ("endpoint", "cpu_usage_format", "cpu_capacity")
        exact = {name: getattr(self, name) for name in names}
        return Inputs(exact, self.inlet_celsius, self.delta_p_pascal, now)

    def is_answered_by(
        self, curve: PowerCurve | None, now: datetime.datetime, keep_seconds: float
    ) -> bool:
        """Whether an earlier curve of the model holds, so that it is not queried again."""
        if curve is None or curve.inputs is None or self.type != V2 or self.problem is not None:
            return False
        try:
            grid = self.cpu()
        except TargetFailure:
            return False
        return curve.curve.cores == grid and curve.inputs.still_hold(self.inputs(now), keep_seconds)

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


def divide(
    queries: t.Sequence[Query], last: PowerCurves, now: datetime.datetime, keep_seconds: float
) -> tuple[list[Query], dict[str, PowerCurve]]:
    """The queries to send, and the valid curves of the last run for the others."""
    before = {name: curve.predicted or curve for name, curve in last.items()}
    kept = {
        query.name: before[query.name]
        for query in queries
        if query.is_answered_by(before.get(query.name), now, keep_seconds)
    }
    return [query for query in queries if query.name not in kept], kept
