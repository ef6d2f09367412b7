# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The machines that a module reads: its option ``targets``, or the NodeConfigs of a snapshot."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents, object_shapes
from ansible_collections.wattwise.kube.plugins.module_utils.base.argspec import (
    FLEET,
    KUBERNETES,
    PROGRESS,
    ArgumentSpec,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import (
    Finding,
    guarded,
    subject_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Parameters
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.label_selector import LabelSelector
from ansible_collections.wattwise.kube.plugins.module_utils.base.selector_text import (
    parse_selector_text,
)
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.authentication import Attempts
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.credentials import Named
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.urls import same_origin
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig import nodeconfig

Options = dict[str, t.Any]

_TARGET_OPTIONS: Options = {
    "name": {"type": "str", "required": True},
    "endpoint": {"type": "str", "required": True},
    "username": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "credential": {"type": "str", "no_log": False},
    "allow_plain_http": {"type": "bool"},
    "validate_certs": {"type": "bool"},
    "ca_path": {"type": "path"},
    "tls_fingerprint": {"type": "list", "elements": "str"},
}
_TLS_OPTIONS = ("validate_certs", "ca_path", "tls_fingerprint")

# Of modules that ask BMCs: one that asks the same BMCs later in a run must know what this one met.
AUTHENTICATION = ArgumentSpec(
    {
        "default_credential_namespaces": {
            "type": "list",
            "elements": "str",
            "default": [],
            "no_log": False,
        },
        "authentication": {
            "type": "list",
            "elements": "dict",
            "options": {
                "name": {"type": "str", "required": True},
                "failures": {"type": "int", "default": 0},
                "last_attempt": {"type": "str"},
                "secret_resource_version": {"type": "str", "no_log": False},
            },
        },
    }
)


@dataclass(frozen=True)
class Machine:
    """One machine to read. ``kind`` is the type of its endpoint, as in a NodeConfig.

    ``allow_plain_http`` is None where the machine follows the option that holds for all of them.
    ``interval`` is the seconds for which a reading of it holds; None where it always is to be read.
    """

    name: str
    endpoint: str
    kind: str
    where: str
    named: Named = field(default_factory=Named)
    tls: t.Mapping[str, t.Any] = field(default_factory=dict)
    attempts: Attempts = field(default_factory=Attempts)
    extra: t.Mapping[str, t.Any] = field(default_factory=dict)
    problem: str | None = None
    allow_plain_http: bool | None = None
    interval: float | None = None


def reading_spec(**target_options: t.Any) -> ArgumentSpec:
    """The options of a module that reads machines; its own ones of a target are added."""
    own: Options = {
        "targets": {
            "type": "list",
            "elements": "dict",
            "options": {**_TARGET_OPTIONS, **target_options},
        },
    }
    rules = (("targets", "snapshot"),)
    spec = ArgumentSpec(own, mutually_exclusive=rules, required_one_of=rules)
    return spec.merge(FLEET, KUBERNETES, PROGRESS)


def machines(
    parameters: Parameters,
    kind: str,
    endpoint_kind: nodeconfig.EndpointKind,
    own_options: t.Sequence[str] = (),
) -> list[Machine]:
    """The machines of ``targets``, else of the snapshot's NodeConfigs.

    ``kind`` is the type that literal targets have, ``endpoint_kind`` the part of a NodeConfig.
    ``extra`` is the target's own options, or ``{"status": …}`` of its NodeConfig. Raises
    InvalidInput.
    """
    if parameters["targets"] is not None:
        found = [
            _machine_of_target(target, index, kind, own_options)
            for index, target in enumerate(parameters["targets"])
        ]
    else:
        if not parameters["snapshot"]:
            raise InvalidInput("Nothing to read is given; give targets or snapshot")
        snapshot = documents.load(parameters["snapshot"], "snapshot")
        found = _machines_of_snapshot(_share(snapshot, parameters["node_selector"]), endpoint_kind)
    _require_distinct_names(found)
    return found


def _machine_of_target(
    target: t.Mapping[str, t.Any], index: int, kind: str, own_options: t.Sequence[str]
) -> Machine:
    return Machine(
        name=target["name"],
        endpoint=target["endpoint"],
        kind=kind,
        where=f"targets[{index}]",
        named=Named(target.get("username"), target.get("password"), target.get("credential")),
        tls={name: target.get(name) for name in _TLS_OPTIONS},
        extra={name: target[name] for name in own_options},
        allow_plain_http=target.get("allow_plain_http"),
    )


def _share(snapshot: t.Mapping[str, t.Any], node_selector: str | None) -> t.Mapping[str, t.Any]:
    """The snapshot with only the nodes that the selector selects."""
    if not node_selector:
        return snapshot
    selector = parse_selector_text(node_selector, "node_selector")
    nodes = [node for node in snapshot["nodes"] if is_selected(node, selector)]
    selected = nodeconfig.present_nodes({"nodes": nodes})
    configs = [
        config
        for config in snapshot.get("node_configs") or []
        if nodeconfig.node_name(config) in selected
    ]
    return {**snapshot, "nodes": nodes, "node_configs": configs}


def is_selected(node: t.Any, selector: LabelSelector) -> bool:
    """Whether the selector selects a Node; one whose labels cannot be read is not selected."""
    labels = guarded(
        subject_of(node, "Node"),
        lambda: object_shapes.texts(node["metadata"].get("labels"), "metadata.labels"),
    )
    return not isinstance(labels, Finding) and selector.matches(labels)


def _machines_of_snapshot(
    snapshot: t.Mapping[str, t.Any], endpoint_kind: nodeconfig.EndpointKind
) -> list[Machine]:
    configs = nodeconfig.effective(snapshot.get("node_configs") or []).by_node
    inlets = nodeconfig.endpoints(snapshot, "inlet_temp")
    bmcs = {inlet.node_name: inlet.endpoint for inlet in inlets if inlet.type == "Redfish"}
    found: list[Machine] = []
    for endpoint in nodeconfig.endpoints(snapshot, endpoint_kind):
        # Whoever may write a status may write anything into it.
        given = configs.get(endpoint.node_name, {}).get("status")
        status = given if isinstance(given, dict) else {}
        secret = (endpoint.namespace, endpoint.secret_name) if endpoint.secret_name else None
        found.append(
            Machine(
                name=endpoint.node_name,
                endpoint=endpoint.endpoint,
                kind=endpoint.type,
                where=f"NodeConfig {endpoint.node_config}",
                named=Named(secret=secret, namespace=endpoint.namespace),
                tls=_pins(endpoint, bmcs.get(endpoint.node_name)),
                attempts=Attempts.from_status(status.get("authentication")),
                extra={"status": status},
                problem=endpoint.problem,
                interval=endpoint.fetch_interval_seconds,
            )
        )
    return found


def _pins(endpoint: nodeconfig.Endpoint, bmc: str | None) -> dict[str, t.Any]:
    """The certificates that a node's BMC may have, and no server of another origin."""
    if endpoint.type != "Redfish" or not same_origin(endpoint.endpoint, bmc or endpoint.endpoint):
        return {}
    pinned = endpoint.annotations.get(nodeconfig.TLS_FINGERPRINT_ANNOTATION, "")
    return {"tls_fingerprint": [text.strip() for text in pinned.split(",") if text.strip()]}


def _require_distinct_names(found: t.Sequence[Machine]) -> None:
    first: dict[str, str] = {}
    for machine in found:
        if machine.name in first:
            raise InvalidInput(
                f"The name {machine.name!r} stands in {first[machine.name]} and in "
                f"{machine.where}; give each target a name of its own"
            )
        first[machine.name] = machine.where
