# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Cost of unmet preferences in watts, as far as it is independent of other waiting pods.

Source of the rules: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
(weights of 1 to 100) and .../scheduling-eviction/taint-and-toleration/ (PreferNoSchedule). Each
taint that a pod does not tolerate counts as a preference of weight 100.
"""

from __future__ import annotations

import typing as t

from ...base.libraries import numpy
from ...scheduling.feasibility import tolerates
from ...scheduling.model import Node, Shape, Toleration
from ...solving.arrays import Floats
from .instance import Instance
from .preferred_terms import PreferredPodTerm

_FULL_WEIGHT = 100.0


def preferences(
    instance: Instance, shapes: t.Sequence[Shape], preferred: t.Iterable[PreferredPodTerm] = ()
) -> Floats | None:
    """Watts by group and node; None if no preference can be unmet."""
    watts = instance.rules.preference_watts
    if watts <= 0:
        return None
    table = numpy.zeros((len(shapes), len(instance.nodes)))
    known: dict[t.Any, list[float]] = {}
    disliked = any(
        taint.effect == "PreferNoSchedule" for node in instance.nodes for taint in node.taints
    )
    for group, shape in enumerate(shapes):
        key = (shape.preferences, shape.constraints.tolerations if disliked else ())
        if key[0] or disliked:
            if key not in known:
                known[key] = _unmet_of_nodes(shape, instance.nodes)
            table[group] = known[key]
    table *= watts / _FULL_WEIGHT
    for preferred_term in preferred:
        table[preferred_term.holders] += preferred_term.watts * preferred_term.unmet
    return table if table.any() else None


def _unmet_of_nodes(shape: Shape, nodes: t.Sequence[Node]) -> list[float]:
    preferred, tolerations = shape.preferences, shape.constraints.tolerations
    return [
        sum(
            preferred_term.weight
            for preferred_term in preferred
            if not preferred_term.term.admits(node.name, node.labels)
        )
        + _FULL_WEIGHT * _disliked_taints(node, tolerations)
        for node in nodes
    ]


def _disliked_taints(node: Node, tolerations: t.Sequence[Toleration]) -> int:
    return sum(
        taint.effect == "PreferNoSchedule"
        and not any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in node.taints
    )
