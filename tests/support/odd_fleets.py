# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small fleet with good pods and nodes, and full objects to be spoilt beside them."""

from __future__ import annotations

import copy
import typing as t

Json = dict[str, t.Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
CURVE = {"cpu": [0, 4, 8], "watts": [60, 130, 160]}


def node(name: str, zone: str, **status: t.Any) -> Json:
    """A Node of eight cores, in the API's form."""
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "20", "intel.com/l3_cache_ways": "11"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"zone": zone, "generation": "3"}},
        "spec": {"taints": [{"key": "soft", "value": "x", "effect": "PreferNoSchedule"}]},
        "status": {
            "allocatable": dict(amounts),
            "capacity": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True"}],
            **status,
        },
    }


def pod(name: str, cpu: str = "1", memory: str = "1Gi", app: str = "web", **spec: t.Any) -> Json:
    """A Pod of one container, in the API's form."""
    requests = {"cpu": cpu, "memory": memory}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "labels": {"app": app},
        },
        "spec": {
            "schedulerName": "wattwise",
            "containers": [{"name": "main", "resources": {"requests": requests}}],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def full_pod(name: str = "odd") -> Json:
    """A Pod that uses every field that placing reads."""
    term = {
        "labelSelector": {
            "matchLabels": {"app": "none"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
        },
        "namespaces": ["shop"],
        "namespaceSelector": {"matchLabels": {"team": "x"}},
        "matchLabelKeys": ["app"],
        "topologyKey": "zone",
    }
    node_term = {
        "matchExpressions": [
            {"key": "generation", "operator": "Gt", "values": ["1"]},
            {"key": "zone", "operator": "In", "values": ["a", "b"]},
        ],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["nowhere"]}],
    }
    amounts = {"cpu": "500m", "memory": "1Gi", "intel.com/l3_cache_ways": "2"}
    port = {"name": "web", "containerPort": 80, "hostPort": 8080, "hostIP": "", "protocol": "TCP"}
    container = {
        "name": "main",
        "image": "registry.example/web",
        "ports": [port],
        "resources": {"requests": amounts, "limits": dict(amounts)},
    }
    sidecar = {
        "name": "side",
        "restartPolicy": "Always",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    toleration = {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}
    spread = {
        "maxSkew": 5,
        "minDomains": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "odd"}},
        "matchLabelKeys": ["app"],
        "nodeAffinityPolicy": "Honor",
        "nodeTaintsPolicy": "Ignore",
    }
    made = pod(
        name,
        app="odd",
        nodeSelector={"generation": "3"},
        priority=5,
        overhead={"cpu": "10m", "memory": "8Mi"},
        resources={"requests": {"cpu": "700m", "memory": "2Gi"}, "limits": {"cpu": "1"}},
        hostNetwork=False,
        tolerations=[toleration],
        topologySpreadConstraints=[spread],
        affinity={
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [node_term]},
                PREFERRED: [{"weight": 10, "preference": node_term}],
            },
            "podAffinity": {PREFERRED: [{"weight": 20, "podAffinityTerm": term}]},
            "podAntiAffinity": {
                REQUIRED: [term],
                PREFERRED: [{"weight": 30, "podAffinityTerm": term}],
            },
        },
    )
    made["spec"]["containers"] = [container]
    made["spec"]["initContainers"] = [sidecar]
    made["metadata"]["annotations"] = {
        "main_cache_min": "1",
        "waok8s.github.io/podspread-rate": "0.5",
    }
    made["metadata"]["ownerReferences"] = [
        {"kind": "ReplicaSet", "name": "odd", "uid": "rs-odd", "controller": True}
    ]
    return made


def cache_state(node_name: str) -> Json:
    """An RmdNodeState whose caches have free ways."""
    cache = {"id": 0, "ways": 11, "guaranteed": {"free": "0-4"}, "besteffort": {"free": "5-8"}}
    held = {"Cache Max": "2", "Cache Min": "2"}
    return {
        "apiVersion": "intel.com/v1alpha1",
        "kind": "RmdNodeState",
        "metadata": {"name": node_name, "namespace": "rmd"},
        "spec": {"node": node_name},
        "status": {"caches": [cache], "workloads": {"uuid-1": held}},
    }


def budget(name: str) -> Json:
    """A PodDisruptionBudget of the shop."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
        "status": {"disruptionsAllowed": 1},
    }


def fleet() -> Json:
    """Three nodes in two zones, and pods with and without rules, some of them running."""
    apart = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    here = {"nodeName": "n1"}
    running = pod(
        "old", "2", "4Gi", "db", affinity={"podAntiAffinity": {REQUIRED: [apart]}}, **here
    )
    running["status"]["phase"] = "Running"
    return {
        "nodes": [node("n1", "a"), node("n2", "a"), node("n3", "b")],
        "pods": [
            pod("web-0", topologySpreadConstraints=[spread]),
            pod("web-1", topologySpreadConstraints=[spread]),
            pod("db-0", "2", "8Gi", "db"),
            pod("plain-0", "1500m", "2Gi", "plain"),
            pod("plain-1", "1500m", "2Gi", "plain"),
            pod("port-0", "100m", "1Gi", "port", hostNetwork=False),
        ],
        "running": [running],
        "curves": {name: copy.deepcopy(CURVE) for name in ("n1", "n2")},
        "node_metrics": [
            {"metadata": {"name": name}, "usage": {"cpu": cores, "memory": "1Gi"}}
            for name, cores in (("n1", "1500m"), ("n2", "1"))
        ],
        "namespaces": [{"metadata": {"name": "shop", "labels": {"team": "x"}}}],
        "replica_sets": [
            {
                "metadata": {
                    "name": "web",
                    "namespace": "shop",
                    "uid": "rs-web",
                    "annotations": {"waok8s.github.io/podspread-rate": "0.5"},
                },
                "spec": {"replicas": 2},
            }
        ],
        "pod_disruption_budgets": [budget("shop")],
        "rmd_node_states": [cache_state("n1")],
    }
