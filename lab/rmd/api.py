# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The REST API of a daemon: routes, status codes and bodies, without sockets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.rmd import views
from lab.rmd.access import Door, denial
from lab.rmd.daemon import Daemon, Refusal
from lab.rmd.documents import UnreadableError, Workload, parse, pretty, whole_numbers
from lab.rmd.ways import AccountingError

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
# Most handlers name this type themselves; Go finds the other one from the text.
PLAIN_TEXT = "text/plain"
_V3_UNREADABLE = "Failed to read request correctly. Please check request syntax and data"
_LAST_LEVEL = ("l3", "llc")


@dataclass(frozen=True)
class Request:
    """A request; header names are in lower case, `certificate` is the client's (DER)."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    certificate: bytes | None = None


@dataclass(frozen=True)
class Reply:
    """An answer; the content type is None without a body."""

    status: int
    content: bytes = b""
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Daemon, Request, "re.Match[str]"], Reply]


def answer(daemon: Daemon, door: Door, asked: Request) -> Reply:
    """The daemon's answer. Raises PanicError if the daemon closes the connection instead."""
    wrong_path = _outside(daemon, asked.path)
    if wrong_path:
        return _text(404, "404 page not found\n")
    refused = denial(
        door,
        daemon.configuration,
        asked.method,
        asked.path,
        asked.headers.get("authorization", ""),
        asked.certificate,
    )
    if refused:
        return _text(refused.status, refused.text, refused.headers)
    try:
        return _routed(daemon, asked)
    except Refusal as refusal:
        documented = daemon.configuration.documented_status
        status = refusal.documented if documented else refusal.status
        is_named = asked.method != "PATCH" and asked.path.startswith("/v1/workloads")
        return Reply(status, refusal.text.encode(), PLAIN_TEXT if is_named else TEXT)


def _routed(daemon: Daemon, asked: Request) -> Reply:
    """Check path, then method, content type and accepted types, in the router's order."""
    found = [
        (method, handler, match)
        for method, pattern, handler in _ROUTES
        if (match := re.fullmatch(pattern, asked.path))
    ]
    if not found:
        return _text(404, "404: Page Not Found")
    own = [(handler, match) for method, handler, match in found if method == asked.method]
    if not own:
        return _text(405, "405: Method Not Allowed")
    content_type = asked.headers.get("content-type")
    is_missing = content_type is None and asked.method in ("POST", "PATCH")
    if is_missing or (content_type is not None and JSON not in content_type):
        return _text(415, "415: Unsupported Media Type")
    accepted = asked.headers.get("accept", "*/*")
    if JSON not in accepted and "*/*" not in accepted:
        return _text(406, "406: Not Acceptable")
    handler, match = own[0]
    return handler(daemon, asked, match)


def _outside(daemon: Daemon, path: str) -> bool:
    """Whether the path is outside all prefixes that the daemon registered."""
    prefixes = ["cache", "policy", "hospitality", "workloads", "mba"]
    prefixes += ["pstate"] if daemon.configuration.pstate else []
    return re.match(rf"/v1/({'|'.join(prefixes)})(/|$)", path) is None


def _summary(daemon: Daemon, _asked: Request, _match: re.Match[str]) -> Reply:
    return _json(200, views.cache_summary(daemon))


def _level(daemon: Daemon, _asked: Request, match: re.Match[str]) -> Reply:
    if match["level"] not in _LAST_LEVEL:
        return Reply(400)
    try:
        return _json(200, views.cache_level(daemon))
    except AccountingError:
        return Reply(400)


def _info(daemon: Daemon, _asked: Request, match: re.Match[str]) -> Reply:
    if match["level"] not in _LAST_LEVEL:
        return Reply(500)
    if int(match["id"]) not in daemon.host.caches:
        raise Refusal(404, f"Cache id {match['id']} for level 3 is not found")
    try:
        return _json(200, views.cache_info(daemon, int(match["id"])))
    except AccountingError:
        return Reply(400)


def _policy(daemon: Daemon, _asked: Request, _match: re.Match[str]) -> Reply:
    return _json(200, views.policies(daemon))


def _mba(daemon: Daemon, _asked: Request, _match: re.Match[str]) -> Reply:
    return _json(200, views.bandwidth(daemon))


def _pstate(daemon: Daemon, _asked: Request, match: re.Match[str]) -> Reply:
    found = views.pstates(daemon)
    if match["id"] is None:
        return _json(200, found)
    own = [entry for entry in found if str(entry["core_id"]) == match["id"]]
    return _json(200, own[0]) if own else _text(404, f"Core id {match['id']} is not found")


def _hospitality(daemon: Daemon, asked: Request, _match: re.Match[str]) -> Reply:
    try:
        document, numbers = whole_numbers(asked.content, "max_cache", "min_cache", "cache_id")
    except UnreadableError as error:
        raise Refusal(500, str(error)) from error
    most, least, cache_id = numbers
    policy = str(document.get("policy") or "")
    return _json(200, views.hospitality(daemon, most, least, policy, cache_id))


def _list(daemon: Daemon, _asked: Request, _match: re.Match[str]) -> Reply:
    wire = daemon.configuration.wire
    stored = sorted(daemon.workloads.items(), key=lambda item: item[0].encode())
    return _json(200, [workload.document(wire) for _id, workload in stored])


def _get(daemon: Daemon, _asked: Request, match: re.Match[str]) -> Reply:
    return _workload(daemon, 200, daemon.get(match["id"]))


def _create(daemon: Daemon, asked: Request, _match: re.Match[str]) -> Reply:
    return _workload(daemon, 201, daemon.create(_parsed(daemon, asked)))


def _change(daemon: Daemon, asked: Request, match: re.Match[str]) -> Reply:
    return _workload(daemon, 200, daemon.change(match["id"], _parsed(daemon, asked)))


def _delete(daemon: Daemon, _asked: Request, match: re.Match[str]) -> Reply:
    daemon.delete(match["id"])
    return Reply(200)


def _parsed(daemon: Daemon, asked: Request) -> Workload:
    try:
        return parse(asked.content, daemon.configuration.wire)
    except UnreadableError as error:
        text = str(error) if daemon.configuration.wire == "0.2" else _V3_UNREADABLE
        raise Refusal(500, text) from error


def _workload(daemon: Daemon, status: int, workload: Workload) -> Reply:
    return _json(status, workload.document(daemon.configuration.wire))


def _json(status: int, document: Any) -> Reply:
    return Reply(status, pretty(document), JSON)


def _text(status: int, text: str, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(status, text.encode(), TEXT, headers or {})


_LEVEL = r"/v1/cache/(?P<level>l2|l3|llc)"
_ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", r"/v1/cache/?", _summary),
    ("GET", _LEVEL + "/?", _level),
    ("GET", _LEVEL + r"/(?P<id>\d+)/?", _info),
    ("GET", r"/v1/policy/?", _policy),
    ("GET", r"/v1/mba/?", _mba),
    ("GET", r"/v1/pstate(?:/(?P<id>\d+))?/?", _pstate),
    ("POST", r"/v1/hospitality/?", _hospitality),
    ("GET", r"/v1/workloads/?", _list),
    ("POST", r"/v1/workloads/?", _create),
    ("GET", r"/v1/workloads/(?P<id>[^/]+)", _get),
    ("PATCH", r"/v1/workloads/(?P<id>[^/]+)", _change),
    ("DELETE", r"/v1/workloads/(?P<id>[^/]+)", _delete),
)
