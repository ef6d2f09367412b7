# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The syntax tree of a compiled CEL expression, and its references.

The library gives the tree only serialized, as a ``cel.expr.CheckedExpr`` within an ``Any``.
Source: https://github.com/google/cel-spec/blob/master/proto/cel/expr/syntax.proto; the numbers
below are the fields of its messages.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

Path = tuple[str, ...]
Fields = dict[int, list[t.Any]]

_ANY_VALUE, _CHECKED_EXPR = 2, 4
_CONSTANT, _IDENTIFIER, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = range(3, 10)
_STRING, _BYTES = 6, 7
_INDEXING = frozenset({"_[_]", "_[?_]", "_?._"})
_ORDERING = frozenset({"_<_", "_<=_", "_>_", "_>=_"})
_EQUATIONS = frozenset({"_==_", "_!=_"})


@dataclass(frozen=True)
class Expression:
    """One node of the tree.

    ``kind`` is constant, identifier, select, call, list, struct or loop; ``name`` is the name of an
    identifier, a field or a function; ``value`` is the value of a constant text, else None, and
    ``length`` is the number of bytes of a constant text. A loop has the parts range, start,
    condition, step and result; ``variables`` are its item variables and its accumulator.
    """

    kind: str
    name: str = ""
    value: str | None = None
    parts: tuple[Expression, ...] = ()
    length: int = 0
    variables: tuple[str, ...] = ()

    def walk(self) -> t.Iterator[Expression]:
        """This expression and everything in it."""
        yield self
        for part in self.parts:
            yield from part.walk()


def read_tree(serialized: bytes) -> Expression:
    """The tree of an expression from the library's serialized form."""
    checked = _fields(_fields(serialized)[_ANY_VALUE][0])
    return _expression(checked[_CHECKED_EXPR][0])


def references(tree: Expression, roots: t.Collection[str]) -> frozenset[Path]:
    """Paths of the variables that the expression reads, as far as keys are constant.

    ``device.attributes["a.example"].model`` is one path of three; if a variable is used as a whole,
    or by a computed key, the path ends there.
    """
    return frozenset(_references(tree, roots))


def texts_in_order_comparisons(tree: Expression) -> frozenset[str]:
    """Constant texts in comparisons by order, which are lexicographic."""
    return frozenset(
        part.value
        for node in tree.walk()
        if node.kind == "call" and node.name in _ORDERING
        for part in node.parts
        if part.value is not None
    )


def paths_equated_with_texts(tree: Expression, roots: t.Collection[str]) -> frozenset[Path]:
    """Paths that are compared for equality with a constant text."""
    return frozenset(
        path
        for node in tree.walk()
        if node.kind == "call" and node.name in _EQUATIONS
        for one, other in (node.parts, node.parts[::-1])
        if other.value is not None and (path := _path(one)) and path[0] in roots
    )


def _references(tree: Expression, roots: t.Collection[str]) -> t.Iterator[Path]:
    path = _path(tree)
    if path and path[0] in roots:
        yield path
        return
    for part in tree.parts:
        yield from _references(part, roots)


def _path(tree: Expression) -> Path:
    """The path to a value through constant keys; () for anything else."""
    if tree.kind == "identifier":
        return (tree.name,)
    if tree.kind == "select":
        operand = _path(tree.parts[0])
        return (*operand, tree.name) if operand else ()
    if tree.kind == "call" and tree.name in _INDEXING and len(tree.parts) == 2:
        operand, key = _path(tree.parts[0]), tree.parts[1].value
        return (*operand, key) if operand and key is not None else ()
    return ()


def _expression(data: bytes) -> Expression:
    for number, values in _fields(data).items():
        if number in _READERS:
            return _READERS[number](_fields(values[0]))
    return Expression("constant")


def _text(fields: Fields, number: int) -> str:
    return bytes(fields[number][0]).decode() if number in fields else ""


def _parts(fields: Fields, *numbers: int) -> tuple[Expression, ...]:
    return tuple(_expression(data) for number in numbers for data in fields.get(number, ()))


def _struct(fields: Fields) -> Expression:
    entries = [_fields(entry) for entry in fields.get(2, ())]
    return Expression(
        "struct", parts=tuple(part for item in entries for part in _parts(item, 3, 4))
    )


_READERS: t.Mapping[int, t.Callable[[Fields], Expression]] = {
    _CONSTANT: lambda fields: Expression(
        "constant",
        value=_text(fields, _STRING) if _STRING in fields else None,
        length=sum(len(fields[kind][0]) for kind in (_STRING, _BYTES) if kind in fields),
    ),
    _IDENTIFIER: lambda fields: Expression("identifier", _text(fields, 1)),
    _SELECT: lambda fields: Expression("select", _text(fields, 2), parts=_parts(fields, 1)),
    _CALL: lambda fields: Expression("call", _text(fields, 2), parts=_parts(fields, 1, 3)),
    _LIST: lambda fields: Expression("list", parts=_parts(fields, 1)),
    _STRUCT: _struct,
    _COMPREHENSION: lambda fields: Expression(
        "loop",
        parts=_parts(fields, 2, 4, 5, 6, 7),
        variables=(_text(fields, 3), _text(fields, 1), _text(fields, 8)),
    ),
}


def _fields(data: bytes) -> Fields:
    """The fields of a protobuf message: numbers as they are, the rest as bytes."""
    found: Fields = {}
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value: t.Any
            value, position = _varint(data, position)
        else:
            length, position = {1: (8, position), 5: (4, position)}.get(wire) or _varint(
                data, position
            )
            value, position = data[position : position + length], position + length
        found.setdefault(number, []).append(value)
    return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
