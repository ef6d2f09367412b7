# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Errors of the Kubernetes API as messages with a remedy."""

from __future__ import annotations

import re
import ssl
import typing as t

from ..base.errors import ApiError
from ..base.json_types import Object
from ..base.libraries import urllib3

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
        "causes": (status_object.get("details") or {}).get("causes") or [],
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
