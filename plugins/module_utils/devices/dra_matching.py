# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Which published devices a request of resource.k8s.io/v1 may use: class, selectors, taints."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

from ansible_collections.wattwise.kube.plugins.module_utils.devices import dra_values
from ansible_collections.wattwise.kube.plugins.module_utils.devices.cel import (
    Compiler,
    Selector,
    SelectorError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.cel_functions import carried
from ansible_collections.wattwise.kube.plugins.module_utils.devices.dra_slices import Slices
from ansible_collections.wattwise.kube.plugins.module_utils.devices.evaluation import Evaluations
from ansible_collections.wattwise.kube.plugins.module_utils.devices.findings import Given
from ansible_collections.wattwise.kube.plugins.module_utils.devices.k8srm_classes import (
    NOT_MET,
    WRONG_DRIVER,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.k8srm_pools import (
    items_of,
    mapping_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model import Device
from ansible_collections.wattwise.kube.plugins.module_utils.devices.values import (
    THOUSANDTHS,
    Quantity,
)
from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.power.feasibility import tolerates
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import (
    Taint,
    Toleration,
)

MOST_SELECTORS = 32
_CLASS_FIELDS = frozenset({"selectors", "config", "extendedResourceName"})
_RULE_FIELDS = frozenset({"deviceSelector", "taint"})
_RULE_SELECTOR_FIELDS = ("driver", "pool", "device")


@dataclass
class Published:
    """All devices with their taints and with what selectors say of them, by position."""

    slices: Slices
    taints: list[tuple[Taint, ...]] = field(default_factory=list)
    evaluations: Evaluations = field(init=False)

    def __post_init__(self) -> None:
        self.taints = [published.taints for published in self.slices.published]
        self.evaluations = Evaluations([_variables(device) for device in self.slices.devices])

    def add_rule(self, given: Given) -> None:
        """Apply a DeviceTaintRule. Raises InvalidInput: a rule keeps devices from being given."""
        spec = mapping_of(given, given.manifest.get("spec"), "spec")
        selector = mapping_of(given, spec.get("deviceSelector"), "spec.deviceSelector")
        for body, known, where in (
            (spec, _RULE_FIELDS, "spec"),
            (selector, frozenset(_RULE_SELECTOR_FIELDS), "spec.deviceSelector"),
        ):
            unknown = sorted(body.keys() - known)
            if unknown:
                raise given.error(f"{where}.{unknown[0]}", "unsupported")
        taint = dra_values.taint_of(
            given, mapping_of(given, spec.get("taint"), "spec.taint"), "spec.taint"
        )
        wanted = [selector.get(key) for key in _RULE_SELECTOR_FIELDS]
        for index, device in enumerate(self.slices.devices):
            names = (device.driver, device.pool, device.name)
            if all(want in (None, name) for want, name in zip(wanted, names)):
                self.taints[index] = (*self.taints[index], taint)


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

    Raises InvalidInput where a selector errs on a device: Kubernetes stops there, too.
    """

    selectors: tuple[Selector, ...]
    tolerations: tuple[Toleration, ...]
    where: str = field(compare=False)
    published: Published = field(repr=False, compare=False)

    @cached_property
    def devices(self) -> tuple[int, ...]:
        left = [
            index
            for index, published in enumerate(self.published.slices.published)
            if not published.unusable
        ]
        for selector in self.selectors:
            answers = self.published.evaluations.of(selector)
            # An error is left in, for why_not to raise.
            left = [index for index in left if answers[index]]
        return tuple(index for index in left if not self.why_not(index))

    def settled(self) -> DraMatcher:
        """The same, evaluated now, so that an error names the claim that brought the selector."""
        self.__dict__.setdefault("devices", self.devices)
        return self

    def why_not(self, device: int) -> str:
        unusable = self.published.slices.published[device].unusable
        if unusable:
            return unusable
        for selector in self.selectors:
            accepted = self.published.evaluations.of(selector)[device]
            if isinstance(accepted, SelectorError):
                raise InvalidInput(
                    f"{self.where}: the selector {selector.source!r} fails on device "
                    f"{self.published.slices.devices[device]}: {accepted}"
                )
            if not accepted:
                # A selector by driver is how this API says what the prototype had a field for.
                by_driver = selector.reads == {("device.driver",)}
                return WRONG_DRIVER if by_driver else NOT_MET
        for taint in self.published.taints[device]:
            if taint.effect in dra_values.TAINT_EFFECTS and not any(
                tolerates(toleration, taint) for toleration in self.tolerations
            ):
                return f"taint {taint.key}={taint.value}:{taint.effect} is not tolerated"
        return ""


class DeviceClasses:
    """The DeviceClasses by name, with their selectors."""

    def __init__(self, compiler: Compiler, classes: t.Sequence[Given]) -> None:
        self._compiler = compiler
        self._classes = {given.name: given for given in classes}

    def find(self, name: t.Any, asking: Given, where: str) -> Given:
        """The class of this name. Raises InvalidInput."""
        if not isinstance(name, str) or name not in self._classes:
            raise asking.error(where, f"there is no DeviceClass {name!r}")
        given = self._classes[name]
        spec = mapping_of(given, given.manifest.get("spec"), "spec")
        unknown = sorted(spec.keys() - _CLASS_FIELDS)
        if unknown:
            raise given.error(f"spec.{unknown[0]}", "unsupported")
        return given

    def selectors(self, given: Given, value: t.Any, where: str) -> tuple[Selector, ...]:
        """The selectors of a class or request. Raises InvalidInput."""
        items = items_of(given, value, where)
        if len(items) > MOST_SELECTORS:
            raise given.error(where, f"more than {MOST_SELECTORS} selectors")
        found: list[Selector] = []
        for index, item in enumerate(items):
            place = f"{where}[{index}]"
            if item.keys() != {"cel"}:
                unknown = sorted(item.keys() - {"cel"})
                raise given.error(f"{place}.{(unknown or ['cel'])[0]}", "unsupported")
            source = mapping_of(given, item["cel"], f"{place}.cel").get("expression")
            found.append(self._compiler.compile(source, f"{given}: {place}.cel.expression"))
        return tuple(found)
