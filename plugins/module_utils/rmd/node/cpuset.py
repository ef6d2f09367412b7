# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Exclusive CPUs of containers, read on their node."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

from ...base.argspec import ArgumentSpec
from ...base.boundary import Finding, Subject, guarded, subject_of, warn_of
from ...base.context import Context, Parameters, Result
from ...base.errors import InvalidInput, TargetFailure
from ...base.json_types import Object
from .cgroup import ControlGroups
from .exclusive import ExclusiveContainer, exclusive_containers
from .kubelet import CpuManagerState, PodResources

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


# Each has the CPUs of a container by its method ``cpus``.
Source = t.Union[ControlGroups, CpuManagerState, PodResources]


def read_cpusets(parameters: Parameters, context: Context = Context()) -> Result:
    """``containers`` with their CPUs, and ``errors`` of containers without known CPUs.

    Unreadable pods are in ``findings``. Raises InvalidInput for a missing root.
    """
    options = SPEC.complete(parameters)
    sources = _sources(options)
    containers: list[dict[str, t.Any]] = []
    errors: list[dict[str, t.Any]] = []
    findings: list[Finding] = []
    for index, pod in enumerate(options["pods"]):
        subject = subject_of(pod, "Pod", f"pods[{index}]")
        wanted = guarded(subject, functools.partial(_wanted, pod, options["node_name"]))
        if isinstance(wanted, Finding):
            findings.append(wanted)
            continue
        for container in wanted:
            identity = {
                "pod_uid": container.pod_uid,
                "namespace": container.namespace,
                "pod": container.pod,
                "container": container.name,
            }
            found = _read(container, sources)
            if isinstance(found, TargetFailure):
                errors.append({**identity, "reason": found.reason, "detail": found.detail})
            else:
                containers.append({**identity, "cpus": list(found)})
    warn_of(findings, context)
    told = [finding.as_dict() for finding in findings]
    return {"changed": False, "containers": containers, "errors": errors, "findings": told}


def _wanted(pod: Object, node: str | None) -> list[ExclusiveContainer]:
    """Containers of a pod that has not ended and is on the node, if a node is named."""
    on_node = not node or (pod.get("spec") or {}).get("nodeName") == node
    has_ended = (pod.get("status") or {}).get("phase") in _ENDED
    return exclusive_containers(pod) if on_node and not has_ended else []


def _read(
    container: ExclusiveContainer, sources: t.Sequence[Source]
) -> tuple[int, ...] | TargetFailure:
    """The CPUs or the error; any content of the node's files affects only this container."""
    subject = Subject("container", container.name)

    def read() -> tuple[int, ...] | TargetFailure:
        try:
            return _cpus(container, sources)
        except TargetFailure as failure:
            return failure

    found = guarded(subject, read)
    return TargetFailure("malformed", found.problem) if isinstance(found, Finding) else found


def _sources(options: Object) -> list[Source]:
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
    """The CPUs, if their number equals the request; other containers use all shared CPUs."""
    if len(cpus) != container.cpu_count:
        raise TargetFailure(
            "implausible",
            f"the container runs on {len(cpus)} CPUs and requested {container.cpu_count}, so they"
            " are not its own; set kubelet's --cpu-manager-policy to static",
        )
    return cpus
