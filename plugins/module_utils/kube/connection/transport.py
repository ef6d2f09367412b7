# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Requests to one API server: connection failures, refusals, and what is repeated."""

from __future__ import annotations

import contextlib
import copy
import functools
import re
import ssl
import time
import typing as t
import urllib.parse

from ...base import strict_json
from ...base.errors import ApiError, InvalidInput
from ...base.fields.lenient import member, objects
from ...base.json_types import MutableObject, Object
from ...base.libraries import urllib3
from ...base.version import USER_AGENT
from .. import reading

# A server that stops or starts aborts handshakes; the next one may succeed.
_CUT_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)

# An authorizer's refusal; that of an admission plugin names the object and its own reason. Source:
# https://pkg.go.dev/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters, Forbidden
_OF_AUTHORIZER = re.compile(r'\bUser "[^"]*" cannot [a-z*]+ (?:resource|path) "')


def describe_connection_failure(error: Exception, host: str) -> ApiError:
    """Error of a request without an answer; ``permanent`` if a repetition cannot help."""
    cause: BaseException = error
    while isinstance(getattr(cause, "reason", None), BaseException):
        cause = cause.reason  # type: ignore[attr-defined]  # urllib3 nests causes so
    if isinstance(cause, (urllib3.exceptions.SSLError, ssl.SSLError)):
        return _describe_tls_failure(_tls_cause(cause), host)
    # urllib3's class of refused connections is derived from that of timeouts.
    if isinstance(cause, urllib3.exceptions.TimeoutError) and not isinstance(
        cause, urllib3.exceptions.NewConnectionError
    ):
        return ApiError(f"The Kubernetes API at {host} does not answer in time; is it reachable?")
    return ApiError(
        f"Cannot reach the Kubernetes API at {host} ({_root_cause(cause)}); "
        "check kubeconfig or host, and that the server runs"
    )


def _tls_cause(error: BaseException) -> BaseException:
    """Error of Python's ssl module inside that of urllib3."""
    for argument in error.args:
        if isinstance(argument, ssl.SSLError):
            return argument
    return error.__cause__ if isinstance(error.__cause__, ssl.SSLError) else error


def _describe_tls_failure(cause: BaseException, host: str) -> ApiError:
    if isinstance(cause, ssl.SSLCertVerificationError) or not isinstance(cause, ssl.SSLError):
        # urllib3 refuses fingerprints and host names with its own errors.
        return ApiError(
            f"The certificate of the Kubernetes API at {host} is not trusted ({cause}); "
            "set ca_cert, or certificate-authority-data in the kubeconfig",
            permanent=True,
        )
    if isinstance(cause, _CUT_OFF):
        return ApiError(
            f"The Kubernetes API at {host} ended the TLS handshake; check that the server runs"
        )
    if "ALERT" in (cause.reason or "").upper():
        return ApiError(
            f"The Kubernetes API at {host} refused the TLS handshake ({cause}); "
            "check the client certificate and key",
            permanent=True,
        )
    return ApiError(
        f"The TLS handshake with the Kubernetes API at {host} failed ({cause}); "
        "check that the port speaks TLS",
        permanent=True,
    )


def _root_cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return getattr(error, "strerror", None) or str(error)


def describe_status(response: t.Any, body: t.Any, method: str, path: str, host: str) -> ApiError:
    """Error of an unsuccessful answer, from the Status object in its body."""
    is_status = isinstance(body, dict) and body.get("kind") == "Status"
    status_object = body if is_status else {}
    message = str(status_object.get("message") or f"HTTP {response.status}")
    fields = {
        "reason": status_object.get("reason", ""),
        "causes": objects(member(status_object, "details", "causes")),
        "retry_after": _seconds(response.headers.get("Retry-After")),
    }
    if response.status == 401:
        text = (
            f"The Kubernetes API at {host} does not accept the credentials (401 {message}); "
            "has the token or client certificate expired?"
        )
    elif response.status == 403 and _is_namespace_terminating(fields["causes"]):
        # It concerns only the objects of that namespace, and no permission would help.
        fields["namespace_terminating"] = True
        text = f"{method} {path} at {host}: {message}"
    elif response.status == 403 and (not status_object or _OF_AUTHORIZER.search(message)):
        fields["lacks_permission"] = bool(status_object)
        text = f"Not allowed at {host}: {message}; grant the permission in RBAC"
    else:
        text = f"{method} {path} at {host}: {message}"
    return ApiError(text, response.status, **fields)


def _is_namespace_terminating(causes: t.Sequence[Object]) -> bool:
    """Source: https://pkg.go.dev/k8s.io/api/core/v1, NamespaceTerminatingCause."""
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def _seconds(retry_after: str | None) -> float:
    is_number = retry_after is not None and retry_after.isdecimal() and len(retry_after) <= 9
    return float(retry_after) if retry_after is not None and is_number else 0.0


# Reading of the roles takes one or two seconds in a cluster with a thousand of them.
STARTING_SECONDS = 4.0
_OF_RESTARTS = frozenset({0, 502, 503, 504})


class Authorizer:
    """The time in which a missing permission may be one that is not read yet. Thread-safe.

    An API server that has just started answers 403 for some seconds, before it has read its roles.
    It begins with the first refusal, and once more after each sign of a restart. So all requests of
    a run together wait once for a permission that is really missing.
    """

    def __init__(self, clock: t.Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started_by: float | None = None

    def is_starting(self, error: ApiError) -> bool:
        """Whether the error is a refusal that a repetition may change."""
        if error.status in _OF_RESTARTS:
            self._started_by = None
        if not error.fields.get("lacks_permission"):
            return False
        if self._started_by is None:
            self._started_by = self._clock() + STARTING_SECONDS
        return self._clock() < self._started_by


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
        """Whether the error may be one of a server that has just started; see Authorizer."""
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
