# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write roles/crds/files from scripts/crds: one CRD for each kind and API group.

A source holds the schema of a kind once, with YAML anchors for repeated parts; the anchors of
shared/ are available in every source. A member `$options` of properties names tables of
option_tables.py, whose options are fields. Definitions cannot share a schema, so the files repeat it for
each API group; a test checks that they are current.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml

from scripts import option_tables

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCES = REPOSITORY / "scripts" / "crds"
FILES = REPOSITORY / "roles" / "crds" / "files"
# REUSE-IgnoreStart: the header below is that of the written files
HEADER = "# SPDX-License-Identifier: GPL-3.0-or-later\n---\n"
# REUSE-IgnoreEnd

# Common fields of every object.
STANDARD = {
    "apiVersion": {"type": "string", "description": "Group and version of the API."},
    "kind": {"type": "string", "description": "Kind of the object."},
    "metadata": {"type": "object"},
}


class _Dumper(yaml.SafeDumper):
    """Block style with indented lists and without anchors, as in hand-written manifests."""

    def ignore_aliases(self, data: t.Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)


def crd(
    group: str, version: str, annotations: dict[str, str], resource: dict[str, t.Any]
) -> dict[str, t.Any]:
    """The CustomResourceDefinition of one kind in one API group."""
    kind, name = resource["kind"], f"{resource['plural']}.{group}"
    schema = {**resource["schema"]}
    schema["properties"] = {**STANDARD, **schema["properties"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, **({"annotations": annotations} if annotations else {})},
        "spec": {
            "group": group,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": resource["plural"],
                "singular": kind.lower(),
                "shortNames": resource["shortNames"],
                "categories": ["wattwise"],
            },
            "scope": resource.get("scope", "Namespaced"),
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": resource["columns"],
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def _read(source: Path, shared: str) -> dict[str, t.Any]:
    """A source with the anchors of the shared schemas: one YAML document for the parser.

    A source alone is not valid YAML, as linters report; hence the file name.
    """
    text = source.read_text(encoding="utf-8").partition("\n---\n")[2]
    loaded: dict[str, t.Any] = _with_options(yaml.safe_load(f"{shared}\n{text}"))
    return loaded


def _with_options(value: t.Any) -> t.Any:
    """The value with fields in place of the names of their tables."""
    if isinstance(value, list):
        return [_with_options(item) for item in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, t.Any] = {}
    for key, member in value.items():
        if key != "$options":
            found[key] = _with_options(member)
            continue
        for name in member:
            for option in option_tables.table(name).options.values():
                if option.of("field") is not None:
                    found[option.field_name()] = option.schema()
    return found


def rendered() -> dict[Path, str]:
    """Expected contents of the files, by path."""
    files: dict[Path, str] = {}
    shared = "\n".join(path.read_text("utf-8") for path in sorted(SOURCES.glob("shared/*.yaml")))
    for source_path in sorted(SOURCES.glob("*.yaml.in")):
        source = _read(source_path, shared)
        for group in source["groups"]:
            for resource in source["resources"]:
                manifest = crd(group, source["version"], source.get("annotations", {}), resource)
                text = yaml.dump(
                    manifest, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=80
                )
                files[FILES / f"{group}_{resource['plural']}.yaml"] = HEADER + text
    return files


if __name__ == "__main__":
    FILES.mkdir(parents=True, exist_ok=True)
    for path, text in rendered().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(REPOSITORY))
