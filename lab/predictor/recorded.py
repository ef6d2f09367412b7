# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recordings of real machines, as samples to train a power model with.

Standard library only: recording needs no predictor environment.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.physics import cpu_quantity

TYPE_LABEL = "node.kubernetes.io/instance-type"
JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """One machine at one moment; the fields are the columns of the CSV file."""

    time: str
    node: str
    server_type: str
    cpu_percent: float
    inlet_celsius: float
    delta_p_pascal: float
    power_watts: float


COLUMNS = tuple(item.name for item in fields(Sample))


def record(documents: Path, path: Path) -> int:
    """Append the samples in the documents of a run folder to the CSV file; return their number.

    A machine counts if its use, temperature, pressure and power were all freshly read and its type
    is known. Samples that the file already has are left out. Raises LabError.
    """
    snapshot, readings = (_document(documents, kind) for kind in ("snapshot", "readings"))
    known = {(sample.time, sample.node) for sample in read(path)} if path.exists() else set()
    found = [item for item in _samples(snapshot, readings) if (item.time, item.node) not in known]
    exists = path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if not exists:
            writer.writerow(COLUMNS)
        writer.writerows(astuple(sample) for sample in found)
    return len(found)


def read(path: Path) -> list[Sample]:
    """The samples of a CSV file. Raises LabError if the file has another format."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            if tuple(rows.fieldnames or ()) != COLUMNS:
                raise LabError(f"{path} has other columns; its first line must be {_header()}.")
            return [_sample(row, f"{path}, line {rows.line_num}") for row in rows]
    except OSError as error:
        raise LabError(f"Cannot read the samples in {path}: {error.strerror}.") from error


def _header() -> str:
    return ",".join(COLUMNS)


def _sample(row: Mapping[str, str], where: str) -> Sample:
    try:
        time, node, server_type = (row[name] for name in COLUMNS[:3])
        cpu, inlet, delta_p, power = (float(row[name]) for name in COLUMNS[3:])
    except (TypeError, ValueError) as error:
        raise LabError(f"{where}: {error}; correct the line or remove it.") from error
    return Sample(time, node, server_type, cpu, inlet, delta_p, power)


def _document(folder: Path, kind: str) -> JsonObject:
    path = folder / f"{kind}.json"
    try:
        document: JsonObject = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LabError(
            f"Cannot read {path} ({error}); name the folder of a cluster, where the observe role"
            " writes its documents."
        ) from error
    return document


def _samples(snapshot: JsonObject, readings: JsonObject) -> Iterator[Sample]:
    use = {
        item["metadata"]["name"]: cpu_quantity(item["usage"]["cpu"])
        for item in snapshot.get("node_metrics") or []
    }
    for node in snapshot["nodes"]:
        name = node["metadata"]["name"]
        reading = readings["readings"].get(name) or {}
        server_type = (node["metadata"].get("labels") or {}).get(TYPE_LABEL)
        capacity = cpu_quantity((node["status"].get("capacity") or {}).get("cpu", "0"))
        values = [reading[key] for key in COLUMNS[4:] if reading.get(key) is not None]
        if name in use and server_type and capacity and len(values) == 3 and _is_new(reading):
            percent = round(100 * use[name] / capacity, 3)
            inlet, delta_p, power = map(float, values)
            yield Sample(reading["time"], name, server_type, percent, inlet, delta_p, power)


def _is_new(reading: JsonObject) -> bool:
    return bool(reading.get("time")) and not reading.get("stale")
