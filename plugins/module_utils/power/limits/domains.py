# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power domains of an instance: the nodes of each limit, and nodes that take no more pods.

A node draws at least what its curve predicts for its pods, and at least what its BMC measured: the
curve knows pods that have just been bound, the BMC knows the machine.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field, replace

from ...base.boundary import Finding, Subject
from ...scheduling.feasibility import NO_CURVE
from ...scheduling.model import MICROCORES_PER_CORE, Node
from ...scheduling.node_reader import RACK_LABELS, rack_of
from ..constraints.instance import Instance, PowerDomain
from .options import OTHERS, TYPE_LABEL, Limits, PowerLimits, limit_of

# Figures in reasons are rounded to this share of the limit, so that noise changes no condition.
_ROUNDING = 100
# Share of the limit below which caps may end, and racks that evicted take pods again.
RELEASE = 0.9
_NAMED = 5


@dataclass(frozen=True)
class Limited:
    """Limits with the fresh measurements of nodes: power draw in W and inlet temperature in °C.

    ``evicted`` are the nodes from which pods left recently, with the kind of the limit. ``reduced``
    are the racks whose power is reduced for their inlets.
    """

    limits: PowerLimits
    watts: t.Mapping[str, float] = field(default_factory=dict)
    inlets: t.Mapping[str, float] = field(default_factory=dict)
    type_label: str = TYPE_LABEL
    evicted: t.Mapping[str, str] = field(default_factory=dict)
    reduced: t.Collection[str] = ()


NO_LIMITS = Limited(PowerLimits())


class Place(t.NamedTuple):
    """A node with its rack and type, empty without a label; ``is_ours`` if the run has it."""

    name: str
    rack: str
    type: str
    is_ours: bool = True


class Limit(t.NamedTuple):
    """The nodes of one limit in W; of kind ``inlet`` it is what a rack may draw for its inlet."""

    kind: t.Literal["node", "rack", "fleet", "inlet"]
    name: str
    nodes: tuple[str, ...]
    watts: float

    @property
    def title(self) -> str:
        """Its name in sentences: rack r1, fleet, inlet of rack r1."""
        return title_of(self.kind, self.name)


def title_of(kind: str, name: str) -> str:
    """The name of a limit in sentences."""
    return f"inlet of rack {name}" if kind == "inlet" else f"{kind} {name}".strip()


def limits_on(places: t.Sequence[Place], limits: PowerLimits) -> list[Limit]:
    """The limits of nodes, of racks and of the fleet. A rack has all of its nodes."""
    ours = [place for place in places if place.is_ours]
    found = [
        Limit("node", place.name, (place.name,), watts)
        for place in ours
        for watts in [limit_of(limits.node_watts, place.type)]
        if watts is not None
    ]
    found += [
        Limit("rack", rack, tuple(names), watts)
        for rack, names in sorted(by_rack(places).items())
        for watts in [limit_of(limits.rack_watts, rack)]
        if watts is not None
    ]
    if limits.fleet_watts is not None:
        found.append(Limit("fleet", "", tuple(one.name for one in ours), limits.fleet_watts))
    return found


def by_rack(places: t.Iterable[Place]) -> dict[str, list[str]]:
    """The nodes of each rack."""
    found: dict[str, list[str]] = {}
    for place in places:
        if place.rack:
            found.setdefault(place.rack, []).append(place.name)
    return found


def place_of(name: str, labels: t.Mapping[str, str], type_label: str, is_ours: bool) -> Place:
    """A node by its labels."""
    return Place(name, rack_of(labels), labels.get(type_label, ""), is_ours)


def with_limits(instance: Instance, limited: Limited) -> Instance:
    """The instance with its power domains, and findings about limits that cannot be right."""
    if not limited.limits:
        return instance
    places = [
        place_of(node.name, node.labels, limited.type_label, node.eligible)
        for node in instance.nodes
    ]
    by_name = {node.name: node for node in instance.nodes}
    domains = [_domain(one, by_name, limited) for one in limits_on(places, limited.limits)]
    findings = [*_unknown_names(places, limited), *_below_idle(domains, by_name)]
    return replace(
        instance,
        domains=tuple(domains),
        closed={
            **_closed_by_power(domains, by_name, limited.evicted),
            **_closed_by_heat(places, limited),
        },
        findings=(*instance.findings, *findings),
    )


def is_metered(node: Node) -> bool:
    """Whether the curve tells the power draw; a node that takes no pods draws what is measured."""
    return node.curve is not None and node.ready


def present_watts(domain: PowerDomain, by_name: t.Mapping[str, Node]) -> float:
    """Power draw before anything is placed."""
    return domain.beside_watts + sum(_predicted(by_name[name]) for name in domain.nodes)


def names_domain(message: str, kind: str, name: str) -> bool:
    """Whether the message of a pod without a node names a limit of a rack or the fleet."""
    if kind == "inlet":
        return f"node(s) in rack {name} (inlet " in message
    domain = f"{kind} {name}" if name else f"the {kind}"
    return re.search(rf"node\(s\) in {re.escape(domain)} \((?!inlet )", message) is not None


def above_limit(domain: PowerDomain, now: float) -> str:
    """Why the nodes of a domain above its limit take no pod at all."""
    limit = domain.limit_watts
    if domain.kind == "node":
        return f"node(s) above their power limit of {limit:,.0f} W"
    return f"node(s) in {domain} ({amount(now, limit)} of {limit:,.0f} W)"


def at_limit(domain: PowerDomain, now: float, least: float) -> str:
    """Why a pod that adds at least ``least`` W may not add them to a domain."""
    limit = domain.limit_watts
    if domain.kind == "node":
        # One reason for all nodes of a type.
        return f"node(s) at their power limit of {limit:,.0f} W"
    return (
        f"node(s) in {domain} ({amount(now, limit)} of {limit:,.0f} W; "
        f"this pod adds at least {least:,.0f} W)"
    )


def amount(value: float, limit: float) -> str:
    """Watts in a reason."""
    step = max(1.0, limit / _ROUNDING)
    return f"{round(value / step) * step:,.0f} W"


def _predicted(node: Node) -> float:
    if node.curve is None or not node.ready:
        return 0.0
    return node.curve.watts_at(node.use_microcores / MICROCORES_PER_CORE)


def _domain(limit: Limit, by_name: t.Mapping[str, Node], limited: Limited) -> PowerDomain:
    beside = sum(
        max(0.0, limited.watts.get(name, 0.0) - _predicted(by_name[name])) for name in limit.nodes
    )
    if limit.kind == "inlet":
        raise AssertionError
    return PowerDomain(limit.kind, limit.name, limit.nodes, limit.watts, beside)


def _closed_by_power(
    domains: t.Iterable[PowerDomain], by_name: t.Mapping[str, Node], evicted: t.Mapping[str, str]
) -> dict[str, str]:
    """Nodes in a domain over its limit, and nodes whose power draw cannot be predicted.

    A domain that evicted takes no pod back until it is well below its limit, since the curve may
    have been too low for the pod.
    """
    found: dict[str, str] = {}
    for domain in domains:
        now, limit = present_watts(domain, by_name), domain.limit_watts
        is_tight = now > RELEASE * limit and any(
            evicted.get(name) == domain.kind for name in domain.nodes
        )
        for name in domain.nodes:
            if now > limit:
                found[name] = above_limit(domain, now)
            elif is_tight and domain.kind == "node":
                found[name] = f"node(s) that evicted pods for their power limit of {limit:,.0f} W"
            elif is_tight:
                found[name] = (
                    f"node(s) in {domain} ({amount(now, limit)} of {limit:,.0f} W, and pods were "
                    "evicted there)"
                )
            elif by_name[name].curve is None:
                found.setdefault(name, NO_CURVE)
    return found


def _closed_by_heat(places: t.Iterable[Place], limited: Limited) -> dict[str, str]:
    """Nodes of racks above their inlet limits, or that were above them a while ago."""
    found: dict[str, str] = {}
    for rack, names in by_rack(places).items():
        limit = limit_of(limited.limits.inlet_celsius, rack)
        inlet = max((limited.inlets[one] for one in names if one in limited.inlets), default=None)
        if limit is None:
            continue
        if inlet is not None and inlet > limit:
            reason = f"inlet of {inlet:.0f} °C, limit {limit:g} °C"
        elif rack in limited.reduced:
            reason = f"inlet limit of {limit:g} °C, for which its power is still reduced"
        elif any(limited.evicted.get(name) == "inlet" for name in names):
            reason = f"inlet limit of {limit:g} °C, for which pods were evicted there"
        else:
            continue
        found.update(dict.fromkeys(names, f"node(s) in rack {rack} ({reason})"))
    return found


def _unknown_names(places: t.Sequence[Place], limited: Limited) -> list[Finding]:
    limits, racks = limited.limits, by_rack(places)
    label, types = " or ".join(RACK_LABELS), {place.type for place in places if place.type}
    return [
        *_unknown(limits.rack_watts, racks, "Rack", "rack_watts", label),
        *_unknown(limits.inlet_celsius, racks, "Rack", "inlet_celsius", label),
        *_unknown(limits.node_watts, types, "Type", "node_watts", limited.type_label),
    ]


def _unknown(
    limits: Limits, there: t.Collection[str], kind: str, option: str, label: str
) -> list[Finding]:
    """Findings about names that no node has: a limit of theirs protects nothing."""
    present = sorted(there)
    listed = ", ".join(present[:_NAMED]) + (", …" if len(present) > _NAMED else "")
    found = f"the labels have {listed}" if present else "no node has this label"
    return [
        Finding(
            Subject(kind, name), f"limits.{option}", f"no node has it in its label {label}; {found}"
        )
        for name in sorted(limits.keys() - {OTHERS} - set(there))
    ]


def _below_idle(
    domains: t.Iterable[PowerDomain], by_name: t.Mapping[str, Node]
) -> t.Iterator[Finding]:
    for domain in domains:
        curves = [node.curve for node in map(by_name.__getitem__, domain.nodes) if node.ready]
        idle = sum(curve.watts[0] for curve in curves if curve is not None)
        if idle > domain.limit_watts:
            subject = Subject(domain.kind.capitalize(), domain.name or "-")
            yield Finding(
                subject,
                f"limits.{domain.kind}_watts",
                f"the limit of {domain.limit_watts:,.0f} W is below the {idle:,.0f} W that its "
                f"{'machine draws' if len(domain.nodes) == 1 else 'machines draw'} idle, so that "
                "it takes no pod; raise the limit",
            )
