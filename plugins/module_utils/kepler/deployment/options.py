# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Options of a KeplerSystem: the spec of the resource in the words of module options."""

from __future__ import annotations

from ...base.argspec import ArgumentSpec, Options
from .. import option

API_VERSION = "kepler.system.sustainable.computing.io/v1alpha1"
KIND = "KeplerSystem"

METRIC_LEVELS = ("node", "process", "container", "vm", "pod")
LOG_LEVELS = ("debug", "info", "warn", "error")
POD_INFORMERS = ("apiserver", "kubelet")

# A container writes logs only, of which kubelets keep 50 MiB by default; a model server also keeps
# models.
_RESOURCES = {
    "requests": {"cpu": "100m", "memory": "200Mi", "ephemeral-storage": "16Mi"},
    "limits": {"memory": "400Mi", "ephemeral-storage": "128Mi"},
}
_MODEL_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "256Mi", "ephemeral-storage": "64Mi"},
    "limits": {"memory": "1Gi", "ephemeral-storage": "1Gi"},
}

# Settings that a node pool may override; in a pool they have no default. The default of the levels
# depends on the scope.
_OF_POOLS: Options = {
    "meter": option.choice("auto", "rapl", "hwmon"),
    "sample_rate": option.text("5s"),
    "staleness": option.text("500ms"),
    "metric_levels": {"type": "list", "elements": "str", "choices": list(METRIC_LEVELS)},
    "log_level": {**option.choice(*LOG_LEVELS), "default": "info"},
    "max_terminated": {"type": "int", "default": 500},
    "resources": option.mapping(_RESOURCES),
    "tolerations": {"type": "list", "elements": "dict", "default": [{"operator": "Exists"}]},
    "additional_config": option.mapping({}),
}
_POOL: Options = {
    name: {key: value for key, value in each.items() if key != "default"}
    for name, each in _OF_POOLS.items()
}
_BY_ARCHITECTURE: Options = {
    "architecture": {"type": "str", "required": True},
    "repository": option.text(),
    "tag": option.text(),
}


def _listed(options: Options) -> option.Option:
    return {"type": "list", "elements": "dict", "default": [], "options": options}


def _model_part(command: str, **options: option.Option) -> option.Option:
    """The estimator or the model server of Kepler 0.9 and earlier."""
    return option.part(
        enabled=option.flag(),
        image=option.text(),
        resources=option.mapping(_MODEL_RESOURCES),
        command=option.texts(command),
        **options,
    )


SYSTEM = ArgumentSpec(
    {
        "version": option.text("0.11.4"),
        "image": {
            "type": "dict",
            "required": True,
            "options": {
                "repository": {"type": "str", "required": True},
                "tag": option.text(),
                "pull_policy": {
                    **option.choice("Always", "IfNotPresent", "Never"),
                    "default": "IfNotPresent",
                },
                "pull_secrets": {**option.texts(), "no_log": False},
                "by_architecture": _listed(_BY_ARCHITECTURE),
            },
        },
        "scope": option.choice("minimum", "cluster"),
        "collector": option.part(
            **_OF_POOLS,
            port={"type": "int"},
            pod_informer=option.choice(*POD_INFORMERS),
            node_selector=option.mapping({}),
        ),
        "pools": _listed(
            {
                "name": {"type": "str", "required": True},
                "node_selector": {"type": "dict", "required": True},
                "collector": option.part(**_POOL),
            }
        ),
        "estimator": _model_part(
            "estimator", node_total_url=option.text(), node_components_url=option.text()
        ),
        "model_server": _model_part("model-server"),
        "security": option.part(
            mode=option.choice("none", "tls", "mtls"),
            server_secret=option.secret("kepler-server"),
            client_authority_secret=option.secret("kepler-client-authority"),
        ),
        "redfish": option.part(
            enabled=option.flag(),
            secret=option.secret("kepler-redfish"),
            fake_cpu_meter=option.flag(),
        ),
        "scrape_namespaces": option.texts(),
    }
)
