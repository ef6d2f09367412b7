# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reference pages that are written from files: documents from schemas, kinds from CRDs."""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Iterator
from pathlib import Path

import yaml

Json = dict[str, t.Any]

DOCUMENTS = "reference/documents.md"
KINDS = "reference/kinds.md"
METRICS = "reference/metrics.md"
ROLES = "reference/roles.md"
PLUGINS = "reference/plugins/index"
RULES = "roles/observe/files/prometheus-rules.yml"
_PAGES_WITH_METRICS = {
    "docs/operate/metrics.md": ("metrics", "../operate/metrics.md"),
    "docs/operate/extender.md": ("extender", "../operate/extender.md#metrics"),
}
# Caption of a group in the navigation → pages of it that docs/ does not have.
NAVIGATION = {
    "Reference": (
        f"Modules and plugins <{PLUGINS}>",
        *(page.removesuffix(".md") for page in (ROLES, KINDS, DOCUMENTS, METRICS)),
    ),
}


def place_of_schema(name: str) -> str:
    return f"reference/documents/{name}.md"


def pages(repository: Path) -> dict[str, str]:
    """Place in the site → text of each page."""
    roles = sorted(path.name for path in (repository / "roles").iterdir())
    beginning = "Each page has the variables of a role, its permissions, and what it changes."
    return {
        ROLES: _list("Roles", beginning, "roles", roles),
        METRICS: _metrics(repository),
        **_documents(repository / "schemas"),
        **_kinds(repository / "roles/crds/files"),
    }


def _metrics(repository: Path) -> str:
    """Every metric of the pages' tables with its page, then every alert of the rules."""
    lines = ["# Every metric and alert\n", "| metric | meaning | of |", "| --- | --- | --- |"]
    for page, (title, link) in _PAGES_WITH_METRICS.items():
        text = (repository / page).read_text("utf-8")
        for table in re.findall(r"^\| metric \|.*\n\|.*\n((?:\|.*\n)+)", text, re.MULTILINE):
            for row in table.splitlines():
                metric, *_unit, meaning = row.strip("| ").split(" | ")
                meaning = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", meaning)
                lines.append(f"| {metric} | {meaning} | [{title}]({link}) |")
    lines += ["", "| alert | summary | after |", "| --- | --- | --- |"]
    rules = yaml.safe_load((repository / RULES).read_text("utf-8"))
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        if "alert" in rule:
            summary = rule["annotations"]["summary"].replace("|", "\\|")
            lines.append(f"| `{rule['alert']}` | {summary} | {rule.get('for', 'at once')} |")
    return "\n".join([*lines, ""])


def _documents(folder: Path) -> dict[str, str]:
    found = {}
    names = []
    for path in sorted(folder.glob("*.json")):
        names.append(path.stem)
        schema = json.loads(path.read_text("utf-8"))
        found[place_of_schema(path.stem)] = "\n".join(
            [
                f"# {path.stem}.json\n",
                f"The fields of `{path.name}` in the run folder, from its JSON schema.\n",
                *_table(schema),
            ]
        )
    beginning = (
        "Each run writes JSON documents to its run folder. Readers check them by these schemas."
    )
    found[DOCUMENTS] = _list("Documents", beginning, "documents", names)
    return found


def _kinds(folder: Path) -> dict[str, str]:
    found = {}
    names = []
    for path in sorted(folder.glob("*.yaml")):
        spec = yaml.safe_load(path.read_text("utf-8"))["spec"]
        name = f"{spec['names']['kind']} ({spec['group']})"
        names.append(path.stem)
        lines = [f"# {name}\n", _scope(spec)]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            shown = {key: value for key, value in schema["properties"].items() if key in _PARTS}
            lines += [f"## {version['name']}\n", *_table({**schema, "properties": shown}), ""]
        found[f"reference/kinds/{path.stem}.md"] = "\n".join(lines)
    beginning = (
        "The `crds` role installs these kinds. Each page lists the fields of a kind from its CRD."
    )
    found[KINDS] = _list("CRDs", beginning, "kinds", names)
    return found


_PARTS = ("spec", "status")


def _scope(spec: Json) -> str:
    names = spec["names"]
    short = "".join(f", `{name}`" for name in names.get("shortNames", ()))
    return f"`kubectl get {names['plural']}`{short}; scope: {spec['scope']}.\n"


def _list(title: str, beginning: str, folder: str, names: list[str]) -> str:
    tree = "\n".join(f"{folder}/{name}" for name in names)
    return f"# {title}\n\n{beginning}\n\n```{{toctree}}\n:maxdepth: 1\n\n{tree}\n```\n"


def _table(schema: Json) -> Iterator[str]:
    yield "```{table}\n:class: fields\n"
    yield "| field | type | required | meaning |"
    yield "| --- | --- | --- | --- |"
    for path, field, required in _fields(schema, ""):
        cells = (f"`{path}`", _type(field), "yes" if required else "", _meaning(field))
        yield f"| {' | '.join(cells)} |"
    yield "```"


def _fields(schema: Json, path: str) -> Iterator[tuple[str, Json, bool]]:
    """Every field below this one with its path; `[]` stands for an item, `*` for any name."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, field, name in required
        yield from _fields(field, here)
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        here = f"{path}.*" if path else "*"
        yield here, others, False
        yield from _fields(others, here)
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _fields(items, f"{path}[]")


def _type(field: Json) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = field.get("type", "")
    names = " or ".join(kind) if isinstance(kind, list) else kind
    items = field.get("items")
    if isinstance(items, dict) and "type" in items:
        return f"{names} of {_type(items)}"
    return str(names)


def _meaning(field: Json) -> str:
    """The description, and the values that the schema allows."""
    parts = [" ".join(field.get("description", "").split()).removesuffix(".")]
    if "const" in field:
        parts.append(f"Always `{field['const']}`")
    if "enum" in field:
        parts.append("One of " + ", ".join(f"`{value}`" for value in field["enum"]))
    if "minimum" in field:
        parts.append(f"At least {field['minimum']}")
    if "maximum" in field:
        parts.append(f"At most {field['maximum']}")
    if "default" in field:
        parts.append(f"Default: `{json.dumps(field['default'])}`")
    text = " ".join(f"{part}." for part in parts if part)
    return text.replace("|", "\\|").replace("<", "&lt;")
