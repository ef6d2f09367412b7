# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Models of nodes, from literal queries or from the run's documents."""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ..base import documents
from ..base.boundary import shown, shown_text
from ..base.context import Parameters
from ..base.errors import InvalidInput, TargetFailure, failure_of
from ..base.json_types import Object
from ..base.units import parse_quantity
from ..fleet.credentials import Named, SecretName
from ..fleet.urls import Origin, origin_of, origin_text, parse_endpoint
from ..nodeconfig.nodeconfig import FAKE_ENDPOINT
from ..nodeconfig.poll import snapshot_targets
from ..nodeconfig.targets import Endpoint, NodeTarget, Targets
from . import wire
from .queries import FAKE, Query


@dataclass(frozen=True)
class Subject:
    """A query, its credential, and the reason why it cannot be sent, if any.

    ``allow_plain_http`` is None if the query uses the option for all queries.
    """

    query: Query
    named: Named = field(default_factory=Named)
    problem: t.Optional[TargetFailure] = None
    allow_plain_http: t.Optional[bool] = None


class _Term(t.NamedTuple):
    """A predictor of one node: type and endpoint, or the reason of a missing one."""

    type: str
    endpoint: str
    problem: t.Optional[TargetFailure] = None


def of_queries(options: Parameters) -> list[Subject]:
    """The subjects of the option ``queries``. Raises InvalidInput for a duplicate name."""
    counts = Counter(query["name"] for query in options["queries"])
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise InvalidInput(f"queries: node {twice[0]!r} is listed twice; make one query of it")
    return [
        Subject(
            Query(
                **{name: query[name] for name in ("name", "endpoint", "type", "cpu_capacity")},
                cpu_usage=query["cpu_usage"],
                cpu_usage_format=options["cpu_usage_format"],
                inlet_celsius=query["inlet_celsius"],
                delta_p_pascal=query["delta_p_pascal"],
            ),
            Named(query["username"], query["password"], query["credential"]),
            allow_plain_http=query["allow_plain_http"],
        )
        for query in options["queries"]
    ]


def of_documents(options: Parameters) -> tuple[list[Subject], list[str]]:
    """``of_targets`` of the options ``snapshot``, ``readings`` and ``models``.

    Raises InvalidInput.
    """
    targets = snapshot_targets(options)
    readings = documents.load(options["readings"], "readings")["readings"]
    return of_targets(targets, readings, _models(options["models"]), options)


def of_targets(
    targets: Targets,
    readings: t.Mapping[str, Object],
    models: t.Sequence[Object],
    options: Parameters,
) -> tuple[list[Subject], list[str]]:
    """The subjects in node-name order, and the configured nodes without a predictor.

    ``readings`` and ``models`` are in the form of their documents. Raises InvalidInput.
    """
    named = {model["name"]: model for model in models}
    grants = _Grants.of(targets, options["model_origins"])
    subjects: list[Subject] = []
    without_predictor: list[str] = []
    for target in targets.nodes:
        if target.api_version is None:  # with an unreadable NodeConfig
            continue
        source = _source(target)
        if source is None:
            without_predictor.append(target.name)
            continue
        try:
            term = _term(source, named.get(target.name))
            query = _query(target, term, readings.get(target.name) or {}, options)
            subject = _subject(query, term, source, grants)
        except Exception as error:  # noqa: BLE001 - the boundary around one node
            subject = Subject(Query(target.name, source.used.endpoint), problem=failure_of(error))
        subjects.append(subject)
    return subjects, without_predictor


class _Source(t.NamedTuple):
    """The predictor of a node, named by its endpoint or its BMC."""

    target: NodeTarget
    used: Endpoint
    direct: Endpoint | None
    is_provided: bool


def _source(target: NodeTarget) -> _Source | None:
    direct = target.endpoints.get("power_consumption")
    provider = target.endpoints.get("power_consumption_endpoint_provider")
    used = provider or direct
    return None if used is None else _Source(target, used, direct, provider is not None)


def _models(given: t.Any) -> list[Object]:
    """The models as a list, or from the document at a path."""
    if isinstance(given, str):
        given = documents.load(str(Path(given).expanduser()), "models")["models"]
    models: list[Object] = given or []
    for index, model in enumerate(models):
        if not isinstance(model, dict) or not isinstance(model.get("name"), str):
            raise InvalidInput(
                f"models[{index}] has no name; give what redfish_ml_model_info returns as models"
            )
    return models


def _term(source: _Source, model: Object | None) -> _Term:
    used = source.used
    if not source.is_provided:
        problem = TargetFailure("malformed", used.problem) if used.problem else None
        return _Term(used.type, used.endpoint, problem)
    if used.type == FAKE:
        return _Term(FAKE, FAKE_ENDPOINT)
    named = (model or {}).get("power_consumption")
    if not isinstance(named, dict):
        why = used.problem or (
            f"NodeConfig {source.target.node_config} takes the power model from the machine, but "
            "no model was read there; give models, and see the errors of redfish_ml_model_info"
        )
        return _Term("", used.endpoint, TargetFailure("not_found", why))
    endpoint = named.get("endpoint") or wire.model_url(
        named.get("url") or "", named.get("name") or "", named.get("version")
    )
    return _Term(named.get("type") or "", endpoint)


def _query(target: NodeTarget, term: _Term, reading: Object, options: Parameters) -> Query:
    capacity = target.cpu_capacity
    usage_format = options["cpu_usage_format"]
    if target.cpu_usage_format is not None:
        usage_format = target.cpu_usage_format
    return Query(
        name=target.name,
        endpoint=term.endpoint,
        type=term.type,
        cpu_capacity=None if capacity is None else float(parse_quantity(capacity, "capacity.cpu")),
        cpu_usage_format=usage_format.lower(),
        inlet_celsius=reading.get("inlet_celsius"),
        delta_p_pascal=reading.get("delta_p_pascal"),
    )


def _subject(query: Query, term: _Term, source: _Source, grants: _Grants) -> Subject:
    # A provider gives type and endpoint; the Secret is that of powerConsumption.
    namespace, direct = source.target.namespace, source.direct
    if direct is None or not direct.secret_name:
        return Subject(query, Named(namespace=namespace), term.problem)
    secret = (namespace, direct.secret_name)
    problem = term.problem
    if problem is None and source.is_provided and term.type != FAKE:
        problem = grants.problem(secret, term.endpoint)
    return Subject(query, Named(secret=secret, namespace=namespace), problem)


@dataclass(frozen=True)
class _Grants:
    """Allowed origins of Secrets: named together with the Secret by a NodeConfig of its namespace,
    or allowed by the user for any Secret.

    A machine that names its model must not choose the receiver of the model's password.
    """

    named_together: frozenset[tuple[str, str, Origin]]
    allowed: frozenset[Origin]

    @classmethod
    def of(cls, targets: Targets, origins: t.Sequence[str]) -> _Grants:
        """From the endpoints of power models. Raises InvalidInput for an invalid origin."""
        found = set()
        for target in targets.nodes:
            direct = target.endpoints.get("power_consumption")
            origin = None if direct is None else origin_of(direct.endpoint)
            if direct is not None and origin is not None and direct.secret_name:
                found.add((target.namespace, direct.secret_name, origin))
        return cls(frozenset(found), frozenset(map(_allowed_origin, origins)))

    def problem(self, secret: SecretName, url: str) -> TargetFailure | None:
        """Why the Secret is not sent to a URL that a BMC named."""
        origin = origin_of(url)
        if origin is None:  # which the check of the URL reports
            return None
        if (*secret, origin) in self.named_together or origin in self.allowed:
            return None
        return TargetFailure(
            "credential",
            f"the machine names a model at {shown_text(origin_text(origin))}, to which the Secret "
            f"{'/'.join(secret)} is not sent, because no NodeConfig of its namespace names that "
            "origin with it; add the origin to model_origins if it is right",
        )


def _allowed_origin(text: str) -> Origin:
    try:
        address = parse_endpoint(text)
    except TargetFailure as failure:
        raise InvalidInput(f"model_origins: {failure.detail}") from failure
    if address.base_path:
        raise InvalidInput(
            f"model_origins: {shown(text)} has a path; write only scheme, host and port"
        )
    return address.origin
