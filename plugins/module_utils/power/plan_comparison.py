# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Comparison of a plan's power with that of another strategy for the same pods."""

from __future__ import annotations

import typing as t

Document = t.Mapping[str, t.Any]


def is_comparable(entry: Document, plan: Document) -> bool:
    """Whether a strategy placed as many pods as the plan, and as many on nodes with a curve.

    A strategy that places fewer pods, or more on nodes without a power model, draws less.
    """
    unpriced = set(plan.get("unpriced") or [])
    on_unpriced = sum(placement["node"] in unpriced for placement in plan["placements"])
    return (entry["placed"], entry.get("placed_unpriced", 0)) == (
        len(plan["placements"]),
        on_unpriced,
    )
