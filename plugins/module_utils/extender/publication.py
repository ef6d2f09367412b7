# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The document that a run publishes for extenders: curves, rules, limits, and the plan's intentions.

It is in a ConfigMap, because an extender has a separate pod and account.
"""

from __future__ import annotations

import base64
import functools
import math
import typing as t
from dataclasses import dataclass, field
from decimal import Decimal

from ..base import compressed
from ..base.boundary import Finding, InvalidField, Subject, guarded
from ..base.errors import InvalidInput
from ..base.fields import lenient
from ..base.fields.strict import mapping, number, required_text, text, texts
from ..base.json_types import Object
from ..base.units import format_time, parse_time
from ..power.constraints.instance import PowerDomain, Rules
from ..scheduling.curve import Curve, read_curve
from ..scheduling.plan import Plan

if t.TYPE_CHECKING:
    import datetime

    from ..scheduling.node_reader import UsageSource

PodKey = tuple[str, str]

LABEL = "wattwise.github.io/extender"
KEY = "publication.json.gz"
RULES = ("usage_source", "pod_usage_assumption", "allow_power_off", "standby_watts")
# Lifetime of intentions after the last run that had them.
INTENTIONS_SECONDS = 900.0
REPEAT_SECONDS = 300.0
_SOURCES = ("auto", "metrics", "requests")
_KINDS = ("node", "rack", "fleet")
# Power draw beside curves is rounded up to this share of its limit, so that noise writes nothing.
_NOISE = 0.01
_MAX_REASON = 200
_MAX_WATTS = 1e9


class Planned(t.NamedTuple):
    """The planned node of a waiting pod; an empty ``uid`` is unknown."""

    node: str
    uid: str


@dataclass(frozen=True)
class Publication:
    """A run's curves by node, its rules, and its plan's intentions until ``intends_until``.

    ``planned`` are the nodes of waiting pods. ``emptied`` are nodes whose running pods the plan
    moves away, with the saved power. ``domains`` are the limits in W, and ``closed`` the nodes that
    a limit closes to all pods, with the reasons. ``not_ready`` are nodes in domains without power by
    their curves: the run measured it beside them.
    """

    rules: Rules
    usage_source: UsageSource
    assumption: Decimal
    curves: t.Mapping[str, Curve]
    planned: t.Mapping[PodKey, Planned] = field(default_factory=dict)
    emptied: t.Mapping[str, float] = field(default_factory=dict)
    intends_until: float = 0.0
    domains: tuple[PowerDomain, ...] = ()
    closed: t.Mapping[str, str] = field(default_factory=dict)
    not_ready: frozenset[str] = frozenset()


def publication_of(
    curves: t.Mapping[str, Curve], plan: Plan, options: Object, now: datetime.datetime
) -> dict[str, t.Any]:
    """The document of a run, from its curves by node, its plan and its options."""
    not_ready = {name for one in plan.limits or () for name in one["not_ready"]}
    return {
        "time": format_time(now),
        "rules": {name: options[name] for name in RULES},
        "curves": {
            name: {"cpu": list(curve.cores), "watts": list(curve.watts)}
            for name, curve in curves.items()
        },
        "placements": [{**one.names, "uid": one.uid or ""} for one in plan.placements],
        # The gain of each step by the nodes that it empties, in equal shares.
        "emptied": {
            node: step.gain_watts / len(step.asleep)
            for step in plan.steps or ()
            for node in step.asleep
        },
        **({"limits": [_limit(one) for one in plan.limits]} if plan.limits else {}),
        **({"not_ready": sorted(not_ready)} if not_ready else {}),
        **({"closed": dict(plan.closed)} if plan.closed else {}),
    }


def _limit(one: Object) -> dict[str, t.Any]:
    step = one["limit_watts"] * _NOISE
    return {
        **{name: one[name] for name in ("kind", "name", "nodes", "limit_watts")},
        "beside_watts": round(math.ceil(one["beside_watts"] / step) * step, 3),
    }


def steady(body: Object, published: Object | None) -> Object:
    """The document with the published power beside curves where it is higher by noise.

    Each limit keeps its own, so that a write for one of them begins no other one's noise anew.
    """
    before = {_title(one): one for one in lenient.objects((published or {}).get("limits"))}
    if not before or "limits" not in body:
        return body
    return {**body, "limits": [_steady(one, before.get(_title(one))) for one in body["limits"]]}


def _title(limit: Object) -> tuple[str, str]:
    return lenient.text(limit.get("kind")), lenient.text(limit.get("name"))


def _steady(now: Object, before: Object | None) -> Object:
    """The limit with its published power, if that counts a step more than now at most."""
    beside = lenient.number((before or {}).get("beside_watts"))
    if beside is None or not 0 <= beside - now["beside_watts"] <= 1.5 * _NOISE * now["limit_watts"]:
        return now
    return {**now, "beside_watts": beside}


def is_due(body: Object, published: Object | None) -> bool:
    """Whether the document has to replace the published one.

    A document with intentions is repeated periodically, because intentions expire. So are the
    reasons of closed nodes, which have figures.
    """
    if published is None or _lasting(body) != _lasting(published):
        return True
    try:
        age = parse_time(body["time"]) - parse_time(text(published.get("time"), "time"))
    except InvalidInput:
        return True
    same_reasons = body.get("closed") == published.get("closed")
    if same_reasons and not body["placements"] and not body["emptied"]:
        return False
    return age.total_seconds() >= REPEAT_SECONDS


def _lasting(body: Object) -> Object:
    """The parts that differ only for news: closed nodes without their reasons, and no time."""
    closed = body.get("closed")
    return {**body, "time": "", "closed": sorted(closed) if isinstance(closed, dict) else None}


def packed(body: Object) -> dict[str, str]:
    """``binaryData`` of the ConfigMap."""
    return {KEY: base64.b64encode(compressed.pack(body)).decode()}


def unpacked(config_map: Object) -> dict[str, t.Any]:
    """The document in a ConfigMap. Raises InvalidField."""
    path = f"binaryData.{KEY}"
    given = mapping(config_map.get("binaryData"), "binaryData").get(KEY)
    try:
        return compressed.unpack(base64.b64decode(required_text(given, path), validate=True))
    except ValueError as error:
        raise InvalidField(path, f"it cannot be read ({error})") from error


def read(config_map: Object) -> Publication:
    """The publication in a ConfigMap, without nodes and pods that cannot be read.

    Raises InvalidField if none of it can be read.
    """
    body = unpacked(config_map)
    rules = mapping(body.get("rules"), "rules")
    source = rules.get("usage_source")
    if source not in _SOURCES:
        raise InvalidField("rules.usage_source", f"write {', '.join(_SOURCES)}")
    assumption = number(rules.get("pod_usage_assumption"), "rules.pod_usage_assumption")
    if not 0 <= assumption <= 1:
        raise InvalidField("rules.pod_usage_assumption", "it must be from 0 to 1")
    time = parse_time(required_text(body.get("time"), "time"), "time")
    return Publication(
        rules=Rules(
            allow_power_off=rules.get("allow_power_off") is True,
            standby_watts=number(rules.get("standby_watts"), "rules.standby_watts"),
        ),
        usage_source=source,
        assumption=Decimal(str(assumption)),
        curves=_each(mapping(body.get("curves"), "curves"), lambda one: read_curve(one, "curve")),
        planned=_planned(body.get("placements")),
        emptied=_each(
            mapping(body.get("emptied"), "emptied"), lambda watts: max(0.0, number(watts, "watts"))
        ),
        intends_until=time.timestamp() + INTENTIONS_SECONDS,
        domains=_domains(body.get("limits")),
        closed=_each(mapping(body.get("closed"), "closed"), _read_reason),
        not_ready=frozenset(texts(body.get("not_ready"), "not_ready")),
    )


T = t.TypeVar("T")


def _each(given: t.Mapping[str, t.Any], read_one: t.Callable[[t.Any], T]) -> dict[str, T]:
    """The readable values."""
    found = {}
    for name, value in given.items():
        one = guarded(Subject("Node", name), functools.partial(read_one, value))
        if not isinstance(one, Finding):
            found[name] = one
    return found


def _read_reason(given: t.Any) -> str:
    return lenient.text(required_text(given, "reason"), _MAX_REASON)


def _domains(given: t.Any) -> tuple[PowerDomain, ...]:
    """The readable limits."""
    found = (
        guarded(Subject("Limit", "-"), functools.partial(_domain, one))
        for one in lenient.objects(given)
    )
    return tuple(one for one in found if not isinstance(one, Finding))


def _domain(one: Object) -> PowerDomain:
    kind, name = one.get("kind"), lenient.text(one.get("name"))
    if kind not in _KINDS:
        raise InvalidField("kind", f"write {', '.join(_KINDS)}")
    limit, beside = (number(one.get(part), part) for part in ("limit_watts", "beside_watts"))
    if not (0 < limit <= _MAX_WATTS and 0 <= beside <= _MAX_WATTS):
        raise InvalidField("limit_watts", f"a power is from 0 to {_MAX_WATTS:g} W")
    nodes = tuple(dict.fromkeys(texts(one.get("nodes"), "nodes")))
    return PowerDomain(kind, name, nodes, limit, beside)


def _planned(given: t.Any) -> dict[PodKey, Planned]:
    found = {}
    for one in lenient.objects(given):
        namespace, pod, node = (one.get(name) for name in ("namespace", "pod", "node"))
        uid = one.get("uid")
        if isinstance(namespace, str) and isinstance(pod, str) and isinstance(node, str):
            found[namespace, pod] = Planned(node, uid if isinstance(uid, str) else "")
    return found
