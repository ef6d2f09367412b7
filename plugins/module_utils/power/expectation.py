# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""What the power models say that nodes draw right now: to be held against what is measured."""

from __future__ import annotations

import datetime
import typing as t
from decimal import Decimal
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import parse_time
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.instance import (
    MICROCORES_PER_CORE,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.intake import (
    Intake,
    has_node,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.node_reader import (
    Loads,
    Occupancy,
    UsageSource,
    measured_use,
    occupancies,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.peers import Namespaces
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.reading import Object

# Curves are of the temperatures at which they were asked for; a day later these are others.
OLDEST_CURVES = datetime.timedelta(days=1)


def recent_curves(path: str | None, now: datetime.datetime) -> Object:
    """Curves of the last prediction by node; none where there is no usable one of the last day."""
    if path is None or not Path(path).exists():
        return {}
    try:
        document = documents.load(path, "curves")
        if now - parse_time(document["time"]) > OLDEST_CURVES:
            return {}
    except InvalidInput:
        return {}
    return t.cast("Object", document["curves"])


def expected_watts(
    snapshot: Object, curves: Object, source: UsageSource, assumption: float
) -> dict[str, float]:
    """Watts by node, from its curve at the CPU use that the snapshot tells.

    The use comes from where placement takes it. Nodes whose use is not known, or lies outside their
    curve, are left out, and those of which this cannot be read.
    """
    intake = Intake()
    nodes = intake.nodes(snapshot.get("nodes") or [])
    running = [pod for pod in snapshot.get("pods") or [] if has_node(pod)]
    allocatable = {name: node.allocatable for name, node in nodes.items()}
    occupied = occupancies(intake.running(running, allocatable, Namespaces()))
    metrics = snapshot.get("node_metrics") or []
    measured = dict(intake.each(metrics, "NodeMetrics", "node_metrics", measured_use))
    loads = Loads(source, Decimal(str(assumption)), measured)
    expected = {}
    for node, curve in intake.curves(curves).items():
        use = loads.of(node, None, occupied.get(node) or Occupancy())
        if use is not None and curve.covers(use / MICROCORES_PER_CORE):
            expected[node] = curve.watts_at(use / MICROCORES_PER_CORE)
    return expected
