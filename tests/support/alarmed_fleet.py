# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stored objects of a small fleet with temperature alarms, as the event source reads them."""

from __future__ import annotations

import copy
import typing as t
import urllib.parse

from support.scripted_api import Asked, Reply, status_reply
from support.small_fleet import CONFIGS, Fleet, listed


class AlarmedFleet:
    """Two nodes, a PowerFleet and pods, behind an API that can be made unreachable."""

    def __init__(self) -> None:
        small = Fleet()
        self.nodes = small.cluster.nodes
        self.configs = copy.deepcopy(small.configs)
        self.fleets: list[t.Any] = []
        self.pods: list[t.Any] = []
        self.is_up = True
        for name in self.configs:
            self.says(name, 22.0, 200.0)

    def says(
        self,
        name: str,
        celsius: float,
        watts: float,
        ready: str = "True",
        time: str = "2026-01-02T11:59:30Z",
    ) -> None:
        self.configs[name]["status"] = {
            "conditions": [{"type": "Ready", "status": ready, "message": "no answer"}],
            "readings": {
                "inletTemp": {"celsius": celsius, "time": time},
                "power": {"watts": watts, "time": time},
            },
        }

    def answer(self, asked: Asked) -> Reply:
        path = urllib.parse.urlsplit(asked.path).path
        if not self.is_up:
            return status_reply(403, "nobody may read", reason="Forbidden")
        if path == CONFIGS:
            kind = {"name": "nodeconfigs", "kind": "NodeConfig", "namespaced": True}
            return Reply({"resources": [kind]})
        lists: dict[str, tuple[str, t.Iterable[t.Any]]] = {
            f"{CONFIGS}/nodeconfigs": ("NodeConfig", self.configs.values()),
            "/api/v1/nodes": ("Node", self.nodes.values()),
            "/api/v1/pods": ("Pod", self.pods),
            "/apis/wattwise.github.io/v1alpha1/powerfleets": ("PowerFleet", self.fleets),
        }
        if path in lists:
            return listed(*lists[path])
        return status_reply(404, "not served")
