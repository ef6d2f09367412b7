# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A Provisioning, or only its spec, as request for an assignment."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ..base.boundary import Finding, InvalidField, guarded, shown, subject_of
from ..base.fields.lenient import objects
from ..base.fields.strict import mapping, text, text_mapping
from ..base.json_types import Object
from .addresses import inventory_name
from .outputs.cluster_objects import cluster_name
from .provisioning import KIND, Request, read_request
from .roles.availability import Former, FormerRole, HostKey, Owner

DEFAULT_CLUSTER = "cluster"
_VIRTLET = "virtlet-vm"


@dataclass(frozen=True)
class AssignmentRequest:
    """The request of an owner for a cluster. ``findings`` are defects of other Provisionings."""

    request: Request
    owner: Owner
    is_virtlet: bool
    findings: tuple[Finding, ...] = ()


def read_assignment_request(
    given: t.Any,
    cluster: str | None = None,
    former: t.Sequence[t.Any] | None = None,
    provisionings: t.Sequence[t.Any] = (),
) -> AssignmentRequest:
    """The request of a Provisioning, or of its spec alone. Raises InvalidInput.

    ``cluster`` and ``former`` replace the cluster's name and the assignments of the Provisioning.
    """
    whole = given if "spec" in given else {"spec": given}
    if whole.get("kind", KIND) != KIND:
        raise InvalidField("request.kind", f"{shown(whole['kind'])} is not {KIND}")
    metadata = mapping(whole.get("metadata"), "request.metadata")
    labels = text_mapping(metadata.get("labels"), "request.metadata.labels")
    name, namespace = (
        text(metadata.get(part), f"request.metadata.{part}") for part in ("name", "namespace")
    )
    cluster = cluster_name(cluster or labels.get("cluster") or name or DEFAULT_CLUSTER, "cluster")
    if former is None:
        former = mapping(whole.get("status"), "request.status").get("assignments")
    reserved, findings = reservations(provisionings, metadata)
    owner = Owner(name, namespace, cluster, reserved, former_roles(former))
    return AssignmentRequest(
        read_request(whole["spec"]),
        owner,
        labels.get("cluster-type") == _VIRTLET,
        tuple(findings),
    )


def former_roles(assignments: t.Any) -> Former:
    """The roles in status.assignments, by host. Unreadable entries are ignored."""
    found: dict[HostKey, tuple[FormerRole, ...]] = {}
    for entry in objects(assignments):
        key = _host_key(entry)
        if key and entry.get("role") in ("master", "worker") and _is_name(entry.get("label")):
            found[key] = (*found.get(key, ()), FormerRole(entry["role"], entry["label"]))
    return found


def _is_name(label: t.Any) -> bool:
    try:
        inventory_name(label, "label")
    except InvalidField:
        return False
    return True


def reservations(
    provisionings: t.Sequence[t.Any], own: Object
) -> tuple[dict[HostKey, str], list[Finding]]:
    """The hosts in status.assignments of other Provisionings, with the Provisioning's name.

    Each readable entry counts, even if other parts of its Provisioning are defective.
    """
    found: dict[HostKey, str] = {}
    findings: list[Finding] = []
    for index, obj in enumerate(provisionings):
        subject = subject_of(obj, KIND, f"provisionings[{index}]")
        named = guarded(subject, functools.partial(_identity, obj))
        if named == (own.get("name", ""), own.get("namespace", "")):
            continue
        entries = guarded(subject, functools.partial(_entries, obj))
        findings += [each for each in (named, entries) if isinstance(each, Finding)]
        for entry in entries if isinstance(entries, list) else []:
            key = _host_key(entry)
            if key:
                found.setdefault(key, str(subject))
            else:
                findings.append(Finding(subject, "status.assignments", "an entry names no host"))
    return found, list(dict.fromkeys(findings))


def _identity(provisioning: t.Any) -> tuple[str, str]:
    metadata = mapping(mapping(provisioning, "").get("metadata"), "metadata")
    name, namespace = metadata.get("name"), metadata.get("namespace")
    return text(name, "metadata.name"), text(namespace, "metadata.namespace")


def _entries(provisioning: t.Any) -> list[t.Any]:
    status = mapping(mapping(provisioning, "").get("status"), "status")
    entries = status.get("assignments")
    if entries is not None and not isinstance(entries, list):
        raise InvalidField("status.assignments", f"{shown(entries)} is not a list")
    return entries or []


def _host_key(entry: t.Any) -> HostKey | None:
    if not isinstance(entry, dict):
        return None
    name, namespace = entry.get("host"), entry.get("namespace") or ""
    return (namespace, name) if isinstance(name, str) and isinstance(namespace, str) else None
