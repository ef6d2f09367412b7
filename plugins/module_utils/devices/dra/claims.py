# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""ResourceClaims of resource.k8s.io/v1 as claims of the neutral instance."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...base.boundary import shown
from ...base.json_types import Object
from ...cel.values import demand_of
from ..model.findings import Field, too_many
from ..model.model import Alternative, Claim, Constraint, Request
from . import values as dra_values
from .matching import (
    MAX_SELECTORS,
    DeviceCatalog,
    DeviceClass,
    DeviceClasses,
    DraMatcher,
    configurations_of,
    selectors_of,
)

# Source: the constants of resource.k8s.io/v1.
MAX_RESULTS = MAX_REQUESTS = MAX_CONSTRAINTS = 32
MAX_ALTERNATIVES, MAX_TOLERATIONS = 8, 16

_SPEC_FIELDS = frozenset({"devices"})
_DEVICES_FIELDS = frozenset({"requests", "constraints", "config"})
_REQUEST_FIELDS = frozenset({"name", "exactly", "firstAvailable"})
_SUBREQUEST_FIELDS = frozenset(
    "name deviceClassName selectors allocationMode count tolerations capacity".split()
)
_EXACT_FIELDS = (_SUBREQUEST_FIELDS - {"name"}) | {"adminAccess"}
_CONSTRAINT_FIELDS = frozenset({"requests", "matchAttribute", "distinctAttribute"})
_KINDS: t.Mapping[str, t.Literal["match", "distinct"]] = {
    "matchAttribute": "match",
    "distinctAttribute": "distinct",
}


@dataclass(frozen=True)
class Origin:
    """Origin of an alternative: its name in results, its class, and its specification."""

    name: str
    device_class: DeviceClass
    body: Object


@dataclass
class ClaimReader:
    """Turns claims into requests; equal choices of devices share one matcher.

    ``origins`` has the origin of each alternative, by claim and request.
    """

    classes: DeviceClasses
    published: DeviceCatalog
    matchers: list[DraMatcher] = field(default_factory=list)
    origins: list[list[list[Origin]]] = field(default_factory=list)
    _positions: dict[DraMatcher, int] = field(default_factory=dict)

    def read(self, spec: Field, name: str) -> Claim:
        """A claim by its spec. Raises InvalidInput before any part of it is kept."""
        spec.mapping(_SPEC_FIELDS)
        spec.limit_selectors("expression")
        devices = spec["devices"]
        devices.mapping(_DEVICES_FIELDS)
        listed = devices["requests"]
        for item in configurations_of(devices["config"], frozenset({"requests"})):
            names_of(item["requests"])
        read = [self._request(item) for item in listed.items(MAX_REQUESTS)]
        requests = tuple(request for request, _origins in read)
        if len({request.name for request in requests}) < len(requests):
            raise listed.error("two requests have the same name")
        constraints = tuple(
            _constraint(item, requests) for item in devices["constraints"].items(MAX_CONSTRAINTS)
        )
        least = sum(min(one.count for one in request.alternatives) for request in requests)
        listed.limit(
            least, MAX_RESULTS, "{count} devices are requested; a claim can have at most {most}"
        )
        self.origins.append([origins for _request, origins in read])
        uid = str(spec.obj.manifest["metadata"].get("uid") or "")
        return Claim(spec.obj.namespace, name, requests, constraints, uid, MAX_RESULTS)

    def _request(self, item: Field) -> tuple[Request, list[Origin]]:
        name = _name_of(item, _REQUEST_FIELDS)
        if ("exactly" in item.value) == ("firstAvailable" in item.value):
            raise item.error("write either exactly or firstAvailable")
        if "exactly" in item.value:
            exactly = item["exactly"]
            exactly.mapping(_EXACT_FIELDS)
            read = [self._alternative(exactly, name)]
        else:
            read = [
                self._alternative(sub, f"{name}/{_name_of(sub, _SUBREQUEST_FIELDS)}")
                for sub in item["firstAvailable"].items(MAX_ALTERNATIVES)
            ]
        return Request(name, tuple(one for one, _origin in read)), [origin for _one, origin in read]

    def _alternative(self, body: Field, name: str) -> tuple[Alternative, Origin]:
        device_class = self.classes.find(body["deviceClassName"])
        every, count = _count(body)
        body["tolerations"].items(MAX_TOLERATIONS)
        capacity, admin = body["capacity"], body.value.get("adminAccess") or False
        capacity.mapping({"requests"})
        amounts = capacity["requests"]
        amounts.limit(len(amounts.mapping()), dra_values.MAX_VALUES, too_many("amounts"))
        if not isinstance(admin, bool):
            raise body["adminAccess"].error("write true or false")
        portions = {key: one.read(demand_of) for key, one in amounts.members()}
        asked_of_each = tuple(sorted(portions.items())) if every and portions else None
        position = self._matcher(body, device_class, asked_of_each)
        alternative = Alternative(
            position,
            count,
            count,
            name,
            every_device=every,
            portions=portions,
            admin=admin,
            unsettled=self.matchers[position].unsettled() if every else frozenset(),
        )
        return alternative, Origin(name, device_class, body.value)

    def _matcher(
        self, body: Field, device_class: DeviceClass, wanted: tuple[tuple[str, int], ...] | None
    ) -> int:
        own = body["selectors"]
        own.items(MAX_SELECTORS)
        matcher = DraMatcher(
            (*device_class.selectors, *selectors_of(own, self.classes.compiler)),
            dra_values.tolerations_of(body["tolerations"]),
            self.published,
            wanted,
        )
        if matcher not in self._positions:
            self.matchers.append(matcher)
            self._positions[matcher] = len(self.matchers) - 1
        return self._positions[matcher]


def _name_of(item: Field, known: t.AbstractSet[str]) -> str:
    name = item.mapping(known).get("name")
    if not isinstance(name, str) or not name:
        raise item["name"].error("the name is missing")
    return name


def _count(body: Field) -> tuple[bool, int]:
    mode, count = body.value.get("allocationMode"), body.value.get("count", 1)
    if mode == "All":
        if "count" in body.value:
            raise body["count"].error("is not allowed with allocationMode All")
        return True, 1
    if (mode or "ExactCount") != "ExactCount":
        raise body["allocationMode"].error(f"unsupported mode {shown(mode)}")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise body["count"].error(f"{shown(count)} is not a number of devices from 1")
    return False, count


def _constraint(item: Field, requests: tuple[Request, ...]) -> Constraint:
    given = item.mapping(_CONSTRAINT_FIELDS)
    kinds = [key for key in _KINDS if given.get(key) is not None]
    if len(kinds) != 1:
        raise item.error("write either matchAttribute or distinctAttribute")
    attribute = item[kinds[0]]
    if not isinstance(attribute.value, str) or "/" not in attribute.value:
        raise attribute.error(f"{shown(attribute.value)} lacks its domain: write a/b")
    return Constraint(_KINDS[kinds[0]], attribute.value, _members(item["requests"], requests))


def _members(named: Field, requests: tuple[Request, ...]) -> frozenset[tuple[int, int]]:
    """The alternatives of the named requests; of all requests if none is named."""
    names = names_of(named)
    members: set[tuple[int, int]] = set()
    missing = set(names)
    for index, request in enumerate(requests):
        for number, alternative in enumerate(request.alternatives):
            if not names or request.name in names or alternative.name in names:
                members.add((index, number))
                missing -= {request.name, alternative.name}
    if missing:
        raise named.error(f"there is no request {shown(sorted(missing))}")
    return frozenset(members)


def names_of(named: Field) -> list[str]:
    """The names of requests. Raises InvalidInput."""
    names = named.texts()
    named.limit(len(names), MAX_REQUESTS, "{count} entries; the API allows {most}")
    return names
