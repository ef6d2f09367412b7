# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The CPUs that containers have to themselves, read on the node where they run."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.argspec import ArgumentSpec
from ansible_collections.wattwise.kube.plugins.module_utils.context import (
    Context,
    Parameters,
    Result,
)
from ansible_collections.wattwise.kube.plugins.module_utils.errors import (
    InvalidInput,
    TargetFailure,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.cgroup import ControlGroups
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.exclusive import (
    ExclusiveContainer,
    exclusive_containers,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.kubelet import (
    CpuManagerState,
    PodResources,
)

SPEC = ArgumentSpec(
    {
        "pods": {"type": "list", "elements": "dict", "required": True},
        "node_name": {"type": "str"},
        "root": {"type": "path", "default": "/"},
        "source": {
            "type": "str",
            "choices": ["auto", "cgroup", "cpu_manager", "pod_resources"],
            "default": "auto",
        },
        "timeout": {"type": "float", "default": 10.0},
    }
)
_CHECKPOINT = "var/lib/kubelet/cpu_manager_state"
_SOCKET = "var/lib/kubelet/pod-resources/kubelet.sock"
_ENDED = ("Succeeded", "Failed")


class Source(t.Protocol):
    """Where CPU sets are read."""

    def cpus(self, container: ExclusiveContainer) -> tuple[int, ...]:
        """CPUs of the container. Raises TargetFailure."""


def read_cpusets(parameters: Parameters, _context: Context = Context()) -> Result:
    """``containers`` with their CPUs, and ``errors`` for those whose CPUs could not be told.

    Raises InvalidInput for a pod without name or UID.
    """
    options = SPEC.complete(parameters)
    sources = _sources(options)
    wanted = [each for pod in _running(options) for each in exclusive_containers(pod)]
    containers: list[dict[str, t.Any]] = []
    errors: list[dict[str, t.Any]] = []
    for container in wanted:
        identity = {
            "pod_uid": container.pod_uid,
            "namespace": container.namespace,
            "pod": container.pod,
            "container": container.name,
        }
        try:
            containers.append({**identity, "cpus": list(_cpus(container, sources))})
        except TargetFailure as failure:
            errors.append({**identity, "reason": failure.reason, "detail": failure.detail})
    return {"changed": False, "containers": containers, "errors": errors}


def _running(options: t.Mapping[str, t.Any]) -> t.Iterator[t.Mapping[str, t.Any]]:
    """The pods that are on the node, as far as it is named, and have not ended."""
    node = options["node_name"]
    for pod in options["pods"]:
        on_node = not node or (pod.get("spec") or {}).get("nodeName") == node
        if on_node and (pod.get("status") or {}).get("phase") not in _ENDED:
            yield pod


def _sources(options: t.Mapping[str, t.Any]) -> list[Source]:
    root = Path(options["root"])
    if not root.is_dir():
        raise InvalidInput(f"root: there is no folder {root}")
    groups, checkpoint = ControlGroups(root), CpuManagerState(root / _CHECKPOINT)
    by_name: dict[str, list[Source]] = {
        "auto": [groups, checkpoint],
        "cgroup": [groups],
        "cpu_manager": [checkpoint],
        "pod_resources": [PodResources(root / _SOCKET, options["timeout"])],
    }
    return by_name[options["source"]]


def _cpus(container: ExclusiveContainer, sources: t.Sequence[Source]) -> tuple[int, ...]:
    if not container.id:
        raise TargetFailure("not_found", "the container has not been started yet; run again later")
    failures: list[TargetFailure] = []
    for source in sources:
        try:
            cpus = source.cpus(container)
        except InvalidInput as error:
            failures.append(TargetFailure("malformed", str(error)))
        except TargetFailure as failure:
            failures.append(failure)
        else:
            return _checked(container, cpus)
    raise TargetFailure(failures[0].reason, "; ".join(each.detail for each in failures))


def _checked(container: ExclusiveContainer, cpus: tuple[int, ...]) -> tuple[int, ...]:
    """The CPUs, if they are as many as were asked for: others use all that are shared."""
    if len(cpus) != container.cpu_count:
        raise TargetFailure(
            "implausible",
            f"the container runs on {len(cpus)} CPUs and asked for {container.cpu_count}, so they"
            " are not its own; set kubelet's --cpu-manager-policy to static",
        )
    return cpus
