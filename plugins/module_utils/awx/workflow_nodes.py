# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Differences between a desired workflow's nodes and the nodes that an AWX has."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ..base.json_types import MutableObject, Object
from .workflow import LINKS

NODES_OF = "simplified_workflow_nodes"


class NodeComparison:
    """Compares the nodes of the wanted workflows with all existing nodes of them."""

    def __init__(
        self, workflows: Sequence[MutableObject], existing: Sequence[MutableObject]
    ) -> None:
        self._workflows = workflows
        self._existing = existing

    def each(self) -> t.Iterator[tuple[MutableObject, MutableObject, MutableObject | None]]:
        """Each existing node of our workflow: its identity, itself, and the wanted node."""
        workflows = {item["name"]: item[NODES_OF] for item in self._workflows}
        for present in self._existing:
            workflow = name_in(present["summary_fields"], "workflow_job_template") or ""
            if workflow in workflows:
                named = [
                    node
                    for node in workflows[workflow]
                    if node["identifier"] == present["identifier"]
                ]
                identity = {"identifier": present["identifier"], "workflow": workflow}
                yield identity, present, next(iter(named), None)

    def to_replace(self) -> list[MutableObject]:
        """Nodes with a job template that shall become approvals.

        The module would give the job template the name of the approval.
        """
        return [
            identity
            for identity, present, wanted in self.each()
            if wanted is not None and "approval_node" in wanted and not _is_approval(present)
        ]

    def links_to_cut(self) -> list[MutableObject]:
        """Nodes with unwanted links, with those links that stay.

        AWX refuses two links between the same nodes, and circles, so old links go before new ones.
        """
        names = {present["id"]: present["identifier"] for _node, present, _wanted in self.each()}
        found = []
        for identity, present, wanted in self.each():
            links = {
                link: [names[number] for number in present[link] if number in names]
                for link in LINKS
            }
            kept = {
                link: [name for name in links[link] if wanted and name in wanted[link]]
                for link in LINKS
            }
            if wanted is not None and kept != links:
                found.append({**identity, **kept})
        return found

    def to_apply(
        self, check_mode: bool, template_exists: t.Callable[[str], bool]
    ) -> list[MutableObject]:
        """All nodes, with their workflow; in check mode only those whose references exist."""
        there = {
            (name_in(node["summary_fields"], "workflow_job_template"), node["identifier"])
            for node in self._existing
        }
        nodes: list[MutableObject] = []
        for workflow in self._workflows:
            for node in workflow[NODES_OF]:
                named = [node["identifier"], *_linked(node)]
                complete = all((workflow["name"], name) in there for name in named)
                template = node.get("unified_job_template")
                exists = template is None or template_exists(template)
                if not check_mode or (complete and exists):
                    nodes.append({**node, "workflow": workflow["name"]})
        return nodes


def _is_approval(node: Object) -> bool:
    template = node.get("related", {}).get("unified_job_template")
    return template is None or "/workflow_approval_templates/" in template


def _linked(node: Object) -> list[str]:
    return [*node["success_nodes"], *node["failure_nodes"], *node["always_nodes"]]


def name_in(summary: Object, of: str) -> str | None:
    """The name of a related object in ``summary_fields``."""
    return (summary.get(of) or {}).get("name")
