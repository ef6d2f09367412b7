# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Kepler of each machine: its metrics over HTTP; `python -m lab.kepler --state DIR`.

    GET /metrics       at the address of the machine's BMC

Names, labels and arithmetic follow Kepler with RAPL after 0.11.4. The joules follow the physics of
the room: package and memory draw fixed shares of the machine's power. Power is divided as Kepler
does: the busy part of the CPU is active, and a pod gets its share of that. If there is a program
`kepler`, a real one also runs for the first machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from aiohttp import web

from lab import kepler_program, process
from lab.bmc.pods import BoundPod, PodLoads, connection, follow
from lab.kepler_program import Host
from lab.machines import SERVER_TYPES, Machine
from lab.physics import Truth
from lab.process import Service
from lab.room import Room
from lab.serving import answers, answers_at, run, simulator_process
from lab.state import LabSettings, LabState

PORT, PROGRAM_PORT = "kepler", "kepler-program"
# Shares of the whole machine's power; fans, disks and power supplies draw the rest.
SHARES: Mapping[str, float] = {"package": 0.6, "dram": 0.1}
SAMPLE_SECONDS = 0.5
FEED_SECONDS = 0.05
# The CPU time of containers is newer than the release 0.11.4.
VERSION = "main"

Labels = Mapping[str, str]
Row = tuple[Labels, float]


@dataclass
class _Energy:
    """Joules since the start, and watts of the last interval."""

    joules: float = 0.0
    watts: float = 0.0

    def add(self, watts: float, seconds: float) -> None:
        self.joules += watts * seconds
        self.watts = watts


@dataclass
class Meter:
    """The counters of one machine; `read_at` is the monotonic time of the last sample."""

    machine: Machine
    read_at: float
    zones: dict[str, _Energy] = field(default_factory=lambda: defaultdict(_Energy))
    active: dict[str, _Energy] = field(default_factory=lambda: defaultdict(_Energy))
    idle: dict[str, _Energy] = field(default_factory=lambda: defaultdict(_Energy))
    pods: dict[BoundPod, dict[str, _Energy]] = field(default_factory=dict)
    cpu_seconds: dict[BoundPod, float] = field(default_factory=lambda: defaultdict(float))
    usage: float = 0.0

    def is_due(self, now: float) -> bool:
        """Whether the last sample is old, for a scrape as for the sampler."""
        return now - self.read_at >= SAMPLE_SECONDS

    def sample(self, now: float, truth: Truth, pods: Sequence[BoundPod]) -> None:
        """Count the energy since the last sample, if a new sample is due."""
        if not self.is_due(now):
            return
        seconds = now - self.read_at
        self.read_at, self.usage = now, truth.cpu_cores / self.machine.cores
        wanted = sum(pod.cores for pod in pods)
        self.pods = {pod: self.pods.get(pod) or defaultdict(_Energy) for pod in pods}
        for zone, share in SHARES.items():
            watts = truth.power_watts * share
            self.zones[zone].add(watts, seconds)
            self.active[zone].add(watts * self.usage, seconds)
            self.idle[zone].add(watts * (1 - self.usage), seconds)
            for pod, energy in self.pods.items():
                part = pod.cores / wanted if wanted else 0.0
                energy[zone].add(watts * self.usage * part, seconds)
        for pod in pods:
            self.cpu_seconds[pod] += truth.cpu_cores * pod.cores / (wanted or 1.0) * seconds

    def text(self) -> str:
        """The exposition of the counters."""
        return "".join([*self._of_node(), *self._of_pods(), *self._facts()])

    def _of_node(self) -> Iterable[str]:
        for name, energies in (("", self.zones), ("active_", self.active), ("idle_", self.idle)):
            rows = [
                ({"zone": zone, "path": f"/sys/class/powercap/intel-rapl:{number}"}, energy)
                for number, (zone, energy) in enumerate(energies.items())
            ]
            yield from self._energy(f"kepler_node_cpu_{name}", rows)
        yield self._measured("kepler_node_cpu_usage_ratio", "gauge", [({}, self.usage)])

    def _of_pods(self) -> Iterable[str]:
        containers: list[tuple[Labels, _Energy]] = []
        pods: list[tuple[Labels, _Energy]] = []
        for pod, energies in self.pods.items():
            for zone, energy in energies.items():
                containers.append(({**_container(pod), "zone": zone}, energy))
                pods.append(({**_pod(pod), "zone": zone}, energy))
        yield from self._energy("kepler_container_cpu_", containers)
        yield from self._energy("kepler_pod_cpu_", pods)
        seconds = [(_container(pod), self.cpu_seconds[pod]) for pod in self.pods]
        yield self._measured("kepler_container_cpu_seconds_total", "counter", seconds)

    def _facts(self) -> Iterable[str]:
        """Facts, which do not name the node."""
        kind = SERVER_TYPES[self.machine.server_type]
        processors = [
            (
                {
                    "processor": str(number),
                    "vendor_id": kind.processor.partition(" ")[0],
                    "model_name": kind.processor,
                    "physical_id": str(number),
                    "core_id": "0",
                },
                1.0,
            )
            for number in range(kind.sockets)
        ]
        yield _family("kepler_node_cpu_info", "gauge", processors)
        build = {
            "arch": kind.architecture,
            "branch": "main",
            "revision": "0",
            "version": VERSION,
            "goversion": "go1.24",
        }
        yield _family("kepler_build_info", "gauge", [(build, 1.0)])

    def _energy(self, prefix: str, rows: Sequence[tuple[Labels, _Energy]]) -> Iterable[str]:
        joules = [(labels, energy.joules) for labels, energy in rows]
        yield self._measured(f"{prefix}joules_total", "counter", joules)
        watts = [(labels, energy.watts) for labels, energy in rows]
        yield self._measured(f"{prefix}watts", "gauge", watts)

    def _measured(self, name: str, kind: str, rows: Sequence[Row]) -> str:
        node = {"node_name": self.machine.name}
        return _family(name, kind, [({**labels, **node}, value) for labels, value in rows])


def _family(name: str, kind: str, rows: Sequence[Row]) -> str:
    lines = [f"# TYPE {name} {kind}"] if rows else []
    for labels, value in rows:
        text = ",".join(f'{label}="{content}"' for label, content in sorted(labels.items()))
        lines.append(f"{name}{{{text}}} {value!r}")
    return "".join(f"{line}\n" for line in lines)


def _container(pod: BoundPod) -> Labels:
    """Pods of the lab have one container."""
    return {
        "container_id": f"main-{pod.uid}",
        "container_name": "main",
        "pod_id": pod.uid,
        "runtime": "containerd",
        "state": "running",
    }


def _pod(pod: BoundPod) -> Labels:
    return {
        "pod_id": pod.uid,
        "pod_name": pod.name,
        "pod_namespace": pod.namespace,
        "state": "running",
    }


def prepare(state: LabState, settings: LabSettings, _say: Callable[[str], None]) -> None:
    """Write the files and the configuration of a real Kepler if one can be started."""
    if kepler_program.find() is not None and process.process_id(state, PORT) is None:
        machine = _first(Room.of(state, settings))
        host = _host(state, machine)
        host.create()
        content = kepler_program.configuration(host, machine.name, settings.ports[PROGRAM_PORT])
        _configuration_file(state).write_text(yaml.safe_dump(content, sort_keys=False))


def services(state: LabState, settings: LabSettings) -> list[Service]:
    """One process for all machines, ready when the first of them answers, and a real Kepler."""
    port = settings.ports[PORT]
    address = _first(Room.of(state, settings)).bmc_address
    simulator = simulator_process(PORT, state, lambda: answers_at(address, port, "/metrics"))
    program = kepler_program.find()
    if program is None:
        return [simulator]
    its_port = settings.ports[PROGRAM_PORT]
    command = (str(program), f"--config.file={_configuration_file(state)}")
    real = Service(PROGRAM_PORT, command, ready=lambda: answers(its_port, "/metrics"))
    return [simulator, real]


def _first(room: Room) -> Machine:
    """The machine for which a real Kepler runs."""
    return next(iter(room.machines.values()))


def _host(state: LabState, machine: Machine) -> Host:
    return Host(state.run / "kepler-host", machine.cores)


def _configuration_file(state: LabState) -> Path:
    return state.run / "kepler.yml"


@contextlib.asynccontextmanager
async def serving(
    state: LabState, settings: LabSettings, pods: Sequence[BoundPod] = ()
) -> AsyncIterator[None]:
    """Serve the metrics of all machines; with a kubeconfig, the pods are the cluster's.

    Raises LabError.
    """
    room = Room.of(state, settings)
    loads = PodLoads(room.load_cores)
    loads.replace(pods)
    async with contextlib.AsyncExitStack() as stack:
        if state.kubeconfig.exists():
            follower = asyncio.create_task(follow(connection(state.kubeconfig), loads))
            stack.push_async_callback(_cancel, follower)
        await stack.enter_async_context(_Keplers(room, loads).serving(settings.ports[PORT]))
        first = _first(room)
        host = _host(state, first)
        if host.proc.exists():
            feeder = asyncio.create_task(_feed(host, room, first.name))
            stack.push_async_callback(_cancel, feeder)
        yield


class _Keplers:
    def __init__(self, room: Room, loads: PodLoads) -> None:
        self._room, self._loads = room, loads
        now = time.monotonic()
        machines = room.machines.values()
        self._meters = {machine.bmc_address: Meter(machine, now) for machine in machines}

    @contextlib.asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[None]:
        application = web.Application()
        application.add_routes([web.get("/metrics", self._metrics)])
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        sampler = asyncio.create_task(self._sample())
        try:
            for address in self._meters:
                await web.TCPSite(runner, address, port).start()
            yield
        finally:
            await _cancel(sampler)
            await runner.cleanup()

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            self._count(self._meters.values())

    def _count(self, meters: Iterable[Meter]) -> None:
        now = time.monotonic()
        by_node: defaultdict[str, list[BoundPod]] = defaultdict(list)
        for pod in self._loads.bound:
            by_node[pod.node].append(pod)
        for meter in meters:
            node = meter.machine.name
            meter.sample(now, self._room.truth(node), by_node[node])

    async def _metrics(self, request: web.Request) -> web.Response:
        # The machines differ only in their addresses.
        transport = request.transport
        address = transport.get_extra_info("sockname")[0] if transport is not None else ""
        meter = self._meters[address]
        # Kepler also rereads a meter whose sample is old. Counting costs a walk of all pods.
        if meter.is_due(time.monotonic()):
            self._count([meter])
        headers = {"Content-Type": "text/plain; version=0.0.4"}
        return web.Response(text=meter.text(), headers=headers)


async def _feed(host: Host, room: Room, node: str) -> None:
    """Update a machine's files by its physics, often enough that Kepler sees no steps."""
    before = time.monotonic()
    while True:
        await asyncio.sleep(FEED_SECONDS)
        now, truth = time.monotonic(), room.truth(node)
        watts = {zone: truth.power_watts * share for zone, share in SHARES.items()}
        host.feed(watts, truth.cpu_cores, now - before)
        before = now


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


if __name__ == "__main__":
    sys.exit(run(serving, "lab.kepler", __doc__))
