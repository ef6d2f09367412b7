# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Metrics of an extender's calls and of its state."""

from __future__ import annotations

import bisect
import typing as t
from dataclasses import dataclass, field

from ..base import metrics

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)
_OUTCOMES = ("answered", "refused")


@dataclass
class _Calls:
    """Calls of one verb: counts by outcome, and by the bucket of seconds."""

    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_OUTCOMES, 0))
    buckets: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))
    seconds: float = 0.0


class CallMetrics:
    """Counters since the start; used only by the thread of the server."""

    def __init__(self, verbs: t.Iterable[str]) -> None:
        self._calls = {verb: _Calls() for verb in verbs}

    def count(self, verb: str, outcome: str, seconds: float) -> None:
        """Count a call with its duration."""
        calls = self._calls[verb]
        calls.outcomes[outcome] += 1
        calls.buckets[bisect.bisect_left(_BOUNDS, seconds)] += 1
        calls.seconds += seconds

    def render(self, known: t.Mapping[str, int], measured_age: float | None, is_ready: bool) -> str:
        """The exposition; ``known`` are numbers of objects by kind."""
        outcomes = [
            ({"verb": verb, "outcome": outcome}, float(number))
            for verb, calls in self._calls.items()
            for outcome, number in calls.outcomes.items()
        ]
        objects = [({"kind": kind}, float(number)) for kind, number in known.items()]
        text = "Whether all Nodes, Pods and publications were listed once."
        return "".join(
            (
                metrics.family(
                    "wattwise_extender_calls_total",
                    "Calls of kube-scheduler by their outcome.",
                    outcomes,
                    {},
                    "counter",
                ),
                self._durations(),
                metrics.family(
                    "wattwise_extender_objects", "Objects that the extender knows.", objects, {}
                ),
                metrics.family(
                    "wattwise_extender_measurement_age_seconds",
                    "Age of the oldest measured CPU use of a node that counts.",
                    [] if measured_age is None else [({}, measured_age)],
                    {},
                ),
                metrics.family("wattwise_extender_ready", text, [({}, float(is_ready))], {}),
            )
        )

    def _durations(self) -> str:
        name = "wattwise_extender_call_seconds"
        lines = [f"# HELP {name} Durations of calls.", f"# TYPE {name} histogram"]
        for verb, calls in self._calls.items():
            total = 0
            for bound, number in zip((*map(str, _BOUNDS), "+Inf"), calls.buckets):
                total += number
                lines.append(f'{name}_bucket{{verb="{verb}",le="{bound}"}} {total}')
            lines.append(f'{name}_sum{{verb="{verb}"}} {calls.seconds:.9g}')
            lines.append(f'{name}_count{{verb="{verb}"}} {total}')
        return "\n".join(lines) + "\n"
