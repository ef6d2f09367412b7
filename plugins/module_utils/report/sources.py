# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The existing documents of one run folder."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from ..base import documents
from ..base.boundary import Finding, Subject, guarded
from ..base.errors import InvalidInput
from ..base.fields import strict
from ..base.units import parse_time
from .numbers import finite, is_number

Document = t.Mapping[str, t.Any]

# Field of Sources → (file in the run folder, kind of document).
_FILES: dict[str, tuple[str, documents.DocumentKind]] = {
    "bound_snapshot": ("bound/snapshot.json", "snapshot"),
    "snapshot": ("snapshot.json", "snapshot"),
    "readings": ("readings.json", "readings"),
    "curves": ("curves.json", "curves"),
    "plan": ("plan.json", "plan"),
    "bindings": ("bound/bindings.json", "bindings"),
    "bound_plan": ("bound/plan.json", "plan"),
    "bound_readings": ("bound/readings.json", "readings"),
    "bound_curves": ("bound/curves.json", "curves"),
    "baseline": ("baseline.json", "readings"),
    "asleep": ("asleep.json", "readings"),
    "rmd": ("rmd.json", "rmd"),
    "devices": ("devices.json", "snapshot"),
    "metering": ("metering.json", "metering"),
    "hosts": ("hosts.json", "hosts"),
    "sleep": ("sleep.json", "sleep"),
    "limits": ("limits.json", "limits"),
}


@dataclass(frozen=True)
class Options:
    """Options of a report.

    ``settle_seconds`` is the time between the last binding and the first reading that counts as
    measured after it. The first of ``rack_labels`` on a node names its rack. ``price_per_kwh`` is
    None without a price.
    """

    title: str = ""
    settle_seconds: float = 60.0
    type_label: str = "node.kubernetes.io/instance-type"
    rack_labels: t.Sequence[str] = ("wattwise.github.io/rack", "topology.kubernetes.io/zone")
    position_label: str = "wattwise.github.io/rack-unit"
    price_per_kwh: t.Optional[float] = None
    currency: str = ""


@dataclass(frozen=True)
class Sources:
    """Documents of a report; None for missing ones.

    ``snapshot`` to ``plan`` are from the last run. ``bindings`` and ``bound_…`` are from the last
    run with bindings; ``bound_snapshot`` has only names and nodes of pods. ``baseline`` has the
    readings under another scheduler, ``asleep`` those with idle machines switched off, ``rmd`` the
    state of the RMD daemons, ``devices`` a snapshot with device objects, ``metering`` the power
    draw of pods, ``hosts`` the bare-metal hosts of a cluster, ``sleep`` the last decision about
    machines that sleep, ``limits`` the last judgement of limits of power and heat.
    """

    snapshot: Document
    readings: Document | None = None
    curves: Document | None = None
    plan: Document | None = None
    bindings: Document | None = None
    bound_plan: Document | None = None
    bound_snapshot: Document | None = None
    bound_readings: Document | None = None
    bound_curves: Document | None = None
    baseline: Document | None = None
    asleep: Document | None = None
    rmd: Document | None = None
    devices: Document | None = None
    metering: Document | None = None
    hosts: Document | None = None
    sleep: Document | None = None
    limits: Document | None = None
    options: Options = field(default_factory=Options)
    findings: tuple[Finding, ...] = ()

    @property
    def device_document(self) -> Document | None:
        """The newest snapshot with device objects."""
        given = [one for one in (self.snapshot, self.devices) if (one or {}).get("device_objects")]
        return max(given, key=lambda one: parse_time((one or {})["time"]), default=None)

    @property
    def time(self) -> str:
        """Time of the newest document, which is the time of the report."""
        given = [getattr(self, name) for name in _FILES]
        times = [document["time"] for document in given if document is not None]
        return str(max(times, key=parse_time))


def read(folder: str, options: Options) -> Sources:
    """Read and check the documents in a run folder.

    Raises InvalidInput for a missing snapshot or an invalid document.
    """
    path = Path(folder).expanduser()
    if not (path / "snapshot.json").exists():
        raise InvalidInput(
            f"There is nothing to report in {path}: it holds no snapshot.json; run "
            "wattwise.kube.observe or wattwise.kube.place first, or name their run folder"
        )
    findings: list[Finding] = []
    found = {
        name: _read(name, str(path / file), kind, findings)
        for name, (file, kind) in _FILES.items()
        if (path / file).exists()
    }
    return Sources(**found, options=options, findings=tuple(dict.fromkeys(findings)))


def _read(name: str, path: str, kind: documents.DocumentKind, findings: list[Finding]) -> Document:
    """A document, reduced to the fields in use if large; invalid entries become findings."""
    document = documents.load(path, kind, _shortened if kind == "snapshot" else None)
    if kind != "snapshot":
        document = finite(document)
    if kind == "readings":
        readings = {
            node: _readable(node, reading, findings)
            for node, reading in document["readings"].items()
        }
        return {**document, "readings": readings}
    if kind == "plan":
        nodes = [_planned(entry) for entry in document.get("nodes") or []]
        return {**document, "nodes": [entry for entry in nodes if entry is not None]}
    if name == "bound_snapshot":
        return {"time": document["time"], "pods": document.get("pods") or []}
    if name == "devices":
        return {key: document.get(key) for key in ("time", "nodes", "device_objects")}
    return document


def _readable(node: str, reading: Document, findings: list[Finding]) -> Document:
    """A reading without invalid times."""
    subject = Subject("Reading", node)
    times = guarded(subject, functools.partial(strict.mapping, reading.get("times"), "times"))
    if isinstance(times, Finding):
        findings.append(times)
        times = {}
    told = {**times, **({"": reading["time"]} if reading.get("time") else {})}
    usable = {}
    for quantity, text in told.items():
        moment = guarded(subject, functools.partial(strict.time, text, f"times.{quantity}"))
        if isinstance(moment, Finding):
            findings.append(moment)
        else:
            usable[quantity] = text
    return {**reading, "time": usable.pop("", None), "times": usable}


def _planned(entry: Document) -> Document | None:
    """Entry of a node in a plan, with numbers only; None without a name."""
    if not isinstance(entry.get("name"), str):
        return None
    return {
        key: value if key == "name" or is_number(value) else None for key, value in entry.items()
    }


def _shortened(value: dict[str, t.Any]) -> Document:
    """Name and node of a pod, because there are thousands; other objects unchanged."""
    if value.get("kind") != "Pod" or "metadata" not in value:
        return value
    metadata, spec = value["metadata"], value.get("spec")
    return {
        "metadata": {
            key: _name(metadata.get(key) if isinstance(metadata, dict) else None)
            for key in ("namespace", "name")
        },
        "spec": {"nodeName": _name(spec.get("nodeName") if isinstance(spec, dict) else None)},
    }


def _name(value: t.Any) -> str:
    return value if isinstance(value, str) else ""
