# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import datetime
import json
import math
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import manifests
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput


def manifest(kind: str, name: str = "a", namespace: str | None = None) -> dict[str, t.Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


def test_yaml_lists_and_kubernetes_lists_all_give_manifests() -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n---\n---\n" + json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": [manifest("Pod"), manifest("Node")]}
    )
    for given in (text, [text], [manifest("Namespace", "x"), manifest("Pod"), manifest("Node")]):
        kinds = [item["kind"] for item in manifests.read_manifests(given)]
        assert kinds == ["Namespace", "Pod", "Node"]
    assert manifests.read_manifests(manifest("Pod")) == [manifest("Pod")]
    assert manifests.read_manifests([]) == []


@pytest.mark.parametrize("kind", ["AllowList", "PriceList", "List", "Playlist"])
def test_an_object_without_items_is_no_list_whatever_its_kind(kind: str) -> None:
    given = {**manifest(kind), "spec": {"cidrs": ["10.0.100.0/24"]}}
    assert manifests.read_manifests([given]) == [given]
    assert manifests.read_manifests(json.dumps(given)) == [given]


@pytest.mark.parametrize("items", [None, []])
def test_a_list_may_be_empty(items: t.Any) -> None:
    assert manifests.read_manifests([{"apiVersion": "v1", "kind": "PodList", "items": items}]) == []


def test_items_of_a_typed_list_take_its_type() -> None:
    items = [{"metadata": {"name": "a"}}, manifest("Secret", "b")]
    given = {"apiVersion": "v1", "kind": "ConfigMapList", "items": items}
    assert manifests.read_manifests([given]) == [manifest("ConfigMap"), manifest("Secret", "b")]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"kind": "Pod", "metadata": {"name": "a"}}], r"manifests\[0\]: apiVersion is missing"),
        ([{"apiVersion": "v1", "metadata": {"name": "a"}}], r"manifests\[0\]: kind is missing"),
        ([manifest("Pod"), {"apiVersion": "v1", "kind": "Pod"}], r"\[1\]: metadata.name"),
        # Names that YAML reads as numbers and booleans, as in "name: 0123" and "name: on".
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: 0123}", "metadata.name is 83 and not a text"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: on}", "metadata.name is True and not a text"),
        ([3], r"manifests\[0\]: a manifest is a mapping, not int"),
        ("a: [", r"manifests: line \d: it is not YAML"),
        (["a: 1\nb: *c"], r"manifests\[0\]: line 2: it is not YAML: an alias has no anchor"),
        ("- 'kind: Pod'", r"manifests\[0\]: a manifest is a mapping, not list"),
        ({"kind": "List", "items": ["kind: Pod"]}, r"\[0\]\.items\[0\]: a manifest is a mapping"),
        ([{"kind": "Menu", "items": {"a": 1}}], r"manifests\[0\]: items is not a list"),
        ([{"kind": "Menu", "items": ["soup"]}], r"\[0\]\.items\[0\]: a manifest is a mapping"),
        (7, "give a list of manifests or YAML text"),
        ([manifest("Pod"), manifest("Pod")], "Pod a is given twice"),
    ],
)
def test_bad_manifests_are_named(given: t.Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        manifests.read_manifests(given)


def test_files_are_read_with_and_without_a_key(tmp_path: Path) -> None:
    document = tmp_path / "node_configs.json"
    document.write_text(json.dumps({"node_configs": [manifest("NodeConfig")]}))
    assert manifests.read_file(str(document), "node_configs") == [manifest("NodeConfig")]
    with pytest.raises(InvalidInput, match="no member 'statuses'"):
        manifests.read_file(str(document), "statuses")
    text = tmp_path / "a.yaml"
    text.write_text(json.dumps(manifest("Pod")))
    assert manifests.read_file(str(text)) == [manifest("Pod")]
    with pytest.raises(InvalidInput, match="src: cannot read"):
        manifests.read_file(str(tmp_path / "none.yaml"))
    document.write_text("{")
    with pytest.raises(InvalidInput, match="is not JSON"):
        manifests.read_file(str(document))


@pytest.mark.parametrize("value", [math.nan, -math.inf, datetime.date(2026, 1, 31)])
def test_a_value_that_json_does_not_have_is_named_before_anything_is_sent(value: t.Any) -> None:
    given = [{**manifest("ConfigMap"), "data": {"x": value}}]
    with pytest.raises(InvalidInput, match=r"manifests\[0\]: ConfigMap 'a' holds a value that"):
        manifests.read_manifests(given)


def test_phases_put_what_others_need_first_and_keep_the_order_within() -> None:
    given = [
        manifest("Deployment", "d1"),
        manifest("ConfigMap"),
        manifest("ClusterRoleBinding"),
        manifest("ClusterRole"),
        manifest("Deployment", "d0"),
        manifest("CustomResourceDefinition"),
        manifest("Namespace"),
    ]
    phases = [[item["kind"] for item in phase] for phase in manifests.in_phases(given)]
    assert phases == [
        ["Namespace"],
        ["CustomResourceDefinition"],
        ["ClusterRole"],
        ["ClusterRoleBinding"],
        ["ConfigMap"],
        ["Deployment", "Deployment"],
    ]
    assert [item["metadata"]["name"] for item in manifests.in_phases(given)[-1]] == ["d1", "d0"]


def test_an_identity_names_kind_and_place() -> None:
    assert str(manifests.identity(manifest("Pod", "a", "n"))) == "Pod n/a"
    assert str(manifests.identity(manifest("Node", "a"))) == "Node a"
