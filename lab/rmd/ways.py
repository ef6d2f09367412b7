# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RMD v0.2's distribution of cache ways: pools, free ways, runs for a request, the OS group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from lab.rmd.bitmaps import longest_run, ones, take_from_bottom, take_from_top
from lab.rmd.host import Configuration, Host
from lab.rmd.resctrl import ROOT, Group, Resctrl

Pool = Literal["guarantee", "besteffort", "shared"]
POOLS: tuple[Pool, ...] = ("guarantee", "besteffort", "shared")
INFRA = "infra"
SHARED = "shared"


class AccountingError(Exception):
    """A request that cannot be met; `str()` is the daemon's text."""


class Request(NamedTuple):
    """`most` and `least` cache ways, on the caches that the workload's CPUs share."""

    pool: Pool
    most: int
    least: int
    caches: frozenset[int]


class Ways:
    """The accounting of one host; used ways are read from resctrl each time."""

    def __init__(self, host: Host, configuration: Configuration, resctrl: Resctrl) -> None:
        self.host = host
        self.configuration = configuration
        self.resctrl = resctrl
        self.pools: dict[Pool, dict[int, int]] = {}
        low = dict.fromkeys(host.caches, 0)
        self.os = {
            cache: ones(configuration.os_ways) if self._has_os_cpu(cache) else 0
            for cache in host.caches
        }
        low = {cache: mask.bit_length() for cache, mask in self.os.items()}
        for pool in POOLS:
            size: int = getattr(configuration, pool)
            if size:
                self.pools[pool] = {cache: ones(size) << shift for cache, shift in low.items()}
            low = {cache: shift + size for cache, shift in low.items()}
        top = ones(configuration.infra_ways) << (host.ways - configuration.infra_ways)
        self.infra = dict.fromkeys(host.caches, top)

    def used(self, cache: int) -> int:
        """Ways of every group except the system's; a full mask means no restriction."""
        return self._masks(cache, {ROOT, INFRA})

    def free(self, pool: Pool, cache: int) -> int:
        """Ways of a pool that no group has. Raises AccountingError if there is no such pool."""
        self.require_classes()
        if pool not in self.pools:
            raise AccountingError(f"error doesn't support pool {pool}")
        return self.pools[pool][cache] & ~self.used(cache)

    def available(self, cache: int) -> int:
        """The value of `available_ways`: all ways that no group has, not even the OS group."""
        return self.host.full & ~self._masks(cache, set())

    def require_classes(self) -> None:
        """Raise AccountingError if the host has no class of service left."""
        count = len(self.resctrl.groups)
        if count >= self.host.closids:
            raise AccountingError(f"error, not enough CLOS on host, {count} used")

    def choose(self, request: Request) -> tuple[dict[int, int], dict[str, Group]]:
        """Masks for a new group, and the groups that shrink for it.

        Raises AccountingError.
        """
        free = {cache: self.free(request.pool, cache) for cache in sorted(self.host.caches)}
        if request.pool == "shared":
            return dict(self.pools["shared"]), {}
        masks: dict[int, int] = {}
        shrunk: dict[str, Group] = {}
        for cache, bits in free.items():
            if cache not in request.caches:
                masks[cache] = self.host.full
                continue
            masks[cache] = self._run(request, bits)
            if not masks[cache] and request.pool == "besteffort" and self.configuration.shrink:
                masks[cache] = self._shrink(request, cache, shrunk)
            if not masks[cache]:
                raise Full(f"Not enough cache left on cache_id {cache}")
        return masks, shrunk

    def settle_os_group(self) -> None:
        """Give the OS its CPUs back, and the low ways up to the first used one.

        v0.2 limits only caches with an OS CPU; v0.3 limits all caches, and takes no CPU back.
        Raises AccountingError if the host has no class of service left.
        """
        is_newer = self.configuration.wire == "0.3"
        self.require_classes()
        root = self.resctrl.groups[ROOT]
        masks = {}
        for cache, least in self.os.items():
            used = self.used(cache)
            up_to_first = (used & -used) - 1 if used else self.host.full
            masks[cache] = (up_to_first | least) if least or is_newer else self.host.full
        stolen = frozenset[int]() if is_newer else self.configuration.os_cpus
        self.resctrl.write(ROOT, masks, root.cpus | stolen, ())

    def _run(self, request: Request, bits: int) -> int:
        if request.pool == "guarantee":
            return take_from_top(bits, request.most, self.host.ways)
        length = longest_run(bits).bit_count()
        if length < request.least or not length:
            return 0
        return take_from_top(bits, min(length, request.most), self.host.ways)

    def _shrink(self, request: Request, cache: int, shrunk: dict[str, Group]) -> int:
        """Take ways from best-effort groups, which keep their topmost ones."""
        whole = self.pools["besteffort"][cache]
        groups = {
            name: group
            for name, group in self.resctrl.groups.items()
            if name.endswith("-besteffort") and group.masks[cache] != self.host.full
        }
        for group in groups.values():
            whole &= ~take_from_top(group.masks[cache], request.least, self.host.ways)
        taken = take_from_bottom(whole, request.least, self.host.ways)
        for name, group in groups.items():
            if taken and group.masks[cache] & taken:
                changed = shrunk.setdefault(name, Group(dict(group.masks)))
                changed.masks[cache] &= ~taken
        return taken

    def _masks(self, cache: int, without: set[str]) -> int:
        bits = 0
        for name, group in self.resctrl.groups.items():
            mask = group.masks[cache]
            if name not in without and mask != self.host.full:
                bits |= mask
        return bits

    def _has_os_cpu(self, cache: int) -> bool:
        return not self.configuration.os_cpus.isdisjoint(self.host.caches[cache])


class Full(AccountingError):
    """No run of ways that is long enough."""


def pool_of(most: int, least: int, minimum_first: bool = False) -> Pool:
    """The pool of a request. Raises AccountingError; `minimum_first` is v0.3's additional check."""
    if minimum_first and least > most:
        raise AccountingError("Min cache value cannot be greater than max cache value")
    if most == 0:
        return "shared"
    if most == least:
        return "guarantee"
    if most > least > 0:
        return "besteffort"
    raise AccountingError(
        f"Bad cache ways request. Details: max_cache={most}, min_cache={least}, doesn't support\n"
    )


def by_pool(ways: Ways, cache: int) -> Mapping[Pool, int]:
    """The free ways of each configured pool."""
    return {pool: ways.free(pool, cache) for pool in ways.pools}
