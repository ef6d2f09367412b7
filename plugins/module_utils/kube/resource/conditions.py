# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Conditions in the statuses of a KeplerSystem, of KeplerAddons and of a Provisioning."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.errors import told_text
from ...base.fields.lenient import objects

Condition = dict[str, t.Any]


@dataclass(frozen=True)
class Failure:
    """Why a run ended early, as reason and sentence of a condition."""

    reason: str
    sentence: str


def reconciled(failure: Failure | None, remarks: t.Sequence[str] = ()) -> Condition:
    """The condition Reconciled, of the last run, with remarks on the spec."""
    if failure is not None:
        return condition("Reconciled", "False", failure.reason, failure.sentence)
    text = " ".join(["The last run applied the whole spec.", *(f"Note: {one}." for one in remarks)])
    return condition("Reconciled", "True", "ReconcileSuccess", text)


def kept(stored: t.Mapping[str, t.Any], name: str) -> Condition:
    """A condition unchanged, because the run ended before it."""
    for each in objects(stored.get("conditions")):
        parts = [each.get(part) for part in ("status", "reason", "message")]
        if each.get("type") == name and all(isinstance(part, str) for part in parts):
            return condition(name, *t.cast("list[str]", parts))
    return condition(name, "Unknown", "NotYet", "No run has finished yet.")


def condition(name: str, status: str, reason: str, message: str) -> Condition:
    """A condition with a message of limited length."""
    return {"type": name, "status": status, "reason": reason, "message": told_text(message)}
