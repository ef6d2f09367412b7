# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random fleets with running pods, small enough to try every set of moves."""

from __future__ import annotations

import random
import typing as t

from support.random_placements import random_curve

Json = dict[str, t.Any]

OWNER = {"kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
HOST = "kubernetes.io/hostname"


def alone(app: str) -> Json:
    """Affinity of a pod that excludes other pods of the app from its node."""
    term = {"topology_key": HOST, "label_selector": {"match_labels": {"app": app}}}
    return {"pod_anti_affinity": {"required_during_scheduling_ignored_during_execution": [term]}}


def random_moves(seed: int, pods: int = 6, nodes: int = 4, max_moves: int = 4) -> Json:
    """Parameters of power_placement with at most this many pods, nodes and moves."""
    source = random.Random(seed)
    given = [_node(source, f"node-{index}") for index in range(source.randint(2, nodes))]
    if source.random() < 0.2:
        given[0]["unschedulable"] = True
    homes = _Homes(source, given)
    for index in range(source.randint(1, pods)):
        homes.add(_pod(source, f"pod-{index}"))
    waiting = {"name": "new", "requests": {"cpu": "300m", "memory": "100Mi"}}
    return {
        "nodes": given,
        "pods": [waiting] if source.random() < 0.3 else [],
        "running": homes.running,
        "pod_disruption_budgets": [
            {
                "metadata": {"name": app, "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": app}}},
                "status": {"disruptionsAllowed": source.randint(0, 4)},
            }
            for app in ("db", "web")
            if source.random() < 0.3
        ],
        "allow_power_off": source.random() < 0.9,
        "standby_watts": source.choice([0.0, 10.0]),
        "rebalance": True,
        "min_gain_watts": source.choice([0.5, 5.0, 12.0]),
        "max_moves": source.randint(1, max_moves),
    }


def _node(source: random.Random, name: str) -> Json:
    cores = source.choice([2, 4, 8])
    return {
        "name": name,
        "labels": {HOST: name, "disk": source.choice(["ssd", "hdd"])},
        "allocatable": {
            "cpu": str(cores),
            "memory": f"{source.choice([2, 4, 8])}Gi",
            "pods": str(source.randint(2, 6)),
        },
        "curve": random_curve(source, cores) if source.random() < 0.3 else _curve(source, cores),
    }


def _curve(source: random.Random, cores: int) -> Json:
    """Curve of a server that draws most of its watts whenever it is awake."""
    idle, per_core = source.uniform(30, 120), source.uniform(4, 14)
    bend = source.choice([0.8, 1.0, 1.3])
    cpu = [cores * step / 4 for step in range(5)]
    watts = [round(idle + per_core * cores * (x / cores) ** bend, 1) for x in cpu]
    return {"cpu": cpu, "watts": watts}


def _pod(source: random.Random, name: str) -> Json:
    app = source.choice(["web", "web", "db"])
    pod: Json = {
        "name": name,
        "labels": {"app": app},
        "requests": {
            "cpu": f"{source.choice([250, 500, 500, 1000, 1500])}m",
            "memory": f"{source.choice([256, 512, 1024])}Mi",
        },
        "scheduler_name": "wattwise",
        "owner_references": [OWNER] if source.random() < 0.9 else [],
    }
    if source.random() < 0.15:
        pod["node_selector"] = {"disk": source.choice(["ssd", "hdd"])}
    if app == "db" and source.random() < 0.5:
        pod["affinity"] = alone("db")
    return pod


class _Homes:
    """Nodes with their running pods; pods without room are left out."""

    def __init__(self, source: random.Random, nodes: list[Json]) -> None:
        self._source = source
        self._nodes = nodes
        self.running: list[Json] = []

    def add(self, pod: Json) -> None:
        nodes = [node for node in self._nodes if self._has_room(node, pod)]
        if nodes:
            self.running.append({**pod, "node_name": self._source.choice(nodes)["name"]})

    def _has_room(self, node: Json, pod: Json) -> bool:
        there = [other for other in self.running if other["node_name"] == node["name"]]
        disk = pod["node_selector"]["disk"] if "node_selector" in pod else node["labels"]["disk"]
        apart = pod["labels"]["app"] == "db" and any(
            other["labels"]["app"] == "db" for other in there
        )
        cpu = sum(int(each["requests"]["cpu"][:-1]) for each in [*there, pod])
        memory = sum(int(each["requests"]["memory"][:-2]) for each in [*there, pod])
        allocatable = node["allocatable"]
        return (
            node["labels"]["disk"] == disk
            and not apart
            and cpu <= int(allocatable["cpu"]) * 1000
            and memory <= int(allocatable["memory"][:-2]) * 1024
            and len(there) < int(allocatable["pods"])
        )
