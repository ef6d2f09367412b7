# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Owners of ways, concluded from a daemon's answers, against its machine's real masks."""

from __future__ import annotations

import contextlib
import random

from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.cache import (
    GUARANTEED,
    Cache,
    caches_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.workload import (
    Stored,
    stored_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.layout import (
    BEST_EFFORT,
    SHARED,
    Share,
    layout,
    pool_of,
)
from lab.rmd.daemon import Daemon, Refusal
from lab.rmd.documents import Workload
from lab.rmd.host import Configuration
from lab.rmd.views import cache_level
from support.examples import each_seed
from support.rmd import BROADWELL


def told(daemon: Daemon) -> tuple[list[Cache], list[Stored]]:
    """All answers of the API."""
    workloads = [item.document(daemon.configuration.wire) for item in daemon.workloads.values()]
    return caches_of(cache_level(daemon)), [stored_of(document) for document in workloads]


def ask(daemon: Daemon, most: int, least: int, *cpus: int) -> str:
    asked = Workload(core_ids=tuple(map(str, cpus)), cache_max=most, cache_min=least)
    return daemon.create(asked).id


def real(daemon: Daemon, key: str, cache: int) -> set[int]:
    """The ways of a workload's group on a cache; none if it does not restrict them."""
    mask = daemon.hardware.resctrl.groups[daemon.workloads[key].cos_name].masks[cache]
    return set() if mask == daemon.host.full else {way for way in range(20) if mask >> way & 1}


def drawn(shares: tuple[Share, ...], key: str) -> set[int]:
    return {
        way
        for share in shares
        if key in share.holders
        for way in range(share.first, share.first + share.count)
    }


def random_daemon(chance: random.Random, deletes: bool) -> Daemon:
    """A daemon with pools of any size after requests of any kind."""
    guarantee, besteffort = chance.randint(0, 9), chance.randint(0, 6)
    configuration = Configuration(
        os_ways=chance.randint(1, 2),
        guarantee=guarantee,
        besteffort=besteffort,
        shared=chance.randint(1, 3),
        wire=chance.choice(["0.2", "0.3"]),
    )
    daemon = Daemon(BROADWELL, configuration)
    cpus = chance.sample(range(1, 44), 20)
    for cpu in cpus:
        least = chance.randint(1, 3)
        most = chance.choice([least, least, least + chance.randint(1, 3)])
        with contextlib.suppress(Refusal):
            ask(daemon, *chance.choice([(most, least)] * 5 + [(0, 0)]), cpu)
        if deletes and daemon.workloads and chance.random() < 0.3:
            daemon.delete(chance.choice(list(daemon.workloads)))
    return daemon


def test_the_worked_run_of_the_reference_is_drawn_as_it_is() -> None:
    daemon = Daemon(BROADWELL, Configuration())
    for most, least, *cpus in [(2, 2, 1, 2), (2, 2, 3), (4, 4, 4, 23), (4, 2, 6), (4, 2, 7)]:
        ask(daemon, most, least, *cpus)
    found = layout(*told(daemon))
    assert found[0] == (
        Share(0, 1, "os", "system"),
        Share(1, 2, GUARANTEED, "free"),
        Share(3, 4, GUARANTEED, "held", ("3",)),
        Share(7, 2, GUARANTEED, "held", ("2",)),
        Share(9, 2, GUARANTEED, "held", ("1",)),
        Share(11, 3, BEST_EFFORT, "held", ("5",)),
        Share(14, 4, BEST_EFFORT, "held", ("4",)),
        Share(18, 2, SHARED, "free"),
    )
    assert [share.use for share in found[1]] == ["free", "held", "free", "free", "unused"]


def test_without_workloads_the_pools_are_free_and_the_rest_is_in_none() -> None:
    configuration = Configuration(guarantee=6, besteffort=0, shared=1)
    found = layout(*told(Daemon(BROADWELL, configuration)))
    assert [(share.pool, share.use, share.count) for share in found[0]] == [
        ("os", "system", 1),
        (GUARANTEED, "free", 6),
        (SHARED, "free", 1),
        ("", "unused", 12),
    ]


@each_seed(50)
def test_as_long_as_no_workload_went_every_way_is_where_it_is_drawn(seed: int) -> None:
    daemon = random_daemon(random.Random(seed), deletes=False)
    caches, stored = told(daemon)
    pools = {item.id: pool_of(item) for item in stored}
    found = layout(caches, stored)
    for cache in caches:
        shares = found[cache.id]
        for key in daemon.workloads:
            own, ways = drawn(shares, key), real(daemon, key, cache.id)
            groups = [share.holders for share in shares if key in share.holders]
            joint = {pools[one] for holders in groups for one in holders}
            assert ways <= own if len(joint) == 2 else ways == own


def test_pools_whose_border_nobody_can_know_are_held_together() -> None:
    daemon = Daemon(BROADWELL, Configuration(guarantee=2, besteffort=3, shared=2))
    for most, least, cpu in [(0, 0, 1), (4, 1, 2), (4, 1, 23)]:
        ask(daemon, most, least, cpu)
    assert layout(*told(daemon))[0][-2:] == (
        Share(3, 5, BEST_EFFORT, "held", ("2", "1")),
        Share(8, 12, "", "unused"),
    )


@each_seed(25)
def test_after_workloads_went_free_ways_and_amounts_are_still_right(seed: int) -> None:
    daemon = random_daemon(random.Random(seed), deletes=True)
    caches, stored = told(daemon)
    found = layout(caches, stored)
    for cache in caches:
        shares = found[cache.id]
        assert [share.first for share in shares] == [
            sum(before.count for before in shares[:number]) for number in range(len(shares))
        ]
        assert sum(share.count for share in shares) == cache.ways
        for pool in (GUARANTEED, BEST_EFFORT, SHARED):
            free = {
                way
                for share in shares
                if (share.pool, share.use) == (pool, "free")
                for way in range(share.first, share.first + share.count)
            }
            assert free == cache.free.get(pool, frozenset())


def test_ways_that_no_workload_accounts_for_are_told(deleted: str = "1") -> None:
    daemon = Daemon(BROADWELL, Configuration())
    ask(daemon, 2, 2, 1)
    ask(daemon, 3, 3, 2)
    del daemon.workloads[deleted]  # as after the loss of the database: the group stays
    unknown = [share for share in layout(*told(daemon))[0] if share.use == "unknown"]
    assert [(share.count, share.pool) for share in unknown] == [(2, GUARANTEED)]
