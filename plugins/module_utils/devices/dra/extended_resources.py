# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Extended resources of DeviceClasses, by which a pod requests devices without a claim.

Source: KEP-5004, DRA extended resource. kube-scheduler makes one claim for all of them, with a
request for each container and resource. A node that offers the resource itself has a device plugin,
and needs no claim.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.fields.lenient import member
from ...base.json_types import Object
from ...cel.values import THOUSANDTHS, demand_of
from ..model.findings import ApiObject, Field

# Implicit resource of every class: this prefix and the name of the class.
CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
CLAIM_STATUS = "extendedResourceClaimStatus"


@dataclass(frozen=True)
class _Container:
    """Requests of a container by resource, with the position of each among all its resources.

    ``brief`` is an init container that ends before the next one begins.
    """

    number: int
    brief: bool
    counts: dict[str, tuple[int, int]]


class ExtendedResources:
    """The classes by resource, without resources that some node offers itself."""

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
