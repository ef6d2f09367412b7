# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The errors of the library: typed, one clear sentence each, without secrets."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .texts import shown_text

TargetReason = t.Literal[
    "unreachable",
    "timeout",
    "tls",
    "credential",
    "unauthorized",
    "forbidden",
    "not_found",
    "throttled",
    "server_error",
    "malformed",
    "no_sensor",
    "implausible",
    "refused",
    "conflict",
]
_MAX_DETAIL_LENGTH = 1000
TARGET_REASONS: tuple[str, ...] = t.get_args(TargetReason)


class WattwiseError(Exception):
    """An error that a user can act on. ``str()`` is the sentence, ``fields`` are for programs."""

    def __init__(self, message: str, **fields: t.Any) -> None:
        super().__init__(message)
        self.fields = fields


class InvalidInput(WattwiseError):
    """A parameter, document or object is invalid."""


class MissingLibrary(WattwiseError):
    """A Python library is not installed for the interpreter that runs the module."""

    def __init__(self, library: str, detail: str) -> None:
        super().__init__(f"The Python library {library} is needed here: {detail}", library=library)
        self.library = library


class ApiError(WattwiseError):
    """A server answered with an error.

    ``status`` is the HTTP status code; 0 means that there was no answer.
    """

    def __init__(self, message: str, status: int = 0, **fields: t.Any) -> None:
        super().__init__(message, status=status, **fields)
        self.status = status


class TargetFailure(WattwiseError):
    """One target of many failed; the others continue."""

    def __init__(self, reason: TargetReason, detail: str, **fields: t.Any) -> None:
        told = told_text(detail)
        super().__init__(told, reason=reason, **fields)
        self.reason: TargetReason = reason
        self.detail = told


def told_text(detail: str) -> str:
    """A detail made safe for messages, statuses and reports, because servers wrote parts of it."""
    return shown_text(detail, _MAX_DETAIL_LENGTH)


def failure_of(error: Exception) -> TargetFailure:
    """Convert any exception of one target to its failure.

    Raises MissingLibrary, because it is no fault of the target.
    """
    if isinstance(error, MissingLibrary):
        raise error
    if isinstance(error, TargetFailure):
        return error
    if isinstance(error, WattwiseError):
        return TargetFailure("malformed", str(error))
    return TargetFailure(
        "malformed",
        f"its answer or configuration cannot be read ({type(error).__name__}); check its answers",
    )


@dataclass(frozen=True)
class TargetError:
    """Reason why a target has no result, in the form of module results."""

    name: str
    endpoint: str
    reason: TargetReason
    detail: str

    def as_dict(self) -> dict[str, str]:
        return dict(vars(self))
