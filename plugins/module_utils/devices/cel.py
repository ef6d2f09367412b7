# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Selectors in CEL, in the environment of Kubernetes' DRA or in the prototype's flat one.

The library is Google's (PyPI: cel-expr-python); docs/decisions.md says why. An expression is
compiled twice: once with the types of quantities and versions declared as opaque, so that the
type checker finds mistakes, and once with the types by which the library carries them.
"""

from __future__ import annotations

import functools
import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.devices import cel_functions
from ansible_collections.wattwise.kube.plugins.module_utils.devices.cel_tree import (
    Path,
    paths_equated_with_texts,
    read_tree,
    references,
    texts_in_order_comparisons,
    worst_cost,
)
from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput, require
from ansible_collections.wattwise.kube.plugins.module_utils.units import parse_quantity

# Source: resource.k8s.io/v1, CELSelectorExpressionMaxLength and CELSelectorExpressionMaxCost.
MAXIMAL_LENGTH = 10 * 1024
MAXIMAL_COST = 1_000_000

Kind = t.Literal["dra", "flat"]
Variables = t.Mapping[str, t.Any]

_ROOTS: t.Mapping[Kind, tuple[str, ...]] = {
    "dra": (
        "device.driver",
        "device.attributes",
        "device.capacity",
        "device.allowMultipleAllocations",
    ),
    "flat": ("device",),
}
_DOMAINS = ("device.attributes", "device.capacity")
_EMPTY: t.Mapping[str, t.Any] = {}
_ASSIGNMENT = re.compile(r"(?<![=!<>])=(?!=)")


class SelectorError(Exception):
    """A selector could not be evaluated for a device; the text says why, in one line."""


@dataclass(frozen=True)
class Selector:
    """A compiled expression, with the paths that it reads and doubts about what it says."""

    source: str
    reads: frozenset[Path]
    doubts: tuple[str, ...]
    equated: frozenset[Path]
    program: t.Any = field(repr=False, compare=False)

    def evaluate(self, variables: Variables) -> bool | SelectorError:
        """Whether the device whose variables these are matches, or why nobody can tell."""
        given = self._with_domains(variables)
        for path in sorted(self.equated):
            # The library would call a version and a text unequal, as it does values of its own.
            if isinstance(lookup(given, path), dict):
                return SelectorError(
                    f"no such overload: {path[-1]} is a version or quantity and stands in an "
                    'equation with a text; write semver("…") or quantity("…")'
                )
        try:
            result = self.program.eval(data=given)
        except RuntimeError as error:
            return SelectorError(_one_line(error))
        value = result.plain_value()
        if isinstance(value, bool):
            return value
        reason = _one_line(value)
        if "device" in given and any(_is_quantity(lookup(given, path)) for path in self.reads):
            reason = (
                f"unsupported conversion to ref.Val: (resource.Quantity) ({reason}); compare a "
                'quantity as in device.memory.compareTo(quantity("10Gi")) >= 0'
            )
        return SelectorError(reason)

    def _with_domains(self, variables: Variables) -> Variables:
        """With an empty domain where one is read that the device lacks, as Kubernetes has it."""
        given = dict(variables)
        for path in self.reads:
            if path[0] in _DOMAINS and len(path) > 1 and path[:1] not in self.reads:
                given[path[0]] = {path[1]: _EMPTY, **given[path[0]]}
        return given


def lookup(variables: Variables, path: Path) -> t.Any:
    """The value at a path, None where there is none."""
    value: t.Any = variables
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _is_quantity(value: t.Any) -> bool:
    return isinstance(value, dict) and cel_functions.QUANTITY in value


def _one_line(error: t.Any) -> str:
    text = " ".join(line.strip() for line in str(error).splitlines() if not line.startswith(" | "))
    text = re.sub(r"(?:^|(?<=\s))(?:[A-Z]+_?[A-Z]+: )+", "", text)
    return re.sub(r"<input>:|\s*\[[A-Z_]+\]$| \(in container ''\)", "", text).strip()


class Compiler:
    """Compiles selectors of one kind, each text once."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._known: dict[str, Selector] = {}

    def compile(self, source: t.Any, where: str) -> Selector:
        """The selector, checked. Raises InvalidInput, which names ``where``."""
        if not isinstance(source, str):
            raise InvalidInput(f"{where}: a CEL expression is text, not {type(source).__name__}")
        if source not in self._known:
            self._known[source] = self._compile(source, where)
        return self._known[source]

    def _compile(self, source: str, where: str) -> Selector:
        if len(source) > MAXIMAL_LENGTH:
            raise InvalidInput(
                f"{where}: the CEL expression has {len(source)} characters; Kubernetes allows "
                f"{MAXIMAL_LENGTH}"
            )
        checking, running = _environments(self._kind)
        try:
            checked = checking.compile(source)
            program = running.compile(source)
        except RuntimeError as error:
            raise InvalidInput(_refusal(source, where, _one_line(error))) from error
        if checked.return_type().name() not in ("BOOL", "DYN"):
            raise InvalidInput(
                f"{where}: the CEL expression {source!r} gives {checked.return_type()}; a selector "
                "says true or false"
            )
        tree = read_tree(program.serialize())
        cost = worst_cost(tree)
        if cost > MAXIMAL_COST:
            raise InvalidInput(
                f"{where}: the CEL expression may cost {cost} steps for each device; Kubernetes "
                f"allows {MAXIMAL_COST}: nest fewer loops"
            )
        doubts = tuple(
            f"compares with the text {text!r} letter by letter; write quantity({text!r}) and "
            "compareTo"
            for text in sorted(texts_in_order_comparisons(tree))
            if _reads_as_quantity(text)
        )
        roots = _ROOTS[self._kind]
        equated = paths_equated_with_texts(tree, roots)
        return Selector(source, references(tree, roots), doubts, equated, program)


def _refusal(source: str, where: str, reason: str) -> str:
    sentence = f"{where}: the CEL expression {source!r} does not compile: {reason}"
    if _ASSIGNMENT.search(source):
        meant = _ASSIGNMENT.sub("==", source)
        return f"{sentence}; for equality write ==, as in {meant!r}"
    return sentence


def _reads_as_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except InvalidInput:
        return False
    return True


@functools.cache
def _environments(kind: Kind) -> tuple[t.Any, t.Any]:
    """The environment that checks types and the one that evaluates; both never change."""
    library = require("cel_expr_python.cel", "cel-expr-python")
    extensions = [
        require(f"cel_expr_python.ext.{module}", "cel-expr-python").__dict__[name]()
        for module, name in (
            ("ext_strings", "ExtStrings"),
            ("ext_bindings", "ExtBindings"),
            ("ext_optional", "ExtOptional"),
            ("ext_math", "ExtMath"),
        )
    ]
    made = []
    for opaque in (True, False):
        quantity = cel_functions.carrier(library, cel_functions.QUANTITY, opaque)
        made.append(
            library.NewEnv(
                variables=_variables(library, kind, quantity),
                functions=cel_functions.declarations(library, opaque),
                extensions=extensions,
            )
        )
    return made[0], made[1]


def _variables(library: t.Any, kind: Kind, quantity: t.Any) -> dict[str, t.Any]:
    kinds = library.Type
    if kind == "flat":
        return {"device": kinds.Map(kinds.STRING, kinds.DYN)}
    return {
        "device.driver": kinds.STRING,
        "device.attributes": kinds.Map(kinds.STRING, kinds.Map(kinds.STRING, kinds.DYN)),
        "device.capacity": kinds.Map(kinds.STRING, kinds.Map(kinds.STRING, quantity)),
        "device.allowMultipleAllocations": kinds.BOOL,
    }
