# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reservation of hosts by marks on their BareMetalHosts, and release.

Each mark is written on condition of the version that was read. One of two writers is refused, reads
again, and finds another host. No host is shared with other writers: Metal3, Cluster API or another
Provisioning.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.errors import ApiError
from ...kube.client import MERGE_CONTENT_TYPE, Kube
from ..bare_metal_host import API_VERSION as HOST_VERSION
from ..bare_metal_host import KIND as HOST_KIND
from ..host import Host
from ..provisioning import API_VERSION, KIND
from ..roles.availability import (
    CLUSTER_LABEL,
    PROVISIONING_ANNOTATION,
    ROLE_LABEL,
    HostKey,
    Owner,
    host_text,
    key_of,
)

Mark = t.Literal["consumer", "labels"]
MARKS: tuple[Mark, ...] = t.get_args(Mark)
Labels = t.Mapping[HostKey, t.Mapping[str, str]]


@dataclass(frozen=True)
class Change:
    """A change of one host's mark; ``patch`` is a JSON merge patch."""

    host: Host
    patch: t.Mapping[str, t.Any]
    action: str

    @property
    def before_and_after(self) -> tuple[str, t.Any, t.Any]:
        """The entry of a difference."""
        before = {"consumer": self.host.consumer or "", "labels": _own_labels(self.host)}
        return host_text(self.host), before, self.patch


def reserving(hosts: t.Sequence[Host], wanted: Labels, owner: Owner, mark: Mark) -> list[Change]:
    """Changes that mark the wanted hosts. ``wanted`` are the labels of each by its key."""
    changes = []
    for host in hosts:
        labels = wanted.get(key_of(host))
        if labels is None or host.source != HOST_KIND:
            continue
        patch = _marking(host, labels, owner, mark)
        if patch:
            changes.append(Change(host, patch, "reserved"))
    return changes


def releasing(hosts: t.Sequence[Host], kept: t.Container[HostKey], owner: Owner) -> list[Change]:
    """Changes that remove this owner's marks from all hosts except the kept ones."""
    changes = []
    for host in hosts:
        if key_of(host) in kept or host.source != HOST_KIND:
            continue
        patch = _unmarking(host, owner)
        if patch:
            changes.append(Change(host, patch, "released"))
    return changes


class Refused(t.NamedTuple):
    """A change that was not written; ``problem`` is empty for a changed or deleted host."""

    change: Change
    problem: str = ""


def write(kube: Kube, changes: t.Sequence[Change], check_mode: bool) -> list[Refused]:
    """Write each change if its host is unchanged; return the refused ones.

    A CRD or an admission policy may refuse one host (HTTP 400, 422) and accept the others.
    Raises ApiError for any other failure.
    """
    query = {"dryRun": "All"} if check_mode else {}
    resource = kube.resource(HOST_VERSION, HOST_KIND)

    def send(change: Change) -> Refused | None:
        host = change.host
        metadata = {**change.patch.get("metadata", {}), "resourceVersion": host.resource_version}
        body = {**change.patch, "metadata": metadata}
        path = resource.path(host.name, host.namespace)
        try:
            kube.request("PATCH", path, body, MERGE_CONTENT_TYPE, query)
        except ApiError as error:
            if error.status in (404, 409):
                return Refused(change)
            if error.status in (400, 422):
                return Refused(change, str(error))
            raise
        return None

    return [refused for refused in kube.in_parallel(send, changes) if refused is not None]


def _marking(host: Host, labels: t.Mapping[str, str], owner: Owner, mark: Mark) -> dict[str, t.Any]:
    if mark == "consumer":
        patch = {} if _annotation(host) != owner.title else _unlabelled()
        if host.consumer != owner.consumer:
            reference = {"namespace": owner.namespace, "name": owner.name}
            consumer = {"apiVersion": API_VERSION, "kind": KIND, **reference}
            patch["spec"] = {"consumerRef": consumer}
        return patch
    patch = {}
    if _annotation(host) != owner.title or _own_labels(host) != labels:
        annotations = {PROVISIONING_ANNOTATION: owner.title}
        patch["metadata"] = {"labels": dict(labels), "annotations": annotations}
    if host.consumer == owner.consumer:
        patch["spec"] = {"consumerRef": None}
    return patch


def _unmarking(host: Host, owner: Owner) -> dict[str, t.Any]:
    patch = _unlabelled() if _annotation(host) == owner.title else {}
    if host.consumer == owner.consumer:
        patch["spec"] = {"consumerRef": None}
    return patch


def _unlabelled() -> dict[str, t.Any]:
    nothing = {"labels": {CLUSTER_LABEL: None, ROLE_LABEL: None}}
    return {"metadata": {**nothing, "annotations": {PROVISIONING_ANNOTATION: None}}}


def _annotation(host: Host) -> str:
    return host.annotations.get(PROVISIONING_ANNOTATION, "")


def _own_labels(host: Host) -> dict[str, str]:
    names = (CLUSTER_LABEL, ROLE_LABEL)
    return {name: host.labels[name] for name in names if name in host.labels}
