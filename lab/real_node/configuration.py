# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of containerd and kubelet for a node whose pods have a bridge of their own."""

from __future__ import annotations

import copy
import dataclasses
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import pki
from lab.controlplane import credentials
from lab.controlplane.components import REAL_NODE_LABEL
from lab.state import LabState

NAME = "real-1"
NODE_SELECTOR = {REAL_NODE_LABEL: "true"}
# Holds the namespaces of a pod; kubelet never pulls it.
PAUSE_IMAGE = "localhost/wattwise-pause:1"
BRIDGE = "wattwise0"
# In the range of the lab's Services, as its API server's address.
DNS_ADDRESS = "10.96.0.10"
CLUSTER_DOMAIN = "cluster.local"
# Addresses of other programs that pods reach.
_ADDRESSES = "10.96.1.{}"
_KUBELET_PORT = 10350
_CONTAINERD = """version = 2
root = "{folder}/images"
state = "{folder}/containers"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/network"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    base_runtime_spec = "{folder}/container.json"
"""
# Kernels without Intel RDT have no folder resctrl in sysfs, on which a container could mount one.
_FOLDER_OF_RESCTRL = {"destination": "/sys/fs", "type": "tmpfs", "source": "tmpfs"}
# No masquerading: pods reach this machine, and nothing beyond it.
_NETWORK: dict[str, Any] = {
    "cniVersion": "0.4.0",
    "name": "wattwise",
    "plugins": [
        {
            "type": "bridge",
            "bridge": BRIDGE,
            "isGateway": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.201.0.0/24"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}


@dataclass(frozen=True)
class Place:
    """A name and an address for pods, at which they reach a program on loopback."""

    name: str
    address: str
    port: int
    target: str
    target_port: int


def write_places(folder: Path, api_port: int, programs: Mapping[str, tuple[str, int]]) -> None:
    """The places of the API server and of programs, which have their own ports there too."""
    name = f"kubernetes.default.svc.{CLUSTER_DOMAIN}"
    places = [Place(name, credentials.SERVICE_ADDRESS, 443, "127.0.0.1", api_port)]
    for number, (name, (target, port)) in enumerate(programs.items(), start=1):
        places.append(Place(name, _ADDRESSES.format(number), port, target, port))
    text = json.dumps([dataclasses.asdict(each) for each in places])
    (folder / "places.json").write_text(text)


def read_places(folder: Path) -> list[Place]:
    return [Place(**each) for each in json.loads((folder / "places.json").read_text())]


def write_configuration(state: LabState, folder: Path, api_port: int) -> None:
    """Write all files below the folder."""
    (folder / "network").mkdir()
    plugins = copy.deepcopy(_NETWORK)
    # Assigned addresses would otherwise outlive the node.
    plugins["plugins"][0]["ipam"]["dataDir"] = str(folder / "addresses")
    (folder / "network" / "10-wattwise.conflist").write_text(json.dumps(plugins))
    (folder / "containerd.toml").write_text(_CONTAINERD.format(folder=folder, image=PAUSE_IMAGE))
    specification = json.loads(subprocess.check_output(["ctr", "oci", "spec"], text=True))
    specification["mounts"].append(_FOLDER_OF_RESCTRL)
    (folder / "container.json").write_text(json.dumps(specification))
    (folder / "kubelet.json").write_text(json.dumps(_kubelet(state, folder)))
    (folder / "resolv.conf").write_text(f"nameserver {DNS_ADDRESS}\n")
    options = (
        f"--config={folder}/kubelet.json",
        f"--kubeconfig={_write_kubeconfig(state, folder, api_port)}",
        f"--hostname-override={NAME}",
        *(f"--node-labels={key}={value}" for key, value in NODE_SELECTOR.items()),
        f"--root-dir={folder}/kubelet",
        f"--cert-dir={folder}/pki",
        "--v=1",
    )
    (folder / "kubelet.options").write_text("\n".join(options))


def _kubelet(state: LabState, folder: Path) -> dict[str, object]:
    """A KubeletConfiguration."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": _KUBELET_PORT,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(state.pki / "ca.pem")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "podLogsDir": str(folder / "logs"),
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": CLUSTER_DOMAIN,
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        # Pods with whole CPUs get them for themselves, as caches are given to CPUs.
        "cpuManagerPolicy": "static",
        "systemReserved": {"cpu": "100m"},
        "enforceNodeAllocatable": [],
        # The machine's own file may name a folder that the node does not have.
        "resolvConf": str(folder / "resolv.conf"),
        "makeIPTablesUtilChains": False,
        # Other programs of this machine may need much of its memory and disk.
        "evictionHard": {"memory.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
        "syncFrequency": "10s",
    }


def _write_kubeconfig(state: LabState, folder: Path, api_port: int) -> Path:
    """The kubeconfig of the node's account; its path."""
    keys = folder / "pki"
    keys.mkdir(mode=0o700)
    authority = pki.load_authority(state.pki)
    user = f"system:node:{NAME}"
    files = pki.issue(authority, user, [], [], keys, True, ("system:nodes",))
    path = keys / "kubeconfig"
    path.touch(mode=0o600)
    certificate = authority.files.certificate
    path.write_text(credentials.kubeconfig_text(user, api_port, certificate, files))
    return path
