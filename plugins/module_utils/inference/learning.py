# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power curves learned from recorded samples of the node itself, else of the nodes of its type.

A curve spans only the recorded loads. Above the loads of the node itself it has the slopes of its
type, as far as loads of the type are recorded. It needs enough samples over enough loads, and a
small cross-validated error.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, field

from ..base.boundary import Finding, Subject, guarded
from ..base.context import Result
from ..base.libraries import numpy
from ..scheduling.curve import Curve
from .curves import PowerCurve, SourceCurves
from .regression import Fit, Table, cross_validated, fit, relative_errors
from .samples import BINS, NodeSamples, Samples

if t.TYPE_CHECKING:
    from ..solving.arrays import Floats

MIN_SAMPLES = 12
MIN_BINS = 4
MIN_SPREAD = 0.2
MIN_NODES_OF_TYPE = 2
MIN_SAMPLES_FOR_TYPE = 4
# Largest cross-validated error of a fit.
MAX_ERROR = 0.15
# A node with a larger difference from its type is another machine, or has a wrong meter.
_MAX_APART = 0.25
GRID_POINTS = 21
_FOLDS_OF_NODES = 5
# Additional recorded load of a type that continues the curve of a node.
_NOTABLE_LOAD = 0.05
# Tolerance for a metrics-server that exceeds the capacity.
_MAX_LOAD = 1.05

Axis = t.Literal["metered", "requested"]


@dataclass(frozen=True)
class NodeState:
    """State of a node that needs a curve, with its present air; ``server_type`` is empty if unknown.

    ``axis`` is the kind of load by which the node will be priced.
    """

    name: str
    cpu_capacity: float
    server_type: str = ""
    inlet_celsius: t.Optional[float] = None
    delta_p_pascal: t.Optional[float] = None
    axis: Axis = "metered"


@dataclass(frozen=True)
class Learned:
    """A fit and its evidence; ``error`` is the cross-validated mean absolute relative error."""

    fit: Fit
    samples: int
    nodes: int
    error: float

    def reaches_beyond(self, other: Learned) -> bool:
        """Whether the recorded loads notably exceed those of the other."""
        return self.fit.loads[1] > other.fit.loads[1] + _NOTABLE_LOAD


def learn(
    nodes: t.Sequence[NodeState],
    samples: Samples,
    types: t.Mapping[str, str],
    pod_usage_assumption: float,
) -> SourceCurves:
    """Curves of the nodes; ``types`` are the server types of all nodes with samples.

    Each fit has a separate boundary.
    """
    found = SourceCurves()
    fits = _Fits(samples, types, pod_usage_assumption, found)
    for node in nodes:
        curve = guarded(Subject("Node", node.name), functools.partial(fits.curve, node))
        found.add(node.name, curve)
    return found


@dataclass
class _Fits:
    """Fits by node and by type; each type is fitted once."""

    samples: Samples
    types: t.Mapping[str, str]
    pod_usage_assumption: float
    found: SourceCurves
    of_type: dict[tuple[str, float, Axis], Learned | str] = field(default_factory=dict)

    def curve(self, node: NodeState) -> PowerCurve | str:
        """The curve of a node, or the reason why there is none."""
        own, of_type = self._own(node), self._of_its_type(node)
        if isinstance(own, Learned):
            if isinstance(of_type, Learned) and of_type.reaches_beyond(own):
                return _curve(node, own, "node", of_type)
            return _curve(node, own, "node")
        if isinstance(of_type, Learned):
            return _curve(node, of_type, "type")
        return f"{own}; {of_type}" if of_type else own

    def _of_its_type(self, node: NodeState) -> Learned | str:
        if not node.server_type:
            return ""
        key = (node.server_type, node.cpu_capacity, node.axis)
        if key not in self.of_type:
            self.of_type[key] = self._of_type(*key)
        return self.of_type[key]

    def _own(self, node: NodeState) -> Learned | str:
        given = self.samples.nodes.get(node.name)
        if given is None or given.cpu_capacity != node.cpu_capacity:
            return "no sample of it is recorded"
        table = self._table(given, node.axis)
        lacking = _lacking(table)
        if lacking:
            return f"of the node {lacking}"
        error = float(numpy.abs(cross_validated(table)).mean())
        if error > MAX_ERROR:
            return f"the node's samples contradict each other (error {error:.0%})"
        return Learned(fit(table), len(table), 1, error)

    def _of_type(self, server_type: str, capacity: float, axis: Axis) -> Learned | str:
        tables = {
            name: self._table(one, axis)
            for name, one in self.samples.nodes.items()
            if self.types.get(name) == server_type and one.cpu_capacity == capacity
        }
        kept = self._agreeing(
            {name: table for name, table in tables.items() if len(table) >= MIN_SAMPLES_FOR_TYPE}
        )
        if len(kept) < MIN_NODES_OF_TYPE:
            return f"its type has samples of {len(kept)} nodes, {MIN_NODES_OF_TYPE} must agree"
        lacking = _lacking(Table.joined(kept.values()))
        if lacking:
            return f"of its type {lacking}"
        error = float(numpy.mean([numpy.abs(one).mean() for one in _unseen(kept).values()]))
        if error > MAX_ERROR:
            return f"the samples of its type contradict each other (error {error:.0%})"
        whole = Table.joined(map(_of_equal_weight, kept.values()))
        return Learned(fit(whole), len(whole), len(kept), error)

    def _agreeing(self, tables: dict[str, Table]) -> dict[str, Table]:
        """The tables without machines that differ from the others of the type."""
        kept = dict(tables)
        while len(kept) > MIN_NODES_OF_TYPE:
            unseen = _unseen(kept)
            apart = {name: abs(float(numpy.median(errors))) for name, errors in unseen.items()}
            worst = max(apart.values())
            if worst <= _MAX_APART:
                break
            # The worst ones distort the fits of the others, so they are removed first.
            for name in [one for one in kept if apart[one] >= max(_MAX_APART, worst / 2)]:
                del kept[name]
                self.found.findings.append(_apart(name, self.types[name], apart[name]))
        return kept

    def _table(self, given: NodeSamples, axis: Axis) -> Table:
        """The samples with a load on this axis."""
        scale = 1.0 if axis == "metered" else self.pod_usage_assumption
        loads = [
            sample.metered_cores if axis == "metered" else sample.requested_cores
            for sample in given.samples
        ]
        rows = [
            (scale * load / given.cpu_capacity, sample)
            for load, sample in zip(loads, given.samples)
            if load is not None and scale * load <= _MAX_LOAD * given.cpu_capacity
        ]
        return Table(
            _array(min(load, 1.0) for load, _sample in rows),
            _array(_or_nan(sample.inlet_celsius) for _load, sample in rows),
            _array(_or_nan(sample.delta_p_pascal) for _load, sample in rows),
            _array(sample.power_watts for _load, sample in rows),
            numpy.ones(len(rows)),
        )


def _array(values: t.Iterable[float]) -> Floats:
    return numpy.array(list(values), dtype=float)


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _lacking(table: Table) -> str:
    """Missing evidence of the samples for a curve; empty if complete."""
    if len(table) < MIN_SAMPLES:
        return f"{len(table)} samples are recorded, {MIN_SAMPLES} are needed"
    # A load of 1 is in the last bin.
    bins = len(numpy.unique(numpy.minimum((table.load * BINS).astype(int), BINS - 1)))
    spread = float(table.load.max() - table.load.min())
    if bins < MIN_BINS or spread < MIN_SPREAD:
        low, high = 100 * float(table.load.min()), 100 * float(table.load.max())
        return (
            f"loads from {low:.0f} to {high:.0f} % in {bins} twentieths are recorded; "
            f"{100 * MIN_SPREAD:.0f} points in {MIN_BINS} twentieths are needed"
        )
    return ""


def _of_equal_weight(table: Table) -> Table:
    """Each node has the same weight in its type, independent of its number of samples."""
    weights = table.weights / len(table)
    return Table(table.load, table.inlet_celsius, table.delta_p_pascal, table.watts, weights)


def _apart(name: str, server_type: str, by: float) -> Finding:
    return Finding(
        Subject("samples", name),
        "power_watts",
        f"its power differs by {by:.0%} from that of other nodes of type {server_type}, so it does "
        "not count for the type; check the label and the BMC",
    )


def _unseen(tables: t.Mapping[str, Table]) -> dict[str, Floats]:
    """Relative errors of each node's samples by a fit of at least four fifths of the others."""
    names = sorted(tables)
    folds = min(len(names), _FOLDS_OF_NODES)
    found: dict[str, Floats] = {}
    for fold in range(folds):
        held_out = names[fold::folds]
        seen = [_of_equal_weight(tables[name]) for name in names if name not in set(held_out)]
        of_others = fit(Table.joined(seen))
        found.update({name: relative_errors(of_others, tables[name]) for name in held_out})
    return found


def _curve(node: NodeState, learned: Learned, of: str, beyond: Learned | None = None) -> PowerCurve:
    """The curve in cores of the node.

    Above the loads of ``learned`` the curve has the slopes of ``beyond``.
    """
    found = learned.fit if beyond is None else learned.fit.continued(beyond.fit)
    low, high = found.loads
    load = numpy.linspace(low, high, GRID_POINTS)
    watts = found.watts(load, node.inlet_celsius, node.delta_p_pascal)
    curve = Curve.of(
        [round(float(one) * node.cpu_capacity, 6) for one in load],
        [round(float(one), 3) for one in watts],
    )
    evidence = {
        "of": of,
        **_evidence(learned),
        **({} if beyond is None else {"beyond": {"of": "type", **_evidence(beyond)}}),
    }
    return PowerCurve(curve, evidence={"learned": evidence})


def _evidence(learned: Learned) -> Result:
    return {
        "samples": learned.samples,
        "nodes": learned.nodes,
        "error_percent": round(100 * learned.error, 2),
        "load_percent": [round(100 * load, 1) for load in learned.fit.loads],
    }
