# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of `python -m lab`: start the parts of a lab, show, reset and stop them.

A part is a module of this package with a function `services(state, settings)`, which only describes
them, and optionally a function `prepare(state, settings, say)` for work before their start.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import bare_metal, controlplane, faults, inventory, pki, process
from lab.api import Api, ApiError, standalone_kubeconfig
from lab.cluster import create_nodes, delete_nodes, wait_for_nodes
from lab.errors import LabError
from lab.locks import file_lock
from lab.machines import build_machines
from lab.process import Service, free_port
from lab.releases import release_of
from lab.state import LabSettings, LabState

CONTROL_PLANE = "controlplane"
SIMULATORS = ("bmc", "pressure", "predictor", "rmd")
PARTS = (CONTROL_PLANE, *SIMULATORS)
# Only on request: meters of pods, and an AWX.
METERS = ("kepler", "prometheus")
ON_REQUEST = (*METERS, "awx")
ALL_PARTS = (*PARTS, *ON_REQUEST)
LOCK_FILE = "lock"

Say = Callable[[str], None]


@dataclass(frozen=True)
class ServiceStatus:
    """One line of `status`; `pid` is None if the process is gone or not the lab's."""

    service: str
    pid: int | None
    port: int | None
    ready: bool


class _ChosenPorts(dict[str, int]):
    """A service's port by its name, chosen at its first use."""

    def __missing__(self, name: str) -> int:
        port = free_port()
        while port in self.values():
            port = free_port()
        return self.setdefault(name, port)


def up(state: LabState, asked: LabSettings, say: Say) -> None:
    """Start the missing services of `asked.parts`; on failure stop those that this call started."""
    machines = build_machines(asked.nodes, asked.racks, asked.seed)
    bare_metal.choose(machines, asked)  # as the line above, refuses parts that cannot be built
    release_of(asked.kubernetes)
    with _locked(state, say):
        settings = _continued(state, asked) or _afresh(state, asked)
        before = _living(state)
        try:
            _bring_up(state, settings, say)
        except BaseException:
            started = sorted(_living(state) - before)
            process.stop(state, started, process.DISCARD_TIMEOUT_SECONDS)
            raise
        said = "is up already" if before and before == _living(state) else "is up"
        say(f"the lab {said}: export KUBECONFIG={state.kubeconfig}")


def down(state: LabState, say: Say) -> None:
    """Stop every process and remove the folder; no effect without a lab."""
    if not state.settings_file.exists():
        say(f"there is no lab in {state.root}")
        return
    with _locked(state, say):
        process.stop(state, timeout=process.DISCARD_TIMEOUT_SECONDS)
        if state.kubeconfig.exists() and _uses_existing_cluster(state):
            try:
                with Api(state.kubeconfig) as api:
                    delete_nodes(api, owner=str(state.root))
            except LabError as error:
                say(f"the lab's nodes stay in the existing cluster: {error}")
        shutil.rmtree(state.root)
    say("the lab is down")


def reset(state: LabState, say: Say) -> None:
    """Clear all faults and reset the cluster to its state after `up`."""
    with _locked(state, say):
        settings = state.read_settings()
        if settings.existing_cluster:
            raise LabError(
                "The cluster of LAB_KUBECONFIG is not the lab's own and is not emptied;"
                " delete what you made, or `python -m lab fault clear` for the faults alone."
            )
        if set(settings.parts) - {CONTROL_PLANE}:
            faults.clear(state, settings)
        if "bmc" in settings.parts:
            faults.call(settings, "DELETE", "/power")
        say("emptying the cluster")
        controlplane.empty(state, settings)
        _make_nodes(state, settings, say)
        say("the lab is reset")


def status(state: LabState) -> list[ServiceStatus]:
    """Every service of the lab's parts. Raises LabError without a lab."""
    settings = state.read_settings()
    found = [
        ServiceStatus(
            service=service.name,
            pid=(pid := process.process_id(state, service.name)),
            port=settings.ports.get(service.name),
            ready=pid is not None and service.ready(),
        )
        for part in settings.parts
        for service in _services(part, state, settings)
    ]
    if settings.existing_cluster:
        found.insert(0, ServiceStatus("existing cluster", None, None, _answers(state.kubeconfig)))
    return found


def _locked(state: LabState, say: Say) -> contextlib.AbstractContextManager[object]:
    return file_lock(state.root / LOCK_FILE, say, "another command on this lab")


def _continued(state: LabState, asked: LabSettings) -> LabSettings | None:
    """The settings of the running lab with the requested parts added; None without a lab."""
    if not _living(state):
        return None
    found = state.read_settings()
    if _size(found) != _size(asked):
        raise LabError(
            f"A lab of {_size(found)} runs in {state.root}; take it down first, or choose another"
            " folder with --state."
        )
    parts = tuple(part for part in ALL_PARTS if part in {*found.parts, *asked.parts})
    return dataclasses.replace(found, parts=parts, ports=_ChosenPorts(found.ports))


def _size(settings: LabSettings) -> str:
    """Requested settings that a running lab cannot change, in words."""
    version = f", Kubernetes {settings.kubernetes}" if settings.kubernetes else ""
    count = settings.bare_metal_hosts
    hosts = f", {count} BareMetalHosts" if count else ""
    is_usual = settings.power_time_factor == LabSettings.power_time_factor
    times = "" if is_usual else f", power time factor {settings.power_time_factor:g}"
    racks = f"{settings.nodes} nodes in {settings.racks} racks"
    return f"{racks} (seed {settings.seed}{version}{hosts}{times})"


def _afresh(state: LabState, asked: LabSettings) -> LabSettings:
    """An empty folder with the settings of a lab that is about to start."""
    foreign = [path for path in state.root.iterdir() if path.name != LOCK_FILE]
    if foreign and not state.settings_file.exists():
        raise LabError(
            f"{state.root} holds something other than a lab ({foreign[0].name});"
            " choose an empty folder with --state."
        )
    for path in foreign:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    existing = os.environ.get("LAB_KUBECONFIG")
    settings = dataclasses.replace(asked, ports=_ChosenPorts(), existing_cluster=bool(existing))
    state.write_settings(settings)
    state.create()
    return settings


def _bring_up(state: LabState, settings: LabSettings, say: Say) -> None:
    if not state.ca_certificate.exists():
        authority = pki.create_authority(state.pki)
        shutil.copy(authority.files.certificate, state.ca_certificate)
    if CONTROL_PLANE in settings.parts:
        if not state.kubeconfig.exists():
            _prepare_cluster(state, settings, say)
        if _compose([CONTROL_PLANE], state, settings):
            say("starting the control plane")
            controlplane.start(state, settings)
        _make_nodes(state, settings, say)
    simulators = [part for part in settings.parts if part in (*SIMULATORS, *ON_REQUEST)]
    if simulators:
        for part in simulators:
            if prepare := getattr(importlib.import_module(f"lab.{part}"), "prepare", None):
                prepare(state, settings, say)
        services = _compose(simulators, state, settings)
        say(f"starting {', '.join(simulators)}")
        process.start(services, state)
    inventory.write(state, settings)


def _prepare_cluster(state: LabState, settings: LabSettings, say: Say) -> None:
    if not settings.existing_cluster:
        controlplane.prepare(state, settings, say)
        return
    source = Path(os.environ["LAB_KUBECONFIG"]).expanduser()
    text = standalone_kubeconfig(source)
    state.kubeconfig.touch(mode=0o600)
    state.kubeconfig.write_text(text)
    with Api(state.kubeconfig) as api:
        version = api.request("GET", "/version")["gitVersion"]
        say(f"using the cluster {api.server} of {source} ({version})")


def _make_nodes(state: LabState, settings: LabSettings, say: Say) -> None:
    machines = build_machines(settings.nodes, settings.racks, settings.seed)
    say(f"creating {len(machines)} nodes")
    with Api(state.kubeconfig) as api:
        version = release_of(settings.kubernetes).version
        create_nodes(api, machines, owner=str(state.root), version=version)
        wait_for_nodes(api, [machine.name for machine in machines])
        if settings.bare_metal_hosts:
            say(f"creating {settings.bare_metal_hosts} BareMetalHosts")
            bare_metal.create(api, machines, settings)


def _compose(parts: Sequence[str], state: LabState, settings: LabSettings) -> list[Service]:
    """The parts' services; their ports are then in the settings file."""
    services = [service for part in parts for service in _services(part, state, settings)]
    state.write_settings(settings)
    return services


def _services(part: str, state: LabState, settings: LabSettings) -> Sequence[Service]:
    services: Sequence[Service] = importlib.import_module(f"lab.{part}").services(state, settings)
    return services


def _living(state: LabState) -> set[str]:
    return {name for name, lives in process.running(state).items() if lives}


def _uses_existing_cluster(state: LabState) -> bool:
    try:
        return state.read_settings().existing_cluster
    except LabError:  # a lab with broken settings can still be taken down
        return False


def _answers(kubeconfig: Path) -> bool:
    try:
        with Api(kubeconfig) as api:
            api.request("GET", "/version")
    except ApiError:
        return False
    return True
