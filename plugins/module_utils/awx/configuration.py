# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The objects of AWX for one inventory, as items of awx.awx's modules, and their credential types.

The lists have the names and forms of the ``infra.aap_configuration`` collection, whose items have
the options of the modules of ``awx.awx``.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..base.argspec import ArgumentSpec
from ..base.errors import InvalidInput
from ..base.json_types import MutableObject, Object
from .naming import Naming, listed, quoted, refuse_bad_names
from .workflow import WorkflowObjects


@dataclass(frozen=True)
class CredentialType:
    """One type: its title, its fields, all of them required, and its injectors in AWX's form.

    An injector sets an environment variable if a module falls back to one, else a role variable.
    Job containers delete injected files with the job.
    """

    title: str
    description: str
    fields: tuple[MutableObject, ...]
    injectors: MutableObject

    def inputs(self) -> MutableObject:
        """The fields in AWX's form."""
        return {
            "fields": [{"type": "string", **field} for field in self.fields],
            "required": [field["id"] for field in self.fields],
        }

    def secret_fields(self) -> frozenset[str]:
        return frozenset(field["id"] for field in self.fields if field.get("secret"))


def _field(name: str, label: str, **more: t.Any) -> MutableObject:
    return {"id": name, "label": label, **more}


def _secret(name: str, label: str, **more: t.Any) -> MutableObject:
    return _field(name, label, secret=True, **more)


_USERNAME = _field("username", "User name")
_PASSWORD = _secret("password", "Password")
_KEY_FIELD = _field(
    "key",
    "Key",
    default="default",
    help_text="default, or <namespace>/<name> to replace the Secret of that name.",
)

# By their names in the `awx` role.
CREDENTIAL_TYPES: dict[str, CredentialType] = {
    "bmc_fleet": CredentialType(
        "BMC fleet",
        "Account on the BMCs whose NodeConfig names no Secret.",
        (_USERNAME, _PASSWORD),
        {
            "env": {
                "WATTWISE_REDFISH_USERNAME": "{{ username }}",
                "WATTWISE_REDFISH_PASSWORD": "{{ password }}",
            }
        },
    ),
    "cluster": CredentialType(
        "cluster",
        "Kubeconfig of a cluster.",
        (_secret("kubeconfig", "Kubeconfig", multiline=True),),
        {
            "file": {"template": "{{ kubeconfig }}"},
            "env": {"K8S_AUTH_KUBECONFIG": "{{ tower.filename }}"},
        },
    ),
    "predictor": CredentialType(
        "predictor",
        "Account on the servers of power models.",
        (_KEY_FIELD, _USERNAME, _PASSWORD),
        {
            "extra_vars": {
                "placement_credentials": {
                    "{{key}}": {"username": "{{ username }}", "password": "{{ password }}"}
                }
            }
        },
    ),
    "rmd_client": CredentialType(
        "RMD client",
        "Client certificate for the daemons of RMD.",
        (
            _field("authority", "CA certificate", multiline=True),
            _field("certificate", "Client certificate", multiline=True),
            _secret("private_key", "Private key", multiline=True, format="ssh_private_key"),
        ),
        {
            "file": {
                "template.authority": "{{ authority }}",
                "template.certificate": "{{ certificate }}",
                "template.private_key": "{{ private_key }}",
            },
            "extra_vars": {
                "rmd_workloads_ca_path": "{{ tower.filename.authority }}",
                "rmd_workloads_client_cert": "{{ tower.filename.certificate }}",
                "rmd_workloads_client_key": "{{ tower.filename.private_key }}",
            },
        },
    ),
    "prometheus": CredentialType(
        "Prometheus",
        "Bearer token for the server with Kepler's metrics.",
        (_secret("token", "Bearer token"),),
        {
            "extra_vars": {
                "observe_credentials": {"prometheus": {"token": "{{ token }}"}},
                "observe_metering_credential": "prometheus",
            }
        },
    ),
}


Configuration = dict[str, list[MutableObject]]

_KEY = re.compile(r"\s*-----BEGIN (?:(?:RSA|DSA|EC|OPENSSH|ENCRYPTED) )?PRIVATE KEY-----\s")

SPEC = ArgumentSpec(
    {
        "organization": {"type": "str", "required": True},
        "name_prefix": {"type": "str", "required": True},
        "execution_environment_image": {"type": "str", "default": ""},
        "project_url": {"type": "str", "required": True},
        "project_branch": {"type": "str", "default": ""},
        "project_credential": {"type": "str", "default": ""},
        "playbook_folder": {"type": "str", "default": "playbooks"},
        "inventory_variables": {"type": "dict", "default": {}},
        "inventory_sources": {"type": "list", "elements": "dict", "default": []},
        "credentials": {"type": "list", "elements": "dict", "default": []},
        "job_templates": {"type": "list", "elements": "dict", "default": []},
        "workflow_nodes": {"type": "list", "elements": "dict", "default": []},
        "sleep_workflow_nodes": {"type": "list", "elements": "dict", "default": []},
        "approver_users": {"type": "list", "elements": "str", "default": []},
        "approver_teams": {"type": "list", "elements": "str", "default": []},
        "schedules": {"type": "list", "elements": "dict", "default": []},
        "notifications": {"type": "list", "elements": "dict", "default": []},
        "surveys": {"type": "dict", "default": {}},
    }
)


def configure(settings: Object) -> Configuration:
    """The objects for these complete settings.

    Raises InvalidInput for names that AWX's modules would misinterpret, for references to objects
    that the settings lack, and for recurrences that AWX refuses.
    """
    return _Configured(settings).lists()


class _Configured:
    """Builds each list; the names of objects begin with the prefix."""

    def __init__(self, settings: Object) -> None:
        self._of = settings
        self._naming = Naming(settings["organization"], settings["name_prefix"])
        self._workflow = WorkflowObjects(settings, self._naming)

    def lists(self) -> Configuration:
        image = self._of["execution_environment_image"]
        found: Configuration = {
            "aap_organizations": [self._naming.described({"name": self._naming.organization}, "")],
            "controller_execution_environments": [
                self._naming.item(self._naming.prefix, "Runs the playbooks.", image=image)
            ][: 1 if image else 0],
            "controller_credential_types": self._credential_types(),
            "controller_credentials": [self._credential(item) for item in self._of["credentials"]],
            "controller_notifications": [self._notification(i) for i in self._of["notifications"]],
            "controller_projects": [self._project()],
            "controller_inventories": [self._inventory()],
            "controller_inventory_sources": [
                self._inventory_source(item) for item in self._of["inventory_sources"]
            ],
            "controller_templates": [self._template(item) for item in self._of["job_templates"]],
            "controller_workflows": self._workflow.workflows(),
            "controller_schedules": [],
            "controller_roles": self._workflow.roles(),
        }
        runnable = [*found["controller_templates"], *found["controller_workflows"]]
        names = [item["name"] for item in runnable]
        found["controller_schedules"] = [
            self._workflow.schedule(item, names) for item in self._of["schedules"]
        ]
        for kind, items in found.items():
            refuse_bad_names(kind, items)
        return found

    def _credential_types(self) -> list[MutableObject]:
        return [
            self._naming.described(
                {
                    "name": f"{self._naming.prefix} {known.title}",
                    "kind": "cloud",
                    "inputs": known.inputs(),
                    "injectors": known.injectors,
                },
                known.description,
            )
            for known in CREDENTIAL_TYPES.values()
        ]

    def _credential(self, given: MutableObject) -> MutableObject:
        known = CREDENTIAL_TYPES.get(given["type"])
        inputs = dict(given.get("inputs") or {})
        if known is not None:
            wanted = {field["id"] for field in known.fields}
            if inputs.keys() != wanted:
                raise InvalidInput(
                    f"awx_credentials: credential {quoted(given['name'])} has the inputs "
                    f"{listed(inputs)}, but type {given['type']} needs {listed(wanted)}"
                )
            for field in known.fields:
                # AWX shows the beginning of a text that is no key in its answer.
                is_key = field.get("format") == "ssh_private_key"
                if is_key and not _KEY.match(str(inputs[field["id"]])):
                    raise InvalidInput(
                        f"awx_credentials: input {field['id']} of credential "
                        f"{quoted(given['name'])} is no private key in PEM format"
                    )
        kind = f"{self._naming.prefix} {known.title}" if known else given["type"]
        return self._naming.item(given["name"], "", credential_type=kind, inputs=inputs)

    def _notification(self, given: MutableObject) -> MutableObject:
        return self._naming.item(
            given["name"],
            "",
            notification_type=given["type"],
            notification_configuration=given["configuration"],
            messages=given.get("messages") or _MESSAGES,
        )

    def _project(self) -> MutableObject:
        optional = {"scm_branch": "project_branch", "credential": "project_credential"}
        return self._naming.item(
            self._naming.prefix,
            "Playbooks and inventory files.",
            scm_type="git",
            scm_url=self._of["project_url"],
            scm_update_on_launch=False,
            **{name: self._of[setting] for name, setting in optional.items() if self._of[setting]},
        )

    def _inventory(self) -> MutableObject:
        variables = dict(self._of["inventory_variables"])
        text = "Clusters, nodes and machines."
        return self._naming.item(self._naming.prefix, text, kind="", variables=variables)

    def _inventory_source(self, given: MutableObject) -> MutableObject:
        item = {
            "name": given["name"],
            "inventory": self._naming.prefix,
            "organization": self._naming.organization,
            "source": "scm",
            "source_project": self._naming.prefix,
            "source_path": given["path"],
            "overwrite": True,
            "overwrite_vars": True,
            "update_on_launch": bool(given.get("update_on_launch", True)),
        }
        if given.get("credential"):
            item["credential"] = self._known_credential(given["credential"], given["name"])
        self._add_environment(item)
        return self._naming.described(item, "")

    def _add_environment(self, item: MutableObject) -> None:
        if self._of["execution_environment_image"]:
            item["execution_environment"] = self._naming.prefix

    def _known_credential(self, name: str, user: str) -> str:
        known = [item["name"] for item in self._of["credentials"]]
        if name not in known:
            raise InvalidInput(
                f"awx_credentials: {quoted(user)} uses the credential {quoted(name)}, but there "
                f"are {listed(known)}"
            )
        return name

    def _template(self, given: MutableObject) -> MutableObject:
        playbook = given["playbook"]
        every = [item["name"] for item in self._of["credentials"]]
        chosen = given.get("credentials")
        survey = self._of["surveys"].get(playbook) if given.get("survey", True) else None
        item = {
            "name": given.get("name") or self._naming.template(playbook),
            "organization": self._naming.organization,
            "job_type": "run",
            "project": self._naming.prefix,
            "inventory": self._naming.prefix,
            "playbook": f"{self._of['playbook_folder']}/{playbook}.yml".lstrip("/"),
            "credentials": [
                self._known_credential(name, playbook)
                for name in (every if chosen is None else chosen)
            ],
            "extra_vars": dict(given.get("extra_vars") or {}),
            "limit": given.get("limit") or "",
            "ask_limit_on_launch": True,
            "ask_tags_on_launch": True,
            "ask_job_type_on_launch": True,
            "ask_diff_mode_on_launch": True,
            "survey_enabled": survey is not None,
            "survey_spec": survey or {},
            **self._workflow.events_of(playbook),
        }
        self._add_environment(item)
        return self._naming.described(item, f"Runs playbook wattwise.kube.{playbook}.")


# AWX renders them with the job; playbooks publish the summary with set_stats.
_MESSAGES: MutableObject = {
    event: {
        "message": "{{ job_friendly_name }} {{ job.name }} #{{ job.id }}: {{ job.status }}",
        "body": (
            '{"job": {{ job.id }}, "name": {{ job.name | tojson }}, "url": {{ url | tojson }}, '
            '"status": {{ job.status | tojson }}, '
            '"summaries": {{ (job.artifacts | default({})).wattwise_summaries | default({}) | tojson }}}'
        ),
    }
    for event in ("success", "error")
}
