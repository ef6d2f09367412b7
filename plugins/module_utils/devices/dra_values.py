# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Attributes, capacities, taints and tolerations as resource.k8s.io/v1 writes them."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.devices.findings import Given
from ansible_collections.wattwise.kube.plugins.module_utils.devices.k8srm_pools import (
    items_of,
    mapping_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model import Capacity
from ansible_collections.wattwise.kube.plugins.module_utils.devices.values import (
    Attribute,
    Scalar,
    demand_of,
    is_of,
    parse_version,
    supply_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import (
    Taint,
    Toleration,
)

TAINT_EFFECTS = ("NoSchedule", "NoExecute")
_SCALARS: t.Mapping[str, type] = {"bool": bool, "int": int, "string": str, "version": str}
_LISTS = {f"{name}s": name for name in _SCALARS}
_CAPACITY_FIELDS = frozenset({"value", "requestPolicy"})
_POLICY_FIELDS = frozenset({"default", "validValues", "validRange"})
_RANGE_FIELDS = frozenset({"min", "max", "step"})


def qualified(name: str, driver: str) -> str:
    """A name with its domain; without one it is the driver's."""
    return name if "/" in name else f"{driver}/{name}"


def attribute(given: Given, value: t.Any, where: str) -> Attribute:
    """A typed value, or a list of them. Raises InvalidInput."""
    kinds = [key for key, item in (value or {}).items() if item is not None]
    if len(kinds) != 1:
        raise given.error(where, "an attribute has exactly one value of a type")
    [kind] = kinds
    if kind in _LISTS:
        listed = value[kind]
        if not isinstance(listed, list) or not listed:
            raise given.error(f"{where}.{kind}", "must be a list of values")
        return tuple(_scalar(given, item, _LISTS[kind], where) for item in listed)
    return _scalar(given, value[kind], kind, where)


def _scalar(given: Given, value: t.Any, kind: str, where: str) -> Scalar:
    if kind not in _SCALARS:
        raise given.error(f"{where}.{kind}", "unsupported type of attribute")
    if not is_of(value, _SCALARS[kind]):
        raise given.error(f"{where}.{kind}", f"{value!r} is not of this type")
    if kind == "version":
        return parse_version(str(value), f"{given}: {where}.{kind}")
    return t.cast(Scalar, value)


def capacity(given: Given, value: t.Any, where: str) -> Capacity:
    """An amount with the portions that a policy allows. Raises InvalidInput."""
    body = mapping_of(given, value, where)
    _refuse_unknown(given, body, _CAPACITY_FIELDS, where)
    amount = supply_of(body.get("value"), f"{given}: {where}.value")
    policy = mapping_of(given, body.get("requestPolicy"), f"{where}.requestPolicy")
    if not policy:
        return Capacity(amount)
    place = f"{where}.requestPolicy"
    _refuse_unknown(given, policy, _POLICY_FIELDS, place)
    default = demand_of(policy["default"], f"{given}: {place}") if "default" in policy else None
    if policy.get("validValues"):
        values = sorted(demand_of(item, f"{given}: {place}") for item in policy["validValues"])
        return Capacity(amount, default, tuple(values))
    limits = mapping_of(given, policy.get("validRange"), f"{place}.validRange")
    _refuse_unknown(given, limits, _RANGE_FIELDS, f"{place}.validRange")
    read = {key: demand_of(item, f"{given}: {place}.{key}") for key, item in limits.items()}
    step = max(1, read.get("step", 1))
    return Capacity(amount, default, (), read.get("min", 0), step, read.get("max"))


def _refuse_unknown(
    given: Given, body: t.Mapping[str, t.Any], known: frozenset[str], where: str
) -> None:
    unknown = sorted(body.keys() - known)
    if unknown:
        raise given.error(f"{where}.{unknown[0]}", "unsupported")


def taints_of(given: Given, value: t.Any, where: str) -> tuple[Taint, ...]:
    """The taints of a device. Raises InvalidInput."""
    return tuple(taint_of(given, item, where) for item in items_of(given, value, where))


def taint_of(given: Given, item: t.Mapping[str, t.Any], where: str) -> Taint:
    """One taint; an effect that is not known keeps everybody away. Raises InvalidInput."""
    if not item.get("key") or not item.get("effect"):
        raise given.error(where, "a taint has a key and an effect")
    if item["effect"] not in (*TAINT_EFFECTS, "None"):
        raise given.error(f"{where}.effect", f"unsupported effect {item['effect']!r}")
    return Taint(str(item["key"]), str(item.get("value") or ""), str(item["effect"]))


def tolerations_of(given: Given, value: t.Any, where: str) -> tuple[Toleration, ...]:
    """The tolerations of a request. Raises InvalidInput."""
    found: list[Toleration] = []
    for index, item in enumerate(items_of(given, value, where)):
        operator = item.get("operator") or "Equal"
        if operator not in ("Equal", "Exists"):
            raise given.error(f"{where}[{index}].operator", "write Equal or Exists")
        texts = (str(item.get(key) or "") for key in ("value", "effect"))
        found.append(Toleration(str(item.get("key") or ""), operator, *texts))
    return tuple(found)
