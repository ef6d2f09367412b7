# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated Kepler: its metrics over HTTP, with joules that follow a known load.

Names and labels are those of Kepler 0.10 and later, or with ``old`` those of 0.9 and older. A pod
gets its share of the node's CPU time; the rest is attributed to no pod. Core and psys are exported
too, because they overlap package.
"""

from __future__ import annotations

import contextlib
import re
import typing as t
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering.kepler import (
    ADDED_ZONES,
)
from support.scripted_api import Asked, Reply, ScriptedApi

Json = dict[str, t.Any]
Clock = t.Callable[[], float]

# Figures that a real Kepler reported for a synthetic /proc and /sys: a package of 50 W and memory
# of 8 W, 40 % busy, 30 of 40 ticks in one container. The pod's are those of its only container.
RECORDED = """\
# HELP kepler_container_cpu_watts Power consumption of cpu at container level in watts
# TYPE kepler_container_cpu_watts gauge
kepler_container_cpu_watts{container_id="c1",container_name="main",node_name="n1",pod_id="u1",\
runtime="containerd",state="running",zone="dram"} 2.41
kepler_container_cpu_watts{container_id="c1",container_name="main",node_name="n1",pod_id="u1",\
runtime="containerd",state="running",zone="package"} 15.04
# HELP kepler_node_cpu_active_watts Active power consumption of cpu in active state in watts
# TYPE kepler_node_cpu_active_watts gauge
kepler_node_cpu_active_watts{node_name="n1",path="/sys/class/powercap/intel-rapl:0",\
zone="package"} 20.053
# HELP kepler_node_cpu_idle_watts Power consumption of cpu in idle state in watts
# TYPE kepler_node_cpu_idle_watts gauge
kepler_node_cpu_idle_watts{node_name="n1",path="/sys/class/powercap/intel-rapl:0",\
zone="package"} 30.08
# HELP kepler_node_cpu_usage_ratio CPU usage ratio of a node (value between 0.0 and 1.0)
# TYPE kepler_node_cpu_usage_ratio gauge
kepler_node_cpu_usage_ratio{node_name="n1"} 0.4
# HELP kepler_node_cpu_watts Power consumption of cpu at node level in watts
# TYPE kepler_node_cpu_watts gauge
kepler_node_cpu_watts{node_name="n1",path="/sys/class/powercap/intel-rapl:0",zone="package"} 50.133
kepler_node_cpu_watts{node_name="n1",path="/sys/class/powercap/intel-rapl:0:0",zone="dram"} 8.02
# HELP kepler_pod_cpu_watts Power consumption of cpu at pod level in watts
# TYPE kepler_pod_cpu_watts gauge
kepler_pod_cpu_watts{node_name="n1",pod_id="u1",pod_name="web-1",pod_namespace="shop",\
state="running",zone="dram"} 2.41
kepler_pod_cpu_watts{node_name="n1",pod_id="u1",pod_name="web-1",pod_namespace="shop",\
state="running",zone="package"} 15.04
# HELP kepler_process_cpu_watts Power consumption of cpu at process level in watts
# TYPE kepler_process_cpu_watts gauge
kepler_process_cpu_watts{comm="sshd",container_id="",exe="/usr/sbin/sshd",node_name="n1",\
pid="700",state="running",type="regular",vm_id="",zone="package"} 5.01
"""


@dataclass(frozen=True)
class Load:
    """A pod and the number of cores that it uses."""

    uid: str
    namespace: str
    name: str
    cores: float


@dataclass(frozen=True)
class MeteredNode:
    """A node of ``cores`` with constant load; the power draw is the total of both sockets."""

    name: str
    loads: tuple[Load, ...]
    cores: float = 10.0
    package: float = 100.0
    dram: float = 10.0
    # Names of the zones that make up package and memory.
    packages: tuple[str, ...] = ("package",)
    drams: tuple[str, ...] = ("dram",)

    def zones(self) -> dict[str, float]:
        """Watts by zone; only package and dram may be added up."""
        return {
            **{name: self.package / len(self.packages) for name in self.packages},
            **{name: self.dram / len(self.drams) for name in self.drams},
            "core": self.package * 0.7,
            "psys": self.package * 1.4,
        }

    def share(self, load: Load) -> float:
        """The pod's share of the node's watts, by CPU time."""
        return load.cores / self.cores

    def text(self, seconds: float = 0.0) -> str:
        lines = ["# TYPE kepler_node_cpu_watts gauge"]
        for zone, watts in self.zones().items():
            # A series for each socket.
            lines += [
                f'kepler_node_cpu_watts{{node_name="{self.name}",path="/{zone}-{socket}",'
                f'zone="{zone}"}} {watts / 2!r}'
                for socket in (0, 1)
            ]
        lines.append("# TYPE kepler_pod_cpu_watts gauge")
        for load in self.loads:
            for zone, watts in self.zones().items():
                for state, factor in (("running", 1.0), ("terminated", 9.0)):
                    lines.append(
                        f'kepler_pod_cpu_watts{{node_name="{self.name}",pod_id="{load.uid}",'
                        f'pod_name="{load.name}",pod_namespace="{load.namespace}",'
                        f'state="{state}",zone="{zone}"}} {watts * self.share(load) * factor!r}'
                    )
        lines.append("# TYPE kepler_node_cpu_joules_total counter")
        lines.append(
            f'kepler_node_cpu_joules_total{{node_name="{self.name}",path="/package-0",'
            f'zone="package"}} {self.package * seconds!r}'
        )
        lines.append("# TYPE kepler_pod_cpu_joules_total counter")
        for load in self.loads:
            for zone, watts in self.zones().items():
                for state, begun in (("running", 2.0), ("terminated", 9e6)):
                    lines.append(
                        f'kepler_pod_cpu_joules_total{{node_name="{self.name}",pod_id="{load.uid}",'
                        f'pod_name="{load.name}",pod_namespace="{load.namespace}",'
                        f'state="{state}",zone="{zone}"}} '
                        f"{begun + watts * self.share(load) * seconds!r}"
                    )
        return "\n".join(lines) + "\n"

    def container_text(self, seconds: float) -> str:
        """Counters of CPU time, for two containers of each pod."""
        return "".join(
            f'kepler_container_cpu_seconds_total{{container_id="{load.uid}{container}",'
            f'container_name="{container}",node_name="{self.name}",pod_id="{load.uid}",'
            f'runtime="containerd",state="running"}} {1.0 + load.cores * part * seconds!r}\n'
            for load in self.loads
            for container, part in (("a", 0.25), ("b", 0.75))
        )

    def old_text(self, seconds: float) -> str:
        lines = []
        for zone, watts in self.zones().items():
            family = f"kepler_node_{zone}_joules_total"
            active = sum(map(self.share, self.loads))
            for mode, part in (("dynamic", active), ("idle", 1 - active)):
                lines.append(
                    f'{family}{{instance="{self.name}",mode="{mode}",package="0",source="rapl"}} '
                    f"{5.0 + watts * part * seconds!r}"
                )
            for load in self.loads:
                # Two containers, and idle energy that is attributed to them too.
                for container, part in (("a", 0.25), ("b", 0.75)):
                    joules = 3.0 + watts * self.share(load) * part * seconds
                    labels = (
                        f'container_id="{load.uid}{container}",container_name="{container}",'
                        f'container_namespace="{load.namespace}",pod_name="{load.name}"'
                    )
                    family = f"kepler_container_{zone}_joules_total"
                    lines.append(f'{family}{{{labels},mode="dynamic"}} {joules!r}')
                    lines.append(f'{family}{{{labels},mode="idle"}} {99 * joules!r}')
        return "\n".join(lines) + "\n"


@contextlib.contextmanager
def exporter(
    node: MeteredNode, clock: Clock = lambda: 0.0, *, old: bool = False
) -> Iterator[ScriptedApi]:
    """A server with the node's metrics at the time of the clock, in seconds."""

    def answer(asked: Asked) -> Reply:
        if asked.path != "/metrics":
            return Reply(b"not found", 404)
        text = node.old_text(clock()) if old else node.text(clock())
        return Reply(text.encode(), headers={"Content-Type": "text/plain; version=0.0.4"})

    with ScriptedApi(answer) as server:
        yield server


def vectors(query: str, nodes: t.Iterable[MeteredNode], covered: float = 7200.0) -> list[Json]:
    """Prometheus' vector for a query of the collection, without old families.

    It has metrics of the last ``covered`` seconds.
    """
    series: list[tuple[Json, float]] = []
    window = re.search(r"\[([0-9]+)s\]", query)
    seconds = min(float(window[1]), covered) if window else covered
    if "kepler_node_cpu_joules_total" in query:
        series.append(({}, covered))
    for node in nodes:
        if "kepler_pod_cpu_joules_total" in query:
            series += [
                (
                    {
                        "node_name": node.name,
                        "pod_id": load.uid,
                        "pod_name": load.name,
                        "pod_namespace": load.namespace,
                    },
                    (node.package + node.dram) * node.share(load) * seconds,
                )
                for load in node.loads
            ]
        if "cpu_seconds" in query:
            series += [
                ({"node_name": node.name, "pod_id": load.uid}, load.cores) for load in node.loads
            ]
        for zone, watts in node.zones().items():
            labels = {"node_name": node.name, "zone": zone}
            if "kepler_node_cpu_watts" in query:
                series.append((labels, watts))
            if "kepler_pod_cpu_watts" in query and re.fullmatch(ADDED_ZONES, zone):
                for load in node.loads:
                    of_pod = {
                        "pod_id": load.uid,
                        "pod_name": load.name,
                        "pod_namespace": load.namespace,
                    }
                    series.append(({**labels, **of_pod}, watts * node.share(load)))
    return [{"metric": labels, "value": [1.7e9, repr(watts)]} for labels, watts in series]


def vector_reply(result: t.Any) -> Reply:
    """Prometheus' answer to an instant query."""
    data = {"resultType": "vector", "result": result}
    return Reply({"status": "success", "data": data})


@contextlib.contextmanager
def prometheus(*nodes: MeteredNode, covered: float = 7200.0) -> Iterator[ScriptedApi]:
    """A server that answers the collection's queries as Prometheus does."""

    def answer(asked: Asked) -> Reply:
        url = urllib.parse.urlsplit(asked.path)
        if url.path != "/api/v1/query":
            return Reply(b"not found", 404)
        [query] = urllib.parse.parse_qs(url.query)["query"]
        return vector_reply(vectors(query, nodes, covered))

    with ScriptedApi(answer) as server:
        yield server


def running(node: MeteredNode) -> list[Json]:
    """The pods of a node, in the API's form; each belongs to a Deployment."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": load.name,
                "namespace": load.namespace,
                "uid": load.uid,
                "labels": {"pod-template-hash": "abc"},
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "name": f"{load.name.rstrip('0123456789-')}-abc",
                        "uid": "r",
                        "controller": True,
                    }
                ],
            },
            "spec": {"nodeName": node.name},
            "status": {"phase": "Running"},
        }
        for load in node.loads
    ]


def cluster(*nodes: MeteredNode) -> Json:
    """A snapshot's nodes and pods."""
    return {
        "nodes": [{"kind": "Node", "metadata": {"name": node.name}} for node in nodes],
        "pods": [pod for node in nodes for pod in running(node)],
    }
