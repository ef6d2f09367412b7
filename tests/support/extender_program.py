# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The extender's program as a process, and a lab's kube-schedulers that call it."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.extender import serving
from ansible_collections.wattwise.kube.plugins.module_utils.extender.answering import Extender
from ansible_collections.wattwise.kube.plugins.module_utils.extender.cluster_state import (
    ClusterState,
)
from ansible_collections.wattwise.kube.plugins.module_utils.extender.feed import Feed
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    KUBECONFIG_VARIABLE,
    Kube,
)
from lab import pki
from lab.controlplane import components, credentials
from lab.process import free_port, wait_until
from lab.state import LabState
from support.dockerfile import ROOT

Json = dict[str, t.Any]

_SAID = re.compile(r"kube-scheduler on port (\d+), metrics on port (\d+), health on port (\d+)")
_CONFIGURATION = ROOT / "operator" / "config" / "extender" / "kube-scheduler.yaml"


def plain_kubeconfig(url: str, user: Json | None = None, authority: Path | None = None) -> str:
    """A kubeconfig for this API server."""
    cluster = {"server": url, **({"certificate-authority": str(authority)} if authority else {})}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return json.dumps(config)


class Certificates(t.NamedTuple):
    """Certificates of the extender and of its client, kube-scheduler."""

    authority: Path
    server: pki.KeyPair
    client: pki.KeyPair

    @classmethod
    def issued(cls, folder: Path) -> Certificates:
        authority = pki.create_authority(folder, "extender CA")
        name = "wattwise-extender.wattwise-system.svc"
        server = pki.issue(authority, "extender", ["127.0.0.1"], ["localhost", name], folder)
        client = pki.issue(authority, "kube-scheduler", [], [], folder, client=True)
        return cls(authority.files.certificate, server, client)


class ExtenderClient(abc.ABC):
    """A client that behaves like kube-scheduler."""

    certificates: Certificates
    ports: serving.Ports

    def context(self, *, with_certificate: bool = True) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.certificates.authority)
        if with_certificate:
            client = self.certificates.client
            context.load_cert_chain(client.certificate, client.key)
        return context

    def connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            "127.0.0.1", self.ports.calls, context=self.context(), timeout=20
        )

    def post(self, path: str, body: bytes) -> tuple[int, t.Any]:
        with contextlib.closing(self.connection()) as connection:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def get(self, path: str) -> tuple[int, str]:
        """GET from the port for metrics or for health."""
        port = self.ports.metrics if path == "/metrics" else self.ports.health
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def wait_ready(self) -> None:
        def is_ready() -> bool:
            return self.get("/readyz")[0] == http.client.OK

        wait_until(is_ready, 60.0, f"the lists of the extender: {self.said}", interval=0.05)

    @property
    @abc.abstractmethod
    def said(self) -> str:
        """The extender's log."""


class ExtenderThread(ExtenderClient):
    """An extender in this process until the context ends."""

    def __init__(
        self, folder: Path, kubeconfig: str, scheduler_names: t.Collection[str] = ()
    ) -> None:
        self.certificates = Certificates.issued(folder)
        (folder / "kubeconfig").write_text(kubeconfig)
        self.state = ClusterState()
        self._lines: list[str] = []
        kube = Kube.connect({"kubeconfig": str(folder / "kubeconfig")})
        self._feed = Feed(kube, self.state, serving.NAMESPACE, self._lines.append)
        self._extender = Extender(self.state, scheduler_names)
        self._server: serving.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        server = self.certificates.server
        files = (str(server.certificate), str(server.key), str(self.certificates.authority))
        self._loop = asyncio.get_running_loop()
        self._server = serving.Server(self._extender, self._feed, self._lines.append)
        ports = serving.Ports(0, 0, 0)
        await self._server.run("127.0.0.1", ports, serving.Certificates(*files))

    def __enter__(self) -> t.Self:
        self._thread.start()
        wait_until(lambda: bool(_SAID.search(self.said)), 60.0, "the extender", interval=0.02)
        assert self._server is not None
        self.ports = self._server.ports
        return self

    def __exit__(self, *_exception: object) -> None:
        assert self._loop is not None and self._server is not None
        self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join()

    @property
    def said(self) -> str:
        return "\n".join(self._lines)


class ExtenderProgram(ExtenderClient):
    """A running program that serves clients with a certificate, until the context ends."""

    def __init__(self, folder: Path, kubeconfig: str, *options: str) -> None:
        self.certificates = Certificates.issued(folder)
        (folder / "kubeconfig").write_text(kubeconfig)
        self._log = folder / "extender.log"
        server = self.certificates.server
        command = [
            *(sys.executable, "-m", serving.__name__, "--address=127.0.0.1", "--port=0"),
            *("--metrics-port=0", "--health-port=0"),
            *(f"--certificate={server.certificate}", f"--key={server.key}"),
            *(f"--client-ca={self.certificates.authority}", *options),
        ]
        environment = {**os.environ, KUBECONFIG_VARIABLE: str(folder / "kubeconfig")}
        with self._log.open("w") as output:
            self.process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            wait_until(lambda: bool(_SAID.search(self.said)), 60.0, "the extender", interval=0.02)
        except BaseException:
            self.end()
            raise
        found = _SAID.search(self.said)
        assert found is not None
        self.ports = serving.Ports(*map(int, found.groups()))

    def __enter__(self) -> t.Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.end()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def said(self) -> str:
        return self._log.read_text()


def scheduler_configuration(program: ExtenderProgram, kubeconfig: Path, profile: str) -> Json:
    """The configuration shipped in operator/config, for this extender and one profile."""
    shipped = yaml.safe_load(_CONFIGURATION.read_text())["data"]["kube-scheduler.yaml"]
    given: Json = yaml.safe_load(shipped)
    given["clientConnection"] = {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000}
    given["leaderElection"] = {"leaderElect": False}
    given["profiles"] = [{"schedulerName": profile}]
    [extender] = given["extenders"]
    extender["urlPrefix"] = f"https://127.0.0.1:{program.ports.calls}"
    extender["tlsConfig"].update(
        caFile=str(program.certificates.authority),
        certFile=str(program.certificates.client.certificate),
        keyFile=str(program.certificates.client.key),
    )
    return given


@contextlib.contextmanager
def kube_scheduler(
    state: LabState, folder: Path, program: ExtenderProgram, profile: str
) -> t.Iterator[Path]:
    """A second kube-scheduler in the lab, for the pods of this profile; yields its log."""
    kubeconfig = credentials.kubeconfig_of(state, "kube-scheduler")
    configuration = scheduler_configuration(program, kubeconfig, profile)
    path, log, port = folder / "kube-scheduler.json", folder / "kube-scheduler.log", free_port()
    path.write_text(json.dumps(configuration))
    command = [
        *(str(components.program_folder(state) / "kube-scheduler"), f"--config={path}"),
        *("--v=1", f"--secure-port={port}", "--bind-address=127.0.0.1"),
        f"--cert-dir={folder}",
    ]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: _is_ready(port) or process.poll() is not None, 60.0, "kube-scheduler")
        assert process.poll() is None, log.read_text()[-4000:]
        yield log
    finally:
        process.kill()
        process.wait()


def _is_ready(port: int) -> bool:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=trusting, timeout=5)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.client.OK
        except OSError:
            return False
