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
from ...base.label_selector import parse_label_selector
from ...cel.evaluation import Evaluations
from ...cel.functions import carried
from ...cel.selector import Compiler, Selector, SelectorError
from ..model.fields import Json, items_of, mapping_of
from ..model.findings import Finding, Findings, Given, guarded, likely_name
from ..model.messages import NOT_MET, WRONG_DRIVER
from ..model.model import Device
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


class Devices:
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
    known: Devices = field(repr=False)

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

    given: Given
    choices: tuple[Choice, ...]
    spec: Json


class Classes:
    """The classes by name, and the drivers by device type."""

    def __init__(self, findings: Findings, compiler: Compiler) -> None:
        self._findings = findings
        self._compiler = compiler
        self._given: dict[str, Given] = {}
        self._drivers_by_type: dict[str, set[str]] = {}
        self._drivers: set[str] = set()

    def add_driver(self, given: Given) -> None:
        """Read a DeviceDriver; its device types are at the top level or in a spec."""
        own = mapping_of(given, given.manifest.get("spec"), "spec") or given.manifest
        kinds = own.get("deviceTypes") or []
        self._drivers.add(given.name)
        if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
            raise given.error("deviceTypes", "must be a list of names")
        for kind in kinds:
            self._drivers_by_type.setdefault(kind, set()).add(given.name)

    def add(self, given: Given) -> None:
        """Read a DeviceClass; its defects matter only if a claim uses it."""
        spec = mapping_of(given, given.manifest.get("spec"), "spec")
        self._findings.unknown_fields(given, spec, _CLASS_FIELDS, "spec")
        self._given[given.name] = given

    def check_all(self) -> None:
        """Find defects in the selectors of unused classes too."""
        for given in self._given.values():
            where = "spec.constraints"
            found = guarded(
                given,
                lambda: self.selectors(given, _definition(given).get("constraints"), where),  # noqa: B023
            )
            if isinstance(found, Finding):
                problem, _semicolon, intention = found.problem.partition("; for equality ")
                self._findings.add(given, found.field, problem, intention)

    def selectors(self, given: Given, source: t.Any, where: str) -> tuple[Selector, ...]:
        """Selectors of a constraint; none for an absent or empty one. Raises InvalidInput."""
        if source in (None, ""):
            return ()
        try:
            selector = self._compiler.compile(source, where)
        except InvalidField as error:
            raise given.error(error.field, error.problem) from error
        for doubt in selector.doubts:
            self._findings.add(given, where, doubt, serious=False)
        return (selector,)

    def has(self, name: str) -> bool:
        """Whether there is a class of this name."""
        return name in self._given

    def find(self, name: str, asking: Given, where: str) -> DeviceClass:
        """The class of this name, with those that a meta class selects. Raises InvalidInput."""
        if name not in self._given:
            close = likely_name(name, self._given)
            hint = f"; probably {close} is meant" if close else "; give it among the objects"
            raise asking.error(where, f"there is no DeviceClass {shown(name)}{hint}")
        given = self._given[name]
        configs_of(given, _definition(given), "spec")
        return DeviceClass(given, tuple(self._choices(given, ())), _definition(given))

    def _choices(self, given: Given, within: tuple[str, ...]) -> t.Iterator[Choice]:
        """The choices of a class; for a meta class, of each class that it selects."""
        self._findings.refuse_if_serious(given)
        if given.name in within:
            path = " → ".join((*within[within.index(given.name) :], given.name))
            raise given.error("spec.selector", f"meta classes select each other in a cycle: {path}")
        spec = _definition(given)
        if "selector" not in spec:
            drivers = self.drivers_of(given, spec, "spec")
            yield Choice(
                drivers, self.selectors(given, spec.get("constraints"), "spec.constraints")
            )
            return
        try:
            selector = parse_label_selector(spec["selector"])
        except InvalidInput as error:
            raise given.error("spec.selector", str(error)) from error
        for other in self._given.values():
            if selector.matches(labels_of(other, self._findings)):
                yield from self._choices(other, (*within, given.name))

    def drivers_of(self, given: Given, spec: Json, where: str) -> frozenset[str] | None:
        """The drivers that ``driver`` and ``deviceType`` admit; None for all."""
        driver, kind = spec.get("driver"), spec.get("deviceType")
        for key in ("driver", "deviceType"):
            if not isinstance(spec.get(key) or "", str):
                raise given.error(f"{where}.{key}", f"{shown(spec[key])} is not a name")
        if driver and self._drivers and driver not in self._drivers:
            raise given.error(f"{where}.driver", f"no DeviceDriver {shown(driver)} is registered")
        if (kind and not driver) or (kind and self._drivers):
            handling = self._drivers_by_type.get(str(kind), set())
            if not handling:
                raise given.error(
                    f"{where}.deviceType", f"no DeviceDriver handles the type {shown(kind)}"
                )
            return frozenset(handling & {driver} if driver else handling)
        return frozenset([driver]) if driver else None


def _definition(given: Given) -> dict[str, t.Any]:
    """The fields of a class, which one model puts into a definition."""
    spec = mapping_of(given, given.manifest.get("spec"), "spec")
    inner = mapping_of(given, spec.get("definition"), "spec.definition")
    return {**spec, **inner}


def configs_of(given: Given, spec: Json, where: str) -> t.Sequence[Json]:
    """The references to configurations, under either name that samples use. Raises Defect."""
    return items_of(given, spec.get("configs") or spec.get("config"), f"{where}.configs")
