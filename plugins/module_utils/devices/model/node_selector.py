# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Node selectors (core/v1 NodeSelector) of pods, slices and devices."""

from __future__ import annotations

import typing as t

from ...scheduling.feasibility import matches
from ...scheduling.model import Expression
from .findings import Field
from .model import Node

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def selected(selector: Field, nodes: t.Sequence[Node]) -> frozenset[str]:
    """The names of the nodes that meet one of the selector's terms. Raises InvalidInput."""
    given = selector.value
    terms = given.get("nodeSelectorTerms") if isinstance(given, dict) else None
    if not isinstance(terms, list) or not all(isinstance(term, dict) for term in terms):
        raise selector.error("a node selector is a mapping with a list of nodeSelectorTerms")
    found: set[str] = set()
    for term in selector["nodeSelectorTerms"].items():
        labels = _expressions(term["matchExpressions"])
        fields = _expressions(term["matchFields"])
        # A term without any requirement selects nothing.
        if labels or fields:
            found.update(node.name for node in nodes if _meets(node, labels, fields))
    return frozenset(found)


def _meets(node: Node, labels: t.Sequence[Expression], fields: t.Sequence[Expression]) -> bool:
    names = {"metadata.name": node.name}
    return all(matches(expression, node.labels) for expression in labels) and all(
        matches(expression, names) for expression in fields
    )


def _expressions(listed: Field) -> list[Expression]:
    found: list[Expression] = []
    for item in listed.items():
        if not item.value.get("key"):
            raise item["key"].error("the key is missing; name a label")
        if item.value.get("operator") not in _OPERATORS:
            raise item["operator"].error(f"write one of {', '.join(_OPERATORS)}")
        values = tuple(map(str, item.value.get("values") or ()))
        found.append(Expression(item.value["key"], item.value["operator"], values))
    return found
