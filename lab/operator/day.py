# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A day of a cluster under the operator: its events, and its required final state.

Each scene causes events and waits for the states that must follow. Some events, such as a failing
machine, are seen only by periodic runs; they overlap with events for which the watcher requests a
run.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lab.errors import LabError
from lab.gotools import Say
from lab.operator.hall import Hall
from lab.operator.installation import RunningInstallation
from lab.operator.latencies import Latencies
from lab.process import wait_until

REPLICAS_PER_NODE = 2
DAEMONS = 3
DEVICES = 2
_READY_SECONDS = 90.0


@dataclass(frozen=True)
class Plan:
    """Nodes and racks that the events of the day concern."""

    late: Sequence[str]
    failing: Sequence[str]
    with_devices: Sequence[str]
    racks: Sequence[str]


@dataclass(frozen=True)
class Expectations:
    """States that must follow an event; each is awaited, and its time recorded by kind."""

    hall: Hall
    latencies: Latencies

    def node(self, pod: str, kind: str = "pod waits → bound") -> None:
        """The pod is bound to a node."""
        what = f"pod {pod} has a node"
        self.latencies.expect(kind, what, lambda: self.hall.node_of(pod) is not None)

    def moved(self, node: str, replicas: int, evicted: int) -> None:
        """All replicas of the Deployment have nodes, and none this one."""

        def has_moved() -> bool:
            nodes = [pod["spec"]["nodeName"] for pod in self.hall.bound_of_deployment()]
            return len(nodes) == replicas and node not in nodes

        what = f"the pods of {node} have other nodes ({evicted} were evicted)"
        self.latencies.expect("node drained → pods on other nodes", what, has_moved)

    def failing(self, node: str, is_failing: bool) -> None:
        """The status names the node as failing, or no longer does."""
        kind = "BMC fails → named in the status" if is_failing else "BMC returns → no longer named"
        what = f"the status {'names' if is_failing else 'no longer names'} {node} as failing"
        self.latencies.expect(kind, what, lambda: (node in self.hall.failing()) == is_failing)

    def workloads(self, node: str, count: int, kind: str, what: str) -> None:
        """The daemon of the node has this number of workloads."""
        self.latencies.expect(
            kind,
            f"the daemon of {node} {what}",
            lambda: self.hall.rmd.workload_counts()[node] == count,
        )

    def unplaced(self, pods: list[str], kind: str, what: str) -> None:
        """The status names these pods as waiting."""
        self.latencies.expect(
            kind,
            what,
            lambda: [one["pod"] for one in self.hall.status().get("unplaced", [])] == pods,
        )

    def reason(self, pod: str) -> None:
        """The pod's condition has the reason why it waits."""

        def is_told() -> bool:
            conditions = self.hall.pods()[pod]["status"].get("conditions", [])
            return any(
                one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions
            )

        what = f"pod {pod} has the reason in its condition"
        self.latencies.expect("pod fits nowhere → reason in the status", what, is_told)


@dataclass(frozen=True)
class Day:
    """A cluster and the events of a day."""

    hall: Hall
    latencies: Latencies
    say: Say
    plan: Plan

    @property
    def expect(self) -> Expectations:
        return Expectations(self.hall, self.latencies)

    def play(self) -> None:
        """All scenes. Raises LabError if a state does not follow its event."""
        for hour, scene in (
            ("06:00", self.pods_arrive),
            ("07:00", self.nodes_are_added),
            ("08:00", self.machines_fail),
            ("10:00", self.templates_are_edited),
            ("11:00", self.machines_return),
            ("12:00", self.devices_are_claimed),
            ("14:00", self.cache_ways_are_asked_for),
            ("16:00", self.a_node_is_drained),
            ("18:00", self.pods_leave),
            ("20:00", self.a_node_is_removed),
            ("22:00", self.the_interval_is_changed),
        ):
            self.say(f"{hour} {str(scene.__doc__).rstrip('.')}")
            scene()

    def pods_arrive(self) -> None:
        """Single pods arrive, then a Deployment."""
        for name in ("one", "two", "three"):
            self.hall.create_pod(name)
            self.expect.node(name)
            self.latencies.settle()
        replicas = REPLICAS_PER_NODE * len(self.hall.nodes())
        self.hall.create_deployment(replicas)
        self.latencies.expect(
            f"{replicas} pods at once → all bound",
            f"{replicas} pods of a Deployment have nodes",
            lambda: len(self.hall.bound_of_deployment()) == replicas,
        )
        self.latencies.settle()

    def nodes_are_added(self) -> None:
        """Nodes are added."""
        for node in self.plan.late:
            self.hall.add_node(node)
            self.latencies.expect(
                "node added → NodeConfig",
                f"{node} has its NodeConfig",
                functools.partial(lambda node: node in self.hall.configs(), node),
            )
            self.latencies.expect(
                "node added → machine read",
                f"the machine of {node} was read",
                functools.partial(self.hall.is_read, node),
            )
            self.latencies.settle()

    def machines_fail(self) -> None:
        """BMCs fail."""
        self.hall.break_machines(list(self.plan.failing))
        for node in self.plan.failing:
            self.expect.failing(node, True)
        self.latencies.settle()

    def templates_are_edited(self) -> None:
        """NodeConfigTemplates are edited, while the BMCs still fail."""
        for rack, interval in zip(self.plan.racks, ("10s", "12s"), strict=False):
            self.hall.edit_template(rack, interval)
            self.latencies.expect(
                "template edited → all its NodeConfigs",
                f"all NodeConfigs of rack {rack} say {interval}",
                functools.partial(
                    lambda rack, interval: self.hall.intervals(rack) == {interval}, rack, interval
                ),
            )
            self.latencies.settle()

        # The runs that this triggers do not read the machines.
        if forgotten := set(self.plan.failing) - self.hall.failing():
            raise LabError(f"The status forgot that these machines fail: {sorted(forgotten)}.")

    def machines_return(self) -> None:
        """BMCs come back, and a pod asks for more than any node has."""
        self.hall.mend_machines()
        for node in self.plan.failing:
            self.expect.failing(node, False)
        self.hall.create_pod("giant", cpu="1000")
        self.expect.unplaced(
            ["giant"],
            "pod fits nowhere → reason in the status",
            "the status says why pod giant waits",
        )
        self.latencies.settle()
        self.hall.delete_pod("giant")
        self.expect.unplaced(
            [], "waiting pod leaves → no longer named", "the status no longer names a pod"
        )
        self.latencies.settle()

    def devices_are_claimed(self) -> None:
        """Pods claim devices, one of which has to wait for another to leave."""
        self.hall.devices.publish(list(self.plan.with_devices))
        names = [f"train-{number}" for number in range(DEVICES + 1)]
        for name in names[:DEVICES]:
            self.hall.devices.create_pod(name)
            self.expect.node(name, "pod with a claim → device and node")
            self.latencies.settle()
        self.hall.devices.create_pod(names[-1])
        self.expect.reason(names[-1])
        self.latencies.settle()
        self.hall.delete_pod(names[0])
        self.expect.node(names[-1], "device is freed → allocated to the next pod")
        self.latencies.settle()

    def cache_ways_are_asked_for(self) -> None:
        """RMD daemons start; pods with cache ways come and go."""
        nodes = self.hall.rmd.install(DAEMONS)
        for node in nodes:
            self.latencies.expect(
                "RMD daemon starts → ways offered",
                f"{node} offers its cache ways",
                functools.partial(lambda node: self.hall.rmd.cache_ways(node) > 0, node),
            )
        self.latencies.settle()
        pods = ("cache-1", "cache-2")
        for number, name in enumerate(pods):
            self.hall.rmd.create_pod(name)
            self.expect.node(name)
            self.latencies.settle()
            its_node = str(self.hall.node_of(name))
            before = self.hall.rmd.workload_counts()[its_node]
            self.hall.rmd.create_workload(name, [str(2 * number), str(2 * number + 1)])
            self.expect.workloads(
                its_node, before + 1, "RmdWorkload → its daemon", f"has the workload of {name}"
            )
            self.latencies.settle()
        left = str(self.hall.node_of(pods[0]))
        before = self.hall.rmd.workload_counts()[left]
        self.hall.delete_pod(pods[0])
        self.expect.workloads(
            left, before - 1, "cache pod leaves → ways are free", "no longer holds it"
        )
        self.latencies.settle()

    def a_node_is_drained(self) -> None:
        """A node is drained."""
        counts = Counter(pod["spec"]["nodeName"] for pod in self.hall.bound_of_deployment())
        [(node, _count)] = counts.most_common(1)
        self._drain(node)
        self.latencies.settle()
        self.hall.cordon(node, closed=False)

    def pods_leave(self) -> None:
        """Half of the Deployment leaves, and so do pods with devices."""
        replicas = len(self.hall.bound_of_deployment()) // 2
        self.hall.scale(replicas)
        self.hall.delete_pod("train-1")
        wait_until(
            lambda: len(self.hall.bound_of_deployment()) == replicas,
            _READY_SECONDS,
            "half of the Deployment to go",
            interval=0.2,
        )
        self.hall.create_pod("six")
        self.expect.node("six")
        self.latencies.settle()

    def a_node_is_removed(self) -> None:
        """A node is drained and removed."""
        node = self.plan.late[0]
        self._drain(node)
        self.latencies.settle()
        self.hall.remove_node(node)
        self.latencies.expect(
            "node removed → NodeConfig gone",
            f"the NodeConfig of {node} is gone",
            lambda: node not in self.hall.configs(),
        )
        self.latencies.settle()

    def the_interval_is_changed(self) -> None:
        """The interval of the PowerFleet is changed."""
        changed = self.hall.change_fleet({"spec": {"interval": "10m"}})
        generation = changed["metadata"]["generation"]
        self.latencies.expect(
            "spec edited → observed",
            "the status is that of the new spec",
            lambda: self.hall.status().get("observedGeneration") == generation,
        )
        self.latencies.settle()

    def _drain(self, node: str) -> None:
        replicas = len(self.hall.bound_of_deployment())
        if evicted := self.hall.drain(node):
            self.expect.moved(node, replicas, evicted)


def wait_for_first_run(hall: Hall) -> None:
    """Return when the fleet is ready and all of its machines were read. Raises LabError."""
    wanted = {"Ready": "True", "Observed": "True", "Placed": "True"}
    wait_until(
        lambda: hall.conditions() == wanted and not hall.failing(),
        _READY_SECONDS,
        "the first run of the PowerFleet to end with all conditions True",
        interval=0.2,
    )


Finding = Iterator[str]


def verify(hall: Hall, running: RunningInstallation, say: Say) -> None:
    """Check each resource against its required state. Raises LabError with all deviations."""
    wrong = []
    for check in CHECKS:
        name = str(check.__doc__).rstrip(".")
        found = list(check(hall, running))
        say(f"  {'wrong' if found else 'right'}: {name}")
        wrong += [f"{name}: {one}" for one in found]
    if wrong:
        raise LabError(f"Resources differ from their required state: {'; '.join(wrong)}.")


def _every_pod_has_a_node(hall: Hall, _running: RunningInstallation) -> Finding:
    """Every pod has a node, which exists and is open."""
    nodes = hall.nodes()
    for name, pod in hall.pods().items():
        node = pod["spec"].get("nodeName")
        if node not in nodes:
            yield f"pod {name} is on {node}"


def _no_node_is_overfull(hall: Hall, _running: RunningInstallation) -> Finding:
    """No node has more pods than it can take."""
    asked: Counter[str] = Counter()
    for pod in hall.pods().values():
        for container in pod["spec"]["containers"]:
            asked[pod["spec"].get("nodeName", "")] += _millicores(
                container["resources"]["requests"]["cpu"]
            )
    for name, node in hall.nodes().items():
        if asked[name] > _millicores(node["status"]["allocatable"]["cpu"]):
            yield f"{name} has pods for {asked[name]} m"


def _millicores(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)


def _each_node_has_its_config(hall: Hall, _running: RunningInstallation) -> Finding:
    """Each node has its NodeConfig, and no other is left."""
    yield from sorted(hall.nodes().keys() ^ hall.configs().keys())


def _each_machine_is_read(hall: Hall, _running: RunningInstallation) -> Finding:
    """Each machine is read, and none is named as failing."""
    yield from sorted(hall.failing())
    yield from sorted(node for node in hall.nodes() if not hall.is_read(node))


def _claims_have_devices(hall: Hall, _running: RunningInstallation) -> Finding:
    """Each claim has a device of its pod's node, and no device has two claims."""
    pods, pools = hall.pods(), Counter[str]()
    for claim, (pool, reserved) in hall.devices.claimed().items():
        pools[pool] += 1
        if [pods.get(name, {}).get("spec", {}).get("nodeName") for name in reserved] != [pool]:
            yield f"{claim} has a device of {pool} for {reserved}"
    yield from (f"{pool} was given {count} times" for pool, count in pools.items() if count > 1)
    claiming = sum("resourceClaims" in pod["spec"] for pod in pods.values())
    if claiming != pools.total():
        yield f"{claiming} pods claim devices, {pools.total()} claims have one"


def _daemons_have_the_workloads(hall: Hall, _running: RunningInstallation) -> Finding:
    """Each RMD daemon has the workloads of its node and no others."""
    wanted: Counter[str] = Counter()
    for workload in hall.rmd.workloads():
        for node in workload["spec"]["nodes"]:
            wanted[node] += 1
            state = workload.get("status", {}).get("workloadStates", {}).get(node, {})
            if not str(state.get("response", "")).startswith("Success"):
                yield f"{workload['metadata']['name']}: {state.get('response', 'no answer')}"
    for node, count in hall.rmd.workload_counts().items():
        if count != wanted[node]:
            yield f"{node} has {count} of {wanted[node]}"


def _the_fleet_is_ready(hall: Hall, _running: RunningInstallation) -> Finding:
    """The PowerFleet is ready, and its status that of its nodes and spec."""
    fleet = hall.fleet()
    status, nodes = fleet["status"], len(hall.nodes())
    yield from (
        f"{one['type']} is {one['status']}: {one['message']}"
        for one in status["conditions"]
        if one["status"] != "True"
    )
    if status["observedGeneration"] != fleet["metadata"]["generation"]:
        yield "the status is that of an older spec"
    told = status["nodes"]
    if (told["selected"], told["read"], told["failing"]) != (nodes, nodes, 0):
        yield f"the status of {nodes} nodes shows {told}"


def _no_run_has_failed(_hall: Hall, running: RunningInstallation) -> Finding:
    """No run has failed, and each was refused nothing."""
    for line in running.operator.log.splitlines():
        if '"level":"error"' in line or "forbidden" in line.lower():
            yield line[:300]
    for line in running.metrics().splitlines():
        if line.startswith("wattwise_power_fleet_last_run_failed{") and not line.endswith(" 0"):
            yield line


Check = Callable[[Hall, RunningInstallation], Finding]
CHECKS: Sequence[Check] = (
    _every_pod_has_a_node,
    _no_node_is_overfull,
    _each_node_has_its_config,
    _each_machine_is_read,
    _claims_have_devices,
    _daemons_have_the_workloads,
    _the_fleet_is_ready,
    _no_run_has_failed,
)
