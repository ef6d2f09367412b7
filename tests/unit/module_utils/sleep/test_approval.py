# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that wait for an approval are those of the plan that a person sees."""

from __future__ import annotations

import types
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster import approval
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.lifecycle import (
    Intent,
    NodeView,
    Patience,
    next_change,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.planner import Plan

PLAN = Plan({name: Intent("off", "Nobody needs it.") for name in ("free", "hot")})


class Run:
    """The parts of a run that an approval reads: one of two machines has old readings."""

    own = ("free", "hot")
    obstacle, proposal = "", None
    inputs = types.SimpleNamespace(approved=None, power_watts={})
    records = types.SimpleNamespace(records={})
    histories = types.SimpleNamespace(saved_watts=lambda _name: 90.0)
    lists = types.SimpleNamespace(
        pods=[], nodes={name: {"metadata": {"uid": f"u-{name}"}} for name in own}
    )

    def views(self, plan: Plan, names: t.Iterable[str]) -> list[NodeView]:
        blocked = {"hot": "Its readings are old, or it has none."}
        return [
            NodeView(name, power="On", blocked=blocked.get(name, ""))
            for name in sorted(plan.intents.keys() & set(names))
        ]

    def changes(self, plan: Plan, names: t.Iterable[str]) -> list[t.Any]:
        found = [
            next_change(view, plan.intents[view.name], Patience(), 0.0, "test")
            for view in self.views(plan, names)
        ]
        return [change for change in found if change is not None]


def test_a_machine_with_an_obstacle_waits_for_no_approval() -> None:
    run: t.Any = Run()
    plan = approval.only_approved(run, PLAN)
    assert plan.off == []
    assert run.proposal.names == {"free"}
    assert plan.stay == {
        "free": ("approval", "It waits for an approval. Nobody needs it."),
        "hot": ("obstacle", "Its readings are old, or it has none."),
    }
