# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Device claims of the prototype's three models as claims of the neutral instance."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ...base.boundary import shown
from ...cel.values import THOUSANDTHS, demand_of, quantity_text
from ..model.findings import Field, Findings, too_many
from ..model.model import Alternative, Claim, Constraint, Request
from ..model.usage import ACCESS_MODES
from .classes import Choice, Classes, DeviceCatalog, DeviceClass, FlatMatcher, configs_of

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


Origin = tuple[Field, t.Optional[DeviceClass]]


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

    def read(self, spec: Field, name: str) -> Claim:
        """A DeviceClaim, or an inline claim of a pod, by its spec. Raises InvalidInput."""
        obj = spec.obj
        spec.limit_selectors("constraints")
        parts = list(_instances(spec, self.findings))
        spec.limit(len(parts), _MAX_REQUESTS, too_many("requests"))
        self.findings.unknown_fields(spec, _CLAIM_FIELDS)
        requests: list[Request] = []
        constraints: list[Constraint] = []
        origins: list[list[Origin]] = []
        for label, place, details in parts:
            alternatives = []
            origins.append([])
            for number, detail in enumerate(details):
                device_class = self._class_of(detail)
                origins[-1].append((detail, device_class))
                alternatives.append(self._alternative(detail, device_class))
                member = frozenset([(len(requests), number)])
                constraints += _constraints(detail, device_class, member)
            if not alternatives:
                raise place.error("nothing is requested; name a class or driver")
            requests.append(Request(label, tuple(alternatives)))
        if not requests:
            raise spec.error("nothing is requested; name a class or driver")
        self.findings.refuse_if_serious(obj)
        lists = ("claims", "devices", "oneOf", "allOf")
        if any(isinstance(spec.value.get(key), list) for key in lists):
            everything = frozenset(
                (index, number)
                for index, request in enumerate(requests)
                for number in range(len(request.alternatives))
            )
            constraints += _of_kinds(spec, everything)
        self.origins.append(origins)
        uid = str(obj.manifest["metadata"].get("uid") or "")
        return Claim(obj.namespace, name, tuple(requests), tuple(constraints), uid)

    def _alternative(self, detail: Field, device_class: DeviceClass | None) -> Alternative:
        self.findings.unknown_fields(detail, _DETAIL_FIELDS)
        self.findings.refuse_if_serious(detail.obj)
        base = device_class.spec.value if device_class else {}
        low, high = _counts(detail, base, self.findings)
        totals, access = _requested(detail)
        configs_of(detail)
        given, privileged = detail.value, detail.obj.kind == "DevicePrivilegedClaim"
        shared = bool(given.get("allowShared"))
        if (given.get("accessMode") or base.get("accessMode")) is not None:
            raise detail["accessMode"].error("name the resource: requests[].accessMode")
        admin = privileged or bool(given.get("adminAccess") or base.get("adminAccess"))
        per_device = bool(totals) and _is_per_device(given)
        for name, amount in totals.items() if shared and not per_device else ():
            if amount > _MAX_SHARE:
                problem = f"{quantity_text(amount)} is too large; a share has up to 64Ti"
                raise detail["requests"][name].error(problem)
        return Alternative(
            self._matcher(detail, device_class),
            low,
            high,
            str(given.get("name") or ""),
            every_device=privileged,
            portions=totals if per_device else {},
            totals={} if per_device else totals,
            ceilings=_amounts(detail["limits"]),
            shared=shared,
            whole=not shared and not per_device and not access,
            access=access,
            admin=admin,
        )

    def _class_of(self, detail: Field) -> DeviceClass | None:
        named = detail["class" if "class" in detail.value else "deviceClass"]
        if named.value is None:
            return None
        if isinstance(named.value, str) and " " in named.value:
            # The prototype's own tests write "not implemented yet" here.
            problem = f"{shown(named.value)} cannot be a class's name"
            self.findings.add(named.obj, named.where, problem, serious=False)
            return None
        return self.classes.find(named)

    def _matcher(self, detail: Field, device_class: DeviceClass | None) -> int:
        own = self.classes.selectors(detail["constraints"])
        drivers = self.classes.drivers_of(detail)
        base = device_class.choices if device_class else (Choice(None, ()),)
        choices = tuple(choice.with_selectors(drivers, *own) for choice in base)
        if choices not in self._by_choices:
            self._by_choices[choices] = len(self.matchers)
            self.matchers.append(FlatMatcher(choices, self.devices))
        return self._by_choices[choices]


def _constraints(
    detail: Field, device_class: DeviceClass | None, member: frozenset[tuple[int, int]]
) -> list[Constraint]:
    """The constraints of the request and of its class, each once."""
    found = list(_of_kinds(detail, member))
    if device_class is not None:
        # Defects of the class are reported at the request.
        found += _of_kinds(Field(detail.obj, detail.where, device_class.spec.value), member)
    return list(dict.fromkeys(found))


def _instances(spec: Field, findings: Findings) -> t.Iterator[tuple[str, Field, t.Sequence[Field]]]:
    """Name, place and alternatives of each request of a claim."""
    given = spec.mapping()
    listed = next((key for key in ("claims", "devices") if isinstance(given.get(key), list)), None)
    if listed is None:
        yield from _instance(spec, "")
        return
    for index, item in enumerate(spec[listed].items()):
        if "oneOf" in item.value or "allOf" in item.value:
            findings.unknown_fields(item, ("name", "oneOf", "allOf"))
        yield from _instance(item, str(item.value.get("name") or index))


def _instance(item: Field, label: str) -> t.Iterator[tuple[str, Field, t.Sequence[Field]]]:
    if "oneOf" in item.value:
        yield label, item, item["oneOf"].items(_MAX_ALTERNATIVES, too_many("alternatives"))
    if "allOf" in item.value:
        details = item["allOf"].items()
        for index, detail in enumerate(details):
            yield (f"{label}-{index}" if len(details) > 1 else label), item, [detail]
    if "oneOf" not in item.value and "allOf" not in item.value:
        yield label, item, [item]


def _counts(detail: Field, base: t.Mapping[str, t.Any], findings: Findings) -> tuple[int, int]:
    """The smallest and the largest number of devices; ``base`` is the spec of the class."""
    given, requests = detail.value, detail.value.get("requests")
    limits = detail["limits"].mapping()
    low: t.Any = base.get("minDeviceCount", 1)
    high: t.Any = base.get("maxDeviceCount")
    for key in ("minDeviceCount", *_COUNT_NAMES):
        if key not in given or isinstance(given[key], list):
            continue
        low = given[key]
        if key in _COUNT_NAMES and isinstance(requests, dict):
            problem = "the number of devices is given in addition to requests"
            place = f"{detail.where}.{key}"
            findings.add(detail.obj, place, problem, f"requests.{key}", serious=False)
    if isinstance(requests, dict):
        low = next((requests[key] for key in _COUNT_NAMES if key in requests), low)
    for key in ("maxDeviceCount", "maxDevices"):
        high = given.get(key, high)
    high = next((limits[key] for key in _COUNT_NAMES if key in limits), high)
    low = _count(detail, low, "number of devices")
    high = low if high is None else _count(detail, high, "greatest number of devices")
    if high < low:
        raise detail.error(f"from {low} to {high} devices is not a range")
    return low, high


def _count(detail: Field, value: t.Any, what: str) -> int:
    if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_DEVICES:
        problem = f"{shown(value)} is not a number from 1 to {_MAX_DEVICES}"
        raise detail.obj.error(f"{detail.where}: the {what}", problem)
    return value


def _requested(detail: Field) -> tuple[dict[str, int], dict[str, str]]:
    """Amounts by resource, and modes of access by resource."""
    listed = detail["requests"]
    if not isinstance(listed.value, list):
        return _amounts(listed), {}
    amounts: dict[str, int] = {}
    access: dict[str, str] = {}
    for item in listed.items(_MAX_AMOUNTS, too_many("amounts")):
        resource = item.value.get("resource") or None
        kinds = [key for key in ("counter", "quantity", "accessMode") if key in item.value]
        if len(kinds) != 1 or not isinstance(resource, str):
            raise item.error("write resource, and counter, quantity or accessMode")
        request = item[kinds[0]]["request"].value
        if kinds != ["accessMode"]:
            amounts[resource] = demand_of(request, item.where)
        elif request in ACCESS_MODES:
            access[resource] = request
        else:
            raise item["accessMode"].error(f"write one of {', '.join(ACCESS_MODES)}")
    return amounts, access


def _is_per_device(detail: t.Mapping[str, t.Any]) -> bool:
    """Whether amounts are per device, as before the successor's aggregate amounts."""
    return isinstance(detail.get("requests"), list) or "deviceClass" in detail


def _amounts(given: Field) -> dict[str, int]:
    """Amounts by resource, without the numbers of devices."""
    given.limit(len(given.mapping()), _MAX_AMOUNTS, too_many("amounts"))
    return {
        name: amount.read(demand_of) for name, amount in given.members() if name not in _COUNT_NAMES
    }


def _of_kinds(spec: Field, members: frozenset[tuple[int, int]]) -> t.Iterator[Constraint]:
    """Match and distinct constraints for these members."""
    kinds: tuple[tuple[str, t.Literal["match", "distinct"]], ...] = (
        ("matchAttributes", "match"),
        ("attributeMatches", "match"),
        ("distinctAttributes", "distinct"),
    )
    for key, kind in kinds:
        listed = Field(spec.obj, f"{spec.where}.{key}", spec.value.get(key) or None)
        names = listed.texts("must be a list of the names of attributes")
        listed.limit(len(names), _MAX_ATTRIBUTES, too_many("attributes"))
        for name in names:
            # Two samples write the attribute in the form of a selector.
            plain = name[len("device.") :] if name.startswith("device.") else name
            yield Constraint(kind, plain, members)
