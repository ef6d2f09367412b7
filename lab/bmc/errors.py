# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Error answers, in the words of the Redfish Base message registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_MESSAGES: Mapping[str, tuple[str, str]] = {
    # message id → message, resolution; %1 is the first argument
    "ResourceMissingAtURI": (
        "The resource at the URI %1 was not found.",
        "Place a valid resource at the URI or correct the URI and resubmit the request.",
    ),
    "ServiceTemporarilyUnavailable": (
        "The service is temporarily unavailable. Retry in %1 seconds.",
        "Wait for the indicated retry duration and retry the operation.",
    ),
    "NoValidSession": (
        "There is no valid session established with the implementation.",
        "Establish a session before attempting any operations.",
    ),
    "SessionLimitExceeded": (
        "The session establishment failed due to the number of simultaneous sessions exceeding"
        " the limit of the implementation.",
        "Reduce the number of other sessions before trying to establish the session.",
    ),
    "QueryNotSupported": (
        "Querying is not supported by the implementation.",
        "Remove the query parameters and resubmit the request if the operation failed.",
    ),
    "OperationNotAllowed": (
        "The HTTP method is not allowed on this resource.",
        "None.",
    ),
    "MalformedJSON": (
        "The request body submitted was malformed JSON and could not be parsed.",
        "Ensure that the request body is valid JSON and resubmit the request.",
    ),
}


@dataclass(eq=False)
class Refusal(Exception):
    """An HTTP status with a message of the Base registry and additional headers."""

    status: int
    message: str
    arguments: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self, registry: str) -> dict[str, Any]:
        """The Redfish error object; `registry` is like `Base.1.18`."""
        text, resolution = _MESSAGES[self.message]
        for number, argument in enumerate(self.arguments, 1):
            text = text.replace(f"%{number}", argument)
        information = {
            "MessageId": f"{registry}.{self.message}",
            "Message": text,
            "MessageArgs": list(self.arguments),
            "MessageSeverity": "Critical",
            "Resolution": resolution,
        }
        return {
            "error": {
                "code": f"{registry}.{self.message}",
                "message": text,
                "@Message.ExtendedInfo": [information],
            }
        }


def missing(path: str) -> Refusal:
    return Refusal(404, "ResourceMissingAtURI", (path,))


def unavailable(seconds: float, retry_after: bool = True) -> Refusal:
    """Most BMCs send no Retry-After; `retry_after` adds one."""
    whole = f"{seconds:.0f}"
    headers = {"Retry-After": whole} if retry_after else {}
    return Refusal(503, "ServiceTemporarilyUnavailable", (whole,), headers)


def unauthorized() -> Refusal:
    headers = {"WWW-Authenticate": 'Basic realm="Redfish"'}
    return Refusal(401, "NoValidSession", (), headers)
