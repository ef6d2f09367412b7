# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power curves of nodes as values, with source, inputs and evidence; curves.json has their form."""

from __future__ import annotations

import datetime
import functools
import typing as t
from dataclasses import dataclass, field

from ..base.boundary import Finding, Subject, guarded
from ..base.context import Result
from ..base.fields.lenient import member, number
from ..base.json_types import Object
from ..base.units import format_time
from ..nodeconfig.readings import NOTABLE, mapping_of, moment_of
from ..scheduling.curve import Curve, read_curve

# Parts of the document in which a source describes its curve.
_EVIDENCE = ("learned", "published")


@dataclass(frozen=True)
class Inputs:
    """Inputs of a curve. ``exact`` are those that must not change at all.

    A curve stores its inputs as long as it is kept, so that slowly drifting air is compared with
    these, not with the run before.
    """

    exact: t.Mapping[str, t.Any]
    inlet_celsius: float | None
    delta_p_pascal: float | None
    time: datetime.datetime

    def still_hold(self, present: Inputs, keep_seconds: float) -> bool:
        """Whether they are young and near the present inputs."""
        age = (present.time - self.time).total_seconds()
        return (
            0 <= age < keep_seconds
            and self.exact == present.exact
            and _is_near(self.inlet_celsius, present.inlet_celsius, NOTABLE["inlet_celsius"])
            and _is_near(self.delta_p_pascal, present.delta_p_pascal, NOTABLE["delta_p_pascal"])
        )

    def as_document(self) -> Result:
        air = {"inlet_celsius": self.inlet_celsius, "delta_p_pascal": self.delta_p_pascal}
        return {**self.exact, **air, "time": format_time(self.time)}

    @classmethod
    def from_document(cls, given: t.Any) -> Inputs | None:
        """None for anything that is no inputs."""
        moment = moment_of(member(given, "time"))
        if moment is None:
            return None
        exact = {name: value for name, value in given.items() if name not in (*NOTABLE, "time")}
        return cls(
            exact, number(given.get("inlet_celsius")), number(given.get("delta_p_pascal")), moment
        )


def _is_near(before: float | None, value: float | None, threshold: float) -> bool:
    if before is None or value is None:
        return before is value
    return abs(value - before) < threshold


@dataclass(frozen=True)
class PowerCurve:
    """The curve of a node in cores and watts.

    ``evidence`` describes a learned or a published curve. ``predicted`` is the curve of the node's
    power model beside a stated one.
    """

    curve: Curve
    source: str = ""
    inputs: Inputs | None = None
    predicted: PowerCurve | None = None
    evidence: t.Mapping[str, Object] = field(default_factory=dict)

    def as_document(self) -> Result:
        """The entry in curves.json."""
        return {
            "cpu": list(self.curve.cores),
            "watts": list(self.curve.watts),
            **self.evidence,
            **({"source": self.source} if self.source else {}),
            **({"inputs": self.inputs.as_document()} if self.inputs else {}),
            **({"predicted": self.predicted.as_document()} if self.predicted else {}),
        }

    @classmethod
    def from_document(cls, entry: t.Any) -> PowerCurve:
        """Raises InvalidField."""
        predicted = member(entry, "predicted")
        return cls(
            read_curve(entry, "curve"),
            str(entry.get("source") or ""),
            Inputs.from_document(entry.get("inputs")),
            None if predicted is None else cls.from_document(predicted),
            {name: mapping_of(entry[name]) for name in _EVIDENCE if name in entry},
        )


PowerCurves = t.Mapping[str, PowerCurve]


def curves_of(document: Object | None) -> dict[str, PowerCurve]:
    """The readable curves of a curves document by node; none without one."""
    found = {}
    for name, entry in mapping_of(member(document, "curves")).items():
        read = guarded(Subject("Node", name), functools.partial(PowerCurve.from_document, entry))
        if not isinstance(read, Finding):
            found[name] = read
    return found


@dataclass
class SourceCurves:
    """The curves of one source by node, and the reasons of other nodes."""

    curves: dict[str, PowerCurve] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def add(self, name: str, found: PowerCurve | str | Finding) -> None:
        """A curve, the reason of a missing one, or the finding of an unreadable one."""
        if isinstance(found, Finding):
            self.findings.append(found)
        elif isinstance(found, str):
            self.lacking[name] = found
        else:
            self.curves[name] = found
