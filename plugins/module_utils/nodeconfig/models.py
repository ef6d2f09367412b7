# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Models that BMCs name, as values that pass from their reader to the prediction."""

from __future__ import annotations

import datetime
import typing as t
import urllib.parse
from dataclasses import dataclass, replace

from ..base.errors import InvalidInput
from ..base.fields.lenient import member, objects
from ..base.json_types import Object
from ..base.units import format_time, parse_time

_MEMBERS = ("name", "url", "type", "version", "endpoint")


@dataclass(frozen=True)
class Model:
    """One model on a server; ``endpoint`` is the URL to POST a prediction to."""

    name: str
    url: str
    type: str
    version: str
    endpoint: str

    @classmethod
    def of(cls, name: str, url: str, type: str, version: str) -> Model:  # noqa: A002 - its member
        """Without a version, the server's default version: ``versions//infer`` is no URL."""
        model, versions = urllib.parse.quote(name, safe=""), ""
        if version:
            versions = f"/versions/{urllib.parse.quote(version, safe='')}"
        endpoint = f"{url.rstrip('/')}/v2/models/{model}{versions}/infer"
        return cls(name, url, type, version, endpoint)

    def as_document(self) -> dict[str, t.Any]:
        return dict(vars(self))

    @classmethod
    def from_document(cls, given: t.Any) -> Model | None:
        """None for anything that is no model."""
        if not isinstance(given, dict):
            return None
        texts = [given.get(name) for name in _MEMBERS]
        *members, endpoint = (text if isinstance(text, str) else "" for text in texts)
        found = cls.of(*members)
        return replace(found, endpoint=endpoint) if endpoint else found


@dataclass(frozen=True)
class NodeModels:
    """The models of one node, with their BMC and time, because another BMC may name others."""

    node: str
    power: Model | None = None
    response_time: Model | None = None
    bmc: str = ""
    time: datetime.datetime | None = None
    is_kept: bool = False

    def as_document(self) -> dict[str, t.Any]:
        """The entry in models.json and in the result of redfish_ml_model_info."""
        parts = {
            "power_consumption": self.power and self.power.as_document(),
            "response_time": self.response_time and self.response_time.as_document(),
            "bmc": self.bmc,
            "time": self.time and format_time(self.time),
            "kept": self.is_kept,
        }
        return {"name": self.node, **{name: part for name, part in parts.items() if part}}


def models_of(given: t.Any) -> list[NodeModels]:
    """The models in a document or a result, without entries that name no node."""
    return [_from_document(entry) for entry in objects(given) if isinstance(entry.get("name"), str)]


def _from_document(entry: Object) -> NodeModels:
    power, response_time = (
        Model.from_document(member(entry, name)) for name in ("power_consumption", "response_time")
    )
    bmc = entry.get("bmc")
    try:
        time = parse_time(str(entry.get("time")))
    except InvalidInput:
        time = None
    is_kept = entry.get("kept") is True
    bmc = bmc if isinstance(bmc, str) else ""
    return NodeModels(entry["name"], power, response_time, bmc, time, is_kept)
