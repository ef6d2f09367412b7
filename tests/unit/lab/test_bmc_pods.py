# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load of the machines follows the pods of a cluster, here a small API server over TLS."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from lab import bmc, faults, pki
from lab.bmc.pods import BoundPod, PodLoads, bound_pod, connection
from lab.errors import LabError
from lab.physics import CPU_USAGE_ANNOTATION
from lab.process import free_port, wait_until
from lab.serving import in_thread
from lab.state import LabSettings, LabState

NODE, OTHER = "r1-n01", "r1-n02"


def pod(name: str, node: str | None = NODE, cores: str = "2", phase: str = "Running") -> Any:
    """A pod that uses this many cores, bound to the node (None: pending)."""
    return {
        "metadata": {
            "name": name,
            "namespace": "demo",
            "uid": f"uid-{name}",
            "annotations": {CPU_USAGE_ANNOTATION: cores},
        },
        "spec": {"containers": [], **({"nodeName": node} if node else {})},
        "status": {"phase": phase},
    }


def cores_of(*pods: Any) -> dict[str, float]:
    load: dict[str, float] = {}
    PodLoads(load).replace(filter(None, map(bound_pod, pods)))
    return load


def test_bound_pods_count_whether_they_run_yet_or_not() -> None:
    pods = [pod("a", phase="Pending"), pod("b"), pod("c", None), pod("d", phase="Succeeded")]
    assert cores_of(*pods, pod("e", OTHER, "500m")) == {NODE: 4.0, OTHER: 0.5}


def test_a_pod_without_a_readable_use_counts_as_idle(caplog: pytest.LogCaptureFixture) -> None:
    assert cores_of(pod("a", cores="much")) == {NODE: 0.0}
    assert "a counts as idle" in caplog.text


def test_events_change_the_load_of_the_nodes_concerned() -> None:
    load: dict[str, float] = {}
    loads = PodLoads(load)
    loads.replace([BoundPod("uid-a", NODE, 2.0)])
    loads.change("MODIFIED", pod("b", OTHER))
    assert load == {NODE: 2.0, OTHER: 2.0}
    loads.change("MODIFIED", pod("a", phase="Failed"))
    loads.change("ADDED", pod("c", OTHER, "1"))
    assert load == {NODE: 0.0, OTHER: 3.0}
    loads.change("DELETED", pod("b", OTHER))
    loads.change("DELETED", pod("unknown", OTHER))
    assert load == {NODE: 0.0, OTHER: 1.0}
    assert loads.pods == 1
    loads.replace([])
    assert (load, loads.pods) == ({}, 0)


@dataclass
class Api:
    """Lists two pods per page and sends every event to all watches."""

    port: int
    pods: list[Any] = field(default_factory=list)
    lists: int = 0
    failing: bool = False
    loop: asyncio.AbstractEventLoop | None = None
    _watches: set[asyncio.Queue[dict[str, Any] | None]] = field(default_factory=set)

    @contextlib.asynccontextmanager
    async def serving(self, context: ssl.SSLContext) -> AsyncIterator[None]:
        self.loop = asyncio.get_running_loop()
        application = web.Application()
        application.add_routes([web.get("/api/v1/pods", self._answer)])
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=context).start()
            yield
        finally:
            await runner.cleanup()

    def send(self, event: dict[str, Any] | None) -> None:
        """To all watches; None ends them."""

        def put() -> None:
            for queue in self._watches:
                queue.put_nowait(event)

        assert self.loop is not None
        self.loop.call_soon_threadsafe(put)

    @property
    def watched(self) -> bool:
        return bool(self._watches)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.failing:
            raise web.HTTPServiceUnavailable
        if "watch" in request.query:
            return await self._watch(request)
        start, limit = int(request.query.get("continue", 0)), 2
        self.lists += start == 0
        following = str(start + limit) if start + limit < len(self.pods) else ""
        return web.json_response(
            {
                "metadata": {"resourceVersion": "7", "continue": following},
                "items": self.pods[start : start + limit],
            }
        )

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        assert request.query["resourceVersion"] == "7"
        response = web.StreamResponse()
        await response.prepare(request)
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._watches.add(queue)
        try:
            while (event := await queue.get()) is not None:
                line = json.dumps(event).encode() + b"\n"
                for part in (line[:9], line[9:]):  # events are not aligned with chunks
                    await response.write(part)
                    await asyncio.sleep(0)
        finally:
            self._watches.discard(queue)
        return response


@dataclass(frozen=True)
class Cluster:
    api: Api
    settings: LabSettings

    def loads(self) -> dict[str, Any]:
        found: dict[str, Any] = faults.call(self.settings, "GET", "/loads")
        return found

    def wait_for(self, cores: dict[str, float]) -> None:
        wait_until(
            lambda: (found := self.loads())["synchronised"] and found["cores"] == cores,
            timeout=5,
            what=f"the loads {cores}, last {self.loads()}",
            interval=0.01,
        )


def write_kubeconfig(state: LabState, port: int, user: dict[str, str]) -> None:
    authority = base64.b64encode((state.pki / "ca.pem").read_bytes()).decode()
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": authority}
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    state.kubeconfig.write_text(json.dumps(document))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    state = LabState(tmp_path)
    state.create()
    authority = pki.create_authority(state.pki)
    server = pki.issue(authority, "server", ["127.0.0.1"], [], state.pki)
    client = pki.issue(authority, "client", [], [], state.pki, client=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    context.load_verify_locations(state.pki / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    api = Api(free_port(), [pod("a"), pod("b", OTHER, "1"), pod("c", cores="3"), pod("d", None)])
    user = {
        "client-certificate-data": base64.b64encode(client.certificate.read_bytes()).decode(),
        "client-key-data": base64.b64encode(client.key.read_bytes()).decode(),
    }
    write_kubeconfig(state, api.port, user)
    ports = {name: free_port() for name in ("bmc", "bmc_admin", "predictor")}
    settings = LabSettings(nodes=2, racks=1, ports=ports)
    with in_thread(api.serving(context)), in_thread(bmc.serving(state, settings)):
        yield Cluster(api, settings)


def test_loads_are_those_of_the_pods_and_follow_them(cluster: Cluster) -> None:
    cluster.wait_for({NODE: 5.0, OTHER: 1.0})
    before = faults.call(cluster.settings, "GET", "/truth")[OTHER]
    wait_until(lambda: cluster.api.watched, 5, "the watch", 0.01)
    cluster.api.send({"type": "MODIFIED", "object": pod("d", OTHER, "20")})
    cluster.wait_for({NODE: 5.0, OTHER: 21.0})
    after = faults.call(cluster.settings, "GET", "/truth")[OTHER]
    assert after["cpu_cores"] == 21.0
    assert after["power_watts"] > before["power_watts"] * 1.02
    assert cluster.loads()["pods"] == 4


ENDINGS: dict[str, Callable[[Api], None]] = {
    "the server ends the watch": lambda api: api.send(None),
    "the version is too old": lambda api: api.send(
        {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_pods_are_listed_again_after_a_watch(cluster: Cluster, ending: str) -> None:
    cluster.wait_for({NODE: 5.0, OTHER: 1.0})
    wait_until(lambda: cluster.api.watched, 5, "the watch", 0.01)
    cluster.api.pods = [pod("z", cores="9")]
    ENDINGS[ending](cluster.api)
    cluster.wait_for({NODE: 9.0})


def test_loads_stay_while_the_server_is_away(cluster: Cluster) -> None:
    cluster.wait_for({NODE: 5.0, OTHER: 1.0})
    wait_until(lambda: cluster.api.watched, 5, "the watch", 0.01)
    cluster.api.failing = True
    cluster.api.send(None)
    wait_until(lambda: not cluster.loads()["synchronised"], 5, "the failure to be seen", 0.01)
    assert cluster.loads()["cores"] == {NODE: 5.0, OTHER: 1.0}
    cluster.api.pods = []
    cluster.api.failing = False
    cluster.wait_for({})


def test_loads_cannot_be_set_by_hand_where_a_cluster_decides(cluster: Cluster) -> None:
    with pytest.raises(LabError, match="pods of the cluster decide"):
        faults.call(cluster.settings, "PUT", "/loads", {NODE: 1})


def test_a_token_is_sent_as_bearer_and_not_shown(tmp_path: Path) -> None:
    state = LabState(tmp_path)
    state.create()
    pki.create_authority(state.pki)
    write_kubeconfig(state, 1, {"token": "not-shown"})
    api = connection(state.kubeconfig)
    assert api.headers == {"Authorization": "Bearer not-shown"}
    assert "not-shown" not in repr(api)


@pytest.mark.parametrize("text", ["", "{", '{"current-context": "x", "contexts": []}'])
def test_an_unusable_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "kubeconfig").write_text(text)
    with pytest.raises(LabError, match=r"kubeconfig cannot be used to follow the pods"):
        connection(tmp_path / "kubeconfig")
