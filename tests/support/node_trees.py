# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node file systems in the layout of kubelet and container runtimes, and pods that match them."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject

UID = "f906a249-ab9d-4180-9afa-4075e2058ac7"
CONTAINER_ID = "0123456789abcdef" * 4


def pod(
    cpu: str = "2", name: str = "pod-1", runtime: str = "containerd", **changes: t.Any
) -> MutableObject:
    """A Guaranteed pod with one running container, nginx1."""
    resources = {"cpu": cpu, "memory": "1G"}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": changes.pop("uid", UID)},
        "spec": {
            "nodeName": "example-node-1.com",
            "containers": [
                {"name": "nginx1", "resources": {"requests": resources, "limits": resources}}
            ],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "nginx1", "containerID": f"{runtime}://{CONTAINER_ID}"}],
            **changes,
        },
    }


def write_cpus(root: Path, folder: str, cpus: str, file: str = "cpuset.cpus") -> None:
    """A control group's CPU set, with the kernel's line end."""
    path = root / folder
    path.mkdir(parents=True, exist_ok=True)
    (path / file).write_text(f"{cpus}\n")


def write_cpu_manager_state(root: Path, entries: MutableObject, policy: str = "static") -> None:
    """The checkpoint of kubelet's CPU manager."""
    folder = root / "var" / "lib" / "kubelet"
    folder.mkdir(parents=True, exist_ok=True)
    state = {"policyName": policy, "defaultCpuSet": "0", "entries": entries, "checksum": 1}
    (folder / "cpu_manager_state").write_text(json.dumps(state))


def underscored(uid: str = UID) -> str:
    """A UID in the form of the driver systemd."""
    return uid.replace("-", "_")
