# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of the simulated AWX: creation, validation and deletion."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Mapping
from typing import Any

from lab.awx import credentials, notifications, schedules, surveys
from lab.awx.kinds import KINDS, LINKS, PROMPTS, TEMPLATES

Json = dict[str, Any]


# Objects that are deleted with their reference; others keep an empty reference.
_CASCADES = {
    ("inventory_sources", "inventory"),
    ("schedules", "unified_job_template"),
    ("workflow_job_template_nodes", "workflow_job_template"),
}


# AWX's answers to an object without a field, other than the usual one.
_MISSING = {"password": "Password required for new User."}


class Refusal(Exception):
    """An API answer other than success."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(f"{status} {body}")
        self.status = status
        self.body = body


class Store:
    """All objects. ``lacking`` names, by endpoint, fields that an older AWX does not have."""

    def __init__(self, playbooks: frozenset[str], lacking: Mapping[str, frozenset[str]]) -> None:
        self.objects: dict[str, dict[int, Json]] = {name: {} for name in KINDS}
        self.associations: dict[tuple[int, str], list[int]] = {}
        self.surveys: dict[int, Json] = {}
        self.roles: dict[int, dict[str, list[int]]] = {}
        self.role_ids: dict[tuple[int, str], int] = {}
        # Inventories that are deleted in the background, and projects with a finished update.
        self.pending_deletion: set[int] = set()
        self.updated: set[int] = set()
        self.playbooks = playbooks
        self.lacking = lacking
        self.numbers = itertools.count(1)

    def fields(self, endpoint: str) -> Mapping[str, Any]:
        lacking = self.lacking.get(endpoint, frozenset())
        return {k: v for k, v in KINDS[endpoint].fields.items() if k not in lacking}

    def get(self, endpoint: str, number: int) -> Json:
        if number not in self.objects[endpoint]:
            raise Refusal(404, {"detail": "Not found."})
        return self.objects[endpoint][number]

    def endpoint_of(self, number: int) -> str:
        """The endpoint of an object by its id; ids are unique across endpoints."""
        return next(name for name, objects in self.objects.items() if number in objects)

    def create(self, endpoint: str, given: Json) -> int:
        kind = KINDS[endpoint]
        missing = [name for name in kind.required if given.get(name) in (None, "")]
        if missing:
            told = {name: [_MISSING.get(name, "This field is required.")] for name in missing}
            raise Refusal(400, told)
        if endpoint == "credentials" and not any(
            given.get(owner) for owner in ("user", "team", "organization")
        ):
            raise Refusal(400, {"detail": ["Missing 'user', 'team', or 'organization'."]})
        values = {**copy.deepcopy(dict(self.fields(endpoint))), **self._known(endpoint, given)}
        self._check(endpoint, values, None)
        number = next(self.numbers)
        self.objects[endpoint][number] = values
        for role in kind.roles:
            self.role_ids[number, role] = next(self.numbers)
            self.roles[self.role_ids[number, role]] = {"users": [], "teams": []}
        return number

    def update(self, endpoint: str, number: int, given: Json) -> None:
        present = self.get(endpoint, number)
        values = {**present, **self._known(endpoint, given)}
        if endpoint == "credentials":
            kept = present["inputs"]
            values["inputs"] = {
                key: kept.get(key) if value == credentials.ENCRYPTED else value
                for key, value in values["inputs"].items()
            }
        if endpoint == "notification_templates":
            kept = present["notification_configuration"]
            values["notification_configuration"] = {
                key: kept.get(key) if value == credentials.ENCRYPTED else value
                for key, value in values["notification_configuration"].items()
            }
        self._check(endpoint, values, number)
        self.objects[endpoint][number] = values

    def begin_deletion(self, number: int) -> None:
        """Take an inventory from its job templates; its name stays taken until it is deleted."""
        self.get("inventories", number)
        if number in self.pending_deletion:
            raise Refusal(400, {"error": "Inventory is already pending deletion."})
        self.pending_deletion.add(number)
        for template in self.objects["job_templates"].values():
            if template["inventory"] == number:
                template["inventory"] = None

    def delete(self, endpoint: str, number: int) -> None:
        self.get(endpoint, number)
        if endpoint == "credential_types" and any(
            item["credential_type"] == number for item in self.objects["credentials"].values()
        ):
            detail = "Credential types that are in use cannot be deleted."
            raise Refusal(403, {"detail": detail})
        if endpoint == "workflow_job_template_nodes":
            self.drop_approval(number)
        del self.objects[endpoint][number]
        for ids in self.associations.values():
            if number in ids:
                ids.remove(number)
        for other, kind in KINDS.items():
            for name in kind.references:
                for each, item in list(self.objects[other].items()):
                    if item.get(name) == number and (other, name) in _CASCADES:
                        del self.objects[other][each]
                    elif item.get(name) == number:
                        item[name] = None

    def drop_approval(self, node: int) -> int | None:
        """Delete the approval template of a node, as AWX does when the node gets another one."""
        template = self.get("workflow_job_template_nodes", node)["unified_job_template"]
        if self.objects["workflow_approval_templates"].pop(template, None) is None:
            return None
        return int(template)

    def organization_of(self, endpoint: str, values: Json) -> int | None:
        """The organization whose administrators may change the object; None for a global one."""
        for name in ("organization", "inventory", "workflow_job_template", "unified_job_template"):
            number = values.get(name)
            if name == "organization" and number:
                return int(number)
            if name in KINDS[endpoint].references and number:
                there = self.endpoint_of(int(number))
                return self.organization_of(there, self.objects[there][int(number)])
        return None

    def refuse_link(self, name: str, parent: int, child: int) -> None:
        """Refuse a link that AWX refuses: in two ways to one node, or in a circle."""
        others = [link for link in LINKS if link != name]
        if any(child in self.associations.get((parent, link), []) for link in others):
            raise Refusal(400, {"Error": "Relationship not allowed."})
        reached, waiting = {child}, [child]
        while waiting:
            node = waiting.pop()
            for link in LINKS:
                new = set(self.associations.get((node, link), [])) - reached
                reached |= new
                waiting += new
        if parent in reached:
            raise Refusal(400, {"Error": "Cycle detected."})

    def _known(self, endpoint: str, given: Json) -> Json:
        """The fields that this AWX has; it ignores others."""
        return {key: value for key, value in given.items() if key in self.fields(endpoint)}

    def _check(self, endpoint: str, values: Json, number: int | None) -> None:
        kind = KINDS[endpoint]
        for name, target in kind.references.items():
            wanted = values.get(name)
            if wanted not in (None, "") and not self._exists(target, int(wanted)):
                raise Refusal(400, {name: [f'Invalid pk "{wanted}" - object does not exist.']})
        same = [
            other
            for other, item in self.objects[endpoint].items()
            if other != number and all(item.get(n) == values.get(n) for n in kind.unique)
        ]
        if kind.unique and same:
            names = [each.replace("_", " ").capitalize() for each in (kind.type, *kind.unique)]
            told = f"{names[0]} with this {' and '.join(names[1:])} already exists."
            raise Refusal(400, {"__all__": [told]})
        for checked in _CHECKS.get(endpoint, ()):
            checked(self, values)

    def _exists(self, endpoint: str, number: int) -> bool:
        endpoints = TEMPLATES if endpoint == "unified_job_templates" else (endpoint,)
        return any(number in self.objects[each] for each in endpoints)


def _check_type(_store: Store, values: Json) -> None:
    if problem := credentials.problem_of_type(values["inputs"], values["injectors"]):
        raise Refusal(400, {"injectors": [problem]})


def _check_credential(store: Store, values: Json) -> None:
    inputs = store.get("credential_types", values["credential_type"])["inputs"]
    if problem := credentials.problem_of_inputs(inputs, values["inputs"]):
        raise Refusal(400, problem)


def _check_template(store: Store, values: Json) -> None:
    project = store.objects["projects"].get(values["project"] or 0)
    playbooks = store.playbooks if values["project"] in store.updated else frozenset()
    if project and not project.get("allow_override") and values["playbook"] not in playbooks:
        raise Refusal(400, {"playbook": ["Playbook not found for project."]})


def _check_json(_store: Store, values: Json) -> None:
    try:
        json.loads(values.get("extra_vars") or "{}")
    except ValueError:
        raise Refusal(400, {"extra_vars": ["Must be valid JSON or YAML."]}) from None


def _check_node(store: Store, values: Json) -> None:
    """Variables, tags, limits of a node or schedule must be prompted for by its template."""
    number = values.get("unified_job_template")
    if not number:
        return
    endpoint = store.endpoint_of(number)
    template = store.get(endpoint, number)
    can_prompt = endpoint in ("job_templates", "workflow_job_templates")
    told = f"Field is not {'configured to prompt' if can_prompt else 'allowed'} on launch."
    refused = [
        field
        for ask, field in PROMPTS.items()
        if values.get(field) not in (None, "", template.get(field)) and not template.get(ask)
    ]
    if refused:
        raise Refusal(400, {field: [told] for field in refused})
    if values.get("extra_data"):
        check_answers(store, number, values["extra_data"], of_launch=False)


def _check_recurrence(_store: Store, values: Json) -> None:
    if problems := schedules.problems_of_recurrence(values["rrule"]):
        raise Refusal(400, {"rrule": problems})


def _check_notification(_store: Store, values: Json) -> None:
    kind, given = values["notification_type"], values["notification_configuration"]
    values["notification_configuration"] = notifications.completed(kind, given)
    if problem := notifications.problem_of(
        kind, values["notification_configuration"], values["messages"]
    ):
        raise Refusal(400, problem)


def accepted_answers(
    store: Store, number: int, answers: Json, *, need_all: bool = True
) -> tuple[Json, Json]:
    """Variables that a template accepts, and variables that it ignores.

    Refuses answers outside the limits of the survey.
    """
    template = store.get(store.endpoint_of(number), number)
    spec = store.surveys.get(number, {}) if template.get("survey_enabled") else {}
    problems = surveys.problems_of_answers(spec, answers)
    if not need_all:
        problems = [each for each in problems if not each.endswith("value missing")]
    if problems:
        raise Refusal(400, {"variables_needed_to_start": problems})
    if template.get("ask_variables_on_launch"):
        return answers, {}
    asked = {item["variable"] for item in spec.get("spec", [])}
    return (
        {name: value for name, value in answers.items() if name in asked},
        {name: value for name, value in answers.items() if name not in asked},
    )


def check_answers(store: Store, number: int, answers: Json, *, of_launch: bool = True) -> None:
    """Refuse variables that the template does not prompt for, as workflows and schedules do."""
    _accepted, others = accepted_answers(store, number, answers, need_all=of_launch)
    if others:
        kind = KINDS[store.endpoint_of(number)].type.replace("_", " ").title()
        told = (
            f"Variables {', '.join(sorted(others))} are not allowed on launch. Check the Prompt on "
            f"Launch setting on the {kind} to include Extra Variables."
        )
        raise Refusal(400, {"extra_vars" if of_launch else "extra_data": [told]})


_CHECKS = {
    "credential_types": (_check_type,),
    "credentials": (_check_credential,),
    "notification_templates": (_check_notification,),
    "job_templates": (_check_template, _check_json),
    "workflow_job_templates": (_check_json,),
    "workflow_job_template_nodes": (_check_node,),
    "schedules": (_check_recurrence, _check_node),
}
