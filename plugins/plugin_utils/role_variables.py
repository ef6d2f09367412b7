# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the variables of roles: the types of argument_specs.yml and the limits of limits.yml.

Every problem is one sentence with the variable, the given value and the expected one. Only values
of scalar options are shown, and only in the inventory's form, so no secret gets into a message.
"""

from __future__ import annotations

import difflib
import functools
import math
import os
import re
import typing as t
from dataclasses import dataclass
from pathlib import Path

from ansible.module_utils.common import validation
from ansible.module_utils.common.yaml import yaml_load

from ..module_utils.base.boundary import shown, shown_text
from ..module_utils.base.errors import InvalidInput
from ..module_utils.base.label_selector import parse_selector_text
from ..module_utils.fleet.tls import normal_fingerprint

Spec = t.Mapping[str, t.Any]

# Length of a shown path, whose end identifies the file.
_MAX_VALUE_LENGTH = 4096

ROLES = Path(__file__).resolve().parents[2] / "roles"

# Variables outside of roles' options, which playbooks and the inventory read.
OTHER_VARIABLES = frozenset(
    {
        "rmd_endpoints",
        "rmd_node_agent_hosts",
        "rmd_node_name",
        "rmd_node_root",
        "wattwise_gateway_selector",
    }
)

_CHECKS: dict[str, t.Callable[[t.Any], t.Any]] = {
    "bool": validation.check_type_bool,
    "dict": validation.check_type_dict,
    "float": validation.check_type_float,
    "int": validation.check_type_int,
    "list": validation.check_type_list,
    "path": validation.check_type_path,
    "str": validation.check_type_str,
    "raw": lambda value: value,
}
_NOUNS = {
    "bool": "true or false",
    "dict": "a dictionary",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "path": "a path",
    "str": "a text",
}
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_NAME = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_CLOSE = 0.85  # of difflib's ratio: about one wrong, missing or additional letter in seven


@dataclass(frozen=True)
class Variable:
    """One variable: its roles, its specification and its limits."""

    name: str
    roles: tuple[str, ...]
    spec: Spec
    limits: Spec


@dataclass(frozen=True)
class RenderedValue:
    """A rendered value; ``source`` is its template, if any."""

    value: t.Any
    source: str | None = None

    def shown(self, value: t.Any, kind: str) -> str:
        """A part of it for a message: a rendered one by its template, containers by their kind.

        A text in place of a container may be a wrongly indented password.
        """
        if isinstance(value, t.Mapping):
            return "a dictionary"
        if isinstance(value, (list, tuple)):
            return "a list"
        if isinstance(value, str) and kind in ("dict", "list"):
            return "a text"
        if self.source is not None:
            return shown(self.source)
        plain = _plain(value)
        if isinstance(plain, str):
            return repr(shown_text(plain, _MAX_VALUE_LENGTH))
        return f"{plain:g}" if isinstance(plain, float) else shown(plain)


# --- what roles take ---------------------------------------------------------------------------


@functools.cache
def _document(role: str, name: str) -> t.Any:
    path = ROLES / role / f"{name}.yml"
    return yaml_load(path.read_text(encoding="utf-8")) if path.exists() else {}


def role_names() -> list[str]:
    """The roles of the collection."""
    return sorted(path.name for path in ROLES.iterdir() if (path / "meta").is_dir())


def variables_of(roles: t.Iterable[str], entry_point: str = "main") -> dict[str, Variable]:
    """The variables that the entry point of these roles takes. Raises InvalidInput."""
    found: dict[str, Variable] = {}
    for role in roles:
        entry = _document(role, "meta/argument_specs").get("argument_specs", {}).get(entry_point)
        if entry is None:
            raise InvalidInput(
                f"There is no role {role} with an entry point {entry_point}; the roles are "
                f"{', '.join(role_names())}"
            )
        own = {name: (role, spec) for name, spec in entry.get("options", {}).items()}
        for name, (owner, spec) in {**own, **_shared(role, entry_point)}.items():
            before = found.get(name, Variable(name, (), spec, {}))
            limits = _document(owner, "meta/limits").get("limits", {}).get(name, {})
            together = {**before.limits, **limits}
            found[name] = Variable(name, (*before.roles, role), spec, together)
    return found


def _shared(role: str, entry_point: str) -> dict[str, tuple[str, Spec]]:
    """Variables of other roles that this one reads too, each with its role."""
    shared = _document(role, "meta/limits").get("shared", {}) if entry_point == "main" else {}
    specs = {owner: _document(owner, "meta/argument_specs")["argument_specs"] for owner in shared}
    return {
        name: (owner, specs[owner]["main"]["options"][name])
        for owner, names in shared.items()
        for name in names
    }


def misspelt(names: t.Collection[str]) -> dict[str, str]:
    """Names with a role's prefix that almost match one of its variables, with this variable."""
    known = set(OTHER_VARIABLES)
    for role in role_names():
        for entry_point in _document(role, "meta/argument_specs")["argument_specs"]:
            known.update(variables_of([role], entry_point))
        known.update(_document(role, "vars/main"))
    found: dict[str, str] = {}
    for prefix in (*(f"{role}_" for role in role_names()), "wattwise_"):
        endings = [name.removeprefix(prefix) for name in known if name.startswith(prefix)]
        for name in names:
            if name.startswith(prefix) and name not in known:
                ending = name.removeprefix(prefix)
                closest = difflib.get_close_matches(ending, endings, 1, _CLOSE)
                found.update((name, prefix + match) for match in closest)
    return found


# --- one variable ------------------------------------------------------------------------------


def problems_of(variable: Variable, given: RenderedValue, gateways: bool = False) -> list[str]:
    """Problems of the value as sentences. ``gateways`` read separate files."""
    found = list(_problems(variable.name, variable.spec, given.value, given))
    if found or given.value in (None, "", [], {}):
        return found
    return [
        problem
        for where, value in _members(variable, given.value)
        for problem in _limit_problems(where, variable.limits, value, given, gateways)
    ]


def _members(variable: Variable, value: t.Any) -> list[tuple[str, t.Any]]:
    """The values to which limits apply: members of lists and dictionaries, also of nested lists."""
    kind = variable.spec.get("type", "str")
    converted = _CHECKS[kind](_plain(value))
    if kind == "list":
        return [(f"{variable.name}[{index}]", item) for index, item in enumerate(converted)]
    if kind == "dict":
        return [
            (f"{variable.name}[{key!r}]", item)
            for key, member in converted.items()
            for item in (member if isinstance(member, list) else [member])
        ]
    return [(variable.name, converted)]


def _problems(where: str, spec: Spec, value: t.Any, given: RenderedValue) -> t.Iterator[str]:
    """Problems of a value and, by its specification, of its parts."""
    kind = spec.get("type", "str")
    if value is None and not spec.get("required"):
        return
    try:
        converted = _converted(kind, value)
    except (TypeError, ValueError):
        yield _sentence(where, given.shown(value, kind), f"must be {_NOUNS[kind]}")
        return
    choices = spec.get("choices")
    if kind == "list":
        item_spec = {**spec, "type": spec.get("elements", "raw"), "required": True}
        for index, item in enumerate(converted):
            yield from _problems(f"{where}[{index}]", item_spec, item, given)
    elif choices and converted not in choices:
        yield _sentence(
            where, given.shown(value, kind), f"must be one of {', '.join(map(str, choices))}"
        )
    elif kind == "dict" and spec.get("options"):
        yield from _suboption_problems(where, spec["options"], converted, given)


def _suboption_problems(
    where: str, options: Spec, value: Spec, given: RenderedValue
) -> t.Iterator[str]:
    for name in value.keys() - options.keys():
        yield f"{where}.{name} does not exist; {where} takes {', '.join(options)}"
    for name, spec in options.items():
        if value.get(name) is not None:
            yield from _problems(f"{where}.{name}", spec, value[name], given)
        elif spec.get("required"):
            yield f"{where}.{name} is missing, but required"


def _converted(kind: str, value: t.Any) -> t.Any:
    plain = _plain(value)
    if kind in ("str", "path") and isinstance(plain, (dict, list)):
        raise TypeError
    if kind == "list" and isinstance(plain, (dict, bool)):
        raise TypeError
    if kind in ("int", "float") and isinstance(plain, bool):
        raise TypeError
    converted = _CHECKS[kind](plain)
    if kind == "float" and not math.isfinite(converted):
        raise ValueError
    return converted


def _plain(value: t.Any) -> t.Any:
    """A value of Ansible's own classes converted to JSON's types."""
    if isinstance(value, t.Mapping):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str.__str__(value) if isinstance(value, str) else value


def _sentence(where: str, value: str, expected: str) -> str:
    return f"{where} is {value}, but {expected}"


# --- limits ------------------------------------------------------------------------------------


def _limit_problems(
    where: str, limits: Spec, value: t.Any, given: RenderedValue, gateways: bool
) -> t.Iterator[str]:
    expected = _range_text(limits)
    if expected and not _within(limits, value):
        yield _sentence(where, given.shown(value, "float"), expected)
    kind = limits.get("is")
    if kind and not (gateways and limits.get("of") == "gateways"):
        problem = _KINDS[kind](value)
        if problem:
            shown_kind = "dict" if kind == "credential" else "str"
            yield _sentence(where, given.shown(value, shown_kind), problem)


def _within(limits: Spec, value: t.Any) -> bool:
    return bool(
        value >= limits.get("min", value)
        and value <= limits.get("max", value)
        and value > limits.get("above", -math.inf)
    )


def _range_text(limits: Spec) -> str:
    if "min" in limits and "max" in limits:
        return f"must be from {limits['min']} to {limits['max']}"
    if "min" in limits:
        return f"must be {limits['min']} or more"
    if "above" in limits:
        most = f", and at most {limits['max']}" if "max" in limits else ""
        return f"must be more than {limits['above']}{most}"
    return ""


def _file(value: str) -> str:
    path = Path(value)
    if not path.is_file():
        return "there is no such file"
    return "" if os.access(path, os.R_OK) else "this user may not read that file"


def _folder(value: str) -> str:
    """A folder that exists or can be created; the nearest existing parent decides."""
    path = Path(value).absolute()
    nearest = next(folder for folder in (path, *path.parents) if folder.exists())
    if not nearest.is_dir():
        return f"must be a folder, and {nearest} is a file"
    return "" if os.access(nearest, os.W_OK | os.X_OK) else f"this user may not write in {nearest}"


def _output(value: str) -> str:
    path = Path(value).absolute()
    if path.is_dir():
        return "must be a file, and that is a folder"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    writable = os.access(path.parent, os.W_OK | os.X_OK)
    return "" if writable else f"this user may not write in {path.parent}"


def _credential(value: t.Any) -> str:
    given = value if isinstance(value, dict) else {}
    complete = (given.get("username") and given.get("password")) or given.get("token")
    return "" if complete else "must be a dictionary with username and password, or with token"


def _parsed(parse: t.Callable[[str], t.Any], expected: str) -> t.Callable[[t.Any], str]:
    def problem(value: t.Any) -> str:
        try:
            parse(str(value))
        except InvalidInput:
            return expected
        return ""

    return problem


def _matches(pattern: re.Pattern[str], expected: str) -> t.Callable[[t.Any], str]:
    return lambda value: "" if pattern.fullmatch(str(value)) else expected


_KINDS: dict[str, t.Callable[[t.Any], str]] = {
    "credential": _credential,
    "file": _file,
    "folder": _folder,
    "output": _output,
    "fingerprint": _parsed(
        normal_fingerprint, "must be a SHA-256 fingerprint, 64 hexadecimal digits"
    ),
    "selector": _parsed(parse_selector_text, "must be a label selector, as kubectl takes it"),
    "namespace": _matches(
        _DNS_LABEL,
        "must be the name of a namespace: lower-case letters, digits and hyphens, at most 63",
    ),
    "name": _matches(
        _DNS_NAME, "must be a name: lower-case letters, digits, hyphens and dots, at most 253"
    ),
}
