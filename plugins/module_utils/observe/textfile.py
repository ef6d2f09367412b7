# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Readings in the Prometheus text format, for node_exporter's textfile collector.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import datetime
import math
import re
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import whole_files
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput

Labels = t.Mapping[str, str]
Samples = t.Iterable[tuple[Labels, float]]


class Reading(t.Protocol):
    """What the text format needs of a node's reading.

    ``failing`` are pairs of what was asked, ``bmc`` or ``pressure``, and the reason of its failure.
    """

    node: str
    values: dict[str, float]
    times: dict[str, datetime.datetime]
    failing: set[tuple[str, str]]

    @property
    def is_fresh(self) -> bool: ...


class CacheWays(t.NamedTuple):
    """Guaranteed ways of one cache that are free: all of them, and the longest run."""

    node: str
    cache: str
    free: int
    longest_run: int


_GAUGES = {
    "inlet_celsius": ("inlet_temp_celsius", "Inlet air temperature of a node."),
    "delta_p_pascal": ("delta_p_pascal", "Differential pressure across a node's rack."),
    "power_watts": ("node_power_watts", "Power that a whole node draws."),
}
_OWN_LABELS = frozenset({"node", "quantity", "endpoint", "reason", "cache"})
_LABEL_NAME = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


def render(
    readings: t.Iterable[Reading],
    now: datetime.datetime,
    labels: Labels,
    cache_ways: t.Sequence[CacheWays] = (),
) -> str:
    """The file of an observation; every sample bears ``labels`` beside those of its own.

    A cluster without ``cache_ways`` has no metrics of them. Raises InvalidInput for labels that
    Prometheus does not take.
    """
    _check(labels)
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


def render_predicted(expected_watts: t.Mapping[str, float], labels: Labels) -> str:
    """The file of a prediction: watts by node at its present CPU use.

    It is another file than that of the readings, because others write it, and at other times.
    Raises InvalidInput for labels that Prometheus does not take.
    """
    _check(labels)
    text = "Power that the model of a node predicts at its present CPU use."
    samples = [({"node": node}, watts) for node, watts in sorted(expected_watts.items())]
    return family("wattwise_predicted_power_watts", text, samples, labels)


def _quantities(readings: t.Sequence[Reading]) -> t.Iterator[tuple[str, str, Samples]]:
    for quantity, (name, text) in _GAUGES.items():
        samples = [
            ({"node": reading.node}, reading.values[quantity])
            for reading in readings
            if quantity in reading.values
        ]
        yield name, text, samples


def _freshness(
    readings: t.Sequence[Reading], now: datetime.datetime
) -> t.Iterator[tuple[str, str, Samples]]:
    ages = [
        (
            {"node": reading.node, "quantity": _GAUGES[quantity][0]},
            max(0.0, (now - moment).total_seconds()),
        )
        for reading in readings
        for quantity, moment in reading.times.items()
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


def family(name: str, text: str, samples: Samples, labels: Labels) -> str:
    """A metric with its samples, which bear ``labels`` beside those of their own."""
    lines = [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
    for own, value in samples:
        if not math.isfinite(value):
            continue
        pairs = ",".join(f'{key}="{_escaped(val)}"' for key, val in {**own, **labels}.items())
        lines.append(f"{name}{{{pairs}}} {value:.14g}" if pairs else f"{name} {value:.14g}")
    return "\n".join(lines) + "\n"


def _check(labels: Labels) -> None:
    for name, value in labels.items():
        if name in _OWN_LABELS or not _LABEL_NAME.fullmatch(name):
            raise InvalidInput(
                f"textfile_labels: {name!r} cannot be a label; write letters, digits and "
                f"underscores, and none of {', '.join(sorted(_OWN_LABELS))}"
            )
        if not isinstance(value, str):
            raise InvalidInput(f"textfile_labels: the value of {name} must be a text")


def _escaped(text: str) -> str:
    readable = text.encode("utf-8", "replace").decode("utf-8")
    return readable.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def write(path: str, content: str) -> None:
    """Replace the file whole; readable by all, as the exporter runs as a user of its own."""
    destination = Path(path).absolute()
    try:
        whole_files.sweep(destination.parent)
        whole_files.replace(destination, content.encode(), mode=0o644)
    except OSError as error:
        raise InvalidInput(
            f"Cannot write the metrics to {path}: {error.strerror}; is the folder there, may this "
            "user write in it, and is no folder of that name in it?"
        ) from error
