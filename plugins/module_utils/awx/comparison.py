# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Plan for the objects of an AWX: create, keep, refuse, or remove.

An object is ours if its description ends with the marker of the organization. Nodes are ours with
their workflow.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ..base.json_types import MutableObject, Object
from ..base.texts import shown_text
from .configuration import Configuration
from .naming import item_name, marker
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
                linked = (name for link in LINKS for name in node[link])
                named = [node["identifier"], *linked]
                complete = all((workflow["name"], name) in there for name in named)
                template = node.get("unified_job_template")
                exists = template is None or template_exists(template)
                if not check_mode or (complete and exists):
                    nodes.append({**node, "workflow": workflow["name"]})
        return nodes


def _is_approval(node: Object) -> bool:
    template = node.get("related", {}).get("unified_job_template")
    return template is None or "/workflow_approval_templates/" in template


def name_in(summary: Object, of: str) -> str | None:
    """The name of a related object in ``summary_fields``."""
    return (summary.get(of) or {}).get("name")


# API endpoint of each list, in the order of references.
ENDPOINTS = {
    "aap_organizations": "organizations",
    "controller_execution_environments": "execution_environments",
    "controller_credential_types": "credential_types",
    "controller_credentials": "credentials",
    "controller_notifications": "notification_templates",
    "controller_projects": "projects",
    "controller_inventories": "inventories",
    "controller_inventory_sources": "inventory_sources",
    "controller_templates": "job_templates",
    "controller_workflows": "workflow_job_templates",
    "controller_schedules": "schedules",
}
NODES = "workflow_job_template_nodes"

# Options that are not fields of the object itself in the API.
_NO_FIELDS = frozenset(
    {
        *("credentials", "survey_spec", "simplified_workflow_nodes", "approval_node"),
        *("success_nodes", "failure_nodes", "always_nodes", "lookup_organization"),
        *(f"notification_templates_{event}" for event in ("started", "success", "error")),
        *("notification_templates_approvals", "organization", "inputs"),
    }
)
# Options that refer to objects, by list.
_REFERENCES = {
    "organization": "aap_organizations",
    "execution_environment": "controller_execution_environments",
    "project": "controller_projects",
    "source_project": "controller_projects",
    "inventory": "controller_inventories",
    "credential": "controller_credentials",
    "credentials": "controller_credentials",
    "credential_type": "controller_credential_types",
    "notification_templates_started": "controller_notifications",
    "notification_templates_success": "controller_notifications",
    "notification_templates_error": "controller_notifications",
    "notification_templates_approvals": "controller_notifications",
}
_ENCRYPTED = "$encrypted$"


def queries(wanted: Configuration) -> dict[str, MutableObject]:
    """The query for each endpoint that finds our objects, and foreign ones with such names."""
    [organization] = (item["name"] for item in wanted["aap_organizations"])
    found: dict[str, MutableObject] = {}
    for kind, endpoint in ENDPOINTS.items():
        found[endpoint] = {"or__description__endswith": marker(organization)}
        # AWX answers 400 to an empty list.
        if names := [item["name"] for item in wanted[kind]]:
            found[endpoint]["or__name__in"] = ",".join(names)
    found[NODES] = {"workflow_job_template__description__endswith": marker(organization)}
    return found


def compare(
    wanted: Configuration,
    existing: Mapping[str, Sequence[MutableObject]],
    check_mode: bool = False,
    update_secrets: bool = False,
    adopt: bool = False,
) -> MutableObject:
    """The plan for the ``awx`` role.

    ``apply`` has the items for modules, by list; in check mode only items whose references exist,
    because modules cannot check the others. ``create`` names missing objects, ``foreign`` objects
    of others with our names, ``remove`` has our unwanted objects, by list, and ``unwanted`` their
    names. ``replace`` has nodes that become approvals, ``cut`` nodes with unwanted links, with the
    links that stay. ``deleting`` names wanted inventories that AWX still deletes. ``warnings`` name
    the options that this AWX does not know.
    """
    comparison = _Comparison(wanted, existing, adopt)
    apply, warnings = comparison.to_apply(check_mode, update_secrets)
    return {
        "apply": apply,
        "create": comparison.missing(),
        "cut": comparison.nodes.links_to_cut(),
        "deleting": comparison.deleting(),
        "foreign": [] if adopt else comparison.foreign(),
        "remove": comparison.to_remove(),
        "replace": comparison.nodes.to_replace(),
        "revoke": comparison.to_revoke(),
        "unwanted": comparison.unwanted(),
        "warnings": warnings,
    }


class _Comparison:
    def __init__(
        self, wanted: Configuration, existing: Mapping[str, Sequence[MutableObject]], adopt: bool
    ) -> None:
        self._wanted = wanted
        self._existing = {
            endpoint: [item for item in items if not item.get("pending_deletion")]
            for endpoint, items in existing.items()
        }
        inventories = existing.get("inventories", [])
        self._deleting = [item for item in inventories if item.get("pending_deletion")]
        self._adopt = adopt
        [self._organization] = (item["name"] for item in wanted["aap_organizations"])
        self._marker = marker(self._organization)
        self.nodes = NodeComparison(wanted["controller_workflows"], self._existing.get(NODES, []))

    def _found(self, kind: str, item: Object) -> MutableObject | None:
        """The object that the module would find for this item."""
        for found in self._existing.get(ENDPOINTS[kind], []):
            if found["name"] == item["name"] and self._is_here(kind, found, item):
                return found
        return None

    def _is_here(self, kind: str, found: MutableObject, item: Object) -> bool:
        """Whether it is in our organization, inventory or template, in which names are unique."""
        summary = found.get("summary_fields", {})
        if kind == "controller_inventory_sources":
            return bool(name_in(summary, "inventory") == item["inventory"])
        if kind == "controller_schedules":
            return bool(name_in(summary, "unified_job_template") == item["unified_job_template"])
        # Organizations, types and environments without an organization are global.
        place = name_in(summary, "organization")
        return place is None or place == self._organization

    def deleting(self) -> list[str]:
        """Names of wanted inventories that AWX still deletes."""
        return [
            found["name"]
            for found in self._deleting
            for item in self._wanted["controller_inventories"]
            if found["name"] == item["name"]
            and self._is_here("controller_inventories", found, item)
        ]

    def _is_ours(self, found: Object) -> bool:
        return str(found.get("description") or "").endswith(self._marker)

    def missing(self) -> list[str]:
        """Names of missing objects."""
        return [
            f"{_noun(kind)} {shown_text(item['name'], 80)}"
            for kind in ENDPOINTS
            for item in self._wanted[kind]
            if self._found(kind, item) is None
        ]

    def foreign(self) -> list[str]:
        """Names that foreign objects have; the organization may be foreign."""
        return [
            f"{_noun(kind)} {shown_text(item['name'], 80)}"
            for kind in ENDPOINTS
            for item in self._wanted[kind]
            if kind != "aap_organizations"
            and (found := self._found(kind, item)) is not None
            and not self._is_ours(found)
        ]

    def to_remove(self) -> Configuration:
        """Our unwanted objects; never an organization."""
        found: Configuration = {}
        for kind, endpoint in ENDPOINTS.items():
            if kind == "aap_organizations":
                continue
            found[kind] = [
                _identity(kind, present)
                for present in self._existing.get(endpoint, [])
                if self._is_ours(present)
                and not any(self._found(kind, item) is present for item in self._wanted[kind])
            ]
        found["nodes"] = [
            identity for identity, _present, wanted in self.nodes.each() if wanted is None
        ]
        return found

    def unwanted(self) -> list[str]:
        """Names of our unwanted objects."""
        return [
            f"{_noun(kind)} {shown_text(item_name(item), 80)}"
            for kind, items in self.to_remove().items()
            for item in items
        ]

    def to_apply(self, check_mode: bool, update_secrets: bool) -> tuple[Configuration, list[str]]:
        found: Configuration = {"nodes": self.nodes.to_apply(check_mode, self._template_exists)}
        warnings: set[str] = set()
        for kind, endpoint in ENDPOINTS.items():
            found[kind] = []
            for item in self._wanted[kind]:
                present = self._found(kind, item)
                if check_mode and not self._can_be_checked(item, present):
                    continue
                if present is not None and self._stays(kind, item, present, update_secrets):
                    continue
                unknown = [] if present is None else _unknown_options(item, present)
                warnings.update(
                    f"This AWX has no field {name} for {endpoint}; it is left out."
                    for name in unknown
                )
                found[kind].append({k: v for k, v in item.items() if k not in unknown})
        return found, sorted(warnings)

    def _stays(
        self, kind: str, item: MutableObject, present: MutableObject, update_secrets: bool
    ) -> bool:
        """Whether the item is skipped: foreign organizations, and unchanged secrets."""
        if kind == "aap_organizations":
            return not self._is_ours(present)
        is_notification = kind == "controller_notifications"
        return is_notification and not update_secrets and _same_but_for_secrets(item, present)

    def _can_be_checked(self, item: MutableObject, present: MutableObject | None) -> bool:
        if present is None:
            return False
        template = item.get("unified_job_template")
        return all(self._exists(kind, name) for kind, name in _references(item)) and (
            template is None or self._template_exists(template)
        )

    def _exists(self, kind: str, name: str) -> bool:
        mine = [item for item in self._wanted[kind] if item["name"] == name]
        return not mine or self._found(kind, mine[0]) is not None

    def _template_exists(self, name: str) -> bool:
        return self._exists("controller_templates", name) and self._exists(
            "controller_workflows", name
        )

    def to_revoke(self) -> MutableObject:
        """Direct approvers of our workflows that are no longer named."""
        wanted = next(iter(self._wanted["controller_roles"]), {})
        found = {}
        for actors, key in (("users", "username"), ("teams", "name")):
            holders = [holder[key] for holder in self._existing.get(f"approver_{actors}", [])]
            found[actors] = sorted(set(holders) - set(wanted.get(actors, [])))
        return found


def _references(item: Object) -> list[tuple[str, str]]:
    found = []
    for option, kind in _REFERENCES.items():
        value = item.get(option)
        names = value if isinstance(value, list) else [value] if value else []
        found += [(kind, name) for name in names]
    return found


def _identity(kind: str, found: MutableObject) -> MutableObject:
    """The options with which a module finds the object to remove."""
    summary = found.get("summary_fields", {})
    item: MutableObject = {"name": found["name"]}
    for option in ("inventory", "unified_job_template", "credential_type", "organization"):
        if name_in(summary, option) is not None:
            item[option] = name_in(summary, option)
    return item


def _same_but_for_secrets(item: MutableObject, present: MutableObject) -> bool:
    """Whether only encrypted values, which AWX never shows, could differ."""
    shown = present.get("notification_configuration") or {}
    messages = present.get("messages") or {}
    return (
        all(
            shown.get(key) in (value, _ENCRYPTED)
            for key, value in item["notification_configuration"].items()
        )
        and all(messages.get(event) == told for event, told in item["messages"].items())
        and all(present.get(key) == item[key] for key in ("notification_type", "description"))
    )


def _unknown_options(item: Object, present: Object) -> list[str]:
    """Options for fields that an older AWX lacks and would ignore."""
    return [name for name in item if name not in _NO_FIELDS and name not in present]


def _noun(kind: str) -> str:
    return (
        ENDPOINTS.get(kind, kind).rstrip("s").replace("_", " ").replace("inventorie", "inventory")
    )
