# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Options of a KeplerSystem: the spec of the resource in the words of module options.

The fields of the CRD are these options in camelCase; scripts/options has the rest of them.
"""

from __future__ import annotations

from ...base.argspec import ArgumentSpec, Options

API_VERSION = "kepler.system.sustainable.computing.io/v1alpha1"
KIND = "KeplerSystem"

SCOPES = ("minimum", "cluster")
METERS = ("auto", "rapl", "hwmon")
METRIC_LEVELS = ("node", "process", "container", "vm", "pod")
LOG_LEVELS = ("debug", "info", "warn", "error")
POD_INFORMERS = ("apiserver", "kubelet")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
SECURITY_MODES = ("none", "tls", "mtls")

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
    "meter": {"type": "str", "default": "auto", "choices": list(METERS)},
    "sample_rate": {"type": "str", "default": "5s"},
    "staleness": {"type": "str", "default": "500ms"},
    "metric_levels": {
        "type": "list",
        "elements": "str",
        "choices": list(METRIC_LEVELS),
    },
    "log_level": {"type": "str", "default": "info", "choices": list(LOG_LEVELS)},
    "max_terminated": {"type": "int", "default": 500},
    "resources": {"type": "dict", "default": _RESOURCES},
    "tolerations": {"type": "list", "elements": "dict", "default": [{"operator": "Exists"}]},
    "additional_config": {"type": "dict", "default": {}},
}
_COLLECTOR: Options = {
    **_OF_POOLS,
    "port": {"type": "int"},
    "pod_informer": {"type": "str", "default": "apiserver", "choices": list(POD_INFORMERS)},
    "node_selector": {"type": "dict", "default": {}},
}
_MODEL_PART: Options = {
    "enabled": {"type": "bool", "default": False},
    "image": {"type": "str", "default": ""},
    "resources": {"type": "dict", "default": _MODEL_RESOURCES},
}

SYSTEM = ArgumentSpec(
    {
        "version": {"type": "str", "default": "0.11.4"},
        "image": {
            "type": "dict",
            "required": True,
            "options": {
                "repository": {"type": "str", "required": True},
                "tag": {"type": "str", "default": ""},
                "pull_policy": {
                    "type": "str",
                    "default": "IfNotPresent",
                    "choices": list(PULL_POLICIES),
                },
                "pull_secrets": {
                    "type": "list",
                    "elements": "str",
                    "no_log": False,
                    "default": [],
                },
                "by_architecture": {
                    "type": "list",
                    "elements": "dict",
                    "default": [],
                    "options": {
                        "architecture": {"type": "str", "required": True},
                        "repository": {"type": "str", "default": ""},
                        "tag": {"type": "str", "default": ""},
                    },
                },
            },
        },
        "scope": {"type": "str", "default": "minimum", "choices": list(SCOPES)},
        "collector": {"type": "dict", "default": {}, "options": _COLLECTOR},
        "pools": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "name": {"type": "str", "required": True},
                "node_selector": {"type": "dict", "required": True},
                "collector": {
                    "type": "dict",
                    "default": {},
                    "options": {
                        name: {key: value for key, value in option.items() if key != "default"}
                        for name, option in _OF_POOLS.items()
                    },
                },
            },
        },
        "estimator": {
            "type": "dict",
            "default": {},
            "options": {
                **_MODEL_PART,
                "command": {"type": "list", "elements": "str", "default": ["estimator"]},
                "node_total_url": {"type": "str", "default": ""},
                "node_components_url": {"type": "str", "default": ""},
            },
        },
        "model_server": {
            "type": "dict",
            "default": {},
            "options": {
                **_MODEL_PART,
                "command": {"type": "list", "elements": "str", "default": ["model-server"]},
            },
        },
        "security": {
            "type": "dict",
            "default": {},
            "options": {
                "mode": {"type": "str", "default": "none", "choices": list(SECURITY_MODES)},
                "server_secret": {"type": "str", "no_log": False, "default": "kepler-server"},
                "client_authority_secret": {
                    "type": "str",
                    "no_log": False,
                    "default": "kepler-client-authority",
                },
            },
        },
        "redfish": {
            "type": "dict",
            "default": {},
            "options": {
                "enabled": {"type": "bool", "default": False},
                "secret": {"type": "str", "no_log": False, "default": "kepler-redfish"},
                "fake_cpu_meter": {"type": "bool", "default": False},
            },
        },
        "scrape_namespaces": {"type": "list", "elements": "str", "default": []},
    }
)
