# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power that power models predict of nodes at present, as metrics beside measured ones."""

from __future__ import annotations

import typing as t

from ..base.metrics import Labels, check_labels, family
from ..scheduling.model import MICROCORES_PER_CORE, Node


def predicted_power(nodes: t.Iterable[Node], labels: Labels) -> str:
    """The metrics of the predicted power by node, from its curve at its present CPU use.

    A node without a curve, without a known use, or with a use beyond the ends of its curve is left
    out, because its model does not cover the present. The metrics are in a separate file from the
    readings, which other steps write at other times. Raises InvalidInput for labels that Prometheus
    does not accept.
    """
    check_labels(labels)
    uses = ((node, node.use_microcores / MICROCORES_PER_CORE) for node in nodes)
    watts = {
        node.name: node.curve.watts_at(use)
        for node, use in uses
        if node.curve is not None and node.curve.covers(use)
    }
    samples = [({"node": name}, watts[name]) for name in sorted(watts)]
    text = "Power that the model of a node predicts at its present CPU use."
    return family("wattwise_predicted_power_watts", text, samples, labels)
