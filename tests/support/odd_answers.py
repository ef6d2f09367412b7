# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers with spoilt answers, beside healthy ones."""

from __future__ import annotations

import gzip
import json
import random
import typing as t
import urllib.parse

from ansible_collections.wattwise.kube.plugins.module_utils.base import strict_json
from support.https_server import Document, Reply
from support.odd_values import TEXTS, spoilt

Json = dict[str, t.Any]
MAX_DETAIL_LENGTH = 1000

_MIB = 1 << 20
CONTENTS: list[bytes] = [
    b"",
    b"null",
    b"[]",
    b"{",
    b'"' * 300_000,
    b"\xff\xfe\x00",
    b"[" * 200_000,
    b"[" * 60 + b"]" * 60,
    b"[" + b"{}," * 60_000 + b"{}]",
    b'{"a": "' + b"x" * 100_000 + b'"}',
    b'{"a": ' + b"9" * 100_000 + b"}",
    b" " * (3 * _MIB),
    b'{"Members": [' + b'{"@odata.id": "/redfish/v1/x"},' * 20_000 + b"{}]}",
]
HEADERS: list[dict[str, str]] = [
    {"Content-Encoding": "gzip"},
    {"Content-Encoding": "br"},
    {"X-Long": "x" * 9_000},
    {f"X-{number}": "x" * 4_000 for number in range(20)},
    {"Content-Type": "text/html; charset=nothing"},
]
# Statuses of a broken server; only few of those that are retried, which costs time.
STATUSES = [201, 204, 301, 400, 401, 403, 404, 405, 418, 451, 501, 599]
AFTER = ["9" * 5000, "Fri, 31 Dec 9999 23:59:59 -1200", " " * 4000 + "x", "-1", "soon", "1e9"]
# Values that mean a time; after any other one, a request is repeated half a second later.
MEANT = ["999999999", "Fri, 31 Dec 9999 23:59:59 -1200", "0"]


def odd_reply(source: random.Random, good: t.Any) -> Reply:
    """An odd answer for a good document: other JSON, no JSON, another status, odd headers."""
    kind = source.randrange(12)
    if kind == 0:
        return Reply(body=source.choice(CONTENTS))
    if kind == 1:
        return Reply(body=good, headers=source.choice(HEADERS))
    if kind == 2:
        bomb = gzip.compress(b" " * (50 * _MIB) if source.randrange(9) == 0 else b"{" * 5000)
        return Reply(body=bomb, headers={"Content-Encoding": "gzip"})
    if kind == 3:
        place = urllib.parse.quote(source.choice(TEXTS)[:5000], errors="replace")
        return Reply(source.choice(STATUSES), good, {"Location": f"/{place}"})
    if kind == 4:
        is_meant = source.randrange(2)
        after = source.choice(MEANT if is_meant else AFTER)
        return Reply(503 if is_meant else 400, good, {"Retry-After": after})
    content = json.dumps(spoilt(source, good, finite=False)).encode()
    if kind == 5:
        content = content[: source.randrange(len(content) + 1)]
    return Reply(body=content)


def spoilt_documents(
    source: random.Random, good: t.Mapping[str, t.Any], most: int = 3
) -> dict[str, Document]:
    """Good documents with one or more of them spoilt, once or permanently."""
    documents: dict[str, Document] = {path: Reply(body=body) for path, body in good.items()}
    for path in source.sample(sorted(good), source.randint(1, min(most, len(good)))):
        replies = [odd_reply(source, good[path]) for _time in range(source.choice([1, 1, 2]))]
        documents[path] = replies if len(replies) > 1 else replies[0]
    return documents


def assert_fit_for_documents(result: Json) -> None:
    """Check that a result fits into documents, statuses and messages: finite, printable, short."""
    strict_json.format_compact(result)
    for error in result["errors"]:
        assert error["detail"]
        assert len(error["detail"]) <= MAX_DETAIL_LENGTH
    for text in _texts(result):
        assert text.isprintable(), text[:100]
        assert len(text) <= 4096, text[:100]


def _texts(value: t.Any) -> t.Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
