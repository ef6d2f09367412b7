# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The configuration of collectors: config.yaml, or the variables of Kepler 0.9 and earlier."""

from __future__ import annotations

import math
import typing as t

from ...base.libraries import yaml
from ...base.units import parse_duration
from .keys import known_keys
from .system import Collector, System

TLS_FOLDER = "/etc/kepler/tls"
CLIENT_AUTHORITY_FOLDER = "/etc/kepler/client-authority"
REDFISH_FOLDER = "/etc/kepler/redfish"
FOLDER = "/etc/kepler/configuration"
OLD_FOLDER = "/etc/kepler/kepler.config"
MODEL_SERVER_PORT = 8100

_VERBOSITY = {"error": "0", "warn": "0", "info": "1", "debug": "5"}


def files(system: System, collector: Collector, meter: str) -> dict[str, str]:
    """The data of the ConfigMap of one group of nodes with this meter."""
    if system.version.uses_ebpf:
        return {**_variables(system, collector), **collector.additional}
    found = {"config.yaml": _dumped(tree(system, collector, meter))}
    if system.has_tls:
        found["web.yaml"] = _dumped(_web(system))
    return found


def tree(system: System, collector: Collector, meter: str) -> dict[str, t.Any]:
    """The content of config.yaml, with every key that the version knows."""
    known = known_keys(system.version)
    values = {path: key.default for path, key in known.items()}
    values.update(collector.additional)
    values.update(
        {
            path: value
            for path, value in _settings(system, collector, meter).items()
            if path in known
        }
    )
    if "cpu.preferredMeters" in known:
        # Deprecated by the key above.
        values["dev.fake-cpu-meter.enabled"] = False
    found: dict[str, t.Any] = {}
    for path, value in values.items():
        *folders, name = path.split(".")
        place = found
        for folder in folders:
            place = place.setdefault(folder, {})
        place[name] = value
    return found


def _settings(system: System, collector: Collector, meter: str) -> dict[str, t.Any]:
    is_fake = meter == "redfish"
    return {
        "log.level": collector.log_level,
        "host.sysfs": "/host/sys",
        "host.procfs": "/host/proc",
        "monitor.interval": collector.sample_rate,
        "monitor.staleness": collector.staleness,
        "monitor.maxTerminated": collector.max_terminated,
        "cpu.preferredMeters": ["fake"] if is_fake else [meter],
        "exporter.prometheus.metricsLevel": list(collector.metric_levels),
        "web.configFile": f"{FOLDER}/web.yaml" if system.has_tls else "",
        "web.listenAddresses": [f":{system.port}"],
        # A flag enables it: Kepler checks the file before flags, one of which names the node.
        "kube.enabled": False,
        "kube.podInformer.mode": system.pod_informer,
        "dev.fake-cpu-meter.enabled": is_fake,
        "experimental.platform.redfish.enabled": bool(system.redfish_secret),
        "experimental.platform.redfish.configFile": (
            f"{REDFISH_FOLDER}/redfish.yaml" if system.redfish_secret else ""
        ),
        # Since the version with preferred meters, this key would override them.
        "experimental.hwmon.enabled": meter == "hwmon",
    }


def _web(system: System) -> dict[str, t.Any]:
    """The file of the Prometheus exporter toolkit."""
    found: dict[str, t.Any] = {
        "cert_file": f"{TLS_FOLDER}/tls.crt",
        "key_file": f"{TLS_FOLDER}/tls.key",
        "min_version": "TLS12",
    }
    if system.security_mode == "mtls":
        found["client_auth_type"] = "RequireAndVerifyClientCert"
        found["client_ca_file"] = f"{CLIENT_AUTHORITY_FOLDER}/ca.crt"
    return {"tls_server_config": found}


def _variables(system: System, collector: Collector) -> dict[str, str]:
    levels = collector.metric_levels
    found = {
        "KEPLER_NAMESPACE": system.namespace,
        "KEPLER_LOG_LEVEL": _VERBOSITY[collector.log_level],
        "METRIC_PATH": "/metrics",
        "BIND_ADDRESS": f"0.0.0.0:{system.port}",
        "SAMPLE_PERIOD_SEC": str(max(1, math.ceil(parse_duration(collector.sample_rate)))),
        "ENABLE_API_SERVER": _word(system.is_cluster_wide),
        "ENABLE_PROCESS_METRICS": _word("process" in levels),
        "EXPOSE_CONTAINER_METRICS": _word("container" in levels or "pod" in levels),
        "EXPOSE_VM_METRICS": _word("vm" in levels),
        "MODEL_SERVER_ENABLE": _word(system.model_server.enabled),
        "MODEL_CONFIG": _model_config(system),
    }
    if system.model_server.enabled:
        name = f"{system.name}-model-server"
        found["MODEL_SERVER_URL"] = f"http://{name}.{system.namespace}.svc:{MODEL_SERVER_PORT}"
        found["MODEL_SERVER_PORT"] = str(MODEL_SERVER_PORT)
    return found


def _model_config(system: System) -> str:
    estimator = system.estimator
    lines = [f"CONTAINER_COMPONENTS_ESTIMATOR={_word(False)}"]
    if estimator.enabled:
        for name, url in zip(("NODE_TOTAL", "NODE_COMPONENTS"), estimator.urls):
            lines.append(f"{name}_ESTIMATOR={_word(True)}")
            lines += [f"{name}_INIT_URL={url}"] if url else []
    return "\n".join(lines) + "\n"


def _word(value: bool) -> str:
    return "true" if value else "false"


def _dumped(value: t.Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, default_flow_style=False)
