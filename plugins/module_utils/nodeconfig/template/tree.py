# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The parsed template: its nodes and their rendering."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.errors import InvalidInput
from .functions import FUNCTIONS
from .values import MAX_TEXT_LENGTH, Refusal, Value, describe, show


class Struct(dict[str, Value]):
    """Values with fixed names, as in a Go struct. Any other name is an error.

    A plain dict is a map; a missing name has no value.
    """


class Written(str):
    """A literal text of the template. The result of a function on it is an ordinary text.

    A value of this type is completely the author's choice: a literal, or one that ``default``,
    ``ternary`` and similar functions return unchanged.
    """

    __slots__ = ()


class Piece(t.NamedTuple):
    """A piece of a rendered text; ``is_written`` marks literal texts of the template."""

    text: str
    is_written: bool
    offset: int


class Misfit(Exception):
    """Error at an offset of the template, in parsing or rendering."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


def invalid(text: str, misfit: Misfit) -> InvalidInput:
    """Error for the user, with the template, the column and the defect."""
    shown = text if len(text) <= 200 else text[:197] + "..."
    column = misfit.offset + 1
    return InvalidInput(f"the template {shown!r}, column {column}: {misfit}", column=column)


@dataclass(frozen=True)
class Literal:
    """A literal text, number or boolean."""

    value: Value

    def evaluate(self, variables: Struct) -> Value:
        return self.value


@dataclass(frozen=True)
class Member:
    """``.Name`` of the variables, or of the value of ``of``."""

    offset: int
    name: str
    of: Node | None = None

    def evaluate(self, variables: Struct) -> Value:
        value = variables if self.of is None else self.of.evaluate(variables)
        if isinstance(value, Struct) and self.name not in value:
            names = ", ".join(f".{name}" for name in sorted(value))
            raise Misfit(self.offset, f"there is no .{self.name} here; there are {names}")
        if not isinstance(value, dict):
            raise Misfit(self.offset, f"{describe(value)} has no member .{self.name}")
        return value.get(self.name)


@dataclass(frozen=True)
class Call:
    """A function call; a piped value is the last argument."""

    offset: int
    name: str
    arguments: tuple[Node, ...]

    def evaluate(self, variables: Struct) -> Value:
        arguments = [argument.evaluate(variables) for argument in self.arguments]
        try:
            return FUNCTIONS[self.name](*arguments)
        except Refusal as refusal:
            raise Misfit(self.offset, f"{self.name} {refusal}") from refusal


Node = t.Union[Literal, Member, Call]


@dataclass(frozen=True)
class Action:
    """The expression between ``{{`` and ``}}``, whose value is written into the text."""

    offset: int
    node: Node

    def piece(self, variables: Struct) -> Piece:
        try:
            value = self.node.evaluate(variables)
            return Piece(show(value), isinstance(value, Written), self.offset)
        except Refusal as refusal:
            raise Misfit(self.offset, f"this action {refusal}") from refusal


def plain_text(pieces: t.Sequence[Piece]) -> str:
    """Concatenation of the pieces."""
    return "".join(piece.text for piece in pieces)


@dataclass(frozen=True)
class Template:
    """A parsed text that renders for any number of nodes."""

    text: str
    parts: tuple[str | Action, ...]

    def render(
        self,
        variables: Struct,
        join: t.Callable[[t.Sequence[Piece]], str] = plain_text,
    ) -> str:
        """The text with the values of all actions. Raises InvalidInput.

        ``join`` joins the pieces and may raise Misfit.
        """
        try:
            return join(list(self._pieces(variables)))
        except Misfit as misfit:
            raise invalid(self.text, misfit) from misfit

    def _pieces(self, variables: Struct) -> t.Iterator[Piece]:
        length = 0
        for part in self.parts:
            piece = Piece(part, True, 0) if isinstance(part, str) else part.piece(variables)
            length += len(piece.text)
            if length > MAX_TEXT_LENGTH:
                raise Misfit(
                    piece.offset, f"the text gets longer than {MAX_TEXT_LENGTH} characters"
                )
            yield piece

    def mentions(self, *path: str) -> bool:
        """Whether the variable of this path, such as ``.A.B``, occurs in the template."""
        return any(_mentions(part.node, path) for part in self.parts if isinstance(part, Action))


def _mentions(node: Node, path: tuple[str, ...]) -> bool:
    if isinstance(node, Call):
        return any(_mentions(argument, path) for argument in node.arguments)
    if isinstance(node, Literal):
        return False
    names: list[str] = []
    member: Node | None = node
    while isinstance(member, Member):
        names.insert(0, member.name)
        member = member.of
    if member is None:
        return tuple(names[: len(path)]) == path
    return _mentions(member, path)
