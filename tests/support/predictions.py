# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Predictions of single queries, and of the nodes of a snapshot, as JSON."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.credentials import (
    CredentialReference,
)
from ansible_collections.wattwise.kube.plugins.module_utils.inference import prediction, sources
from ansible_collections.wattwise.kube.plugins.module_utils.inference.queries import Query
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.models import models_of
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.readings import readings_of
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import of_snapshot

Json = dict[str, t.Any]
_LOGIN = ("username", "password", "credential")


def predict_queries(
    queries: t.Sequence[Json], context: Context = Context(), **options: t.Any
) -> Json:
    """``predictions``, ``errors`` and ``requests`` of literal queries, each with its login."""
    complete = prediction.SPEC.complete(options)
    of_nodes = [
        Query(
            **{name: value for name, value in query.items() if name not in _LOGIN},
            cpu_usage_format=complete["cpu_usage_format"],
            named=CredentialReference(*(query.get(name) for name in _LOGIN)),
        )
        for query in queries
    ]
    return _predicted(of_nodes, complete, context)


def predict_nodes(snapshot: Json, readings: Json, models: t.Any = (), **options: t.Any) -> Json:
    """The same for the nodes of a snapshot, and ``without_predictor``."""
    complete = prediction.SPEC.complete(options)
    queries, without = sources.of_targets(
        of_snapshot(snapshot), readings_of({"readings": readings}), models_of(models), complete
    )
    return {**_predicted(queries, complete, Context()), "without_predictor": without}


def _predicted(queries: list[Query], complete: Json, context: Context) -> Json:
    host = complete["host"] or "http://127.0.0.1:9"
    kube = Kube.connect({**complete, "host": host, "api_key": "token"})
    found = prediction.predict(queries, complete, context, kube)
    curves = {
        name: replace(curve, inputs=None).as_document() for name, curve in found.curves.items()
    }
    return {
        "predictions": [{"name": name, **curve} for name, curve in curves.items()],
        "errors": [error.as_dict() for error in found.errors],
        "requests": found.requests,
    }
