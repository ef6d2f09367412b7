# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reasons why no node takes a pod, in kube-scheduler's words."""

from __future__ import annotations

import typing as t


def availability_message(reasons: t.Mapping[str, int], nodes: int) -> str:
    """The sentence why none of the nodes takes a pod, in kube-scheduler's words."""
    if nodes == 0:
        return "no nodes available to schedule pods"
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{nodes} nodes are available: {listed}."
