# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads as JSON, in the two forms of RMD v0.2 and v0.3."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.rmd.host import Wire

REST = "REST"
SUCCESSFUL = "Successful"
_UINT32 = 2**32 - 1
_WORKLOAD = "RDTWorkLoad"

JsonObject = dict[str, Any]


class UnreadableError(Exception):
    """A body that is not a workload; `str()` is Go's text of the error."""


@dataclass(frozen=True)
class Workload:
    """Values of a request, or of a database entry; None means not given.

    `plugins` are the names of v0.3's plugins that were given.
    """

    id: str = ""
    core_ids: tuple[str, ...] = ()
    task_ids: tuple[str, ...] = ()
    policy: str = ""
    status: str = ""
    cos_name: str = ""
    cache_max: int | None = None
    cache_min: int | None = None
    mba_percentage: int | None = None
    mba_mbps: int | None = None
    ratio: float | None = None
    monitoring: str | None = None
    plugins: tuple[str, ...] = ()
    uuid: str = ""
    origin: str = ""

    @property
    def has_pstate(self) -> bool:
        return self.ratio is not None or self.monitoring is not None

    def with_(self, **changes: Any) -> Workload:
        return dataclasses.replace(self, **changes)

    def document(self, wire: Wire) -> JsonObject:
        """The daemon's answer for the workload, with its fields in the daemon's order."""
        cache = _given(max=self.cache_max, min=self.cache_min)
        pstate = _given(ratio=_go_number(self.ratio), monitoring=self.monitoring)
        document: JsonObject = {
            **_filled(id=self.id, core_ids=list(self.core_ids), task_ids=list(self.task_ids)),
            **_filled(policy=self.policy),
            "status": self.status,
            "cos_name": self.cos_name,
        }
        if wire == "0.2":
            document |= {"cache": cache, "pstate": pstate}
        else:
            mba = _given(percentage=self.mba_percentage, mbps=self.mba_mbps)
            document["rdt"] = {"cache": cache, "mba": mba}
            document |= _filled(plugins={"pstate": pstate} if self.has_pstate else {})
        return {**document, **_filled(uuid=self.uuid), "origin": self.origin}


def parse(content: bytes, wire: Wire) -> Workload:
    """Read a request's body, without server-owned fields. Raises UnreadableError."""
    document = _whole_body(content, "types.RDTWorkLoad")
    rdt = _object(document.get("rdt"), "rdt") if wire == "0.3" else document
    cache = _object(rdt.get("cache"), "cache")
    mba = _object(rdt.get("mba"), "mba") if wire == "0.3" else {}
    plugins = _object(document.get("plugins"), "plugins") if wire == "0.3" else {}
    pstate = _object((plugins if wire == "0.3" else document).get("pstate"), "pstate")
    return Workload(
        id=_text(document, "id"),
        core_ids=_texts(document, "core_ids"),
        task_ids=_texts(document, "task_ids"),
        policy=_text(document, "policy"),
        cache_max=_whole(cache, "max", ".cache"),
        cache_min=_whole(cache, "min", ".cache"),
        mba_percentage=_whole(mba, "percentage", ".mba"),
        mba_mbps=_whole(mba, "mbps", ".mba"),
        ratio=_number(pstate, "ratio", ".pstate"),
        monitoring=_text(pstate, "monitoring", ".pstate")
        if pstate.get("monitoring") is not None
        else None,
        plugins=tuple(plugins),
        uuid=_text(document, "uuid"),
    )


def whole_numbers(content: bytes, *names: str) -> tuple[Mapping[str, Any], list[int | None]]:
    """A body that must be an object, and its members of these names. Raises UnreadableError."""
    document = _whole_body(content, "hospitality.Request")
    return document, [_whole(document, name, "Request") for name in names]


def pretty(document: Any) -> bytes:
    """JSON as the daemon prints it: each line but the first is indented by one more blank."""
    text = json.dumps(document, indent=1, ensure_ascii=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.replace("\n", "\n ").encode()


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        text = content.decode(errors="replace").strip()
        position = getattr(error, "pos", 0)
        if position >= len(text):
            raise UnreadableError("EOF" if not text else "unexpected EOF") from error
        raise UnreadableError(_of_character(text, position)) from error


def _of_character(text: str, position: int) -> str:
    """Go's text for a character that is no JSON; Go reads the words of JSON letter by letter."""
    for word in ("null", "true", "false"):
        given = text[position:]
        if given.startswith(word[0]):
            at = next(n for n, letter in enumerate(word) if given[n : n + 1] != letter)
            wanted = f"in literal {word} (expecting '{word[at]}')"
            return f"invalid character '{given[at : at + 1]}' {wanted}"
    return f"invalid character '{text[position]}' looking for beginning of value"


def _whole_body(content: bytes, kind: str) -> Mapping[str, Any]:
    value = _json(content)
    if value is not None and not isinstance(value, dict):
        raise UnreadableError(f"json: cannot unmarshal {_kind(value)} into Go value of type {kind}")
    return value or {}


def _object(value: Any, field: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(value, field, "struct")
    return value


def _text(document: Mapping[str, Any], field: str, parent: str = _WORKLOAD) -> str:
    value = document.get(field)
    if value is not None and not isinstance(value, str):
        raise _wrong(value, field, "string", parent)
    return value or ""


def _texts(document: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value = document.get(field) or []
    if not isinstance(value, list):
        raise _wrong(value, field, "[]string")
    for item in value:
        if not isinstance(item, str):
            raise _wrong(item, field, "string")
    return tuple(value)


def _whole(document: Mapping[str, Any], field: str, parent: str) -> int | None:
    value = document.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _UINT32:
        raise _wrong(value, field, "uint32", parent)
    return value


def _number(document: Mapping[str, Any], field: str, parent: str) -> float | None:
    value = document.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(value, field, "float64", parent)
    return float(value)


def _wrong(value: Any, field: str, wanted: str, parent: str = _WORKLOAD) -> UnreadableError:
    """Go names the structs around a member, of which some have no name."""
    found = _kind(value)
    if found == "number" and wanted == "uint32":
        found = f"number {value}"
    return UnreadableError(
        f"json: cannot unmarshal {found} into Go struct field {parent}.{field} of type {wanted}"
    )


def _kind(value: Any) -> str:
    kinds = {bool: "bool", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "number")


def _given(**members: Any) -> JsonObject:
    return {name: value for name, value in members.items() if value is not None}


def _filled(**members: Any) -> JsonObject:
    return {name: value for name, value in members.items() if value}


def _go_number(value: float | None) -> float | int | None:
    """Go prints a float without a fraction as a whole number."""
    return int(value) if value is not None and value.is_integer() else value
