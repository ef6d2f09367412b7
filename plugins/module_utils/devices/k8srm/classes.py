# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Device classes and drivers of the prototype, and the devices that a claim may use by them."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field
from functools import cached_property

from ...base.boundary import InvalidField, shown
from ...base.errors import InvalidInput
from ...base.json_types import Object
from ...base.label_selector import parse_label_selector
from ...cel.functions import carried
from ...cel.selector import Compiler, Evaluations, Selector, SelectorError
from ..model.findings import ApiObject, Defect, Field, Findings, likely_name
from ..model.model import NOT_MET, WRONG_DRIVER, Device
from ..model.task import labels_of

EVALUATION_FAILED = "error evaluating constraints: "

_CLASS_FIELDS = frozenset(
    "driver deviceType constraints adminAccess configs config minDeviceCount maxDeviceCount "
    "attributeMatches matchAttributes accessMode selector definition".split()
)


@dataclass(frozen=True)
class Choice:
    """Devices of these drivers (None: of any) that all selectors accept."""

    drivers: frozenset[str] | None
    selectors: tuple[Selector, ...]

    def with_selectors(self, drivers: frozenset[str] | None, *more: Selector) -> Choice:
        """This choice narrowed by further conditions."""
        if self.drivers is None or drivers is None:
            both = drivers if self.drivers is None else self.drivers
        else:
            both = self.drivers & drivers
        return Choice(both, self.selectors + more)


class DeviceCatalog:
    """All devices with the results of selectors, by position."""

    def __init__(self, devices: t.Sequence[Device]) -> None:
        self.devices = tuple(devices)
        self.evaluations = Evaluations(
            [
                {"device": {name: carried(value) for name, value in device.attributes.items()}}
                for device in devices
            ]
        )


@dataclass(frozen=True)
class FlatMatcher:
    """Devices that one of several choices accepts; model.Matcher for the prototype."""

    choices: tuple[Choice, ...]
    known: DeviceCatalog = field(repr=False)

    @property
    def errors(self) -> t.Mapping[int, str]:
        """None: in the prototype, a device on which a constraint fails does not match."""
        return {}

    @cached_property
    def devices(self) -> tuple[int, ...]:
        return tuple(index for index in range(len(self.known.devices)) if not self.why_not(index))

    def why_not(self, device: int) -> str:
        reason = WRONG_DRIVER
        for choice in self.choices:
            found = self._choice_why_not(choice, device)
            if not found:
                return ""
            # The closest match has the most useful reason.
            reason = found if reason == WRONG_DRIVER else reason
        return reason

    def _choice_why_not(self, choice: Choice, device: int) -> str:
        if choice.drivers is not None and self.known.devices[device].driver not in choice.drivers:
            return WRONG_DRIVER
        for selector in choice.selectors:
            accepted = self.known.evaluations.of(selector)[device]
            if isinstance(accepted, SelectorError):
                return f"{EVALUATION_FAILED}{accepted}"
            if not accepted:
                return NOT_MET
        return ""


@dataclass(frozen=True)
class DeviceClass:
    """Additions of a class to each claim for it; ``spec`` is the original spec of the class."""

    choices: tuple[Choice, ...]
    spec: Field


class Classes:
    """The classes by name, and the drivers by device type."""

    def __init__(self, findings: Findings, compiler: Compiler) -> None:
        self._findings = findings
        self._compiler = compiler
        self._given: dict[str, ApiObject] = {}
        self._drivers_by_type: dict[str, set[str]] = {}
        self._drivers: set[str] = set()

    def add_driver(self, obj: ApiObject) -> None:
        """Read a DeviceDriver; its device types are at the top level or in a spec."""
        own = obj["spec"].mapping() or obj.manifest
        self._drivers.add(obj.name)
        for kind in Field(obj, "deviceTypes", own.get("deviceTypes") or None).texts():
            self._drivers_by_type.setdefault(kind, set()).add(obj.name)

    def add(self, obj: ApiObject) -> None:
        """Read a DeviceClass; its defects matter only if a claim uses it."""
        self._findings.unknown_fields(obj["spec"], _CLASS_FIELDS)
        self._given[obj.name] = obj

    def check_all(self) -> None:
        """Find defects in the selectors of unused classes too."""
        for obj in self._given.values():
            found = obj.attempt(lambda own: self.selectors(_definition(own)["constraints"]))
            if isinstance(found, Defect):
                problem, _semicolon, intention = found.problem.partition("; for equality ")
                self._findings.add(obj, found.field, problem, intention)

    def selectors(self, constraint: Field) -> tuple[Selector, ...]:
        """Selectors of a constraint; none for an absent or empty one. Raises InvalidInput."""
        if constraint.value in (None, ""):
            return ()
        try:
            selector = self._compiler.compile(constraint.value, constraint.where)
        except InvalidField as error:
            raise constraint.obj.error(error.field, error.problem) from error
        for doubt in selector.doubts:
            self._findings.add(constraint.obj, constraint.where, doubt, serious=False)
        return (selector,)

    def find(self, named: Field) -> DeviceClass:
        """The class of this name, with those that a meta class selects. Raises InvalidInput."""
        name = str(named.value)
        if name not in self._given:
            close = likely_name(name, self._given)
            hint = f"; probably {close} is meant" if close else "; give it among the objects"
            raise named.error(f"there is no DeviceClass {shown(name)}{hint}")
        spec = _definition(self._given[name])
        configs_of(spec)
        return DeviceClass(tuple(self._choices(self._given[name], ())), spec)

    def _choices(self, obj: ApiObject, within: tuple[str, ...]) -> t.Iterator[Choice]:
        """The choices of a class; for a meta class, of each class that it selects."""
        self._findings.refuse_if_serious(obj)
        if obj.name in within:
            path = " → ".join((*within[within.index(obj.name) :], obj.name))
            raise obj.error("spec.selector", f"meta classes select each other in a cycle: {path}")
        spec = _definition(obj)
        if "selector" not in spec.value:
            yield Choice(self.drivers_of(spec), self.selectors(spec["constraints"]))
            return
        try:
            selector = parse_label_selector(spec.value["selector"])
        except InvalidInput as error:
            raise obj.error("spec.selector", str(error)) from error
        for other in self._given.values():
            if selector.matches(labels_of(other, self._findings)):
                yield from self._choices(other, (*within, obj.name))

    def drivers_of(self, spec: Field) -> frozenset[str] | None:
        """The drivers that ``driver`` and ``deviceType`` admit; None for all."""
        for name in (spec["driver"], spec["deviceType"]):
            if not isinstance(name.value or "", str):
                raise name.error(f"{shown(name.value)} is not a name")
        driver, kind = spec["driver"].value, spec["deviceType"].value
        if driver and self._drivers and driver not in self._drivers:
            raise spec["driver"].error(f"no DeviceDriver {shown(driver)} is registered")
        if (kind and not driver) or (kind and self._drivers):
            handling = self._drivers_by_type.get(str(kind), set())
            if not handling:
                raise spec["deviceType"].error(f"no DeviceDriver handles the type {shown(kind)}")
            return frozenset(handling & {driver} if driver else handling)
        return frozenset([driver]) if driver else None


def _definition(obj: ApiObject) -> Field:
    """The fields of a class, which one model puts into a definition."""
    spec = obj["spec"]
    return Field(obj, "spec", {**spec.mapping(), **spec["definition"].mapping()})


def configs_of(spec: Field) -> list[Object]:
    """The references to configurations, under either name that samples use. Raises Defect."""
    given = spec.value.get("configs") or spec.value.get("config")
    return [item.value for item in Field(spec.obj, f"{spec.where}.configs", given).items()]
