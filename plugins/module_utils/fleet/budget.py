# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Limits of the answers of one target, because a defective machine may send anything."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base import strict_json
from ..base.errors import TargetFailure


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


class Spent:
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
