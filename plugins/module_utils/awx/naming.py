# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Names and descriptions of AWX's objects, and the names that AWX or its modules would misread."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ..base.errors import InvalidInput
from ..base.json_types import MutableObject, Object
from ..base.texts import shown_text

_MAX_NAME_LENGTH = 512


@dataclass(frozen=True)
class Naming:
    """The organization of all objects, and the prefix of their names."""

    organization: str
    prefix: str

    def workflow(self, key: str) -> str:
        """Name of a workflow of workflow.WORKFLOWS."""
        return f"{self.prefix} {key.replace('_', ' ')}"

    def template(self, playbook: str) -> str:
        """Name of the job template of a playbook."""
        return f"{self.prefix}.{playbook}"

    def item(self, name: str, text: str, **fields: t.Any) -> MutableObject:
        """An object of the organization, described as ours."""
        return self.described({"name": name, "organization": self.organization, **fields}, text)

    def described(self, item: MutableObject, text: str) -> MutableObject:
        """The item with a description that marks it as ours."""
        return {**item, "description": f"{text} {marker(self.organization)}".strip()}


def marker(organization: str) -> str:
    """The end of the description of every object that the ``awx`` role made for an organization."""
    return f"Managed by wattwise.kube for organization {organization}."


def item_name(item: Object) -> str:
    """The name of an object; nodes of a workflow have an identifier instead."""
    return str(item["name"] if "name" in item else item["identifier"])


def refuse_bad_names(kind: str, items: Sequence[MutableObject]) -> None:
    """Raise InvalidInput for a name that AWX or its modules would misread, or that is there twice."""
    names = [item_name(item) for item in items if "role" not in item]
    names += [
        item_name(node) for item in items for node in item.get("simplified_workflow_nodes", [])
    ]
    for name in names:
        if reason := _reason_against(name):
            raise InvalidInput(f"{kind}: the name {quoted(name)} {reason}; choose another one")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidInput(f"{kind}: the name {quoted(twice[0])} is listed twice")


def _reason_against(name: str) -> str | None:
    """Why AWX or its modules would not find an object with this name."""
    if not name.strip() or name != name.strip() or not name.isprintable():
        return "is empty, begins or ends with a space, or has characters that cannot be printed"
    if len(name) > _MAX_NAME_LENGTH:
        return f"has more than {_MAX_NAME_LENGTH} characters"
    if re.fullmatch(r"[+-]?\d[\d_]*", name):
        return "is a number, which modules of awx.awx interpret as an id"
    if "++" in name or "," in name:
        return "contains '++' or a comma, which AWX interprets as part of a query"
    return None


def quoted(text: t.Any) -> str:
    """A text of the user for a message."""
    return f"'{shown_text(str(text), 80)}'"


def listed(names: t.Iterable[str]) -> str:
    """Names for a message."""
    return ", ".join(sorted(shown_text(name, 80) for name in names)) or "none"
