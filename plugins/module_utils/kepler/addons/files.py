# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Files of rules and dashboards, in the form of objects."""

from __future__ import annotations

import re
import typing as t
from pathlib import PurePath

from ...base import strict_json
from ...base.boundary import InvalidField, shown
from ...base.errors import InvalidInput
from ...base.fields.strict import mapping, mappings, required_text
from ...base.json_types import Object
from ...base.manifests import read_file_content

_MAX_NAME_LENGTH = 100
# The API server accepts objects of up to 1.5 MiB.
_MAX_DASHBOARD_LENGTH = 1_000_000


RuleFiles = t.Mapping[str, t.Sequence[Object]]  # groups of rules, by object
DashboardFiles = t.Mapping[str, str]  # dashboards as JSON, by object
Content = t.TypeVar("Content")


def read_rules(paths: t.Sequence[str]) -> RuleFiles:
    """The rules of all files. Raises InvalidInput, which names the file."""
    return _by_name(paths, _groups)


def read_dashboards(paths: t.Sequence[str]) -> DashboardFiles:
    """The dashboards of all files. Raises InvalidInput, which names the file."""
    return _by_name(paths, _dashboard)


def _by_name(paths: t.Sequence[str], read: t.Callable[[str], Content]) -> dict[str, Content]:
    """The content of each file by the name of its object."""
    found: dict[str, Content] = {}
    for path in paths:
        name = re.sub("[^a-z0-9]+", "-", PurePath(path).stem.lower()).strip("-")
        if not name or len(name) > _MAX_NAME_LENGTH:
            raise InvalidInput(f"{shown(path)} does not name an object; rename the file")
        if name in found:
            raise InvalidInput(f"Two files name the object {name}; rename one")
        found[name] = read(path)
    return found


def _groups(path: str) -> t.Sequence[Object]:
    content = mapping(read_file_content(path), path)
    groups = mappings(content.get("groups"), f"{path}: groups")
    if not groups or content.keys() != {"groups"}:
        raise InvalidField(path, "it has no groups of rules; give a file for promtool check rules")
    for index, group in enumerate(groups):
        place = f"{path}: groups[{index}]"
        required_text(group.get("name"), f"{place}.name")
        for number, rule in enumerate(mappings(group.get("rules"), f"{place}.rules")):
            where = f"{place}.rules[{number}]"
            required_text(rule.get("expr"), f"{where}.expr")
            if ("alert" in rule) == ("record" in rule):
                raise InvalidField(where, "a rule has either alert or record")
    return groups


def _dashboard(path: str) -> str:
    content = mapping(read_file_content(path), path)
    required_text(content.get("title"), f"{path}: title")
    mappings(content.get("panels"), f"{path}: panels")
    text = strict_json.format_compact(content)
    if len(text) > _MAX_DASHBOARD_LENGTH:
        raise InvalidField(path, f"it has more than {_MAX_DASHBOARD_LENGTH} characters; divide it")
    return text
