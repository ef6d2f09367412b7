# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents and demand for fleet_advice_info."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

Json = dict[str, t.Any]
TIME = "2026-01-31T12:00:00Z"
TYPE_LABEL = "node.kubernetes.io/instance-type"
HOUR = 3600

# From the most efficient type to the least: cores, watts when idle and at full use.
TYPES = {"new": (32, 60.0, 200.0), "middle": (16, 80.0, 200.0), "old": (8, 120.0, 220.0)}


def node(name: str, kind: str, **more: t.Any) -> Json:
    cores = TYPES[kind][0]
    labels = {TYPE_LABEL: kind, **more.pop("labels", {})}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": more,
        "status": {
            "allocatable": {"cpu": str(cores), "memory": f"{4 * cores}Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def curve(kind: str) -> Json:
    cores, idle, full = TYPES[kind]
    return {"cpu": [0.0, float(cores)], "watts": [idle, full]}


def pod(name: str, node_name: str, cpu: str, owner: str = "ReplicaSet") -> Json:
    return {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": f"uid-{name}",
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": owner,
                    "name": "it",
                    "uid": "u",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "nodeName": node_name,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": {"phase": "Running"},
    }


def documents(folder: Path, nodes: t.Sequence[Json], pods: t.Sequence[Json] = ()) -> Json:
    """Options with a snapshot of these nodes, and curves of all but those named `dark`."""
    snapshot = {
        "document": "wattwise.kube/snapshot/v1",
        "time": TIME,
        "cluster": {"host": "https://127.0.0.1:6443"},
        "nodes": nodes,
        "pods": list(pods),
    }
    curves = {
        each["metadata"]["name"]: curve(each["metadata"]["labels"][TYPE_LABEL])
        for each in nodes
        if not each["metadata"]["name"].startswith("dark")
    }
    body = {"document": "wattwise.kube/curves/v1", "time": TIME, "curves": curves, "errors": []}
    paths = {}
    for name, content in (("snapshot", snapshot), ("curves", body)):
        path = folder / f"{name}.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        paths[name] = str(path)
    return paths


def trace(folder: Path, *pods: tuple[float, float, int, int]) -> str:
    """A file of pods by arrival and departure in hours, millicores and MiB."""
    lines = ["arrival_seconds,departure_seconds,cpu_milli,memory_mib"]
    lines += [
        f"{arrival * HOUR:g},{departure * HOUR:g},{millicores},{mebibytes}"
        for arrival, departure, millicores, mebibytes in pods
    ]
    path = folder / "demand.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)
