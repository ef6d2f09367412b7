# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a Kepler of a version starts with a configuration, by upstream's rules written as data.

tests/conformance/kepler/rules.json holds the keys with type and versions, the flags, and the checks
in their order. Kepler parses its flags, decodes the file, checks it, sets the flags' values, and
checks again; so a file must be valid without its flags.
"""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass
from pathlib import Path

Json = dict[str, t.Any]
Numbers = tuple[int, ...]

DATA = Path(__file__).parent.parent / "conformance" / "kepler"
RULES: Json = json.loads((DATA / "rules.json").read_text())
VERSIONS: list[str] = RULES["versions"]

_DURATION = re.compile(r"[+-]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_NEGATIVE = re.compile(r"-.*[1-9]")
_ADDRESS = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*):0*([0-9]{1,5})")


@dataclass(frozen=True)
class Verdict:
    """The stage at which Kepler exits, empty if it starts, and the keys at fault.

    ``unknown`` are keys of the file that the version ignores.
    """

    stage: str
    keys: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def numbers(version: str) -> Numbers:
    """The version as numbers; "main" is later than each release."""
    return (9,) if version == "main" else tuple(map(int, version.split(".")))


def leaves(tree: t.Mapping[t.Any, t.Any], prefix: str = "") -> Json:
    """The values of a configuration by path; a value of a known key is never taken apart."""
    found: Json = {}
    for name, value in tree.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and path not in RULES["keys"]:
            found.update(leaves(value, f"{path}."))
        else:
            found[path] = value
    return found


def verdict(
    version: str, config: t.Mapping[str, t.Any], arguments: t.Sequence[str], files: t.Container[str]
) -> Verdict:
    """The verdict on a file and flags, where Kepler can read these files and folders."""
    known = {path: key for path, key in RULES["keys"].items() if _applies(key, version)}
    flags = _flags(version, arguments)
    if flags is None:
        return Verdict("flags")
    given = leaves(config)
    unknown = tuple(sorted(path for path in given if path not in known))
    wrong = [path for path in known if path in given and not _is_of(known[path], given[path])]
    if wrong:
        return Verdict("decode", tuple(sorted(wrong)), unknown)
    values = {path: key["default"] for path, key in known.items()}
    values.update({path: value for path, value in given.items() if path in known})
    for stage, more in (("file", {}), ("flags set", flags)):
        values.update(more)
        failed = _failed(version, values, files)
        if failed:
            return Verdict(stage, failed, unknown)
    return Verdict("", (), unknown)


def _applies(rule: Json, version: str) -> bool:
    since, until = rule.get("since"), rule.get("until")
    now = numbers(version)
    return (since is None or numbers(since) <= now) and (until is None or now < numbers(until))


def _flags(version: str, arguments: t.Sequence[str]) -> Json | None:
    """The values of the flags by their key; None for an unknown flag or a missing value."""
    found: Json = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        flag = RULES["flags"].get(name)
        if flag is None or not _applies(flag, version) or bool(equals) != (flag["type"] == "text"):
            return None
        if flag["key"]:
            found[flag["key"]] = value if equals else True
    return found


def _is_of(key: Json, value: t.Any) -> bool:
    if value is None:
        return True
    return _TYPES[key["type"]](key, value)


def _is_whole(_key: Json, value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_duration(_key: Json, value: t.Any) -> bool:
    return isinstance(value, str) and bool(_DURATION.fullmatch(value))


def _are_texts(key: Json, value: t.Any) -> bool:
    choices = key.get("choices")
    return isinstance(value, list) and all(
        isinstance(each, str) and (choices is None or each.lower().strip() in choices)
        for each in value
    )


def _are_rules(_key: Json, value: t.Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


_TYPES: dict[str, t.Callable[[Json, t.Any], bool]] = {
    # YAML numbers are decoded into texts.
    "text": lambda _key, value: isinstance(value, (str, int, float)),
    "flag": lambda _key, value: isinstance(value, bool),
    "whole": _is_whole,
    "number": lambda key, value: isinstance(value, float) or _is_whole(key, value),
    "duration": _is_duration,
    "texts": _are_texts,
    "rules": _are_rules,
}


def _failed(version: str, values: Json, files: t.Container[str]) -> tuple[str, ...]:
    """The keys that fail a check, in the order of the checks."""
    found: list[str] = []
    for check in RULES["checks"]:
        if not _applies(check, version):
            continue
        if any(values.get(path) != value for path, value in check.get("if", {}).items()):
            continue
        value = values.get(check["key"])
        if check.get("unless empty") and not value:
            continue
        must = _MUSTS[check["must"]]
        given = t.cast("list[t.Any]", value) if check.get("each") else [value]
        found += [check["key"] for each in given if not must(check, each, files)]
    return tuple(found)


def _is_address(_check: Json, value: t.Any, _files: t.Container[str]) -> bool:
    match = _ADDRESS.fullmatch(value.strip())
    return match is not None and 1 <= int(match[1]) <= 65535


_MUSTS: dict[str, t.Callable[[Json, t.Any, t.Container[str]], bool]] = {
    "be one of": lambda check, value, _files: value in check["choices"],
    "be readable": lambda _check, value, files: value in files,
    "not be empty": lambda _check, value, _files: bool(value),
    "not be negative": lambda _check, value, _files: not _NEGATIVE.match(str(value)),
    "be an address": _is_address,
}
