# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One example of each workload that the library and the roles render at run time."""

from __future__ import annotations

import json
import subprocess
import tempfile
import typing as t
from pathlib import Path

import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.hosts.deployment import agents
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.outputs import cluster_objects
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.provisioning import Request
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons import telemetry
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons.spec import (
    Logging,
    read_addons,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment import manifests
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.groups import group
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.nodes import judge_all
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.system import (
    read_system,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.labels import (
    METER_LABEL,
    SUPPORTED_LABEL,
)

Json = dict[str, t.Any]

IMAGE = "registry.example/example:1.0"
KINDS = ("DaemonSet", "Deployment", "Job")
_PLAYBOOK = Path(__file__).resolve().parent / "templates.yml"
_REPOSITORY = {"repository": "registry.example/example", "tag": "1.0"}
_KEPLER: dict[str, Json] = {
    "kepler": {"security": {"mode": "tls"}},
    "old-kepler": {
        "version": "0.9.0",
        "estimator": {"enabled": True, "image": IMAGE},
        "model_server": {"enabled": True, "image": IMAGE},
    },
}
_LEVELS = {
    "edge-agents": "restricted",
    # Their images may need root.
    "kud-edge": "baseline",
    "old-kepler-model-server": "baseline",
}
_LOGGING = {
    "enabled": True,
    "agent": "fluent-bit",
    "endpoint": "https://logs.example",
    "image": IMAGE,
    "credential_secret": "logs",
}


def all_manifests() -> list[Json]:
    """The workloads, with the objects beside them."""
    return [
        *_kepler(),
        *_logging(),
        *_templates_of_roles(),
        cluster_objects.installer_files("edge", "bpa-system", "", ""),
        cluster_objects.installer_job(Request(items=()), "edge", "bpa-system", IMAGE),
        agents.deployment("edge", "bpa-system", agents.AgentPods(2, IMAGE, (), "agent")),
    ]


def workloads() -> list[Json]:
    """The objects with a template of pods."""
    return [each for each in all_manifests() if each["kind"] in KINDS]


def pod_security_level(workload: Json) -> str:
    """The level of Pod Security that its pods need; most mount folders of the host."""
    return _LEVELS.get(workload["metadata"]["name"], "privileged")


def _kepler() -> t.Iterator[Json]:
    labels = {"kubernetes.io/arch": "amd64", METER_LABEL: "rapl", SUPPORTED_LABEL: "true"}
    info = {"architecture": "amd64", "operatingSystem": "linux", "kernelVersion": "6.12.0"}
    node = {"metadata": {"name": "n", "labels": labels}, "status": {"nodeInfo": info}}
    for name, spec in _KEPLER.items():
        system = read_system("kepler", name, {"image": _REPOSITORY, **spec})
        nodes, _findings = judge_all(system, [node])
        yield from manifests.in_namespace(system, group(system, nodes))


def _logging() -> t.Iterator[Json]:
    addons = read_addons("kepler", "kepler", {"logging": _LOGGING})
    yield from telemetry.fluent_bit(addons, t.cast("Logging", addons.logging))


def _templates_of_roles() -> t.Iterator[Json]:
    """Manifests in templates of roles, which Ansible alone can render."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "manifests.yaml"
        images = dict.fromkeys(("kepler_probe_image", "rmd_image", "rmd_agent_image"), IMAGE)
        given = json.dumps({**images, "rmd_kept": {}, "path": str(path)})
        options = ("--inventory=localhost,", "--connection=local", f"--extra-vars={given}")
        command = ("ansible-playbook", *options, str(_PLAYBOOK))
        subprocess.run(command, check=True, capture_output=True, text=True)
        yield from filter(None, yaml.safe_load_all(path.read_text()))
