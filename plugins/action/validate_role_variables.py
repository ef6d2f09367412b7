# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks the variables of all roles of a play in one task, before the play touches anything."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils.base.errors import WattwiseError
from ..plugin_utils.role_variables import (
    RenderedValue,
    Variable,
    misspelt,
    problems_of,
    variables_of,
)

_OPTIONS = {
    "roles": {"type": "list", "elements": "str", "default": []},
    "tags": {"type": "dict", "default": {}},
    "entry_point": {"type": "str", "default": "main"},
    "group": {"type": "str"},
}
_NO_HOST = (
    "The inventory has no host in group {group} that this run may work on (--limit may leave it "
    "out). {example}; docs/reference/inventory.md has a whole example."
)
_EXAMPLES = {
    "clusters": "Each of its hosts is one cluster. Write into the file that -i names: "
    "{clusters: {hosts: {hall-1: {wattwise_kubeconfig: ~/.kube/config}}}}",
    "nodes": "Each of its hosts is one node, under the name that it has in the cluster. Write "
    "into the file that -i names: {nodes: {hosts: {node-1: {}}}}",
}


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no types
    """Reads only variables of the host, without a connection, a written file or a change."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        validated = ArgumentSpecValidator(_OPTIONS).validate(dict(self._task.args))
        if validated.error_messages:
            return {**result, "failed": True, "msg": "; ".join(validated.error_messages)}
        options = validated.validated_parameters
        group = options["group"]
        if group and group not in variables.get("group_names", []):
            sentence = _NO_HOST.format(group=group, example=_EXAMPLES.get(group, "Add one"))
            return {**result, "failed": True, "msg": sentence}
        try:
            known = variables_of(options["roles"], options["entry_point"])
        except WattwiseError as error:
            return {**result, "failed": True, "msg": str(error)}
        for name, closest in misspelt(variables).items():
            Display().warning(f"No role takes the variable {name}; {closest} may be meant.")
        left_out = {role for role, tags in options["tags"].items() if not _runs(tags, variables)}
        problems = self._problems(known, variables, left_out)
        result.update(changed=False, problems=problems, checked=len(known))
        if problems:
            host = variables.get("inventory_hostname", "this host")
            sentences = "; ".join(problem["problem"] for problem in problems)
            result.update(
                failed=True, msg=f"Nothing was changed: invalid variables of {host}: {sentences}."
            )
        return result

    def _problems(
        self,
        known: t.Mapping[str, Variable],
        variables: t.Mapping[str, t.Any],
        left_out: t.Collection[str],
    ) -> list[dict[str, t.Any]]:
        gateways = bool(variables.get("groups", {}).get("bmc_gateways"))
        return [
            {"variable": name, "roles": list(variable.roles), "problem": sentence}
            for name, variable in known.items()
            for sentence in self._problems_of(variable, variables, gateways, left_out)
        ]

    def _problems_of(
        self,
        variable: Variable,
        variables: t.Mapping[str, t.Any],
        gateways: bool,
        left_out: t.Collection[str],
    ) -> list[str]:
        if variable.name not in variables:
            needing = [role for role in variable.roles if role not in left_out]
            if variable.spec.get("required") and needing:
                return [f"{variable.name} is missing; the {needing[0]} role needs it"]
            if gateways and variable.limits.get("needed_by") == "gateways":
                return [f"{variable.name} is missing; hosts of bmc_gateways get what it names"]
            return []
        raw = variables[variable.name]
        try:
            value = self._templar.template(raw)
        except AnsibleError as error:
            return [f"{variable.name} cannot be rendered: {_reason(error)}"]
        if value == variables.get("omit"):
            return []
        return problems_of(variable, RenderedValue(value, self._source(raw)), gateways)

    def _source(self, raw: t.Any) -> str | None:
        """The inventory's template of a value; None for a literal."""
        if "vault" in type(raw).__name__.lower() or "encrypted" in type(raw).__name__.lower():
            return "a text of the vault"
        if not self._templar.is_template(raw):
            return None
        return raw if isinstance(raw, str) else "a rendered value"


def _runs(tags: t.Iterable[str], variables: t.Mapping[str, t.Any]) -> bool:
    """Whether this run executes tasks with these tags."""
    names = {"all", "tagged", *tags}
    wanted = names.intersection(variables.get("ansible_run_tags", ["all"]))
    return bool(wanted) and names.isdisjoint(variables.get("ansible_skip_tags", []))


def _reason(error: BaseException) -> str:
    """The innermost cause, because Ansible's own sentences around it repeat the variable."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).splitlines()[0] if str(error) else type(error).__name__
