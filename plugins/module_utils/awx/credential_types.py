# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Credential types of AWX for the secrets that the roles and modules read.

An injector sets an environment variable if a module falls back to one, else a role variable. Job
containers delete injected files with the job.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.json_types import MutableObject


@dataclass(frozen=True)
class CredentialType:
    """One type: its title, its fields, all of them required, and its injectors in AWX's form."""

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
_KEY = _field(
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
        (_KEY, _USERNAME, _PASSWORD),
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
