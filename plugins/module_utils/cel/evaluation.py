# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Results of selectors for many devices, evaluated once for each set of read values."""

from __future__ import annotations

import typing as t

from .selector import MAXIMAL_COST, Selector, SelectorError, Variables, lookup
from .tree import Path

Answer = t.Union[bool, SelectorError]

# Worst-case steps of one selector for all devices together: about ten seconds.
MAXIMAL_COST_OF_ALL = 50 * MAXIMAL_COST
TOO_MANY = SelectorError(
    "evaluating it for so many different devices takes too many steps; compare fewer values"
)


class Evaluations:
    """The results of selectors by position of the device.

    5,000 devices of one model differ in their serial numbers, which no selector reads. So the
    values of each path that some selector reads are numbered once, and a selector is evaluated once
    for each combination of numbers.
    """

    def __init__(self, variables: t.Sequence[Variables]) -> None:
        self._variables = variables
        self._columns: dict[Path, list[int]] = {}
        self._answers: dict[Selector, list[Answer]] = {}

    def of(self, selector: Selector) -> list[Answer]:
        """True, False or the error of the selector for each device."""
        if selector not in self._answers:
            self._answers[selector] = self._evaluate(selector)
        return self._answers[selector]

    def _evaluate(self, selector: Selector) -> list[Answer]:
        if not selector.reads:
            return [selector.evaluate(variables) for variables in self._variables[:1]] * len(
                self._variables
            )
        columns = [self._column(path) for path in sorted(selector.reads)]
        known: dict[tuple[int, ...], Answer] = {}
        found: list[Answer] = []
        most = MAXIMAL_COST_OF_ALL // max(1, selector.cost)
        for device, key in enumerate(zip(*columns)):
            answer = known.get(key)
            if answer is None:
                answer = TOO_MANY
                if len(known) < most:
                    answer = known[key] = selector.evaluate(self._variables[device])
            found.append(answer)
        return found

    def _column(self, path: Path) -> list[int]:
        """The value at the path in each device, as a number that is equal for equal values."""
        if path not in self._columns:
            numbers: dict[t.Hashable, int] = {}
            self._columns[path] = [
                numbers.setdefault(_frozen(lookup(variables, path)), len(numbers))
                for variables in self._variables
            ]
        return self._columns[path]


def _frozen(value: t.Any) -> t.Hashable:
    if isinstance(value, dict):
        return tuple(sorted((key, _frozen(member)) for key, member in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    return type(value).__name__, value
