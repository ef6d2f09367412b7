# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the library next to the schema of the resource whose fields they are."""

from __future__ import annotations

import typing as t

import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kube.resource.spec_options import camel

Json = dict[str, t.Any]

TYPES = {
    "str": "string",
    "int": "integer",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}
# A mapping with arbitrary keys would open the schema, so a KeplerSystem has it as text.
TEXT = "additional_config"


def compared(options: t.Mapping[str, t.Any], schema: Json, place: str) -> t.Iterator[str]:
    """Places of all options; asserts that the CRD agrees with each."""
    assert {camel(name) for name in options} == schema["properties"].keys(), place
    needed = {camel(name) for name, option in options.items() if option.get("required")}
    assert set(schema.get("required", [])) == needed, place
    for name, option in options.items():
        field, where = schema["properties"][camel(name)], f"{place}.{name}"
        yield where
        if name == TEXT:
            assert field["type"] == "string"
            assert yaml.safe_load(field.get("default", "{}")) == option.get("default", {})
            continue
        assert field["type"] == TYPES[option["type"]], where
        assert field.get("default") == option.get("default"), where
        choices = field["items"] if option["type"] == "list" else field
        assert choices.get("enum") == option.get("choices"), where
        if "options" in option:
            inner = field["items"] if option["type"] == "list" else field
            yield from compared(option["options"], inner, where)
