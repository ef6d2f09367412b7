# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Owners of cache ways, inferred from a daemon's answers, which have no masks.

A daemon reports the free ways of each pool, and the number of ways that a workload requested. It
reports neither the ways of a workload nor the begin of a pool. Both follow from RMD's algorithm:
pools are contiguous, from the lowest way on the operating system's, guaranteed, best effort,
shared; all caches have pools of one size; a workload gets the highest free run. The inference is
exact until a workload is deleted; later, workloads with equal numbers of ways may be exchanged. If
the best-effort pool and the shared one are both in use, and no cache shows their border, their
workloads have these ways together.

The document ``rmd`` has the content of each daemon: its caches with their ways, its workloads.

Source: Intel RMD v0.2, ``modules/cache`` and ``modules/workload``.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.boundary import InvalidField
from ..base.json_types import Object
from ..base.units import format_cpu_list
from .daemon.cache import GUARANTEED, Cache, runs
from .daemon.workload import Stored
from .manifests import key_of

BEST_EFFORT, SHARED, SYSTEM = "besteffort", "shared", "os"
POOLS = (GUARANTEED, BEST_EFFORT, SHARED)
NO_POOL = ""
_MAX_WAYS = 1024
Use = t.Literal["free", "held", "unknown", "system", "unused"]


@dataclass(frozen=True)
class Share:
    """A run of ways with equal use.

    ``use`` is ``free``, ``held`` by the workloads with these ids, ``unknown`` for allocated ways
    without a known workload, ``system``, or ``unused`` for ways outside of all pools.
    """

    first: int
    count: int
    pool: str
    use: Use
    holders: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, t.Any]:
        body: dict[str, t.Any] = {"first": self.first, "count": self.count, "use": self.use}
        if self.pool:
            body["pool"] = self.pool
        return {**body, "holders": list(self.holders)} if self.holders else body


def pool_of(stored: Stored) -> str:
    """The pool of a workload's ways; none without a cache request."""
    if stored.settings.cache is None:
        return NO_POOL
    most, least = stored.settings.cache
    if most == 0:
        return SHARED
    return GUARANTEED if most == least else BEST_EFFORT


def layout(caches: t.Sequence[Cache], stored: t.Sequence[Stored]) -> dict[int, tuple[Share, ...]]:
    """The ways of each cache of one daemon, from the lowest, by id of the cache.

    Raises InvalidField for a cache that no processor has.
    """
    for cache in caches:
        if not 0 <= cache.ways <= _MAX_WAYS:
            raise InvalidField(f"cache {cache.id}", f"it cannot have {cache.ways} ways")
    holders = {cache.id: _holders(cache, stored) for cache in caches}
    sizes = _pool_sizes(caches, holders)
    return {cache.id: tuple(_shares(cache, holders[cache.id], sizes)) for cache in caches}


def _holders(cache: Cache, stored: t.Sequence[Stored]) -> dict[str, list[Stored]]:
    """The workloads with ways of the cache, by pool, in the order of creation."""
    found: dict[str, list[Stored]] = {pool: [] for pool in POOLS}
    for item in sorted(stored, key=lambda item: (len(item.id), item.id)):
        pool = pool_of(item)
        # The shared group has its ways on every cache, and tasks without CPUs run anywhere.
        if pool and (pool == SHARED or not item.cpus or item.cpus & cache.cpus):
            found[pool].append(item)
    return found


def _pool_sizes(
    caches: t.Sequence[Cache], holders: t.Mapping[int, t.Mapping[str, t.Sequence[Stored]]]
) -> dict[str, int | None]:
    """Size of each pool: its free ways and those of its workloads.

    None if unknown, because a best-effort workload may have fewer ways than requested.
    """
    sizes: dict[str, int | None] = {}
    for pool in POOLS:
        least, most = [0], [max((cache.ways for cache in caches), default=0)]
        for cache in caches:
            free = len(cache.free.get(pool, ()))
            least.append(free + sum(_asked(item)[1] for item in holders[cache.id][pool]))
            most.append(free + sum(_asked(item)[0] for item in holders[cache.id][pool]))
        is_known = min(most) <= max(least) and not (pool == SHARED and max(least) == 0)
        sizes[pool] = max(least) if is_known else None
    return sizes


def _asked(stored: Stored) -> tuple[int, int]:
    return stored.settings.cache or (0, 0)


def _shares(
    cache: Cache, holders: t.Mapping[str, t.Sequence[Stored]], sizes: t.Mapping[str, int | None]
) -> t.Iterator[Share]:
    pools = _pools(cache, sizes)
    owner = _owners(cache, holders, pools)
    alike: list[tuple[str, Use, tuple[str, ...]]] = []
    for way in range(cache.ways):
        pool = pools.get(way, NO_POOL)
        if pool == SYSTEM:
            alike.append((pool, "system", ()))
        elif way in cache.free.get(pool, ()):
            alike.append((pool, "free", ()))
        elif way in owner:
            alike.append((pool, "held", owner[way]))
        else:
            is_unused = pool == NO_POOL and way in cache.available_ways
            alike.append((pool, "unused" if is_unused else "unknown", ()))
    first = 0
    for way in range(1, cache.ways + 1):
        if way == cache.ways or alike[way] != alike[first]:
            pool, use, ids = alike[first]
            yield Share(first, way - first, pool, use, ids)
            first = way


def _pools(cache: Cache, sizes: t.Mapping[str, int | None]) -> dict[int, str]:
    """The pool of each way: each begins at the end of the one below, and contains its free ways.

    A pool of unknown size takes all allocated ways up to the next known one.
    """
    found = dict.fromkeys(cache.free.get(SYSTEM, ()), SYSTEM)
    begin = max(found, default=-1) + 1
    for number, pool in enumerate(POOLS):
        free = cache.free.get(pool)
        if free is None:
            continue
        above = [way for later in POOLS[number + 1 :] for way in cache.free.get(later, ())]
        next_free = min(above, default=cache.ways)
        least = max(begin, max(free, default=-1) + 1)
        size = sizes[pool]
        end = _end_of_taken(cache, least) if size is None else max(least, begin + size)
        end = min(end, next_free)
        found.update(dict.fromkeys(range(begin, end), pool))
        begin = max(begin, end)
    return found


def _end_of_taken(cache: Cache, begin: int) -> int:
    """End of the allocated ways from ``begin`` on."""
    free = cache.available_ways.union(*(cache.free.get(pool, frozenset()) for pool in POOLS))
    return next((way for way in range(begin, cache.ways) if way in free), cache.ways)


def _owners(
    cache: Cache, holders: t.Mapping[str, t.Sequence[Stored]], pools: t.Mapping[int, str]
) -> dict[int, tuple[str, ...]]:
    """The ids of the workloads of each way."""
    taken: dict[str, set[int]] = {pool: set() for pool in POOLS}
    for way, pool in pools.items():
        if pool in taken and way not in cache.free.get(pool, ()):
            taken[pool].add(way)
    owners: dict[int, tuple[str, ...]] = {}
    together = tuple(item.id for item in holders[SHARED])
    if together and taken[SHARED]:
        owners = dict.fromkeys(taken[SHARED], together)
    elif together:
        together = tuple(item.id for pool in (BEST_EFFORT, SHARED) for item in holders[pool])
        owners = dict.fromkeys(taken[BEST_EFFORT], together)
        taken[BEST_EFFORT] = set()
    for pool in (GUARANTEED, BEST_EFFORT):
        for item in holders[pool]:
            own = _highest_run(taken[pool], *_asked(item))
            taken[pool] -= set(own)
            owners.update(dict.fromkeys(own, (item.id,)))
    return owners


def _highest_run(ways: t.Collection[int], most: int, least: int) -> list[int]:
    """The top of the highest run that gives the most of the request; empty if none does."""
    lying = runs(ways)
    length = min(most, max(map(len, lying), default=0))
    if not length or length < least:
        return []
    return next(run[-length:] for run in reversed(lying) if len(run) >= length)


def inventory(
    caches: t.Sequence[Cache], stored: t.Sequence[Stored], workloads: t.Mapping[str, Object]
) -> dict[str, t.Any]:
    """``caches`` and ``workloads`` of one daemon; ``workloads`` are the RmdWorkloads by uuid."""
    shares = layout(caches, stored)
    return {
        "caches": [
            {
                "id": cache.id,
                "ways": cache.ways,
                "cpus": format_cpu_list(cache.cpus),
                "shares": [share.as_dict() for share in shares[cache.id]],
            }
            for cache in caches
        ],
        "workloads": [_workload(item, workloads.get(item.uuid)) for item in stored],
    }


def _workload(stored: Stored, workload: Object | None) -> dict[str, t.Any]:
    body: dict[str, t.Any] = {
        "id": stored.id,
        "uuid": stored.uuid,
        "cpus": format_cpu_list(stored.cpus or ()) or ",".join(stored.core_ids),
        "pool": pool_of(stored),
    }
    if stored.settings.cache is not None:
        body["most"], body["least"] = stored.settings.cache
    if workload is not None:
        body["workload"] = key_of(workload)
        body |= _pod(workload)
    return body


def _pod(workload: Object) -> dict[str, str]:
    """The pod that owns the RmdWorkload, if any."""
    metadata = workload["metadata"]
    owners = metadata.get("ownerReferences") or []
    names = [owner["name"] for owner in owners if owner.get("kind") == "Pod"]
    return {"pod": f"{metadata.get('namespace') or 'default'}/{names[0]}"} if names else {}
