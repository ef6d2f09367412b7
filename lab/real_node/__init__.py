# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real node beside KWOK's: this machine, with a real kubelet and Debian's containerd.

It needs root. Pods use the host's network, because the API server listens on loopback alone; so
their ports are this machine's.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import pki
from lab.api import Api
from lab.controlplane import credentials
from lab.controlplane.components import REAL_NODE_LABEL
from lab.controlplane.programs import kubelet
from lab.errors import LabError
from lab.gotools import Say, build
from lab.process import REPOSITORY, wait_until
from lab.state import LabState

NAME = "real-1"
NODE_SELECTOR = {REAL_NODE_LABEL: "true"}
# Holds the namespaces of a pod; kubelet never pulls it.
PAUSE_IMAGE = "localhost/wattwise-pause:1"
KUBELET_PORT = 10350
READY_SECONDS = 120.0
END_SECONDS = 90.0


@dataclass(frozen=True)
class RealNode:
    """The node, ready for pods of the imported images."""

    folder: Path

    @property
    def logs(self) -> str:
        """The end of each container's log."""
        return "\n".join(
            f"{path.relative_to(self.folder)}:\n{_end_of(path)}"
            for path in sorted((self.folder / "logs").rglob("*.log"))
        )

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    def import_images(self, archive: Path) -> None:
        """Import the images of an archive, as `podman save` writes it."""
        self.ctr("images", "import", str(archive))

    def ctr(self, *words: str) -> str:
        """Output of containerd's client. Raises LabError."""
        command = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(f"`{' '.join(command)}` failed: {done.stderr.strip()}.")
        return done.stdout

    def kill(self, container_id: str) -> None:
        """Kill the main process of a container, as the kernel does when memory is short."""
        self.ctr("tasks", "kill", "--signal", "SIGKILL", container_id)


@contextlib.contextmanager
def running(state: LabState, archives: Sequence[Path], say: Say) -> Iterator[RealNode]:
    """Start the node, import images and wait until it is Ready; at the end nothing is left of it.

    One of the images is PAUSE_IMAGE. Raises LabError.
    """
    program = build(kubelet(), say) / "kubelet"
    port = state.read_settings().ports["kube-apiserver"]
    # The path of containerd's socket may have 104 characters.
    folder = Path(tempfile.mkdtemp(prefix="wattwise-node-"))
    node = RealNode(folder)
    _write_configuration(state, folder, port)
    command = [sys.executable, "-m", "lab.real_node.supervisor"]
    log = (folder / "supervisor.log").open("w")
    supervisor = subprocess.Popen(
        [*command, str(folder), str(program), str(port)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    assert supervisor.stdin and supervisor.stdout
    try:
        if supervisor.stdout.readline() != "ready\n":
            raise LabError(f"The real node did not start: {_end_of(folder / 'supervisor.log')}")
        wait_until(node.socket.exists, READY_SECONDS, "containerd's socket")
        for archive in archives:
            node.import_images(archive)
        with Api(state.kubeconfig) as api:
            wait_until(lambda: _is_ready(api), READY_SECONDS, f"node {NAME} to be Ready")
        yield node
    except BaseException:
        for name in ("kubelet", "containerd"):
            say(f"the end of {name}'s log:\n{_end_of(folder / f'{name}.log')}")
        raise
    finally:
        supervisor.stdin.close()
        try:
            supervisor.wait(END_SECONDS)
        finally:
            log.close()
            supervisor.stdout.close()
            with Api(state.kubeconfig) as api, contextlib.suppress(LabError):
                api.request("DELETE", f"/api/v1/nodes/{NAME}")
            shutil.rmtree(folder, ignore_errors=True)


def _end_of(path: Path) -> str:
    return path.read_text(errors="replace")[-3000:] if path.exists() else ""


def _is_ready(api: Api) -> bool:
    found = api.find(f"/api/v1/nodes/{NAME}") or {}
    conditions = found.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _write_configuration(state: LabState, folder: Path, port: int) -> None:
    """The files of containerd and kubelet, below the folder."""
    network = folder / "network"
    network.mkdir()
    # Only tells kubelet that there is a network; pods on the host's network need none.
    plugins = {"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "loopback"}]}
    (network / "10-none.conflist").write_text(json.dumps(plugins))
    (folder / "containerd.toml").write_text(
        f"""version = 2
root = "{folder}/images"
state = "{folder}/containers"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{folder}/network"
    conf_dir = "{folder}/network"
"""
    )
    configuration = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": KUBELET_PORT,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(state.pki / "ca.pem")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        # No groups and no chains of iptables beside those of the containers.
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "makeIPTablesUtilChains": False,
        "localStorageCapacityIsolation": False,
        # Other programs of this machine may need much of its memory and disk.
        "evictionHard": {"memory.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
        "syncFrequency": "10s",
        "podLogsDir": str(folder / "logs"),
    }
    (folder / "kubelet.json").write_text(json.dumps(configuration))
    authority = pki.load_authority(state.pki)
    user, keys = f"system:node:{NAME}", folder / "pki"
    keys.mkdir(mode=0o700)
    files = pki.issue(authority, user, [], [], keys, True, ("system:nodes",))
    kubeconfig = keys / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(
        credentials.kubeconfig_text(user, port, authority.files.certificate, files)
    )
    options = (
        f"--config={folder}/kubelet.json",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={NAME}",
        *(f"--node-labels={key}={value}" for key, value in NODE_SELECTOR.items()),
        f"--root-dir={folder}/kubelet",
        f"--cert-dir={folder}/pki",
        "--v=1",
    )
    (folder / "kubelet.options").write_text("\n".join(options))
