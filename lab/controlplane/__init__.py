# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kubernetes control plane on loopback, with KWOK as the nodes' kubelets."""

from __future__ import annotations

import shutil

from lab import process
from lab.controlplane import components
from lab.controlplane.credentials import write_credentials
from lab.controlplane.programs import find_programs
from lab.errors import LabError
from lab.gotools import Say
from lab.process import Service
from lab.state import LabSettings, LabState

__all__ = ["empty", "prepare", "restart_apiserver", "services", "start"]


def prepare(state: LabState, settings: LabSettings, say: Say) -> None:
    """Find or build the programs, and write certificates and kubeconfigs."""
    links = components.program_folder(state)
    links.mkdir(exist_ok=True)
    for name, path in find_programs(say, settings.kubernetes).items():
        (links / name).unlink(missing_ok=True)
        (links / name).symlink_to(path)
    components.write_kwok_configuration(state)
    write_credentials(state, settings.ports["kube-apiserver"])


def services(state: LabState, settings: LabSettings) -> list[Service]:
    """The services that `prepare` prepared; none if the lab uses an existing cluster."""
    if settings.existing_cluster:
        return []
    return [
        components.etcd(state, settings),
        components.kube_apiserver(state, settings),
        components.kube_controller_manager(state, settings),
        components.kube_scheduler(state, settings),
        components.kwok(state, settings),
    ]


def start(state: LabState, settings: LabSettings) -> None:
    """Start the missing services, and wait until pods can be created.

    The API server comes first: a refused client would retry only seconds later.
    """
    chosen = services(state, settings)
    process.start(chosen[:2], state)
    process.start(chosen[2:], state)


def empty(state: LabState, settings: LabSettings) -> None:
    """Start the control plane again without any of the objects that it held.

    All objects are deleted with etcd's data. Deleting them one by one can be slow or endless,
    because of a finalizer without a controller, a webhook without a server or a broken APIService.
    No Node is left either.
    """
    names = [service.name for service in services(state, settings)]
    process.stop(state, names, process.DISCARD_TIMEOUT_SECONDS)
    shutil.rmtree(components.data_folder(state), ignore_errors=True)
    start(state, settings)


def restart_apiserver(state: LabState) -> None:
    """Restart the API server as an upgrade does, on the same port; wait until it is ready."""
    settings = state.read_settings()
    if settings.existing_cluster:
        raise LabError("The API server is not the lab's own (LAB_KUBECONFIG); restart it yourself.")
    service = components.kube_apiserver(state, settings)
    process.stop(state, [service.name])
    process.start([service], state)
