# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Where the objects of RMD and the pods of its daemons are read."""

from __future__ import annotations

from ..base.json_types import MutableObject
from ..kube.source import Source, identified, selected_fields, trim_custom

_PATH = "/apis/intel.com/v1alpha1"


def trim_daemon(pod: MutableObject) -> MutableObject:
    """Address and readiness of the daemon in a pod."""
    status = pod.get("status", {})
    containers = [
        selected_fields(container, "name", "ports")
        for container in pod["spec"].get("containers") or []
    ]
    return identified(
        pod,
        spec={**selected_fields(pod["spec"], "nodeName", "hostNetwork"), "containers": containers},
        status=selected_fields(status, "phase", "podIP", "podIPs", "conditions"),
    )


RMD_WORKLOADS = Source((f"{_PATH}/rmdworkloads",), trim_custom, {}, optional=True)
RMD_NODE_STATES = Source((f"{_PATH}/rmdnodestates",), trim_custom, {}, optional=True)
RMD_CONFIGS = Source((f"{_PATH}/rmdconfigs",), trim_custom, {}, optional=True)
# Upstream label of the daemons' pods.
RMD_PODS = Source(("/api/v1/pods",), trim_daemon, {"labelSelector": "name=rmd-pod"}, optional=False)
