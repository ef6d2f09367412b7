# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""This machine after the process with the real node was killed, as by a time limit of CI."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab.gotools import cache_folder
from lab.locks import is_held
from lab.process import wait_until
from lab.real_node import NAME, PAUSE_IMAGE
from lab.real_node.configuration import DNS_ADDRESS
from lab.real_node.supervisor import KERNEL_SETTINGS, control_groups
from support.dockerfile import ROOT
from support.lab import RunningLab, kubeconfig, lab, lab_state
from support.real_cluster import SECONDS, WORK, archive, run

__all__ = ["archive", "kubeconfig", "lab", "lab_state"]

LOCK = cache_folder() / "real-node.lock"
FOLDERS = "wattwise-node-*"
# Folders in which containerd, kubelet and plugins keep files by default.
DEFAULTS = ("/run", "/var/lib", "/var/log", "/etc/cni", "/opt")
SCRIPT = """
import sys
from pathlib import Path
from lab import real_node
from lab.state import LabState
with real_node.running(LabState(Path(sys.argv[1])), [Path(sys.argv[2])], lambda text: None):
    print("ready", flush=True)
    sys.stdin.read()
"""


def node_folders() -> list[Path]:
    return sorted(Path(tempfile.gettempdir()).glob(FOLDERS))


def programs() -> list[str]:
    """Programs of a node, and those in its containers."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes().decode(errors="replace")
            is_own = "wattwise-node-" in command or DNS_ADDRESS in command
            if is_own or "kubepods" in (process / "cgroup").read_text():
                found.append(process.name)
    return sorted(found)


def machine() -> dict[str, object]:
    """All that a node changes on its machine; other tests may start containers meanwhile."""
    links = json.loads(run("ip", "-json", "address"))
    tables = [each for each in ("iptables-save", "ip6tables-save") if shutil.which(each)]
    return {
        "settings": {name: Path("/proc/sys", name).read_text() for name in KERNEL_SETTINGS},
        "addresses": {
            link["ifname"]: [each["local"] for each in link["addr_info"]] for link in links
        },
        "routes": run("ip", "route", "show", "table", "all").splitlines(),
        "chains": [line for each in tables for line in run(each).splitlines() if line[0] in ":-"],
        "mounts": [
            line
            for line in Path("/proc/self/mounts").read_text().splitlines()
            if line.startswith("node ") or "wattwise-node-" in line
        ],
        "groups": sorted(control_groups()),
        "programs": programs(),
        "files": [sorted(Path(each).iterdir()) for each in DEFAULTS if Path(each).exists()],
        "folders": node_folders(),
    }


def is_running(kube: Kube) -> bool:
    return str(kube.get(f"{WORK}/left").get("status", {}).get("phase")) == "Running"


def test_a_killed_gate_leaves_the_machine_as_it_was(lab: RunningLab, archive: Path) -> None:
    """Mounts of the machine are shared, as systemd makes them, and get none of the node's."""
    kube = Kube.connect({"kubeconfig": lab.kubeconfig})
    before, folders = machine(), node_folders()
    shared = ("unshare", "--mount", "--propagation", "shared")
    command = [*shared, sys.executable, "-c", SCRIPT, str(lab.state.root), str(archive)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as gate:
        assert gate.stdout is not None
        try:
            assert gate.stdout.readline() == "ready\n"
            spec = {"nodeName": NAME, "containers": [{"name": "main", "image": PAUSE_IMAGE}]}
            kube.request("POST", WORK, {"metadata": {"name": "left"}, "spec": spec})
            wait_until(lambda: is_running(kube), SECONDS, "the pod to run")
            [folder] = set(node_folders()) - set(folders)
            assert folder.name not in Path(f"/proc/{gate.pid}/mounts").read_text()
            during = machine()
            changed = {name for name in before if during[name] != before[name]}
            assert {"settings", "addresses", "groups", "programs", "folders"} <= changed
        finally:
            gate.kill()
    wait_until(lambda: not is_held(LOCK), SECONDS, "the end of the node")
    assert machine() == before
    kube.request("DELETE", f"{WORK}/left?gracePeriodSeconds=0")
    kube.request("DELETE", f"/api/v1/nodes/{NAME}")
