# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""NodeConfigs: their source, validation, and the effective one of each node."""

from __future__ import annotations

import functools
import ipaddress
import re
import typing as t
from dataclasses import dataclass, field

from ..base.boundary import Finding, InvalidField, read_noting, shown, subject_of
from ..base.errors import InvalidInput, TargetFailure
from ..base.fields import strict
from ..base.fields.lenient import member, objects
from ..base.fields.strict import is_subdomain
from ..base.json_types import MutableObject, Object
from ..base.units import parse_duration
from ..fleet.urls import masked, parse_endpoint, redacted
from ..kube.source import Source, trim_custom

EndpointKind = t.Literal[
    "inlet_temp", "delta_p", "power_consumption", "power_consumption_endpoint_provider"
]

# API groups in order of precedence: design decision 7.
GROUPS = ("wao.bitmedia.co.jp", "node.waok8s.github.io")
API_VERSIONS = tuple(f"{group}/v1beta1" for group in GROUPS)

# Label of every rendered NodeConfig with the name of its template.
TEMPLATE_LABEL = "wattwise.github.io/template"

# SHA-256 fingerprints of the certificates of the node's endpoints, separated by commas.
TLS_FINGERPRINT_ANNOTATION = "wattwise.github.io/tls-fingerprint"

DEFAULT_FETCH_INTERVAL_SECONDS = 15.0
FAKE_INLET_CELSIUS = 15.5
FAKE_DELTA_P_PASCAL = 7.5
FAKE_POWER_WATTS = 3.14
FAKE_ENDPOINT = "https://fake-endpoint"

_HOST_LABEL = re.compile(r"[A-Za-z0-9_]([-A-Za-z0-9_]*[A-Za-z0-9_])?")
_MAX_URL_LENGTH = 2048  # default of the CRDs of NodeConfigs
_NOT_IN_URL = re.compile(r"[\s\x00-\x1f\x7f?#]")


@dataclass(frozen=True)
class Term:
    """Path of one kind of endpoint in the spec, and its valid types."""

    path: tuple[str, str]
    types: tuple[str, ...]
    required: bool = False

    @property
    def place(self) -> str:
        return f"spec.{self.path[0]}.{self.path[1]}"


TERMS: t.Mapping[EndpointKind, Term] = {
    "inlet_temp": Term(("metricsCollector", "inletTemp"), ("Redfish", "Fake"), True),
    "delta_p": Term(("metricsCollector", "deltaP"), ("DifferentialPressureAPI", "Fake")),
    "power_consumption": Term(("predictor", "powerConsumption"), ("V2InferenceProtocol", "Fake")),
    "power_consumption_endpoint_provider": Term(
        ("predictor", "powerConsumptionEndpointProvider"), ("Redfish", "Fake")
    ),
}


@dataclass(frozen=True)
class Problem:
    """Defect of one field of an object."""

    field: str
    detail: str

    def __str__(self) -> str:
        return f"{self.field}: {self.detail}"


class Shadow(t.NamedTuple):
    """A shadowed NodeConfig, the effective one, and the reason as a word for a condition."""

    node_config: Object
    winner: Object
    reason: str

    @property
    def message(self) -> str:
        """The sentence for the condition."""
        why = _WHY_SHADOWED[self.reason]
        winner = qualified_name(self.winner)
        return f"Node {node_name(self.winner)} is configured by {winner}, {why}"


_WHY_SHADOWED = {
    "OtherGroup": f"which is in the API group {GROUPS[0]}",
    "HandMade": "which does not come from a template",
    "Older": "which is older",
    "EarlierName": "which is as old, and whose name comes first",
}


@dataclass(frozen=True)
class Effective:
    """The effective NodeConfig of each node, and the shadowed ones.

    ``findings`` lists unreadable parts. ``unreadable`` has the nodes without a readable NodeConfig,
    each with its first finding.
    """

    by_node: t.Mapping[str, Object] = field(default_factory=dict)
    shadowed: t.Sequence[Shadow] = ()
    findings: t.Sequence[Finding] = ()
    unreadable: t.Mapping[str, Finding] = field(default_factory=dict)


def qualified_name(obj: Object) -> str:
    """``namespace/name`` of an object, or the name alone."""
    metadata = obj["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))


def node_name(node_config: Object) -> str:
    """Node name of a NodeConfig; empty if it has none."""
    name = member(node_config, "spec", "nodeName")
    return name if isinstance(name, str) else ""


def group_rank(obj: Object) -> int:
    """0 for the API group with precedence, 1 for the other. Raises InvalidInput."""
    try:
        return API_VERSIONS.index(obj.get("apiVersion") or API_VERSIONS[0])
    except ValueError:
        detail = f"{shown(obj['apiVersion'])} is not known; write {' or '.join(API_VERSIONS)}"
        raise InvalidField("apiVersion", detail) from None


def is_rendered(node_config: Object) -> bool:
    """Whether a NodeConfig was rendered from a template, by this collection or by wao-core."""
    metadata = node_config["metadata"]
    owners = objects(metadata.get("ownerReferences"))
    return TEMPLATE_LABEL in (metadata.get("labels") or {}) or any(
        owner.get("kind") == "NodeConfigTemplate" for owner in owners
    )


def template_name(node_config: Object) -> str | None:
    """Name of the template of a rendered NodeConfig; None for others."""
    metadata = node_config["metadata"]
    for owner in objects(metadata.get("ownerReferences")):
        if owner.get("kind") == "NodeConfigTemplate":
            return owner.get("name") or None
    return (metadata.get("labels") or {}).get(TEMPLATE_LABEL)


def effective(node_configs: t.Sequence[t.Any]) -> Effective:
    """The effective NodeConfig of each node.

    The order of precedence is API group, not rendered before rendered, age, namespace and name.
    Objects that are being deleted, name no node or cannot be read are ignored. An unreadable part
    of a status becomes a finding and is left out.
    """
    candidates: dict[str, list[Object]] = {}
    findings: list[Finding] = []
    unreadable: dict[str, Finding] = {}
    for index, given in enumerate(node_configs):
        node_config = _read(given, f"node_configs[{index}]", findings)
        node = node_name(given if node_config is None else node_config)
        if node_config is None:
            if is_subdomain(node):
                unreadable.setdefault(node, findings[-1])
        elif node and not node_config["metadata"].get("deletionTimestamp"):
            candidates.setdefault(node, []).append(node_config)
    by_node: dict[str, Object] = {}
    shadowed: list[Shadow] = []
    for node in sorted(candidates):
        winner, *others = sorted(candidates[node], key=_precedence)
        by_node[node] = winner
        shadowed += [Shadow(other, winner, _shadowing(winner, other)) for other in others]
    alone = {node: finding for node, finding in unreadable.items() if node not in by_node}
    return Effective(by_node, tuple(shadowed), tuple(findings), alone)


def _read(given: t.Any, place: str, findings: list[Finding]) -> Object | None:
    """The NodeConfig without unreadable parts of its status; None if the rest is unreadable."""
    subject = subject_of(given, "NodeConfig", place)
    read = read_noting(subject, lambda: readable(given), findings)
    if read is None or not read.get("status"):
        return read
    status = read_noting(subject, lambda: strict.mapping(read["status"], "status"), findings) or {}
    parts = {
        part: read_noting(subject, functools.partial(_readable_status, status, part), findings)
        for part in ("conditions", "readings", "sensors", "authentication")
    }
    readings = {
        name: read_noting(subject, functools.partial(_readable_reading, name, reading), findings)
        for name, reading in (parts["readings"] or {}).items()
    }
    parts["readings"] = {name: reading for name, reading in readings.items() if reading is not None}
    return {**read, "status": {part: value for part, value in parts.items() if value}}


def _readable_reading(name: str, given: t.Any) -> Object:
    """A reading with a finite number and a time. Raises InvalidField."""
    field = f"status.readings.{name}"
    reading = strict.mapping(given, field)
    for key, item in reading.items():
        if key == "time":
            strict.time(item, f"{field}.time")
        else:
            strict.number(item, f"{field}.{key}")
    return reading


def readable(given: t.Any) -> Object:
    """The NodeConfig with checked types of metadata and node name. Raises InvalidField."""
    node_config = strict.with_readable_metadata(given)
    group_rank(node_config)
    name = strict.mapping(node_config.get("spec"), "spec").get("nodeName")
    if name and not is_subdomain(name):
        raise InvalidField("spec.nodeName", f"{shown(name)} is not the name of a Node")
    return node_config


def _readable_status(status: Object, part: str) -> t.Any:
    """A part of the status with checked types. Raises InvalidField."""
    field = f"status.{part}"
    if part == "conditions":
        conditions = strict.mappings(status.get(part), field)
        for condition in conditions:
            for part in ("type", "status", "reason", "message"):
                strict.text(condition.get(part), f"{field}.{part}")
        return conditions
    value = strict.mapping(status.get(part), field)
    if part == "authentication":
        strict.time(value.get("lastAttempt"), f"{field}.lastAttempt")
        strict.number(value.get("failures") or 0, f"{field}.failures")
        strict.text(value.get("secretResourceVersion"), f"{field}.secretResourceVersion")
    elif part == "sensors":
        strict.text(value.get("vendor"), f"{field}.vendor")
        system = strict.mapping(value.get("system"), f"{field}.system")
        for key, item in system.items():
            check = strict.number if key in ("sockets", "cores") else strict.text
            check(item, f"{field}.system.{key}")
        for name in value.keys() - {"vendor", "system"}:
            for key, item in strict.mapping(value[name], f"{field}.{name}").items():
                strict.text(item, f"{field}.{name}.{key}")
    return value


def _precedence(node_config: Object) -> tuple[int, bool, str, str, str]:
    metadata = node_config["metadata"]
    return (
        group_rank(node_config),
        is_rendered(node_config),
        # An object that is not stored yet is the youngest.
        metadata.get("creationTimestamp") or "~",
        metadata.get("namespace") or "",
        metadata["name"],
    )


def _shadowing(winner: Object, other: Object) -> str:
    reasons = ("OtherGroup", "HandMade", "Older")
    pairs = zip(reasons, _precedence(winner), _precedence(other))
    return next((reason for reason, best, rest in pairs if best != rest), "EarlierName")


def term_of(node_config: Object, kind: EndpointKind) -> Object | None:
    """The endpoint of this kind in the spec; None if there is none."""
    term: Object | None = member(node_config, "spec", *TERMS[kind].path)
    return term


def fetch_interval_seconds(term: t.Any) -> float:
    """Seconds for which a reading of this endpoint is fresh; the default if invalid."""
    interval = member(term, "fetchInterval")
    if interval is None or _interval_problem(interval):
        return DEFAULT_FETCH_INTERVAL_SECONDS
    return parse_duration(interval)


def problems(node_config: Object) -> list[Problem]:
    """Defects of the spec: node name, types, URLs, Secret names, durations."""
    found: list[Problem] = []
    name = member(node_config, "spec", "nodeName")
    if not is_subdomain(name):
        found.append(Problem("spec.nodeName", f"{shown(name)} is not the name of a Node"))
    for kind, term in TERMS.items():
        given = term_of(node_config, kind)
        if given is not None:
            found += term_problems(node_config, kind, given)
        elif term.required:
            found.append(Problem(term.place, f"is missing; write one of type {term.types[0]}"))
    return found


def term_problems(node_config: Object, kind: EndpointKind, given: Object) -> list[Problem]:
    """Defects of one endpoint of the spec."""
    term = TERMS[kind]
    if not isinstance(given, dict):
        return [Problem(term.place, "is not a mapping with type and endpoint")]
    checks = (
        ("type", _type_problem(node_config, kind, given.get("type"))),
        ("endpoint", _endpoint_problem(given)),
        ("basicAuthSecret.name", _secret_problem(given.get("basicAuthSecret"))),
        ("fetchInterval", _interval_problem(given.get("fetchInterval"))),
    )
    return [Problem(f"{term.place}.{name}", detail) for name, detail in checks if detail]


def _type_problem(node_config: Object, kind: EndpointKind, given: t.Any) -> str | None:
    if given in TERMS[kind].types:
        return None
    choice = " or ".join(TERMS[kind].types)
    if given == "" and kind == "power_consumption":
        if term_of(node_config, "power_consumption_endpoint_provider"):
            return None
        return f"is empty, but there is no powerConsumptionEndpointProvider; write {choice}"
    return f"{shown(given)} is not a supported type; write {choice}"


def _endpoint_problem(given: Object) -> str | None:
    if given.get("type") in ("Fake", ""):
        return None
    try:
        check_url(given.get("endpoint"))
    except InvalidInput as error:
        return str(error)
    return None


def _secret_problem(given: t.Any) -> str | None:
    name = given.get("name") if isinstance(given, dict) else given
    if not name or is_subdomain(name):
        return None
    return f"{shown(name)} is not the name of a Secret; use lower-case letters, digits, - and ."


def _interval_problem(given: t.Any) -> str | None:
    if given is None:
        return None
    try:
        seconds = parse_duration(given, "this")
    except InvalidInput:
        return f"{shown(given)} is not a Go duration; write one such as 15s or 1m30s"
    return None if seconds > 0 else f"{shown(given)} is not more than 0s; write one such as 15s"


def check_url(url: t.Any) -> None:
    """Raise InvalidInput unless this is an http or https URL of a host, without credentials."""
    if not isinstance(url, str) or not url:
        raise InvalidInput("there is no URL; write one such as https://10.0.0.100")
    if len(url) > _MAX_URL_LENGTH:
        raise InvalidInput(f"the URL has {len(url)} characters; the limit is {_MAX_URL_LENGTH}")
    try:
        host = parse_endpoint(url).origin.host
    except TargetFailure as failure:
        raise InvalidInput(failure.detail) from failure
    if _NOT_IN_URL.search(url):
        raise InvalidInput(f"the endpoint {redacted(url)!r} holds a blank, ? or #; remove it")
    if not _is_host(host):
        raise InvalidInput(
            f"the endpoint {redacted(url)!r} names no host: {host!r} is neither an address nor a "
            "name; write it like https://10.0.0.100 or https://bmc.example.com"
        )


def _is_host(host: str) -> bool:
    """Whether the text is a host name or a complete address.

    A template for IPv4 renders to 10.0.100. for a node without an IPv4 address, for example.
    """
    name = host[:-1] if host.endswith(".") else host
    try:
        if ":" in host:
            ipaddress.IPv6Address(host)
        elif name.rsplit(".", 1)[-1].isdigit():
            ipaddress.IPv4Address(host)
        else:
            return all(_HOST_LABEL.fullmatch(label) for label in name.split("."))
    except ValueError:
        return False
    return True


def trim_node_config(obj: MutableObject) -> MutableObject:
    """A NodeConfig with its status; a password in an endpoint is masked."""
    trimmed = trim_custom(obj)
    if not isinstance(trimmed.get("spec"), dict):
        return trimmed
    spec = {
        part: {name: _masked_term(term) for name, term in terms.items()}
        if isinstance(terms, dict)
        else terms
        for part, terms in trimmed["spec"].items()
    }
    return {**trimmed, "spec": spec}


def _masked_term(term: t.Any) -> t.Any:
    endpoint = term.get("endpoint") if isinstance(term, dict) else None
    return {**term, "endpoint": masked(endpoint)} if isinstance(endpoint, str) else term


def _custom_paths(plural: str) -> tuple[str, ...]:
    return tuple(f"/apis/{group}/v1beta1/{plural}" for group in GROUPS)


NODE_CONFIGS = Source(_custom_paths("nodeconfigs"), trim_node_config, {}, optional=True)
NODE_CONFIG_TEMPLATES = Source(_custom_paths("nodeconfigtemplates"), trim_custom, {}, optional=True)
