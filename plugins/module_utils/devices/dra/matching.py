# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Devices that a request of resource.k8s.io/v1 may use, by class, selectors and taints."""

from __future__ import annotations

import dataclasses
import typing as t
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

from ...base.boundary import InvalidField, shown
from ...base.json_types import Object
from ...cel.functions import carried
from ...cel.selector import Compiler, Evaluations, Selector, SelectorError
from ...cel.values import THOUSANDTHS, Quantity
from ...scheduling.feasibility import tolerates
from ...scheduling.model import Taint, Toleration
from ..model.findings import ApiObject, Defect, Field, Findings
from ..model.model import NOT_MET, WRONG_DRIVER, Alternative, Device
from ..model.usage import could_ever_satisfy
from . import values as dra_values
from .slices import Slices

MAX_SELECTORS = MAX_CONFIGS = 32
_CONFIG_FIELDS = frozenset({"opaque"})
_CLASS_FIELDS = frozenset({"selectors", "config", "extendedResourceName"})
_RULE_FIELDS = frozenset({"deviceSelector", "taint"})
_RULE_SELECTOR_FIELDS = ("driver", "pool", "device")


class DeviceCatalog:
    """All devices with their taints and the results of selectors, by position."""

    def __init__(self, slices: Slices) -> None:
        self.slices = slices
        self.taints = [published.taints for published in slices.published]
        self.evaluations = Evaluations([_variables(device) for device in slices.devices])

    def add_rule(self, obj: ApiObject, findings: Findings) -> None:
        """Apply a DeviceTaintRule.

        If a part of it cannot be read, the devices that the rest selects are never allocated,
        because the rule taints some of them.
        """
        found = findings.read(obj, _selector_of_rule)
        if isinstance(found, Defect):
            return
        taint = findings.read(obj, _taint_of_rule)
        for index, device in enumerate(self.slices.devices):
            names = (device.driver, device.pool, device.name)
            if not all(want in (None, name) for want, name in zip(found, names)):
                continue
            if isinstance(taint, Defect):
                self._forbid(index, f"{obj} cannot be read: {taint.field}: {taint.problem}")
            else:
                self.taints[index] = (*self.taints[index], taint)

    def _forbid(self, device: int, reason: str) -> None:
        published = self.slices.published[device]
        unusable = published.unusable or reason
        self.slices.published[device] = dataclasses.replace(published, unusable=unusable)


def _selector_of_rule(obj: ApiObject) -> list[t.Any]:
    selector = obj["spec"]["deviceSelector"]
    return [selector[key].value for key in _RULE_SELECTOR_FIELDS]


def _taint_of_rule(obj: ApiObject) -> Taint:
    obj["spec"].mapping(_RULE_FIELDS)
    obj["spec"]["deviceSelector"].mapping(frozenset(_RULE_SELECTOR_FIELDS))
    return dra_values.taint_of(obj["spec"]["taint"])


def _variables(device: Device) -> dict[str, t.Any]:
    attributes: dict[str, dict[str, t.Any]] = {}
    capacities: dict[str, dict[str, t.Any]] = {}
    for name, value in device.attributes.items():
        domain, _slash, plain = name.rpartition("/")
        attributes.setdefault(domain, {})[plain] = carried(value)
    for name, capacity in device.capacities.items():
        domain, _slash, plain = dra_values.qualified(name, device.driver).rpartition("/")
        amount = Quantity(Decimal(capacity.amount) / THOUSANDTHS)
        capacities.setdefault(domain, {})[plain] = carried(amount)
    return {
        "device.driver": device.driver,
        "device.attributes": attributes,
        "device.capacity": capacities,
        "device.allowMultipleAllocations": device.shareable,
    }


@dataclass(frozen=True)
class DraMatcher:
    """model.Matcher for selectors of a class and a request, in this order, and tolerations.

    ``wanted`` are the amounts of a request for every device, for which a device without these
    amounts does not count. A device on which a selector fails is kept as an error until a search
    meets it.
    """

    selectors: tuple[Selector, ...]
    tolerations: tuple[Toleration, ...]
    published: DeviceCatalog = field(repr=False, compare=False)
    wanted: tuple[tuple[str, int], ...] | None = None

    @cached_property
    def devices(self) -> tuple[int, ...]:
        return tuple(index for index in self._left if not self._beyond_selectors(index))

    @cached_property
    def errors(self) -> t.Mapping[int, str]:
        answered = ((index, *self._rejection(index)) for index in self._answered)
        return {index: reason for index, failed, reason in answered if failed}

    @cached_property
    def _answered(self) -> list[int]:
        """Usable devices that no selector before a failing one rejected."""
        published = self.published.slices.published
        left = [index for index, one in enumerate(published) if not one.unusable]
        for selector in self.selectors:
            answers = self.published.evaluations.of(selector)
            # A non-empty error is truthy too.
            left = [index for index in left if answers[index]]
        return left

    @cached_property
    def _left(self) -> list[int]:
        """Devices that all selectors accept."""
        return [index for index in self._answered if index not in self.errors]

    def _rejection(self, device: int) -> tuple[bool, str]:
        """Whether a selector fails on a device, and why the first one does not accept it."""
        for selector in self.selectors:
            answer = self.published.evaluations.of(selector)[device]
            if isinstance(answer, SelectorError):
                there = f"device {self.published.slices.devices[device]}"
                return True, f"the selector {shown(selector.source)} fails on {there}: {answer}"
            if answer is not True:
                # This API selects the driver by CEL; the prototype had a field.
                by_driver = selector.reads == {("device.driver",)}
                return False, WRONG_DRIVER if by_driver else NOT_MET
        return False, ""

    def _untolerated(self, device: int) -> str:
        for taint in self.published.taints[device]:
            if taint.effect in dra_values.TAINT_EFFECTS and not any(
                tolerates(toleration, taint) for toleration in self.tolerations
            ):
                return f"taint {taint.key}={taint.value}:{taint.effect} is not tolerated"
        return ""

    def _beyond_selectors(self, device: int) -> str:
        if untolerated := self._untolerated(device):
            return untolerated
        return "" if self._could_have(device) else "it never has the requested capacity"

    def _could_have(self, device: int) -> bool:
        """Whether the unused device has the amounts of a request for every device."""
        if self.wanted is None:
            return True
        asked = Alternative(0, portions=dict(self.wanted))
        return could_ever_satisfy(self.published.slices.devices[device], asked)

    def why_not(self, device: int) -> str:
        return (
            self.published.slices.published[device].unusable
            or self._rejection(device)[1]
            or self._beyond_selectors(device)
        )

    def unsettled(self) -> frozenset[str]:
        """Nodes with devices whose match is undecided, or that match and are not for this request.

        Kubernetes counts tainted devices among all, so that a request for all of them fails.
        """
        devices = self.published.slices.devices
        tainted = (
            index for index in self._left if self._untolerated(index) and self._could_have(index)
        )
        return frozenset(
            node for index in (*self.errors, *tainted) for node in devices[index].nodes
        )


@dataclass(frozen=True)
class DeviceClass:
    """A class, read once for all of its claims."""

    spec: Field
    configurations: tuple[Object, ...]
    compiler: Compiler

    @cached_property
    def selectors(self) -> tuple[Selector, ...]:
        """Raises InvalidInput."""
        return selectors_of(self.spec["selectors"], self.compiler)


class DeviceClasses:
    """The DeviceClasses by name."""

    def __init__(self, compiler: Compiler, classes: t.Sequence[ApiObject]) -> None:
        self.compiler = compiler
        self._objects = {obj.name: obj for obj in classes}
        self._read: dict[str, DeviceClass] = {}

    def find(self, named: Field) -> DeviceClass:
        """The class of this name. Raises InvalidInput."""
        name = named.value
        if not isinstance(name, str) or name not in self._objects:
            raise named.error(f"there is no DeviceClass {shown(name)}")
        if name not in self._read:
            spec = self._objects[name]["spec"]
            spec.mapping(_CLASS_FIELDS)
            configurations = tuple(item.value for item in configurations_of(spec["config"]))
            self._read[name] = DeviceClass(spec, configurations, self.compiler)
        return self._read[name]


def selectors_of(listed: Field, compiler: Compiler) -> tuple[Selector, ...]:
    """The selectors of a class or request. Raises InvalidInput."""
    found: list[Selector] = []
    for item in listed.items(MAX_SELECTORS, "more than {most} selectors"):
        item.mapping({"cel"})
        cel = item["cel"]
        cel.mapping({"expression"})
        expression = cel["expression"]
        try:
            found.append(compiler.compile(expression.value, expression.where))
        except InvalidField as error:
            raise listed.obj.error(error.field, error.problem) from error
    return tuple(found)


def configurations_of(listed: Field, more: t.AbstractSet[str] = frozenset()) -> t.Sequence[Field]:
    """Configurations of a class, or of a claim with ``more`` fields. Raises Defect."""
    items = listed.items(MAX_CONFIGS)
    for item in items:
        item.mapping(_CONFIG_FIELDS | more)
    return items
