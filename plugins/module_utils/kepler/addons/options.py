# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Options of KeplerAddons: the spec of the resource in the words of module options.

The fields of the CRD are these options in camelCase; scripts/options has the rest of them.
"""

from __future__ import annotations

import typing as t

from ...base.argspec import ArgumentSpec, Options

API_VERSION = "kepler.system.sustainable.computing.io/v1alpha1"
KIND = "KeplerAddons"

_ENABLED: t.Mapping[str, t.Any] = {"type": "bool", "default": False}
_TEXT: t.Mapping[str, t.Any] = {"type": "str", "default": ""}
_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "16Mi"},
    # Logs, of which kubelets keep 50 MiB by default.
    "limits": {"memory": "256Mi", "ephemeral-storage": "128Mi"},
}


def _part(**options: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    return {"type": "dict", "default": {}, "options": options}


def _choice(*choices: str) -> t.Mapping[str, t.Any]:
    """A choice; the first one is the default."""
    return {"type": "str", "default": choices[0], "choices": list(choices)}


def _secret(default: str = "") -> t.Mapping[str, t.Any]:
    return {"type": "str", "no_log": False, "default": default}


_PARTS: Options = {
    "system": {"type": "str", "default": "kepler"},
    "security": _part(
        mode=_choice("none", "tls", "mtls"),
        server_secret=_secret("kepler-server"),
        client_authority_secret=_secret("kepler-client-authority"),
        client_secret=_secret("kepler-client"),
    ),
    "prometheus": _part(
        enabled=_ENABLED,
        monitor=_choice("service", "pod"),
        interval={"type": "str", "default": "30s"},
        scrape_timeout={"type": "str", "default": "10s"},
        labels={"type": "dict", "default": {}},
        rules={"type": "bool", "default": True},
    ),
    "grafana": _part(
        enabled=_ENABLED,
        instance={"type": "bool", "default": False},
        instance_selector={"type": "dict", "default": {"dashboards": "kepler"}},
        datasource=_part(url=_TEXT, token_secret=_secret(), authority_secret=_secret()),
        dashboards={"type": "bool", "default": True},
    ),
    "tracing": _part(
        enabled=_ENABLED,
        backend=_choice("otlp", "jaeger"),
        endpoint=_TEXT,
        image=_TEXT,
        resources={"type": "dict", "default": _RESOURCES},
    ),
    "logging": _part(
        enabled=_ENABLED,
        agent=_choice("opentelemetry", "fluent-bit"),
        backend=_choice("loki", "elasticsearch"),
        endpoint=_TEXT,
        image=_TEXT,
        credential_secret=_secret(),
        resources={"type": "dict", "default": _RESOURCES},
    ),
    "certificates": _part(
        enabled=_ENABLED,
        issuer=_choice("auto", "cert-manager", "library"),
        duration={"type": "str", "default": "2160h"},
        renew_before={"type": "str", "default": "720h"},
        key_bits={"type": "int", "no_log": False, "default": 3072},
        authority_namespace={"type": "str", "default": "kepler-authority"},
    ),
    "service_mesh": _part(
        enabled=_ENABLED,
        mode=_choice("exclude", "ambient"),
        scrapers={"type": "list", "elements": "str", "default": []},
    ),
}
ADDONS = ArgumentSpec(_PARTS)
