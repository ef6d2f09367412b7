# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The ResourceClaims of a pod: named by it, or made for it from templates or extended resources.

Source: the API of Pod (core/v1), spec.resourceClaims and status.resourceClaimStatuses. Kubernetes'
resourceclaim controller makes claims from templates and writes their names into the pod's status.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.fields.lenient import member
from ...base.json_types import Object
from ...cel.values import THOUSANDTHS, demand_of
from ..model.findings import ApiObject, Field, Key

_NAME_IN_POD = "resource.kubernetes.io/pod-claim-name"

# Implicit resource of every class: this prefix and the name of the class.
CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
CLAIM_STATUS = "extendedResourceClaimStatus"


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


@dataclass(frozen=True)
class _Container:
    """Requests of a container by resource, with the position of each among all its resources.

    ``brief`` is an init container that ends before the next one begins.
    """

    number: int
    brief: bool
    counts: dict[str, tuple[int, int]]


class ExtendedResources:
    """The classes by extended resource, by which a pod requests devices without a claim.

    kube-scheduler makes one claim for all extended resources of a pod, with a request for each
    container and resource. A node that offers the resource itself has a device plugin, and needs no
    claim. Source: KEP-5004, DRA extended resource.
    """

    def __init__(self, classes: t.Iterable[Object], offered: t.Iterable[str]) -> None:
        self._offered = frozenset(offered)
        self._classes: dict[str, str] = {}
        # The youngest class of a resource counts, and the first among equally old ones.
        named = [item for item in classes if isinstance(member(item, "metadata", "name"), str)]
        ordered = sorted(named, key=lambda item: str(item["metadata"]["name"]), reverse=True)
        ordered.sort(key=lambda item: str(item["metadata"].get("creationTimestamp") or ""))
        for item in ordered:
            stands_for = member(item, "spec", "extendedResourceName")
            if isinstance(stands_for, str) and stands_for:
                self._classes[stands_for] = str(item["metadata"]["name"])

    def class_of(self, resource: str) -> str | None:
        """The name of the class for the resource; None if there is none."""
        if resource in self._offered:
            return None
        if resource.startswith(CLASS_PREFIX):
            return resource[len(CLASS_PREFIX) :]
        return self._classes.get(resource)

    def resources_of(self, pod: ApiObject) -> tuple[str, ...]:
        """The resources by which a pod requests devices, in the order of their names."""
        containers = self._containers(pod)
        return tuple(sorted({name for container in containers for name in container.counts}))

    def unclaimed(self, pod: ApiObject) -> tuple[str, ...]:
        """The message for a pod whose resources get no claim. Raises InvalidInput."""
        return tuple(
            f"the extended resource {name}, which DeviceClass {self.class_of(name)} stands for"
            for name in self.resources_of(pod)
        )

    def requests(self, pod: ApiObject) -> list[Object]:
        """The requests of the claim for a pod's extended resources; none if it needs no claim.

        An init container may use the devices of the containers that begin after it and stay. The
        claim adds the largest number that a single init container lacks. Raises InvalidInput.
        """
        containers = self._containers(pod)
        found: list[tuple[int, int, str, int]] = []
        for name in self.resources_of(pod):
            lasting = [one for one in containers if name in one.counts and not one.brief]
            asked = [(one.number, *one.counts[name]) for one in lasting]
            missing: list[tuple[int, int, int]] = []
            for one in containers:
                if one.brief and name in one.counts:
                    place, count = one.counts[name]
                    there = sum(number for other, _place, number in asked if other > one.number)
                    missing.append((one.number, place, count - there))
            most = max(missing, key=lambda item: item[2], default=(0, 0, 0))
            if most[2] > 0:
                asked.append(most)
            class_name = str(self.class_of(name))
            found += [(number, place, class_name, count) for number, place, count in asked]
        return [
            {
                "name": f"container-{number}-request-{place}",
                "exactly": {"deviceClassName": class_name, "count": count},
            }
            for number, place, class_name, count in sorted(found)
        ]

    def _containers(self, pod: ApiObject) -> list[_Container]:
        first = pod["spec"]["initContainers"].items()
        brief = [item.value.get("restartPolicy") != "Always" for item in first]
        then = pod["spec"]["containers"].items()
        return [
            _Container(number, number < len(first) and brief[number], self._counts(pod, item.value))
            for number, item in enumerate([*first, *then])
        ]

    def _counts(self, pod: ApiObject, container: Object) -> dict[str, tuple[int, int]]:
        """Position among all requests of the container, and amount, by resource."""
        where = f"the requests of container {container.get('name')}"
        resources = Field(pod, where, container.get("resources")).mapping()
        # A missing request counts as the limit, as in the API server.
        wanted = {
            name: amount
            for kind in ("limits", "requests")
            for name, amount in Field(pod, where, resources.get(kind)).mapping().items()
        }
        counts: dict[str, tuple[int, int]] = {}
        for place, name in enumerate(sorted(wanted)):
            if self.class_of(name) is None:
                continue
            count, part = divmod(demand_of(wanted[name], where), THOUSANDTHS)
            if part:
                raise pod.error(where, f"{wanted[name]} of {name} is not a whole number of devices")
            if count:
                counts[name] = place, count
        return counts


def offered_by(nodes: t.Iterable[Object]) -> set[str]:
    """The resources that some Node offers itself, through a device plugin."""
    return {
        str(name)
        for node in nodes
        for given in [node.get("allocatable") or member(node, "status", "allocatable")]
        for name, amount in (given.items() if isinstance(given, dict) else ())
        if str(amount) != "0"
    }


def extended_claim(pod: ApiObject) -> str:
    """The claim that kube-scheduler made for the pod's extended resources, by name; "" if none."""
    return str(pod["status"][CLAIM_STATUS]["resourceClaimName"].value or "")
