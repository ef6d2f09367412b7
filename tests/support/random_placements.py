# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random parameters for power_placement, small enough for brute force."""

from __future__ import annotations

import random
import typing as t

Json = dict[str, t.Any]

LABELS = {"disk": ["ssd", "hdd"], "generation": ["3", "7", "12"]}
TAINTS = [
    {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
    {"key": "maintenance", "value": "", "effect": "NoExecute"},
    {"key": "old", "value": "yes", "effect": "PreferNoSchedule"},
]
TOLERATIONS = [
    {"operator": "Exists"},
    {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
    {"key": "maintenance", "operator": "Exists"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
]
DEMANDS = [
    {"key": "disk", "operator": "In", "values": ["ssd"]},
    {"key": "disk", "operator": "NotIn", "values": ["ssd"]},
    {"key": "generation", "operator": "Exists"},
    {"key": "generation", "operator": "DoesNotExist"},
    {"key": "generation", "operator": "Gt", "values": ["5"]},
    {"key": "generation", "operator": "Lt", "values": ["5"]},
]


def random_curve(source: random.Random, cores: int) -> Json:
    """A curve that rises on the whole, or any curve; sometimes it ends before the node does."""
    points = source.randint(2, 6)
    reach = cores * source.choice([1, 1, 1, 0.6])
    cpu = sorted({0.0, *(round(source.uniform(0, reach), 2) for _index in range(points)), reach})
    if source.random() < 0.3:
        watts = [round(source.uniform(20, 300), 1) for _point in cpu]
    else:
        bend = source.choice([0.5, 0.8, 1.0, 1.4, 2.0])
        idle, span = source.uniform(20, 120), source.uniform(20, 300)
        watts = [round(idle + span * (x / reach) ** bend, 1) for x in cpu]
    return {"cpu": cpu, "watts": watts}


def random_node(source: random.Random, name: str) -> Json:
    cores = source.choice([2, 4, 8])
    node: Json = {
        "name": name,
        "allocatable": {"cpu": str(cores), "memory": f"{source.choice([2, 4, 16])}Gi"},
        "labels": {key: source.choice(values) for key, values in LABELS.items()},
    }
    if source.random() < 0.5:
        node["allocatable"]["pods"] = str(source.randint(1, 4))
    if source.random() < 0.2:
        node["allocatable"]["example.com/gpu"] = str(source.randint(1, 2))
    if source.random() < 0.85:
        node["curve"] = random_curve(source, cores)
    if source.random() < 0.4:
        node["used"] = {"cpu": f"{source.randint(1, cores * 600)}m", "memory": "1Gi"}
    if source.random() < 0.2:
        node["usage_cores"] = round(source.uniform(0, cores), 3)
    if source.random() < 0.3:
        node["taints"] = source.sample(TAINTS, source.randint(1, 2))
    if source.random() < 0.1:
        node["unschedulable"] = True
    if source.random() < 0.05:
        node["ready"] = False
    if source.random() < 0.2:
        del node["labels"]["generation"]
    return node


def random_pod(source: random.Random, name: str, node_names: list[str], count: int) -> Json:
    pod: Json = {"name": name, "count": count, "requests": {}}
    if source.random() < 0.95:
        pod["requests"]["cpu"] = f"{source.choice([0, 33, 100, 500, 750, 1500, 2600])}m"
    if source.random() < 0.7:
        pod["requests"]["memory"] = f"{source.choice([100, 700, 1500, 3000])}Mi"
    if source.random() < 0.1:
        pod["requests"]["example.com/gpu"] = 1
    if source.random() < 0.3:
        pod["priority"] = source.choice([-5, 10, 10, 1000])
    if source.random() < 0.3:
        pod["tolerations"] = source.sample(TOLERATIONS, source.randint(1, 2))
    if source.random() < 0.15:
        pod["node_selector"] = {"disk": source.choice(LABELS["disk"])}
    if source.random() < 0.05:
        pod["node_name"] = source.choice(node_names)
    if source.random() < 0.15:
        terms = [
            {"match_expressions": source.sample(DEMANDS, source.randint(1, 2))}
            for _index in range(source.randint(1, 2))
        ]
        required = {"node_selector_terms": terms}
        pod["affinity"] = {
            "node_affinity": {"required_during_scheduling_ignored_during_execution": required}
        }
    if source.random() < 0.1:
        pod["owner_references"] = [{"kind": "DaemonSet"}]
    return pod


def random_parameters(seed: int) -> Json:
    """One task of at most four nodes and seven pods."""
    source = random.Random(seed)
    node_names = [f"node-{index}" for index in range(source.randint(1, 4))]
    pods: list[Json] = []
    left = source.randint(1, 7)
    while left:
        count = source.randint(1, left)
        pods.append(random_pod(source, f"pod-{len(pods)}", node_names, count))
        left -= count
    source.shuffle(node_names)
    return {
        "nodes": [random_node(source, name) for name in node_names],
        "pods": pods,
        "allow_power_off": source.random() < 0.3,
        "standby_watts": source.choice([0.0, 0.0, 7.5, 150.0]),
        "unpriced": source.choice(["last_resort", "last_resort", "exclude"]),
        "pod_usage_assumption": source.choice([0.8, 0.8, 1.0, 0.37]),
    }


def random_fleet(seed: int, nodes: int, pods: int, groups: int) -> Json:
    """A realistic task: four types of servers, a number of pod shapes, 60 % requested.

    The curves are as uneven as those of a trained model.
    """
    source = random.Random(seed)
    kinds = [(source.choice([16, 32, 64]), source.uniform(0.5, 1.8)) for _index in range(4)]
    listed: list[Json] = []
    for index in range(nodes):
        cores, bend = source.choice(kinds)
        idle, span = source.uniform(60, 150), cores * source.uniform(2, 5)
        cpu = [cores * step / 20 for step in range(21)]
        watts = [
            round((idle + span * (x / cores) ** bend) * source.uniform(0.99, 1.01), 3) for x in cpu
        ]
        listed.append(
            {
                "name": f"node-{index:03}",
                "allocatable": {"cpu": str(cores), "memory": f"{cores * 4}Gi", "pods": "110"},
                "curve": {"cpu": cpu, "watts": watts},
            }
        )
    free = sum(int(node["allocatable"]["cpu"]) for node in listed) * 1000
    weights = [source.choice([1, 2, 3, 5, 8]) for _index in range(groups)]
    unit = free * 0.6 / (pods * sum(weights) / groups)
    counts = [pods // groups + int(index < pods % groups) for index in range(groups)]
    return {
        "nodes": listed,
        "pods": [
            {
                "name": f"group-{index:02}",
                "count": count,
                "requests": {"cpu": f"{max(1, int(unit * weight))}m", "memory": "512Mi"},
            }
            for index, (count, weight) in enumerate(zip(counts, weights, strict=True))
        ],
    }
