# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Prediction of every node's power draw over its CPU use, by the models of NodeConfigs and BMCs."""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass, replace

from ..base.argspec import FLEET, KUBERNETES, PROGRESS, ArgumentSpec
from ..base.context import Context, Parameters
from ..base.errors import InvalidInput, TargetError, TargetFailure
from ..fleet.credentials import Access, Credentials, SecretSource
from ..fleet.tls import client_context
from ..fleet.visits import Budget, FleetOptions, error_of
from ..nodeconfig.nodeconfig import FAKE_POWER_WATTS
from ..nodeconfig.poll import fleet_options, shared_trust, trust_of, warn_of_plain_http
from ..scheduling.curve import Curve
from . import asking, wire
from .curves import PowerCurve
from .queries import FAKE, FORMATS, Query

REQUESTS_PER_HOST = 8
# Bytes of one row in an answer: a number in a list of its own, with a margin.
_ROW_BYTES = 200
_ROW_MEMBERS = 4

SPEC = ArgumentSpec(
    {
        "model_origins": {"type": "list", "elements": "str", "default": []},
        "cpu_usage_format": {"type": "str", "default": "percent", "choices": list(FORMATS)},
        "batch_rows": {"type": "int", "default": 10_000},
    }
).merge(FLEET, KUBERNETES, PROGRESS)


@dataclass(frozen=True)
class Predictions:
    """The curves of all models by node, the errors of other nodes, and the number of requests."""

    curves: t.Mapping[str, PowerCurve]
    errors: t.Sequence[TargetError]
    requests: int


@dataclass(frozen=True)
class _Points:
    """The points of one query, and the inquiry with their outcomes; none for the type Fake."""

    query: Query
    cpu: tuple[float, ...]
    rows: tuple[str, ...] = ()
    inquiry: t.Optional[asking.Inquiry] = None


def predict(
    queries: t.Sequence[Query], options: Parameters, context: Context, secrets: SecretSource
) -> Predictions:
    """The predictions of all queries. Raises InvalidInput."""
    now = context.now()
    visiting = _fleet_options(options)
    inquiries: dict[asking.Model, asking.Inquiry] = {}
    prepared = _prepare(queries, inquiries, options, context, secrets)
    _warn_of_unverified(inquiries, context)
    warn_of_plain_http([model.target({}) for model in inquiries], context)
    asking.ask(list(inquiries.values()), visiting, context.progress)
    answers = {query.name: _answer(one, now) for query, one in zip(queries, prepared)}
    return Predictions(
        {name: answer for name, answer in answers.items() if isinstance(answer, PowerCurve)},
        [answer for answer in answers.values() if isinstance(answer, TargetError)],
        sum(inquiry.requests for inquiry in inquiries.values()),
    )


def _prepare(
    queries: t.Sequence[Query],
    inquiries: dict[asking.Model, asking.Inquiry],
    options: Parameters,
    context: Context,
    secrets: SecretSource,
) -> list[_Points | TargetError]:
    """The points of each query, with their rows added to the inquiries."""
    credentials = Credentials(
        options["credentials"],
        [query.named for query in queries if query.needs_credential],
        lambda: secrets,
        context,
    )
    prepared: list[_Points | TargetError] = []
    for query in queries:
        try:
            if query.problem is not None:
                raise query.problem
            prepared.append(_points(query, credentials, inquiries, options))
        except Exception as error:  # noqa: BLE001 - the boundary around one node
            prepared.append(_error(query, error))
    return prepared


def _points(
    query: Query,
    credentials: Credentials,
    inquiries: dict[asking.Model, asking.Inquiry],
    options: Parameters,
) -> _Points:
    cpu = query.cpu()
    if query.type == FAKE:
        return _Points(query, cpu)
    rows = query.rows(cpu)
    # A query without a credential gets none, because the entry `default` is for BMCs.
    access = credentials.resolve(query.named) if query.needs_credential else Access()
    trust = trust_of({}, access, options)
    url, allowed = wire.infer_url(query.endpoint), options["allow_plain_http"]
    model = asking.Model(url, access.credential, trust, allowed)
    inquiry = inquiries.setdefault(model, asking.Inquiry(model, options["batch_rows"]))
    inquiry.rows.update(dict.fromkeys(rows))
    return _Points(query, cpu, rows, inquiry)


def _answer(points: _Points | TargetError, now: datetime.datetime) -> PowerCurve | TargetError:
    """The curve with the inputs of its query."""
    if isinstance(points, TargetError):
        return points
    try:
        curve = Curve.of(points.cpu, _watts(points))
        return PowerCurve(curve, inputs=points.query.inputs(now))
    except (InvalidInput, TargetFailure) as error:
        return _error(points.query, error)


def _watts(points: _Points) -> list[float]:
    """The predicted watts of the points. Raises TargetFailure."""
    if points.inquiry is None:
        return [FAKE_POWER_WATTS] * len(points.cpu)
    outcomes = [points.inquiry.outcomes[row] for row in points.rows]
    failed = next((each for each in outcomes if isinstance(each, TargetError)), None)
    if failed is not None:
        raise TargetFailure(failed.reason, failed.detail)
    return [wire.check_watts(outcome) for outcome in outcomes]


def _error(query: Query, error: Exception) -> TargetError:
    return error_of(query.name, query.endpoint, error)


def _fleet_options(options: Parameters) -> FleetOptions:
    if options["batch_rows"] < 1:
        raise InvalidInput(f"batch_rows: {options['batch_rows']} is too small; give 1 or more")
    # Shared options are checked once, so that not every model reports their defects.
    client_context(shared_trust(options))
    visiting = fleet_options(options, REQUESTS_PER_HOST)
    return replace(visiting, budget=_budget(options["batch_rows"]))


def _budget(rows: int) -> Budget:
    """Limit of an answer with this number of rows; a model with longer answers gets fewer rows."""
    usual = Budget()
    size = max(usual.size, rows * _ROW_BYTES)
    return replace(usual, size=size, members=max(usual.members, rows * _ROW_MEMBERS))


def _warn_of_unverified(models: t.Iterable[asking.Model], context: Context) -> None:
    count = sum(model.url.startswith("https:") and not model.trust.verifies for model in models)
    if count:
        context.warn(
            f"The certificates of {count} power models' servers are not verified, because"
            " validate_certs is false; pin them by tls_fingerprint"
        )
