# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lab nodes with simulated RMD daemons, and runs of the ``rmd_workloads`` role on them."""

from __future__ import annotations

import contextlib
import json
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.reconciliation import reconcile
from support.playbook import PlaybookRun, run_playbook
from support.rmd import RmdDaemons

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tests" / "conformance" / "rmd"
GROUP = "/apis/intel.com/v1alpha1"


@dataclass
class Walk:
    """Daemons on two nodes of the lab's cluster, and runs of the role from an inventory."""

    kube: Kube
    kubeconfig: str
    daemons: RmdDaemons
    nodes: list[str]
    folder: Path

    def create(self, name: str, **spec: t.Any) -> str:
        """One of upstream's samples in the namespace `default`, on the nodes of the lab."""
        manifest: MutableObject = yaml.safe_load((SAMPLES / f"{name}.yaml").read_text())
        manifest["metadata"]["namespace"] = "default"
        manifest["spec"] = {**manifest["spec"], "nodes": self.nodes, **spec}
        apply({"kubeconfig": self.kubeconfig, "manifests": [manifest]})
        return str(manifest["metadata"]["name"])

    @property
    def endpoints(self) -> dict[str, str]:
        return dict(zip(self.nodes, self.daemons.endpoints.values(), strict=True))

    def run(self, **client: t.Any) -> MutableObject:
        """Call the function of rmd_cluster_reconciliation without Ansible."""
        return reconcile(
            {
                "kubeconfig": self.kubeconfig,
                "endpoints": self.endpoints,
                "daemons": {**self.daemons.tls, **client},
                "prune_max": 1.0,
                "run_dir": str(self.folder),
            }
        )

    def leave_client_files(self) -> None:
        """The document of the ``rmd`` role in the run folder, for these daemons."""
        folder = self.folder / "runs" / "walk" / "rmd"
        folder.mkdir(parents=True, exist_ok=True)
        names = {"ca_path": "ca.pem", "client_cert": "cert.pem", "client_key": "key.pem"}
        for option, name in names.items():
            (folder / name).write_bytes(Path(self.daemons.tls[option]).read_bytes())

    def playbook(self, *arguments: str, expect: int = 0, **variables: t.Any) -> PlaybookRun:
        self.leave_client_files()
        given = {
            "wattwise_kubeconfig": self.kubeconfig,
            "wattwise_run_dir": str(self.folder / "runs"),
            "rmd_endpoints": self.endpoints,
            **variables,
        }
        inventory = self.folder / "inventory.json"
        inventory.write_text(json.dumps({"clusters": {"hosts": {"walk": given}}}))
        arguments = ("-i", str(inventory), "--tags", "rmd_workloads", *arguments)
        done = run_playbook("wattwise.kube.rmd", self.folder, *arguments, as_json=True)
        assert done.returncode == expect, done.output
        return done

    def workload(self, name: str) -> MutableObject:
        return self.kube.get(f"{GROUP}/namespaces/default/rmdworkloads/{name}")

    def states(self, name: str) -> MutableObject:
        return t.cast("MutableObject", self.workload(name)["status"]["workloadStates"])

    def versions(self, name: str) -> list[str]:
        objects = [self.workload(name), *map(self.node_state, self.nodes)]
        return [obj["metadata"]["resourceVersion"] for obj in objects]

    def node_state(self, node: str) -> MutableObject:
        return self.kube.get(f"{GROUP}/namespaces/rmd-system/rmdnodestates/rmd-node-state-{node}")


@contextlib.contextmanager
def walking(daemons: RmdDaemons, kube: Kube, kubeconfig: str, folder: Path) -> Iterator[Walk]:
    """The first nodes of the lab with these daemons; all traces of RMD are removed at the end."""
    files = sorted((ROOT / "roles" / "crds" / "files").glob("intel.com_*.yaml"))
    apply({"kubeconfig": kubeconfig, "src": list(map(str, files)), "wait": True})
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rmd-system"}}
    apply({"kubeconfig": kubeconfig, "manifests": [made], "field_manager": "wattwise-rmd"})
    names = sorted(node["metadata"]["name"] for node in kube.list("/api/v1/nodes"))
    try:
        yield Walk(kube, kubeconfig, daemons, names[: len(daemons.endpoints)], folder)
    finally:
        for kind, namespace in (("rmdworkloads", "default"), ("rmdnodestates", "rmd-system")):
            path = f"{GROUP}/namespaces/{namespace}/{kind}"
            for obj in kube.list(path):
                kube.request("DELETE", f"{path}/{obj['metadata']['name']}")
        for name in daemons.endpoints:
            for key in list(daemons[name].workloads):
                daemons[name].delete(key)
