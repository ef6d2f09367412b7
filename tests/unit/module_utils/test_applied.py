# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""is_applied on records in the API server's form; tests/integration compares with the server
itself.
"""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.applied import is_applied

MANIFEST: MutableObject = {
    "apiVersion": "example.com/v1",
    "kind": "Rack",
    "metadata": {"name": "r1", "namespace": "hall", "labels": {"row": "a"}},
    "spec": {
        "height": 42,
        "powered": True,
        "feeds": [{"name": "a", "amperes": 16}, {"name": "b", "amperes": 32}],
        "zones": ["cold", "hot"],
        "empty": {},
    },
}
FIELDS: MutableObject = {
    "f:metadata": {"f:labels": {"f:row": {}}},
    "f:spec": {
        ".": {},
        "f:height": {},
        "f:powered": {},
        "f:feeds": {
            'k:{"name":"a"}': {".": {}, "f:name": {}, "f:amperes": {}},
            'k:{"name":"b"}': {".": {}, "f:name": {}, "f:amperes": {}},
        },
        "f:zones": {'v:"cold"': {}, 'v:"hot"': {}},
        "f:empty": {},
    },
}
ENTRY: MutableObject = {
    "manager": "wattwise",
    "operation": "Apply",
    "apiVersion": "example.com/v1",
    "fieldsV1": FIELDS,
}


def live(*entries: MutableObject, **spec: t.Any) -> MutableObject:
    stored = copy.deepcopy(MANIFEST)
    stored["metadata"]["managedFields"] = list(entries)
    stored["metadata"]["labels"]["theirs"] = "x"
    stored["spec"].update(spec)
    return stored


def test_equal_fields_and_values_are_applied_whatever_others_added() -> None:
    others = {**ENTRY, "manager": "kubectl", "operation": "Update"}
    feeds = [{"name": "z"}, *MANIFEST["spec"]["feeds"]]
    assert is_applied(MANIFEST, live(others, ENTRY, feeds=feeds, more=1), "wattwise")


@pytest.mark.parametrize(
    "spec",
    [
        {"height": 43},
        {"height": 42.0},
        {"powered": 1},
        {"feeds": [{"name": "a", "amperes": 16}]},
        {"feeds": MANIFEST["spec"]["feeds"][::-1]},
        {"feeds": "none"},
        {"zones": ["hot", "cold"]},
        {"zones": ["cold"]},
        {"empty": {"b": 1}},
    ],
    ids=str,
)
def test_another_value_is_for_the_api_server_to_judge(spec: MutableObject) -> None:
    assert not is_applied(MANIFEST, live(ENTRY, **spec), "wattwise")


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [ENTRY, ENTRY],
        [{**ENTRY, "operation": "Update"}],
        [{**ENTRY, "subresource": "status"}],
        [{**ENTRY, "apiVersion": "example.com/v2"}],
        [{**ENTRY, "fieldsV1": None}],
        [{**ENTRY, "fieldsV1": {**FIELDS, "f:spec": None}}],
        [{**ENTRY, "fieldsV1": {**FIELDS, "f:spec": {**FIELDS["f:spec"], "f:more": {}}}}],
        [{**ENTRY, "fieldsV1": {**FIELDS, "f:spec": {"f:height": {}}}}],
        [
            {
                **ENTRY,
                "fieldsV1": {
                    **FIELDS,
                    "f:spec": {**FIELDS["f:spec"], "f:zones": {"i:0": {}, "i:1": {}}},
                },
            }
        ],
    ],
)
def test_another_record_is_for_the_api_server_to_judge(entries: list[MutableObject]) -> None:
    assert not is_applied(MANIFEST, live(*entries), "wattwise")


def test_a_status_is_compared_with_the_record_of_its_subresource() -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    fields: MutableObject = {
        "f:status": {"f:conditions": {'k:{"type":"Ready"}': {"f:type": {}, "f:status": {}}}}
    }
    entry = {**ENTRY, "subresource": "status", "fieldsV1": fields}
    stored = {**live(entry), "status": status}
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Rack",
        "metadata": {"name": "r1", "namespace": None},
        "status": status,
    }
    assert is_applied(body, stored, "wattwise", "status")
    assert not is_applied({**body, "status": {"conditions": []}}, stored, "wattwise", "status")
