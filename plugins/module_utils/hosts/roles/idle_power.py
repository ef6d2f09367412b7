# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Idle power draw of a host, from its own power curve or its processor."""

from __future__ import annotations

import typing as t

from ...base import documents
from ...published.curves import rows_of
from ...scheduling.curve import Curve, Curves
from ..host import Host


def idle_watts(host: Host, curves: t.Mapping[str, Curve]) -> tuple[float, str] | None:
    """Power draw of the idle host and its source; None without published values."""
    curve = curves.get(host.name)
    if curve is not None:
        return curve.watts_at(0.0), "by its power curve"
    model, count = host.hardware.processors.model, host.hardware.processors.count
    rows = rows_of(model) if model else []
    if not rows:
        return None
    # Servers run two threads per core, and servers with one processor model differ in its count.
    nearest = min(rows, key=lambda row: (abs(2 * row.cores - (count or 0)), row.cores))
    return nearest.watts[0], "by published measurements of its processor"


def read_curves(path: str | None) -> Curves:
    """Power curves of a document, by the name of the host; a host's curve may be defective."""
    if path is None:
        return Curves()
    return Curves.from_document(documents.load(path, "curves")["curves"], "Curve", path)
