# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Parser of templates: a tokenizer and recursive descent.

The syntax is that of https://pkg.go.dev/text/template without the parts that are refused by name.
"""

from __future__ import annotations

import math
import re
import typing as t
from dataclasses import dataclass

from .functions import FUNCTIONS
from .tree import Action, Call, Literal, Member, Misfit, Node, Template, Written, invalid
from .values import MAX_TEXT_LENGTH

# Limit of calls and parentheses in one action, which protects the stack.
MAX_STEPS = 50

_KEYWORDS = frozenset("if else end range with define template block break continue nil".split())
_SPACE = " \t\r\n"
_OPENING = re.compile(r"\{\{(-[ \t\r\n])?")
_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*\*/([ \t\r\n]-)?\}\}")
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]*)
    (?:
      (?P<close>\}\}|(?<=[ \t\r\n])-\}\})
    | (?P<number>[+-]?\.?[0-9](?:[eEpP][+-]|[\w.])*)
    | (?P<member>\.[^\W\d]\w*)
    | (?P<word>[^\W\d]\w*)
    | (?P<text>"(?:[^"\\\n]|\\.)*")
    | (?P<raw>`[^`]*`)
    | (?P<symbol>[()|])
    )
    """,
    re.VERBOSE,
)
# Longer texts are no numbers of 64 bits, and patterns would be slow on them.
_MAX_NUMBER_LENGTH = 64
_WHOLE = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,18})")
_FLOAT = re.compile(r"(?=.*[.eE])[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    '"': '"',
}


@dataclass(frozen=True)
class Token:
    """Token of an action; ``kind`` is the name of its group in the token pattern."""

    kind: str
    text: str
    offset: int
    spaced: bool


def parse(text: str) -> Template:
    """Parse the template in ``text``. Raises InvalidInput, which names the column."""
    try:
        if len(text) > MAX_TEXT_LENGTH:
            raise Misfit(MAX_TEXT_LENGTH, f"it is longer than {MAX_TEXT_LENGTH} characters")
        return Template(text, tuple(_parts(text)))
    except Misfit as misfit:
        raise invalid(text, misfit) from misfit


def _parts(text: str) -> t.Iterator[str | Action]:
    position = 0
    trim = False
    while True:
        opening = _OPENING.search(text, position)
        plain = text[position : opening.start() if opening else len(text)]
        if trim:
            plain = plain.lstrip(_SPACE)
        if opening and opening.group(1):
            plain = plain.rstrip(_SPACE)
        if plain:
            yield plain
        if opening is None:
            return
        comment = _COMMENT.match(text, opening.end())
        if comment:
            position, trim = comment.end(), comment.group(1) is not None
            continue
        tokens = list(_tokens(text, opening))
        position, trim = tokens[-1].offset + len(tokens[-1].text), tokens[-1].text[0] == "-"
        yield Action(opening.start(), _Parser(tokens).action())


def _tokens(text: str, opening: re.Match[str]) -> t.Iterator[Token]:
    """Tokens of one action, with the closing delimiter as the last one."""
    position = opening.end()
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unreadable(text, position, opening.start())
        position = match.end()
        kind = str(match.lastgroup)
        yield Token(kind, match.group(kind), match.start(kind), bool(match.group("space")))
        if kind == "close":
            return


def _unreadable(text: str, position: int, opening: int) -> Misfit:
    rest = text[position:].lstrip(_SPACE)
    offset = len(text) - len(rest)
    if not rest:
        return Misfit(opening, "this action has no end; write }}")
    if rest[0] in '"`':
        return Misfit(offset, "this text has no end; close the quotation marks")
    if rest.startswith("/*"):
        return Misfit(offset, "a comment must fill its action: {{/* like this */}}")
    if rest[0] == "$":
        return Misfit(offset, "variables of the template's own, with $, are not supported")
    if rest[0] == ".":
        return Misfit(offset, "the dot alone has no text; name a variable such as .Hostname")
    return Misfit(offset, f"{rest[0]!r} is not understood here")


class _Parser:
    """Recursive descent over the tokens of one action."""

    def __init__(self, tokens: t.Sequence[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._steps = 0

    def action(self) -> Node:
        node = self._pipeline()
        token = self._take()
        if token.kind != "close":
            raise Misfit(token.offset, f"{token.text!r} has no counterpart")
        return node

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    @property
    def _ahead(self) -> Token:
        return self._tokens[self._next]

    def _step(self, offset: int) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Misfit(offset, f"more than {MAX_STEPS} calls and parentheses in one action")

    def _pipeline(self) -> Node:
        node = self._command(None)
        while self._ahead.text == "|":
            self._take()
            node = self._command(node)
        return node

    def _command(self, piped: Node | None) -> Node:
        """One stage of a pipeline: a function with operands, or a single operand."""
        first = self._ahead
        if first.kind == "word" and first.text not in ("true", "false"):
            name = self._function(self._take())
            arguments = [*self._operands(), *([] if piped is None else [piped])]
            return Call(first.offset, name, tuple(arguments))
        node = self._operand()
        extra = next(iter(self._operands()), None)
        if piped is not None or extra is not None:
            raise Misfit(first.offset, f"{first.text} is not a function, so it takes no argument")
        return node

    def _operands(self) -> list[Node]:
        operands: list[Node] = []
        while self._ahead.kind != "close" and self._ahead.text not in ("|", ")"):
            if not self._ahead.spaced:
                raise Misfit(self._ahead.offset, f"a space is missing before {self._ahead.text}")
            operands.append(self._operand())
        return operands

    def _operand(self) -> Node:
        token = self._take()
        if token.text == "(":
            self._step(token.offset)
            node = self._pipeline()
            if self._ahead.text != ")":
                raise Misfit(token.offset, "this parenthesis has no counterpart; write )")
            self._take()
            return self._members(node)
        if token.kind == "member":
            return self._members(Member(token.offset, token.text[1:]))
        if token.kind == "word" and token.text in ("true", "false"):
            return Literal(token.text == "true")
        if token.kind == "word":
            return Call(token.offset, self._function(token), ())
        if token.kind in _LITERALS:
            return Literal(_LITERALS[token.kind](token))
        raise Misfit(token.offset, f"a value is missing before {token.text}")

    def _members(self, node: Node) -> Node:
        while self._ahead.kind == "member" and not self._ahead.spaced:
            token = self._take()
            self._step(token.offset)
            node = Member(token.offset, token.text[1:], node)
        return node

    def _function(self, token: Token) -> str:
        self._step(token.offset)
        if token.text in _KEYWORDS:
            raise Misfit(
                token.offset,
                f"{token.text} is not supported; write one value an action, with default, "
                "ternary and the like",
            )
        if token.text not in FUNCTIONS:
            raise Misfit(
                token.offset,
                f"the function {token.text} is not supported; there are {', '.join(FUNCTIONS)}",
            )
        return token.text


def _number(token: Token) -> int | float:
    if len(token.text) > _MAX_NUMBER_LENGTH:
        raise Misfit(token.offset, f"{token.text[:20]}… is not a number of 64 bits")
    if _WHOLE.fullmatch(token.text):
        whole = int(token.text, 0)
        if -(2**63) <= whole < 2**63:
            return whole
    elif re.fullmatch(r"[+-]?0[0-9]+", token.text):
        raise Misfit(token.offset, f"{token.text} would be octal in Go; write it without zeros")
    elif _FLOAT.fullmatch(token.text) and math.isfinite(float(token.text)):
        return float(token.text)
    raise Misfit(token.offset, f"{token.text} is not a number of 64 bits")


def _text(token: Token) -> str:
    def unescape(match: re.Match[str]) -> str:
        short, long, character = match.groups()
        code = int(short or long or "0", 16)
        if character in _ESCAPED:
            return _ESCAPED[character]
        if character or code > 0x10FFFF or 0xD800 <= code < 0xE000:
            offset = token.offset + 1 + match.start()
            raise Misfit(offset, f"the escape {match.group()} is not supported")
        return chr(code)

    return Written(_ESCAPE.sub(unescape, token.text[1:-1]))


def _raw(token: Token) -> str:
    return Written(token.text[1:-1].replace("\r", ""))


_LITERALS: dict[str, t.Callable[[Token], t.Any]] = {"number": _number, "text": _text, "raw": _raw}
