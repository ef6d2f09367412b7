# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Requests to one API server: connection failures, refusals, and what is repeated."""

from __future__ import annotations

import contextlib
import copy
import functools
import time
import typing as t
import urllib.parse

from ...base import strict_json
from ...base.errors import ApiError, InvalidInput
from ...base.json_types import MutableObject
from ...base.libraries import urllib3
from ...base.version import USER_AGENT
from .. import reading
from ..errors import describe_connection_failure, describe_status
from .authorizer import Authorizer

Query = t.Mapping[str, t.Union[str, int]]
# Called before each attempt of a write; returns its seconds, or raises to prevent it.
Guard = t.Callable[[], float]
Result = t.TypeVar("Result")
Altered = t.TypeVar("Altered", bound="Transport")

RETRIED_STATUSES = frozenset({429, 502, 503, 504})
_MAX_PAUSE_SECONDS = 2.0
_FIRST_PATIENCE_SECONDS = 3.0


class Answer(t.NamedTuple):
    """Status code and decoded body of one request."""

    status: int
    body: MutableObject


class Transport:
    """Sends requests, and repeats them where that is safe. Thread-safe.

    ``patience_seconds`` are the waits between attempts of a request while a server that answered
    before is silent, because a restart takes seconds.
    """

    def __init__(
        self,
        pool: t.Any,
        host: str,
        headers: t.Callable[[], t.Sequence[tuple[str, str]]],
        timeout: float = 30.0,
        patience_seconds: float = 60.0,
        sleep: t.Callable[[float], None] = time.sleep,
    ) -> None:
        self._pool = pool
        self.host = host.rstrip("/")
        self._headers = headers
        self._accept = "application/json"
        self._timeout = timeout
        self._patience_seconds = patience_seconds
        self._sleep = sleep
        self._has_answered = False
        self._authorizer = Authorizer()
        self._guard: Guard | None = None

    def altered(self: Altered, **attributes: t.Any) -> Altered:
        """The same server with other values of these private attributes."""
        altered = copy.copy(self)
        vars(altered).update({f"_{name}": value for name, value in attributes.items()})
        return altered

    def is_starting(self, error: ApiError) -> bool:
        """Whether the error may be one of a server that has just started; see ``authorizer``."""
        return self._authorizer.is_starting(error)

    def find(self, path: str, query: Query | None = None) -> MutableObject | None:
        """The object or list at ``path``; None if there is nothing. Raises ApiError."""
        try:
            return self.send("GET", path, query=query).body
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def send(
        self,
        method: str,
        path: str,
        body: t.Any = None,
        content_type: str | None = None,
        query: Query | None = None,
    ) -> Answer:
        """Send one request; the status code, and the decoded body. Raises ApiError.

        All methods except POST are repeated while the server is unreachable or asks to wait. The
        caller must read the state to find out whether a POST took effect.
        """
        guard = None if method == "GET" else self._guard

        def attempt() -> Answer:
            timeout = self._timeout if guard is None else min(self._timeout, guard())
            with self.opened(method, path, query, timeout, body, content_type) as response:
                return Answer(response.status, reading.read_object(parts_of(response)))

        return self.repeated(method, attempt)

    def repeated(self, method: str, attempt: t.Callable[[], Result]) -> Result:
        """Call ``attempt`` until it succeeds or patience ends. Raises its last ApiError."""
        waited, pause = 0.0, 0.1
        while True:
            try:
                result = attempt()
                self._has_answered = True
                return result
            except ApiError as error:
                retry_after = error.fields.get("retry_after")
                is_transient = self.is_starting(error)
                repeatable = error.status == 429 or (
                    method != "POST" and error.status in (0, *RETRIED_STATUSES)
                )
                # A refusal took no effect, so that a repeated POST is safe.
                repeatable = (repeatable and not error.fields.get("permanent")) or is_transient
                pause = max(pause, retry_after or 0.0)
                patience = self._patience_seconds
                if not self._has_answered or is_transient:
                    patience = min(patience, _FIRST_PATIENCE_SECONDS)
                if not repeatable or waited + pause > patience:
                    raise
            self._sleep(pause)
            waited += pause
            pause = min(pause * 2, _MAX_PAUSE_SECONDS)

    @contextlib.contextmanager
    def opened(
        self,
        method: str,
        path: str,
        query: Query | None,
        timeout: float | None = None,
        body: t.Any = None,
        content_type: str | None = None,
    ) -> t.Iterator[t.Any]:
        """A successful answer of which nothing was read. Raises ApiError, also inside."""
        headers = self._asking_headers()
        data = None if body is None else _encoded(body, method, path)
        if body is not None:
            headers["Content-Type"] = content_type or "application/json"
        try:
            response = self._pool.request(
                method,
                self._url(path, query),
                body=data,
                headers=headers,
                timeout=self._timeout if timeout is None else timeout,
                retries=False,
                preload_content=False,
            )
            try:
                if not 200 <= response.status < 300:
                    raise describe_status(response, _status_of(response), method, path, self.host)
                yield response
            finally:
                # Unread parts would count as the answer to the next request.
                response.close()
        except urllib3.exceptions.HTTPError as error:
            raise describe_connection_failure(error, self.host) from error
        except reading.Unreadable as error:
            raise _unreadable(error, f"{method} {path} at {self.host}") from error

    def _url(self, path: str, query: Query | None) -> str:
        return self.host + path + ("?" + urllib.parse.urlencode(query) if query else "")

    def _asking_headers(self) -> t.Any:
        """The headers of each request: accepted types and authentication."""
        headers = urllib3.HTTPHeaderDict({"Accept": self._accept, "User-Agent": USER_AGENT})
        for name, value in self._headers():
            headers.add(name, value)
        return headers


def _unreadable(error: reading.Unreadable, request: str) -> ApiError:
    """``is_of_object``: the object is at fault, and a repetition cannot help."""
    if isinstance(error, reading.BeyondLimits):
        text = f"{request}: the object {error}; delete it or make it smaller"
        return ApiError(text, permanent=True, is_of_object=True)
    return ApiError(f"{request}: the answer {error}; is a proxy between this host and the API?")


def _encoded(body: t.Any, method: str, path: str) -> bytes:
    """JSON of an object that is sent. Raises InvalidInput."""
    try:
        return strict_json.format_compact(body).encode()
    except ValueError as error:
        raise InvalidInput(f"{method} {path}: the object is not JSON: {error}") from error


def parts_of(response: t.Any) -> reading.Parts:
    """The parts of an answer that is sent at once."""
    whole = functools.partial(response.read, reading.PART_SIZE, decode_content=False)
    return reading.plain_parts(response, iter(whole, b""))


def _status_of(response: t.Any) -> t.Any:
    """The body of a refusal; None if it is not JSON."""
    try:
        return reading.read_object(parts_of(response))
    except reading.Unreadable:
        return None
