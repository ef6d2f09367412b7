# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Kubernetes' functions for quantities, semantic versions and attributes that are lists, in CEL.

Source: https://kubernetes.io/docs/reference/using-api/cel/, libraries quantity and semver, and
``includes`` of library lists. The library has no custom types, so a value is a map with one member
whose key is the type. Its text is canonical, so that equal values are equal maps.
"""

from __future__ import annotations

import functools
import itertools
import typing as t
from decimal import Decimal

from ..base.errors import InvalidInput
from ..base.libraries import cel
from .values import Attribute, Quantity, Version, parse_version, quantity_of

QUANTITY = "kubernetes.Quantity"
SEMVER = "kubernetes.Semver"
OF_VERSIONS = frozenset({"semver", "major", "minor", "patch"})

Carried = t.Mapping[str, str]

_MAX = Decimal(10**24)


def carried(value: Attribute) -> t.Any:
    """An attribute in the form of the library."""
    if isinstance(value, tuple):
        return [carried(item) for item in value]
    if isinstance(value, Quantity):
        return _quantity(value.value)
    if isinstance(value, Version):
        return {SEMVER: str(value)}
    return value


def carrier(name: str, opaque: bool) -> t.Any:
    """The type of a quantity or version: an opaque one for the checker, else a map."""
    return cel.Type.AbstractType(name) if opaque else cel.Type.MAP


def declarations(opaque: bool) -> list[t.Any]:
    """The functions, with the types of the checker or of the evaluation."""
    kinds = cel.Type
    types = {
        "quantity": carrier(QUANTITY, opaque),
        "semver": carrier(SEMVER, opaque),
        "text": kinds.STRING,
        "truth": kinds.BOOL,
        "whole": kinds.INT,
        "float": kinds.DOUBLE,
    }
    scalars = (kinds.STRING, kinds.BOOL, kinds.INT, kinds.UINT, kinds.DOUBLE, kinds.MAP)
    functions: dict[str, dict[str, t.Any]] = {}
    for name, result, parameters, function in _FUNCTIONS:
        alternatives: list[tuple[t.Any, ...]] = [(types[one],) for one in parameters.split()]
        if name == "includes":
            # The evaluation requires an overload with the exact types of the values.
            wanted = (kinds.DYN,) if opaque else scalars
            alternatives = [wanted if opaque else (*scalars, kinds.LIST), wanted]
        for taken in itertools.product(*alternatives):
            # The evaluation needs only one of a pair that differs only in the represented type.
            signature = f"kubernetes_{name}({', '.join(str(kind) for kind in taken)})"
            functions.setdefault(name, {})[signature] = cel.Overload(
                id=signature,
                return_type=types[result],
                parameters=list(taken),
                is_member="text" not in parameters,
                impl=function,
            )
    return [
        cel.FunctionDecl(name, list(overloads.values())) for name, overloads in functions.items()
    ]


def _quantity(value: Decimal) -> Carried:
    if abs(value) >= _MAX:
        raise InvalidInput("the sum of quantities is out of range; the limit is 10^24")
    # Without exponent and trailing zeros, Decimal("1E+3") and Decimal("1000") give one text.
    text = format(value, "f")
    return {QUANTITY: text.rstrip("0").rstrip(".") if "." in text else text}


def is_read_by(read: t.Callable[[str, str], t.Any], text: str) -> bool:
    """Whether the text is a value of the function, which otherwise raises InvalidInput."""
    try:
        read(text, "text")
    except InvalidInput:
        return False
    return True


def _amount(value: Carried) -> Decimal:
    if QUANTITY not in value:
        raise InvalidInput("no such overload: the value is not a quantity")
    return Decimal(value[QUANTITY])


def _version(value: Carried) -> Version:
    if SEMVER not in value:
        raise InvalidInput("no such overload: the value is not a semantic version")
    return parse_version(value[SEMVER], "semver")


def _as_integer(value: Carried) -> int:
    amount = _amount(value)
    if amount != int(amount):
        raise InvalidInput("cannot convert value to integer")
    return int(amount)


def _add(first: Carried, second: Carried | int, sign: int = 1) -> Carried:
    return _quantity(_amount(first) + sign * _number(second))


def _sub(first: Carried, second: Carried | int) -> Carried:
    return _add(first, second, -1)


def _number(value: Carried | int) -> Decimal:
    return Decimal(value) if isinstance(value, int) else _amount(value)


def _compared(first: Carried, second: Carried) -> int:
    if SEMVER in first:
        return _compare(_version(first), _version(second))
    return _compare(_amount(first), _amount(second))


def _includes(target: t.Any, wanted: t.Any) -> bool:
    """Whether the value is the wanted one, or a list that contains it."""
    members = target if isinstance(target, (list, tuple)) else [target]
    return any(_equal(member, wanted) for member in members)


def _equal(first: t.Any, second: t.Any) -> bool:
    # In CEL, true is not 1.
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)


def _compare(first: t.Any, second: t.Any) -> int:
    return int(first > second) - int(first < second)


_FUNCTIONS: tuple[tuple[str, str, str, t.Callable[..., t.Any]], ...] = (
    ("quantity", "quantity", "text", lambda text: _quantity(quantity_of(text, "quantity"))),
    ("isQuantity", "truth", "text", functools.partial(is_read_by, quantity_of)),
    ("semver", "semver", "text", lambda text: {SEMVER: str(parse_version(text, "semver"))}),
    ("isSemver", "truth", "text", functools.partial(is_read_by, parse_version)),
    ("sign", "whole", "quantity", lambda a: _compare(_amount(a), Decimal(0))),
    ("isInteger", "truth", "quantity", lambda a: _amount(a) == int(_amount(a))),
    ("asInteger", "whole", "quantity", _as_integer),
    ("asApproximateFloat", "float", "quantity", lambda a: float(_amount(a))),
    ("add", "quantity", "quantity quantity", _add),
    ("add", "quantity", "quantity whole", _add),
    ("sub", "quantity", "quantity quantity", _sub),
    ("sub", "quantity", "quantity whole", _sub),
    ("major", "whole", "semver", lambda a: _version(a).major),
    ("minor", "whole", "semver", lambda a: _version(a).minor),
    ("patch", "whole", "semver", lambda a: _version(a).patch),
    ("isLessThan", "truth", "quantity quantity", lambda a, b: _compared(a, b) < 0),
    ("isLessThan", "truth", "semver semver", lambda a, b: _compared(a, b) < 0),
    ("isGreaterThan", "truth", "quantity quantity", lambda a, b: _compared(a, b) > 0),
    ("isGreaterThan", "truth", "semver semver", lambda a, b: _compared(a, b) > 0),
    ("includes", "truth", "", _includes),
    ("compareTo", "whole", "quantity quantity", _compared),
    ("compareTo", "whole", "semver semver", _compared),
)
