# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Removal of the library's certificate Secrets for Kepler after no pod mounts them."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.context import Context
from ...base.errors import ApiError
from ...base.fields.lenient import member, objects
from ...kube.apply.steps import Applying
from ...kube.client import Kube, UnknownKind
from ..deployment.names import NAME_LABEL

# cert-manager's mark of its Secrets.
_OF_CERT_MANAGER = "cert-manager.io/certificate-name"


@dataclass(frozen=True)
class Issued:
    """Names of Secrets, and the labels of the library's."""

    namespace: str
    secrets: t.Sequence[str]
    authority_namespace: str
    authority_secret: str
    labels: t.Mapping[str, str]


def take_back(applying: Applying, issued: Issued, context: Context) -> None:
    """Remove the library's Secrets.

    Secrets of administrators and of cert-manager stay. A running Kepler could not restart without
    them, so they stay while it mounts one.
    """
    kube = applying.kube
    own = [name for name in issued.secrets if _is_own(kube, issued.namespace, name, issued.labels)]
    mounting = _mounting(kube, issued.namespace, own)
    if mounting:
        context.warn(
            f"The Secrets {', '.join(own)} stay, because the DaemonSet "
            f"{issued.namespace}/{mounting} mounts one; remove Kepler first, then the add-ons again"
        )
        return
    found = [_manifest(issued.namespace, name) for name in own]
    place = (issued.authority_namespace, issued.authority_secret)
    if _is_own(kube, *place, issued.labels):
        found.append(_manifest(*place))
    if found:
        applying.apply({"manifests": found, "state": "absent"})


def _is_own(kube: Kube, namespace: str, name: str, labels: t.Mapping[str, str]) -> bool:
    try:
        found = kube.find(f"/api/v1/namespaces/{namespace}/secrets/{name}")
    except ApiError as error:
        if error.status == 403:
            return False  # an account without the permission to read has not made it
        raise
    metadata = member(found, "metadata")
    given, annotations = member(metadata, "labels") or {}, member(metadata, "annotations") or {}
    return labels.items() <= given.items() and _OF_CERT_MANAGER not in annotations


def _mounting(kube: Kube, namespace: str, secrets: t.Collection[str]) -> str:
    """A DaemonSet of Kepler that mounts one of the Secrets and will stay; else nothing."""
    if not secrets:
        return ""
    path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
    for each in kube.list(path, {"labelSelector": f"{NAME_LABEL}=kepler"}):
        volumes = objects(member(each, "spec", "template", "spec", "volumes"))
        mounted = {member(volume, "secret", "secretName") for volume in volumes}
        if mounted.intersection(secrets) and not _is_ending(kube, namespace, each):
            return str(member(each, "metadata", "name"))
    return ""


def _is_ending(kube: Kube, namespace: str, item: t.Mapping[str, t.Any]) -> bool:
    """Whether it is being deleted, or will be garbage collected because its owner is gone."""
    if member(item, "metadata", "deletionTimestamp"):
        return True
    owners = objects(member(item, "metadata", "ownerReferences"))
    return bool(owners) and not any(_is_there(kube, namespace, owner) for owner in owners)


def _is_there(kube: Kube, namespace: str, owner: t.Mapping[str, t.Any]) -> bool:
    try:
        place = kube.resource(owner["apiVersion"], owner["kind"])
        found = kube.find(place.path(owner["name"], namespace))
    except UnknownKind:
        return False
    except ApiError as error:
        if error.status == 403:
            return True  # a missing permission to read must not lead to a removal
        raise
    is_same = member(found, "metadata", "uid") == owner["uid"]
    return is_same and not member(found, "metadata", "deletionTimestamp")


def _manifest(namespace: str, name: str) -> dict[str, t.Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
