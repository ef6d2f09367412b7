# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes, pods and publications for tests of the extender, and kube-scheduler's requests."""

from __future__ import annotations

import datetime
import json
import math
import random
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.extender import publication, views
from ansible_collections.wattwise.kube.plugins.module_utils.extender.cluster_state import (
    ClusterState,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import SPEC
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curves
from support.carried_out_plans import plan_of

Json = dict[str, t.Any]

NOW = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
FLEET = ("wattwise-system", "wattwise-extender")


def node(name: str, cores: int = 8, memory: str = "64Gi") -> Json:
    resources = {"cpu": str(cores), "memory": memory, "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": resources, "capacity": resources},
    }


def pod(name: str, cpu: str = "1", on: str = "", **spec: t.Any) -> Json:
    """A pod that runs on a node, or is pending."""
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    given = {"containers": containers, **({"nodeName": on} if on else {}), **spec}
    status = {"phase": "Running" if on else "Pending"}
    return {"metadata": metadata, "spec": given, "status": status}


def linear(watts: float, cores: int = 8, idle: float = 100.0) -> Json:
    """A curve with this many watts per core."""
    return {"cpu": [0.0, float(cores)], "watts": [idle, idle + watts * cores]}


def published(
    curves: Json, plan: Json | None = None, now: datetime.datetime = NOW, **options: t.Any
) -> Json:
    """The published document of a run with the placement's defaults."""
    by_node = Curves.from_document(curves).by_node
    return publication.publication_of(
        by_node, plan_of(plan or {}), {**SPEC.complete({"nodes": []}), **options}, now
    )


def config_map(body: Json, name: str = FLEET[1]) -> Json:
    metadata = {
        "name": name,
        "namespace": FLEET[0],
        "labels": {publication.LABEL: "publication"},
    }
    return {"metadata": metadata, "binaryData": publication.packed(body)}


class Cluster:
    """A ClusterState that received these objects as a watch would deliver them, at ``now``."""

    def __init__(self) -> None:
        self.now = NOW.timestamp()
        self.state = ClusterState(lambda: self.now)

    def nodes(self, *given: Json) -> Cluster:
        for one in given:
            self.state.set_node(one["metadata"]["name"], views.view_node(one))
        return self

    def pods(self, *given: Json) -> Cluster:
        for one in given:
            key = one["metadata"]["namespace"], one["metadata"]["name"]
            self.state.set_pod(key, views.view_pod(one))
        return self

    def publish(self, body: Json) -> Cluster:
        self.state.set_publication(FLEET, publication.read(config_map(body)))
        return self

    def watts(self, given: Json, *names: str) -> list[float | None]:
        prices = self.state.prices(views.asking_pod(given), names)
        return [None if math.isnan(watts) else watts for watts in prices.watts.tolist()]

    def scores(self, given: Json, *names: str) -> list[int]:
        return self.state.scores(views.asking_pod(given), names)


def arguments(given: t.Any, names: t.Any, nodes: t.Any = None) -> bytes:
    """ExtenderArgs as kube-scheduler sends them."""
    return json.dumps({"Pod": given, "Nodes": nodes, "NodeNames": names}).encode()


def random_fleet(chance: random.Random, nodes: int) -> tuple[list[Json], Json, list[Json]]:
    """Nodes, curves of most of them, and pods that run there."""
    names = [f"n{number}" for number in range(nodes)]
    given, curves, running = [], {}, []
    for name in names:
        cores = chance.choice([4, 8, 16])
        given.append(node(name, cores))
        points = sorted(chance.sample(range(1, 10 * cores), 3))
        cpu = [0.0, *(point / 10 for point in points), float(cores)]
        watts = [float(chance.randint(40, 400))]
        for _point in cpu[1:]:
            watts.append(watts[-1] + chance.randint(0, 80))
        if chance.random() < 0.9:
            curves[name] = {"cpu": cpu, "watts": watts}
        for number in range(chance.choice([0, 0, 1, 3])):
            owners = [{"kind": "DaemonSet", "name": "d"}] if chance.random() < 0.3 else []
            one = pod(f"{name}-{number}", f"{chance.randint(1, 1000)}m", name)
            one["metadata"]["ownerReferences"] = owners
            running.append(one)
    return given, curves, running
