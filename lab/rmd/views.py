# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon's information about caches, policies, bandwidth and hospitality."""

from __future__ import annotations

from lab.rmd.bitmaps import PanicError, bits_of, list_text, longest_run, runs
from lab.rmd.daemon import Daemon, Refusal
from lab.rmd.documents import SUCCESSFUL, JsonObject
from lab.rmd.host import POLICIES
from lab.rmd.resctrl import ROOT
from lab.rmd.ways import SHARED, AccountingError, Pool, pool_of

LINE_BYTES = 64
SETS = 45056
_POOL_NAMES: dict[Pool, str] = {
    "guarantee": "guaranteed",
    "besteffort": "besteffort",
    "shared": "shared",
}


def cache_summary(daemon: Daemon) -> JsonObject:
    host = daemon.host
    cores = sorted(host.cpus)
    return {
        "rdt": True,
        "cqm": True,
        "cdp": host.cdp,
        "cdp_enable": host.cdp,
        "cat": True,
        "cat_enable": not host.cdp,
        "caches": {
            "l2": {"number": len(cores), "caches_id": [str(core) for core in cores]},
            "l3": {"number": len(host.caches), "caches_id": [str(cache) for cache in host.caches]},
        },
    }


def cache_level(daemon: Daemon) -> JsonObject:
    """All last-level caches. Raises AccountingError if no class of service is left."""
    infos = {str(cache): cache_info(daemon, cache) for cache in sorted(daemon.host.caches)}
    return {"number": len(infos), "Caches": infos}


def cache_info(daemon: Daemon, cache: int) -> JsonObject:
    """One cache. Raises AccountingError if no class of service is left."""
    host, ways = daemon.host, daemon.ways
    own = bits_of(host.caches[cache])
    assigned: set[int] = set()
    for name, group in daemon.hardware.resctrl.groups.items():
        assigned |= set() if name == ROOT else group.cpus
    free_cpus = bits_of(set(host.caches[cache]) - assigned - daemon.configuration.os_cpus)
    isolated = bits_of(host.isolated_cpus) & free_cpus
    free = {_POOL_NAMES[pool]: ways.free(pool, cache) for pool in ways.pools}
    pools = {**free, "os": ways.os[cache]}
    if daemon.configuration.infra_ways:
        pools["infra"] = ways.infra[cache]
    return {
        "cache_id": cache,
        "NumWays": host.ways,
        "NumSets": SETS,
        "NumPartitions": 0,
        "LineSize": LINE_BYTES,
        "total_size": LINE_BYTES * SETS * host.ways,
        "WaySize": LINE_BYTES * SETS,
        "NumClasses": 0,
        "WayContention": 0,
        "CacheLevel": 3,
        "location_on_socket": str(cache),
        "location_on_node": str(cache),
        "share_cpu_list": list_text(own),
        "available_ways": f"{ways.available(cache):x}",
        "available_cpus": list_text(free_cpus),
        "available_isolated_cpus": list_text(isolated),
        "available_policy": _available_policies(daemon, free),
        "available_ways_pool": {name: list_text(bits) for name, bits in sorted(pools.items())},
    }


def policies(daemon: Daemon) -> JsonObject:
    """v0.2 answers with texts and P-state ratios, v0.3 with numbers and without."""
    found: JsonObject = {}
    for name, (most, least, ratio) in sorted(POLICIES[daemon.host.architecture].items()):
        if daemon.configuration.wire == "0.2":
            cache = {"max": str(most), "min": str(least)}
            found[name] = {"cache": cache, "pstate": {"ratio": f"{ratio:g}"}}
        else:
            found[name] = {"cache": {"max": most, "min": least}}
    return found


def bandwidth(daemon: Daemon) -> JsonObject:
    host = daemon.host
    if not host.mba:
        return {"mba": False}
    return {"mba": True, "mba_enable": True, "mba_step": 10, "mba_min": 10}


def pstates(daemon: Daemon) -> list[JsonObject]:
    """Every CPU, as the P-state plugin shows it."""
    found = {cpu: {"core_id": cpu, "monitoring": "off"} for cpu in sorted(daemon.host.cpus)}
    for workload in daemon.workloads.values():
        for cpu in daemon.cpus_of(workload) if workload.has_pstate else ():
            found[cpu]["monitoring"] = workload.monitoring or "on"
            found[cpu]["ratio_threshold"] = workload.ratio or 0
    return list(found.values())


def hospitality(
    daemon: Daemon, most: int | None, least: int | None, policy: str, cache_id: int | None
) -> JsonObject:
    """Scores by cache id. Raises Refusal."""
    if policy:
        if policy not in POLICIES[daemon.host.architecture]:
            raise Refusal(
                500,
                f"Can not find Policy. Details: Can not find specified policy {policy}\n",
            )
        if daemon.configuration.wire == "0.3":
            raise Refusal(500, "Unknown AppError type!")
        most, least, _ratio = POLICIES[daemon.host.architecture][policy]
    most, least = most or 0, least or 0
    caches = [cache for cache in sorted(daemon.host.caches) if cache_id in (None, cache)]
    return {"score": {"l3": _scores(daemon, most, least, caches)}}


def _scores(daemon: Daemon, most: int, least: int, caches: list[int]) -> dict[str, int]:
    pool: Pool
    if most == 0 and least == 0:
        pool = "shared"
    else:
        try:
            pool = pool_of(most, least)
        except AccountingError:
            pool = "shared"
        if pool == "shared":
            raise Refusal(500, f"Bad request, max_cache={most}, min_cache={least}", 400)
    if pool not in daemon.ways.pools:
        if pool == "shared":
            raise PanicError("no shared pool")
        return {}
    if pool == "shared":
        return dict.fromkeys(map(str, caches), _score_of_shared(daemon))
    try:
        free = {cache: daemon.ways.free(pool, cache) for cache in caches}
    except AccountingError as error:
        raise Refusal(500, str(error), 400) from error
    return {str(cache): _score(pool, most, least, bits) for cache, bits in free.items()}


def _score(pool: Pool, most: int, least: int, free: int) -> int:
    length = longest_run(free).bit_count()
    if pool == "guarantee":
        return 100 if length >= most else 0
    return min(100, length * 100 // most) if length >= least else 0


def _score_of_shared(daemon: Daemon) -> int:
    sharing = sum(
        workload.cos_name == SHARED and workload.status == SUCCESSFUL
        for workload in daemon.workloads.values()
    )
    return 100 if sharing < daemon.configuration.max_allowed_shared else 0


def _available_policies(daemon: Daemon, free: dict[str, int]) -> dict[str, int]:
    """Number of additional workloads of each policy that fit."""
    found = {}
    for name, (most, least, _ratio) in sorted(POLICIES[daemon.host.architecture].items()):
        pool = pool_of(most, least)
        lengths = [length for _start, length in runs(free.get(_POOL_NAMES[pool], 0))]
        if pool == "shared":
            found[name] = daemon.configuration.max_allowed_shared
        else:
            size = most if pool == "guarantee" else least
            found[name] = sum(length // size for length in lengths)
    return found
