# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The allow-list of pod fields, compared with the types of the Kubernetes client."""

from __future__ import annotations

import typing as t

import pytest
from kubernetes import client

from ansible_collections.wattwise.kube.plugins.module_utils.scheduling import pod_fields
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.pod_fields import (
    Fields,
    unsupported_fields,
)

Json = dict[str, t.Any]

TABLES = [
    (client.V1PodSpec, pod_fields.POD),
    (client.V1Container, pod_fields.CONTAINER),
    (client.V1ContainerPort, pod_fields.PORT),
    (client.V1ContainerRestartRule, pod_fields.RESTART_RULE),
    (client.V1ResourceRequirements, pod_fields.RESOURCES),
    (client.V1Volume, pod_fields.VOLUME),
    (client.V1Affinity, pod_fields.AFFINITY),
    (client.V1NodeAffinity, pod_fields.NODE_AFFINITY),
    (client.V1PodAffinity, pod_fields.POD_AFFINITY),
    (client.V1PodAntiAffinity, pod_fields.POD_AFFINITY),
    (client.V1PodAffinityTerm, pod_fields.POD_AFFINITY_TERM),
    (client.V1WeightedPodAffinityTerm, pod_fields.WEIGHTED_POD_AFFINITY_TERM),
    (client.V1PreferredSchedulingTerm, pod_fields.PREFERRED_SCHEDULING_TERM),
    (client.V1TopologySpreadConstraint, pod_fields.TOPOLOGY_SPREAD),
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


PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


def node_affinity(**term: t.Any) -> Json:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "Never"}]},
            "spec.topologySpreadConstraints.whenUnsatisfiable",
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "balance": "best"}]},
            "spec.topologySpreadConstraints.balance",
        ),
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims"),
        ({"schedulingGates": [{"name": "wait"}]}, "spec.schedulingGates"),
        ({"somethingOfTheFuture": {"on": True}}, "spec.somethingOfTheFuture"),
        (
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "a", "except": "b"}]}}},
            f"spec.affinity.podAntiAffinity.{REQUIRED}.except",
        ),
        (
            {"affinity": {"podAffinity": {PREFERRED: [{"podAffinityTerm": {"until": "noon"}}]}}},
            f"spec.affinity.podAffinity.{PREFERRED}.podAffinityTerm.until",
        ),
        (
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "unless": "cordoned"}]}}},
            f"spec.affinity.nodeAffinity.{PREFERRED}.unless",
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
        ({"volumes": [{"name": "x", "cinder": {"volumeID": "d"}}]}, "spec.volumes.cinder"),
        ({"volumes": [{"name": "x", "tape": {"reel": 3}}]}, "spec.volumes.tape"),
        ({"volumes": ["data"]}, "spec.volumes"),
        # A mapping in place of a list of mappings.
        ({"volumes": {"emptyDir": {}}}, "spec.volumes"),
        ({"topologySpreadConstraints": {"maxSkew": 1}}, "spec.topologySpreadConstraints"),
        (
            {"topologySpreadConstraints": {"odd": 1, "more": 2}},
            "spec.topologySpreadConstraints",
        ),
        (
            {"affinity": {"podAntiAffinity": {REQUIRED: {"topologyKey": "zone"}}}},
            f"spec.affinity.podAntiAffinity.{REQUIRED}",
        ),
        (
            {"affinity": {"podAffinity": {PREFERRED: [{"podAffinityTerm": [{}]}]}}},
            f"spec.affinity.podAffinity.{PREFERRED}.podAffinityTerm",
        ),
        (
            {"containers": [{"restartPolicyRules": {"action": "Restart"}}]},
            "spec.containers.restartPolicyRules",
        ),
        (
            {"containers": [{"resources": {"claims": [{"name": "gpu"}]}}]},
            "spec.containers.resources.claims",
        ),
        (
            {"initContainers": [{"volumeFilters": [{"devicePath": "/dev/x"}]}]},
            "spec.initContainers.volumeFilters",
        ),
        (
            {"containers": [{"restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            "spec.containers.restartPolicyRules.action",
        ),
        ({"containers": [{"restartPolicyRules": 3}]}, "spec.containers.restartPolicyRules"),
        (
            {"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]},
            "spec.tolerations.operator",
        ),
    ],
)
def test_what_is_not_understood_is_named(spec: Json, path: str) -> None:
    assert unsupported_fields(pod(spec)) == (path,)


def test_an_ordinary_pod_is_understood_whole() -> None:
    ordinary = pod(
        {
            "affinity": {
                "nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {}}]},
                "podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {}}]},
                "podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": {}}]},
            },
            "containers": [
                {
                    "env": [{"name": "A", "value": "b"}],
                    "image": "registry.example/web:1",
                    "name": "web",
                    "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
                    "readinessProbe": {"httpGet": {"port": 80}},
                    "resources": {"requests": {"cpu": "1"}, "claims": []},
                    "restartPolicyRules": [{"action": "Restart", "exitCodes": {"values": [3]}}],
                }
            ],
            "dnsPolicy": "ClusterFirst",
            "hostNetwork": False,
            "priority": 5,
            "schedulerName": "wattwise",
            "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 300}],
            "topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
            "volumes": [
                {"name": "token", "projected": {"sources": [{"serviceAccountToken": {}}]}},
                {"name": "scratch", "emptyDir": {}},
                {"name": "shared", "nfs": {"server": "nfs.example", "path": "/"}},
                {"name": "image", "rbd": {"monitors": ["m"], "image": "i"}},
            ],
        },
        labels={"app": "web"},
    )
    assert unsupported_fields(ordinary) == ()
