# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Events that a run writes about its resource and about other objects.

An Event is optional, so a refusal is a warning and never an error.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.context import Context
from ...base.errors import ApiError
from ...base.fields.lenient import member, objects
from ...base.json_types import Object
from ..client import Kube
from ..events import Event, tell_again

# An object, and a sentence about it.
Note = tuple[Object, str]

_MAX_NAMED = 3
# A power failure must not cause a thousand Events; the Event of the resource has the number.
_MAX_EVENTS = 20


@dataclass(frozen=True)
class Reporter:
    """Writes Events in the name of one component; ``action`` is what it does."""

    kube: Kube
    context: Context
    component: str
    action: str = "Reconciling"

    def tell(self, obj: Object, reason: str, note: str, is_bad: bool = True) -> None:
        """Write or update the Event of an object with this reason."""
        try:
            self._write(obj, reason, note, is_bad)
        except ApiError as error:
            self.context.warn(f"The Event {reason} of {_title(obj)} could not be written: {error}")

    def tell_each(self, resource: Object, reason: str, notes: t.Sequence[Note]) -> None:
        """Warnings about each object, up to a limit, and one about the resource with the first."""
        if not notes:
            return
        self.tell(resource, reason, shortened([f"{_key(obj)}: {note}" for obj, note in notes]))
        refusals = []
        for obj, note in notes[:_MAX_EVENTS]:
            try:
                if member(obj, "metadata", "uid"):
                    self._write(obj, reason, note, is_bad=True)
            except ApiError as error:
                # The namespace of one object may be terminating; the others get their Events.
                refusals.append(f"{_title(obj)}: {error}")
        if refusals:
            self.context.warn(
                f"{len(refusals)} Events {reason} could not be written; the first is that of "
                f"{refusals[0]}"
            )

    def tell_transitions(self, resource: Object, conditions: t.Iterable[Object]) -> None:
        """Events about conditions that failed, or failed otherwise, or recovered."""
        before = {
            one.get("type"): (one.get("status"), one.get("reason"))
            for one in objects(member(resource, "status", "conditions"))
        }
        for one in conditions:
            was = before.get(one["type"], (None, None))
            if one["status"] == "False" and was != ("False", one["reason"]):
                self.tell(resource, one["reason"], one["message"])
            elif one["status"] == "True" and was[0] == "False":
                self.tell(resource, one["reason"], one["message"], is_bad=False)

    def _write(self, obj: Object, reason: str, note: str, is_bad: bool) -> None:
        kind = "Warning" if is_bad else "Normal"
        event = Event(kind, reason, self.action, self.component)
        tell_again(self.kube, self.context, dict(obj), note, event)


def shortened(notes: t.Sequence[str]) -> str:
    """The first sentences, and the number of the others."""
    more = len(notes) - _MAX_NAMED
    return f"{'; '.join(notes[:_MAX_NAMED])}{f' (and {more} more)' if more > 0 else ''}"


def _title(obj: Object) -> str:
    return f"{obj['kind']} {_key(obj)}"


def _key(obj: Object) -> str:
    metadata = obj["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
