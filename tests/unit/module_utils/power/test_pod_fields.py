# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The allow-list of pod fields, held against the types of the Kubernetes client."""

from __future__ import annotations

import typing as t

import pytest
from kubernetes import client

from ansible_collections.wattwise.kube.plugins.module_utils.power import pod_fields
from ansible_collections.wattwise.kube.plugins.module_utils.power.pod_fields import (
    Fields,
    unsupported_fields,
)

Json = dict[str, t.Any]

TABLES = [
    (client.V1PodSpec, pod_fields.POD),
    (client.V1Container, pod_fields.CONTAINER),
    (client.V1ContainerPort, pod_fields.PORT),
    (client.V1ResourceRequirements, pod_fields.RESOURCES),
    (client.V1Volume, pod_fields.VOLUME),
    (client.V1Affinity, pod_fields.AFFINITY),
    (client.V1NodeAffinity, pod_fields.NODE_AFFINITY),
    (client.V1Toleration, pod_fields.TOLERATION),
    (client.V1NodeSelectorTerm, pod_fields.NODE_SELECTOR_TERM),
    (client.V1NodeSelectorRequirement, pod_fields.NODE_SELECTOR_REQUIREMENT),
]


@pytest.mark.parametrize(
    ("kind", "fields"), TABLES, ids=[kind.__name__ for kind, _fields in TABLES]
)
def test_every_field_of_the_api_stands_in_exactly_one_table(kind: t.Any, fields: Fields) -> None:
    listed = [*fields.read, *fields.harmless, *fields.refused]
    assert sorted(listed) == sorted(kind.attribute_map.values())


def pod(spec: Json, **metadata: Json) -> Json:
    return {"metadata": {"name": "web", **metadata}, "spec": {"containers": [], **spec}}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


def node_affinity(**term: t.Any) -> Json:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "spec.topologySpreadConstraints"),
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims"),
        ({"schedulingGates": [{"name": "wait"}]}, "spec.schedulingGates"),
        ({"somethingOfTheFuture": {"on": True}}, "spec.somethingOfTheFuture"),
        (
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}},
            "spec.affinity.podAntiAffinity",
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]
                    }
                }
            },
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution",
        ),
        (
            node_affinity(matchExpressions=[{"key": "a", "operator": "Like", "values": ["b"]}]),
            f"{TERMS}.matchExpressions.operator",
        ),
        (
            node_affinity(matchFields=[{"key": "spec.x", "operator": "In", "values": ["b"]}]),
            f"{TERMS}.matchFields.key",
        ),
        (node_affinity(matchRegions=["eu"]), f"{TERMS}.matchRegions"),
        (
            {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
            "spec.volumes.persistentVolumeClaim",
        ),
        ({"volumes": [{"name": "x", "csi": {"driver": "d"}}]}, "spec.volumes.csi"),
        ({"volumes": ["data"]}, "spec.volumes"),
        (
            {"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]},
            "spec.containers.ports.hostPort",
        ),
        (
            {"containers": [{"ports": [{"containerPort": 80}]}], "hostNetwork": True},
            "spec.containers.ports.hostPort",
        ),
        (
            {"containers": [{"resources": {"claims": [{"name": "gpu"}]}}]},
            "spec.containers.resources.claims",
        ),
        (
            {"initContainers": [{"volumeDevices": [{"devicePath": "/dev/x"}]}]},
            "spec.initContainers.volumeDevices",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]},
            "spec.tolerations.operator",
        ),
    ],
)
def test_what_is_not_understood_is_named(spec: Json, path: str) -> None:
    assert unsupported_fields(pod(spec)) == (path,)


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        (
            {"labels": {"scheduling.x-k8s.io/pod-group": "gang"}},
            "metadata.labels[scheduling.x-k8s.io/pod-group]",
        ),
        (
            {"annotations": {"waok8s.github.io/podspread-rate": "0.6"}},
            "metadata.annotations[waok8s.github.io/podspread-rate]",
        ),
    ],
)
def test_rules_for_groups_of_pods_in_metadata_are_named(metadata: Json, path: str) -> None:
    assert unsupported_fields(pod({}, **metadata)) == (path,)


def test_an_ordinary_pod_is_understood_whole() -> None:
    ordinary = pod(
        {
            "affinity": {"podAffinity": {}, "podAntiAffinity": {REQUIRED: []}},
            "containers": [
                {
                    "env": [{"name": "A", "value": "b"}],
                    "image": "registry.example/web:1",
                    "name": "web",
                    "ports": [{"containerPort": 80, "hostPort": 0, "protocol": "TCP"}],
                    "readinessProbe": {"httpGet": {"port": 80}},
                    "resources": {"requests": {"cpu": "1"}, "claims": []},
                }
            ],
            "dnsPolicy": "ClusterFirst",
            "hostNetwork": False,
            "priority": 5,
            "schedulerName": "wattwise",
            "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 300}],
            "topologySpreadConstraints": [],
            "volumes": [
                {"name": "token", "projected": {"sources": [{"serviceAccountToken": {}}]}},
                {"name": "scratch", "emptyDir": {}},
            ],
        },
        labels={"app": "web"},
    )
    assert unsupported_fields(ordinary) == ()


def test_host_network_without_ports_says_nothing_about_nodes() -> None:
    assert unsupported_fields(pod({"hostNetwork": True, "containers": [{"name": "a"}]})) == ()
