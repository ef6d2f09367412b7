# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Definitions of other projects' kinds: real ones, and small ones with the relevant fields.

The Go modules of OpenTelemetry's and Jaeger's operators are not available, and Istio's has no such
files. The small CRDs are closed, so that an unknown field is refused.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml

from lab.definitions import find_crds

Json = dict[str, t.Any]

_ANY: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT: Json = {"type": "string"}
_LIST: Json = {"type": "array", "items": _ANY}
_PIPELINE: Json = {
    "type": "object",
    "required": ["exporters", "receivers"],
    "properties": {
        name: {"type": "array", "items": _TEXT} for name in ("exporters", "receivers", "processors")
    },
}
_SERVICE: Json = {
    "type": "object",
    "required": ["pipelines"],
    "properties": {
        "extensions": {"type": "array", "items": _TEXT},
        "pipelines": {"type": "object", "additionalProperties": _PIPELINE},
    },
}
# opentelemetry-operator v0.158.0, config/crd/bases/opentelemetry.io_opentelemetrycollectors.yaml.
_COLLECTOR: Json = {
    "type": "object",
    "required": ["config"],
    "properties": {
        "config": {
            "type": "object",
            "required": ["exporters", "receivers", "service"],
            "properties": {
                **dict.fromkeys(("receivers", "processors", "exporters", "extensions"), _ANY),
                "service": _SERVICE,
            },
        },
        "mode": {"type": "string", "enum": ["daemonset", "deployment", "sidecar", "statefulset"]},
        "managementState": {"type": "string", "enum": ["managed", "unmanaged"]},
        "image": _TEXT,
        **dict.fromkeys(("resources", "securityContext", "podSecurityContext"), _ANY),
        **dict.fromkeys(("env", "ports", "tolerations", "volumes", "volumeMounts"), _LIST),
    },
}
_LABELS: Json = {"type": "object", "additionalProperties": _TEXT}
_SELECTOR: Json = {"type": "object", "properties": {"matchLabels": _LABELS}}
_MODES: Json = {
    "type": "string",
    "enum": ["UNSET", "DISABLE", "PERMISSIVE", "STRICT", "SIMPLE", "MUTUAL", "ISTIO_MUTUAL"],
}
_MODE: Json = {"type": "object", "properties": {"mode": _MODES}}
_SMALL = {
    ("opentelemetry.io", "v1beta1", "OpenTelemetryCollector"): _COLLECTOR,
    ("jaegertracing.io", "v1", "Jaeger"): {
        "type": "object",
        "properties": {
            "strategy": {"type": "string", "enum": ["allInOne", "production", "streaming"]},
            "containerSecurityContext": _ANY,
        },
    },
    ("networking.istio.io", "v1", "DestinationRule"): {
        "type": "object",
        "required": ["host"],
        "properties": {
            "host": _TEXT,
            "trafficPolicy": {"type": "object", "properties": {"tls": _MODE}},
        },
    },
    # Only an older version, as in Istio 1.20.
    ("security.istio.io", "v1beta1", "PeerAuthentication"): {
        "type": "object",
        "properties": {"selector": _SELECTOR, "mtls": _MODE},
    },
    ("security.istio.io", "v1beta1", "AuthorizationPolicy"): {
        "type": "object",
        "properties": {
            "selector": _SELECTOR,
            "action": {"type": "string", "enum": ["ALLOW", "DENY", "AUDIT", "CUSTOM"]},
            "rules": _LIST,
        },
    },
}
_PLURALS = {"AuthorizationPolicy": "authorizationpolicies"}


def foreign_definitions() -> list[Json]:
    """All CRDs, for installation."""
    small = [_definition(*key, schema) for key, schema in _SMALL.items()]
    return [*map(_read, find_crds(print)), *small]


def _read(path: Path) -> Json:
    loaded: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {key: loaded[key] for key in ("apiVersion", "kind", "metadata", "spec")}


def _definition(group: str, version: str, kind: str, schema: Json) -> Json:
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}},
    }
    annotations = {
        "api-approved.kubernetes.io": "unapproved, of a test",
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": annotations},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [served],
        },
    }
