# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Results of several steps of one task as one result."""

from __future__ import annotations

import typing as t

from ...base.context import Context, Parameters, Result
from ...base.errors import WattwiseError
from ..client import Kube
from . import work
from .live import LiveObjects


class Applying:
    """One connection and context for all steps, and their results so far.

    ``result`` has ``changed``, ``diff``, ``results`` and ``pruned`` of all steps, in their order.
    ``assumed`` are objects that check mode takes as present.
    A failed step raises its error with the results of the steps before it.
    """

    def __init__(self, kube: Kube, context: Context, assume: t.Sequence[t.Any]) -> None:
        self.kube = kube
        self.context = context
        self.assumed = list(assume)
        self.result: Result = {"changed": False, "diff": [], "results": [], "pruned": []}

    def apply(self, parameters: Parameters, live: LiveObjects | None = None) -> bool:
        """One call of ``kube_apply``; whether it changed anything."""
        given = {**parameters, "assume": self.assumed}
        try:
            result = work.apply(given, self.context, self.kube, live)
        except WattwiseError as error:
            self.add(error.fields)
            error.fields.update(self.result)
            raise
        self.add(result)
        return bool(result["changed"])

    def add(self, result: Parameters) -> None:
        """Join the result of a step."""
        self.result["changed"] = self.result["changed"] or bool(result.get("changed"))
        for name in ("diff", "results", "pruned"):
            self.result[name] += result.get(name) or []
