# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Which nodes a pod may run on, as kube-scheduler's filters decide it and word it.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/ and the pages below it.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import (
    Constraints,
    Expression,
    Labels,
    Node,
    NodeTerm,
    Quantities,
    Taint,
    Toleration,
)

UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
UNSCHEDULABLE = "node(s) were unschedulable"
NOT_READY = "node(s) were not ready"
NO_CURVE = "node(s) had no power curve"
_REPELLING_EFFECTS = ("NoSchedule", "NoExecute")
_INTEGER = re.compile(r"[+-]?\d+")


def obstacle(constraints: Constraints, node: Node) -> str | None:
    """Why the pod may not run on the node, resources aside; None where it may.

    PreferNoSchedule is a wish and keeps nothing away.
    """
    if node.unschedulable and not _tolerated(UNSCHEDULABLE_TAINT, constraints.tolerations):
        return UNSCHEDULABLE
    if constraints.node_name not in ("", node.name):
        return "node(s) didn't match the requested node name"
    for taint in node.taints:
        if taint.effect in _REPELLING_EFFECTS and not _tolerated(taint, constraints.tolerations):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    if not node.ready:
        return NOT_READY
    if not _selected(constraints, node):
        return "node(s) didn't match Pod's node affinity/selector"
    if node.name in constraints.repelled_by:
        return "node(s) didn't satisfy existing pods anti-affinity rules"
    return None


def shortages(requests: t.Iterable[tuple[str, int]], free: Quantities) -> list[str]:
    """What the node has too little of; a request of nothing always fits."""
    missing = [name for name, amount in requests if amount > 0 and amount > free.get(name, 0)]
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in missing]


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration lets a pod pass the taint."""
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    # An empty key stands for all keys only together with Exists.
    return toleration.key == taint.key and toleration.value == taint.value


def matches(expression: Expression, labels: Labels) -> bool:
    """Whether the labels meet the demand. Gt and Lt compare whole numbers."""
    value = labels.get(expression.key)
    operator, values = expression.operator, expression.values
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if value is None or len(values) != 1:
        return False
    if not (_INTEGER.fullmatch(value) and _INTEGER.fullmatch(values[0])):
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])


def _tolerated(taint: Taint, tolerations: t.Iterable[Toleration]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def _selected(constraints: Constraints, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in constraints.node_selector):
        return False
    terms = constraints.node_terms
    return terms is None or any(_meets(node, term) for term in terms)


def _meets(node: Node, term: NodeTerm) -> bool:
    if not term.labels and not term.fields:
        return False
    fields = {"metadata.name": node.name}
    return all(matches(expression, node.labels) for expression in term.labels) and all(
        matches(expression, fields) for expression in term.fields
    )
