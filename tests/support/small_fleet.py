# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two nodes with NodeConfigs behind an API over a real socket; the machines are of type Fake."""

from __future__ import annotations

import typing as t
import urllib.parse
from collections import Counter

from support.binding_api import Cluster, Json, found, node
from support.scripted_api import Asked, Reply, status_reply
from support.wao import fake, node_config

CONFIGS = "/apis/wao.bitmedia.co.jp/v1beta1"
RECORD = "/api/v1/namespaces/kube-system/configmaps/wattwise-last-binding"


class Fleet:
    """Two nodes with NodeConfigs, and the requests about them."""

    def __init__(self) -> None:
        self.cluster = Cluster(hook=self._answer).add(node("n1"), node("n2"))
        self.configs = {name: self._config(name) for name in ("n1", "n2")}
        self.lists: Counter[str] = Counter()
        self.refuses_statuses = False
        self.record: Json | None = None

    def _config(self, name: str) -> Json:
        config = node_config(f"c-{name}", name, uid=f"uid-{name}")
        config["spec"]["predictor"] = {"powerConsumption": fake()}
        return config

    def answer(self, asked: Asked) -> Reply | None:
        """Answer of a subclass that takes precedence."""
        return None

    def _answer(self, asked: Asked, cluster: Cluster) -> Reply | None:
        reply = self.answer(asked)
        if reply is not None:
            return reply
        url = urllib.parse.urlsplit(asked.path)
        if asked.method == "GET" and not urllib.parse.parse_qs(url.query).get("fieldSelector"):
            self.lists[url.path] += 1
        if asked.method == "PATCH" and url.path.startswith(CONFIGS):
            return self._status(asked, url.path)
        if url.path in (RECORD, RECORD.rpartition("/")[0]):
            self.record = asked.body if asked.method != "GET" else self.record
            return found(self.record)
        if url.path == CONFIGS:
            kind = {"name": "nodeconfigs", "kind": "NodeConfig", "namespaced": True}
            return Reply({"resources": [kind]})
        if url.path == f"{CONFIGS}/nodeconfigs":
            return listed("NodeConfig", self.configs.values())
        if url.path == "/api/v1/nodes":
            return listed("Node", cluster.nodes.values())
        if url.path == "/api/v1/pods" and "spec.nodeName" not in url.query:
            self.lists[url.path] += 1
            return listed("Pod", cluster.pods.values())
        if url.path in ("/api/v1/namespaces", "/apis/apps/v1/replicasets") or "policy" in url.path:
            return listed("Thing", ())
        if asked.method == "GET" and url.path.startswith("/apis/") and "leases" not in url.path:
            return status_reply(404, "not served")
        return None

    def _status(self, asked: Asked, path: str) -> Reply:
        if self.refuses_statuses:
            return status_reply(422, "no such field", reason="Invalid")
        [config] = [item for item in self.configs.values() if item["metadata"]["name"] in path]
        config["status"] = asked.body["status"]
        return Reply(config)


def listed(kind: str, items: t.Iterable[Json]) -> Reply:
    return Reply({"kind": f"{kind}List", "apiVersion": "v1", "metadata": {}, "items": list(items)})
