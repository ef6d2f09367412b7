# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pruning of objects that an earlier run applied and this run does not want."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ...base.errors import WattwiseError
from ...base.fields.lenient import objects
from ...base.json_types import MutableObject
from ...base.manifests import Manifest, identity
from ..client import Kube, UnknownKind, delete_object
from .change import Change
from .live import LiveObjects

# https://github.com/kubernetes/enhancements/blob/master/keps/sig-cli/3659-kubectl-apply-prune
APPLY_SET_LABEL = "applyset.kubernetes.io/part-of"

KindInNamespace = tuple[str, str, t.Optional[str]]


@dataclass(frozen=True)
class Pruning:
    """Selection of prunable objects: those with the ApplySet label and an owner of these kinds.

    ``kinds`` are the kinds to list, by default those of the wanted objects.
    """

    label_value: str
    kinds: tuple[KindInNamespace, ...]
    owner_kinds: frozenset[str]
    maximum_share: float


def prune(
    kube: Kube, pruning: Pruning, wanted: t.Sequence[Manifest], live: LiveObjects, check_mode: bool
) -> list[Change]:
    """Delete members of the ApplySet that are no longer wanted; return the deleted ones.

    Nothing is deleted if they exceed ``maximum_share`` of all members (one is always allowed), or
    if a list is incomplete. Raises WattwiseError.
    """
    members = _members(kube, pruning, wanted, live)
    keep = {identity(manifest) for manifest in wanted}
    doomed = {path: obj for path, obj in members.items() if identity(obj) not in keep}
    allowed = max(1, math.floor(pruning.maximum_share * len(members)))
    if len(doomed) > allowed:
        raise WattwiseError(
            f"{len(doomed)} of {len(members)} objects of the ApplySet {pruning.label_value} would "
            f"be pruned, which is more than prune_max allows ({allowed}); nothing was pruned. Is "
            "the input complete? If it is, raise prune_max for one run"
        )
    changes = []
    for path, obj in sorted(doomed.items()):
        delete_object(kube, path, obj, check_mode)
        changes.append(Change(identity(obj), "deleted", obj, None))
    return changes


def _members(
    kube: Kube, pruning: Pruning, wanted: t.Sequence[Manifest], live: LiveObjects
) -> dict[str, MutableObject]:
    """Deletable objects of the ApplySet, by path."""
    of_wanted = (
        (item["apiVersion"], item["kind"], item["metadata"].get("namespace")) for item in wanted
    )
    members: dict[str, MutableObject] = {}
    for api_version, kind, namespace in pruning.kinds or dict.fromkeys(of_wanted):
        try:
            resource = kube.resource(api_version, kind)
        except UnknownKind:
            continue
        label, value = APPLY_SET_LABEL, pruning.label_value
        if live.holds_all(resource, namespace):
            found = live.labelled(api_version, kind, namespace, label, value)
        else:
            selector = {"labelSelector": f"{label}={value}"}
            found = kube.list(resource.collection(namespace), selector)
        for obj in found:
            if _is_owned(obj, pruning.owner_kinds):
                metadata = obj["metadata"]
                members[resource.path(metadata["name"], metadata.get("namespace"))] = obj
    return members


def _is_owned(obj: MutableObject, owner_kinds: frozenset[str]) -> bool:
    """Whether an expected owner owns the object; a user's copy has the label but no such owner."""
    owners = objects(obj["metadata"].get("ownerReferences"))
    return any(owner.get("kind") in owner_kinds for owner in owners)
