# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""What the power models say that nodes draw right now: to be held against what is measured."""

from __future__ import annotations

import datetime
import functools
import typing as t
from decimal import Decimal
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils import documents
from ansible_collections.wattwise.kube.plugins.module_utils.boundary import Subject, guarded
from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.power.curve import read_curve
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import (
    MICROCORES_PER_CORE,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.node_reader import (
    Loads,
    Occupancy,
    UsageSource,
    measured_use,
    occupancies,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.reading import Object
from ansible_collections.wattwise.kube.plugins.module_utils.units import parse_time

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
    curve, are left out, and so are those whose curve is none.
    """
    running = [pod for pod in snapshot.get("pods") or [] if (pod.get("spec") or {}).get("nodeName")]
    occupied = occupancies(running)
    measured = measured_use(snapshot.get("node_metrics"), "node_metrics")
    loads = Loads(source, Decimal(str(assumption)), measured)

    def watts_of(node: str) -> float | None:
        use = loads.of(node, None, occupied.get(node) or Occupancy())
        curve = read_curve(curves[node], f"curves.{node}")
        if use is None or not curve.covers(use / MICROCORES_PER_CORE):
            return None
        return curve.watts_at(use / MICROCORES_PER_CORE)

    found = {
        node: guarded(Subject("Node", node), functools.partial(watts_of, node)) for node in curves
    }
    return {node: watts for node, watts in found.items() if isinstance(watts, (int, float))}
