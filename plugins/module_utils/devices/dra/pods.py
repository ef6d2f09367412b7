# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The ResourceClaims of a pod, named by it or made for it from templates.

Source: the API of Pod (core/v1), spec.resourceClaims and status.resourceClaimStatuses. Kubernetes'
resourceclaim controller makes claims from templates and writes their names into the pod's status.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.json_types import Object
from ..model.findings import ApiObject, Key

_NAME_IN_POD = "resource.kubernetes.io/pod-claim-name"


@dataclass(frozen=True)
class PodClaims:
    """The claims of a pod. ``problem`` is the sentence why they cannot be allocated yet.

    ``awaited`` means that Kubernetes' controller has not made one of them yet.
    """

    claims: tuple[ApiObject, ...] = ()
    problem: str = ""
    awaited: bool = False


def names_claims(pod: ApiObject) -> bool:
    """Whether the pod asks for any."""
    return bool((pod.manifest.get("spec") or {}).get("resourceClaims"))


def made_for(pod: ApiObject) -> dict[str, str]:
    """The claims that were made from templates, by their names in the pod.

    An empty name, the API's null, means that none is needed.
    """
    entries = (entry.value for entry in pod["status"]["resourceClaimStatuses"].items())
    return {str(entry.get("name")): str(entry.get("resourceClaimName") or "") for entry in entries}


def claims_made(claims: t.Iterable[ApiObject]) -> dict[str, list[Object]]:
    """The claims that the controller made, in the form of a pod's status, by uid of the pod."""
    made: dict[str, list[Object]] = {}
    for claim in claims:
        metadata = claim.manifest["metadata"]
        named = (metadata.get("annotations") or {}).get(_NAME_IN_POD)
        for owner in metadata.get("ownerReferences") or [] if named else ():
            entry = {"name": str(named), "resourceClaimName": claim.name}
            made.setdefault(str(owner.get("uid")), []).append(entry)
    return made


def with_made_claims(pod: ApiObject, made: t.Mapping[str, t.Sequence[Object]]) -> ApiObject:
    """The pod with the claims that the controller made, before its status has them."""
    known = made_for(pod)
    status = pod["status"].mapping()
    added = made.get(pod.manifest["metadata"]["uid"], ())
    entries = [entry for entry in added if entry["name"] not in known]
    listed = [*(status.get("resourceClaimStatuses") or ()), *entries]
    status = {**status, "resourceClaimStatuses": listed}
    return ApiObject({**pod.manifest, "status": status}, pod.file)


def claims_of_pod(
    pod: ApiObject,
    claims: t.Mapping[Key, ApiObject],
    templates: t.Collection[Key],
    unreadable: t.Collection[Key] = (),
) -> PodClaims:
    """The claims of a pod among those of the cluster. Raises InvalidInput for a malformed pod."""
    made = made_for(pod)
    found: dict[Key, ApiObject] = {}
    for item in (each.value for each in pod["spec"]["resourceClaims"].items()):
        from_template = item.get("resourceClaimName") is None
        name = made.get(str(item.get("name"))) if from_template else str(item["resourceClaimName"])
        if name is None:
            return _without_claim(pod, item, templates)
        if not name:
            continue
        if (pod.namespace, name) in unreadable:
            problem = f"the ResourceClaim {pod.namespace}/{name} cannot be read; see findings"
            return PodClaims(problem=problem)
        claim = claims.get((pod.namespace, name))
        if claim is None:
            return PodClaims(problem=f"there is no ResourceClaim {pod.namespace}/{name}")
        if claim.manifest["metadata"].get("deletionTimestamp"):
            return PodClaims(problem=f"{claim} is being deleted")
        if from_template and not _is_controlled_by(claim, pod):
            return PodClaims(problem=f"{claim} was not made for this pod; delete it")
        found[pod.namespace, name] = claim
    return PodClaims(tuple(found.values()))


def _without_claim(pod: ApiObject, item: Object, templates: t.Collection[Key]) -> PodClaims:
    template = (pod.namespace, str(item.get("resourceClaimTemplateName")))
    if template not in templates:
        return PodClaims(problem=f"there is no ResourceClaimTemplate {'/'.join(template)}")
    problem = f"the claim {item.get('name')} has not been made from its template yet"
    return PodClaims(problem=problem, awaited=True)


def _is_controlled_by(claim: ApiObject, pod: ApiObject) -> bool:
    owners = claim.manifest["metadata"].get("ownerReferences") or []
    uid = pod.manifest["metadata"].get("uid")
    return any(owner.get("controller") and owner.get("uid") == uid for owner in owners)
