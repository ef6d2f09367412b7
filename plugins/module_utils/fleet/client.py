# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The HTTP client of one target: a deadline for all requests, retries, JSON in both directions."""

from __future__ import annotations

import asyncio
import typing as t

from ..base import strict_json
from ..base.errors import TargetFailure
from ..base.texts import shown
from .exchange import Exchange, Received
from .failures import REDIRECTS, RETRIED, failure_of_status
from .targets import FleetOptions, Pace, Target
from .urls import Address, elsewhere, origin_text, redacted

_FIRST_PAUSE_SECONDS = 0.5
_MAX_REDIRECTS = 3

T = t.TypeVar("T")


class Answer(t.NamedTuple):
    """A successful answer with decoded JSON in ``body`` and lower-case header names."""

    status: int
    headers: t.Mapping[str, str]
    body: t.Any


class Client:
    """Client of one target, with one request at a time. Every failure is a TargetFailure."""

    def __init__(
        self, target: Target, address: Address, session: t.Any, options: FleetOptions, pace: Pace
    ) -> None:
        self._address = address
        self._options = options
        self._pace = pace
        self._exchange = Exchange(target, address, session, options, pace)
        self._one_at_a_time = asyncio.Lock()

    @property
    def has_answered(self) -> bool:
        """Whether the server has answered any request."""
        return self._exchange.has_answered

    def failure_of(self, error: Exception, what: str) -> TargetFailure:
        """Convert an exception of aiohttp, ssl or a socket to the target's failure."""
        return self._exchange.failure_of(error, what)

    async def certificate(self) -> bytes:
        """Certificate of the server (DER), from a TLS handshake without a request."""
        return await self._exchange.certificate()

    async def get_json(self, link: str, *, limit: float | None = None) -> Answer:
        """GET a path or a URL of the target's origin; ``limit`` are the seconds of this request."""
        return await self._send("GET", link, None, limit, repeatable=True)

    async def get_text(self, link: str) -> str:
        """GET a text in UTF-8, like ``get_json``."""
        url, what = self._addressed("GET", link)
        received = await self._repeated(
            lambda: self._follow("GET", url, None, None, what), repeatable=True
        )
        try:
            return received.content.decode()
        except UnicodeDecodeError as error:
            raise TargetFailure(
                "malformed",
                f"the answer to {what} is not UTF-8 text; check that the endpoint is the right "
                "service",
            ) from error

    async def post_json(self, link: str, body: t.Any, *, repeatable: bool = False) -> Answer:
        """POST JSON; bytes are sent unchanged, other values encoded.

        The request is repeated only if the caller declares this safe.
        """
        return await self._send("POST", link, _encoded(body), None, repeatable=repeatable)

    async def exchange(
        self,
        method: str,
        link: str,
        body: t.Any = None,
        headers: t.Mapping[str, str] | None = None,
        *,
        limit: float | None = None,
    ) -> Received:
        """One request whose status the caller evaluates; ``body`` is sent as JSON.

        Only a GET is repeated, after a broken connection. ``limit`` are the seconds of the request.
        """
        url, what = self._addressed(method, link)
        content = None if body is None else _encoded(body)
        return await self._repeated(
            lambda: self._exchange.send(method, url, content, limit, what, headers),
            repeatable=method == "GET",
        )

    async def write(
        self,
        method: str,
        link: str,
        body: t.Any,
        headers: t.Mapping[str, str] | None = None,
        *,
        limit: float | None = None,
    ) -> Received:
        """One change whose status the caller evaluates, like ``exchange``; it is never repeated.

        HTTP 307 and 308 keep the method and say that nothing was done, so that their path is
        followed, at this endpoint.
        """
        seen: set[str] = set()
        while True:
            received = await self.exchange(method, link, body, headers, limit=limit)
            location = received.headers.get("location")
            if received.status not in (307, 308) or not location:
                return received
            url, what = self._addressed(method, link)
            seen.add(url)
            link = self._address.redirected(url, location)
            if link in seen or len(seen) > _MAX_REDIRECTS:
                raise self._failure_of_redirects(location, what)

    async def put(self, link: str, content: bytes, headers: t.Mapping[str, str]) -> Received:
        """PUT bytes; the caller evaluates the status.

        The request is repeated after a broken connection and after a transient status. Failures
        omit the query of the link, which may be a signature.
        """
        url, what = self._addressed("PUT", link)
        what = what.partition("?")[0]

        async def once() -> Received:
            received = await self._exchange.send("PUT", url, content, None, what, headers)
            if received.status in RETRIED:
                raise self._failure_of_status(received, what)
            return received

        return await self._repeated(once, repeatable=True)

    def _addressed(self, method: str, link: str) -> tuple[str, str]:
        """The URL of a link, and the request in words."""
        url = self._address.url(link)
        # The link itself is not quoted, because the server controls its text.
        return url, f"{method} {url[len(origin_text(self._address.origin)) :]}"

    async def _send(
        self, method: str, link: str, content: bytes | None, limit: float | None, repeatable: bool
    ) -> Answer:
        url, what = self._addressed(method, link)

        async def once() -> Answer:
            received = await self._follow(method, url, content, limit, what)
            return Answer(received.status, received.headers, self.decoded(received, what))

        return await self._repeated(once, repeatable)

    def decoded(self, received: Received, what: str) -> t.Any:
        """The JSON of an answer, within the target's budget. Raises TargetFailure, malformed."""
        try:
            return self._exchange.spent.parsed(received.content)
        except ValueError as error:
            raise TargetFailure(
                "malformed",
                f"the response to {what} is not the expected JSON ({error}); check that the "
                "endpoint is the right service",
            ) from error

    async def _repeated(self, once: t.Callable[[], t.Awaitable[T]], repeatable: bool) -> T:
        """One request, with repetitions after pauses if they may help."""
        async with self._one_at_a_time:
            attempt = 0
            while True:
                try:
                    return await once()
                except TargetFailure as failure:
                    pause = self._pause(failure, attempt) if repeatable else None
                    if pause is None:
                        raise
                await self._pace.sleep(pause)
                attempt += 1

    async def _follow(
        self, method: str, url: str, content: bytes | None, limit: float | None, what: str
    ) -> Received:
        """One exchange, and for GET its redirects. Raises TargetFailure."""
        seen: list[str] = []
        while True:
            received = await self._exchange.send(method, url, content, limit, what)
            location = received.headers.get("location")
            if received.status not in REDIRECTS or method != "GET" or not location:
                break
            seen.append(url)
            url = self._address.redirected(url, location)
            if url in seen or len(seen) > _MAX_REDIRECTS:
                raise self._failure_of_redirects(location, what)
            if self._address.leaves(location):
                what = f"{what} (redirected to {shown(redacted(location))})"
        if not 200 <= received.status < 300:
            raise self._failure_of_status(received, what)
        return received

    def _failure_of_status(self, received: Received, what: str) -> TargetFailure:
        return failure_of_status(received.status, received.headers, what, self._pace.wall())

    def _failure_of_redirects(self, location: str, what: str) -> TargetFailure:
        """Why following the path of a redirect at this endpoint led nowhere."""
        if self._address.leaves(location):
            return elsewhere(location)
        return TargetFailure(
            "server_error",
            f"the server redirects {what} in a circle or more than {_MAX_REDIRECTS} times; check "
            "the endpoint",
        )

    def _pause(self, failure: TargetFailure, attempt: int) -> float | None:
        """Seconds to wait before repeating the request; None without a repetition."""
        if not failure.fields.get("passing") or attempt >= self._options.retries:
            return None
        pause = failure.fields.get("retry_after")
        if pause is None:
            pause = _FIRST_PAUSE_SECONDS * 2**attempt * (0.5 + self._pace.jitter())
        return pause if self._pace.clock() + pause < self._exchange.deadline else None


def _encoded(body: t.Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return strict_json.format_compact(body).encode()
