# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The outcome of one step of a daemon's plan."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import TargetFailure
from .client import Refused
from .plan import Step
from .workload import Stored

_WRITING = ("create", "change", "replace", "delete")
# Prefixes of responses: upstream's word for a definite refusal, and another for a request that was
# not tried or not answered, such as during an outage. Pods may be deleted after the first, never
# after the second.
REFUSED_RESPONSE = "Fail: "
FAILED_RESPONSE = "Failed: "


@dataclass
class Outcome:
    """Outcome of one step.

    ``stored`` is the daemon's present workload. ``problem`` is the reason of a failure, ``note``
    the action after it.
    """

    step: Step
    response: str = ""
    note: str = ""
    stored: Stored | None = None
    problem: TargetFailure | None = None
    changed: bool = False

    @property
    def is_open(self) -> bool:
        """Whether its write is still to do."""
        return self.step.action in _WRITING and self.problem is None

    def fail(self, problem: TargetFailure) -> None:
        self.problem = problem
        if problem.reason not in ("refused", "conflict"):
            self.response = FAILED_RESPONSE + problem.detail
        elif isinstance(problem, Refused):
            self.response = REFUSED_RESPONSE + problem.text
        else:
            self.response = REFUSED_RESPONSE + problem.detail

    def succeed(self, stored: Stored | None, status: int) -> None:
        self.changed, self.stored = True, stored
        self.response = f"Success: {status}"
