# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Models named by BMCs (MachineLearningModel), the work of redfish_ml_model_info.

Source: NEDO Machine Learning Model Management API 0.2.0, as served beside a BMC's ComputerSystem.
"""

from __future__ import annotations

import contextlib
import datetime
import typing as t
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from ..base import documents
from ..base.argspec import ArgumentSpec
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput, TargetError, TargetFailure
from ..base.fields.lenient import objects
from ..base.json_types import Object
from ..base.units import format_time, parse_time
from ..fleet.credentials import SecretSource
from ..fleet.urls import parse_endpoint, redacted
from ..fleet.visits import Client
from ..nodeconfig.nodeconfig import FAKE_ENDPOINT
from ..nodeconfig.poll import (
    AUTHENTICATION,
    FAKE,
    Job,
    Polled,
    PollTarget,
    conclude,
    given_targets,
    poll,
    reading_spec,
)
from .discovery import ROOT, SYSTEMS, nothing_found
from .links import identity, link
from .tree import Tree

SPEC = reading_spec().merge(
    AUTHENTICATION,
    ArgumentSpec(
        {
            "previous": {"type": "path"},
            "max_age": {"type": "float", "default": 600.0},
            "refresh": {"type": "bool", "default": False},
        }
    ),
)

REDFISH = "Redfish"
_MAX_URL_LENGTH = 2048
# Members of a model with their length limits; names have Kubernetes' limits.
_MEMBERS = {"name": 253, "url": _MAX_URL_LENGTH, "type": 63, "version": 253}
_MAX_SYSTEMS = 16


@dataclass(frozen=True)
class Model:
    """One model from a BMC; ``endpoint`` is the URL to POST a prediction to."""

    name: str
    url: str
    type: str
    version: str

    @property
    def endpoint(self) -> str:
        """Without a version, the server's default version: ``versions//infer`` is no URL."""
        model = f"{self.url.rstrip('/')}/v2/models/{urllib.parse.quote(self.name, safe='')}"
        if not self.version:
            return f"{model}/infer"
        return f"{model}/versions/{urllib.parse.quote(self.version, safe='')}/infer"

    def as_result(self) -> Result:
        return {
            "name": self.name,
            "url": self.url,
            "type": self.type,
            "version": self.version,
            "endpoint": self.endpoint,
        }


Models = dict[str, Result]


def read_models(parameters: Parameters, context: Context = Context()) -> Result:
    """Read the models of every BMC, with the result of redfish_ml_model_info.

    Raises InvalidInput, and WattwiseError with all results if too few targets succeeded.
    """
    options = SPEC.complete(parameters)
    found = given_targets(options, REDFISH, "power_consumption_endpoint_provider")
    previous = previous_models(options["previous"])
    return read(found, options, context, previous, max_age=options["max_age"])


def read(
    found: t.Sequence[PollTarget],
    options: Parameters,
    context: Context = Context(),
    previous: t.Sequence[t.Any] = (),
    secrets: SecretSource | None = None,
    *,
    max_age: float,
) -> Result:
    """Read the models of every BMC; ``models``, ``authentication`` and ``errors``.

    ``previous`` are the models of the last run; models of a BMC that are at most ``max_age``
    seconds old are kept, and it is not read. Raises like ``read_models``.
    """
    reading = ModelReading.plan(found, options, previous, max_age, context.now())
    return reading.conclude(poll(reading.jobs, options, context, secrets), options)


def previous_models(path: str | None) -> list[t.Any]:
    """Models of the last run; none without one or with an unusable file."""
    if path is None or not Path(path).exists():
        return []
    try:
        return list(documents.load(path, "models")["models"])
    except InvalidInput:
        return []


@dataclass(frozen=True)
class ModelReading:
    """The BMCs to read, and the result from their answers."""

    found: t.Sequence[PollTarget]
    kept: t.Mapping[str, Result]
    now: datetime.datetime

    @classmethod
    def plan(
        cls,
        found: t.Sequence[PollTarget],
        options: Parameters,
        previous: t.Sequence[t.Any],
        max_age: float,
        now: datetime.datetime,
    ) -> ModelReading:
        """The kept models; none with ``refresh``."""
        if options["refresh"]:
            return cls(found, {}, now)
        former = {entry.get("name"): entry for entry in objects(list(previous))}
        kept = {
            target.name: {**former[target.name], "kept": True}
            for target in found
            if _is_kept(target, former.get(target.name), max_age, now)
        }
        return cls(found, kept, now)

    @property
    def due(self) -> list[PollTarget]:
        """The BMCs to read."""
        return [target for target in self.found if target.name not in self.kept]

    @property
    def jobs(self) -> list[Job[t.Any]]:
        """One job for each BMC to read."""
        return [Job(target, REDFISH, _work, _FAKE) for target in self.due]

    def conclude(self, polled: Polled[t.Any], options: Parameters) -> Result:
        """The result of the jobs' answers. Raises WattwiseError if too few targets succeeded."""
        answers = list(zip(self.due, polled.results))
        errors = [answer for _target, answer in answers if isinstance(answer, TargetError)]
        models = {
            **self.kept,
            **{
                target.name: self._as_result(target, answer)
                for target, answer in answers
                if not isinstance(answer, TargetError)
            },
        }
        result = {
            "models": [models[target.name] for target in self.found if target.name in models],
            "authentication": polled.authentication,
        }
        return conclude(options, len(self.found), errors, result)

    def _as_result(self, target: PollTarget, models: Models) -> Result:
        """The models with their BMC and time, because another BMC may name others."""
        told = {"bmc": redacted(target.endpoint), "time": format_time(self.now)}
        return {"name": target.name, **models, **told}


def _is_kept(
    target: PollTarget, former: Object | None, max_age: float, now: datetime.datetime
) -> bool:
    """Whether this BMC's models are young enough."""
    if former is None or target.kind != REDFISH or target.problem is not None:
        return False
    if former.get("bmc") != redacted(target.endpoint):
        return False
    if not isinstance(former.get("power_consumption"), dict):
        return False
    try:
        age = (now - parse_time(str(former.get("time")))).total_seconds()
    except InvalidInput:
        return False
    return 0 <= age < max_age


_FAKE: Models = {
    "power_consumption": {
        "name": FAKE,
        "url": FAKE_ENDPOINT,
        "type": FAKE,
        "version": "",
        "endpoint": FAKE_ENDPOINT,
    }
}


async def _work(client: Client, _target: PollTarget) -> Models:
    tree = Tree(client)
    systems = await tree.members(SYSTEMS, required=True)
    if systems is None:
        root = await tree.require(ROOT) or {}
        systems = await tree.members(link(root.get("Systems")), required=True) or []
    for uri in systems[:_MAX_SYSTEMS]:
        body = await _resource(tree, uri)
        if body is not None:
            return _models(body)
    raise nothing_found(tree, "MachineLearningModel beside any of its systems", "not_found")


async def _resource(tree: Tree, system: str) -> Object | None:
    """The system's resource, at its usual place, else by the system's link."""
    body = await tree.read(f"{identity(system)}/MachineLearningModel")
    if body is not None:
        return body
    return await tree.read(link((await tree.read(system) or {}).get("MachineLearningModel")))


def _models(body: Object) -> Models:
    """The models of a resource; that of the response time only if it is complete.

    Raises TargetFailure if the power model is incomplete.
    """
    members = _lower(body)
    power = members.get("powerconsumptionmodel")
    result: Models = {"power_consumption": _model(power).as_result()}
    with contextlib.suppress(TargetFailure):
        result["response_time"] = _model(members.get("responsetimemodel")).as_result()
    return result


def _model(value: t.Any) -> Model:
    given = _lower(value) if isinstance(value, dict) else {}
    missing = [name for name in _MEMBERS if not _is_text(given.get(name), _MEMBERS[name])]
    missing += [name for name in ("name", "url", "type") if given.get(name) == ""]
    if missing:
        raise TargetFailure(
            "malformed",
            "MachineLearningModel has no usable PowerConsumptionModel: "
            f"{', '.join(name.capitalize() for name in missing)} must be text that is printable "
            f"and not longer than {_MAX_URL_LENGTH}; register the model "
            "with the BMC again",
        )
    values = {name: given[name].strip() for name in _MEMBERS}
    try:
        parse_endpoint(values["url"])
    except TargetFailure as failure:
        detail = f"the Url of the model {values['name']!r}: {failure.detail}"
        raise TargetFailure("malformed", detail) from failure
    return Model(**values)


def _is_text(value: t.Any, longest: int) -> bool:
    return isinstance(value, str) and len(value) <= longest and value.strip().isprintable()


def _lower(value: Object) -> dict[str, t.Any]:
    return {str(name).lower(): item for name, item in value.items()}
