# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Selectors in CEL, in the environment of Kubernetes' DRA, the prototype's flat one or of hosts.

The library is Google's (PyPI: cel-expr-python); docs/project/decisions.md has the reasons. An expression is
compiled twice: once with the types of quantities and versions declared as opaque, so that the type
checker finds mistakes, and once with the types by which the library represents them.

Every user with the permission to create claims writes selectors, so their time and memory are
bounded: the length of the source, and constructs that enlarge its tree or its types, before the
library reads it; then an upper bound of each evaluation (cost.py). The library itself allows 32
levels and 10,000 rounds.
"""

from __future__ import annotations

import functools
import re
import typing as t
from dataclasses import dataclass, field

from ..base.boundary import InvalidField, shown, shown_text
from ..base.libraries import cel, ext_bindings, ext_math, ext_optional, ext_strings
from ..base.units import parse_quantity
from ..cel import functions
from .cost import ENDLESS, Bound, UnboundedCost, worst_cost
from .tree import (
    Expression,
    Path,
    paths_equated_with_texts,
    read_tree,
    references,
    texts_in_order_comparisons,
)

# Source: resource.k8s.io/v1, CELSelectorExpressionMaxLength and CELSelectorExpressionMaxCost.
MAXIMAL_LENGTH = 10 * 1024
MAXIMAL_COST = 1_000_000
# An optMap copies its target into the tree twice, and the type of a map contains two types. So n
# nested ones make 2^n copies, before anything is evaluated. At this limit reading a source takes
# 0.3 s.
_COPYING = ("optMap", "optFlatMap", "{")
_MAX_COPIED = 1 << 18
# Limit of the library's tree; ten times that of a source of the largest length.
_MAX_TREE = 1 << 20
_MAX_ERROR_LENGTH = 300

Kind = t.Literal["dra", "flat", "host"]
Variables = t.Mapping[str, t.Any]

_ROOTS: t.Mapping[Kind, tuple[str, ...]] = {
    "dra": (
        "device.driver",
        "device.attributes",
        "device.capacity",
        "device.allowMultipleAllocations",
    ),
    "flat": ("device",),
    "host": ("host",),
}
# The longest text, most members and bytes of devices' values. Upstream's limits: 64 characters, 32
# attributes and capacities with 48 values; k8srm/pools.py has those of the prototype, and
# hosts/roles/requirements.py limits hosts' values to its own.
_DEVICES: t.Mapping[Kind, Bound] = {
    "dra": Bound(64, 48, 12 * 1024),
    "flat": Bound(256, 128, 64 * 1024),
    "host": Bound(256, 512, 64 * 1024),
}
_DOMAINS = ("device.attributes", "device.capacity")
_EMPTY: t.Mapping[str, t.Any] = {}
_ASSIGNMENT = re.compile(r"(?<![=!<>])=(?!=)")

# Worst-case steps of one selector for all devices together: about ten seconds.
MAXIMAL_COST_OF_ALL = 50 * MAXIMAL_COST


class SelectorError(Exception):
    """A selector could not be evaluated for a device; the text is the reason, in one line."""


@dataclass(frozen=True)
class Selector:
    """A compiled expression, with the paths that it reads and warnings about it.

    With ``plain_versions`` versions are texts, as in the prototype, which has no functions for them.
    """

    source: str
    reads: frozenset[Path]
    doubts: tuple[str, ...]
    equated: frozenset[Path]
    cost: int
    plain_versions: bool
    program: t.Any = field(repr=False, compare=False)

    def evaluate(self, variables: Variables) -> bool | SelectorError:
        """Whether the device with these variables matches, or the error."""
        given = self._with_domains(variables)
        if self.plain_versions:
            given = {root: _with_plain_versions(values) for root, values in given.items()}
        for path in sorted(self.equated):
            # The library would treat a version and a text as unequal, like its own values.
            if isinstance(lookup(given, path), dict):
                return SelectorError(
                    f"no such overload: {path[-1]} is a version or quantity and is compared "
                    'with a text; write semver("…") or quantity("…")'
                )
        try:
            result = self.program.eval(data=given)
            value = result.plain_value()
        except Exception as error:  # noqa: BLE001 - whatever a device's values do to the library
            return SelectorError(_one_line(error))
        if isinstance(value, bool):
            return value
        reason = _one_line(value)
        if "device" in given and any(_is_quantity(lookup(given, path)) for path in self.reads):
            reason = (
                f"unsupported conversion to ref.Val: (resource.Quantity) ({reason}); compare a "
                'quantity as in device.memory.compareTo(quantity("10Gi")) >= 0'
            )
        elif str(result.type()) != "ERROR":
            reason = f"it gives {shown(value)}, which is neither true nor false"
        return SelectorError(reason)

    def _with_domains(self, variables: Variables) -> Variables:
        """The variables with an empty domain for each missing one, as in Kubernetes."""
        given = dict(variables)
        for path in self.reads:
            if path[0] in _DOMAINS and len(path) > 1 and path[:1] not in self.reads:
                given[path[0]] = {path[1]: _EMPTY, **given[path[0]]}
        return given


def lookup(variables: Variables, path: Path) -> t.Any:
    """The value at a path; None if there is none."""
    value: t.Any = variables
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _with_plain_versions(values: Variables) -> Variables:
    return {
        name: value[functions.SEMVER]
        if isinstance(value, dict) and functions.SEMVER in value
        else value
        for name, value in values.items()
    }


def _is_quantity(value: t.Any) -> bool:
    return isinstance(value, dict) and functions.QUANTITY in value


def _one_line(error: t.Any) -> str:
    lines = str(error)[: 10 * _MAX_ERROR_LENGTH].splitlines()
    text = " ".join(line.strip() for line in lines if not line.startswith(" | "))
    text = re.sub(r"(?:^|(?<=\s))(?:[A-Z]+_?[A-Z]+: )+", "", text)
    text = re.sub(r"<input>:|\s*\[[A-Z_]+\]$| \(in container ''\)", "", text).strip()
    return shown_text(text, _MAX_ERROR_LENGTH)


class Compiler:
    """Compiles selectors of one kind, each text once."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._known: dict[str, Selector] = {}

    def compile(self, source: t.Any, where: str) -> Selector:
        """The selector, checked. Raises InvalidInput, which names ``where``."""
        if not isinstance(source, str):
            raise InvalidField(where, f"a CEL expression is text, not {type(source).__name__}")
        if source not in self._known:
            self._known[source] = self._compile(source, where)
        return self._known[source]

    def _compile(self, source: str, where: str) -> Selector:
        _refuse_what_explodes(source, where)
        checking, running = _environments(self._kind)
        try:
            checked = checking.compile(source)
            program = running.compile(source)
            serialized = program.serialize()
        except RuntimeError as error:
            raise InvalidField(where, _refusal(source, _one_line(error))) from error
        if checked.return_type().name() not in ("BOOL", "DYN"):
            raise InvalidField(
                where,
                f"the CEL expression {shown(source)} gives "
                f"{shown_text(str(checked.return_type()))}; a selector must return true or false",
            )
        if len(serialized) > _MAX_TREE:
            raise InvalidField(
                where, f"the CEL expression {shown(source)} is too large; shorten it"
            )
        tree = read_tree(serialized)
        cost = _checked_cost(tree, _DEVICES[self._kind], source, where)
        doubts = tuple(
            f"compares with the text {shown(text)} letter by letter; write quantity({text!r}) and "
            "compareTo"
            for text in sorted(texts_in_order_comparisons(tree))
            if functions.is_read_by(parse_quantity, text)
        )
        roots = _ROOTS[self._kind]
        equated = paths_equated_with_texts(tree, roots)
        called = {part.name for part in tree.walk() if part.kind == "call"}
        plain_versions = self._kind == "flat" and called.isdisjoint(functions.OF_VERSIONS)
        reads = references(tree, roots)
        return Selector(source, reads, doubts, equated, cost, plain_versions, program)


def _refuse_what_explodes(source: str, where: str) -> None:
    """Raise InvalidInput for a source that the library would read too long."""
    try:
        length = len(source.encode())
    except UnicodeEncodeError as error:
        raise InvalidField(where, f"the CEL expression {shown(source)} is not text") from error
    if length > MAXIMAL_LENGTH:
        raise InvalidField(
            where, f"the CEL expression has {length} bytes; Kubernetes allows {MAXIMAL_LENGTH}"
        )
    copying = {word: count for word in _COPYING if (count := source.count(word))}
    if length << min(sum(copying.values()), MAXIMAL_LENGTH) > _MAX_COPIED:
        told = ", ".join(f"{word} {count} times" for word, count in copying.items())
        raise InvalidField(
            where,
            f"the CEL expression {shown(source)} has {told}; each may double the work, "
            "write fewer or a shorter expression",
        )


def _checked_cost(tree: Expression, devices: Bound, source: str, where: str) -> int:
    """The worst-case steps of an evaluation. Raises InvalidInput for too many."""
    try:
        cost = worst_cost(tree, devices)
    except UnboundedCost as error:
        raise InvalidField(
            where, f"the CEL expression {shown(source)} has {error}, which is unsupported"
        ) from error
    if cost > MAXIMAL_COST:
        steps = "endless" if cost == ENDLESS else cost
        raise InvalidField(
            where,
            f"the CEL expression may cost {steps} steps for each device; Kubernetes "
            f"allows {MAXIMAL_COST}: nest fewer loops, and build shorter texts and lists",
        )
    return cost


def _refusal(source: str, reason: str) -> str:
    sentence = f"the CEL expression {shown(source)} does not compile: {reason}"
    if _ASSIGNMENT.search(source):
        meant = _ASSIGNMENT.sub("==", source)
        return f"{sentence}; for equality write ==, as in {shown(meant)}"
    return sentence


@functools.cache
def _environments(kind: Kind) -> tuple[t.Any, t.Any]:
    """The environments for type checking and for evaluation; both are immutable."""
    extensions = [
        ext_strings.ExtStrings(),
        ext_bindings.ExtBindings(),
        ext_optional.ExtOptional(),
        ext_math.ExtMath(),
    ]
    made = []
    for opaque in (True, False):
        quantity = functions.carrier(functions.QUANTITY, opaque)
        made.append(
            cel.NewEnv(
                variables=_variables(kind, quantity),
                functions=functions.declarations(opaque),
                extensions=extensions,
            )
        )
    return made[0], made[1]


def _variables(kind: Kind, quantity: t.Any) -> dict[str, t.Any]:
    kinds = cel.Type
    if kind in ("flat", "host"):
        return {_ROOTS[kind][0]: kinds.Map(kinds.STRING, kinds.DYN)}
    return {
        "device.driver": kinds.STRING,
        "device.attributes": kinds.Map(kinds.STRING, kinds.Map(kinds.STRING, kinds.DYN)),
        "device.capacity": kinds.Map(kinds.STRING, kinds.Map(kinds.STRING, quantity)),
        "device.allowMultipleAllocations": kinds.BOOL,
    }


Answer = t.Union[bool, SelectorError]

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
