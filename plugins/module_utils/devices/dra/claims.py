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
from ..model.fields import at_most, check_selectors, items_of, mapping_of
from ..model.findings import ApiObject
from ..model.model import Alternative, Claim, Constraint, Request
from . import values as dra_values
from .matching import MAX_SELECTORS, DeviceCatalog, DeviceClasses, DraMatcher, configurations_of

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


@dataclass(frozen=True)
class Origin:
    """Origin of an alternative: its name in results, its class, and its specification."""

    name: str
    device_class: ApiObject
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

    def read(self, obj: ApiObject, spec: Object, name: str) -> Claim:
        """A claim by its spec. Raises InvalidInput before any part of it is kept."""
        dra_values.refuse_unknown(obj, spec, _SPEC_FIELDS, "spec")
        check_selectors(obj, spec, "expression")
        devices = mapping_of(obj, spec.get("devices"), "spec.devices")
        dra_values.refuse_unknown(obj, devices, _DEVICES_FIELDS, "spec.devices")
        _check_configurations(obj, devices)
        items = limited(obj, devices.get("requests"), MAX_REQUESTS, "spec.devices.requests")
        read = [
            self._request(obj, item, f"spec.devices.requests[{index}]")
            for index, item in enumerate(items)
        ]
        requests = tuple(request for request, _asked in read)
        names = [request.name for request in requests]
        if len(set(names)) < len(names):
            raise obj.error("spec.devices.requests", "two requests have the same name")
        constraints = _constraints(obj, devices, requests)
        least = sum(min(one.count for one in request.alternatives) for request in requests)
        if least > MAX_RESULTS:
            raise obj.error(
                "spec.devices.requests",
                f"{least} devices are requested; a claim can have at most {MAX_RESULTS}",
            )
        self.origins.append([asked for _request, asked in read])
        uid = str(obj.manifest["metadata"].get("uid") or "")
        return Claim(obj.namespace, name, requests, constraints, uid, MAX_RESULTS)

    def _request(self, obj: ApiObject, item: Object, where: str) -> tuple[Request, list[Origin]]:
        dra_values.refuse_unknown(obj, item, _REQUEST_FIELDS, where)
        name = item.get("name")
        if not isinstance(name, str) or not name:
            raise obj.error(f"{where}.name", "the name is missing")
        if ("exactly" in item) == ("firstAvailable" in item):
            raise obj.error(where, "write either exactly or firstAvailable")
        if "exactly" in item:
            body = mapping_of(obj, item["exactly"], f"{where}.exactly")
            dra_values.refuse_unknown(obj, body, _EXACT_FIELDS, f"{where}.exactly")
            one, asked = self._alternative(obj, body, f"{where}.exactly", name)
            return Request(name, (one,)), [asked]
        place = f"{where}.firstAvailable"
        alternatives: list[Alternative] = []
        sources: list[Origin] = []
        for index, sub in enumerate(limited(obj, item["firstAvailable"], MAX_ALTERNATIVES, place)):
            body = dict(sub)
            dra_values.refuse_unknown(obj, body, _SUBREQUEST_FIELDS, f"{place}[{index}]")
            if not isinstance(body.get("name"), str) or not body["name"]:
                raise obj.error(f"{place}[{index}].name", "the name is missing")
            label = f"{name}/{body['name']}"
            one, asked = self._alternative(obj, body, f"{place}[{index}]", label)
            alternatives.append(one)
            sources.append(asked)
        return Request(name, tuple(alternatives)), sources

    def _alternative(
        self, obj: ApiObject, body: Object, where: str, name: str
    ) -> tuple[Alternative, Origin]:
        device_class = self.classes.find(
            body.get("deviceClassName"), obj, f"{where}.deviceClassName"
        )
        every, count = _count(obj, body, where)
        limited(obj, body.get("tolerations"), MAX_TOLERATIONS, f"{where}.tolerations")
        capacity = mapping_of(obj, body.get("capacity"), f"{where}.capacity")
        dra_values.refuse_unknown(obj, capacity, {"requests"}, f"{where}.capacity")
        place = f"{where}.capacity.requests"
        wanted = mapping_of(obj, capacity.get("requests"), place)
        at_most(obj, wanted, dra_values.MAX_VALUES, "amounts", place)
        admin = body.get("adminAccess") or False
        if not isinstance(admin, bool):
            raise obj.error(f"{where}.adminAccess", "write true or false")
        portions = {key: demand_of(value, f"{place}.{key}") for key, value in wanted.items()}
        asked_of_each = tuple(sorted(portions.items())) if every and portions else None
        position = self._matcher(obj, body, device_class, where, asked_of_each)
        matcher = self.matchers[position]
        alternative = Alternative(
            position,
            count,
            count,
            name,
            every_device=every,
            portions=portions,
            admin=admin,
            unsettled=matcher.unsettled() if every else frozenset(),
        )
        return alternative, Origin(name, device_class, body)

    def _matcher(
        self,
        obj: ApiObject,
        body: Object,
        device_class: ApiObject,
        where: str,
        wanted: tuple[tuple[str, int], ...] | None,
    ) -> int:
        class_spec = device_class.manifest.get("spec") or {}
        limited(obj, body.get("selectors"), MAX_SELECTORS, f"{where}.selectors")
        matcher = DraMatcher(
            (
                *self.classes.selectors(
                    device_class, class_spec.get("selectors"), "spec.selectors"
                ),
                *self.classes.selectors(obj, body.get("selectors"), f"{where}.selectors"),
            ),
            dra_values.tolerations_of(obj, body.get("tolerations"), f"{where}.tolerations"),
            self.published,
            wanted,
        )
        if matcher not in self._positions:
            self.matchers.append(matcher)
            self._positions[matcher] = len(self.matchers) - 1
        return self._positions[matcher]


def _count(obj: ApiObject, body: Object, where: str) -> tuple[bool, int]:
    mode = body.get("allocationMode") or "ExactCount"
    count = body.get("count", 1)
    if mode == "All":
        if "count" in body:
            raise obj.error(f"{where}.count", "is not allowed with allocationMode All")
        return True, 1
    if mode != "ExactCount":
        raise obj.error(f"{where}.allocationMode", f"unsupported mode {shown(mode)}")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise obj.error(f"{where}.count", f"{shown(count)} is not a number of devices from 1")
    return False, count


def _constraints(
    obj: ApiObject, devices: Object, requests: tuple[Request, ...]
) -> tuple[Constraint, ...]:
    where = "spec.devices.constraints"
    found: list[Constraint] = []
    items = limited(obj, devices.get("constraints"), MAX_CONSTRAINTS, where)
    for index, item in enumerate(items):
        place = f"{where}[{index}]"
        dra_values.refuse_unknown(obj, item, _CONSTRAINT_FIELDS, place)
        kinds: tuple[tuple[str, t.Literal["match", "distinct"]], ...] = (
            ("matchAttribute", "match"),
            ("distinctAttribute", "distinct"),
        )
        given_kinds = [(key, kind) for key, kind in kinds if item.get(key) is not None]
        if len(given_kinds) != 1:
            raise obj.error(place, "write either matchAttribute or distinctAttribute")
        [(key, kind)] = given_kinds
        if not isinstance(item[key], str) or "/" not in item[key]:
            raise obj.error(f"{place}.{key}", f"{shown(item[key])} lacks its domain: write a/b")
        named = names_of(obj, item.get("requests"), f"{place}.requests")
        members = _members(obj, named, requests, f"{place}.requests")
        found.append(Constraint(kind, item[key], members))
    return tuple(found)


def _members(
    obj: ApiObject, names: t.Sequence[str], requests: tuple[Request, ...], where: str
) -> frozenset[tuple[int, int]]:
    """The alternatives of the named requests; of all requests if none is named."""
    members: set[tuple[int, int]] = set()
    missing = set(names)
    for index, request in enumerate(requests):
        for number, alternative in enumerate(request.alternatives):
            if not names or request.name in names or alternative.name in names:
                members.add((index, number))
                missing -= {request.name, alternative.name}
    if missing:
        raise obj.error(where, f"there is no request {shown(sorted(missing))}")
    return frozenset(members)


def names_of(obj: ApiObject, value: t.Any, where: str) -> list[str]:
    """A list of texts; empty if absent. Raises InvalidInput."""
    names = [] if value is None else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise obj.error(where, "must be a list of names")
    if len(names) > MAX_REQUESTS:
        raise obj.error(where, f"{len(names)} entries; the API allows {MAX_REQUESTS}")
    return names


def _check_configurations(obj: ApiObject, devices: Object) -> None:
    where = "spec.devices.config"
    more = frozenset({"requests"})
    for index, item in enumerate(configurations_of(obj, devices.get("config"), where, more)):
        names_of(obj, item.get("requests"), f"{where}[{index}].requests")


def limited(obj: ApiObject, value: t.Any, most: int, where: str) -> t.Sequence[Object]:
    """A list of mappings that is not longer than the API allows. Raises InvalidInput."""
    items = items_of(obj, value, where)
    if len(items) > most:
        raise obj.error(where, f"{len(items)} entries; the API allows {most}")
    return items
