# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Attributes, capacities, taints and tolerations as resource.k8s.io/v1 writes them."""

from __future__ import annotations

import typing as t

from ...base.boundary import shown
from ...cel.values import Attribute, Scalar, demand_of, parse_version, scalar_of, supply_of
from ...scheduling.model import Taint, Toleration
from ..model.findings import Field
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


def qualified(name: str, driver: str) -> str:
    """A name with its domain; without one it gets the driver's."""
    return name if "/" in name else f"{driver}/{name}"


def name_in(field: Field, most: int) -> str:
    """A name. Raises Defect."""
    if not isinstance(field.value, str) or not field.value:
        raise field.error("the name is missing")
    if len(field.value) > most or not field.value.isascii():
        raise field.error(f"{shown(field.value)} is not a name of up to {most} characters")
    return field.value


def attributes_of(field: Field, driver: str) -> dict[str, Attribute]:
    """The attributes of a device by their full names. Raises InvalidInput."""
    found: dict[str, Attribute] = {}
    values = 0
    for name, item in field.members():
        found[qualified(_name(name, item), driver)] = read = _attribute(item)
        values += len(read) if isinstance(read, tuple) else 1
    field.limit(values, MAX_LISTED, "{count} values; a device has {most}")
    return found


def has_lists(attributes: t.Any) -> bool:
    """Whether an attribute is a list; false for anything but a mapping of attributes."""
    values = attributes.values() if isinstance(attributes, dict) else ()
    return any(isinstance(value, dict) and not value.keys().isdisjoint(_LISTS) for value in values)


def capacities_of(field: Field) -> dict[str, Capacity]:
    """The capacities of a device; a claim requests one by its published name."""
    return {_name(name, item): _capacity(item) for name, item in field.members()}


def _name(name: str, item: Field) -> str:
    *domain, identifier = name.split("/")
    if (
        not name.isascii()
        or len(domain) > 1
        or not 0 < len(identifier) <= _MAX_IDENTIFIER_LENGTH
        or any(not 0 < len(part) <= _MAX_DOMAIN_LENGTH for part in domain)
    ):
        raise item.error(
            f"is not a name of up to {_MAX_IDENTIFIER_LENGTH} characters, with a domain of up to "
            f"{_MAX_DOMAIN_LENGTH} before a slash"
        )
    return name


def _attribute(field: Field) -> Attribute:
    """A typed value, or a list of them. Raises InvalidInput."""
    kinds = [key for key, value in field.mapping().items() if value is not None]
    if len(kinds) != 1:
        raise field.error("an attribute has exactly one value of a type")
    [kind] = kinds
    given = field[kind]
    if kind not in _LISTS:
        return given.read(_reader(kind, given))
    if not isinstance(given.value, list) or not 0 < len(given.value) <= MAX_LISTED:
        raise given.error(f"must be a list of up to {MAX_LISTED} values")
    read = _reader(_LISTS[kind], given)
    return tuple(Field(given.obj, given.where, item).read(read) for item in given.value)


def _reader(kind: str, field: Field) -> t.Callable[[t.Any, str], Scalar]:
    """The function that reads a scalar of this kind. Raises Defect."""
    if kind not in _SCALARS:
        raise field.error("unsupported type of attribute")

    def read(value: t.Any, where: str) -> Scalar:
        scalar = scalar_of(value, _SCALARS[kind], MAX_VALUE_LENGTH, where)
        return parse_version(value, where) if kind == "version" else scalar

    return read


def _capacity(field: Field) -> Capacity:
    """An amount with the portions that a policy allows. Raises InvalidInput."""
    field.mapping(_CAPACITY_FIELDS)
    amount = field["value"].read(supply_of)
    policy = field["requestPolicy"]
    given = policy.mapping(_POLICY_FIELDS)
    default = demand_of(given["default"], policy.where) if "default" in given else None
    if given.get("validValues"):
        listed = given["validValues"]
        if not isinstance(listed, list) or len(listed) > _MAX_VALID_VALUES:
            problem = f"must be a list of up to {_MAX_VALID_VALUES} values"
            raise policy["validValues"].error(problem)
        values = sorted(demand_of(item, policy.where) for item in listed)
        return Capacity(amount, default, tuple(values))
    limits = policy["validRange"]
    limits.mapping(_RANGE_FIELDS)
    read = {key: demand_of(item.value, f"{policy.where}.{key}") for key, item in limits.members()}
    step = max(1, read.get("step", 1))
    return Capacity(amount, default, (), read.get("min", 0), step, read.get("max"))


def taints_of(field: Field) -> tuple[Taint, ...]:
    """The taints of a device. Raises InvalidInput."""
    items = field.items(_MAX_TAINTS, "more than {most} taints")
    return tuple(taint_of(Field(field.obj, field.where, item.value)) for item in items)


def taint_of(field: Field) -> Taint:
    """One taint; an unknown effect excludes every claim. Raises InvalidInput."""
    item = field.mapping(_TAINT_FIELDS)
    if not item.get("key") or not item.get("effect"):
        raise field.error("a taint has a key and an effect")
    if item["effect"] not in (*TAINT_EFFECTS, "None"):
        raise field["effect"].error(f"unsupported effect {shown(item['effect'])}")
    key, value = (_text(field[name]) for name in ("key", "value"))
    return Taint(key, value, str(item["effect"]))


def _text(field: Field) -> str:
    """A text; empty if absent."""
    if not isinstance(field.value or "", str):
        raise field.error(f"{shown(field.value)} is not text")
    return field.value or ""


def tolerations_of(field: Field) -> tuple[Toleration, ...]:
    """The tolerations of a request. Raises InvalidInput."""
    found: list[Toleration] = []
    for item in field.items():
        item.mapping(_TOLERATION_FIELDS)
        effect, key, operator, value = (
            _text(item[name]) for name in ("effect", "key", "operator", "value")
        )
        if operator not in ("", "Equal", "Exists"):
            raise item["operator"].error("write Equal or Exists")
        found.append(Toleration(key, operator or "Equal", value, effect))
    return tuple(found)
