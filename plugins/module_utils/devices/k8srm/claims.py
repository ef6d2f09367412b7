# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Device claims of the prototype's three models as claims of the neutral instance."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ...base.boundary import shown
from ...base.json_types import Object
from ...cel.values import THOUSANDTHS, demand_of, quantity_text
from ..model.fields import at_most, check_selectors, items_of, mapping_of
from ..model.findings import ApiObject, Findings
from ..model.model import Alternative, Claim, Constraint, Request
from ..model.usage import ACCESS_MODES
from .classes import Choice, Classes, DeviceCatalog, DeviceClass, FlatMatcher, configs_of
from .pools import amounts_of

# Fields of one requested device, in the words of all models.
_DETAIL_FIELDS = frozenset(
    "name class deviceClass deviceType driver constraints requests limits count devices "
    "minDeviceCount maxDeviceCount maxDevices matchAttributes attributeMatches "
    "distinctAttributes allowShared adminAccess accessMode configs config".split()
)
_CLAIM_FIELDS = _DETAIL_FIELDS | {"claims", "oneOf", "allOf"}
_COUNT_NAMES = ("count", "devices")
_MAX_DEVICES = 10_000
# Several times what the samples have. Whoever makes a claim decides its size, and the work for all.
_MAX_REQUESTS, _MAX_ALTERNATIVES, _MAX_AMOUNTS, _MAX_ATTRIBUTES = 64, 16, 64, 32
# In thousandths: shares are whole numbers of the solver, which has 64 bits.
_MAX_SHARE = 64 * 2**40 * THOUSANDTHS


Origin = tuple[Object, t.Optional[DeviceClass]]


@dataclass
class ClaimReader:
    """Turns claims into requests; equal choices of devices share one matcher.

    ``origins`` has the original request and its class for each alternative, by claim and request.
    """

    findings: Findings
    classes: Classes
    devices: DeviceCatalog
    matchers: list[FlatMatcher] = field(default_factory=list)
    origins: list[list[list[Origin]]] = field(default_factory=list)
    _by_choices: dict[tuple[Choice, ...], int] = field(default_factory=dict)

    def read(self, obj: ApiObject, spec: Object, name: str) -> Claim:
        """A DeviceClaim, or an inline claim of a pod, by its spec. Raises InvalidInput."""
        privileged = obj.kind == "DevicePrivilegedClaim"
        check_selectors(obj, spec, "constraints")
        parts = at_most(
            obj, list(_instances(obj, spec, self.findings)), _MAX_REQUESTS, "requests", "spec"
        )
        self.findings.unknown_fields(obj, spec, _CLAIM_FIELDS, "spec")
        requests: list[Request] = []
        constraints: list[Constraint] = []
        asked: list[list[Origin]] = []
        for label, where, details in parts:
            alternatives = []
            asked.append([])
            for number, (place, detail) in enumerate(details):
                device_class = self._class_of(obj, detail, place)
                asked[-1].append((detail, device_class))
                alternatives.append(self._alternative(obj, detail, device_class, place, privileged))
                member = frozenset([(len(requests), number)])
                constraints += _constraints(obj, detail, device_class, place, member)
            if not alternatives:
                raise obj.error(where, "nothing is requested; name a class or driver")
            requests.append(Request(label, tuple(alternatives)))
        if not requests:
            raise obj.error("spec", "nothing is requested; name a class or driver")
        self.findings.refuse_if_serious(obj)
        if any(isinstance(spec.get(key), list) for key in ("claims", "devices", "oneOf", "allOf")):
            everything = frozenset(
                (index, number)
                for index, request in enumerate(requests)
                for number in range(len(request.alternatives))
            )
            constraints += _of_kinds(obj, spec, "spec", everything)
        self.origins.append(asked)
        uid = str(obj.manifest["metadata"].get("uid") or "")
        return Claim(obj.namespace, name, tuple(requests), tuple(constraints), uid)

    def _alternative(
        self,
        obj: ApiObject,
        detail: Object,
        device_class: DeviceClass | None,
        where: str,
        privileged: bool,
    ) -> Alternative:
        self.findings.unknown_fields(obj, detail, _DETAIL_FIELDS, where)
        self.findings.refuse_if_serious(obj)
        base = device_class.spec if device_class else {}
        low, high = _counts(obj, base, detail, where, self.findings)
        totals, access = _requested(obj, detail, where)
        configs_of(obj, detail, where)
        shared = bool(detail.get("allowShared"))
        mode = detail.get("accessMode") or base.get("accessMode")
        if mode is not None:
            raise obj.error(f"{where}.accessMode", "name the resource: requests[].accessMode")
        admin = privileged or bool(detail.get("adminAccess") or base.get("adminAccess"))
        per_device = bool(totals) and _is_per_device(detail)
        for name, amount in totals.items() if shared and not per_device else ():
            if amount > _MAX_SHARE:
                problem = f"{quantity_text(amount)} is too large; a share has up to 64Ti"
                raise obj.error(f"{where}.requests.{name}", problem)
        return Alternative(
            self._matcher(obj, detail, device_class, where),
            low,
            high,
            str(detail.get("name") or ""),
            every_device=privileged,
            portions=totals if per_device else {},
            totals={} if per_device else totals,
            ceilings=_limits(obj, detail, where),
            shared=shared,
            whole=not shared and not per_device and not access,
            access=access,
            admin=admin,
        )

    def _class_of(self, obj: ApiObject, detail: Object, where: str) -> DeviceClass | None:
        key = "class" if "class" in detail else "deviceClass"
        name = detail.get(key)
        if name is None:
            return None
        if isinstance(name, str) and " " in name:
            # The prototype's own tests write "not implemented yet" here.
            self.findings.add(
                obj, f"{where}.{key}", f"{shown(name)} cannot be a class's name", serious=False
            )
            return None
        return self.classes.find(str(name), obj, f"{where}.{key}")

    def _matcher(
        self, obj: ApiObject, detail: Object, device_class: DeviceClass | None, where: str
    ) -> int:
        own = self.classes.selectors(obj, detail.get("constraints"), f"{where}.constraints")
        drivers = self.classes.drivers_of(obj, detail, where)
        base = device_class.choices if device_class else (Choice(None, ()),)
        choices = tuple(choice.with_selectors(drivers, *own) for choice in base)
        if choices not in self._by_choices:
            self._by_choices[choices] = len(self.matchers)
            self.matchers.append(FlatMatcher(choices, self.devices))
        return self._by_choices[choices]


def _constraints(
    obj: ApiObject,
    detail: Object,
    device_class: DeviceClass | None,
    where: str,
    member: frozenset[tuple[int, int]],
) -> list[Constraint]:
    """The constraints of the request and of its class, each once."""
    both = [detail] if device_class is None else [detail, device_class.spec]
    found = [constraint for spec in both for constraint in _of_kinds(obj, spec, where, member)]
    return list(dict.fromkeys(found))


def _instances(
    obj: ApiObject, spec: Object, findings: Findings
) -> t.Iterator[tuple[str, str, t.Sequence[tuple[str, Object]]]]:
    """Name, place and alternatives of each request of a claim."""
    listed = next((key for key in ("claims", "devices") if isinstance(spec.get(key), list)), None)
    if listed is None:
        yield from _instance(obj, spec, "spec", "")
        return
    for index, item in enumerate(items_of(obj, spec[listed], f"spec.{listed}")):
        where = f"spec.{listed}[{index}]"
        if "oneOf" in item or "allOf" in item:
            findings.unknown_fields(obj, item, ("name", "oneOf", "allOf"), where)
        yield from _instance(obj, item, where, str(item.get("name") or index))


def _instance(
    obj: ApiObject, item: Object, where: str, label: str
) -> t.Iterator[tuple[str, str, t.Sequence[tuple[str, Object]]]]:
    for key in ("oneOf", "allOf"):
        if key not in item:
            continue
        details = items_of(obj, item[key], f"{where}.{key}")
        if key == "oneOf":
            at_most(obj, details, _MAX_ALTERNATIVES, "alternatives", f"{where}.{key}")
        places = [(f"{where}.{key}[{index}]", detail) for index, detail in enumerate(details)]
        if key == "oneOf":
            yield label, where, places
        else:
            for index, place in enumerate(places):
                yield (f"{label}-{index}" if len(places) > 1 else label), where, [place]
    if "oneOf" not in item and "allOf" not in item:
        yield label, where, [(where, item)]


def _counts(
    obj: ApiObject, base: Object, detail: Object, where: str, findings: Findings
) -> tuple[int, int]:
    """The smallest and the largest number of devices."""
    requests = detail.get("requests")
    limits = mapping_of(obj, detail.get("limits"), f"{where}.limits")
    low: t.Any = base.get("minDeviceCount", 1)
    high: t.Any = base.get("maxDeviceCount")
    for key in ("minDeviceCount", *_COUNT_NAMES):
        if isinstance(detail.get(key), list):
            continue
        if key in detail:
            low = detail[key]
        if key in _COUNT_NAMES and key in detail and isinstance(requests, dict):
            problem = "the number of devices is given in addition to requests"
            findings.add(obj, f"{where}.{key}", problem, f"requests.{key}", serious=False)
    if isinstance(requests, dict):
        low = next((requests[key] for key in _COUNT_NAMES if key in requests), low)
    for key in ("maxDeviceCount", "maxDevices"):
        high = detail.get(key, high)
    high = next((limits[key] for key in _COUNT_NAMES if key in limits), high)
    low = _count(obj, low, f"{where}: the number of devices")
    high = low if high is None else _count(obj, high, f"{where}: the greatest number of devices")
    if high < low:
        raise obj.error(where, f"from {low} to {high} devices is not a range")
    return low, high


def _count(obj: ApiObject, value: t.Any, where: str) -> int:
    if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_DEVICES:
        raise obj.error(where, f"{shown(value)} is not a number from 1 to {_MAX_DEVICES}")
    return value


def _requested(obj: ApiObject, detail: Object, where: str) -> tuple[dict[str, int], dict[str, str]]:
    """Amounts by resource, and modes of access by resource."""
    place = f"{where}.requests"
    if not isinstance(detail.get("requests"), list):
        wanted = amounts_of(obj, detail.get("requests"), place)
        at_most(obj, wanted, _MAX_AMOUNTS, "amounts", place)
        return {
            name: demand_of(amount, f"{place}.{name}")
            for name, amount in wanted.items()
            if name not in _COUNT_NAMES
        }, {}
    amounts: dict[str, int] = {}
    access: dict[str, str] = {}
    items = at_most(obj, items_of(obj, detail["requests"], place), _MAX_AMOUNTS, "amounts", place)
    for index, item in enumerate(items):
        kinds = [key for key in ("counter", "quantity", "accessMode") if key in item]
        if len(kinds) != 1 or not isinstance(item.get("resource") or None, str):
            raise obj.error(
                f"{place}[{index}]", "write resource, and counter, quantity or accessMode"
            )
        body = mapping_of(obj, item[kinds[0]], f"{place}[{index}].{kinds[0]}")
        if kinds == ["accessMode"]:
            if body.get("request") not in ACCESS_MODES:
                raise obj.error(
                    f"{place}[{index}].accessMode", f"write one of {', '.join(ACCESS_MODES)}"
                )
            access[item["resource"]] = body["request"]
        else:
            amounts[item["resource"]] = demand_of(body.get("request"), f"{place}[{index}]")
    return amounts, access


def _is_per_device(detail: Object) -> bool:
    """Whether amounts are per device, as before the successor's aggregate amounts."""
    return isinstance(detail.get("requests"), list) or "deviceClass" in detail


def _limits(obj: ApiObject, detail: Object, where: str) -> dict[str, int]:
    limits = mapping_of(obj, detail.get("limits"), f"{where}.limits")
    at_most(obj, limits, _MAX_AMOUNTS, "amounts", f"{where}.limits")
    return {
        name: demand_of(amount, f"{where}.limits.{name}")
        for name, amount in limits.items()
        if name not in _COUNT_NAMES
    }


def _of_kinds(
    obj: ApiObject, spec: Object, where: str, members: frozenset[tuple[int, int]]
) -> t.Iterator[Constraint]:
    """Match and distinct constraints for these members."""
    kinds: tuple[tuple[str, t.Literal["match", "distinct"]], ...] = (
        ("matchAttributes", "match"),
        ("attributeMatches", "match"),
        ("distinctAttributes", "distinct"),
    )
    for key, kind in kinds:
        names = spec.get(key) or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise obj.error(f"{where}.{key}", "must be a list of the names of attributes")
        at_most(obj, names, _MAX_ATTRIBUTES, "attributes", f"{where}.{key}")
        for name in names:
            # Two samples write the attribute in the form of a selector.
            plain = name[len("device.") :] if name.startswith("device.") else name
            yield Constraint(kind, plain, members)
