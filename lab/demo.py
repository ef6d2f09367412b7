# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m lab demo`: start a lab, run the main job on it, and print the savings."""

from __future__ import annotations

from collections.abc import Callable

from lab import lifecycle
from lab.comparison import Comparison, compare
from lab.state import LabSettings, LabState

Say = Callable[[str], None]

# About half of the cores are requested, as in clusters at work. With far fewer, a greedy placer
# that takes one pod after the other still finds room on the best machines, and no strategy stands
# out.
PODS_PER_NODE = 10


def demo(state: LabState, asked: LabSettings, say: Say) -> Comparison:
    """The whole demo; the lab is left running. Raises LabError."""
    lifecycle.up(state, asked, say)
    return compare(state, asked.nodes * PODS_PER_NODE, asked.seed, say)


def ending(result: Comparison) -> str:
    """The report's summary, and next steps."""
    return "\n".join([*result.lines, "the lab goes on until: python -m lab down"])
