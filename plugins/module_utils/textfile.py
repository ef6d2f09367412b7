# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Readings in the Prometheus text format, for node_exporter's textfile collector.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import datetime
import tempfile
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput

Object = t.Mapping[str, t.Any]


class Reading(t.Protocol):
    """What the text format needs of a node's reading."""

    node: str
    values: dict[str, float]
    times: dict[str, datetime.datetime]
    errors: list[Object]


_GAUGES = {
    "inlet_celsius": ("inlet_temp_celsius", "Inlet air temperature of a node."),
    "delta_p_pascal": ("delta_p_pascal", "Differential pressure across a node's rack."),
    "power_watts": ("node_power_watts", "Power that a whole node draws."),
}


def render(readings: t.Iterable[Reading], now: datetime.datetime) -> str:
    """The whole file: one gauge for each quantity, ages and errors."""
    readings = list(readings)
    families: list[str] = []
    for quantity, (name, text) in _GAUGES.items():
        samples = [
            (f'node="{_escaped(reading.node)}"', reading.values[quantity])
            for reading in readings
            if quantity in reading.values
        ]
        families.append(_family(name, text, samples))
    ages = [
        (
            f'node="{_escaped(reading.node)}",quantity="{_GAUGES[quantity][0]}"',
            max(0.0, (now - moment).total_seconds()),
        )
        for reading in readings
        for quantity, moment in reading.times.items()
    ]
    families.append(_family("wattwise_reading_age_seconds", "Age of a node's reading.", ages))
    errors = [
        (f'node="{_escaped(reading.node)}",reason="{_escaped(reason)}"', 1.0)
        for reading in readings
        for reason in sorted({error["reason"] for error in reading.errors})
    ]
    families.append(
        _family(
            "wattwise_endpoint_failing",
            "1 for each reason for which a node has no reading.",
            errors,
        )
    )
    return "".join(families)


def _family(name: str, text: str, samples: t.Sequence[tuple[str, float]]) -> str:
    lines = [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
    lines += [f"{name}{{{labels}}} {value:.10g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def write(path: str, content: str) -> None:
    """Replace the file whole; readable by all, as the exporter runs as a user of its own."""
    destination = Path(path).absolute()
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=destination.parent, prefix=".wattwise-", delete=False, encoding="utf-8"
        ) as file:
            file.write(content)
    except OSError as error:
        raise InvalidInput(
            f"Cannot write the metrics to {path}: {error.strerror}; is the folder there?"
        ) from error
    partial = Path(file.name)
    partial.chmod(0o644)
    partial.replace(destination)
