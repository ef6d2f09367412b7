# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus' promtool, with which tests check metrics, rules and dashboards. No lab starts it."""

from __future__ import annotations

from pathlib import Path

from lab.gotools import GoTools, Say, build

PROMTOOL = GoTools(
    name="promtool",
    module=Path(__file__).resolve().parent,
    programs={"promtool": "github.com/prometheus/prometheus/cmd/promtool"},
    duration="2 minutes",
    # Without the clients of all clouds, in which nothing is discovered here.
    build_tags=("remove_all_sd",),
)


def find_promtool(say: Say) -> Path:
    """The pinned promtool, built first where the cache has none. Raises LabError."""
    return build(PROMTOOL, say) / "promtool"
