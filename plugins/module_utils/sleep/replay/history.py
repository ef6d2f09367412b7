# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Demand from Prometheus' history of kube-state-metrics: which pods requested what, and when.

Each day takes four instant queries over subqueries, whose answers have one sample for each pod and
resource, rather than one for each step. A gap in the scrapes of a day ends no pod; a day without
samples is noted. Pods of DaemonSets and static pods belong to their machines, and are left out.
"""

from __future__ import annotations

import functools
import typing as t
import urllib.parse
from dataclasses import dataclass, field

from ...base.argspec import SERVER
from ...base.context import Context, Parameters
from ...base.errors import InvalidInput, TargetError, TargetFailure
from ...base.fields.lenient import member, objects, text
from ...base.json_types import Object
from ...fleet.budget import Budget
from ...fleet.credentials import CredentialReference
from ...fleet.tls import ClientCertificate
from ...fleet.visits import Client
from ...nodeconfig.poll import Job, PollTarget, poll
from .trace import Trace, TracePod, sorted_trace

Options = t.Mapping[str, t.Mapping[str, t.Any]]

PROMETHEUS: Options = {
    "url": {"type": "str", "required": True},
    "labels": {"type": "dict", "default": {}},
    "days": {"type": "int", "default": 7},
    "step_seconds": {"type": "int", "default": 300},
    "timeout": {"type": "float", "default": 60.0},
    **SERVER,
    "client_cert": {"type": "path"},
    "client_key": {"type": "path", "no_log": False},
}
MAX_DAYS, MIN_STEP, MAX_STEP = 90, 15, 3600
_DAY = 86400
# Kinds of owners whose pods come with their node.
_OF_NODES = frozenset({"DaemonSet", "Node"})
_MILLI = 1000
# Beyond any machine; a larger value is a defect of the series.
_MAX_AMOUNT = 1 << 50
_UNITS = {"core": _MILLI, "byte": 1, "integer": 1}
_OF_DAY = 4


# The vector of each query, for each day.
_Days = list[list[list[Object]]]


class Queries(t.NamedTuple):
    """PromQL for the last day before the time of evaluation."""

    requests: str
    first: str
    last: str
    owners: str


@dataclass
class _PodRecord:
    first: float
    last: float
    requests: dict[str, int] = field(default_factory=dict)
    workload: str = ""
    of_node: bool = False


def check_options(options: Parameters) -> None:
    """Raises InvalidInput."""
    for name, least, most in (("days", 1, MAX_DAYS), ("step_seconds", MIN_STEP, MAX_STEP)):
        if not least <= options[name] <= most:
            raise InvalidInput(f"prometheus: {name}: {options[name]} is not from {least} to {most}")


def request_history(
    options: Parameters, context: Context, nodes: t.Collection[str]
) -> tuple[Trace, list[str]]:
    """The trace of the last days on these nodes, and notes about gaps.

    Raises InvalidInput without any pod or with an unusable server.
    """
    check_options(options)
    made = queries(options["labels"], options["step_seconds"])
    now = context.now().timestamp() // options["step_seconds"] * options["step_seconds"]
    ends = [now - _DAY * day for day in reversed(range(options["days"]))]
    certificate = options["client_cert"]
    target = PollTarget(
        "prometheus",
        options["url"],
        "Prometheus",
        "prometheus",
        named=CredentialReference(key=options["credential"] or None),
        tls={
            "ca_path": options["ca_path"],
            "tls_fingerprint": options["tls_fingerprint"],
            "client": ClientCertificate(certificate, options["client_key"])
            if certificate
            else None,
        },
    )
    job: Job[_Days] = Job(target, "Prometheus", functools.partial(_ask, made, ends), [])
    budget = Budget(requests=_OF_DAY * len(ends) + 10, size=512 * 2**20, members=16_000_000)
    shared = {"concurrency": 1, "min_success": 0.0, **options}
    [result] = poll([job], shared, context, budget=budget).results
    if isinstance(result, TargetError):
        raise InvalidInput(f"prometheus: {options['url']}: {result.detail}")
    return _trace(result, ends, options["step_seconds"], nodes)


def queries(labels: t.Mapping[str, t.Any], step_seconds: int) -> Queries:
    """The queries. Raises InvalidInput for labels that Prometheus does not know."""
    given = "".join(f',{name}="{_quoted(name, value)}"' for name, value in sorted(labels.items()))
    pod = "namespace,pod,uid"
    window = f"[1d:{step_seconds}s]"
    phase = f'kube_pod_status_phase{{phase=~"Pending|Running"{given}}}'
    there = f"max by ({pod}) ({phase}) > 0"
    # A scrape by two jobs must not double a request.
    once = f"{pod},node,container,resource,unit"
    requests = (
        f"sum by ({pod},node,resource,unit) (max by ({once}) "
        f'(kube_pod_container_resource_requests{{node!=""{given}}}))'
    )
    return Queries(
        requests=f"max_over_time(({requests} and on ({pod}) ({there})){window})",
        first=f"min_over_time(timestamp({there}){window})",
        last=f"max_over_time(timestamp({there}){window})",
        owners=(
            f"max by ({pod},created_by_kind,created_by_name) "
            f'(max_over_time(kube_pod_info{{uid!=""{given}}}[1d]))'
        ),
    )


def _quoted(name: str, value: t.Any) -> str:
    if not (name.isidentifier() and name.isascii()) or not isinstance(value, str):
        raise InvalidInput(
            f"prometheus: labels: {name[:40]!r} is not a label with a text; give a name of "
            "letters, digits and underscores"
        )
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


async def _ask(
    made: Queries, ends: t.Sequence[float], client: Client, _target: PollTarget
) -> _Days:
    days: _Days = []
    for end in ends:
        days.append([await _vector(client, query, end) for query in made])
    return days


async def _vector(client: Client, query: str, time: float) -> list[Object]:
    path = f"/api/v1/query?{urllib.parse.urlencode({'query': query, 'time': f'{time:.0f}'})}"
    body = (await client.get_json(path)).body
    result = member(body, "data", "result")
    if member(body, "status") != "success" or not isinstance(result, list):
        told = text(member(body, "error"), 200)
        raise TargetFailure(
            "malformed",
            f"it does not answer a query with a vector{f' ({told})' if told else ''}; check that "
            "the URL is Prometheus'",
        )
    return objects(result)


def _trace(
    days: _Days,
    ends: t.Sequence[float],
    step_seconds: int,
    nodes: t.Collection[str],
) -> tuple[Trace, list[str]]:
    pods: dict[str, _PodRecord] = {}
    elsewhere: set[str] = set()
    empty = 0
    for requests, first, last, owners in days:
        empty += not first
        lasts = {_uid(series): _value(series) for series in last}
        for series in first:
            _note_times(pods, series, lasts)
        for series in requests:
            _note_request(pods, elsewhere, series, nodes)
        for series in owners:
            _note_owner(pods, series)
    start = ends[0] - _DAY
    kept = [
        TracePod(
            max(0.0, record.first - start),
            min(record.last + step_seconds, ends[-1]) - start,
            tuple(sorted(record.requests.items())),
            workload=record.workload,
        )
        for uid, record in pods.items()
        if record.requests and not record.of_node and uid not in elsewhere
    ]
    if not kept:
        raise InvalidInput(
            "prometheus: it has no requests of pods on these nodes "
            "(kube_pod_container_resource_requests); let it scrape kube-state-metrics"
        )
    notes = []
    if empty:
        notes.append(f"Prometheus has no samples on {empty} of {len(days)} days.")
    return sorted_trace(kept, start), notes


def _note_times(
    pods: dict[str, _PodRecord], series: Object, lasts: t.Mapping[str, float | None]
) -> None:
    uid, first = _uid(series), _value(series)
    last = lasts.get(uid)
    if not uid or first is None or last is None or last < first:
        return
    record = pods.setdefault(uid, _PodRecord(first, last))
    record.first, record.last = min(record.first, first), max(record.last, last)


def _note_request(
    pods: dict[str, _PodRecord], elsewhere: set[str], series: Object, nodes: t.Collection[str]
) -> None:
    """The largest request of each resource; a pod of another node is ``elsewhere``."""
    uid, value = _uid(series), _value(series)
    resource, unit = (text(member(series, "metric", name), 300) for name in ("resource", "unit"))
    record = pods.get(uid)
    if record is None or value is None or not resource:
        return
    if text(member(series, "metric", "node"), 300) not in nodes:
        elsewhere.add(uid)
        return
    amount = round(value * (_MILLI if resource == "cpu" else _UNITS.get(unit, 1)))
    if 0 < amount <= _MAX_AMOUNT:
        record.requests[resource] = max(amount, record.requests.get(resource, 0))


def _note_owner(pods: dict[str, _PodRecord], series: Object) -> None:
    record = pods.get(_uid(series))
    if record is None:
        return
    kind, name = (
        text(member(series, "metric", label), 300)
        for label in ("created_by_kind", "created_by_name")
    )
    record.of_node |= kind in _OF_NODES
    record.workload = record.workload or name


def _uid(series: Object) -> str:
    return text(member(series, "metric", "uid"), 100)


def _value(series: Object) -> float | None:
    pair = member(series, "value")
    try:
        value = float(pair[1]) if isinstance(pair, list) and len(pair) == 2 else None
    except (TypeError, ValueError):
        return None
    return value if value is not None and 0 <= value < float(_MAX_AMOUNT) else None
