# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Requests for volumes of claims, as the API gets them, and as it answers them."""

from __future__ import annotations

import contextlib
import functools
import typing as t
from dataclasses import dataclass

from ..base.boundary import Finding, guarded, subject_of
from ..base.errors import ApiError
from ..base.json_types import MutableObject
from ..kube.client import MERGE_CONTENT_TYPE, Kube
from ..scheduling.volumes.objects import SELECTED_NODE, Claim, VolumeObjects, read_claim

_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


@dataclass(frozen=True)
class VolumeRequest:
    """A claim with an assigned volume, or with an annotated node for its provisioner."""

    claim: Claim
    node: str
    volume: str = ""

    @property
    def name(self) -> str:
        return "/".join(self.claim.key)

    def problem(self, given: MutableObject | None) -> str | None:
        """Why the claim will not be bound; empty if it is, None if it may be yet."""
        if given is None or given["metadata"].get("uid") != self.claim.uid:
            return f"binding volumes: claim {self.name} is gone"
        claim = guarded(subject_of(given, "claim"), functools.partial(read_claim, given))
        if isinstance(claim, Finding):
            return f"binding volumes: {claim}"
        if claim.is_bound and self.volume not in ("", claim.volume):
            return f"binding volumes: claim {self.name} was bound to another volume meanwhile"
        if claim.is_bound:
            return ""
        if not self.volume and claim.selected_node != self.node:
            return f"binding volumes: claim {self.name} cannot have its volume on node {self.node}"
        return None


def send(
    kube: Kube,
    request: VolumeRequest,
    objects: VolumeObjects,
    versions: t.Mapping[tuple[str, str, str], str],
) -> None:
    """Assign the volume to the claim, or the node to its provisioner. Raises ApiError.

    ``versions`` are the resource versions of the objects by kind, namespace and name.
    """
    claim = request.claim
    if not request.volume:
        version = versions["PersistentVolumeClaim", claim.namespace, claim.name]
        _patch(kube, _path(claim), version, {SELECTED_NODE: request.node})
        return
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
    }
    is_for_claim = objects.volumes[request.volume].is_for(claim)
    annotations = {} if is_for_claim else {_BOUND_BY_CONTROLLER: "yes"}
    version = versions["PersistentVolume", "", request.volume]
    path = _path_of_volume(request.volume)
    _patch(kube, path, version, annotations, {"claimRef": reference})


def withdraw(kube: Kube, request: VolumeRequest, given: MutableObject) -> None:
    """Undo a request, unless another client changed the claim or the volume meanwhile."""
    with contextlib.suppress(ApiError):
        if not request.volume:
            version = given["metadata"]["resourceVersion"]
            _patch(kube, _path(request.claim), version, {SELECTED_NODE: None})
            return
        named = {"fieldSelector": f"metadata.name={request.volume}"}
        for volume in kube.list("/api/v1/persistentvolumes", named):
            reference = volume["spec"].get("claimRef") or {}
            if reference.get("uid") == request.claim.uid:
                version = volume["metadata"]["resourceVersion"]
                path = _path_of_volume(request.volume)
                _patch(kube, path, version, {_BOUND_BY_CONTROLLER: None}, {"claimRef": None})


def _patch(
    kube: Kube,
    path: str,
    version: str,
    annotations: t.Mapping[str, str | None],
    spec: MutableObject | None = None,
) -> None:
    """Change the object, conditionally on the version that was read."""
    body: MutableObject = {"metadata": {"resourceVersion": version, "annotations": annotations}}
    if spec is not None:
        body = {**body, "spec": spec}
    kube.request("PATCH", path, body, MERGE_CONTENT_TYPE)


def _path(claim: Claim) -> str:
    return f"/api/v1/namespaces/{claim.namespace}/persistentvolumeclaims/{claim.name}"


def _path_of_volume(name: str) -> str:
    return f"/api/v1/persistentvolumes/{name}"
