# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Node selectors (core/v1 NodeSelector) of pods, slices and devices."""

from __future__ import annotations

import typing as t

from ...scheduling.feasibility import matches
from ...scheduling.model import Expression
from .findings import ApiObject
from .model import Node

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def selected(
    obj: ApiObject, selector: t.Any, where: str, nodes: t.Sequence[Node]
) -> frozenset[str]:
    """The names of the nodes that meet one of the selector's terms. Raises InvalidInput."""
    terms = selector.get("nodeSelectorTerms") if isinstance(selector, dict) else None
    if not isinstance(terms, list) or not all(isinstance(term, dict) for term in terms):
        raise obj.error(where, "a node selector is a mapping with a list of nodeSelectorTerms")
    found: set[str] = set()
    for index, term in enumerate(terms):
        place = f"{where}.nodeSelectorTerms[{index}]"
        labels = _expressions(obj, term.get("matchExpressions"), f"{place}.matchExpressions")
        fields = _expressions(obj, term.get("matchFields"), f"{place}.matchFields")
        # A term without any requirement selects nothing.
        if labels or fields:
            found.update(node.name for node in nodes if _meets(node, labels, fields))
    return frozenset(found)


def _meets(node: Node, labels: t.Sequence[Expression], fields: t.Sequence[Expression]) -> bool:
    names = {"metadata.name": node.name}
    return all(matches(expression, node.labels) for expression in labels) and all(
        matches(expression, names) for expression in fields
    )


def _expressions(obj: ApiObject, value: t.Any, where: str) -> list[Expression]:
    found: list[Expression] = []
    for index, item in enumerate(value or []):
        if not isinstance(item, dict) or not item.get("key"):
            raise obj.error(f"{where}[{index}].key", "the key is missing; name a label")
        if item.get("operator") not in _OPERATORS:
            raise obj.error(f"{where}[{index}].operator", f"write one of {', '.join(_OPERATORS)}")
        values = tuple(map(str, item.get("values") or ()))
        found.append(Expression(item["key"], item["operator"], values))
    return found
