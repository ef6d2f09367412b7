# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Queries to Prometheus and to each Kepler, with amounts of power or energy by node as answers.

A Prometheus answers for all nodes at once, so a defect there concerns single series. A defect in
the metrics of one Kepler concerns the whole node.
"""

from __future__ import annotations

import functools
import ipaddress
import typing as t
import urllib.parse
from dataclasses import dataclass, field

from ...base.context import Context, Parameters
from ...base.errors import TargetError, TargetFailure
from ...base.fields.lenient import member, objects, text
from ...base.json_types import Object
from ...base.texts import shown
from ...fleet.budget import Budget
from ...fleet.credentials import CredentialReference
from ...fleet.tls import ClientCertificate
from ...fleet.urls import redacted
from ...fleet.visits import Client
from ...kube.client import Kube
from ...kube.resource.conditions import has_condition
from ...kube.source import without_bulk
from ...nodeconfig.poll import Job, PollTarget, poll
from . import kepler
from .kepler import Amounts, PodName
from .queries import Queries, queries

PROMETHEUS, KEPLER = "Prometheus", "Kepler"
# Kepler lists every process; a thousand of them take about 1 MB.
_OF_KEPLER = Budget(requests=10, size=8 * 2**20)
# Two series for each of 100,000 pods.
_OF_PROMETHEUS = Budget(requests=20, size=128 * 2**20, members=4_000_000)
# Largest number of answers in memory at once.
_MAX_AT_ONCE = 16
_MAX_ERRORS_OF_SERIES = 100


@dataclass
class Answers:
    """Amounts by node, and errors by node or server.

    ``joules`` are the energy of pods in the last ``covered_seconds``, by node, only from
    Prometheus.
    """

    nodes: dict[str, Amounts] = field(default_factory=dict)
    errors: list[TargetError] = field(default_factory=list)
    joules: dict[str, dict[PodName, float]] = field(default_factory=dict)
    covered_seconds: float = 0.0


def ask(
    options: Parameters,
    context: Context,
    kube: Kube,
    nodes: t.Collection[str] | None = None,
    *,
    with_energy: bool = True,
) -> Answers:
    """Query the source of the options about all nodes, or about ``nodes``.

    Only Keplers of these are queried, and defects of other nodes' series are ignored. Prometheus is
    queried for the joules of the last period only ``with_energy``. Raises WattwiseError if no query
    is possible.
    """
    if options["source"] == "prometheus":
        return _ask_prometheus(options, context, kube, nodes, with_energy)
    return _ask_keplers(options, context, kube, nodes)


def _polled(
    jobs: t.Sequence[Job[t.Any]], options: Parameters, context: Context, kube: Kube, budget: Budget
) -> list[t.Any]:
    shared = {
        **options,
        "min_success": 0.0,
        "concurrency": min(options["concurrency"], _MAX_AT_ONCE),
    }
    return poll(jobs, shared, context, kube, budget=budget).results


def _target(name: str, endpoint: str, kind: str, where: str, options: Parameters) -> PollTarget:
    certificate, key = options["client_cert"], options["client_key"]
    return PollTarget(
        name,
        endpoint,
        kind,
        where,
        named=CredentialReference(key=options["credential"] or None),
        # The options precede an authority in the credential, because the Secret of a service
        # account has the authority of the API server.
        tls={
            "ca_path": options["ca_path"],
            "tls_fingerprint": options["tls_fingerprint"],
            "server_name": options["tls_server_name"],
            "client": ClientCertificate(certificate, key) if certificate else None,
        },
    )


def _ask_keplers(
    options: Parameters, context: Context, kube: Kube, nodes: t.Collection[str] | None
) -> Answers:
    """The metrics of each Kepler, from a list or from its pods."""
    given = {one["name"]: one["endpoint"] for one in options["targets"]}
    targets = [
        _target(name, endpoint, KEPLER, "targets", options) for name, endpoint in given.items()
    ]
    targets = [
        target
        for target in targets or _discovered(options, kube)
        if nodes is None or target.name in nodes
    ]
    jobs = [Job(target, KEPLER, _scrape, Amounts(False)) for target in targets]
    found = Answers()
    for target, result in zip(targets, _polled(jobs, options, context, kube, _OF_KEPLER)):
        if isinstance(result, TargetError):
            found.errors.append(result)
        else:
            found.nodes[target.name] = result
    return found


def _discovered(options: Parameters, kube: Kube) -> list[PollTarget]:
    """One running pod of Kepler for each node, a ready one if there are several."""
    path = f"/api/v1/namespaces/{options['namespace']}/pods"
    query = {"labelSelector": options["selector"], "fieldSelector": "status.phase=Running"}
    # A shorter limit than that of a run's own lists, because these pods are optional.
    pods = kube.impatient(options["timeout"]).list(path, query, without_bulk)
    by_node: dict[str, tuple[bool, str]] = {}
    for pod in pods:
        node, address = member(pod, "spec", "nodeName"), _address(pod)
        if isinstance(node, str) and address is not None:
            endpoint = f"{options['scheme']}://{address}:{options['port']}"
            by_node[node] = max(
                by_node.get(node, (False, "")), (has_condition(pod, "Ready"), endpoint)
            )
    return [
        _target(node, endpoint, KEPLER, f"the pod of Kepler on {node}", options)
        for node, (_ready, endpoint) in sorted(by_node.items())
    ]


def _address(pod: Object) -> str | None:
    try:
        address = ipaddress.ip_address(member(pod, "status", "podIP"))
    except ValueError:
        return None
    return f"[{address}]" if address.version == 6 else str(address)


async def _scrape(client: Client, _target: PollTarget) -> Amounts:
    return kepler.of_text(await client.get_text("/metrics"))


def _ask_prometheus(
    options: Parameters,
    context: Context,
    kube: Kube,
    nodes: t.Collection[str] | None,
    with_energy: bool,
) -> Answers:
    """Instant queries, first for Kepler 0.10, then for older versions."""
    target = _target("prometheus", options["url"], PROMETHEUS, "url", options)
    period = options["energy_period_seconds"]
    made = queries(options["labels"], period)
    job = Job(
        target,
        PROMETHEUS,
        functools.partial(_query_all, made, period, with_energy),
        _Vectors((), ()),
    )
    [result] = _polled([job], options, context, kube, _OF_PROMETHEUS)
    if isinstance(result, TargetError):
        return Answers(errors=[result])
    return _Reader(redacted(options["url"]), nodes).read(result)


class _Vectors(t.NamedTuple):
    """Series of nodes and of pods; in old ones ``instance`` is the node.

    ``energy`` are joules of ``covered_seconds``, and ``failure`` concerns only these.
    """

    nodes: t.Sequence[Object]
    pods: t.Sequence[Object]
    cores: t.Sequence[Object] = ()
    energy: t.Sequence[Object] = ()
    covered_seconds: float = 0.0
    failure: TargetFailure | None = None
    is_old: bool = False


async def _query_all(
    made: Queries, period: float, with_energy: bool, client: Client, _target: PollTarget
) -> _Vectors:
    nodes, pods = await _query(client, made.nodes), await _query(client, made.pods)
    if nodes or pods:
        found = _Vectors(nodes, pods, await _query(client, made.cores))
    else:
        nodes, pods = await _query(client, made.old_nodes), await _query(client, made.old_pods)
        found = _Vectors(nodes, pods, is_old=True)
    if not found.nodes and not found.pods:
        raise TargetFailure(
            "no_sensor",
            "it has no metrics of Kepler; let it scrape Kepler, with the levels node and pod",
        )
    if not with_energy:
        return found
    try:
        covered = await _query(client, made.old_covered if found.is_old else made.covered)
        seconds = min(_value(covered[0]) if covered else 0.0, period)
        if seconds < 1:
            return found
        energy = await _query(client, made.energy(seconds, is_old=found.is_old))
        return found._replace(energy=energy, covered_seconds=float(int(seconds)))
    except TargetFailure as failure:
        # A period of series costs more than an instant, and its failure must not affect the power.
        return found._replace(failure=failure)


async def _query(client: Client, query: str) -> list[Object]:
    """The vector of an instant query. Raises TargetFailure."""
    path = f"/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    body = (await client.get_json(path)).body
    result = member(body, "data", "result")
    is_vector = member(body, "data", "resultType") == "vector" and isinstance(result, list)
    if member(body, "status") != "success" or not is_vector:
        told = text(member(body, "error"), 200)
        raise TargetFailure(
            "malformed",
            f"it does not answer a query with a vector{f' ({told})' if told else ''}; check that "
            "the URL is Prometheus'",
        )
    return objects(result)


Key = t.TypeVar("Key", str, PodName)


@dataclass
class _Reader:
    """The series of one Prometheus; a defective one is an error of the node in its labels."""

    url: str
    nodes: t.Collection[str] | None = None
    found: Answers = field(default_factory=Answers)
    # Of two series the right one is unknown, so neither counts.
    removals: list[t.Callable[[], object]] = field(default_factory=list)

    def read(self, vectors: _Vectors) -> Answers:
        is_old = vectors.is_old
        self._each(vectors.nodes, is_old, self._put_node)
        self._each(vectors.pods, is_old, self._put_pod)
        self._each(vectors.cores, is_old, self._put_cores)
        if vectors.failure is None:
            # Without two samples of any pod there is nothing that the seconds could be of.
            self.found.covered_seconds = vectors.covered_seconds if vectors.energy else 0.0
            self._each(vectors.energy, is_old, self._put_joules)
        else:
            self._fail("", vectors.failure)
        for remove in self.removals:
            remove()
        for node in [*self.found.nodes]:
            self._check(node)
        return self.found

    def _check(self, node: str) -> None:
        """Keep a node with watts of its packages."""
        try:
            self.found.nodes[node] = kepler.checked(self.found.nodes[node])
        except TargetFailure as failure:
            del self.found.nodes[node]
            self.found.joules.pop(node, None)
            self._fail(node, failure)

    def _each(
        self,
        vector: t.Iterable[Object],
        is_old: bool,
        put: t.Callable[[str, Labels, Object], None],
    ) -> None:
        for series in vector:
            labels = _in_new_words(_labels(series)) if is_old else _labels(series)
            node = labels.get("node_name", "")
            try:
                put(node, labels, series)
            except TargetFailure as failure:
                self._fail(node, failure)

    def _put_node(self, node: str, labels: Labels, series: Object) -> None:
        watts, zone = kepler.plausible(_value(series)), labels.get("zone", "")
        zones = self._amounts(node).node
        self._put(zones, zone, watts, zones.clear, f"two series have its zone {zone}")

    def _put_pod(self, node: str, labels: Labels, series: Object) -> None:
        watts, zone = kepler.plausible(_value(series)), labels.get("zone", "")
        name, pods = kepler.pod_name(labels), self._amounts(node).pods
        problem = f"two series are of its pod {shown(name.name)} in zone {zone}"
        remove = functools.partial(pods.pop, name, None)
        self._put(pods.setdefault(name, {}), zone, watts, remove, problem)

    def _put_cores(self, node: str, labels: Labels, series: Object) -> None:
        """CPUs in use on nodes with a power reading."""
        if node in self.found.nodes:
            name, cores = kepler.pod_name(labels), self.found.nodes[node].cores
            remove = functools.partial(cores.pop, name, None)
            problem = f"two series are of CPUs of {shown(name.uid)}"
            self._put(cores, name, kepler.plausible_cores(_value(series)), remove, problem)

    def _put_joules(self, node: str, labels: Labels, series: Object) -> None:
        """The query gives one series for each set of these labels."""
        joules = kepler.plausible_joules(_value(series), self.found.covered_seconds)
        self.found.joules.setdefault(node, {})[kepler.pod_name(labels)] = joules

    def _amounts(self, node: str) -> Amounts:
        return self.found.nodes.setdefault(node, Amounts(False))

    def _put(
        self,
        amounts: dict[Key, float],
        key: Key,
        amount: float,
        remove: t.Callable[[], object],
        problem: str,
    ) -> None:
        if key in amounts:
            self.removals.append(remove)
            raise TargetFailure("malformed", problem)
        amounts[key] = amount

    def _fail(self, node: str, failure: TargetFailure) -> None:
        if self.nodes is not None and node and node not in self.nodes:
            return
        if len(self.found.errors) < _MAX_ERRORS_OF_SERIES:
            name = text(node, 253) or "prometheus"
            self.found.errors.append(TargetError(name, self.url, failure.reason, failure.detail))


Labels = dict[str, str]


def _labels(series: Object) -> Labels:
    given = member(series, "metric")
    pairs = given.items() if isinstance(given, dict) else ()
    return {name: value for name, value in pairs if isinstance(value, str)}


def _in_new_words(labels: Labels) -> Labels:
    return {
        "zone": labels.get("zone", ""),
        "node_name": labels.get("instance", ""),
        "pod_namespace": labels.get("container_namespace", ""),
        "pod_name": labels.get("pod_name", ""),
    }


def _value(series: Object) -> float:
    """The power draw of a series. Raises TargetFailure."""
    pair = member(series, "value")
    given = pair[1] if isinstance(pair, list) and len(pair) == 2 else None
    try:
        return kepler.amount(given if isinstance(given, str) else "")
    except ValueError as error:
        raise TargetFailure("malformed", f"a series {error}") from error
