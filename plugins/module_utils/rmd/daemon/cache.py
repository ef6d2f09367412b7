# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Caches in a daemon's answers: CPUs, ways by pool, runs of free ways."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.errors import InvalidInput, TargetFailure
from ...base.fields.lenient import member, text, whole
from ...base.units import parse_cpu_list

GUARANTEED = "guaranteed"


@dataclass(frozen=True)
class Cache:
    """One last-level cache; ``free`` are the free ways of each pool that is configured."""

    id: int
    ways: int
    cpus: frozenset[int]
    available_ways: frozenset[int]
    free: t.Mapping[str, frozenset[int]]
    room: t.Mapping[str, int]

    def longest_run(self, pool: str = GUARANTEED) -> int:
        """The longest run of free ways, which a workload needs."""
        return max((len(run) for run in runs(self.free.get(pool, frozenset()))), default=0)

    def as_dict(self) -> dict[str, t.Any]:
        return {
            "id": self.id,
            "ways": self.ways,
            "cpus": sorted(self.cpus),
            "available_ways": sorted(self.available_ways),
            "free_ways": {pool: sorted(ways) for pool, ways in self.free.items()},
            "longest_runs": {pool: self.longest_run(pool) for pool in self.free},
            "room": dict(self.room),
        }


def caches_of(document: t.Any) -> list[Cache]:
    """From the answer to ``GET /v1/cache/l3``, by id. Raises TargetFailure."""
    infos = member(document, "Caches")
    if not isinstance(infos, dict):
        raise TargetFailure("malformed", "the answer to GET /v1/cache/l3 has no member Caches")
    return sorted((_cache(info) for info in infos.values()), key=lambda cache: cache.id)


def runs(ways: t.Collection[int]) -> list[list[int]]:
    """Runs of contiguous ways, from the lowest."""
    found: list[list[int]] = []
    for way in sorted(ways):
        if found and way == found[-1][-1] + 1:
            found[-1].append(way)
        else:
            found.append([way])
    return found


def machine_cpus(caches: t.Sequence[Cache]) -> frozenset[int]:
    """All CPUs that have one of these caches."""
    return frozenset[int]().union(*(cache.cpus for cache in caches))


def _cache(info: t.Any) -> Cache:
    try:
        available = int(text(member(info, "available_ways")) or "0", 16)
        pools = member(info, "available_ways_pool") or {}
        room = member(info, "available_policy") or {}
        return Cache(
            id=whole(member(info, "cache_id")) or 0,
            ways=whole(member(info, "NumWays")) or 0,
            cpus=_ways(member(info, "share_cpu_list")),
            available_ways=frozenset(
                way for way in range(available.bit_length()) if available >> way & 1
            ),
            free={text(name): _ways(ways) for name, ways in pools.items()},
            room={text(name): whole(count) or 0 for name, count in room.items()},
        )
    except (InvalidInput, ValueError, AttributeError) as error:
        raise TargetFailure(
            "malformed", f"the answer to GET /v1/cache/l3 cannot be read: {error}"
        ) from error


def _ways(value: t.Any) -> frozenset[int]:
    """A list of ways or CPUs; empty without a text."""
    return frozenset(parse_cpu_list(value if isinstance(value, str) else ""))
