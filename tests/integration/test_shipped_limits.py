# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs within the memory of their shipped manifests, beside objects of 1.4 MB.

The objects come from a server of real sockets, because etcd would need minutes to store them. The
kernel tells the highest resident size of each program.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import socket
import subprocess
import sys
import time
import typing as t
import urllib.request
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.extender import feed
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import KUBECONFIG_VARIABLE
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet import resource, watching
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet import (
    serving as exposition_serving,
)
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot import snapshot
from lab.process import wait_until
from support.dockerfile import ROOT
from support.extender_program import ExtenderProgram, plain_kubeconfig
from support.heavy_api import HeavyApi, Json, compact
from support.power_fleets import manifest

MEBIBYTE = 1024 * 1024
CONFIG_MAPS = "/api/v1/namespaces/wattwise-system/configmaps"
HEAVY = 1_400_000
# Of a probe without timeoutSeconds, as in the manifests.
PROBE_SECONDS = 1.0


def limit_of(file: str, container: str) -> int:
    """The memory limit of a shipped container in bytes."""
    documents = yaml.safe_load_all((ROOT / "operator" / "config" / file).read_text())
    for one in documents:
        for given in one["spec"]["template"]["spec"]["containers"]:
            if given["name"] == container:
                text = given["resources"]["limits"]["memory"]
                assert text.endswith("Mi")
                return int(text[:-2]) * MEBIBYTE
    raise AssertionError(f"{file} has no container {container}")


def peak_of(process_id: int) -> int:
    """Highest resident size of a process in bytes."""
    status = Path(f"/proc/{process_id}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def node(name: str) -> Json:
    resources = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {"kubernetes.io/hostname": name}}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": resources}}


def heavy(number: int, kind: str) -> Json:
    """A pod as large as a kube-apiserver takes it."""
    container: Json = {"name": "main", "resources": {"requests": {"cpu": "10m"}}}
    metadata: Json = {"name": f"p{number}", "namespace": "tenant", "uid": f"uid-{number}"}
    if kind == "environment":
        container["env"] = [{"name": "LONG", "value": "x" * HEAVY}]
    elif kind == "escaped":
        # Each sign is six bytes in the answer.
        container["env"] = [{"name": "LONG", "value": "<" * HEAVY + "\U0001f4a1"}]
    elif kind == "many":
        container["env"] = [{"name": "A"} for _number in range(120_000)]
    elif kind == "annotations":
        metadata["annotations"] = {"other": "x" * 250_000}
        metadata["managedFields"] = [{"manager": "m", "fieldsV1": {"f:" + "x" * 1_100_000: {}}}]
    spec = {"containers": [container], "nodeName": "n1" if number % 2 else ""}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


# How many pods of each kind. Answers with escaped signs have six times their bytes.
NUMBERS = {"environment": 110, "escaped": 20, "many": 20, "annotations": 20}


@pytest.fixture(scope="module", params=NUMBERS)
def api(request: pytest.FixtureRequest) -> t.Iterator[HeavyApi]:
    pods = [heavy(number, request.param) for number in range(NUMBERS[request.param])]
    # Its watcher sees the pods of all schedulers.
    fleet = manifest("main", devices={"enabled": True})
    empty: dict[str, list[Json]] = {
        path: [] for source in snapshot.SOURCES.values() for path in source.paths
    }
    collections = {
        **empty,
        feed.NODES: [node("n1"), node("n2")],
        feed.PODS: pods,
        CONFIG_MAPS: [],
        resource.ALL: [fleet],
    }
    with HeavyApi(collections) as serving:
        event = {"type": "MODIFIED", "object": {"kind": "Pod", "apiVersion": "v1", **pods[1]}}
        serving.events[feed.PODS] = [compact(event)] * 5
        yield serving


def number_of_pods(api: HeavyApi) -> int:
    return len(api.items[feed.PODS])


def test_the_extender_keeps_its_limit(api: HeavyApi, tmp_path: Path) -> None:
    with ExtenderProgram(tmp_path, plain_kubeconfig(api.url)) as program:
        program.wait_ready()

        def has_all() -> bool:
            known = f'wattwise_extender_objects{{kind="pods"}} {number_of_pods(api)}\n'
            return known in program.get("/metrics")[1]

        wait_until(has_all, 60.0, "the pods", interval=0.05)
        peak = peak_of(program.process.pid)
    assert peak < limit_of("extender/deployment.yaml", "extender")
    # The first request does not ask for 700 MB.
    assert api.limits[feed.PODS][0] <= 50


def test_anonymous_connections_take_neither_memory_nor_health(tmp_path: Path) -> None:
    """Idle ones, and ones whose handshake never ends, on all ports."""
    with (
        HeavyApi({feed.NODES: [], feed.PODS: [], CONFIG_MAPS: []}) as api,
        ExtenderProgram(tmp_path, plain_kubeconfig(api.url)) as program,
        contextlib.ExitStack() as held,
    ):
        program.wait_ready()
        hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
        for number in range(800):
            for port in (program.ports.calls, program.ports.metrics):
                client = held.enter_context(socket.create_connection(("127.0.0.1", port)))
                with contextlib.suppress(ConnectionError):
                    client.sendall((hello, b"GET /met", b"")[number % 3])
            if number % 50 == 0:
                began = time.monotonic()
                assert program.get("/healthz")[0] == 200
                assert time.monotonic() - began < PROBE_SECONDS
        assert program.post("/filter", b"odd")[0] == 400
        assert program.get("/metrics")[0] == 200
        peak = peak_of(program.process.pid)
        files = len(list(Path(f"/proc/{program.process.pid}/fd").iterdir()))
    assert peak < limit_of("extender/deployment.yaml", "extender")
    assert files < 200


def test_the_metrics_container_keeps_its_limit_beside_idle_clients(tmp_path: Path) -> None:
    """With the metrics of a thousand nodes, which several clients ask for and do not read."""
    folder = tmp_path / "tenant" / "main" / "metrics"
    folder.mkdir(parents=True)
    lines = [f'wattwise_m{kind}{{node="n{n}"}} 1' for kind in range(12) for n in range(1000)]
    (folder / "run.prom").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", exposition_serving.__name__, "--address=127.0.0.1"]
    environment = {**os.environ, exposition_serving.RUNS_VARIABLE: str(tmp_path)}
    with (
        subprocess.Popen(
            [*command, "--port=0", "--health-port=0"], env=environment, stdout=subprocess.PIPE
        ) as process,
        contextlib.ExitStack() as held,
    ):
        try:
            assert process.stdout is not None
            said = re.findall(rb"port (\d+)", process.stdout.readline())
            port, health = map(int, said)
            for number in range(800):
                client = held.enter_context(socket.create_connection(("127.0.0.1", port)))
                with contextlib.suppress(ConnectionError):
                    client.sendall((b"GET /metrics HTTP/1.1\r\n\r\n", b"GET", b"")[number % 3])
                if number % 50 == 0:
                    url = f"http://127.0.0.1:{health}/healthz"
                    with urllib.request.urlopen(url, timeout=PROBE_SECONDS) as answer:
                        assert answer.status == http.client.OK
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                assert b"wattwise_m11" in answer.read()
            peak = peak_of(process.pid)
        finally:
            process.kill()
    assert peak < limit_of("manager/deployment.yaml", "metrics")


def test_the_watcher_keeps_its_limit(api: HeavyApi, tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(plain_kubeconfig(api.url))
    environment = {**os.environ, KUBECONFIG_VARIABLE: str(config)}
    api.watched.clear()
    with subprocess.Popen(
        [sys.executable, "-m", watching.__name__, "--port=0", "--health-port=0"],
        env=environment,
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            wait_until(lambda: feed.PODS in api.watched, 90.0, "the watch of pods")
            peak = peak_of(process.pid)
        finally:
            process.kill()
    # The rest is for the run of a deleted fleet, which reads what one snapshot reads.
    assert peak < 128 * MEBIBYTE
    assert limit_of("manager/deployment.yaml", "watcher") >= 640 * MEBIBYTE


_SNAPSHOT = """
import sys
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot import snapshot
found = snapshot.take({"host": sys.argv[1], "path": sys.argv[2]})
print(found["counts"]["pods"])
sys.stdin.read()
"""


def test_a_snapshot_keeps_half_of_the_operators_limit(api: HeavyApi, tmp_path: Path) -> None:
    """The other half belongs to the placement and to ansible-operator itself."""
    path = tmp_path / "snapshot.json"
    command = [sys.executable, "-c", _SNAPSHOT, api.url, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == number_of_pods(api)
        peak = peak_of(process.pid)
        process.communicate()
    assert peak < limit_of("manager/deployment.yaml", "operator") / 2
    assert path.stat().st_size < MEBIBYTE
