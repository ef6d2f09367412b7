# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Facts about a snapshot's nodes for the sources of curves."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ..base.boundary import Finding, InvalidField, guarded, shown, subject_of
from ..base.fields.lenient import member
from ..base.units import parse_quantity

_MAX_CORES = 100_000.0


@dataclass(frozen=True)
class NodeFacts:
    """A node with its capacity in CPUs, and its text labels."""

    name: str
    cpu_capacity: float
    labels: t.Mapping[str, str]


def name_of(given: t.Any, *path: str) -> str:
    """The name of an object, or the text at a path; empty if there is none."""
    name = member(given, *(path or ("metadata", "name")))
    return name if isinstance(name, str) else ""


def facts_of(
    snapshot: t.Mapping[str, t.Any], names: t.Container[str] | None = None
) -> dict[str, NodeFacts]:
    """Facts by name of the nodes with these names, of all nodes if None.

    A node with an unreadable capacity is left out, because its shares are unknown.
    """
    found: dict[str, NodeFacts] = {}
    for node in snapshot.get("nodes") or ():
        name = name_of(node)
        if not name or (names is not None and name not in names):
            continue
        facts = guarded(subject_of(node, "Node"), functools.partial(_facts, name, node))
        if not isinstance(facts, Finding):
            found.setdefault(name, facts)
    return found


def _facts(name: str, node: t.Any) -> NodeFacts:
    labels = member(node, "metadata", "labels")
    given = labels.items() if isinstance(labels, dict) else ()
    texts = {key: value for key, value in given if isinstance(value, str)}
    return NodeFacts(name, cpu_capacity_of(node), texts)


def cpu_capacity_of(node: t.Any) -> float:
    """CPUs of a Node. Raises InvalidField."""
    given = member(node, "status", "capacity", "cpu")
    capacity = float(parse_quantity(given, "status.capacity.cpu"))
    if not 0 < capacity <= _MAX_CORES:
        raise InvalidField("status.capacity.cpu", f"{shown(given)} is not a number of CPUs")
    return capacity
