# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kepler in the cluster scope: its permissions on a real API, names of pods, alerts on its metrics.

The tests with a process need a program `kepler` on PATH (docs/guides/kepler.md, "A real Kepler").
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import typing as t
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment import (
    configuration,
    manifests,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.system import (
    System,
    read_system,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering import metering
from lab.kepler_program import CONTAINER, Host
from lab.process import free_port, wait_until
from support.certificates import self_signed
from support.kepler_systems import IMAGE, labels_of, node, started
from support.lab import RunningLab
from support.promtool import promtool
from support.real_kepler import host, program

Json = dict[str, t.Any]

__all__ = ["host", "program"]

VERSION = "0.11.4"
NODE = "real-kepler"
RULES = Path(__file__).resolve().parents[2] / "roles/observe/files/prometheus-rules.yml"
RECORDED = Path(__file__).resolve().parents[1] / "conformance/kepler/metrics.txt"


class Account:
    """The service account of a system with the permissions of its scope."""

    def __init__(self, kube: Kube, lab: RunningLab, wanted: System, folder: Path) -> None:
        place = f"/api/v1/namespaces/{wanted.namespace}/serviceaccounts"
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": wanted.name}}
        kube.request("POST", place, body)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = kube.request("POST", f"{place}/{wanted.name}/token", request)["status"]["token"]
        given = yaml.safe_load(Path(lab.kubeconfig).read_text())
        given["users"] = [
            {"name": user["name"], "user": {"token": token}} for user in given["users"]
        ]
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(given))
        self.kube = Kube.connect({"kubeconfig": str(self.kubeconfig)})

    def may_read(self, path: str) -> bool:
        try:
            self.kube.get(path)
        except ApiError as error:
            assert error.status in (403, 404), error
            return error.status == 404
        return True


@contextlib.contextmanager
def account(kube: Kube, lab: RunningLab, wanted: System, folder: Path) -> Iterator[Account]:
    objects = manifests.of_cluster(wanted, is_openshift=False)
    given: Json = {"kubeconfig": lab.kubeconfig, "manifests": objects}
    if objects:
        apply(given)
    try:
        yield Account(kube, lab, wanted, folder)
    finally:
        if objects:
            apply({**given, "state": "absent"})


@pytest.mark.parametrize(
    ("spec", "pods", "reads_node", "proxy"),
    [
        ({"scope": "minimum"}, False, False, False),
        ({"scope": "cluster"}, True, False, False),
        ({"scope": "cluster", "collector": {"pod_informer": "kubelet"}}, False, True, True),
    ],
    ids=str,
)
def test_an_account_may_read_what_its_informer_reads(
    kube: Kube,
    lab: RunningLab,
    namespace: str,
    tmp_path: Path,
    spec: Json,
    pods: bool,
    reads_node: bool,
    proxy: bool,
) -> None:
    """The informer of the kubelet looks up its address in the Node before it asks for pods."""
    wanted = read_system(namespace, "kepler", {"image": IMAGE, **spec})
    name = kube.list("/api/v1/nodes")[0]["metadata"]["name"]
    with account(kube, lab, wanted, tmp_path) as own:
        # The API server learns of new permissions by and by.
        paths = ["/api/v1/pods"] if pods else [f"/api/v1/nodes/{name}"] if reads_node else []
        wait_until(lambda: all(map(own.may_read, paths)), 10.0, "the permissions")
        assert own.may_read("/api/v1/pods?fieldSelector=spec.nodeName%3Da&limit=1") == pods
        assert own.may_read(f"/api/v1/nodes/{name}") == reads_node
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {
                "resourceAttributes": {
                    "verb": "get",
                    "resource": "nodes",
                    "subresource": "proxy",
                    "name": name,
                }
            },
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert own.kube.request("POST", path, review)["status"]["allowed"] == proxy


class Running(t.NamedTuple):
    """A process of Kepler, with its port on loopback and its log."""

    port: int
    process: subprocess.Popen[bytes]
    log: Path

    def metrics(self) -> str:
        """Its metrics; empty before it serves them."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/metrics", timeout=5
            ) as answer:
                return t.cast("str", answer.read().decode())
        except OSError:
            self.check()
            return ""

    def check(self) -> None:
        """Raise AssertionError with the end of its log if it has ended."""
        assert self.process.poll() is None, self.log.read_text()[-2000:]


@contextlib.contextmanager
def kepler(
    program: Path, wanted: System, host: Host, folder: Path, *more: str
) -> Iterator[Running]:
    """A Kepler with file and flags of the DaemonSet."""
    [start] = started(wanted, [node(NODE, labels=labels_of("rapl"))])
    port = free_port()
    # Paths and the port of this test; everything else is the role's.
    start.config["host"] = {"sysfs": str(host.sys), "procfs": str(host.proc)}
    web = start.config["web"]
    web["listenAddresses"] = [f"127.0.0.1:{port}"]
    web["configFile"] = web["configFile"].replace(configuration.FOLDER, str(folder))
    path, log = folder / "config.yaml", folder / "log"
    path.write_text(yaml.safe_dump(start.config))
    flags = [
        f"--config.file={path}" if flag.startswith("--config.file=") else flag
        for flag in start.arguments
        if not flag.startswith("--kube.node-name=")
    ]
    command = [str(program), *flags, f"--kube.node-name={NODE}", *more]

    with log.open("w") as output, subprocess.Popen(
        command, stdout=output, stderr=subprocess.STDOUT, env={"PATH": os.defpath}
    ) as process:  # fmt: skip
        try:
            yield Running(port, process, log)
            assert "forbidden" not in log.read_text().lower()
        finally:
            process.kill()


def test_a_real_kepler_in_scope_cluster_names_pods_with_the_permissions_of_its_account(
    program: Path, host: Host, kube: Kube, lab: RunningLab, namespace: str, tmp_path: Path
) -> None:
    spec = {"image": IMAGE, "version": VERSION, "scope": "cluster"}
    wanted = read_system(namespace, "kepler", {**spec, "collector": {"sample_rate": "1s"}})
    pod = running_pod(kube, namespace)
    with account(kube, lab, wanted, tmp_path) as own:
        wait_until(lambda: own.may_read("/api/v1/pods"), 10.0, "the permissions")
        flag = f"--kube.config={own.kubeconfig}"
        with kepler(program, wanted, host, tmp_path, flag) as running:
            labels = f'pod_name="{pod}",pod_namespace="{namespace}",state="running",zone="package"'
            wait_until(lambda: labels in running.metrics(), 30.0, "watts of the pod")
            text = running.metrics()
    assert f'node_name="{NODE}"' in text
    silent = "\n".join(line for line in text.splitlines() if "_joules_total" not in line)
    assert alerts(text, tmp_path) == 0 and alerts(silent, tmp_path) == 1


def test_a_real_kepler_in_scope_minimum_reads_no_pods(
    program: Path, host: Host, tmp_path: Path
) -> None:
    wanted = read_system("kepler", "kepler", {"image": IMAGE, "version": VERSION})
    with kepler(program, wanted, host, tmp_path) as running:
        family = "kepler_container_cpu_watts{"
        wait_until(lambda: family in running.metrics(), 30.0, "power draw of a container")
        assert "kepler_pod_cpu_watts{" not in running.metrics()


def test_a_real_kepler_with_mtls_is_metered_with_a_client_certificate_alone(
    program: Path, host: Host, kube: Kube, tmp_path: Path
) -> None:
    spec = {"image": IMAGE, "version": VERSION, "security": {"mode": "mtls"}}
    wanted = read_system("kepler", "kepler", {**spec, "collector": {"sample_rate": "1s"}})
    server, client = self_signed(), self_signed(["prometheus"], "prometheus")
    written = {
        "tls.crt": server.pem,
        "tls.key": server.key_pem,
        "ca.crt": client.pem,
        "client.pem": client.key_pem + client.pem,
        "web.yaml": configuration.files(wanted, wanted.rest, "rapl")["web.yaml"]
        .replace(configuration.TLS_FOLDER, str(tmp_path))
        .replace(configuration.CLIENT_AUTHORITY_FOLDER, str(tmp_path)),
    }
    for name, text in written.items():
        (tmp_path / name).write_text(text)
    snapshot = {"nodes": [{"metadata": {"name": NODE}}], "pods": []}

    with kepler(program, wanted, host, tmp_path) as running:

        def found(**more: str) -> metering.Metering:
            running.check()
            target = {"name": NODE, "endpoint": f"https://127.0.0.1:{running.port}"}
            given = {"source": "kepler", "targets": [target], "ca_path": str(tmp_path / "tls.crt")}
            options = metering.SPEC.complete({**given, **more})
            return metering.meter(options, snapshot, {}, Context(), kube)

        shown = {"client_cert": str(tmp_path / "client.pem")}
        wait_until(lambda: NODE in found(**shown).nodes, 30.0, "watts of the node")
        [refused] = found().errors
    assert refused.reason in ("tls", "unreachable"), refused


def running_pod(kube: Kube, namespace: str) -> str:
    """A pod on a node that the lab does not simulate, with the container of the machine's files."""
    pod = {
        "metadata": {"name": "web-0"},
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "none"}]},
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
    kube.request("POST", path, pod)
    container = {
        "name": "main",
        "containerID": f"containerd://{CONTAINER}",
        "image": "none",
        "imageID": "none",
        "ready": True,
        "restartCount": 0,
    }
    status = {"status": {"phase": "Running", "containerStatuses": [container]}}
    kube.request("PATCH", f"{path}/web-0/status", status, MERGE_CONTENT_TYPE)
    return "web-0"


def alerts(metrics: str, folder: Path) -> int:
    """Alerts WattwiseKeplerSilent on these metrics, as Prometheus scrapes them."""
    scraped = [
        line.replace("{", '{instance="n1",job="kepler",', 1).rpartition(" ")
        for line in metrics.splitlines()
        if line.startswith("kepler_")
    ]
    labels = {"severity": "warning", "job": "kepler", "instance": "n1"}
    told = {
        "summary": "Kepler of n1 gives no power.",
        "description": "Kepler of n1 (job kepler) has answered without any energy for ten minutes. "
        "Its log names the file that it cannot read.",
    }
    for count in (0, 1):
        test = {
            "interval": "1m",
            "input_series": [
                {"series": series, "values": f"{value}x20"} for series, _blank, value in scraped
            ],
            "alert_rule_test": [
                {
                    "eval_time": "15m",
                    "alertname": "WattwiseKeplerSilent",
                    "exp_alerts": [{"exp_labels": labels, "exp_annotations": told}] * count,
                }
            ],
        }
        path = folder / "alerts.test.yml"
        content = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}
        path.write_text(yaml.safe_dump(content))
        done = promtool("test", "rules", str(path))
        if done.returncode == 0:
            return count
    raise AssertionError(done.stdout)


def test_the_alert_is_silent_for_the_metrics_of_a_healthy_kepler(tmp_path: Path) -> None:
    healthy = RECORDED.read_text()
    facts = ("kepler_build_info", "kepler_node_cpu_info")
    silent = "\n".join(line for line in healthy.splitlines() if line.startswith(facts))
    assert 'kepler_build_info{arch="' in silent and "node_name" not in silent
    assert alerts(healthy, tmp_path) == 0
    assert alerts(silent, tmp_path) == 1
