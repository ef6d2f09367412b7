# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Failures of requests: the reason, the sentence with its remedy, and whether it may pass."""

from __future__ import annotations

import asyncio
import datetime
import email.utils
import ssl
import typing as t

from ..base.errors import TargetFailure, TargetReason
from ..base.libraries import aiohttp
from ..base.units import format_time

_MAX_RETRY_AFTER_LENGTH = 64
_MAX_WAIT_SECONDS = 1e9
REDIRECTS = frozenset({301, 302, 303, 307, 308})
RETRIED = frozenset({429, 500, 502, 503, 504})

_STATUS_MEANINGS: dict[int, tuple[TargetReason, str]] = {
    401: ("unauthorized", "user name or password is missing or wrong; correct the credential"),
    403: ("forbidden", "the account may not do this; give it a role that may, such as ReadOnly"),
    404: ("not_found", "there is nothing at this address; check the endpoint"),
    410: ("not_found", "there is no longer anything at this address; check the endpoint"),
    429: ("throttled", "the server gets too many requests; send fewer"),
}
_OTHER_STATUS: tuple[TargetReason, str] = ("server_error", "check the server's log")


def failure_of_status(
    status: int, headers: t.Mapping[str, str], what: str, now: float
) -> TargetFailure:
    """The failure by an unsuccessful status; ``now`` is in seconds since 1970."""
    reason, meaning = _STATUS_MEANINGS.get(status, _OTHER_STATUS)
    if status in REDIRECTS:
        meaning = "only a GET follows a redirect with a Location; check the endpoint"
    seconds = retry_after_seconds(headers.get("retry-after"), now)
    if seconds is not None and status in (429, 503):
        moment = _moment(now + seconds)
        reason, meaning = "throttled", f"the server asks for a retry after {moment}"
    return TargetFailure(
        reason,
        f"HTTP {status} to {what}: {meaning}",
        passing=status in RETRIED,
        retry_after=seconds if reason == "throttled" else None,
    )


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


def failure_of_exchange(
    error: Exception, what: str, is_connected: bool, is_tls: bool
) -> TargetFailure:
    """The failure by an exception of aiohttp, ssl or a socket, except late answers."""
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
        return TargetFailure(
            "unreachable",
            "the connection timed out; check address, power and network of the machine",
        )
    if _is_broken(error) and not is_connected and is_tls:
        what = "the TLS handshake"
    return _failure_of_connection(error, what)


def _certificate_trouble(cause: BaseException) -> str:
    # Messages of this library are complete; those of OpenSSL need a remedy.
    text = getattr(cause, "verify_message", None)
    if not text:
        return f"{getattr(cause, 'strerror', None) or cause}; if that is right, pin the new one"
    return (
        f"its certificate is not trusted ({text}); give its authority as ca_path, or pin it by "
        "tls_fingerprint"
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
