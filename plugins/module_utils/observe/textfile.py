# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Readings as metrics of Prometheus, for node_exporter's textfile collector."""

from __future__ import annotations

import datetime
import typing as t

from ..base.metrics import Labels, Samples, check_labels, family
from .merged_node import MergedNode


class CacheWays(t.NamedTuple):
    """Free guaranteed ways of one cache: their number and the longest run."""

    node: str
    cache: str
    free: int
    longest_run: int


_GAUGES = {
    "inlet_celsius": ("inlet_temp_celsius", "Inlet air temperature of a node."),
    "delta_p_pascal": ("delta_p_pascal", "Differential pressure across a node's rack."),
    "power_watts": ("node_power_watts", "Power that a whole node draws."),
}


def render(
    readings: t.Iterable[MergedNode],
    now: datetime.datetime,
    labels: Labels,
    cache_ways: t.Sequence[CacheWays] = (),
) -> str:
    """The file of an observation; ``labels`` are added to every sample.

    Metrics of cache ways need ``cache_ways``. Raises InvalidInput for labels that are invalid in
    Prometheus.
    """
    check_labels(labels)
    readings = list(readings)
    return "".join(
        family(name, text, samples, labels)
        for name, text, samples in (
            *_quantities(readings),
            *_freshness(readings, now),
            *(_caches(cache_ways) if cache_ways else ()),
            (
                "wattwise_observation_timestamp_seconds",
                "Unix time at which the nodes were read.",
                [({}, now.timestamp())],
            ),
        )
    )


def _quantities(readings: t.Sequence[MergedNode]) -> t.Iterator[tuple[str, str, Samples]]:
    for quantity, (name, text) in _GAUGES.items():
        samples = [
            ({"node": reading.node}, reading.values[quantity].value)
            for reading in readings
            if quantity in reading.values
        ]
        yield name, text, samples


def _freshness(
    readings: t.Sequence[MergedNode], now: datetime.datetime
) -> t.Iterator[tuple[str, str, Samples]]:
    ages = [
        ({"node": reading.node, "quantity": _GAUGES[quantity][0]}, max(0.0, value.age_seconds(now)))
        for reading in readings
        for quantity, value in reading.values.items()
    ]
    yield "wattwise_reading_age_seconds", "Age of a node's reading.", ages
    failing = [
        ({"node": reading.node, "endpoint": endpoint, "reason": reason}, 1.0)
        for reading in readings
        for endpoint, reason in sorted(reading.failing)
    ]
    text = "1 for each reason for which a node's BMC or pressure server gave no reading."
    yield "wattwise_endpoint_failing", text, failing
    fresh = [({"node": reading.node}, float(reading.is_fresh)) for reading in readings]
    text = "1 for a node whose temperature and pressure were both read just now, else 0."
    yield "wattwise_node_read", text, fresh


def _caches(cache_ways: t.Sequence[CacheWays]) -> t.Iterator[tuple[str, str, Samples]]:
    own = [{"node": one.node, "cache": one.cache} for one in cache_ways]
    free = [float(one.free) for one in cache_ways]
    yield "wattwise_cache_free_ways", "Free guaranteed ways of a cache.", list(zip(own, free))
    longest = [float(one.longest_run) for one in cache_ways]
    text = "Free guaranteed ways of a cache side by side, the most that one workload gets."
    yield "wattwise_cache_longest_free_run_ways", text, list(zip(own, longest))
