# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The pods of a snapshot, found by the labels of a meter, with their workloads.

Every name in the document comes from the cluster. A label of a meter only selects a pod, and only
one on the meter's own node.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ...base.boundary import read_each
from ...base.fields import strict
from ...base.fields.lenient import member
from ...scheduling.workload import workload_of
from .kepler import PodName

# The kubelet's UID of a static pod, which differs from the UID in the API, and the annotation with
# which the kubelet marks such a pod. A tenant may write both.
_STATIC_UID, _MIRROR = "kubernetes.io/config.hash", "kubernetes.io/config.mirror"


@dataclass(frozen=True)
class Pod:
    """A running pod and its workload."""

    namespace: str
    name: str
    uid: str
    node: str
    workload_kind: str
    workload: str


class Pods:
    """The pods on nodes, by UID and by name."""

    def __init__(self, pods: t.Iterable[t.Any]) -> None:
        uids: dict[str, Pod] = {}
        static: dict[str, Pod | None] = {}
        self._by_name: dict[tuple[str, str], Pod] = {}
        for given, found in read_each(pods, "Pod", _read, []):
            if not found.node:
                continue
            uids.setdefault(found.uid, found)
            if static_uid := _static_uid(given):
                # The kubelet's one of two pods is unknown, so neither counts.
                static[static_uid] = None if static_uid in static else found
            self._by_name[found.namespace, found.name] = found
        # UIDs of the API server precede annotations, so no annotation can claim them.
        self._by_uid = {**{uid: pod for uid, pod in static.items() if pod is not None}, **uids}

    def find(self, name: PodName, node: str) -> Pod | None:
        """The pod of these labels, if it is on this node."""
        if name.uid:
            pod = self._by_uid.get(name.uid)
        else:
            pod = self._by_name.get((name.namespace, name.name))
        return pod if pod is not None and pod.node == node else None

    @property
    def namespaces(self) -> frozenset[str]:
        """Namespaces with pods."""
        return frozenset(pod.namespace for pod in self._by_name.values())

    @functools.cached_property
    def nodes(self) -> frozenset[str]:
        """Nodes with pods."""
        return frozenset(pod.node for pod in self._by_name.values())


def _static_uid(given: t.Any) -> str | None:
    """The UID of a static pod of the kubelet."""
    uid = member(given, "metadata", "annotations", _STATIC_UID)
    mirrored = member(given, "metadata", "annotations", _MIRROR)
    return uid if uid and uid == mirrored else None


def _read(given: t.Any) -> Pod:
    metadata = strict.with_readable_metadata(given)["metadata"]
    spec = strict.mapping(given.get("spec"), "spec")
    name = strict.required_text(metadata.get("name"), "metadata.name")
    workload = workload_of(given)
    return Pod(
        strict.text(metadata.get("namespace"), "metadata.namespace"),
        name,
        strict.text(metadata.get("uid"), "metadata.uid"),
        strict.text(spec.get("nodeName"), "spec.nodeName"),
        workload.kind,
        workload.name,
    )
