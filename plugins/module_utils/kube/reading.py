# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Answers of an API server, read piece by piece, in memory that no tenant decides.

Items of a list and events of a watch are cut out of the answer one by one, and are reduced before
the next one is read. Ordinary items are decoded where they stand. The end of a large or defective
item is found first, by its brackets, without building a value; so it is left out alone, and the
work grows with its size only.
"""

from __future__ import annotations

import codecs
import itertools
import json
import re
import threading
import typing as t
import zlib
from dataclasses import dataclass, field

from ..base import strict_json
from ..base.boundary import Finding, subject_of
from ..base.fields.lenient import member
from ..base.json_types import MutableObject

Parts = t.Iterator[bytes]
Result = t.TypeVar("Result")

# Bytes of one read. Items of about this size are decoded without a search for their end.
PART_SIZE = 128 * 1024
# etcd takes requests of 1.5 MiB, and JSON writes six bytes for each < of a text. Source:
# https://etcd.io/docs/v3.6/dev-guide/limit/
MAX_OBJECT = 10 * 1024 * 1024
# An object takes about 120 bytes of memory for each of its members.
MAX_MEMBERS = 400_000
# A copy takes two of Python's thousand frames for each level.
DEEPEST = 250
# A list has less beside its items.
_MAX_HEAD = 1024 * 1024

_NON_BLANK = re.compile(r"[^ \t\r\n]")
_BRACKET, _OTHERS = re.compile(r"[][{}]"), re.compile(r"[^][{}]+")
_STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}
# Several threads read lists; only one of them holds the value of a large item.
_LARGE = threading.Lock()


class Unreadable(Exception):
    """An answer that is not JSON of the expected form, beyond the limits, or cut off."""


class BeyondLimits(Unreadable):
    """A single object that cannot be used, which a repetition does not change."""


class Unusable(Exception):
    """A value beyond the limits, or not JSON; the reading continues after it."""

    def __init__(self, problem: str, identity: MutableObject) -> None:
        super().__init__(problem)
        self.problem = problem
        self.identity = identity


@dataclass
class Listed:
    """A list without its items; ``untyped`` items came before the list said their kind."""

    head: MutableObject = field(default_factory=dict)
    number: int = 0
    size: int = 0
    untyped: int = 0

    @property
    def item_type(self) -> MutableObject:
        """apiVersion and kind of items that do not say them; empty if the list does not either."""
        version, kind = self.head.get("apiVersion", "v1"), self.head.get("kind")
        if not isinstance(kind, str) or not isinstance(version, str):
            return {}
        return {"apiVersion": version, "kind": kind[: -len("List")]}

    def text(self, name: str) -> str:
        """A text of the list's metadata; empty if it is missing."""
        found = member(self.head, "metadata", name)
        return found if isinstance(found, str) else ""


def plain_parts(response: t.Any, parts: Parts) -> Parts:
    """The parts without their compression. Raises Unreadable.

    A proxy may compress. A hundred bytes of compressed text can be a hundred thousand.
    """
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        yield from parts
        return
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise Unreadable(f"has the Content-Encoding {encoding[:40]!r}")
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        for part in parts:
            while part:
                yield inflater.decompress(part, PART_SIZE)
                part = inflater.unconsumed_tail
        yield inflater.flush()
    except zlib.error as error:
        raise Unreadable(f"is compressed wrongly ({error})") from error
    if not inflater.eof:
        raise Unreadable("ends early")


def read_object(parts: Parts) -> t.Any:
    """The only value of an answer; an empty object if the answer is empty. Raises Unreadable."""
    window = _Window(parts)
    if not window.sign():
        return {}
    try:
        value = window.value(lambda found: found)
    except Unusable as error:
        # A value that is not JSON has the parser's error as its cause.
        kind = BeyondLimits if error.__cause__ is None else Unreadable
        raise kind(error.problem) from error
    if window.sign():
        raise Unreadable("goes on after its end")
    return value


def read_events(parts: Parts) -> t.Iterator[t.Any]:
    """The values of an answer with one on each line; an Unusable for some.

    Raises Unreadable for a line that is too long or not JSON.
    """
    line = bytearray()
    for part in parts:
        first, *others = part.split(b"\n")
        line += first
        for other in others:
            if line.strip():
                yield _event(line)
            line = bytearray(other)
        if len(line) > MAX_OBJECT:
            raise Unreadable(f"has an event of more than {MAX_OBJECT} bytes")


def _event(line: bytearray) -> t.Any:
    parts = (bytes(line[at : at + PART_SIZE]) for at in range(0, len(line), PART_SIZE))
    try:
        return _Window(parts).value(lambda found: found)
    except Unusable as error:
        return error


def read_list(
    parts: Parts,
    take: t.Callable[[MutableObject], None],
    refuse: t.Callable[[Finding], None],
    item_type: MutableObject,
) -> Listed:
    """Give each item to ``take``, or its defect to ``refuse``.

    ``item_type`` has apiVersion and kind of items, if they are known. Raises Unreadable if the
    answer is no list.
    """
    window, listed = _Window(parts), Listed()
    window.expect("{")
    while window.sign() != "}":
        name = window.value(lambda found: found)
        window.expect(":")
        if name == "items" and window.sign() == "[":
            _read_items(window, listed, take, refuse, item_type)
        else:
            value = window.value(lambda found: found, _MAX_HEAD)
            if name == "items" and value is not None:
                raise Unreadable("has items that are no list")
            listed.head[str(name)] = value
        window.pass_comma()
    window.expect("}")
    if window.sign():
        raise Unreadable("goes on after its end")
    listed.size = window.size
    return listed


def _read_items(
    window: _Window,
    listed: Listed,
    take: t.Callable[[MutableObject], None],
    refuse: t.Callable[[Finding], None],
    item_type: MutableObject,
) -> None:
    known = listed.item_type or item_type
    common = {"apiVersion": "v1", "kind": "", **known}

    def take_item(item: t.Any) -> None:
        if not isinstance(item, dict):
            raise Unusable("is no object", {})
        if not known:
            listed.untyped += "kind" not in item
        take({**common, **item})

    window.expect("[")
    while window.sign() != "]":
        try:
            window.value(take_item)
        except Unusable as error:
            kind, place = common["kind"] or "object", f"items[{listed.number}]"
            refuse(Finding(subject_of(error.identity, kind, place), "", error.problem))
        listed.number += 1
        window.pass_comma()
    window.expect("]")


class _Window:
    """The part of an answer's text that was read and not yet used."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text, self._at = "", 0
        self.size = 0

    def _more(self) -> bool:
        """Read the next part; False at the end. Raises Unreadable for other texts than UTF-8."""
        try:
            for part in self._parts:
                self.size += len(part)
                piece = self._decoder.decode(part)
                if piece:
                    self._text, self._at = self._text[self._at :] + piece, 0
                    return True
            self._decoder.decode(b"", True)
        except UnicodeDecodeError as error:
            raise Unreadable("is not UTF-8") from error
        return False

    def sign(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            found = _NON_BLANK.search(self._text, self._at)
            if found is not None:
                self._at = found.start()
                return found.group()
            self._at = len(self._text)
            if not self._more():
                return ""

    def expect(self, sign: str) -> None:
        """Pass this character. Raises Unreadable."""
        found = self.sign()
        if found != sign:
            raise Unreadable("is not JSON" if found else "ends early")
        self._at += 1

    def pass_comma(self) -> None:
        if self.sign() == ",":
            self._at += 1

    def value(self, use: t.Callable[[t.Any], Result], largest: int = MAX_OBJECT) -> Result:
        """The use of the next value. Raises Unusable, and Unreadable if its end is not found."""
        is_bracketed = self.sign() in ("{", "[")
        while True:
            try:
                value, end = strict_json.decode_at(self._text, self._at)
            except ValueError:
                if len(self._text) - self._at >= PART_SIZE or not self._more():
                    break
                continue
            # A number may continue in the next part.
            if is_bracketed or end < len(self._text) or not self._more():
                begin, self._at = self._at, end
                return use(self._checked(value, begin, end))
        if not is_bracketed:
            raise Unreadable("is not JSON")
        return self._large_value(use, largest)

    def _checked(self, value: t.Any, begin: int, end: int) -> t.Any:
        brackets = self._text.count("{", begin, end) + self._text.count("[", begin, end)
        if brackets > DEEPEST:
            skim = _Skim()
            skim.feed(self._text[begin:end])
            problem = skim.problem()
            if problem:
                raise Unusable(problem, _identity(self._text[begin:end]))
        return value

    def _large_value(self, use: t.Callable[[t.Any], Result], largest: int) -> Result:
        kept, skim, size = bytearray(), _Skim(), 0
        while True:
            length = skim.feed(self._text[self._at : self._at + PART_SIZE])
            raw = self._text[self._at : self._at + length].encode()
            self._at += length
            size += len(raw)
            if size <= largest:
                kept += raw
            else:
                kept.clear()
            if skim.is_over:
                break
            if self._at == len(self._text) and not self._more():
                raise Unreadable("ends early")
        problem = skim.problem()
        if size > largest:
            problem = f"has {size} bytes; the limit is {largest}"
        with _LARGE:
            if problem:
                raise Unusable(problem, _identity(kept))
            try:
                value = strict_json.parse(bytes(kept))
            except ValueError as error:
                raise Unusable(f"is not JSON: {error}", _identity(kept)) from error
            kept.clear()
            return use(value)


class _Skim:
    """The end, depth and members of a value in brackets, found without building it."""

    def __init__(self) -> None:
        self.is_over = False
        self._depth = self._deepest = self._members = 0
        self._is_text = self._is_escaped = False

    def feed(self, piece: str) -> int:
        """The number of characters that belong to the value."""
        if self._is_escaped:
            piece = "_" + piece[1:]
        # Escaped characters neither end a text nor have a meaning outside of one.
        plain = piece.replace("\\\\", "__").replace('\\"', "__")
        self._is_escaped = plain.endswith("\\")
        texts = plain.split('"')
        outside = "".join(texts[self._is_text :: 2])
        brackets = _OTHERS.sub("", outside)
        depths = [*itertools.accumulate(map(_STEPS.__getitem__, brackets), initial=self._depth)]
        end = len(piece)
        if brackets and min(depths[1:]) <= 0:
            self.is_over = True
            depths = depths[: depths.index(0, 1) + 1]
            brackets = brackets[: len(depths) - 1]
            inside = slice(1 - self._is_text, None, 2)
            texts[inside] = ["_" * len(text) for text in texts[inside]]
            masked = '"'.join(texts)
            end = [found.end() for found in _BRACKET.finditer(masked)][len(brackets) - 1]
            outside = masked[:end]
        self._members += outside.count(",") + brackets.count("{") + brackets.count("[")
        self._depth, self._deepest = depths[-1], max(self._deepest, *depths)
        self._is_text ^= len(texts) % 2 == 0
        return end

    def problem(self) -> str:
        """The limit that the value exceeds; empty if there is none."""
        if self._deepest > DEEPEST:
            return f"is nested more than {DEEPEST} deep"
        if self._members > MAX_MEMBERS:
            return f"has more than {MAX_MEMBERS} members"
        return ""


_NAMED = frozenset({"type", "object", "kind", "metadata", "name", "namespace", "resourceVersion"})


def _identity(text: str | bytes | bytearray) -> MutableObject:
    """The members that name an object or the object of an event; all others are not built."""

    def named(pairs: list[tuple[str, t.Any]]) -> MutableObject | None:
        found = {key: one for key, one in pairs if key in _NAMED and isinstance(one, (str, dict))}
        return found or None

    def nothing(_digits: str) -> None:
        return None

    try:
        found = json.loads(text, object_pairs_hook=named, parse_int=nothing, parse_float=nothing)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
