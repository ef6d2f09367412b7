# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work for a run: pending pods and requests for cache ways; and the documents of a run."""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Iterator

import yaml

from lab import rmd, workload
from lab.api import Api
from lab.machines import build_machines
from support.lab import RunningLab
from support.pages import ROOT

Json = dict[str, t.Any]

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/wattwise-binding"
RMD_SAMPLE = ROOT / "tests" / "conformance" / "rmd" / "rmdworkload-guaranteed-cache.yaml"


@contextlib.contextmanager
def waiting_pods(lab: RunningLab) -> Iterator[None]:
    """Two pods that can be placed, and one that fits nowhere."""
    with Api(lab.state.kubeconfig) as api:
        workload.make_namespace(api)
        workload.delete_pods(api, lab.settings)
        pods = workload.demo_pods(3, seed=1)
        pods[0]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500"
        workload.create_pods(api, pods, "wattwise")
        yield
        workload.delete_pods(api, lab.settings)


def rmd_workload(lab: RunningLab) -> Json:
    """Cache ways for two nodes with running daemons."""
    manifest: Json = yaml.safe_load(RMD_SAMPLE.read_text())
    machines = build_machines(lab.settings.nodes, lab.settings.racks, lab.settings.seed)
    manifest["metadata"]["namespace"] = "default"
    manifest["spec"]["nodes"] = sorted(rmd.endpoints(machines, lab.settings))[:2]
    return manifest
