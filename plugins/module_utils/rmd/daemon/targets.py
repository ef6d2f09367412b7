# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The daemons of a module: endpoints, trust, the client's certificate."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ...base.argspec import PROGRESS, RMD, ArgumentSpec
from ...base.context import Parameters
from ...base.errors import InvalidInput
from ...base.json_types import Object
from ...fleet.tls import ClientCertificate, client_context
from ...fleet.visits import Credential, Target
from ...nodeconfig.poll import shared_trust
from .workload import Wire

Options = dict[str, t.Any]

TARGET_OPTIONS: Options = {
    "name": {"type": "str", "required": True},
    "endpoint": {"type": "str", "required": True},
}


def daemon_spec(**target_options: t.Any) -> ArgumentSpec:
    """The options of a module with daemons in its option ``targets``."""
    options = {
        "targets": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {**TARGET_OPTIONS, **target_options},
        }
    }
    return ArgumentSpec(options).merge(RMD, PROGRESS)


def daemon_targets(
    parameters: Parameters, given: t.Sequence[Object], extra: str | None = None
) -> list[Target]:
    """The daemons as targets; ``extra`` names an option of a target that its work needs.

    Common options are checked once: raises InvalidInput for an unusable certificate, and for a
    duplicate name.
    """
    client = None
    if parameters["client_cert"]:
        client = ClientCertificate(parameters["client_cert"], parameters["client_key"])
    server_name = parameters["tls_server_name"] or None
    trust = dataclasses.replace(shared_trust(parameters), server_name=server_name, client=client)
    if any(target["endpoint"].lower().startswith("https:") for target in given):
        client_context(trust)
    names = collections.Counter(target["name"] for target in given)
    for name, count in names.items():
        if count > 1:
            raise InvalidInput(f"targets: the name {name!r} is listed twice; give each its own")
    credential = None
    if parameters["username"]:
        credential = Credential(parameters["username"], parameters["password"] or "")
    return [
        Target(
            target["name"],
            target["endpoint"],
            credential,
            trust,
            {extra: target.get(extra)} if extra else {},
            parameters["allow_plain_http"],
        )
        for target in given
    ]


def wire_of(parameters: Parameters) -> Wire | None:
    """The daemons' version by the user; None for detection."""
    wire: Wire | None = None if parameters["wire"] == "auto" else parameters["wire"]
    return wire
