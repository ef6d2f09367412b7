# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Attributes, capacities, taints and tolerations as resource.k8s.io/v1 writes them."""

from __future__ import annotations

import typing as t

from ...base.boundary import shown, shown_text
from ...cel.values import Attribute, Scalar, demand_of, parse_version, scalar_of, supply_of
from ...scheduling.model import Taint, Toleration
from ..model.fields import items_of, mapping_of
from ..model.findings import ApiObject
from ..model.model import Capacity

TAINT_EFFECTS = ("NoSchedule", "NoExecute")
_SCALARS: t.Mapping[str, type] = {"bool": bool, "int": int, "string": str, "version": str}
_LISTS = {f"{name}s": name for name in _SCALARS}
_CAPACITY_FIELDS = frozenset({"value", "requestPolicy"})
_POLICY_FIELDS = frozenset({"default", "validValues", "validRange"})
_RANGE_FIELDS = frozenset({"min", "max", "step"})
_TAINT_FIELDS = frozenset({"key", "value", "effect", "timeAdded"})
_TOLERATION_FIELDS = frozenset("key operator value effect tolerationSeconds".split())

# Source: the constants of resource.k8s.io/v1.
MAX_VALUES, MAX_LISTED, MAX_VALUE_LENGTH = 32, 48, 64
_MAX_IDENTIFIER_LENGTH, _MAX_DOMAIN_LENGTH = 32, 63
_MAX_VALID_VALUES, _MAX_TAINTS = 10, 16
# Length of a name in a message; the name is arbitrary input.
_MAX_NAME_LENGTH = 100


def qualified(name: str, driver: str) -> str:
    """A name with its domain; without one it gets the driver's."""
    return name if "/" in name else f"{driver}/{name}"


def attributes_of(obj: ApiObject, value: t.Any, where: str, driver: str) -> dict[str, Attribute]:
    """The attributes of a device by their full names. Raises InvalidInput."""
    found: dict[str, Attribute] = {}
    values = 0
    for name, item in mapping_of(obj, value, f"{where}.attributes").items():
        place = f"{where}.attributes.{shown_text(str(name), _MAX_NAME_LENGTH)}"
        found[qualified(_name(obj, name, place), driver)] = read = _attribute(obj, item, place)
        values += len(read) if isinstance(read, tuple) else 1
    if values > MAX_LISTED:
        raise obj.error(f"{where}.attributes", f"{values} values; a device has {MAX_LISTED}")
    return found


def has_lists(attributes: t.Any) -> bool:
    """Whether an attribute is a list; false for anything but a mapping of attributes."""
    values = attributes.values() if isinstance(attributes, dict) else ()
    return any(isinstance(value, dict) and not value.keys().isdisjoint(_LISTS) for value in values)


def capacities_of(obj: ApiObject, value: t.Any, where: str) -> dict[str, Capacity]:
    """The capacities of a device; a claim requests one by its published name."""
    found: dict[str, Capacity] = {}
    for name, item in mapping_of(obj, value, f"{where}.capacity").items():
        place = f"{where}.capacity.{shown_text(str(name), _MAX_NAME_LENGTH)}"
        found[_name(obj, name, place)] = _capacity(obj, item, place)
    return found


def _name(obj: ApiObject, name: t.Any, where: str) -> str:
    parts = name.split("/") if isinstance(name, str) and name.isascii() else []
    identifier, domain = parts[-1:] or [""], parts[:-1]
    if (
        len(parts) not in (1, 2)
        or not 0 < len(identifier[0]) <= _MAX_IDENTIFIER_LENGTH
        or any(not 0 < len(part) <= _MAX_DOMAIN_LENGTH for part in domain)
    ):
        raise obj.error(
            where,
            f"is not a name of up to {_MAX_IDENTIFIER_LENGTH} characters, with a domain of up to "
            f"{_MAX_DOMAIN_LENGTH} before a slash",
        )
    return "/".join(parts)


def _attribute(obj: ApiObject, value: t.Any, where: str) -> Attribute:
    """A typed value, or a list of them. Raises InvalidInput."""
    body = mapping_of(obj, value, where)
    kinds = [key for key, item in body.items() if item is not None]
    if len(kinds) != 1:
        raise obj.error(where, "an attribute has exactly one value of a type")
    [kind] = kinds
    if kind in _LISTS:
        listed = body[kind]
        if not isinstance(listed, list) or not 0 < len(listed) <= MAX_LISTED:
            raise obj.error(f"{where}.{kind}", f"must be a list of up to {MAX_LISTED} values")
        return tuple(_scalar(obj, item, _LISTS[kind], where) for item in listed)
    return _scalar(obj, body[kind], kind, where)


def _scalar(obj: ApiObject, value: t.Any, kind: str, where: str) -> Scalar:
    place = f"{where}.{shown_text(str(kind), _MAX_NAME_LENGTH)}"
    if kind not in _SCALARS:
        raise obj.error(place, "unsupported type of attribute")
    scalar = scalar_of(value, _SCALARS[kind], MAX_VALUE_LENGTH, place)
    return parse_version(value, place) if kind == "version" else scalar


def _capacity(obj: ApiObject, value: t.Any, where: str) -> Capacity:
    """An amount with the portions that a policy allows. Raises InvalidInput."""
    body = mapping_of(obj, value, where)
    refuse_unknown(obj, body, _CAPACITY_FIELDS, where)
    amount = supply_of(body.get("value"), f"{where}.value")
    policy = mapping_of(obj, body.get("requestPolicy"), f"{where}.requestPolicy")
    if not policy:
        return Capacity(amount)
    place = f"{where}.requestPolicy"
    refuse_unknown(obj, policy, _POLICY_FIELDS, place)
    default = demand_of(policy["default"], place) if "default" in policy else None
    if policy.get("validValues"):
        listed = policy["validValues"]
        if not isinstance(listed, list) or len(listed) > _MAX_VALID_VALUES:
            problem = f"must be a list of up to {_MAX_VALID_VALUES} values"
            raise obj.error(f"{place}.validValues", problem)
        return Capacity(amount, default, tuple(sorted(demand_of(item, place) for item in listed)))
    limits = mapping_of(obj, policy.get("validRange"), f"{place}.validRange")
    refuse_unknown(obj, limits, _RANGE_FIELDS, f"{place}.validRange")
    read = {key: demand_of(item, f"{place}.{key}") for key, item in limits.items()}
    step = max(1, read.get("step", 1))
    return Capacity(amount, default, (), read.get("min", 0), step, read.get("max"))


def refuse_unknown(
    obj: ApiObject, body: t.Mapping[str, t.Any], known: t.AbstractSet[str], where: str
) -> None:
    """Refuse an unknown field by name, because its meaning is unknown."""
    unknown = sorted(str(name) for name in body if name not in known)
    if unknown:
        raise obj.error(f"{where}.{shown_text(unknown[0], _MAX_NAME_LENGTH)}", "unsupported")


def taints_of(obj: ApiObject, value: t.Any, where: str) -> tuple[Taint, ...]:
    """The taints of a device. Raises InvalidInput."""
    items = items_of(obj, value, where)
    if len(items) > _MAX_TAINTS:
        raise obj.error(where, f"more than {_MAX_TAINTS} taints")
    return tuple(taint_of(obj, item, where) for item in items)


def taint_of(obj: ApiObject, item: t.Mapping[str, t.Any], where: str) -> Taint:
    """One taint; an unknown effect excludes every claim. Raises InvalidInput."""
    refuse_unknown(obj, item, _TAINT_FIELDS, where)
    if not item.get("key") or not item.get("effect"):
        raise obj.error(where, "a taint has a key and an effect")
    if item["effect"] not in (*TAINT_EFFECTS, "None"):
        raise obj.error(f"{where}.effect", f"unsupported effect {shown(item['effect'])}")
    for name in ("key", "value"):
        if not isinstance(item.get(name) or "", str):
            raise obj.error(f"{where}.{name}", f"{shown(item[name])} is not text")
    return Taint(str(item["key"]), str(item.get("value") or ""), str(item["effect"]))


def tolerations_of(obj: ApiObject, value: t.Any, where: str) -> tuple[Toleration, ...]:
    """The tolerations of a request. Raises InvalidInput."""
    found: list[Toleration] = []
    for index, item in enumerate(items_of(obj, value, where)):
        refuse_unknown(obj, item, _TOLERATION_FIELDS, f"{where}[{index}]")
        for name in sorted(_TOLERATION_FIELDS & item.keys()):
            if name != "tolerationSeconds" and not isinstance(item[name] or "", str):
                raise obj.error(f"{where}[{index}].{name}", f"{shown(item[name])} is not text")
        operator = item.get("operator") or "Equal"
        if operator not in ("Equal", "Exists"):
            raise obj.error(f"{where}[{index}].operator", "write Equal or Exists")
        texts = (str(item.get(key) or "") for key in ("value", "effect"))
        found.append(Toleration(str(item.get("key") or ""), operator, *texts))
    return tuple(found)
