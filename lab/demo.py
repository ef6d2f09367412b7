# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m lab demo`: bring a lab up, run the main job on it, and say what it saved."""

from __future__ import annotations

from collections.abc import Callable

from lab import lifecycle
from lab.comparison import Comparison, compare
from lab.inventory import CLUSTER
from lab.state import LabSettings, LabState

Say = Callable[[str], None]

PODS_PER_NODE = 6


def demo(state: LabState, asked: LabSettings, say: Say) -> Comparison:
    """The whole demo; the lab is left running. Raises LabError."""
    lifecycle.up(state, asked, say)
    return compare(state, asked.nodes * PODS_PER_NODE, asked.seed, say)


def summary(result: Comparison, state: LabState) -> str:
    """The ten lines that a person reads in the end."""
    rows = [
        ("without any pod", result.idle_watts, ""),
        ("default scheduler", result.default_watts, _added(result, result.default_watts)),
        ("wattwise", result.wattwise_watts, _added(result, result.wattwise_watts)),
        ("saved", result.saved_watts, f"{result.saved_percent_of_added:.1f} % of what pods add"),
        (
            "predicted for wattwise",
            result.predicted_watts,
            f"off by {result.fleet_error_percent:+.1f} % in all, "
            f"{result.node_error_percent:.1f} % a node",
        ),
    ]
    return "\n".join(
        [
            f"{result.pods} pods on {result.nodes} nodes, watts of the fleet as BMCs read them:",
            *(f"  {name:<24}{watts:8,.0f} W   {note}".rstrip() for name, watts, note in rows),
            f"  hottest inlet           {result.hottest_celsius:8.1f} °C  {result.hottest_node}",
            f"  a second run changed    {result.changed_again:8d} tasks",
            f"documents: {state.root}/runs/{CLUSTER}",
            "the lab goes on until: python -m lab down",
        ]
    )


def _added(result: Comparison, watts: float) -> str:
    return f"the pods add {watts - result.idle_watts:,.0f} W"
