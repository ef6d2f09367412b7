# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Views of the simulated AWX's objects: one as its API shows it, and those that match a query."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from lab.awx import credentials, notifications
from lab.awx.kinds import KINDS, LINKS, TEMPLATES, Kind
from lab.awx.store import Refusal, Store

Json = dict[str, Any]


def shown(store: Store, endpoint: str, number: int) -> Json:
    """An object as the API shows it, without secrets."""
    kind = KINDS[endpoint]
    item = copy.deepcopy(store.get(endpoint, number))
    url = f"/api/v2/{endpoint}/{number}/"
    summary = {name: _summary(store, item.get(name), kind, name) for name in kind.references}
    related = {name: f"{url}{name}/" for name in kind.associations}
    if endpoint in ("job_templates", "workflow_job_templates"):
        related |= {name: f"{url}{name}/" for name in ("survey_spec", "launch")}
    if item.get("unified_job_template"):
        there = store.endpoint_of(item["unified_job_template"])
        related["unified_job_template"] = f"/api/v2/{there}/{item['unified_job_template']}/"
    if endpoint == "projects":
        related["update"] = f"{url}update/"
    if endpoint == "inventories":
        item["pending_deletion"] = number in store.pending_deletion
    if endpoint == "users":
        item["password"] = credentials.ENCRYPTED
    if endpoint == "workflow_job_template_nodes":
        item |= {link: list(store.associations.get((number, link), [])) for link in LINKS}
    if endpoint == "credentials":
        types = store.get("credential_types", item["credential_type"])
        item["inputs"] = credentials.shown_inputs(types["inputs"], item["inputs"])
    if endpoint == "notification_templates":
        item["notification_configuration"] = notifications.shown(
            item["notification_type"], item["notification_configuration"]
        )
    summary["object_roles"] = {
        f"{role}_role": {"id": store.role_ids[number, role], "name": role.title()}
        for role in kind.roles
    }
    found = {name: value for name, value in summary.items() if value}
    shown = {"id": number, "type": kind.type, "url": url, **item}
    return {**shown, "related": related, "summary_fields": found}


def _summary(store: Store, number: Any, kind: Kind, name: str) -> Json | None:
    if number in (None, ""):
        return None
    target = kind.references[name]
    endpoint = store.endpoint_of(number) if target == "unified_job_templates" else target
    item = store.objects[endpoint][number]
    return {"id": number, "name": item.get("name", ""), "description": item["description"]}


def find(store: Store, endpoint: str, query: Mapping[str, str]) -> list[Json]:
    """Objects that match all terms, and at least one of those that begin with ``or__``."""
    terms = {k: v for k, v in query.items() if k not in ("page", "page_size", "order_by")}
    either = {k[4:]: v for k, v in terms.items() if k.startswith("or__")}
    every = {k: v for k, v in terms.items() if not k.startswith("or__")}
    refuse_empty_lists(terms)
    return [
        shown(store, name, number)
        for name, number in _all(store, endpoint)
        if all(_matches(store, name, number, key, value) for key, value in every.items())
        and (not either or any(_matches(store, name, number, *term) for term in either.items()))
    ]


def _all(store: Store, endpoint: str) -> Iterator[tuple[str, int]]:
    for name in TEMPLATES if endpoint == "unified_job_templates" else (endpoint,):
        yield from ((name, number) for number in store.objects[name])


def _matches(store: Store, endpoint: str, number: int, term: str, wanted: str) -> bool:
    kind, item = KINDS[endpoint], store.objects[endpoint][number]
    name, _, rest = term.partition("__")
    if name == "type":
        return wanted == kind.type
    if name not in {*item, "id"} and name not in kind.fields:
        if endpoint in TEMPLATES and name == "organization":
            return False
        raise Refusal(400, {"detail": f"{kind.type} has no field named '{name}'"})
    if rest and name in kind.references:
        target = kind.references[name]
        return item[name] is not None and _matches(store, target, item[name], rest, wanted)
    value = str(number if name == "id" else item[name])
    if rest == "in":
        return value in wanted.split(",")
    if rest in ("startswith", "endswith"):
        return bool(getattr(value, rest)(wanted))
    return value == wanted


def refuse_empty_lists(query: Mapping[str, str]) -> None:
    if any(term.endswith("__in") and not value for term, value in query.items()):
        raise Refusal(400, {"detail": "cannot provide empty value for __in"})
