# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CRDs in roles/crds/files: current, structural, closed, described."""

from __future__ import annotations

import runpy
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.crd_schema import CrdValidator
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.nodeconfig import (
    API_VERSIONS,
    GROUPS,
    TERMS,
)
from support.wao import DEFINITIONS, ROOT, in_group, sample, sample_names

FILES = sorted(DEFINITIONS.glob("*.yaml"))
WAO_FILES = [path for path in FILES if path.name.startswith(GROUPS)]


def read(path: Path) -> MutableObject:
    loaded: MutableObject = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


# A map or a list of maps, as upstream accepts them: OpenAPI cannot express that, so only the
# library checks these two.
OPEN = (".spec.master", ".spec.worker")


def version_of(definition: MutableObject) -> MutableObject:
    [version] = definition["spec"]["versions"]
    assert isinstance(version, dict)
    return version


def fields(schema: MutableObject, path: str = "") -> t.Iterator[tuple[str, MutableObject]]:
    """Every schema in a schema, with its path."""
    yield path, schema
    for name, member in schema.get("properties", {}).items():
        yield from fields(member, f"{path}.{name}")
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict):
            yield from fields(schema[part], f"{path}[]")


def test_the_files_are_what_their_sources_give() -> None:
    generator = runpy.run_path(str(ROOT / "scripts" / "generate_crds.py"))
    for path, text in generator["rendered"]().items():
        assert (DEFINITIONS / path.name).read_text(encoding="utf-8") == text, (
            f"{path.name} is not current: run make generate"
        )


def test_both_kinds_are_there_in_both_groups() -> None:
    assert {path.name for path in WAO_FILES} == {
        f"{group}_{plural}.yaml"
        for group in GROUPS
        for plural in ("nodeconfigs", "nodeconfigtemplates")
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_field_is_typed_described_and_closed(path: Path) -> None:
    definition = read(path)
    schema = version_of(definition)["schema"]["openAPIV3Schema"]
    for place, field in fields(schema):
        if path.name.startswith("bpa.") and place in OPEN:
            assert field.keys() == {"x-kubernetes-preserve-unknown-fields", "description"}
            continue
        assert None not in field.values(), f"{place} has a key without a value"
        quantity = field.get("x-kubernetes-int-or-string")
        assert field.get("type") or quantity, f"{place} has no type"
        assert "x-kubernetes-preserve-unknown-fields" not in field, f"{place} is open"
        if place and place != ".metadata" and not place.endswith("[]"):
            assert field.get("description"), f"{place} has no description"
        if field.get("type") == "object" and place != ".metadata":
            assert "properties" in field or "additionalProperties" in field, f"{place} is open"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_names_columns_and_status_are_complete(path: Path) -> None:
    definition = read(path)
    spec, version = definition["spec"], version_of(definition)
    assert definition["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert path.name == f"{spec['group']}_{spec['names']['plural']}.yaml"
    assert spec["names"]["categories"] == ["wattwise"] and spec["names"]["shortNames"]
    assert version["subresources"] == {"status": {}}
    assert version["additionalPrinterColumns"][-1]["name"] == "Age"
    assert all(column["description"] for column in version["additionalPrinterColumns"])


@pytest.mark.parametrize("plural", ["nodeconfigs", "nodeconfigtemplates"])
def test_the_groups_differ_in_nothing_but_the_group(plural: str) -> None:
    texts = [
        (DEFINITIONS / f"{group}_{plural}.yaml").read_text(encoding="utf-8") for group in GROUPS
    ]
    first, second = (yaml.safe_load(text) for text in texts)
    second["spec"]["group"] = GROUPS[0]
    second["metadata"]["name"] = first["metadata"]["name"]
    assert first == second


def test_the_types_are_those_that_the_library_knows() -> None:
    schema = version_of(read(DEFINITIONS / f"{GROUPS[0]}_nodeconfigs.yaml"))["schema"]
    spec = schema["openAPIV3Schema"]["properties"]["spec"]["properties"]
    for kind, term in TERMS.items():
        part, name = term.path
        types = spec[part]["properties"][name]["properties"]["type"]["enum"]
        assert [each for each in types if each] == list(term.types), kind


@pytest.mark.parametrize("path", WAO_FILES, ids=lambda path: path.name)
def test_every_sample_follows_its_schema(path: Path) -> None:
    definition = read(path)
    validator = CrdValidator(definition)
    group = GROUPS.index(definition["spec"]["group"])
    samples = [in_group(sample(name), group) for name in sample_names()]
    checked = [obj for obj in samples if validator.serves(API_VERSIONS[group], obj["kind"])]
    assert checked and [validator.problem(obj) for obj in checked] == [None] * len(checked)


RMD_SAMPLES = sorted((ROOT / "tests" / "conformance" / "rmd").glob("*.yaml"))


@pytest.mark.parametrize("path", RMD_SAMPLES, ids=lambda path: path.name)
def test_every_sample_of_rmd_follows_its_schema(path: Path) -> None:
    obj = read(path)
    plural = obj["kind"].lower() + "s"
    validator = CrdValidator(read(DEFINITIONS / f"intel.com_{plural}.yaml"))
    assert validator.serves("intel.com/v1alpha1", obj["kind"])
    assert validator.problem(obj) is None
