# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Kubernetes label selectors: metav1.LabelSelector, and the text form of kubectl.

An example of the latter: ``hall=2,rack in (a, b),!spare``.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .errors import InvalidInput

Labels = t.Mapping[str, str]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_KEY = r"[A-Za-z0-9](?:[-\w./]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?)?"
_COMPARED = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})", re.ASCII)
_LISTED = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)", re.ASCII)
_PRESENT = re.compile(rf"(!?)\s*({_KEY})", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DIGITS_OF_INT64 = 19
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^()]*\))")


@dataclass(frozen=True)
class Requirement:
    """Requirement for one label, or for one field of a node.

    In and NotIn use ``values``. Only node selectors have Gt and Lt, which compare integers of 64
    bits with the only value.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        if self.operator == "In":
            return value in self.values
        if self.operator == "NotIn":
            return value not in self.values
        if self.operator in ("Exists", "DoesNotExist"):
            return (value is not None) == (self.operator == "Exists")
        if value is None or len(self.values) != 1:
            return False
        found, wanted = _int64(value), _int64(*self.values)
        if found is None or wanted is None:
            return False
        return found > wanted if self.operator == "Gt" else found < wanted


def _int64(text: str) -> int | None:
    """A number as read by Go's ParseInt with 64 bits; None for any other text."""
    digits = text[1:].lstrip("0") if text[:1] in ("+", "-") else text.lstrip("0")
    if len(digits) > _DIGITS_OF_INT64 or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


@dataclass(frozen=True)
class LabelSelector:
    """Conjunction of requirements; an empty one matches everything.

    Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/. NotIn
    matches objects that lack the label.
    """

    requirements: tuple[Requirement, ...]

    def matches(self, labels: Labels) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


def parse_label_selector(given: t.Any) -> LabelSelector:
    """A selector from ``{matchLabels, matchExpressions}``. Raises InvalidInput."""
    if not isinstance(given, dict):
        raise InvalidInput(
            "there is no label selector; write matchLabels or matchExpressions, or {} for all"
        )
    unknown = sorted(given.keys() - {"matchLabels", "matchExpressions"})
    if unknown:
        raise InvalidInput(
            f"{unknown[0]!r} is not part of a label selector; write matchLabels or matchExpressions"
        )
    labels = given.get("matchLabels") or {}
    expressions = given.get("matchExpressions") or []
    if not isinstance(labels, dict) or not isinstance(expressions, list):
        raise InvalidInput("matchLabels must be a mapping and matchExpressions a list")
    return LabelSelector(
        (
            *(
                Requirement(key, "In", _texts([value], f"matchLabels.{key}"))
                for key, value in labels.items()
            ),
            *(
                _requirement(expression, f"matchExpressions[{index}]")
                for index, expression in enumerate(expressions)
            ),
        )
    )


def _requirement(expression: t.Any, where: str) -> Requirement:
    if not isinstance(expression, dict) or not isinstance(expression.get("key"), str):
        raise InvalidInput(f"{where}: the key is missing; name a label")
    operator, values = expression.get("operator"), expression.get("values") or []
    if operator not in _OPERATORS:
        raise InvalidInput(
            f"{where}: the operator is {operator!r}; write one of {', '.join(_OPERATORS)}"
        )
    if not isinstance(values, list) or bool(values) != (operator in ("In", "NotIn")):
        raise InvalidInput(
            f"{where}: In and NotIn need a list of values, Exists and DoesNotExist have none"
        )
    return Requirement(expression["key"], operator, _texts(values, f"{where}.values"))


def _texts(values: list[t.Any], where: str) -> frozenset[str]:
    for value in values:
        if not isinstance(value, str):
            raise InvalidInput(f"{where}: {value!r} is not text; put it between quotation marks")
    return frozenset(values)


def parse_selector_text(text: str, where: str = "selector") -> LabelSelector:
    """Parse a selector; an empty text selects everything. Raises InvalidInput."""
    parts = _COMMA_OUTSIDE_PARENTHESES.split(text) if text.strip() else []
    return LabelSelector(tuple(_text_requirement(part.strip(), where) for part in parts))


def _text_requirement(text: str, where: str) -> Requirement:
    compared = _COMPARED.fullmatch(text)
    if compared is not None:
        key, operator, value = compared.groups()
        return Requirement(key, "NotIn" if operator == "!=" else "In", frozenset({value}))
    listed = _LISTED.fullmatch(text)
    if listed is not None:
        key, operator, values = listed.groups()
        members = frozenset(value.strip() for value in values.split(","))
        if all(re.fullmatch(_VALUE, member, re.ASCII) for member in members):
            return Requirement(key, "In" if operator == "in" else "NotIn", members)
    present = _PRESENT.fullmatch(text)
    if present is not None:
        return Requirement(present.group(2), "DoesNotExist" if present.group(1) else "Exists")
    raise InvalidInput(
        f"{where}: {text!r} is not a requirement of a label selector; write one such as hall=2, "
        "hall!=2, hall in (1, 2), hall or !hall, separated by commas"
    )
