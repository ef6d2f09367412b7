# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control plane's five services, each on 127.0.0.1 only."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path

from lab.controlplane.credentials import folder, kubeconfig_of
from lab.controlplane.programs import KWOK_STAGES
from lab.process import Service
from lab.releases import release_of
from lab.state import LabSettings, LabState

ADDRESS = "127.0.0.1"
# Practically no client-side throttling, because tests wait for these programs.
CLIENT_LIMITS = ("--kube-api-qps=500", "--kube-api-burst=1000")
# A lease is renewed four times in its duration. A thousand kubelets with the usual 40 s keep half a
# core busy, so these are longer, and so is the grace period of the node lifecycle controller.
NODE_LEASE_SECONDS = 240
NODE_GRACE_SECONDS = 300
KWOK_PARALLELISM = 16
REAL_NODE_LABEL = "lab.wattwise.github.io/real"
OFF_LABEL = "lab.wattwise.github.io/off"


def etcd(state: LabState, settings: LabSettings) -> Service:
    client = f"http://{ADDRESS}:{settings.ports['etcd']}"
    peer = f"http://{ADDRESS}:{settings.ports['etcd-peer']}"
    command = (
        *(_program(state, "etcd"), "--name=lab", f"--data-dir={data_folder(state)}"),
        *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
        *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
        f"--initial-cluster=lab={peer}",
        # A single member calls an election only after this time; durability does not matter.
        *("--heartbeat-interval=20", "--election-timeout=200", "--unsafe-no-fsync"),
        *("--quota-backend-bytes=4294967296", "--log-level=warn"),
    )
    return Service("etcd", command, functools.partial(_answers, state, client + "/health"))


def kube_apiserver(state: LabState, settings: LabSettings) -> Service:
    files = folder(state)
    proxy = files / "front-proxy"
    url = f"https://{ADDRESS}:{settings.ports['kube-apiserver']}/readyz"
    command = (
        *(_program(state, "kube-apiserver"), "--v=1", "--profiling=false"),
        *_feature_gates(settings),
        *_served_on_request(settings),
        f"--etcd-servers=http://{ADDRESS}:{settings.ports['etcd']}",
        *(f"--bind-address={ADDRESS}", f"--secure-port={settings.ports['kube-apiserver']}"),
        # Otherwise its shutdown waits up to a minute for its clients' watches to end.
        "--shutdown-send-retry-after=true",
        # Endpoints may not be loopback addresses, so this server's are not published.
        *(f"--advertise-address={ADDRESS}", "--endpoint-reconciler-type=none"),
        *("--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged=true"),
        *("--authorization-mode=Node,RBAC", f"--client-ca-file={state.pki / 'ca.pem'}"),
        *_serving_certificate(state),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={files / 'service-accounts.pub'}",
        f"--service-account-signing-key-file={files / 'service-accounts-key.pem'}",
        f"--requestheader-client-ca-file={proxy / 'ca.pem'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={proxy / 'front-proxy-client.pem'}",
        f"--proxy-client-key-file={proxy / 'front-proxy-client-key.pem'}",
    )
    return Service("kube-apiserver", command, functools.partial(_answers, state, url))


def kube_controller_manager(state: LabState, settings: LabSettings) -> Service:
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    port = settings.ports["kube-controller-manager"]
    command = (
        *(_program(state, "kube-controller-manager"), "--v=1", "--profiling=false"),
        *_feature_gates(settings),
        *_client_options(state, "kube-controller-manager", port),
        "--use-service-account-credentials=true",
        f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
        f"--service-account-private-key-file={folder(state) / 'service-accounts-key.pem'}",
        f"--root-ca-file={state.pki / 'ca.pem'}",
        f"--cluster-signing-cert-file={state.pki / 'ca.pem'}",
        f"--cluster-signing-key-file={state.pki / 'ca-key.pem'}",
    )
    health = f"https://{ADDRESS}:{port}/healthz"
    # Pods can be created only after the controller has created the namespace's service account.
    made = f"https://{ADDRESS}:{settings.ports['kube-apiserver']}{account}"
    ready = _all(functools.partial(_answers, state, url) for url in (health, made))
    return Service("kube-controller-manager", command, ready)


def kube_scheduler(state: LabState, settings: LabSettings) -> Service:
    port = settings.ports["kube-scheduler"]
    command = (
        *(_program(state, "kube-scheduler"), "--v=1", "--profiling=false"),
        *_feature_gates(settings),
        *_client_options(state, "kube-scheduler", port),
    )
    url = f"https://{ADDRESS}:{port}/readyz"
    return Service("kube-scheduler", command, functools.partial(_answers, state, url))


def kwok(state: LabState, settings: LabSettings) -> Service:
    address = f"{ADDRESS}:{settings.ports['kwok']}"
    stages = Path(_program(state, "kwok")).resolve().parent
    command = (
        *(_program(state, "kwok"), f"--config={state.run / 'kwok.json'}"),
        *(f"--config={stages / name}" for name in KWOK_STAGES),
        *(f"--kubeconfig={kubeconfig_of(state, 'kwok')}", f"--server-address={address}"),
    )
    return Service("kwok", command, functools.partial(_answers, state, f"http://{address}/healthz"))


def write_kwok_configuration(state: LabState) -> None:
    """Write KWOK's options; `KWOK_STAGES` define its simulation of nodes and pods.

    KWOK simulates the kubelet of a node with labels, unless the node's kubelet is real or its
    machine is off. A node without any label has no kubelet.
    """
    options = {
        "manageNodesWithLabelSelector": f"{REAL_NODE_LABEL}!=true,{OFF_LABEL}!=true",
        "cidr": "10.128.0.1/9",
        "nodeLeaseDurationSeconds": NODE_LEASE_SECONDS,
        "nodePlayStageParallelism": KWOK_PARALLELISM,
        "podPlayStageParallelism": KWOK_PARALLELISM,
        "nodeLeaseParallelism": KWOK_PARALLELISM,
    }
    configuration = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": options,
    }
    (state.run / "kwok.json").write_text(json.dumps(configuration, indent=2) + "\n")


def data_folder(state: LabState) -> Path:
    """Folder of etcd's data."""
    return state.run / "etcd"


def program_folder(state: LabState) -> Path:
    """Links to the programs of this lab."""
    return state.run / "bin"


def _program(state: LabState, name: str) -> str:
    return str(program_folder(state) / name)


def _serving_certificate(state: LabState) -> tuple[str, str]:
    files = folder(state)
    return (
        f"--tls-cert-file={files / 'server.pem'}",
        f"--tls-private-key-file={files / 'server-key.pem'}",
    )


def _feature_gates(settings: LabSettings) -> tuple[str, ...]:
    features = release_of(settings.kubernetes).features
    return (f"--feature-gates={','.join(f'{name}=true' for name in features)}",)


def _served_on_request(settings: LabSettings) -> tuple[str, ...]:
    apis = release_of(settings.kubernetes).apis
    return (f"--runtime-config={','.join(f'{name}=true' for name in apis)}",) if apis else ()


def _client_options(state: LabState, name: str, port: int) -> tuple[str, ...]:
    return (
        *(f"--kubeconfig={kubeconfig_of(state, name)}", *CLIENT_LIMITS, "--leader-elect=false"),
        *(f"--bind-address={ADDRESS}", f"--secure-port={port}", "--authentication-skip-lookup"),
        *_serving_certificate(state),
    )


def _all(conditions: Iterable[Callable[[], bool]]) -> Callable[[], bool]:
    chosen = tuple(conditions)
    return lambda: all(condition() for condition in chosen)


def _answers(state: LabState, url: str) -> bool:
    """Whether the administrator's GET is answered with 200."""
    scheme, _separator, rest = url.partition("://")
    host, _separator, path = rest.partition("/")
    try:
        connection: http.client.HTTPConnection
        if scheme == "https":
            connection = http.client.HTTPSConnection(host, timeout=5, context=_tls(state))
        else:
            connection = http.client.HTTPConnection(host, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", f"/{path}")
            return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False


def _tls(state: LabState) -> ssl.SSLContext:
    files = folder(state)
    context = ssl.create_default_context(cafile=state.pki / "ca.pem")
    context.load_cert_chain(files / "lab-admin.pem", files / "lab-admin-key.pem")
    return context
