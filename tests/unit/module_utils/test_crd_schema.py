# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kube.crd_schema import (
    CrdValidator,
    json_schema,
)

SPEC: dict[str, t.Any] = {
    "type": "object",
    "required": ["node"],
    "properties": {
        "node": {"type": "string", "minLength": 1},
        "ways": {"x-kubernetes-int-or-string": True},
        "watts": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "limit": {"type": "integer", "maximum": 9, "exclusiveMaximum": True, "nullable": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "integer"}},
        "open": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"a": {"type": "string"}},
        },
    },
}


def validator() -> CrdValidator:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}}
    return CrdValidator(
        {
            "spec": {
                "group": "example.org",
                "names": {"kind": "Thing", "plural": "things"},
                "scope": "Namespaced",
                "versions": [{"name": "v1", "schema": schema}],
            }
        }
    )


def thing(**spec: t.Any) -> dict[str, t.Any]:
    metadata = {"name": "a", "labels": {"any": "thing"}}
    return {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    "spec",
    [
        {"node": "n"},
        {"node": "n", "ways": 3},
        {"node": "n", "ways": "3"},
        {"node": "n", "watts": 0.1, "limit": None, "labels": {"a": "b"}, "list": [1]},
        {"node": "n", "open": {"a": "x", "anything": [1]}},
    ],
)
def test_what_the_api_server_takes_is_no_problem(spec: dict[str, t.Any]) -> None:
    assert validator().problem(thing(**spec)) is None


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({}, "spec must contain"),
        ({"node": ""}, "spec.node"),
        ({"node": "n", "ways": 1.5}, "spec.ways"),
        ({"node": "n", "watts": 0}, "spec.watts"),
        ({"node": "n", "limit": 9}, "spec.limit"),
        ({"node": "n", "labels": {"a": 1}}, "spec.labels.a"),
        ({"node": "n", "list": ["x"]}, r"spec.list[0]"),
        ({"node": "n", "nodes": "typo"}, "spec must not contain"),
        ({"node": "n", "open": {"a": 1}}, "spec.open.a"),
    ],
)
def test_a_problem_names_the_field(spec: dict[str, t.Any], named: str) -> None:
    problem = validator().problem(thing(**spec))
    assert problem is not None and named in problem


def test_only_its_own_kind_and_versions_are_judged() -> None:
    assert validator().serves("example.org/v1", "Thing")
    assert not validator().serves("example.org/v2", "Thing")
    assert not validator().serves("example.org/v1", "Other")
    assert validator().versions() == ["example.org/v1"]


def test_a_schema_without_members_leaves_them_open() -> None:
    assert "additionalProperties" not in json_schema({"type": "object"}, is_root=False)
