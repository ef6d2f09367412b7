# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Which node is predicted by which model: from literal queries, or from the run's documents."""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import shown, shown_text
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Parameters
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    TargetFailure,
    failure_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.loose_json import member
from ansible_collections.wattwise.kube.plugins.module_utils.base.selector_text import (
    parse_selector_text,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import parse_quantity
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.credentials import Named
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.urls import (
    Origin,
    origin_of,
    origin_text,
    parse_endpoint,
)
from ansible_collections.wattwise.kube.plugins.module_utils.inference import wire
from ansible_collections.wattwise.kube.plugins.module_utils.inference.queries import FAKE, Query
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig import nodeconfig
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import is_selected

FORMAT_ANNOTATION = "wattwise.github.io/cpu-usage-format"

Object = t.Mapping[str, t.Any]


@dataclass(frozen=True)
class Subject:
    """A query, what is said about its credential, and why it cannot be asked if it cannot.

    ``allow_plain_http`` is None where the query follows the option that holds for all of them.
    """

    query: Query
    named: Named = field(default_factory=Named)
    problem: t.Optional[TargetFailure] = None
    allow_plain_http: t.Optional[bool] = None


class _Term(t.NamedTuple):
    """A predictor of one node: type and endpoint, or why there is none."""

    type: str
    endpoint: str
    problem: t.Optional[TargetFailure] = None


def of_queries(options: Parameters) -> list[Subject]:
    """The subjects of the option ``queries``. Raises InvalidInput where a name stands twice."""
    if options["queries"] is None:
        raise InvalidInput("Nothing to predict is given; give queries, or snapshot and readings")
    counts = Counter(query["name"] for query in options["queries"])
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise InvalidInput(f"queries: node {twice[0]!r} stands there twice; make one query of it")
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
    """The subjects of the options ``snapshot``, ``readings`` and ``models``, in node-name order,
    and the configured nodes that have no predictor. Raises InvalidInput.
    """
    snapshot = documents.load(options["snapshot"], "snapshot")
    if not options["readings"]:
        raise InvalidInput("readings is missing; give the readings document beside the snapshot")
    readings = documents.load(options["readings"], "readings")["readings"]
    models = {model["name"]: model for model in _models(options["models"])}
    nodes = _selected_nodes(snapshot, options["node_selector"])
    configured = nodeconfig.effective(snapshot.get("node_configs") or []).by_node.keys()
    direct = _by_node(snapshot, "power_consumption")
    providers = _by_node(snapshot, "power_consumption_endpoint_provider")
    grants = _Grants.of(direct.values(), options["model_origins"])
    subjects: list[Subject] = []
    without_predictor: list[str] = []
    for name in sorted(configured & nodes.keys()):
        source = providers.get(name) or direct.get(name)
        if source is None:
            without_predictor.append(name)
            continue
        try:
            term = _term(source, models.get(name))
            reading = readings.get(name) or {}
            query = _query(source, term, nodes[name], reading, options)
            subject = _subject(query, term, source, direct.get(name), grants)
        except Exception as error:  # noqa: BLE001 - the boundary around one node
            subject = Subject(Query(name, source.endpoint), problem=failure_of(error))
        subjects.append(subject)
    return subjects, without_predictor


def _selected_nodes(snapshot: Object, node_selector: str | None) -> dict[str, Object]:
    selector = parse_selector_text(node_selector or "", "node_selector")
    present = nodeconfig.present_nodes(snapshot)
    return {
        name: node
        for node in snapshot["nodes"]
        for name in [member(node, "metadata", "name")]
        if isinstance(name, str) and name in present and is_selected(node, selector)
    }


def _by_node(snapshot: Object, kind: nodeconfig.EndpointKind) -> dict[str, nodeconfig.Endpoint]:
    return {endpoint.node_name: endpoint for endpoint in nodeconfig.endpoints(snapshot, kind)}


def _models(given: t.Any) -> list[Object]:
    """The models as a list, also where the path of a document is given."""
    if isinstance(given, str):
        given = documents.load(str(Path(given).expanduser()), "models")["models"]
    models: list[Object] = given or []
    for index, model in enumerate(models):
        if not isinstance(model, dict) or not isinstance(model.get("name"), str):
            raise InvalidInput(
                f"models[{index}] has no name; give what redfish_ml_model_info returns as models"
            )
    return models


def _term(source: nodeconfig.Endpoint, model: Object | None) -> _Term:
    if source.kind == "power_consumption":
        problem = TargetFailure("malformed", source.problem) if source.problem else None
        return _Term(source.type, source.endpoint, problem)
    if source.type == FAKE:
        return _Term(FAKE, nodeconfig.FAKE_ENDPOINT)
    named = (model or {}).get("power_consumption")
    if not isinstance(named, dict):
        why = source.problem or (
            f"NodeConfig {source.node_config} takes the power model from the machine, but no model"
            " was read there; give models, and see the errors of redfish_ml_model_info"
        )
        return _Term("", source.endpoint, TargetFailure("not_found", why))
    endpoint = named.get("endpoint") or wire.model_url(
        named.get("url") or "", named.get("name") or "", named.get("version")
    )
    return _Term(named.get("type") or "", endpoint)


def _query(
    source: nodeconfig.Endpoint, term: _Term, node: Object, reading: Object, options: Parameters
) -> Query:
    capacity = ((node.get("status") or {}).get("capacity") or {}).get("cpu")
    usage_format = source.annotations.get(FORMAT_ANNOTATION, options["cpu_usage_format"])
    return Query(
        name=source.node_name,
        endpoint=term.endpoint,
        type=term.type,
        cpu_capacity=None if capacity is None else float(parse_quantity(capacity, "capacity.cpu")),
        cpu_usage_format=usage_format.lower(),
        inlet_celsius=reading.get("inlet_celsius"),
        delta_p_pascal=reading.get("delta_p_pascal"),
    )


def _subject(
    query: Query,
    term: _Term,
    source: nodeconfig.Endpoint,
    direct: nodeconfig.Endpoint | None,
    grants: _Grants,
) -> Subject:
    # A provider gives type and endpoint; the Secret is still that of powerConsumption.
    named = Named(namespace=source.namespace)
    problem = term.problem
    if direct is not None and direct.secret_name:
        named = Named(secret=(direct.namespace, direct.secret_name), namespace=direct.namespace)
        if problem is None and source is not direct and term.type != FAKE:
            problem = grants.problem(direct, term.endpoint)
    return Subject(query, named, problem)


@dataclass(frozen=True)
class _Grants:
    """Which Secret may go to which origin: those that a NodeConfig beside the Secret names
    together, and the origins that the user allows for any.

    A machine that names its model must not choose who is told the model's password.
    """

    named_together: frozenset[tuple[str, str, Origin]]
    allowed: frozenset[Origin]

    @classmethod
    def of(cls, direct: t.Iterable[nodeconfig.Endpoint], origins: t.Sequence[str]) -> _Grants:
        """From the endpoints of power models. Raises InvalidInput for an origin that is none."""
        found = set()
        for endpoint in direct:
            origin = origin_of(endpoint.endpoint)
            if origin is not None and endpoint.secret_name:
                found.add((endpoint.namespace, endpoint.secret_name, origin))
        return cls(frozenset(found), frozenset(map(_allowed_origin, origins)))

    def problem(self, direct: nodeconfig.Endpoint, url: str) -> TargetFailure | None:
        """Why the Secret of the endpoint is not sent to a URL that a machine named."""
        origin = origin_of(url)
        secret = (direct.namespace, direct.secret_name or "")
        if origin is None:  # which is told as soon as the URL is looked at
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
            f"model_origins: {shown(text)} has a path; write scheme, host and port alone"
        )
    return address.origin
