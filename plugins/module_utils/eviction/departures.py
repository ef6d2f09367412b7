# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Evictions without a target: replacements wait for the next plan.

Unlike a move, such an eviction stands alone, so that a refused one leaves the others.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.context import Context, Parameters, Result
from ..base.errors import ApiError
from ..kube.client import Guard, Kube
from ..kube.events import Event, tell_once
from ..kube.lease import LeaseLost, alone
from .evictions import Departure, Evictions, Fate, NotMade, find_planned


@dataclass(frozen=True)
class Departures:
    """The fate of each pod, with the reason of a failure, in the order of the input."""

    fates: t.Sequence[tuple[Fate, str]]

    def as_result(self) -> Result:
        """The fields of an error that ends the work."""
        return {"departures": [fate for fate, _reason in self.fates]}


def evict_pods(
    kube: Kube,
    pods: t.Sequence[Departure],
    options: Parameters,
    context: Context,
    event: Event,
) -> Departures:
    """Evict the pods, while no other run binds or moves pods.

    ``options`` follow ``eviction.SPEC``. Each evicted pod gets the Event with its note. Raises
    ApiError, LeaseHeld and LeaseLost if nothing was begun.
    """
    once = kube.unrepeating()

    def work(guard: Guard | None) -> Departures:
        evictions = Evictions(kube.guarded(guard), once.guarded(guard))

        def evict(one: Departure) -> tuple[Fate, str]:
            try:
                found = find_planned(kube, one, options["scheduler_name"])
                evictions.evict(one, found)
            except NotMade as error:
                return error.fate, str(error)
            except (ApiError, LeaseLost) as error:
                if not evictions.have_begun:
                    raise
                return "refused", str(error)
            try:
                tell_once(kube, context, found, one.note, event)
            except ApiError as error:
                context.warn(f"The Event of pod {one.namespace}/{one.pod} was refused: {error}")
            return "evicted", ""

        return Departures([evict(one) for one in pods])

    return alone(kube, options, context, work)
