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
    "ActionParameterValueNotInList": (
        "The value %1 for the parameter %2 in the action %3 is not in the list of acceptable"
        " values.",
        "Choose a value from the enumeration list that the implementation can support and resubmit"
        " the request if the operation failed.",
    ),
    "ActionParameterValueConflict": (
        "The parameter %1 with the value %2 cannot be used together with the current state of the"
        " resource.",
        "Update the state of the resource and resubmit the request.",
    ),
    "InsufficientPrivilege": (
        "There are insufficient privileges for the account or credentials associated with the"
        " current session to perform the requested operation.",
        "Either abandon the operation or change the associated access rights and resubmit the"
        " request if the operation failed.",
    ),
    "OperationFailed": (
        "An error occurred internal to the service as part of the overall request.",
        "Resubmit the request.  If the problem persists, consider resetting the service.",
    ),
    "PreconditionFailed": (
        "The ETag supplied did not match the ETag required to change this resource.",
        "Try the operation again using the appropriate ETag.",
    ),
    "PreconditionRequired": (
        "A precondition header or annotation is required to change this resource.",
        "Try the operation again using an If-Match or If-None-Match header.",
    ),
    "PropertyMissing": (
        "The property %1 is a required property and must be included in the request.",
        "Ensure that the property is in the request body and has a valid value.",
    ),
    "PropertyValueConflict": (
        "The property %1 could not be written because its value would conflict with the value of"
        " the property %2.",
        "No resolution is required.",
    ),
    "PropertyValueNotInList": (
        "The value %1 for the property %2 is not in the list of acceptable values.",
        "Choose a value that the implementation can support.",
    ),
    "PropertyValueTypeError": (
        "The value %1 for the property %2 is of a different type than the property can accept.",
        "Correct the value for the property in the request body.",
    ),
    # Registries of vendors.
    "PSU501": (
        "Unable to perform the requested operation because the server is already in the requested"
        " power state.",
        "No response action is required.",
    ),
    "SYS518": (
        "iDRAC is not ready. The configuration values cannot be accessed. Please retry after a few"
        " minutes.",
        "Wait for a few minutes, and then retry the operation.",
    ),
    "InvalidOperationForSystemState": (
        "The operation was not successful due to the current power state (for example, attempting"
        " to turn the power off when it is already off).",
        "Verify that the system is in the correct power state, and then retry the operation.",
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
    """An HTTP status with a message and additional headers.

    The message is of the Base registry unless `registry` names one of the vendor.
    """

    status: int
    message: str
    arguments: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    registry: str = ""

    def body(self, registry: str) -> dict[str, Any]:
        """The Redfish error object; `registry` is like `Base.1.18`."""
        text, resolution = _MESSAGES[self.message]
        registry = self.registry or registry
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
