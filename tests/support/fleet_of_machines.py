# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PowerFleet of some machines of the lab, reconciled without an operator."""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import MERGE_CONTENT_TYPE
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import (
    CURVE_ANNOTATION,
    POWER_SECRET_ANNOTATION,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.ownership import OWNER
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.reconciliation import (
    reconcile,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import path_of
from support.power_switching import accounts
from support.sleeping_lab import LABEL, SleepingLab

Json = dict[str, t.Any]
DEFINITIONS = Path(__file__).resolve().parents[2] / "roles" / "crds" / "files"
_CURVE = '{"idle": 60, "max": 700}'


class FleetOfMachines:
    """A PowerFleet of the machines, whose runs have their NodeConfigs and accounts."""

    def __init__(self, machines: SleepingLab, folder: Path, name: str = "fleet") -> None:
        self.machines, self.kube, self.folder = machines, machines.kube, folder
        self.name, self.path = name, path_of(machines.namespace, name)
        self.warnings: list[str] = []

    def __enter__(self) -> t.Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self.kube.find(self.path) is not None:
            self.patch({"metadata": {"finalizers": None}})
            with contextlib.suppress(ApiError):
                self.kube.request("DELETE", self.path)

    def patch(self, body: Json) -> None:
        self.kube.request("PATCH", self.path, body, MERGE_CONTENT_TYPE)

    def create(self, label: str = "", **spec: t.Any) -> None:
        """The fleet of the nodes with this value of LABEL, by default of the lab's machines."""
        lab, namespace = self.machines.lab, self.machines.namespace
        names = ("wattwise.github.io_powerfleets.yaml", "wao.bitmedia.co.jp_nodeconfigs.yaml")
        sources = [str(DEFINITIONS / name) for name in names]
        apply({"kubeconfig": lab.kubeconfig, "src": sources, "wait": True})
        fleet = {
            "apiVersion": "wattwise.github.io/v1alpha1",
            "kind": "PowerFleet",
            "metadata": {"name": self.name, "namespace": namespace},
            "spec": {
                "nodeSelector": {"matchLabels": {LABEL: label or namespace}},
                "placement": {"schedulerName": f"s-{namespace}"},
                **spec,
            },
        }
        manifests = [*self._secrets(), *self._node_configs(), fleet]
        apply({"kubeconfig": lab.kubeconfig, "manifests": manifests})

    def _secrets(self) -> list[Json]:
        authority = self.machines.lab.state.ca_certificate.read_text()
        return [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": self.machines.namespace},
                "stringData": {**account, "ca.crt": authority},
            }
            for name, account in accounts(self.machines.machines[0]).items()
        ]

    def _node_configs(self) -> list[Json]:
        found = self.machines.snapshot()["node_configs"]
        for config in found:
            config["metadata"] = {
                "name": config["metadata"]["name"],
                "namespace": self.machines.namespace,
                "annotations": {POWER_SECRET_ANNOTATION: "switcher", CURVE_ANNOTATION: _CURVE},
            }
            config["spec"]["metricsCollector"]["inletTemp"]["basicAuthSecret"] = {"name": "reader"}
        return list(found)

    def put_to_sleep(self) -> list[str]:
        """The machines that sleep after a run with this fleet as their owner."""
        self.run()
        self.machines.run(owner=f"{OWNER}{self.machines.namespace}/{self.name}")
        return self.machines.asleep()

    def run(self) -> Json:
        given = {"kubeconfig": self.machines.lab.kubeconfig, "run_dir": str(self.folder)}
        self.warnings.clear()
        return reconcile(
            {**given, "namespace": self.machines.namespace, "name": self.name},
            Context(warn=self.warnings.append),
        )
