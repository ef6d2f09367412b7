# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The models that BMCs name (MachineLearningModel): the work of redfish_ml_model_info.

Source: NEDO Machine Learning Model Management API 0.2.0, as served beside a BMC's ComputerSystem.
"""

from __future__ import annotations

import contextlib
import typing as t
import urllib.parse
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import (
    Context,
    Parameters,
    Result,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    TargetError,
    TargetFailure,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.loose_json import Object
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.urls import parse_endpoint
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import Client, Target
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.nodeconfig import (
    FAKE_ENDPOINT,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.poll import (
    FAKE,
    conclude,
    read_machines,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import (
    AUTHENTICATION,
    machines,
    reading_spec,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.discovery import (
    ROOT,
    SYSTEMS,
    nothing_found,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.links import identity, link
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.tree import Tree

SPEC = reading_spec().merge(AUTHENTICATION)

_LONGEST_URL = 2048
# Members of a model, and how long each may be: names as Kubernetes has them.
_MEMBERS = {"name": 253, "url": _LONGEST_URL, "type": 63, "version": 253}
_MOST_SYSTEMS = 16


@dataclass(frozen=True)
class Model:
    """One model as a BMC names it; ``endpoint`` is the URL to POST a prediction to."""

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
    """Read the models of every BMC; ``models``, ``authentication`` and ``errors``.

    Raises InvalidInput, and WattwiseError with all results where too few targets succeeded.
    """
    options = SPEC.complete(parameters)
    found = machines(options, "Redfish", "power_consumption_endpoint_provider")
    readout = read_machines(found, "Redfish", _work, lambda _machine: _FAKE, options, context)
    answers = list(zip(found, readout.results))
    result = {
        "models": [
            {"name": machine.name, **answer}
            for machine, answer in answers
            if not isinstance(answer, TargetError)
        ],
        "authentication": readout.authentication,
    }
    errors = [answer for _machine, answer in answers if isinstance(answer, TargetError)]
    return conclude(options, len(found), errors, result)


_FAKE: Models = {
    "power_consumption": {
        "name": FAKE,
        "url": FAKE_ENDPOINT,
        "type": FAKE,
        "version": "",
        "endpoint": FAKE_ENDPOINT,
    }
}


async def _work(client: Client, _target: Target) -> Models:
    tree = Tree(client)
    systems = await tree.members(SYSTEMS, required=True)
    if systems is None:
        root = await tree.require(ROOT) or {}
        systems = await tree.members(link(root.get("Systems")), required=True) or []
    for uri in systems[:_MOST_SYSTEMS]:
        body = await _resource(tree, uri)
        if body is not None:
            return _models(body)
    raise nothing_found(tree, "MachineLearningModel beside any of its systems", "not_found")


async def _resource(tree: Tree, system: str) -> Object | None:
    """The system's resource, at its usual place, else where the system links to it."""
    body = await tree.read(f"{identity(system)}/MachineLearningModel")
    if body is not None:
        return body
    return await tree.read(link((await tree.read(system) or {}).get("MachineLearningModel")))


def _models(body: Object) -> Models:
    """The models of a resource; that of the response time only where it is whole.

    Raises TargetFailure where the one of the power is not.
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
            f"and not longer than {_LONGEST_URL}; register the model "
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
