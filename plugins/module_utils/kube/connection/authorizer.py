# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Refusals of an API server that has just started and has not read its roles yet.

Such a server answers 403 for some seconds, with the message for a missing permission.
"""

from __future__ import annotations

import time
import typing as t

from ...base.errors import ApiError

# Reading of the roles takes one or two seconds in a cluster with a thousand of them.
STARTING_SECONDS = 4.0
_OF_RESTARTS = frozenset({0, 502, 503, 504})


class Authorizer:
    """The time in which a missing permission may be one that is not read yet. Thread-safe.

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
