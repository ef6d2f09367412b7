# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The HTTP client of one target: a deadline for all requests, retries, JSON in both directions."""

from __future__ import annotations

import asyncio
import base64
import datetime
import email.utils
import random
import ssl
import time
import typing as t
import zlib
from dataclasses import dataclass, field

from ..base import strict_json
from ..base.errors import TargetFailure, TargetReason
from ..base.libraries import aiohttp, yarl
from ..base.texts import shown
from ..base.units import format_time
from .tls import Trust, unverified_context
from .urls import Address, elsewhere, is_plain_http, origin_text, redacted

VERSION = "0.1.0"
USER_AGENT = f"wattwise.kube/{VERSION}"
CONNECT_TIMEOUT_SECONDS = 5.0
# Present limits of aiohttp for a header line and a header, fixed here.
_MAX_HEADER_BYTES = 8190
_MAX_RETRY_AFTER_LENGTH = 64
_MAX_WAIT_SECONDS = 1e9
_FIRST_PAUSE_SECONDS = 0.5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 3
_RETRIED = frozenset({429, 500, 502, 503, 504})

T = t.TypeVar("T")

_STATUS_MEANINGS: dict[int, tuple[TargetReason, str]] = {
    401: (
        "unauthorized",
        "user name or password is missing or wrong; correct the credential",
    ),
    403: ("forbidden", "the account may not do this; give it a role that may, such as ReadOnly"),
    404: ("not_found", "there is nothing at this address; check the endpoint"),
    410: ("not_found", "there is no longer anything at this address; check the endpoint"),
    429: ("throttled", "the server gets too many requests; send fewer"),
}
_OTHER_STATUS: tuple[TargetReason, str] = ("server_error", "check the server's log")


@dataclass(frozen=True)
class Credential:
    """User name and password for HTTP basic authentication."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class BearerToken:
    """A token for HTTP bearer authentication (RFC 6750)."""

    token: str = field(repr=False)


@dataclass(frozen=True)
class Target:
    """One server of node ``name``; ``extra`` belongs to the caller.

    The credential is sent over plain HTTP only if ``allow_plain_http`` is true.
    """

    name: str
    endpoint: str
    credential: Credential | BearerToken | None = None
    trust: Trust = field(default_factory=Trust)
    extra: t.Mapping[str, t.Any] = field(default_factory=dict)
    allow_plain_http: bool = False

    @property
    def sends_password_in_the_clear(self) -> bool:
        """Whether the credential would be sent over plain HTTP."""
        return self.credential is not None and is_plain_http(self.endpoint)


@dataclass(frozen=True)
class Budget:
    """Limits of one target for all of its answers together.

    The largest trees of real BMCs have 108 kB, 3,408 members and 103 answers.
    """

    requests: int = 1_000
    size: int = 2 * 1024 * 1024
    members: int = 50_000
    depth: int = 64
    text: int = 64 * 1024


@dataclass(frozen=True)
class FleetOptions:
    """``timeout`` is the limit of one target in seconds, from its first request."""

    timeout: float = 10.0
    concurrency: int = 64
    per_host: int = 1
    retries: int = 2
    budget: Budget = Budget()


@dataclass(frozen=True)
class Pace:
    """Sources of time and randomness. ``clock`` is monotonic, ``wall`` the seconds since 1970."""

    clock: t.Callable[[], float] = time.monotonic
    wall: t.Callable[[], float] = time.time
    sleep: t.Callable[[float], t.Awaitable[None]] = asyncio.sleep
    jitter: t.Callable[[], float] = random.random


class Answer(t.NamedTuple):
    """A successful answer with decoded JSON in ``body`` and lower-case header names."""

    status: int
    headers: t.Mapping[str, str]
    body: t.Any


class Received(t.NamedTuple):
    """An answer of any status, with lower-case header names."""

    status: int
    headers: t.Mapping[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")


class _Spent:
    """Used part of the budget of a target. An excess is a failure of the machine."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._requests = 0
        self.bytes_left = budget.size
        self._members_left = budget.members

    def request(self, what: str) -> None:
        self._requests += 1
        if self._requests > self._budget.requests:
            raise _over(f"needs more than {self._budget.requests} requests, the next is {what}")

    def received(self, count: int, what: str) -> None:
        self.bytes_left -= count
        if self.bytes_left < 0:
            most = self._budget.size / 2**20
            raise _over(f"has answered more than {most:g} MiB in all, the last to {what}")

    def parsed(self, content: bytes) -> t.Any:
        """Parse JSON. Raises ValueError."""
        limits = strict_json.JsonLimits(
            self._budget.size, self._members_left, self._budget.depth, self._budget.text
        )
        value = strict_json.parse(content, limits, lenient=True)
        self._members_left -= strict_json.members_of(content)
        return value


def _over(how: str) -> TargetFailure:
    return TargetFailure(
        "malformed",
        f"the server {how}; check that the endpoint is the right service",
        exhausted=True,
    )


class Client:
    """Client of one target, with one request at a time. Every failure is a TargetFailure."""

    def __init__(
        self, target: Target, address: Address, session: t.Any, options: FleetOptions, pace: Pace
    ) -> None:
        self._address = address
        self._session = session
        self._options = options
        self._pace = pace
        self._deadline = pace.clock() + options.timeout
        self._one_at_a_time = asyncio.Lock()
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if target.credential is not None:
            self._headers["Authorization"] = _authorization(target.credential)
        self._server_name = target.trust.server_name
        self._is_connected = False
        self.has_answered = False
        self._spent = _Spent(options.budget)

    def mark_connected(self) -> None:
        """Called by the trace of the session when the request of this client has a connection."""
        self._is_connected = True

    async def get_json(self, link: str, *, limit: float | None = None) -> Answer:
        """GET a path or a URL of the target's origin; ``limit`` are the seconds of this request."""
        return await self._send("GET", link, None, limit, repeatable=True)

    async def get_text(self, link: str) -> str:
        """GET a text in UTF-8, like ``get_json``."""
        url = self._address.url(link)
        what = f"GET {url[len(origin_text(self._address.origin)) :]}"
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

    async def exchange(self, method: str, link: str, body: t.Any = None) -> Received:
        """One request whose status the caller evaluates; ``body`` is sent as JSON.

        Only a GET is repeated, after a broken connection.
        """
        url = self._address.url(link)
        what = f"{method} {url[len(origin_text(self._address.origin)) :]}"
        content = None if body is None else _encoded(body)
        return await self._repeated(
            lambda: self._exchange(method, url, content, None, what), repeatable=method == "GET"
        )

    async def put(self, link: str, content: bytes, headers: t.Mapping[str, str]) -> Received:
        """PUT bytes; the caller evaluates the status.

        The request is repeated after a broken connection and after a transient status. Failures
        omit the query of the link, which may be a signature.
        """
        url = self._address.url(link)
        what = f"PUT {url[len(origin_text(self._address.origin)) :].partition('?')[0]}"

        async def once() -> Received:
            received = await self._exchange("PUT", url, content, None, what, headers)
            if received.status in _RETRIED:
                raise self._failure_of_status(received, what)
            return received

        return await self._repeated(once, repeatable=True)

    async def certificate(self) -> bytes:
        """Certificate of the server (DER), from a TLS handshake without a request."""
        if self._address.origin.scheme != "https":
            raise TargetFailure("tls", "the endpoint is http://, which has no certificate")
        _scheme, host, port = self._address.origin
        try:
            _reader, writer = await asyncio.wait_for(
                asyncio.open_connection(host, port, ssl=unverified_context(), server_hostname=host),
                self._remaining("the TLS handshake"),
            )
        except (OSError, asyncio.TimeoutError) as error:
            raise self.failure_of(error, "the TLS handshake") from error
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        return t.cast("bytes", certificate)

    async def _send(
        self, method: str, link: str, content: bytes | None, limit: float | None, repeatable: bool
    ) -> Answer:
        url = self._address.url(link)
        # The link itself is not quoted, because the server controls its text.
        what = f"{method} {url[len(origin_text(self._address.origin)) :]}"

        async def once() -> Answer:
            received = await self._follow(method, url, content, limit, what)
            return Answer(received.status, received.headers, self.decoded(received, what))

        return await self._repeated(once, repeatable)

    def decoded(self, received: Received, what: str) -> t.Any:
        """The JSON of an answer, within the target's budget. Raises TargetFailure, malformed."""
        try:
            return self._spent.parsed(received.content)
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
            received = await self._exchange(method, url, content, limit, what)
            location = received.headers.get("location")
            if received.status not in _REDIRECTS or method != "GET" or not location:
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

    def _failure_of_redirects(self, location: str, what: str) -> TargetFailure:
        """Why following the path of a redirect at this endpoint led nowhere."""
        if self._address.leaves(location):
            return elsewhere(location)
        return TargetFailure(
            "server_error",
            f"the server redirects {what} in a circle or more than {_MAX_REDIRECTS} times; check "
            "the endpoint",
        )

    async def _exchange(
        self,
        method: str,
        url: str,
        content: bytes | None,
        limit: float | None,
        what: str,
        more: t.Mapping[str, str] | None = None,
    ) -> Received:
        self._spent.request(what)
        seconds = min(self._remaining(what), limit or self._options.timeout)
        kind = {} if content is None else {"Content-Type": "application/json"}
        headers = {**self._headers, **kind, **(more or {})}
        self._is_connected = False
        try:
            async with self._session.request(
                method,
                yarl.URL(url, encoded=True),
                data=content,
                headers=headers,
                allow_redirects=False,
                trace_request_ctx=self,
                server_hostname=self._server_name,
                max_line_size=_MAX_HEADER_BYTES,
                max_field_size=_MAX_HEADER_BYTES,
                # aiohttp rounds up timeouts above five seconds.
                timeout=aiohttp.ClientTimeout(
                    total=seconds, sock_connect=CONNECT_TIMEOUT_SECONDS, ceil_threshold=1e9
                ),
            ) as response:
                self.has_answered = True
                sizes = (len(name) + len(value) for name, value in response.headers.items())
                self._spent.received(sum(sizes), what)
                names = {name.lower(): value for name, value in response.headers.items()}
                return Received(response.status, names, await self._content(response, what))
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
            raise self.failure_of(error, what) from error

    async def _content(self, response: t.Any, what: str) -> bytes:
        """The body; its bytes are counted before they are kept, also after decompression.

        Some BMCs send gzip unrequested.
        """
        encoding = response.headers.get("Content-Encoding", "identity").lower()
        unpacker = zlib.decompressobj(wbits=47) if encoding in ("gzip", "deflate") else None
        if unpacker is None and encoding not in ("", "identity"):
            raise TargetFailure(
                "malformed",
                f"the answer to {what} is packed as {shown(encoding)}, which was not requested",
            )
        content = bytearray()
        async for chunk in response.content.iter_any():
            self._spent.received(len(chunk), what)
            if unpacker is None:
                content += chunk
                continue
            try:
                part = unpacker.decompress(chunk, self._spent.bytes_left + 1)
            except zlib.error as error:
                raise TargetFailure("malformed", f"the answer to {what} is not gzip") from error
            self._spent.received(len(part), what)
            content += part
        return bytes(content)

    def _remaining(self, what: str) -> float:
        seconds = self._deadline - self._pace.clock()
        if seconds <= 0:
            raise self._timeout(what)
        return seconds

    def _timeout(self, what: str) -> TargetFailure:
        return TargetFailure(
            "timeout",
            f"no answer to {what} within {self._options.timeout:g} s for the whole target; "
            "check its load, or raise timeout",
        )

    def _pause(self, failure: TargetFailure, attempt: int) -> float | None:
        """Seconds to wait before repeating the request; None without a repetition."""
        if not failure.fields.get("passing") or attempt >= self._options.retries:
            return None
        pause = failure.fields.get("retry_after")
        if pause is None:
            pause = _FIRST_PAUSE_SECONDS * 2**attempt * (0.5 + self._pace.jitter())
        return pause if self._pace.clock() + pause < self._deadline else None

    def _failure_of_status(self, received: Received, what: str) -> TargetFailure:
        reason, meaning = _STATUS_MEANINGS.get(received.status, _OTHER_STATUS)
        if received.status in _REDIRECTS:
            meaning = "only a GET follows a redirect with a Location; check the endpoint"
        seconds = retry_after_seconds(received.headers.get("retry-after"), self._pace.wall())
        if seconds is not None and received.status in (429, 503):
            moment = _moment(self._pace.wall() + seconds)
            reason, meaning = "throttled", f"the server asks for a retry after {moment}"
        return TargetFailure(
            reason,
            f"HTTP {received.status} to {what}: {meaning}",
            passing=received.status in _RETRIED,
            retry_after=seconds if reason == "throttled" else None,
        )

    def failure_of(self, error: Exception, what: str) -> TargetFailure:
        """Convert an exception of aiohttp, ssl or a socket to the target's failure."""
        if isinstance(error, TargetFailure):
            return error
        certificate_errors = (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError)
        if isinstance(error, certificate_errors):
            cause = getattr(error, "certificate_error", error)
            return TargetFailure("tls", f"{_certificate_trouble(cause)}; nothing was sent")
        if isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)):
            cause = getattr(error, "os_error", error)
            return TargetFailure(
                "tls", f"the TLS handshake failed ({cause}); check that the port speaks TLS"
            )
        if isinstance(error, asyncio.TimeoutError):
            return self._timeout(what) if self._is_connected else _unconnected()
        if _is_broken(error) and not self._is_connected and self._address.origin.scheme == "https":
            what = "the TLS handshake"
        return _failure_of_connection(error, what)


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """Seconds to wait by a Retry-After header (RFC 9110, 10.2.3); None if it is invalid.

    ``now`` is in seconds since 1970. A date in the past is no wait.
    """
    if value is None:
        return None
    text = value.strip()
    if len(text) > _MAX_RETRY_AFTER_LENGTH:
        return None
    if text.isascii() and text.isdigit():
        return min(float(text), _MAX_WAIT_SECONDS)
    try:
        moment = email.utils.parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.timezone.utc)
        return min(max(0.0, moment.timestamp() - now), _MAX_WAIT_SECONDS)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _moment(seconds: float) -> str:
    return format_time(datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc))


def _encoded(body: t.Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return strict_json.format_compact(body).encode()


def _authorization(credential: Credential | BearerToken) -> str:
    if isinstance(credential, BearerToken):
        return f"Bearer {credential.token}"
    token = f"{credential.username}:{credential.password}".encode()
    return "Basic " + base64.b64encode(token).decode("ascii")


def _certificate_trouble(cause: BaseException) -> str:
    # Messages of this library are complete; those of OpenSSL need a remedy.
    text = getattr(cause, "verify_message", None)
    if not text:
        return f"{getattr(cause, 'strerror', None) or cause}; if that is right, pin the new one"
    return (
        f"its certificate is not trusted ({text}); give its authority as ca_path, or pin it by "
        "tls_fingerprint"
    )


def _unconnected() -> TargetFailure:
    return TargetFailure(
        "unreachable",
        "the connection timed out; check address, power and network of the machine",
    )


def _is_broken(error: Exception) -> bool:
    broken = (ConnectionResetError, BrokenPipeError, aiohttp.ServerDisconnectedError)
    os_error = getattr(error, "os_error", error)
    return isinstance(error, (*broken, aiohttp.ClientPayloadError)) or isinstance(os_error, broken)


def _failure_of_connection(error: Exception, what: str) -> TargetFailure:
    os_error = getattr(error, "os_error", error)
    if _is_broken(error):
        return TargetFailure(
            "unreachable",
            f"the connection broke during {what}; check whether the server restarts",
            passing=True,
        )
    if isinstance(error, (aiohttp.ClientConnectionError, OSError)):
        strerror = getattr(os_error, "strerror", None) or str(os_error)
        return TargetFailure(
            "unreachable",
            f"cannot connect ({strerror}); check address, power and network of the machine",
        )
    return TargetFailure(
        "malformed",
        f"the answer to {what} is not valid HTTP; check that the endpoint is the right service",
    )
