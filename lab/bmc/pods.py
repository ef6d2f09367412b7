# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load of each machine, from the pods that the cluster bound to it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import math
import socket
import ssl
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from lab.errors import LabError
from lab.physics import pod_cpu_cores

LOG = logging.getLogger(__name__)
PAGE_SIZE = 500
WATCH_SECONDS = 290
RETRY_SECONDS = 0.5
LIST_TIMEOUT_SECONDS = 30.0
FAREWELL_SECONDS = 2.0
FINISHED_PHASES = ("Succeeded", "Failed")
PODS = "/api/v1/pods"


@dataclass(frozen=True)
class BoundPod:
    """A pod on a node, from its binding to its end, whether it is Running or not."""

    uid: str
    node: str
    cores: float
    namespace: str = ""
    name: str = ""


def bound_pod(pod: Mapping[str, Any]) -> BoundPod | None:
    """Read the Kubernetes object; None if the pod is unbound or has finished."""
    node = pod["spec"].get("nodeName")
    if not node or pod.get("status", {}).get("phase") in FINISHED_PHASES:
        return None
    metadata = pod["metadata"]
    try:
        cores = pod_cpu_cores(pod)
    except ValueError as error:
        LOG.warning("pod %s counts as idle: %s", metadata["name"], error)
        cores = 0.0
    return BoundPod(metadata["uid"], node, cores, metadata["namespace"], metadata["name"])


class PodLoads:
    """Keeps `load_cores` (by node) equal to the usage of the bound pods.

    While the API server is unreachable, the last loads stay.
    """

    def __init__(self, load_cores: dict[str, float]) -> None:
        self.synchronised = False
        self._load_cores = load_cores
        self._pods: dict[str, BoundPod] = {}
        self._cores: defaultdict[str, dict[str, float]] = defaultdict(dict)

    @property
    def pods(self) -> int:
        """Number of bound pods that have not finished."""
        return len(self._pods)

    @property
    def bound(self) -> list[BoundPod]:
        """These pods."""
        return list(self._pods.values())

    def replace(self, pods: Iterable[BoundPod]) -> None:
        """Replace all pods of the cluster."""
        self._pods.clear()
        self._cores.clear()
        self._load_cores.clear()
        for pod in pods:
            self._place(pod)
        for node in self._cores:
            self._add_up(node)

    def change(self, event: str, pod: Mapping[str, Any]) -> None:
        """An event of a watch: ADDED, MODIFIED or DELETED."""
        before = self._pods.pop(pod["metadata"]["uid"], None)
        if before is not None:
            del self._cores[before.node][before.uid]
            self._add_up(before.node)
        after = None if event == "DELETED" else bound_pod(pod)
        if after is not None:
            self._place(after)
            self._add_up(after.node)

    def _place(self, pod: BoundPod) -> None:
        self._pods[pod.uid] = pod
        self._cores[pod.node][pod.uid] = pod.cores

    def _add_up(self, node: str) -> None:
        self._load_cores[node] = math.fsum(self._cores[node].values())


@dataclass(frozen=True)
class Connection:
    """Address and credentials of an API server."""

    server: str
    headers: Mapping[str, str] = field(repr=False)
    context: ssl.SSLContext


def connection(kubeconfig: Path) -> Connection:
    """Read the current context of a kubeconfig with embedded certificates or token.

    Raises LabError.
    """
    try:
        document = yaml.safe_load(kubeconfig.read_text())
        context = _named(document, "contexts", document["current-context"])["context"]
        cluster = _named(document, "clusters", context["cluster"])["cluster"]
        user = _named(document, "users", context["user"])["user"]
        token = user.get("token")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return Connection(cluster["server"], headers, _tls(cluster, user))
    except (OSError, KeyError, TypeError, StopIteration, ValueError, yaml.YAMLError) as error:
        raise LabError(
            f"{kubeconfig} cannot be used to follow the pods ({type(error).__name__}: {error});"
            " it needs a current context with certificates or a token inside."
        ) from error


async def follow(api: Connection, loads: PodLoads) -> None:
    """Keep the loads up to date until cancelled; after every error, list again."""
    async with open_session(api) as session:
        while True:
            try:
                await _list_and_watch(session, loads)
            except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
                LOG.warning("the pods are listed again: %s: %s", type(error).__name__, error)
                loads.synchronised = False
                await asyncio.sleep(RETRY_SECONDS)


@contextlib.asynccontextmanager
async def open_session(api: Connection) -> AsyncIterator[aiohttp.ClientSession]:
    """A session that leaves no socket behind: a TLS close could outlive the event loop."""
    sockets: list[socket.socket] = []

    def open_socket(address: tuple[Any, ...]) -> socket.socket:
        opened = socket.socket(*address[:3])
        sockets[:] = [*filter(_is_open, sockets), opened]
        return opened

    connector = aiohttp.TCPConnector(ssl=api.context, socket_factory=open_socket)
    try:
        async with aiohttp.ClientSession(
            api.server, headers=api.headers, connector=connector
        ) as session:
            yield session
    finally:
        for opened in filter(_is_open, sockets):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_SECONDS):
                while any(map(_is_open, sockets)):
                    await asyncio.sleep(0)


def _is_open(opened: socket.socket) -> bool:
    return opened.fileno() >= 0


def _tls(cluster: Mapping[str, str], user: Mapping[str, str]) -> ssl.SSLContext:
    authority = base64.b64decode(cluster.get("certificate-authority-data", ""))
    context = ssl.create_default_context(cadata=authority.decode() or None)
    if "client-certificate-data" in user:
        # The ssl module loads certificate chains only from files.
        with tempfile.NamedTemporaryFile() as file:
            file.write(base64.b64decode(user["client-certificate-data"]) + b"\n")
            file.write(base64.b64decode(user["client-key-data"]))
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _named(document: Mapping[str, Any], kind: str, name: str) -> Any:
    return next(entry for entry in document[kind] if entry["name"] == name)


async def _list_and_watch(session: aiohttp.ClientSession, loads: PodLoads) -> None:
    version, pods = await _list(session)
    loads.replace(pods)
    loads.synchronised = True
    query = {
        "watch": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(WATCH_SECONDS),
    }
    timeout = aiohttp.ClientTimeout(
        total=None, sock_connect=LIST_TIMEOUT_SECONDS, sock_read=2 * WATCH_SECONDS
    )
    async with session.get(PODS, params=query, timeout=timeout, raise_for_status=True) as answer:
        async for event in _lines(answer.content):
            if event["type"] == "ERROR":
                raise ValueError(event["object"].get("message"))
            loads.change(event["type"], event["object"])


async def _list(session: aiohttp.ClientSession) -> tuple[str, list[BoundPod]]:
    """The list's resource version, and its bound pods."""
    pods: list[BoundPod] = []
    query = {"limit": str(PAGE_SIZE)}
    timeout = aiohttp.ClientTimeout(total=LIST_TIMEOUT_SECONDS)
    while True:
        async with session.get(
            PODS, params=query, timeout=timeout, raise_for_status=True
        ) as answer:
            page = await answer.json()
        pods += filter(None, map(bound_pod, page["items"]))
        following = page["metadata"].get("continue")
        if not following:
            return str(page["metadata"]["resourceVersion"]), pods
        query["continue"] = following


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """The events of a watch, one per line of any length."""
    pending = b""
    async for chunk in stream.iter_any():
        *complete, pending = (pending + chunk).split(b"\n")
        for line in complete:
            yield json.loads(line)
