# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An overlay of operator/config on the cluster of a lab, whose Deployment runs as processes.

The API server gets the CRDs, account, permissions and policies of the overlay unchanged. The lab
has no container engine, so the Deployment's containers become processes with its arguments and its
account's permissions.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab import operator
from lab.api import Api, standalone_kubeconfig
from lab.controlplane.programs import find_programs
from lab.errors import LabError
from lab.gotools import Say
from lab.operator import OperatorSettings, RunningOperator
from lab.process import REPOSITORY, wait_until
from lab.rmd import certificates
from lab.state import LabState
from lab.workload import make_namespace
from scripts.collection_tree import synchronize

JsonObject = dict[str, Any]

FOLDER = REPOSITORY / "operator"
NAMESPACE, ACCOUNT = "wattwise-system", "wattwise-operator"
# Kinds that need a kubelet with containers.
_NOT_APPLIED = ("Deployment", "NetworkPolicy")
# The lab chooses these.
_OWN_OPTIONS = ("--metrics-bind-address", "--health-probe-bind-address")
_TOKEN_SECONDS = 6 * 3600
_RMD_CLIENT = "rmd-client"


@dataclass(frozen=True)
class Installation:
    """An applied overlay; ``manifests`` are all of its objects."""

    state: LabState
    settings: OperatorSettings
    manifests: Sequence[JsonObject]


@dataclass(frozen=True)
class RunningInstallation:
    """The three containers of the operator's pod, as processes."""

    installation: Installation
    operator: RunningOperator
    metrics_port: int

    @property
    def state(self) -> LabState:
        return self.installation.state

    def metrics(self) -> str:
        """The metrics of the runs, as Prometheus scrapes them."""
        return operator.get(self.metrics_port, "/metrics")

    @property
    def last_error(self) -> str:
        """The newest error in the operator's log; empty if none."""
        for line in reversed(self.operator.log.splitlines()):
            if '"level":"error"' in line:
                entry = json.loads(line)
                return " ".join(filter(None, (entry.get("msg"), entry.get("error"))))
        return ""

    def stop(self) -> None:
        self.operator.stop()


def install(
    state: LabState,
    overlay: str,
    say: Say,
    heartbeat_seconds: float | None = None,
    permissions: Sequence[str] = (),
) -> Installation:
    """Apply the overlay, and folders of config/rbac beside it, to the lab's cluster.

    Raises LabError.
    """
    say(f"kubectl apply --server-side -k operator/config/overlays/{overlay}")
    manifests = [
        *built(overlay),
        *(item for name in permissions for item in _built(f"rbac/{name}")),
    ]
    applied = [item for item in manifests if item["kind"] not in _NOT_APPLIED]
    with Api(state.kubeconfig) as api:
        for name in namespaces_of(manifests):
            make_namespace(api, name)
        _apply(state, applied)
        _wait_for_definitions(api, manifests)
    kubeconfig = operator.folder(state) / "kubeconfig"
    write_kubeconfig(kubeconfig, state.kubeconfig)
    folder = operator.folder(state) / "config"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = OperatorSettings(
        watches=_write_watches(folder, manifests),
        kubeconfig=kubeconfig,
        options=(*options_of(manifests), "--ansible-verbosity=0"),
        environment=_environment(state, heartbeat_seconds),
    )
    return Installation(state, settings, manifests)


def start(installation: Installation, say: Say) -> RunningInstallation:
    """Start operator, watcher and metrics endpoint; return when they are ready. Raises LabError."""
    running = operator.start(installation.state, installation.settings, say)
    try:
        port = operator.start_beside(
            installation.state, installation.settings, FOLDER / "entrypoints"
        )
    except BaseException:
        running.stop()
        raise
    return RunningInstallation(installation, running, port)


def built(overlay: str) -> list[JsonObject]:
    """The objects of an overlay. Raises LabError."""
    return _built(f"overlays/{overlay}")


def _built(folder: str) -> list[JsonObject]:
    path = FOLDER / "config" / folder
    return list(yaml.safe_load_all(_run([_kubectl(), "kustomize", str(path)])))


def namespaces_of(manifests: Sequence[JsonObject]) -> list[str]:
    """The namespaces that an overlay expects: it has objects in them and does not create them."""
    named = {item["metadata"].get("namespace") for item in manifests}
    brought = {item["metadata"]["name"] for item in manifests if item["kind"] == "Namespace"}
    return sorted(named - brought - {None, "kube-system"})


def write_kubeconfig(path: Path, admin: Path, **cluster: str) -> None:
    """Write a kubeconfig with a token of the operator's account, requested by the admin.

    ``cluster`` replaces or adds fields of the API server.
    """
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    with Api(admin) as api:
        asked = {"spec": {"expirationSeconds": _TOKEN_SECONDS}}
        token = api.request("POST", account, asked)["status"]["token"]
    document = json.loads(standalone_kubeconfig(admin))
    for user in document["users"]:
        user["user"] = {"token": token}
    for each in document["clusters"]:
        each["cluster"].update(cluster)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(document))


def options_of(manifests: Sequence[JsonObject]) -> list[str]:
    """The Deployment's options of ansible-operator, except for those that a lab chooses."""
    [deployment] = [item for item in manifests if item["kind"] == "Deployment"]
    [container] = [
        item
        for item in deployment["spec"]["template"]["spec"]["containers"]
        if item["name"] == "operator"
    ]
    return [
        option.replace("$(POD_NAMESPACE)", NAMESPACE)
        for option in container["args"][1:]
        if not option.startswith(_OWN_OPTIONS)
    ]


def _run(command: Sequence[str], given: str | None = None) -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"`{' '.join(command)}` failed: {done.stderr.strip()}.")
    return done.stdout


def _kubectl() -> str:
    return str(find_programs(lambda _text: None)["kubectl"])


def _apply(state: LabState, manifests: Sequence[JsonObject]) -> None:
    # The namespace is among them; kubectl applies in the given order.
    ordered = sorted(manifests, key=lambda item: item["kind"] != "Namespace")
    command = [_kubectl(), f"--kubeconfig={state.kubeconfig}", "apply", "--server-side"]
    _run([*command, "--filename=-"], yaml.safe_dump_all(ordered))


def _wait_for_definitions(api: Api, manifests: Sequence[JsonObject]) -> None:
    names = {
        item["metadata"]["name"] for item in manifests if item["kind"] == "CustomResourceDefinition"
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

    def are_served() -> bool:
        served = {
            item["metadata"]["name"]
            for item in api.request("GET", path)["items"]
            for one in item.get("status", {}).get("conditions", [])
            if one["type"] == "Established" and one["status"] == "True"
        }
        return names <= served

    wait_until(are_served, 30.0, "the CRDs to be served", interval=0.2)


def _write_watches(folder: Path, manifests: Sequence[JsonObject]) -> Path:
    """watches.yaml of the overlay's ConfigMap, and the playbooks that it names beside it."""
    [watches] = [
        item["data"]["watches.yaml"]
        for item in manifests
        if item["kind"] == "ConfigMap" and "watches.yaml" in item.get("data", {})
    ]
    (folder / "watches.yaml").write_text(watches)
    link = folder / "playbooks"
    link.unlink(missing_ok=True)
    link.symlink_to(FOLDER / "playbooks", target_is_directory=True)
    return folder / "watches.yaml"


def _environment(state: LabState, heartbeat_seconds: float | None) -> dict[str, str]:
    """The collection, and the Secret of the RMD daemons' clients as a folder."""
    mirror = synchronize() if not _in_a_collection() else REPOSITORY
    found = {"ANSIBLE_COLLECTIONS_PATH": str(mirror.parents[2])}
    if heartbeat_seconds is not None:
        found["WATTWISE_HEARTBEAT_SECONDS"] = f"{heartbeat_seconds:g}"
    pairs = certificates.folder(state)
    if pairs.exists():
        client = operator.folder(state) / _RMD_CLIENT
        client.mkdir(mode=0o700, parents=True, exist_ok=True)
        sources = {
            "ca.crt": state.ca_certificate,
            "tls.crt": pairs / f"{certificates.ADMIN}.pem",
            "tls.key": pairs / f"{certificates.ADMIN}-key.pem",
        }
        for name, source in sources.items():
            (client / name).touch(mode=0o600)
            (client / name).write_bytes(source.read_bytes())
        found["WATTWISE_RMD_CLIENT"] = str(client)
    return found


def _in_a_collection() -> bool:
    return REPOSITORY.parts[-3:-2] == ("ansible_collections",)
