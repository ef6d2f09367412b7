# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypothesis strategies for parameters of power_placement, small enough for brute force.

A *feature* is a kind of rule that pods of the instance may have.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from hypothesis import strategies as st

from support.placement_caches import WAYS
from support.placement_rules import GANG_LABEL, HOSTNAME
from support.volume_instances import volume_objects, volumes_of_pod

Json = dict[str, t.Any]
Draw = Callable[[st.SearchStrategy[t.Any]], t.Any]
Feature = t.Literal[
    "affinity",
    "anti-affinity",
    "caches",
    "gangs",
    "node rules",
    "peer preferences",
    "podspread",
    "ports",
    "preferences",
    "running",
    "spread",
    "soft spread",
    "volumes",
]

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
DISK = "disk"
PREFERENCES: frozenset[Feature] = frozenset({"peer preferences", "preferences", "soft spread"})
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

CORES = st.sampled_from([2, 4, 8])
APPS = st.sampled_from(["a", "b"])
KEYS = st.sampled_from([HOSTNAME, ZONE, ZONE, DISK])
TAINTS = st.sampled_from(
    [
        {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
        {"key": "maintenance", "value": "", "effect": "NoExecute"},
        {"key": "old", "value": "yes", "effect": "PreferNoSchedule"},
    ]
)
TOLERATIONS = st.sampled_from(
    [
        {"operator": "Exists"},
        {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
        {"key": "maintenance", "operator": "Exists"},
        {"operator": "Exists", "effect": "NoExecute"},
        {"key": "old", "value": "yes"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    ]
)
DEMANDS = st.sampled_from(
    [
        {"key": DISK, "operator": "In", "values": ["ssd"]},
        {"key": DISK, "operator": "NotIn", "values": ["ssd"]},
        {"key": ZONE, "operator": "Exists"},
        {"key": "generation", "operator": "DoesNotExist"},
        {"key": "generation", "operator": "Gt", "values": ["5"]},
        {"key": "generation", "operator": "Lt", "values": ["5"]},
    ]
)
SELECTORS = st.sampled_from(
    [
        {"matchLabels": {"app": "a"}},
        {"matchLabels": {"app": "a"}},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
        {},
        None,
    ]
)
NAMESPACES = [
    {"metadata": {"name": "default", "labels": {"team": "x"}}},
    {"metadata": {"name": "other", "labels": {"team": "y"}}},
]
# Labels of some running pods.
DATABASE = {"role": "database"}
PORTS = st.sampled_from(
    [
        {"containerPort": 80, "hostPort": 80},
        {"containerPort": 80, "hostPort": 80, "protocol": "UDP"},
        {"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"},
        {"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.2"},
        {"containerPort": 80},
    ]
)


def one_in(draw: Draw, number: int) -> bool:
    return bool(draw(st.integers(1, number)) == number)


@st.composite
def curves(draw: Draw, cores: int) -> Json:
    """A curve of any shape: convex, concave, falling in places; some end before the node does."""
    points = draw(st.integers(1, 5))
    reach = cores * draw(st.sampled_from([1, 1, 1, 0.6]))
    if points == 1:
        return {"cpu": [0, reach], "watts": [200.0, 200.0]}
    steps = [draw(st.sampled_from([0.0, 3.0, 10.0, 35.5, 80.0, -5.0])) for _point in range(points)]
    watts = [200.0]
    for step in steps[1:]:
        watts.append(watts[-1] + step)
    cpu = [round(reach * index / (points - 1), 3) for index in range(points)]
    return {"cpu": cpu, "watts": watts}


@st.composite
def nodes(draw: Draw, index: int, features: frozenset[Feature]) -> Json:
    name, cores = f"node-{index}", draw(CORES)
    node: Json = {
        "name": name,
        "allocatable": {"cpu": str(cores), "memory": f"{draw(st.sampled_from([2, 4, 16]))}Gi"},
        "labels": {HOSTNAME: name, ZONE: draw(st.sampled_from(["x", "y"]))},
    }
    if one_in(draw, 2):
        node["labels"][DISK] = draw(st.sampled_from(["ssd", "hdd"]))
    if one_in(draw, 8):
        del node["labels"][draw(st.sampled_from([HOSTNAME, ZONE]))]
    if one_in(draw, 2):
        node["allocatable"]["pods"] = str(draw(st.integers(1, 5)))
    if one_in(draw, 5):
        node["allocatable"]["example.com/gpu"] = str(draw(st.integers(1, 2)))
    if not one_in(draw, 6):
        node["allocatable"]["ephemeral-storage"] = f"{draw(st.sampled_from([1, 3, 50]))}Gi"
    if "podspread" in features and one_in(draw, 2):
        node["labels"][REGION] = draw(st.sampled_from(["north", "south"]))
    if not one_in(draw, 8):
        node["curve"] = draw(curves(cores))
    if one_in(draw, 3):
        node["used"] = {"cpu": f"{draw(st.integers(1, cores * 600))}m", "memory": "1Gi"}
    if one_in(draw, 5):
        node["usage_cores"] = draw(st.integers(0, cores * 1000)) / 1000
    if "node rules" in features:
        _add_node_rules(draw, node)
    if "caches" in features:
        node["allocatable"][WAYS] = str(draw(st.sampled_from([2, 6, 12])))
    return node


def _add_node_rules(draw: Draw, node: Json) -> None:
    if one_in(draw, 2):
        node["labels"]["generation"] = draw(st.sampled_from(["3", "7"]))
    if one_in(draw, 3):
        node["taints"] = draw(st.lists(TAINTS, min_size=1, max_size=2, unique_by=repr))
    if one_in(draw, 8):
        node["unschedulable"] = True
    if one_in(draw, 12):
        node["ready"] = False


@st.composite
def containers(draw: Draw) -> Json:
    requests: Json = {}
    if not one_in(draw, 12):
        millicores = draw(st.sampled_from([0, 33, 100, 500, 500, 750, 1500, 2600]))
        requests["cpu"] = f"{millicores}m"
    if one_in(draw, 2):
        requests["memory"] = f"{draw(st.sampled_from([100, 700, 1500]))}Mi"
    if one_in(draw, 10):
        requests["example.com/gpu"] = 1
    if one_in(draw, 8):
        requests["ephemeral-storage"] = f"{draw(st.sampled_from([100, 900]))}Mi"
    kind = "limits" if one_in(draw, 8) else "requests"
    return {"name": "main", "resources": {kind: requests}}


def _term(draw: Draw) -> Json:
    """A term about other pods. Without a selector, it selects none."""
    term: Json = {"topologyKey": draw(KEYS)}
    selector = draw(SELECTORS)
    if selector is not None:
        term["labelSelector"] = selector
    if one_in(draw, 6):
        term["namespaces"] = draw(st.sampled_from([["default"], ["other"], ["default", "other"]]))
    elif one_in(draw, 4):
        term["namespaceSelector"] = draw(
            st.sampled_from(
                [
                    {},
                    {"matchLabels": {"team": "y"}},
                    {"matchLabels": {"kubernetes.io/metadata.name": "other"}},
                    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["y"]}]},
                ]
            )
        )
    return term


def _preferred_term(draw: Draw) -> Json:
    """Affinity or anti-affinity to other pods."""
    term = _term(draw)
    if one_in(draw, 4):
        term["labelSelector"] = {"matchLabels": DATABASE}
    return {"weight": draw(st.sampled_from([1, 40, 40, 100])), "podAffinityTerm": term}


def _terms(draw: Draw) -> Json:
    return {REQUIRED: [_term(draw) for _index in range(draw(st.sampled_from([1, 1, 1, 2])))]}


def _spread(draw: Draw, *, is_soft: bool = False) -> Json:
    constraint: Json = {
        "maxSkew": draw(st.sampled_from([1, 1, 2])),
        "topologyKey": draw(KEYS),
        "whenUnsatisfiable": "ScheduleAnyway" if is_soft else "DoNotSchedule",
        "labelSelector": draw(SELECTORS.filter(lambda selector: selector is not None)),
    }
    if not is_soft and one_in(draw, 4):
        constraint["minDomains"] = draw(st.integers(1, 3))
    if one_in(draw, 3):
        constraint["matchLabelKeys"] = draw(st.sampled_from([["version"], ["version", "absent"]]))
    if one_in(draw, 5):
        constraint["nodeAffinityPolicy"] = draw(st.sampled_from(["Honor", "Ignore"]))
    if one_in(draw, 4):
        constraint["nodeTaintsPolicy"] = draw(st.sampled_from(["Honor", "Ignore"]))
    return constraint


def _node_rules(draw: Draw, spec: Json, node_names: list[str]) -> None:
    if one_in(draw, 3):
        spec["tolerations"] = draw(st.lists(TOLERATIONS, min_size=1, max_size=2, unique_by=repr))
    if one_in(draw, 5):
        spec["nodeSelector"] = {DISK: draw(st.sampled_from(["ssd", "hdd"]))}
    if one_in(draw, 12):
        spec["nodeName"] = draw(st.sampled_from(node_names))
    if one_in(draw, 4):
        term: Json = {"matchExpressions": draw(st.lists(DEMANDS, min_size=1, max_size=2))}
        if one_in(draw, 4):
            values = draw(st.lists(st.sampled_from(node_names), min_size=1, max_size=2))
            term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": values}]
        others = [{"matchExpressions": [draw(DEMANDS)]}] if one_in(draw, 2) else []
        spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term, *others]}}}


def _specials(draw: Draw, spec: Json) -> None:
    """Init containers, sidecars, overhead, requests of the pod as a whole."""
    for _index in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        container = {**draw(containers()), "name": f"init-{_index}"}
        if one_in(draw, 2):
            container["restartPolicy"] = "Always"
        spec.setdefault("initContainers", []).append(container)
    if one_in(draw, 8):
        spec["overhead"] = {"cpu": "50m", "memory": "64Mi"}
    if one_in(draw, 10):
        spec["resources"] = {"requests": {"cpu": draw(st.sampled_from(["250m", "1"]))}}


@st.composite
def pod_specs(draw: Draw, node_names: list[str], features: frozenset[Feature]) -> Json:
    spec: Json = {"containers": [draw(containers())]}
    if "caches" in features and not one_in(draw, 4):
        _ask_for_ways(draw, spec)
    _specials(draw, spec)
    if one_in(draw, 4):
        spec["priority"] = draw(st.sampled_from([-5, 10, 1000]))
    if "node rules" in features:
        _node_rules(draw, spec, node_names)
    if "ports" in features and one_in(draw, 2):
        spec["containers"][0]["ports"] = [draw(PORTS)]
        if one_in(draw, 4):
            spec["hostNetwork"] = True
    if "volumes" in features:
        spec["volumes"] = volumes_of_pod(draw)
    affinity: Json = spec.get("affinity", {})
    if "affinity" in features and one_in(draw, 2):
        affinity["podAffinity"] = _terms(draw)
    if "anti-affinity" in features and one_in(draw, 2):
        affinity["podAntiAffinity"] = _terms(draw)
    if "preferences" in features and one_in(draw, 2):
        preferred = [
            {
                "weight": draw(st.integers(1, 100)),
                "preference": {"matchExpressions": [draw(DEMANDS)]},
            }
            for _index in range(draw(st.integers(1, 2)))
        ]
        affinity.setdefault("nodeAffinity", {})[PREFERRED] = preferred
    if "peer preferences" in features:
        for kind in draw(st.sets(st.sampled_from(["podAffinity", "podAntiAffinity"]))):
            preferred = [_preferred_term(draw) for _index in range(draw(st.integers(1, 2)))]
            affinity.setdefault(kind, {})[PREFERRED] = preferred
    if affinity:
        spec["affinity"] = affinity
    spreads = [_spread(draw) for _index in range(_spreads(draw, "spread" in features))]
    spreads += [
        _spread(draw, is_soft=True) for _index in range(_spreads(draw, "soft spread" in features))
    ]
    if spreads:
        # The API server accepts each key once per ``whenUnsatisfiable``.
        by_key = {(each["topologyKey"], each["whenUnsatisfiable"]): each for each in spreads}
        spec["topologySpreadConstraints"] = list(by_key.values())
    return spec


def _spreads(draw: Draw, is_wanted: bool) -> int:
    return int(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))) if is_wanted else 0


def _ask_for_ways(draw: Draw, spec: Json) -> None:
    containers = [draw(containers_with_ways(name)) for name in ("main", "second")]
    spec["containers"] = containers if one_in(draw, 5) else containers[:1]


@st.composite
def containers_with_ways(draw: Draw, name: str) -> Json:
    resources = {"limits": {"cpu": "500m", WAYS: str(draw(st.integers(1, 4)))}}
    return {"name": name, "resources": resources}


RATES = ("waok8s.github.io/podspread-rate", "wao.bitmedia.co.jp/podspread-rate")
SHARES = st.sampled_from(["0.5", "0.5", "0.75", "1", "0", "1.5", "a"])
FREE_WAYS = st.sampled_from(["", "1-5", "1-3,7", "2,4-5,8-10", "1-2,4-5", "3-6"])


def _node_state(draw: Draw, node: str) -> Json:
    """State of one or two caches from a node's daemon; some daemons never reported any."""
    if one_in(draw, 8):
        return {"spec": {"node": node}, "status": {}}
    caches = [
        {"cacheId": index, "guaranteed": {"free": draw(FREE_WAYS)}}
        for index in range(draw(st.integers(1, 2)))
    ]
    for cache in caches:
        if not one_in(draw, 4):
            cache["besteffort"] = {"free": draw(st.sampled_from(["", "11-14", "11,13-15"]))}
    workloads: Json = {
        f"rmd-workload-running-{index}": {} for index in draw(st.sets(st.integers(0, 2)))
    }
    return {"spec": {"node": node}, "status": {"caches": caches, "workloads": workloads}}


def _pod(draw: Draw, name: str, spec: Json, features: frozenset[Feature]) -> Json:
    metadata: Json = {"name": name, "labels": {"app": draw(APPS)}}
    if one_in(draw, 2):
        metadata["labels"]["version"] = draw(st.sampled_from(["1", "2"]))
    if one_in(draw, 6):
        metadata["namespace"] = "other"
    if one_in(draw, 10):
        metadata["ownerReferences"] = [{"kind": "DaemonSet"}]
    if "caches" in features and one_in(draw, 4):
        metadata["annotations"] = {"main_cache_min": "1"}
    if "gangs" in features and one_in(draw, 2):
        metadata["labels"][GANG_LABEL] = draw(st.sampled_from(["g", "h"]))
    if "podspread" in features and not one_in(draw, 4):
        _start_evenly(draw, metadata)
    return {"metadata": metadata, "spec": spec}


def _start_evenly(draw: Draw, metadata: Json) -> None:
    """A ReplicaSet of its own, and possibly the annotation."""
    kind = "StatefulSet" if one_in(draw, 10) else "ReplicaSet"
    name = f"{kind}-{metadata['name']}"
    owner = {"kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    metadata["ownerReferences"] = [owner]
    if one_in(draw, 3):
        metadata.setdefault("annotations", {})[draw(st.sampled_from(RATES))] = draw(SHARES)


def _replica_set(draw: Draw, metadata: Json) -> Json:
    """The pod with this metadata."""
    name, uid = (metadata["ownerReferences"][0][key] for key in ("name", "uid"))
    given: Json = {"metadata": {"name": name, "uid": uid}}
    if not one_in(draw, 3):
        given["metadata"]["annotations"] = {draw(st.sampled_from(RATES)): draw(SHARES)}
    if not one_in(draw, 3):
        given["spec"] = {"replicas": draw(st.integers(1, 8))}
    return given


@st.composite
def parameters(draw: Draw, features: frozenset[Feature]) -> Json:
    """One task of at most four nodes and six pods."""
    names = [f"node-{index}" for index in range(draw(st.integers(1, 4)))]
    waiting: list[Json] = []
    owned: list[Json] = []
    left = draw(st.integers(1, 6))
    while left:
        count = draw(st.integers(1, left))
        left -= count
        entry = f"pod-{len(waiting)}"
        pod = _pod(draw, entry, draw(pod_specs(names, features)), features)
        waiting += [_renamed(pod, f"{entry}-{index}") for index in range(count)]
        owned += [pod["metadata"]] if "uid" in _owner(pod["metadata"]) else []
    given: Json = {
        "nodes": [draw(nodes(index, features)) for index in range(len(names))],
        "pods": waiting,
        "namespaces": NAMESPACES,
        "unpriced": draw(st.sampled_from(["last_resort", "last_resort", "exclude"])),
        "pod_usage_assumption": draw(st.sampled_from([0.8, 0.8, 1.0, 0.37])),
    }
    if one_in(draw, 3):
        given["allow_power_off"] = True
        given["standby_watts"] = draw(st.sampled_from([0.0, 7.5, 150.0]))
    if features & PREFERENCES:
        given["preference_watts"] = draw(st.sampled_from([0.0, 1.0, 20.0]))
    if "running" in features:
        given["running"] = [
            _running(draw, index, names, features, owned)
            for index in range(draw(st.integers(0, 3)))
        ]
    if "podspread" in features:
        given["replica_sets"] = [_replica_set(draw, each) for each in owned if not one_in(draw, 5)]
    if "volumes" in features:
        given["volume_objects"] = volume_objects(draw, names)
    if "caches" in features:
        given["rmd_node_states"] = [
            _node_state(draw, name) for name in names if not one_in(draw, 6)
        ]
    return given


def _renamed(pod: Json, name: str) -> Json:
    return {**pod, "metadata": {**pod["metadata"], "name": name}}


def _owner(metadata: Json) -> Json:
    owner: Json = metadata.get("ownerReferences", [{}])[0]
    return owner


def _running(
    draw: Draw, index: int, names: list[str], features: frozenset[Feature], owned: list[Json]
) -> Json:
    """A pod with a node; its own rules need not hold."""
    pod = _pod(draw, f"running-{index}", draw(pod_specs(names, features)), frozenset())
    pod["spec"]["nodeName"] = draw(st.sampled_from(names))
    metadata = pod["metadata"]
    if one_in(draw, 2):
        metadata["labels"].update(DATABASE)
    if one_in(draw, 8):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if owned and not one_in(draw, 3):
        sibling = draw(st.sampled_from(owned))
        metadata["ownerReferences"] = sibling["ownerReferences"]
        metadata["namespace"] = sibling.get("namespace", "default")
    phase = draw(st.sampled_from(["Running", "Running", "Pending", "Succeeded"]))
    return {**pod, "status": {"phase": phase}}
