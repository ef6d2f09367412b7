# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The one reader of YAML: bounded in every dimension, and with the values that kubectl reads.

Tenants write some of the texts. PyYAML's loaders build what a text asks for: a few hundred
characters of merge keys cost minutes, and the nesting of 240 kB of brackets ends the process in
libyaml's recursive composer. This reader takes events only, one after the other, and checks each
before it builds anything.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, replace

from .. import strict_json
from ..boundary import InvalidField
from ..libraries import yaml
from .scalars import json_value, key_text, scalar


@dataclass(frozen=True)
class Limits:
    """Limits of one text: bytes, nodes, depth, characters of a scalar, and documents.

    ``expansion`` is the number of characters that all aliases together may stand for; zero refuses
    anchors, aliases, merge keys and tags.
    """

    size: int
    nodes: int
    depth: int
    scalar: int
    documents: int
    expansion: int


# An API server stores at most 256 KiB of annotations, and cloud-init's user data have 64 KiB.
TENANT = Limits(
    size=256 * 1024, nodes=10_000, depth=100, scalar=64 * 1024, documents=1, expansion=0
)
# The CRDs of a large operator have five megabytes.
OPERATOR = Limits(
    size=32 * 1024 * 1024,
    nodes=1_000_000,
    depth=100,
    scalar=4 * 1024 * 1024,
    documents=10_000,
    expansion=1024 * 1024,
)

# libyaml leaves out a byte order mark at the begin of any line, and Go only that of the text.
_UNREADABLE = re.compile(
    "[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    "|(?<=[\n\r\x85\u2028\u2029])\ufeff"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_BYTE_ORDER_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_JSON_BEGINS = ("{", "[")
_MERGE_TAG = "tag:yaml.org,2002:merge"
_MERGE_OF_OTHERS = "the merge key << needs a mapping or a list of mappings"
_KEY_OF_PARTS = "a key is a list or a mapping; write a text"
# libyaml compares each with all before it.
_TAG_DIRECTIVE = "\n%TAG"
_MAX_TAG_DIRECTIVES = 100
# What a node costs an alias beside the characters of its text.
_NODE_COST = 8


class InvalidYaml(InvalidField):
    """The text cannot be read; ``line`` counts from 1, and is 0 if no line is to blame."""

    def __init__(self, where: str, problem: str, line: int = 0) -> None:
        super().__init__(where, f"line {line}: {problem}" if line else problem)
        self.line = line


def read_document(text: str | bytes, where: str, limits: Limits = TENANT) -> t.Any:
    """The only document of a text; None without one. Raises InvalidYaml, which names ``where``."""
    documents = read_documents(text, where, replace(limits, documents=1))
    return documents[0] if documents else None


def read_documents(text: str | bytes, where: str, limits: Limits = TENANT) -> list[t.Any]:
    """The documents of a text that are not empty. Raises InvalidYaml, which names ``where``.

    A text in JSON is read as JSON where YAML has no such text, for instance pairs of surrogates.
    """
    given = _decoded(text, where, limits)
    try:
        return _read(given, where, limits)
    except InvalidYaml:
        if not given.lstrip().startswith(_JSON_BEGINS):
            raise
        try:
            return [_as_json(given, limits)]
        except ValueError:
            pass
        raise


def _decoded(text: str | bytes, where: str, limits: Limits) -> str:
    """The text without its byte order mark."""
    if len(text) > limits.size:
        raise InvalidYaml(where, f"it has more than {limits.size} bytes of YAML")
    if not isinstance(text, str):
        marks = (code for mark, code in _BYTE_ORDER_MARKS if text.startswith(mark))
        encoding = next(marks, "utf-8")
        try:
            text = text.decode(encoding)
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise InvalidYaml(where, f"it is not {encoding.upper()}", line) from None
    text = text.removeprefix("\ufeff")
    unreadable = _UNREADABLE.search(text)
    if unreadable:
        line = text.count("\n", 0, unreadable.start()) + 1
        problem = f"it is not YAML: it holds the character U+{ord(unreadable[0]):04X}"
        raise InvalidYaml(where, problem, line)
    if text.count(_TAG_DIRECTIVE) > _MAX_TAG_DIRECTIVES:
        raise InvalidYaml(where, f"it has more than {_MAX_TAG_DIRECTIVES} directives %TAG")
    if len(text) * 4 > limits.size and len(text.encode()) > limits.size:
        raise InvalidYaml(where, f"it has more than {limits.size} bytes of YAML")
    return text


def _as_json(text: str, limits: Limits) -> t.Any:
    bounds = strict_json.JsonLimits(limits.size, limits.nodes, limits.depth, limits.scalar)
    return strict_json.parse(text, bounds)


def _read(text: str, where: str, limits: Limits) -> list[t.Any]:
    reading = _Reading(limits)
    line = 0
    try:
        # libyaml's parser of events keeps its state in a list; it takes a tenth of the time.
        events: t.Iterable[t.Any] = yaml.parse(text, getattr(yaml, "CLoader", yaml.Loader))
        for event in events:
            line = event.start_mark.line + 1
            reading.take(event)
    except _Refusal as refusal:
        raise InvalidYaml(where, str(refusal), line) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise InvalidYaml(
            where, f"it is not YAML: {problem}", mark.line + 1 if mark else line
        ) from None
    except (ValueError, OverflowError):  # of an escape or a version that PyYAML cannot convert
        raise InvalidYaml(where, "it is not YAML: an escape has no character", line) from None
    return reading.documents


class _Refusal(ValueError):
    """A limit or a rule refuses the present event."""


class _Merge:
    """The key ``<<``."""


class _Missing:
    """No key yet."""


@dataclass
class _Anchored:
    """A value with an anchor, and what a copy of it costs."""

    value: t.Any
    cost: int
    height: int


class _Open:
    """A list or mapping that has begun and not ended."""

    __slots__ = ("anchor", "cost", "height", "key", "value")

    def __init__(self, value: t.Any, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: t.Any = _Missing
        self.cost = _NODE_COST
        self.height = 1


class _Reading:
    """The values of the events so far."""

    def __init__(self, limits: Limits) -> None:
        self.documents: list[t.Any] = []
        self._limits = limits
        self._open: list[_Open] = []
        self._known: dict[str, _Anchored] = {}
        self._nodes = 0
        self._expanded = 0
        self._takes = {
            yaml.DocumentStartEvent: self._document,
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
            yaml.SequenceStartEvent: lambda event: self._begin(event, []),
            yaml.MappingStartEvent: lambda event: self._begin(event, {}),
            yaml.SequenceEndEvent: self._end,
            yaml.MappingEndEvent: self._end,
        }

    def take(self, event: t.Any) -> None:
        """Raises _Refusal."""
        taking = self._takes.get(type(event))
        if taking is None:
            return
        try:
            taking(event)
        except ValueError as error:
            raise _Refusal(str(error)) from None

    def _document(self, event: t.Any) -> None:
        if event.version not in (None, (1, 1)):
            raise _Refusal("it is not YAML: %YAML names another version than 1.1")
        self._known = {}

    def _count(self, event: t.Any) -> None:
        """Count a node, and refuse what tenants may not write."""
        self._nodes += 1
        if self._nodes > self._limits.nodes:
            raise _Refusal(f"it has more than {self._limits.nodes} values")
        if not self._limits.expansion and (event.anchor or getattr(event, "tag", None)):
            raise _Refusal("anchors, aliases and tags are not allowed here; write the values")

    def _scalar(self, event: t.Any) -> None:
        self._count(event)
        text, is_plain = event.value, event.implicit[0]
        if len(text) > self._limits.scalar:
            raise _Refusal(f"it has a text of more than {self._limits.scalar} characters")
        if not text.isascii() and _SURROGATE.search(text):
            raise _Refusal("it is not YAML: an escape has no character")
        if text == "<<" and (is_plain or event.tag == _MERGE_TAG) and self._awaits_key():
            if not self._limits.expansion:
                raise _Refusal("the merge key << is not allowed here; write the values")
            self._open[-1].key = _Merge
            return
        value = scalar(text, event.tag, is_plain)
        self._add(_Anchored(value, _NODE_COST + len(text), 0), event.anchor)

    def _alias(self, event: t.Any) -> None:
        self._count(event)
        known = self._known.get(event.anchor)
        if known is None:
            raise _Refusal("it is not YAML: an alias has no anchor before it")
        self._expanded += known.cost
        if self._expanded > self._limits.expansion:
            raise _Refusal(f"its aliases stand for more than {self._limits.expansion} characters")
        if len(self._open) + known.height > self._limits.depth:
            raise _Refusal(f"it is nested more than {self._limits.depth} deep")
        if self._awaits_key() and known.height:
            raise _Refusal(_KEY_OF_PARTS)
        if self._open and self._open[-1].key is _Merge and isinstance(known.value, list):
            raise _Refusal(_MERGE_OF_OTHERS)
        self._add(_Anchored(_copy(known.value), known.cost, known.height), None)

    def _begin(self, event: t.Any, value: t.Any) -> None:
        self._count(event)
        if self._awaits_key():
            raise _Refusal(_KEY_OF_PARTS)
        if len(self._open) >= self._limits.depth:
            raise _Refusal(f"it is nested more than {self._limits.depth} deep")
        if event.anchor:
            self._known.pop(event.anchor, None)  # inside of its own value it has none
        self._open.append(_Open(value, event.anchor))

    def _end(self, _event: t.Any) -> None:
        ended = self._open.pop()
        self._add(_Anchored(ended.value, ended.cost, ended.height), ended.anchor)

    def _awaits_key(self) -> bool:
        top = self._open[-1] if self._open else None
        return top is not None and isinstance(top.value, dict) and top.key is _Missing

    def _add(self, found: _Anchored, anchor: str | None) -> None:
        if anchor:
            self._known[anchor] = found
        if not self._open:
            self._add_document(json_value(found.value))
            return
        top = self._open[-1]
        top.cost += found.cost
        top.height = max(top.height, found.height + 1)
        if isinstance(top.value, list):
            top.value.append(json_value(found.value))
        elif top.key is _Missing:
            top.key = key_text(found.value)
        elif top.key is _Merge:
            _merge(top.value, found.value)
            top.key = _Missing
        else:
            top.value[top.key] = json_value(found.value)
            top.key = _Missing

    def _add_document(self, value: t.Any) -> None:
        if value is None:
            return
        if len(self.documents) >= self._limits.documents:
            most = self._limits.documents
            raise _Refusal(
                f"it has more than {'one document' if most == 1 else f'{most} documents'}"
            )
        self.documents.append(value)


def _merge(mapping: dict[str, t.Any], value: t.Any) -> None:
    """Add the members of a merge key, of which the first mapping takes precedence."""
    mappings = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in mappings):
        raise _Refusal(_MERGE_OF_OTHERS)
    for each in reversed(mappings):
        mapping.update(each)


def _copy(value: t.Any) -> t.Any:
    """A copy of its own for each alias; the depth of values is bounded."""
    if isinstance(value, dict):
        return {key: _copy(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_copy(each) for each in value]
    return value
