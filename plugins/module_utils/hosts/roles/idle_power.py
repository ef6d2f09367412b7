# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""How many watts an idle host draws: by its own power curve, or by its processor."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.hosts.host import Host
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.idle_power_table import (
    IDLE_WATTS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curve

_LONGEST_MODEL = 256
_MARKS = re.compile(r"\((?:r|tm)\)|@.*|\b(?:cpu|processor|\d+-core)\b")
_SEPARATORS = re.compile(r"[^a-z0-9+]+")
_VERSION = re.compile(r"_(v\d)$")


def idle_watts(host: Host, curves: t.Mapping[str, Curve]) -> tuple[float, str] | None:
    """Watts of the idle host and their source; None where nobody published any."""
    curve = curves.get(host.name)
    if curve is not None:
        return curve.watts_at(0.0), "by its power curve"
    model, count = host.hardware.processors.model, host.hardware.processors.count
    rows = _ROWS.get(_processor(model)) if model else None
    if not rows:
        return None
    # Servers run with two threads a core, and two servers of one processor differ in its number.
    watts = min(rows, key=lambda row: (abs(2 * row[0] - (count or 0)), row[0]))[1]
    return watts, "by published measurements of its processor"


def _processor(model: str) -> str:
    """A model as firmware writes it, as the table writes it: ``intel_xeon_e5_2670v2``."""
    bare = _MARKS.sub(" ", model[:_LONGEST_MODEL].lower())
    return _VERSION.sub(r"\1", _SEPARATORS.sub("_", bare).strip("_"))


def _by_processor() -> dict[str, list[tuple[int, float]]]:
    rows: dict[str, list[tuple[int, float]]] = {}
    for processor, _chips, cores, watts in IDLE_WATTS:
        rows.setdefault(processor, []).append((cores, watts))
    return rows


_ROWS = _by_processor()
