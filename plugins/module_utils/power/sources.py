# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""From the module's options to an Instance: documents, a file with all of it, or literal lists."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils import documents, strict_json
from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput, require
from ansible_collections.wattwise.kube.plugins.module_utils.power.cache_runs import (
    read_pools,
    runs_of_pod,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.curve import read_curve
from ansible_collections.wattwise.kube.plugins.module_utils.power.device_claims import (
    ClaimBook,
    read_claims,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import (
    Instance,
    Node,
    Pod,
    Rules,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.node_reader import (
    Loads,
    Occupancy,
    measured_use,
    node_name,
    occupancies,
    read_node,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.peers import read_namespaces
from ansible_collections.wattwise.kube.plugins.module_utils.power.pod_reader import (
    as_kubernetes_pods,
    describe,
    identity,
    is_pending,
    read_pod,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.reading import (
    Object,
    mapping,
    mappings,
    required_text,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.relation_reader import (
    RelationReader,
    Surroundings,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.repulsion import Repulsion

Parameters = t.Mapping[str, t.Any]

_FILE_KEYS = (
    *("curves", "namespaces", "node_metrics", "nodes", "pod_disruption_budgets", "pods"),
    *("device_objects", "replica_sets", "rmd_node_states", "running"),
)


@dataclass(frozen=True)
class Source:
    """What is known of the cluster, still in the words in which it was given.

    ``namespaces`` None: their labels are not known.
    """

    nodes: t.Sequence[Object]
    pods: t.Sequence[Object]
    running: t.Sequence[Object]
    curves: Object = field(default_factory=dict)
    node_metrics: t.Sequence[Object] = ()
    namespaces: t.Sequence[Object] | None = None
    replica_sets: t.Sequence[Object] = ()
    budgets: t.Sequence[Object] = ()
    rmd_node_states: t.Sequence[Object] = ()
    device_objects: t.Sequence[Object] = ()
    previous: t.Mapping[tuple[str, str], str] = field(default_factory=dict)


def read_instance(parameters: Parameters) -> Instance:
    """The task that the completed parameters describe. Raises InvalidInput."""
    return instance_of(read_source(parameters), parameters)


def instance_of(source: Source, parameters: Parameters) -> Instance:
    """The task in neutral terms. Raises InvalidInput."""
    assumption = Decimal(str(parameters["pod_usage_assumption"]))
    nodes = _with_caches(_read_nodes(source, parameters, assumption), source)
    claims = read_claims(
        source.pods,
        source.nodes,
        source.device_objects,
        parameters["device_power"],
        parameters["seed"],
    )
    pods, peers = _read_pods(source, assumption, claims)
    rules = Rules(
        allow_power_off=parameters["allow_power_off"],
        standby_watts=parameters["standby_watts"],
        use_unpriced=parameters["unpriced"] == "last_resort",
        preference_watts=parameters["preference_watts"],
    )
    return Instance(nodes, pods, rules, peers, claims, source.previous)


def read_source(parameters: Parameters) -> Source:
    """What the completed parameters hold or point to. Raises InvalidInput."""
    curves: Object = {}
    if parameters["curves"]:
        curves = documents.load(parameters["curves"], "curves")["curves"]
    if parameters["snapshot"]:
        return _from_snapshot(parameters, curves)
    given = parameters
    if parameters["src"]:
        given = _load_file(parameters["src"])
        curves = curves or mapping(given.get("curves"), "curves")
    return Source(
        nodes=mappings(given.get("nodes"), "nodes"),
        pods=as_kubernetes_pods(given.get("pods"), "pods"),
        running=as_kubernetes_pods(given.get("running"), "running"),
        curves=curves,
        node_metrics=mappings(given.get("node_metrics"), "node_metrics"),
        namespaces=given.get("namespaces"),
        replica_sets=mappings(given.get("replica_sets"), "replica_sets"),
        budgets=mappings(given.get("pod_disruption_budgets"), "pod_disruption_budgets"),
        rmd_node_states=mappings(given.get("rmd_node_states"), "rmd_node_states"),
        device_objects=mappings(given.get("device_objects"), "device_objects"),
        previous=_read_previous(parameters),
    )


def _from_snapshot(parameters: Parameters, curves: Object) -> Source:
    snapshot = documents.load(parameters["snapshot"], "snapshot")
    pods = snapshot.get("pods", [])
    if parameters["rebalance"] and "pod_disruption_budgets" not in snapshot:
        raise InvalidInput(
            "rebalance: the snapshot has no pod_disruption_budgets, which say what may be moved; "
            "include them in fleet_snapshot_info"
        )
    return Source(
        nodes=snapshot["nodes"],
        pods=[pod for pod in pods if is_pending(pod, parameters["scheduler_name"])],
        running=[pod for pod in pods if (pod.get("spec") or {}).get("nodeName")],
        curves=curves,
        node_metrics=snapshot.get("node_metrics", []),
        namespaces=snapshot.get("namespaces"),
        replica_sets=snapshot.get("replica_sets", []),
        budgets=snapshot.get("pod_disruption_budgets", []),
        rmd_node_states=snapshot.get("rmd_node_states", []),
        device_objects=snapshot.get("device_objects", []),
        previous=_read_previous(parameters),
    )


def _read_previous(parameters: Parameters) -> dict[tuple[str, str], str]:
    """The node of each pod in the last plan, from its document or from literal placements."""
    where = "previous_placements"
    placements = parameters[where]
    if parameters["previous"]:
        where = f"previous {parameters['previous']}: placements"
        placements = documents.load(parameters["previous"], "plan")["placements"]
    return {
        (
            required_text(placement.get("namespace") or "default", f"{where}[{index}].namespace"),
            required_text(placement.get("pod"), f"{where}[{index}].pod"),
        ): required_text(placement.get("node"), f"{where}[{index}].node")
        for index, placement in enumerate(mappings(placements, where))
    }


def _load_file(path: str) -> Parameters:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"src: cannot read {path}: {error}") from error
    if path.endswith(".json"):
        try:
            content = strict_json.parse(text)
        except ValueError as error:
            raise InvalidInput(f"src: {path} is not JSON: {error}") from error
    else:
        yaml = require("yaml", "PyYAML")
        try:
            content = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except yaml.YAMLError as error:
            raise InvalidInput(f"src: {path} is not YAML: {error}") from error
    unknown = sorted(mapping(content, f"src {path}").keys() - set(_FILE_KEYS))
    if unknown or not content:
        raise InvalidInput(
            f"src {path}: {unknown[0]!r} is not known here; write {', '.join(_FILE_KEYS)}"
            if unknown
            else f"src {path} is empty; write {', '.join(_FILE_KEYS)}"
        )
    return t.cast(Parameters, content)


def _read_nodes(source: Source, parameters: Parameters, assumption: Decimal) -> tuple[Node, ...]:
    loads = Loads(
        parameters["usage_source"], assumption, measured_use(source.node_metrics, "node_metrics")
    )
    occupied = occupancies(source.running)
    curves = {name: read_curve(curve, f"curves.{name}") for name, curve in source.curves.items()}
    nodes: dict[str, Node] = {}
    for index, given in enumerate(source.nodes):
        name = node_name(given, f"nodes[{index}]")
        if name in nodes:
            raise InvalidInput(f"nodes: the node {name} stands there twice; give each node once")
        occupancy = occupied.get(name) or Occupancy()
        nodes[name] = read_node(given, occupancy, loads, curves.get(name))
    return tuple(nodes[name] for name in sorted(nodes))


def _with_caches(nodes: tuple[Node, ...], source: Source) -> tuple[Node, ...]:
    """The nodes with the free runs of cache ways of those that have an RmdNodeState."""
    pools = read_pools(source.rmd_node_states, source.running)
    return tuple(replace(node, cache_pools=pools.get(node.name)) for node in nodes)


def _read_pods(
    source: Source, assumption: Decimal, claims: ClaimBook
) -> tuple[tuple[Pod, ...], tuple[t.Mapping[str, int], ...]]:
    """The pods to be placed, and what runs of the sets of pods that their rules speak of."""
    labels_of = {
        node_name(node, "nodes"): node.get("metadata", node).get("labels") or {}
        for node in source.nodes
    }
    namespaces = read_namespaces(source.namespaces, "namespaces")
    repulsion = Repulsion(source.running, labels_of, namespaces)
    seen = _unique_names(source.running, set(), "running")
    _unique_names(source.pods, seen, "pods")
    replica_sets = {
        mapping(item.get("metadata"), "replica_sets").get("uid") or "": item
        for item in source.replica_sets
    }
    surroundings = Surroundings(source.running, list(labels_of.values()), namespaces, replica_sets)
    reader = RelationReader(source.pods, surroundings)
    pods: list[Pod] = []
    former_demands: tuple[t.Any, ...] = ()
    for index, (relations, unsupported) in enumerate(reader.relations()):
        pod, former = source.pods[index], source.pods[index - 1]
        closed = repulsion.nodes_closed_to(pod)
        demands = (relations, unsupported, closed)
        if demands == former_demands and _is_copy(pod, former):
            pods.append(replace(pods[-1], name=pod["metadata"]["name"]))
        else:
            key = identity(pod, "pods")
            runs = runs_of_pod(pod, describe(*key))
            asked = claims.of_pod.get(key)
            pods.append(read_pod(pod, assumption, closed, relations, unsupported, runs, asked))
        former_demands = demands
    pods.sort(key=lambda pod: (-pod.shape.priority, pod.namespace, pod.name))
    return tuple(pods), reader.peers()


def _is_copy(pod: Object, other: Object) -> bool:
    """Whether both come from one short form with a count: all but their names is the same."""
    metadata, others = pod["metadata"], other["metadata"]
    return (
        "spec" in pod
        and pod["spec"] is other.get("spec")
        and metadata.keys() == others.keys()
        and all(value is others[key] for key, value in metadata.items() if key != "name")
    )


def _unique_names(
    pods: t.Sequence[Object], seen: set[tuple[str, str]], where: str
) -> set[tuple[str, str]]:
    for pod in pods:
        key = identity(pod, where)
        if key in seen:
            raise InvalidInput(
                f"{where}: the {describe(*key)} stands there twice; give each pod once, either "
                "as one to be placed or as one that runs"
            )
        seen.add(key)
    return seen
