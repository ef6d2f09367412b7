# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Queries to the power models of nodes, which NodeConfigs and BMCs name."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..base.boundary import shown, shown_text
from ..base.context import Parameters
from ..base.errors import InvalidInput, TargetFailure, failure_of
from ..base.units import parse_quantity
from ..fleet.credentials import CredentialReference, SecretName
from ..fleet.urls import Origin, origin_of, origin_text, parse_endpoint
from ..nodeconfig.models import NodeModels
from ..nodeconfig.nodeconfig import FAKE_ENDPOINT
from ..nodeconfig.readings import Reading, Readings
from ..nodeconfig.targets import Endpoint, NodeTarget, Targets
from .queries import FAKE, Query


class _Term(t.NamedTuple):
    """A predictor of one node: type and endpoint, or the reason of a missing one."""

    type: str
    endpoint: str
    problem: t.Optional[TargetFailure] = None


def of_targets(
    targets: Targets, readings: Readings, models: t.Sequence[NodeModels], options: Parameters
) -> tuple[list[Query], list[str]]:
    """The queries in node-name order, and the configured nodes without a predictor.

    Raises InvalidInput.
    """
    named = {one.node: one for one in models}
    receivers = _Receivers.of(targets, options["model_origins"])
    queries: list[Query] = []
    without_predictor: list[str] = []
    for target in targets.nodes:
        if target.api_version is None:  # with an unreadable NodeConfig
            continue
        used = _provider(target) or target.endpoints.get("power_consumption")
        if used is None:
            without_predictor.append(target.name)
            continue
        try:
            term = _term(target, used, named.get(target.name))
            reading = readings.get(target.name, Reading())
            query = _query(target, term, reading, receivers, options)
        except Exception as error:  # noqa: BLE001 - the boundary around one node
            query = Query(target.name, used.endpoint, problem=failure_of(error))
        queries.append(query)
    return queries, without_predictor


def _provider(target: NodeTarget) -> Endpoint | None:
    """The BMC that names the predictor of a node, if it does."""
    return target.endpoints.get("power_consumption_endpoint_provider")


def _term(target: NodeTarget, used: Endpoint, named: NodeModels | None) -> _Term:
    if _provider(target) is None:
        problem = TargetFailure("malformed", used.problem) if used.problem else None
        return _Term(used.type, used.endpoint, problem)
    if used.type == FAKE:
        return _Term(FAKE, FAKE_ENDPOINT)
    model = None if named is None else named.power
    if model is None:
        why = used.problem or (
            f"NodeConfig {target.node_config} takes the power model from the machine, but "
            "no model was read there; give models, and see the errors of redfish_ml_model_info"
        )
        return _Term("", used.endpoint, TargetFailure("not_found", why))
    return _Term(model.type, model.endpoint)


def _query(
    target: NodeTarget, term: _Term, reading: Reading, receivers: _Receivers, options: Parameters
) -> Query:
    capacity, usage_format = target.cpu_capacity, target.cpu_usage_format
    named, problem = _account(target, term, receivers)
    return Query(
        name=target.name,
        endpoint=term.endpoint,
        type=term.type,
        cpu_capacity=None if capacity is None else float(parse_quantity(capacity, "capacity.cpu")),
        cpu_usage_format=(
            options["cpu_usage_format"] if usage_format is None else usage_format
        ).lower(),
        inlet_celsius=reading.value("inlet_celsius"),
        delta_p_pascal=reading.value("delta_p_pascal"),
        named=named,
        problem=problem,
    )


def _account(
    target: NodeTarget, term: _Term, receivers: _Receivers
) -> tuple[CredentialReference, TargetFailure | None]:
    """The Secret of powerConsumption, also if a provider gives type and endpoint."""
    namespace, direct = target.namespace, target.endpoints.get("power_consumption")
    if direct is None or not direct.secret_name:
        return CredentialReference(namespace=namespace), term.problem
    secret, problem = (namespace, direct.secret_name), term.problem
    if problem is None and _provider(target) is not None and term.type != FAKE:
        problem = receivers.problem(secret, term.endpoint)
    return CredentialReference(secret=secret, namespace=namespace), problem


@dataclass(frozen=True)
class _Receivers:
    """Servers that may get Secrets: named together with the Secret by a NodeConfig of its namespace,
    or allowed by the user for any Secret.

    A machine that names its model must not choose the receiver of the model's password.
    """

    named_together: frozenset[tuple[str, str, Origin]]
    allowed: frozenset[Origin]

    @classmethod
    def of(cls, targets: Targets, origins: t.Sequence[str]) -> _Receivers:
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
