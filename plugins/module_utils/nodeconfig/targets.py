# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Targets: NodeConfigs resolved to endpoints with all data for reading and prediction.

The snapshot step resolves them once. Readers, merge and prediction use only targets.
"""

from __future__ import annotations

import functools
import re
import typing as t
from dataclasses import dataclass, field, replace

from ..base.boundary import Finding, InvalidField, Subject, guarded, read_noting, shown, subject_of
from ..base.errors import InvalidInput
from ..base.fields import strict
from ..base.fields.lenient import member
from ..base.json_types import Object
from ..base.label_selector import parse_selector_text
from ..fleet.authentication import Attempts
from ..fleet.urls import same_origin
from .nodeconfig import (
    API_VERSIONS,
    DEFAULT_FETCH_INTERVAL_SECONDS,
    TERMS,
    TLS_FINGERPRINT_ANNOTATION,
    EndpointKind,
    effective,
    fetch_interval_seconds,
    group_rank,
    qualified_name,
    term_of,
    term_problems,
)

FORMAT_ANNOTATION = "wattwise.github.io/cpu-usage-format"
SYSTEM_ANNOTATION = "wattwise.github.io/system"
CURVE_ANNOTATION = "wattwise.github.io/power-curve"
# Name of a Secret, in the namespace of the NodeConfig, with the account that may switch the machine.
POWER_SECRET_ANNOTATION = "wattwise.github.io/power-secret"
FALLBACK_ANNOTATIONS = {
    "inlet_celsius": "wattwise.github.io/fallback-inlet-celsius",
    "delta_p_pascal": "wattwise.github.io/fallback-delta-p-pascal",
}
_FALLBACK = re.compile(r"[+-]?[0-9]{1,9}(\.[0-9]{1,9})?")


@dataclass(frozen=True)
class Endpoint:
    """One endpoint of a node. ``problem`` is the reason why it is unusable.

    ``type`` and ``endpoint`` are empty if the endpoint provider names them. ``tls_fingerprints``
    pin the certificates of a BMC; other servers have none.
    """

    type: str = ""
    endpoint: str = ""
    secret_name: str | None = None
    fetch_interval_seconds: float = DEFAULT_FETCH_INTERVAL_SECONDS
    tls_fingerprints: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True)
class NodeTarget:
    """A node with the endpoints of its effective NodeConfig.

    ``node_config`` is ``namespace/name``. ``api_version`` is None for an unreadable NodeConfig,
    ``labels`` for a Node with unreadable labels. ``status`` has the readable parts of the
    NodeConfig's status: conditions, last readings, known sensors and refused logins.
    """

    name: str
    node_config: str
    namespace: str = ""
    api_version: str | None = None
    uid: str | None = None
    labels: t.Mapping[str, str] | None = None
    cpu_capacity: str | None = None
    cpu_usage_format: str | None = None
    power_curve: str | None = None
    system: str | None = None
    power_secret: str | None = None
    endpoints: t.Mapping[EndpointKind, Endpoint] = field(default_factory=dict)
    fallbacks: t.Mapping[str, float] = field(default_factory=dict)
    status: Object = field(default_factory=dict)

    @property
    def attempts(self) -> Attempts:
        """Refused logins in the status."""
        return Attempts.from_status(self.status.get("authentication"))

    @property
    def manifest_head(self) -> dict[str, t.Any]:
        """First part of a status manifest for exactly this object."""
        metadata = {
            "name": self.node_config.rpartition("/")[2],
            "namespace": self.namespace,
            "uid": self.uid,
        }
        return {
            "apiVersion": self.api_version,
            "kind": "NodeConfig",
            "metadata": {key: value for key, value in metadata.items() if value},
        }

    def holding_at_least(self, seconds: float) -> NodeTarget:
        """The same node; its readings are valid for this time, or for their fetchInterval."""
        endpoints = {
            kind: replace(one, fetch_interval_seconds=max(one.fetch_interval_seconds, seconds))
            for kind, one in self.endpoints.items()
        }
        return replace(self, endpoints=endpoints)

    @property
    def subject(self) -> Subject:
        """The NodeConfig as the subject of findings."""
        return Subject("NodeConfig", self.node_config.rpartition("/")[2], self.namespace)

    def as_dict(self) -> dict[str, t.Any]:
        """The entry in the snapshot document, without empty members."""
        entry = {
            **vars(self),
            "endpoints": {kind: _endpoint_as_dict(one) for kind, one in self.endpoints.items()},
            "fallbacks": self.fallbacks or None,
            "status": self.status or None,
        }
        return {key: value for key, value in entry.items() if value is not None}

    @classmethod
    def from_dict(cls, entry: Object) -> NodeTarget:
        """From the entry in the snapshot document, which follows the schema."""
        endpoints = {
            kind: Endpoint(
                **{**given, "tls_fingerprints": tuple(given.get("tls_fingerprints", ()))}
            )
            for kind, given in entry["endpoints"].items()
        }
        return cls(**{**entry, "endpoints": endpoints})


@dataclass(frozen=True)
class Targets:
    """The configured nodes of a cluster in name order, and findings about their NodeConfigs."""

    nodes: tuple[NodeTarget, ...] = ()
    findings: tuple[Finding, ...] = ()

    def selected(self, node_selector: str | None) -> Targets:
        """The nodes that the selector selects; all nodes without a selector.

        A node whose labels cannot be read is not selected. Raises InvalidInput.
        """
        if not node_selector:
            return self
        selector = parse_selector_text(node_selector, "node_selector")
        nodes = (node for node in self.nodes if node.labels is not None)
        return replace(
            self, nodes=tuple(node for node in nodes if selector.matches(node.labels or {}))
        )

    def holding_at_least(self, seconds: float) -> Targets:
        """The same targets; their readings are valid for this time, or for their fetchInterval."""
        if not seconds:
            return self
        return replace(self, nodes=tuple(node.holding_at_least(seconds) for node in self.nodes))

    def as_dict(self) -> dict[str, t.Any]:
        """The part ``targets`` of the snapshot document."""
        return {
            "nodes": [node.as_dict() for node in self.nodes],
            "findings": [finding.as_dict() for finding in self.findings],
        }

    @classmethod
    def from_dict(cls, body: Object) -> Targets:
        """From the part of the snapshot document, which follows the schema."""
        return cls(
            tuple(map(NodeTarget.from_dict, body["nodes"])),
            tuple(map(Finding.from_dict, body["findings"])),
        )


def of_snapshot(snapshot: Object) -> Targets:
    """The targets of a snapshot. Raises InvalidInput for a snapshot without NodeConfigs."""
    body = snapshot.get("targets")
    if body is None:
        raise InvalidInput(
            "The snapshot has no targets, because it was taken without NodeConfigs; take it again "
            "with node_configs in include"
        )
    return Targets.from_dict(body)


def resolve(nodes: t.Sequence[t.Any], node_configs: t.Sequence[t.Any]) -> Targets:
    """The targets of all existing nodes with a NodeConfig.

    Defects raise no error. They become findings of the NodeConfig or problems of its endpoints.
    """
    found = effective(node_configs)
    findings = list(found.findings)
    targets: list[NodeTarget] = []
    for name, node in sorted(_named(nodes).items()):
        if name in found.by_node:
            targets.append(_target(name, node, found.by_node[name], findings))
        elif name in found.unreadable:
            targets.append(_unreadable(name, node, found.unreadable[name]))
    return Targets(tuple(targets), tuple(findings))


def _named(nodes: t.Sequence[t.Any]) -> dict[str, Object]:
    """Nodes by name; Nodes without a usable name are left out."""
    names = ((member(node, "metadata", "name"), node) for node in nodes)
    return {name: node for name, node in names if isinstance(name, str) and name}


def _of_node(node: Object) -> dict[str, t.Any]:
    labels = guarded(
        subject_of(node, "Node"),
        lambda: strict.text_mapping(node["metadata"].get("labels"), "metadata.labels"),
    )
    capacity = member(node, "status", "capacity", "cpu")
    return {
        "labels": None if isinstance(labels, Finding) else labels,
        "cpu_capacity": None if capacity is None else str(capacity),
    }


def _unreadable(name: str, node: Object, finding: Finding) -> NodeTarget:
    endpoints = {
        kind: Endpoint(problem=str(finding)) for kind, term in TERMS.items() if term.required
    }
    place = f"{finding.subject.namespace}/{finding.subject.name}".lstrip("/")
    namespace = finding.subject.namespace
    return NodeTarget(name, place, namespace, **_of_node(node), endpoints=endpoints)


def _target(name: str, node: Object, config: Object, findings: list[Finding]) -> NodeTarget:
    metadata = config["metadata"]
    annotations = metadata.get("annotations") or {}
    return NodeTarget(
        name=name,
        node_config=qualified_name(config),
        namespace=metadata.get("namespace") or "",
        api_version=API_VERSIONS[group_rank(config)],
        uid=metadata.get("uid") or None,
        **_of_node(node),
        cpu_usage_format=annotations.get(FORMAT_ANNOTATION),
        power_curve=annotations.get(CURVE_ANNOTATION),
        system=annotations.get(SYSTEM_ANNOTATION),
        power_secret=annotations.get(POWER_SECRET_ANNOTATION),
        endpoints=_endpoints(config, annotations),
        fallbacks=_fallbacks(config, annotations, findings),
        status=config.get("status") or {},
    )


def _endpoints(config: Object, annotations: Object) -> dict[EndpointKind, Endpoint]:
    given = {kind: term_of(config, kind) for kind in TERMS}
    found = {
        kind: _endpoint(config, kind, term) for kind, term in given.items() if term is not None
    }
    inlet = found.get("inlet_temp")
    bmc = inlet.endpoint if inlet is not None and inlet.type == "Redfish" else None
    pins = [text.strip() for text in annotations.get(TLS_FINGERPRINT_ANNOTATION, "").split(",")]
    pinned = tuple(filter(None, pins))
    if not pinned:
        return found
    return {
        kind: replace(one, tls_fingerprints=pinned) if _is_bmc(one, bmc) else one
        for kind, one in found.items()
    }


def _is_bmc(endpoint: Endpoint, bmc: str | None) -> bool:
    """Whether the pins apply: to the BMC of the node, not to servers of other origins."""
    return endpoint.type == "Redfish" and same_origin(endpoint.endpoint, bmc or endpoint.endpoint)


def _endpoint(config: Object, kind: EndpointKind, term: t.Any) -> Endpoint:
    problems = term_problems(config, kind, term)
    secret = member(term, "basicAuthSecret", "name")
    return Endpoint(
        type=_text(member(term, "type")),
        endpoint=_text(member(term, "endpoint")),
        secret_name=_text(secret) or None,
        fetch_interval_seconds=fetch_interval_seconds(term),
        problem=f"NodeConfig {qualified_name(config)}: {problems[0]}" if problems else None,
    )


def _text(value: t.Any) -> str:
    return value if isinstance(value, str) else ""


def _endpoint_as_dict(endpoint: Endpoint) -> dict[str, t.Any]:
    given = {**vars(endpoint), "tls_fingerprints": list(endpoint.tls_fingerprints) or None}
    return {key: value for key, value in given.items() if value is not None}


def _fallbacks(config: Object, annotations: Object, findings: list[Finding]) -> dict[str, float]:
    """All usable fallbacks; defects become findings even if the fallback is not needed."""
    usable: dict[str, float] = {}
    for quantity, annotation in FALLBACK_ANNOTATIONS.items():
        if annotation not in annotations:
            continue
        read = functools.partial(_fallback, annotation, annotations[annotation])
        value = read_noting(subject_of(config, "NodeConfig"), read, findings)
        if value is not None:
            usable[quantity] = value
    return usable


def _fallback(annotation: str, given: str) -> float:
    """Raises InvalidField."""
    if _FALLBACK.fullmatch(given.strip()) is None:
        problem = f"{shown(given)} is not a number such as 24.5"
        raise InvalidField(f"metadata.annotations[{annotation}]", problem)
    return float(given)
