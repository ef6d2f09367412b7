# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m lab demo`: bring a lab up, run the main job on it, and say what it saved."""

from __future__ import annotations

from collections.abc import Callable

from lab import lifecycle
from lab.comparison import Comparison, compare
from lab.state import LabSettings, LabState

Say = Callable[[str], None]

# About half of the cores are asked for, as in clusters at work. With much fewer, whoever takes one
# pod after the other still finds room on the best machines, and no strategy stands out.
PODS_PER_NODE = 10


def demo(state: LabState, asked: LabSettings, say: Say) -> Comparison:
    """The whole demo; the lab is left running. Raises LabError."""
    lifecycle.up(state, asked, say)
    return compare(state, asked.nodes * PODS_PER_NODE, asked.seed, say)


def ending(result: Comparison) -> str:
    """The summary of the report, and how to go on."""
    return "\n".join([*result.lines, "the lab goes on until: python -m lab down"])
