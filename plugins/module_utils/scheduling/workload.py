# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The workload of a pod: its controller, the Deployment of its ReplicaSet, or the pod itself."""

from __future__ import annotations

import typing as t

from .pod_reader import controller_of

_HASH_LABEL = "pod-template-hash"


class Workload(t.NamedTuple):
    """Namespace, kind and name."""

    namespace: str
    kind: str
    name: str


def workload_of(pod: t.Mapping[str, t.Any]) -> Workload:
    """The workload of a pod with readable metadata (``strict.with_readable_metadata``)."""
    metadata = pod["metadata"]
    namespace, name = metadata.get("namespace") or "", metadata["name"]
    controller = controller_of(pod)
    kind, given = controller.get("kind"), controller.get("name")
    # The Node that owns a static pod of a kubelet is no workload.
    if not kind or not given or kind == "Node":
        return Workload(namespace, "Pod", name)
    ending = f"-{(metadata.get('labels') or {}).get(_HASH_LABEL)}"
    if kind == "ReplicaSet" and given.endswith(ending) and given != ending:
        return Workload(namespace, "Deployment", given[: -len(ending)])
    return Workload(namespace, kind, given)
