# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Cache ways that pods request, and the free runs of ways of a node's caches.

RMD gives a container contiguous ways on one cache, so the extended resource
``intel.com/l3_cache_ways``, a sum over all caches of a node, is not sufficient. The free ways are
those of the node's RmdNodeState, less the ways of bound pods without a workload yet. The kubelet
decides the cache of a pod's CPUs.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..base.boundary import InvalidField, shown
from ..base.fields.strict import mapping, mappings, required_text, text, whole_number
from ..base.json_types import Object
from ..base.units import parse_cpu_list
from ..rmd.daemon.cache import GUARANTEED, runs
from ..rmd.daemon.workload import uuid_of
from ..rmd.pods import CACHE_WAYS, workload_name
from .model import CachePools, CacheRun
from .pod_reader import container_requests, containers_of, identity, is_finished

BEST_EFFORT = "besteffort"
MORE_THAN_ENOUGH = 1 << 30
_POOLS = (GUARANTEED, BEST_EFFORT)
# Largest number of ways of a cache, one bit of a register each.
_MAX_WAYS = 64
_MAX_NUMBER_LENGTH = 9

Lengths = tuple[int, ...]


def runs_of_pod(pod: Object) -> tuple[CacheRun, ...]:
    """The runs that a pod's containers request, the longest first.

    Raises InvalidField. A container with the annotation ``<container>_cache_min`` takes fewer ways
    of the best-effort pool if there are not enough. Only the daemon knows policies; a container
    with one counts with its requested ways.
    """
    found = [_run(pod, container, ways) for container, ways in _asking(pod)]
    return tuple(sorted(found, reverse=True))


def _run(pod: Object, container: Object, ways: int) -> CacheRun:
    least = _least(pod, container, ways)
    return CacheRun(GUARANTEED if least == ways else BEST_EFFORT, ways, least)


def _asking(pod: Object) -> list[tuple[Object, int]]:
    """Requested ways of containers and sidecars; other init containers get no ways."""
    spec = mapping(pod.get("spec"), "spec")
    found = []
    for part in ("initContainers", "containers"):
        for path, container in containers_of(spec, part):
            if part == "containers" or container.get("restartPolicy") == "Always":
                ways = container_requests(container, path).get(CACHE_WAYS)
                if ways:
                    found.append((container, ways))
    return found


def least_annotation(container: Object) -> str:
    """The annotation of a pod with the minimum ways of a container."""
    return f"{container.get('name')}_cache_min"


def _least(pod: Object, container: Object, ways: int) -> int:
    annotation = least_annotation(container)
    metadata = mapping(pod.get("metadata"), "metadata")
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    path = f"metadata.annotations.{annotation}"
    given = text(annotations.get(annotation), path).strip()
    if not given:
        return ways
    if not _is_number(given) or not 1 <= int(given) <= ways:
        raise InvalidField(
            path,
            f"{shown(given)} is not a number of ways from 1 to the {ways} that the container asks "
            "for",
        )
    return int(given)


@dataclass(frozen=True)
class NodeCaches:
    """The free runs of a node's caches, and the workloads that its daemon knows."""

    node: str
    pools: CachePools
    workloads: frozenset[str]


def read_caches(state: Object) -> NodeCaches | None:
    """The caches of an RmdNodeState; None if they were never read. Raises InvalidField."""
    spec, status = (mapping(state.get(part), part) for part in ("spec", "status"))
    node = required_text(spec.get("node"), "spec.node")
    caches = mappings(status.get("caches"), "status.caches")
    if not caches:
        return None
    workloads = mapping(status.get("workloads"), "status.workloads")
    held = _held_ways(workloads)
    pools = CachePools(
        tuple((pool, _free_runs(caches, pool)) for pool in _POOLS),
        empty=tuple((pool, _free_runs(caches, pool, held[pool])) for pool in _POOLS),
    )
    return NodeCaches(node, pools, frozenset(workloads))


def pools_by_node(
    caches: t.Iterable[NodeCaches], running: t.Iterable[Object]
) -> dict[str, CachePools]:
    """Free runs by node, less what bound pods will take; the pods are those of
    ``sound_running``."""
    found = {each.node: each for each in caches}
    promised: dict[str, list[CacheRun]] = {}
    for pod in running:
        node = pod["spec"]["nodeName"]
        if node in found and not is_finished(pod):
            promised.setdefault(node, []).extend(_not_yet_taken(pod, found[node].workloads))
    return {
        node: replace(each.pools, promised=tuple(sorted(promised.get(node, ()))))
        for node, each in found.items()
    }


def _held_ways(workloads: Object) -> dict[str, int]:
    """The ways that workloads hold by pool, over all caches.

    A workload in the status has the form for people, with texts.
    """
    held = dict.fromkeys(_POOLS, 0)
    for uuid, workload in workloads.items():
        path = f"status.workloads.{uuid}"
        words = mapping(workload, path)
        most, least = (
            _ways(words.get(name), f"{path}.{name}") for name in ("Cache Max", "Cache Min")
        )
        if least:
            held[GUARANTEED if most == least else BEST_EFFORT] += most
    return held


def _ways(value: t.Any, path: str) -> int:
    given = text(value, path)
    if not given:
        return 0
    if not _is_number(given):
        raise InvalidField(path, f"{shown(given)} is not a number of ways")
    return int(given)


def _is_number(given: str) -> bool:
    return given.isascii() and given.isdecimal() and len(given) <= _MAX_NUMBER_LENGTH


def _free_runs(caches: t.Sequence[Object], pool: str, held: int = 0) -> Lengths:
    """Runs after ``held`` ways are released: each cache may have at most one run of all of them."""
    lengths: list[int] = []
    for index, cache in enumerate(caches):
        path = f"status.caches[{index}]"
        given = mapping(cache.get(pool), f"{path}.{pool}")
        free = text(given.get("free"), f"{path}.{pool}.free")
        ways = parse_cpu_list(free, f"{path}.{pool}.free")
        if ways and ways[-1] >= _MAX_WAYS:
            raise InvalidField(f"{path}.{pool}.free", f"a cache has at most {_MAX_WAYS} ways")
        if held and given:
            there = whole_number(cache.get("ways") or MORE_THAN_ENOUGH, f"{path}.ways", 1)
            lengths.append(min(len(ways) + held, there))
        else:
            lengths += [len(run) for run in runs(ways)]
    return tuple(sorted(lengths, reverse=True))


def _not_yet_taken(pod: Object, workloads: t.Collection[str]) -> list[CacheRun]:
    """The runs of a bound pod whose workloads the daemon did not have when it was read."""
    namespace, name = identity(pod)
    asking = _asking(pod)
    uuids = [
        uuid_of(namespace, workload_name(name, str(each.get("name")), len(asking) == 1))
        for each, _ways in asking
    ]
    return [
        _run(pod, container, ways)
        for (container, ways), uuid in zip(asking, uuids)
        if uuid not in workloads
    ]
