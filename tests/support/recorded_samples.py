# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded data of a cluster from which a power model can be trained."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from lab.physics import nominal_watts
from lab.predictor import recorded

TIME = "2026-01-31T12:00:00Z"
PHYSICS = "epyc-9654p-96c"


def run_folder(folder: Path, **changes: Any) -> Path:
    """Documents of the ``observe`` role, for one node with a metrics server."""
    reading: dict[str, Any] = {"inlet_celsius": 22.5, "delta_p_pascal": 7.0, "power_watts": 310.0}
    reading |= {"time": TIME, "stale": False, **changes}
    labels = {"node.kubernetes.io/instance-type": "r650"}
    node = {"metadata": {"name": "n1", "labels": labels}, "status": {"capacity": {"cpu": "64"}}}
    use = {"metadata": {"name": "n1"}, "usage": {"cpu": "16000m"}}
    snapshot = {"cluster": {}, "nodes": [node], "node_metrics": [use]}
    documents.write(str(folder / "snapshot.json"), "snapshot", snapshot)
    documents.write(str(folder / "readings.json"), "readings", {"readings": {"n1": reading}})
    return folder


def write_samples(path: Path, server_type: str, count: int, most_cpu: float) -> None:
    """Documents of a data centre without pressure sensors: noisy, with constant pressure."""
    chance = random.Random(1)
    lines = [",".join(recorded.COLUMNS)]
    for number in range(count):
        cpu, inlet = chance.uniform(0, most_cpu), chance.uniform(18, 27)
        watts = nominal_watts(PHYSICS, cpu / 100, inlet, 5.0) * chance.gauss(1, 0.02)
        lines.append(f"{number},n1,{server_type},{cpu},{inlet},5.0,{watts}")
    path.write_text("\n".join(lines) + "\n")
