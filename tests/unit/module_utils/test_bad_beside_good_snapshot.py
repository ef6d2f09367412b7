# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trimming of objects for a snapshot: an odd one is omitted or kept, and no secret is kept."""

from __future__ import annotations

import json
import random
import typing as t

import pytest
from kubernetes import client

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling import pod_fields
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot.pods import trim_pod
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot.snapshot import take
from support.examples import each_seed
from support.odd_fleets import budget, cache_state, full_pod, node
from support.odd_values import bounded, spoilt
from support.scripted_api import Asked, Reply, ScriptedApi

Json = dict[str, t.Any]

GOOD: dict[str, tuple[str, Json]] = {
    "nodes": ("/api/v1/nodes", node("good", "a")),
    "pods": ("/api/v1/pods", full_pod("good")),
    "pod_disruption_budgets": ("/apis/policy/v1/poddisruptionbudgets", budget("good")),
    "rmd_node_states": ("/apis/intel.com/v1alpha1/rmdnodestates", cache_state("good")),
    "namespaces": (
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "good"}},
    ),
}


def taken(objects: t.Mapping[str, list[t.Any]]) -> Json:
    """A snapshot of an API that serves these objects by part."""
    by_path = {path: objects.get(part, [good]) for part, (path, good) in GOOD.items()}

    def answer(asked: Asked) -> Reply:
        return Reply({"kind": "List", "items": by_path[asked.path.partition("?")[0]]})

    with ScriptedApi(answer) as api:
        result = take({"host": api.url, "include": list(GOOD)})
    documents.check(result["snapshot"], "snapshot", "snapshot")
    json.dumps(result["snapshot"])
    return t.cast(Json, result["snapshot"])


@each_seed(40)
def test_the_others_are_in_the_snapshot_as_without_it(seed: int) -> None:
    source = random.Random(seed)
    part = source.choice(list(GOOD))
    good = GOOD[part][1]
    items: list[t.Any] = [good]
    items.insert(source.randrange(2), spoilt(source, {**good, "metadata": {"name": "odd"}}))
    with bounded():
        snapshot, expected = taken({part: items}), taken({})
    for name in GOOD:
        assert [each for each in snapshot[name] if each["metadata"]["name"] == "good"] == expected[
            name
        ]
    left_out = len(snapshot["findings"])
    assert left_out == 2 - len(snapshot[part])
    assert not {finding["name"] for finding in snapshot["findings"]} & {"good"}


SECRET = "hunter2-hunter2"


@pytest.mark.parametrize("more", [{}, {"nodeName": "n1"}, {"nodeName": "n1", "schedulerName": ""}])
def test_no_secret_of_a_container_is_kept(more: Json) -> None:
    pod = full_pod()
    named = {"name": "PASSWORD", "value": SECRET}
    container = {field: [SECRET, named] for field in client.V1Container.attribute_map.values()}
    keep: Json = {"name": "main", "resources": {}, "ports": [], "restartPolicy": "Always"}
    keep["restartPolicyRules"] = [{"action": "Restart"}]
    pod["spec"].update(
        containers=[{**container, **keep}],
        initContainers=[{**container, **keep}],
        ephemeralContainers=[{**container, **keep}],
        volumes=[
            {"name": "a", "csi": {"driver": "d", "volumeAttributes": {"password": SECRET}}},
            {"name": "b", "flexVolume": {"options": {"password": SECRET}}},
            {"name": "c", "downwardAPI": {"items": [{"path": SECRET}]}},
            {"name": "d", "rbd": {"monitors": ["m"], "image": "i", "keyring": SECRET}},
            {"name": "e", "iscsi": {"iqn": "q", "secretRef": {"name": SECRET}}},
        ],
        hostAliases=[{"ip": "::1", "hostnames": [SECRET]}],
        **more,
    )
    before = pod_fields.unsupported_fields(pod)
    assert SECRET in json.dumps(pod)
    trimmed = trim_pod(pod)
    assert SECRET not in json.dumps(trimmed)
    if not more:
        assert pod_fields.unsupported_fields(trimmed) == before


def test_annotations_are_kept_unless_they_are_long_and_of_other_programs() -> None:
    short = {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "wattwise.github.io/power-fleet": "halls/hall-1",
        "kubernetes.io/config.mirror": "0123",
    }
    claims = {pod_fields.DEVICE_CLAIMS_ANNOTATION: "claims: []\n" * 1000}
    pod = full_pod()
    for name in ("", "n"):
        pod["spec"]["nodeName"] = name
        pod["metadata"]["annotations"] = {**short, **claims, "other": "x" * 1025}
        assert trim_pod(pod)["metadata"]["annotations"] == {**short, **claims}


@pytest.mark.parametrize("field", sorted(client.V1Container.attribute_map.values()))
def test_a_field_of_containers_that_is_not_kept_is_harmless_or_refused(field: str) -> None:
    pod = full_pod()
    pod["spec"]["containers"][0][field] = [{"name": "x"}]
    kept = trim_pod(pod)["spec"]["containers"][0]
    if field in pod_fields.CONTAINER.harmless - {"name"}:
        assert field not in kept
    else:
        assert field in kept
