# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Ansible inventory of the lab, as a user would write it for such a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from lab import rmd
from lab.awx.api import LAB_TOKEN
from lab.bmc import certificates
from lab.machines import Machine, build_machines
from lab.predictor import infer_url
from lab.rmd import certificates as rmd_certificates
from lab.state import LabSettings, LabState

JsonObject = dict[str, Any]

CLUSTER = "lab"
NAMESPACE = "wao-system"
_TYPE_LABEL = 'index .Labels "node.kubernetes.io/instance-type"'


class _Unsafe(str):
    """A text that Ansible must not template, such as a Go template with braces."""


class _Dumper(yaml.SafeDumper):
    """Dumps such texts with their tag."""

    def ignore_aliases(self, data: object) -> bool:
        return True


_Dumper.add_representer(
    _Unsafe, lambda dumper, text: dumper.represent_scalar("!unsafe", str(text), style='"')
)


def write(state: LabState, settings: LabSettings) -> None:
    """Write the inventory of the lab's cluster, readable only by its owner (it has passwords)."""
    machines = build_machines(settings.nodes, settings.racks, settings.seed)
    state.inventory.touch(mode=0o600)
    state.inventory.write_text(
        "# Inventory as a user would write it for this cluster; made by `python -m lab up`.\n"
        + as_yaml(inventory(state, settings, machines))
    )


def as_yaml(document: JsonObject) -> str:
    """An inventory as text, with tags on texts that Ansible must not template."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=200)


def inventory(state: LabState, settings: LabSettings, machines: Sequence[Machine]) -> JsonObject:
    """The inventory as data: one cluster, with the endpoints of the parts that run."""
    variables: JsonObject = {
        "wattwise_kubeconfig": str(state.kubeconfig),
        "wattwise_run_dir": str(state.root / "runs"),
    }
    if {"bmc", "pressure", "predictor"} <= settings.ports.keys():
        racks = {machine.rack: machine for machine in machines}
        variables |= {
            "node_configs_namespace": NAMESPACE,
            "node_configs_secrets": _secrets(racks.values()),
            "node_configs_templates": [
                _template(rack, settings, asks_machine=number == 0)
                for number, rack in enumerate(racks)
            ],
            "observe_ca_path": str(state.ca_certificate),
            # The next run must see faults and loads of the lab, however soon it is.
            "observe_refresh": True,
            # The simulated BMCs do not average; real ones need the default.
            "report_settle_seconds": 1,
            # Output of the `trust` playbook for machines whose certificates no authority signed.
            "node_configs_tls_fingerprints": {
                machine.name: certificates.fingerprint(certificates.folder(state), machine)
                for machine in machines
                if machine.certificate == "self-signed"
            },
        }
    if "rmd" in settings.ports:
        files = rmd_certificates.folder(state)
        variables |= {
            "rmd_endpoints": rmd.endpoints(machines, settings),
            "rmd_workloads_ca_path": str(state.ca_certificate),
            "rmd_workloads_client_cert": str(files / f"{rmd_certificates.ADMIN}.pem"),
            "rmd_workloads_client_key": str(files / f"{rmd_certificates.ADMIN}-key.pem"),
        }
    groups: JsonObject = {"clusters": {"hosts": {CLUSTER: variables}}}
    if "awx" in settings.ports:
        host = f"http://127.0.0.1:{settings.ports['awx']}"
        groups["awx"] = {"hosts": {"lab-awx": {"awx_host": host, "awx_oauth_token": LAB_TOKEN}}}
    return groups


def _secrets(machines: Iterable[Machine]) -> list[JsonObject]:
    """Two accounts of the rack of each machine: one that reads, and one that also switches."""
    return [
        {"name": f"{kind}-{machine.rack}", "username": username, "password": _Unsafe(password)}
        for machine in machines
        for kind, username, password in (
            ("bmc", machine.bmc_username, machine.bmc_password),
            ("power", machine.power_username, machine.power_password),
        )
    ]


def _template(rack: str, settings: LabSettings, asks_machine: bool) -> JsonObject:
    """One template per rack; the machines of one rack name their power models themselves."""
    octets = ".".join(f"{{{{ .IPv4.Octet{number} }}}}" for number in (2, 3, 4))
    bmc = {
        "type": "Redfish",
        "endpoint": _Unsafe(f"https://127.{octets}:{settings.ports['bmc']}"),
        "basicAuthSecret": {"name": f"bmc-{rack}"},
    }
    pressure = f"http://127.0.0.1:{settings.ports['pressure']}"
    model = infer_url(settings.ports["predictor"], f"{{{{ {_TYPE_LABEL} }}}}")
    predictor = (
        {"powerConsumptionEndpointProvider": bmc}
        if asks_machine
        else {"powerConsumption": {"type": "V2InferenceProtocol", "endpoint": _Unsafe(model)}}
    )
    spec = {
        "nodeSelector": {"matchLabels": {"topology.kubernetes.io/zone": rack}},
        "template": {
            "metricsCollector": {
                "inletTemp": bmc,
                "deltaP": {"type": "DifferentialPressureAPI", "endpoint": pressure},
            },
            "predictor": predictor,
        },
    }
    annotations = {"wattwise.github.io/power-secret": f"power-{rack}"}
    return {"name": f"rack-{rack}", "annotations": annotations, "spec": spec}
