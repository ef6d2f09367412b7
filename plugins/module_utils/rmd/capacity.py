# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Cache ways that a node offers to pods: the extended resource ``intel.com/l3_cache_ways``.

It is the ways of the guaranteed pools of all caches, less those of workloads without a pod. Ways of
pods' workloads stay in it, because the scheduler itself subtracts the requests of pods.
rmd-operator wrote the mask of the ways as a number, once.
"""

from __future__ import annotations

import typing as t

from ..base.json_types import Object
from .daemon.apply import Visit
from .daemon.cache import GUARANTEED
from .pods import CACHE_WAYS


def ways_for_pods(visit: Visit, of_pods: t.Collection[str]) -> int:
    """The number of ways; ``of_pods`` are uuids of workloads that pods own.

    0 if the daemon did not answer or has no caches, because nothing can be promised then.
    """
    if visit.state is None:
        return 0
    caches = visit.state.caches
    there = sum(cache.ways for cache in caches)
    ways = sum(len(cache.free.get(GUARANTEED, ())) for cache in caches)
    for stored in visit.state.stored:
        most, least = stored.settings.cache or (0, 0)
        if stored.uuid in of_pods and most == least:
            cpus = stored.cpus or frozenset()
            ways += most * sum(1 for cache in caches if cache.cpus & cpus)
    # A daemon may report workloads with more ways than exist.
    return min(ways, there)


def is_of_pod(workload: Object) -> bool:
    """Whether a pod owns the RmdWorkload, so that the garbage collector deletes both."""
    references = workload["metadata"].get("ownerReferences") or []
    return any(each.get("kind") == "Pod" and each.get("controller") for each in references)


def node_capacity(node: Object, ways: int) -> dict[str, t.Any] | None:
    """The Node's status to write; None if it is equal, or missing and not needed.

    The kubelet derives allocatable from the capacity; without a kubelet nothing does, so both are
    written.
    """
    status = node.get("status") or {}
    stored = {(status.get(part) or {}).get(CACHE_WAYS) for part in ("capacity", "allocatable")}
    if stored == {str(ways)} or (ways == 0 and stored <= {None, "0"}):
        return None
    amount = {CACHE_WAYS: str(ways)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node["metadata"]["name"]},
        "status": {"capacity": amount, "allocatable": amount},
    }
