# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Static upper bound of the steps and bytes of a CEL expression's evaluation.

The estimate is like Kubernetes': a step for each node of the tree, a tenth of a step for each byte
that is read or made, times the iterations of loops. Made bytes count as steps, so one limit bounds
time and memory. Each expression also gets a bound of its value, which ``cel.bind`` that doubles a
text, and ``map`` that doubles a list, double. A function without a rule is refused.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .tree import Expression

# Beyond any limit; numbers end here, because n doublings have n digits.
ENDLESS = 10**15
# Memory of the library for one value, in bytes: measured.
_BYTES_OF_A_VALUE = 32
_BYTES_OF_A_STEP = 10
# Cost of a call from the library to Python, in the library's own steps.
_STEPS_OF_A_CALL = 20
_MAX_NUMBER_LENGTH = 64
# Largest precision of a format such as %.1000f in the library.
_MAX_FORMATTED_LENGTH = 1400
# Source: RE2 compiles a{1000} to 1,000 instructions and refuses more than that.
_MAX_REPETITION_LENGTH = 1000
_REPETITION = re.compile(r"\{\s*\d")


class UnboundedCost(Exception):
    """The expression uses a function of unknown cost, which the text names."""


@dataclass(frozen=True)
class Bound:
    """Bounds of a value and its members: longest text, most members of one list, bytes."""

    text: int = 0
    items: int = 0
    size: int = _BYTES_OF_A_VALUE

    def joined(self, other: Bound) -> Bound:
        """The bound of a value that may be either."""
        return Bound(
            max(self.text, other.text), max(self.items, other.items), max(self.size, other.size)
        )


SCALAR = Bound()
Estimate = tuple[int, Bound]
Rule = t.Callable[..., Estimate]


def worst_cost(tree: Expression, variable: Bound) -> int:
    """Worst-case steps of an evaluation, at most ENDLESS.

    Raises UnboundedCost. ``variable`` bounds the values of variables.
    """
    return min(ENDLESS, _estimate(tree, {}, variable)[0])


def _estimate(tree: Expression, known: t.Mapping[str, Bound], variable: Bound) -> Estimate:
    if tree.kind == "loop":
        return _loop(tree, known, variable)
    if tree.kind == "identifier":
        return 1, known.get(tree.name, variable)
    if tree.kind == "constant":
        return 1, Bound(tree.length, 0, _BYTES_OF_A_VALUE + tree.length) if tree.length else SCALAR
    estimates = [_estimate(part, known, variable) for part in tree.parts]
    bounds = [bound for _cost, bound in estimates]
    if tree.kind == "select":
        own, bound = 1, bounds[0]
    elif tree.kind == "call":
        own, bound = _call(tree, bounds)
    else:
        own, bound = _collected(bounds)
    return min(ENDLESS, own + sum(cost for cost, _bound in estimates)), _limited(bound)


def _limited(bound: Bound) -> Bound:
    return Bound(*(min(ENDLESS, number) for number in (bound.text, bound.items, bound.size)))


def _loop(tree: Expression, known: t.Mapping[str, Bound], variable: Bound) -> Estimate:
    """The macros all, exists, exists_one, map, filter, and cel.bind, a loop without iterations."""
    over, start, condition, step, result = tree.parts
    gathered_name, *item_names = tree.variables
    over_cost, over_bound = _estimate(over, known, variable)
    cost, gathered = _estimate(start, known, variable)
    rounds = over_bound.items
    inside = {**known, **dict.fromkeys(filter(None, item_names), over_bound)}
    condition_cost, _bound = _estimate(condition, {**inside, gathered_name: gathered}, variable)
    if rounds:
        own, gathered = _step(step, gathered_name, gathered, rounds, inside, variable)
        cost += rounds * (own + condition_cost + 1)
    result_cost, bound = _estimate(result, {**known, gathered_name: gathered}, variable)
    return min(ENDLESS, over_cost + cost + result_cost + 1), bound


def _step(
    step: Expression,
    name: str,
    gathered: Bound,
    rounds: int,
    inside: t.Mapping[str, Bound],
    variable: Bound,
) -> Estimate:
    """Steps of one iteration, and the bound of the accumulated value."""
    inside = {**inside, name: gathered}
    if step.kind == "call" and step.name == "_?_:_":
        condition, more, same = step.parts
        if _is_variable(same, name):
            cost, _bound = _estimate(condition, inside, variable)
            own, bound = _step(more, name, gathered, rounds, inside, variable)
            return cost + own + 1, bound
    if step.kind == "call" and step.name == "_+_" and _is_variable(step.parts[0], name):
        cost, added = _estimate(step.parts[1], inside, variable)
        members = len(step.parts[1].parts)
        if step.parts[1].kind == "list":
            bound = Bound(
                max(gathered.text, added.text),
                max(gathered.items + rounds * members, added.items),
                gathered.size + rounds * added.size,
            )
            # The library copies the list in each iteration.
            copied = _BYTES_OF_A_VALUE * (gathered.items + rounds * members)
            return cost + 1 + _steps_of(copied), _limited(bound)
    cost, bound = _estimate(step, inside, variable)
    if bound.joined(gathered) != gathered:
        raise UnboundedCost("a loop that gathers more than a list")
    return cost, gathered


def _is_variable(tree: Expression, name: str) -> bool:
    return tree.kind == "identifier" and tree.name == name


def _steps_of(size: int) -> int:
    return -(-size // _BYTES_OF_A_STEP)


def _text(length: int) -> Bound:
    return Bound(length, 0, _BYTES_OF_A_VALUE + length)


def _collected(bounds: t.Sequence[Bound]) -> Estimate:
    """A list or mapping of these."""
    size = _BYTES_OF_A_VALUE * (len(bounds) + 1) + sum(bound.size for bound in bounds)
    text = max((bound.text for bound in bounds), default=0)
    items = max((bound.items for bound in bounds), default=0)
    return 1 + 3 * len(bounds), Bound(text, max(len(bounds), items), size)


def _call(tree: Expression, bounds: t.Sequence[Bound]) -> Estimate:
    if tree.name == "format":
        return _formatted(tree, bounds)
    if tree.name == "matches":
        return _matched(tree, bounds)
    rule = _RULES.get(tree.name)
    if rule is None and tree.name.startswith("math."):
        rule = _one_of
    if rule is None:
        raise UnboundedCost(f"the function {tree.name}")
    return rule(*bounds)


def _read(*given: Bound) -> Estimate:
    return 1 + _steps_of(sum(bound.text for bound in given)), SCALAR


def _compared(one: Bound, other: Bound) -> Estimate:
    return 1 + _steps_of(min(one.size, other.size)), SCALAR


def _looked_up(one: Bound, among: Bound) -> Estimate:
    return 1 + among.items * (1 + _steps_of(min(one.size, among.size))), SCALAR


def _included(among: Bound, one: Bound) -> Estimate:
    copied = _steps_of(among.size + one.size)
    return _STEPS_OF_A_CALL + copied + _looked_up(one, among)[0], SCALAR


def _one_of(*given: Bound) -> Estimate:
    bound = SCALAR
    for other in given:
        bound = bound.joined(other)
    return 1 + len(given), bound


def _added(one: Bound, other: Bound) -> Estimate:
    if not (one.text or one.items or other.text or other.items):
        return 1, SCALAR
    text, items = one.text + other.text, one.items + other.items
    cost = 1 + _steps_of(text + _BYTES_OF_A_VALUE * items)
    return cost, Bound(text, items, one.size + other.size)


def _searched(text: Bound, part: Bound, *_begin: Bound) -> Estimate:
    return 1 + _steps_of(text.text * (part.text + 1)), SCALAR


def _changed(text: Bound, *_how: Bound) -> Estimate:
    return 1 + _steps_of(text.text), _text(text.text)


def _replaced(text: Bound, part: Bound, by: Bound, *_most: Bound) -> Estimate:
    length = text.text + (text.text + 1) * by.text
    return _searched(text, part)[0] + _steps_of(length), _text(length)


def _split(text: Bound, separator: Bound, *_most: Bound) -> Estimate:
    items = text.text + 1
    size = _BYTES_OF_A_VALUE * (items + 1) + text.text
    return _searched(text, separator)[0] + _steps_of(size), Bound(text.text, items, size)


def _joined(texts: Bound, separator: Bound = SCALAR) -> Estimate:
    length = texts.size + texts.items * separator.text
    return 1 + _steps_of(length), _text(length)


def _grown(factor: int, least: int) -> Rule:
    def rule(value: Bound) -> Estimate:
        length = max(least, factor * value.text)
        return 1 + _steps_of(length), _text(length)

    return rule


def _called(*given: Bound) -> Estimate:
    return _STEPS_OF_A_CALL + _steps_of(sum(bound.text for bound in given)), SCALAR


def _carried(*given: Bound) -> Estimate:
    """A quantity or version, represented as a map with one text."""
    text = max(_MAX_NUMBER_LENGTH, *(bound.text for bound in given))
    return _called(*given)[0], Bound(text, 1, 2 * _BYTES_OF_A_VALUE + text)


def _formatted(tree: Expression, bounds: t.Sequence[Bound]) -> Estimate:
    form, values = bounds[0], bounds[1]
    fields = form.text if tree.parts[0].value is None else tree.parts[0].value.count("%")
    length = form.text + fields * (_MAX_FORMATTED_LENGTH + 6 * values.size)
    return 1 + _steps_of(length), _text(length)


def _matched(tree: Expression, bounds: t.Sequence[Bound]) -> Estimate:
    text, pattern = bounds
    source = tree.parts[1].value
    repeats = source is None or _REPETITION.search(source)
    instructions = pattern.text * (_MAX_REPETITION_LENGTH if repeats else 1)
    return 1 + _steps_of(instructions) + _steps_of((text.text + 1) * pattern.text), SCALAR


# Names in the library's tree; those of math are all of scalars.
_RULES_OF_NAMES: tuple[tuple[str, Rule], ...] = (
    ("_&&_ _||_ !_ -_ _-_ _*_ _/_ _%_ @not_strictly_false optional.none hasValue", _read),
    ("size startsWith endsWith int uint double bool duration timestamp type", _read),
    (
        "getFullYear getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear getHours "
        "getMinutes getSeconds getMilliseconds",
        _read,
    ),
    ("_==_ _!=_ _<_ _<=_ _>_ _>=_", _compared),
    ("@in", _looked_up),
    ("includes", _included),
    ("_?_:_ _[_] _[?_] _?._ optional.of optional.ofNonZeroValue", _one_of),
    ("value or orValue dyn unwrapOpt optional.unwrap", _one_of),
    ("_+_", _added),
    ("contains indexOf lastIndexOf", _searched),
    ("charAt lowerAscii upperAscii substring trim reverse", _changed),
    ("replace", _replaced),
    ("split", _split),
    ("join", _joined),
    ("string", _grown(1, _MAX_NUMBER_LENGTH)),
    ("bytes", _grown(4, 0)),
    ("strings.quote", _grown(6, 2)),
    ("quantity semver add sub", _carried),
    ("isQuantity isSemver sign isInteger asInteger asApproximateFloat major minor patch", _called),
    ("isLessThan isGreaterThan compareTo", _called),
)
_RULES = {name: rule for names, rule in _RULES_OF_NAMES for name in names.split()}
