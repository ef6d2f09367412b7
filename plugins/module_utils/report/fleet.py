# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The documents joined to one model of the fleet, which every section reads."""

from __future__ import annotations

import datetime
import functools
import re
import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ..base.boundary import Finding, InvalidField, guarded, read_each, shown, subject_of
from ..base.fields import strict
from ..base.units import format_time, parse_quantity, parse_time
from ..inference.curves import PowerCurve, PowerCurves, curves_of
from ..scheduling.curve import Curve
from .sources import Document, Sources

# observed: nothing was placed; planned: not bound; pending: no reading after binding yet.
State = t.Literal["observed", "planned", "pending", "measured"]

UNKNOWN_TYPE = "unknown type"
UNKNOWN_RACK = "no rack"


@dataclass(frozen=True)
class Node:
    """One node. Unknown power, CPU (cores) and temperature are None.

    ``measured_before`` was read for the plan, ``measured_after`` after its pods had settled,
    ``baseline`` under another scheduler, and ``asleep`` while idle machines were switched off.
    ``expected`` are the quantities that are configured to be read: none without a NodeConfig, and
    None if unknown.
    """

    name: str
    server_type: str
    rack: str
    position: int | None
    cores: float | None
    pods: int
    power_curve: PowerCurve | None
    cpu_before: float | None
    cpu_after: float | None
    predicted_before: float | None
    predicted_after: float | None
    measured_before: float | None
    measured_after: float | None
    baseline: float | None
    asleep: float | None
    reading: Document
    expected: t.Optional[frozenset[str]] = None

    @property
    def figures(self) -> dict[str, float | None]:
        """Cores in use and power draw, by their names in report.json."""
        return {
            "cpu_before": self.cpu_before,
            "cpu_after": self.cpu_after,
            "watts_before": self.predicted_before,
            "watts_after": self.predicted_after,
            "measured_after": self.measured_after,
        }

    @property
    def added_cores(self) -> float:
        """Cores that the pods add; 0 if unknown."""
        if self.cpu_after is None:
            return 0.0
        return self.cpu_after - (self.cpu_before or 0.0)

    @property
    def curve(self) -> Curve | None:
        return None if self.power_curve is None else self.power_curve.curve

    def evidence(self, source: str) -> Document:
        """Evidence of a learned or published curve; empty for another one."""
        return {} if self.power_curve is None else self.power_curve.evidence.get(source, {})


def grouped(nodes: t.Iterable[Node], by: t.Literal["server_type", "rack"]) -> dict[str, list[Node]]:
    """The nodes by this property, in the natural order of its values."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        found.setdefault(getattr(node, by), []).append(node)
    return {name: found[name] for name in sorted(found, key=natural)}


@dataclass(frozen=True)
class Fleet:
    """All nodes by name, the plan of the report, and the state of that plan.

    ``placements`` are those of the plan, or only the bound ones after the plan was bound;
    ``not_bound`` are the others then.
    """

    sources: Sources
    state: State
    nodes: tuple[Node, ...]
    plan: Document | None
    bound_at: datetime.datetime | None
    findings: tuple[Finding, ...] = ()
    # Reasons of nodes without a power curve.
    lacking: t.Mapping[str, str] = field(default_factory=dict)
    placements: tuple[Document, ...] = ()
    not_bound: tuple[Document, ...] = ()

    @property
    def pending_until(self) -> str | None:
        """Time from which readings count as measured after binding."""
        settled_at = _settled_at(self.bound_at, self.sources)
        return None if settled_at is None else format_time(settled_at)


# A BMC has both of its quantities.
_OF_ENDPOINT = {"inlet_temp": ("inlet_celsius", "power_watts"), "delta_p": ("delta_p_pascal",)}


def _settled_at(bound_at: datetime.datetime | None, sources: Sources) -> datetime.datetime | None:
    """Time from which readings count as measured after binding; None beyond the calendar."""
    try:
        settle = datetime.timedelta(seconds=sources.options.settle_seconds)
        return None if bound_at is None else bound_at + settle
    except (OverflowError, ValueError):
        return None


def natural(name: str) -> tuple[t.Any, ...]:
    """Sorting key in natural order: n2 precedes n10."""
    parts = re.split(r"([0-9]+)", name)
    return tuple(
        (len(part.lstrip("0")), part.lstrip("0")) if index % 2 else part
        for index, part in enumerate(parts)
    )


def join(sources: Sources) -> Fleet:
    """Join the documents of one cluster."""
    plan, is_bound = _chosen_plan(sources)
    bindings = sources.bindings if is_bound else None
    bound_at = parse_time(bindings["time"]) if bindings else None
    curves = sources.bound_curves if is_bound else sources.curves
    before = _read_power(sources.bound_readings if is_bound else sources.readings)
    after = _settled_power(sources, bound_at)
    is_measured = bool(after) and 2 * len(after) >= len(before)
    placements, not_bound = _split(plan, bindings)
    nodes = _Joiner(
        plan=plan or {},
        placements=placements,
        not_bound=not_bound,
        curves=curves_of(curves),
        powers={
            "measured_before": before,
            "measured_after": after if is_measured else {},
            "baseline": _read_power(sources.baseline),
            "asleep": _read_power(sources.asleep),
        },
        sources=sources,
    )
    findings: list[Finding] = []
    read = read_each(sources.snapshot["nodes"], "Node", nodes.join, findings, "nodes")
    joined = sorted((node for _given, node in read), key=lambda node: natural(node.name))
    return Fleet(
        sources,
        _state(plan, is_bound, is_measured),
        tuple(joined),
        plan,
        bound_at,
        (*sources.findings, *findings, *nodes.findings),
        (curves or {}).get("lacking") or {},
        placements,
        not_bound,
    )


def _split(
    plan: Document | None, bindings: Document | None
) -> tuple[tuple[Document, ...], tuple[Document, ...]]:
    """The placements that count, and the unbound placements of a bound plan."""
    planned = (plan or {}).get("placements") or ()
    if bindings is None:
        return tuple(planned), ()
    bound = {_place(entry) for entry in bindings["bound"]}
    return (
        tuple(entry for entry in planned if _place(entry) in bound),
        tuple(entry for entry in planned if _place(entry) not in bound),
    )


def _place(entry: Document) -> tuple[str, str, str]:
    return entry["namespace"], entry["pod"], entry["node"]


def _state(plan: Document | None, is_bound: bool, is_measured: bool) -> State:
    if plan is None or not plan["placements"]:
        return "observed"
    if not is_bound:
        return "planned"
    return "measured" if is_measured else "pending"


def _chosen_plan(sources: Sources) -> tuple[Document | None, bool]:
    """The plan of the report, and whether it was bound.

    A newer empty plan does not replace the bound one.
    """
    plan, bound = sources.plan, sources.bound_plan
    if sources.bindings is None or bound is None:
        return plan, False
    if sources.bindings.get("plan_time") != bound["time"]:
        return plan, False
    is_newer = plan is not None and parse_time(plan["time"]) > parse_time(sources.bindings["time"])
    if is_newer and plan is not None and plan["placements"]:
        return plan, False
    return bound, True


def _read_power(document: Document | None) -> dict[str, float]:
    """Watts by node, from BMCs that were read for this document."""
    return {
        node: reading["power_watts"]
        for node, reading in (document or {}).get("readings", {}).items()
        if reading["power_watts"] is not None and source_of(reading, "power_watts") == "read"
    }


def source_of(reading: Document, quantity: str) -> str | None:
    """Source of a value: read, last or fallback; None without a value."""
    if reading.get(quantity) is None:
        return None
    source = reading.get("source")
    if isinstance(source, dict):
        return source.get(quantity)
    return "last" if reading.get("stale") else "read"


def time_of(reading: Document, quantity: str) -> datetime.datetime | None:
    """Time of reading of this value."""
    text = (reading.get("times") or {}).get(quantity) or reading.get("time")
    return None if text is None else parse_time(text)


def _settled_power(sources: Sources, bound_at: datetime.datetime | None) -> dict[str, float]:
    """Watts by node, from readings after the binding and the time to settle."""
    earliest = _settled_at(bound_at, sources)
    if earliest is None or sources.readings is None:
        return {}
    readings = sources.readings["readings"]
    return {
        node: watts
        for node, watts in _read_power(sources.readings).items()
        if (moment := time_of(readings[node], "power_watts")) is not None and moment >= earliest
    }


def _cores(node: Document) -> float | None:
    """Allocatable CPUs of a Node; None if not stated. Raises InvalidField."""
    status = strict.mapping(node.get("status"), "status")
    cpu = strict.mapping(status.get("allocatable"), "status.allocatable").get("cpu")
    return None if cpu is None else float(parse_quantity(cpu, "status.allocatable.cpu"))


def _expected(snapshot: Document) -> dict[str, frozenset[str]] | None:
    """The quantities that endpoints of NodeConfigs give, by node; None if there are none at all."""
    targets = (snapshot.get("targets") or {}).get("nodes")
    if not targets:
        return None
    return {
        target["name"]: frozenset(
            quantity
            for kind, quantities in _OF_ENDPOINT.items()
            if kind in target["endpoints"]
            for quantity in quantities
        )
        for target in targets
    }


class _Joiner:
    """Builder of the node entries."""

    def __init__(
        self,
        plan: Document,
        placements: t.Sequence[Document],
        not_bound: t.Sequence[Document],
        curves: PowerCurves,
        powers: t.Mapping[str, t.Mapping[str, float]],
        sources: Sources,
    ) -> None:
        self.planned = {entry["name"]: entry for entry in plan.get("nodes") or []}
        self.pods = Counter(entry["node"] for entry in placements)
        self.lacking_pods = {entry["node"] for entry in not_bound}
        self.curves, self.options = curves, sources.options
        self.powers = powers
        self.readings = (sources.readings or {}).get("readings") or {}
        self.expected = _expected(sources.snapshot)
        self.findings: list[Finding] = []

    def join(self, given: Document) -> Node:
        metadata = strict.mapping(given.get("metadata"), "metadata")
        name = metadata.get("name")
        if not isinstance(name, str) or not name:
            raise InvalidField("metadata.name", f"{shown(name)} is not a name")
        given_labels = strict.mapping(metadata.get("labels"), "metadata.labels")
        labels = {key: value for key, value in given_labels.items() if isinstance(value, str)}
        cores = guarded(subject_of(given, "Node"), functools.partial(_cores, given))
        if isinstance(cores, Finding):
            self.findings.append(cores)
            cores = None
        racks = [labels[label] for label in self.options.rack_labels if labels.get(label)]
        position = str(labels.get(self.options.position_label, ""))
        plan = self._plan_of(name)
        return Node(
            name=name,
            server_type=labels.get(self.options.type_label) or UNKNOWN_TYPE,
            rack=racks[0] if racks else UNKNOWN_RACK,
            position=int(position) if re.fullmatch("[0-9]{1,9}", position) else None,
            cores=cores,
            pods=self.pods[name],
            power_curve=self.curves.get(name),
            cpu_before=plan.get("cpu_before"),
            cpu_after=plan.get("cpu_after"),
            predicted_before=plan.get("watts_before"),
            predicted_after=plan.get("watts_after"),
            **{field: watts.get(name) for field, watts in self.powers.items()},
            reading=self.readings.get(name) or {},
            expected=None if self.expected is None else self.expected.get(name, frozenset()),
        )

    def _plan_of(self, name: str) -> Document:
        """The plan's entry of a node, if it applies to the bound pods.

        The entry has one sum for all planned pods, so a node with only a part of them has no
        prediction.
        """
        entry = self.planned.get(name) or {}
        if name not in self.lacking_pods:
            return entry
        is_empty = not self.pods[name]
        cpu, watts = (
            entry.get(f"{part}_before") if is_empty else None for part in ("cpu", "watts")
        )
        return {**entry, "cpu_after": cpu, "watts_after": watts}
