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
from dataclasses import dataclass, replace

from ..base import documents
from ..base.argspec import ArgumentSpec
from ..base.context import Context, Parameters, Result
from ..base.errors import TargetError, TargetFailure
from ..base.fields.lenient import member
from ..base.json_types import Object
from ..fleet.urls import parse_endpoint, redacted
from ..fleet.visits import Client
from ..nodeconfig.models import Model, NodeModels, models_of
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
from ..nodeconfig.readings import Answers
from .discovery import SYSTEMS, nothing_found
from .links import identity, link
from .tree import ROOT, Tree

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


def read_models(parameters: Parameters, context: Context = Context()) -> Result:
    """Read the models of every BMC, with the result of redfish_ml_model_info.

    Raises InvalidInput, and WattwiseError with all results if too few targets succeeded.
    """
    options = SPEC.complete(parameters)
    found = given_targets(options, REDFISH, "power_consumption_endpoint_provider")
    previous = models_of(member(documents.last(options["previous"], "models"), "models"))
    plan = ModelPlan.of(found, options, previous, options["max_age"], context.now())
    answers = plan.concluded(poll(plan.jobs, options, context))
    result = {
        "models": [models.as_document() for models in answers.models],
        "authentication": list(answers.authentication.values()),
    }
    return conclude(options, len(found), answers.errors, result)


@dataclass(frozen=True)
class ModelPlan:
    """The BMCs to read, and the models that are young enough."""

    found: t.Sequence[PollTarget]
    kept: t.Mapping[str, NodeModels]
    now: datetime.datetime

    @classmethod
    def of(
        cls,
        found: t.Sequence[PollTarget],
        options: Parameters,
        previous: t.Sequence[NodeModels],
        max_age: float,
        now: datetime.datetime,
    ) -> ModelPlan:
        """``previous`` are the models of the last run; a BMC is not read again for ``max_age`` s.

        With ``refresh`` no model is kept.
        """
        if options["refresh"]:
            return cls(found, {}, now)
        former = {models.node: models for models in previous}
        kept = {
            target.name: replace(former[target.name], is_kept=True)
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

    def concluded(self, polled: Polled[t.Any]) -> Answers:
        """The models of all nodes, with their BMC and time, because another BMC may name others."""
        answers = list(zip(self.due, polled.results))
        models = {
            target.name: replace(
                answer, node=target.name, bmc=redacted(target.endpoint), time=self.now
            )
            for target, answer in answers
            if isinstance(answer, NodeModels)
        }
        models.update(self.kept)
        return Answers(
            errors=[answer for _target, answer in answers if isinstance(answer, TargetError)],
            authentication={entry["name"]: entry for entry in polled.authentication},
            models=[models[target.name] for target in self.found if target.name in models],
        )


def _is_kept(
    target: PollTarget, former: NodeModels | None, max_age: float, now: datetime.datetime
) -> bool:
    """Whether this BMC's models are young enough."""
    if former is None or target.kind != REDFISH or target.problem is not None:
        return False
    if former.bmc != redacted(target.endpoint) or former.power is None or former.time is None:
        return False
    return 0 <= (now - former.time).total_seconds() < max_age


_FAKE = NodeModels("", Model(FAKE, FAKE_ENDPOINT, FAKE, "", FAKE_ENDPOINT))


async def _work(client: Client, _target: PollTarget) -> NodeModels:
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


def _models(body: Object) -> NodeModels:
    """The models of a resource; that of the response time only if it is complete.

    Raises TargetFailure if the power model is incomplete.
    """
    members = _lower(body)
    power = members.get("powerconsumptionmodel")
    found = NodeModels("", _model(power))
    with contextlib.suppress(TargetFailure):
        found = replace(found, response_time=_model(members.get("responsetimemodel")))
    return found


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
    return Model.of(**values)


def _is_text(value: t.Any, longest: int) -> bool:
    return isinstance(value, str) and len(value) <= longest and value.strip().isprintable()


def _lower(value: Object) -> dict[str, t.Any]:
    return {str(name).lower(): item for name, item in value.items()}
