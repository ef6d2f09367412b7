# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Fluent Bit, the agent of add-on logging without an operator."""

from __future__ import annotations

import hashlib
import typing as t
import urllib.parse

from ...base.json_types import MutableObject
from ...base.libraries import yaml
from ...base.manifests import Manifest
from ..deployment.names import HASH_ANNOTATION
from . import names, telemetry
from .spec import Addons, Logging

_COMPONENT, _PART = "logging", "logs"
_FOLDER = "/fluent-bit/configuration"


def manifests(addons: Addons, wanted: Logging) -> t.Iterator[Manifest]:
    """A DaemonSet and its configuration."""
    data = {"fluent-bit.yaml": yaml.safe_dump(_configuration(addons, wanted), sort_keys=False)}
    labels = names.pod_labels(addons, _COMPONENT)
    digest = hashlib.sha256(data["fluent-bit.yaml"].encode()).hexdigest()[:16]
    template = {
        "metadata": {"labels": labels, "annotations": {HASH_ANNOTATION: digest}},
        "spec": _pod(addons, wanted),
    }
    yield names.manifest(addons, ("v1", "ConfigMap"), _PART, _COMPONENT, data=data)
    spec = {"selector": {"matchLabels": labels}, "template": template}
    yield names.manifest(addons, ("apps/v1", "DaemonSet"), _PART, _COMPONENT, spec=spec)


def _configuration(addons: Addons, wanted: Logging) -> MutableObject:
    tail = {
        "name": "tail",
        "tag": "kepler",
        "path": telemetry.log_files(addons),
        "path_key": "log.file.path",
        "multiline.parser": "cri",
        "mem_buf_limit": "8MB",
        "skip_long_lines": True,
    }
    pipeline = {"inputs": [tail], "outputs": [_output(wanted)]}
    return {"service": {"flush": 5, "log_level": "info"}, "pipeline": pipeline}


def _output(wanted: Logging) -> MutableObject:
    url = urllib.parse.urlsplit(wanted.endpoint)
    is_tls = url.scheme == "https"
    found: MutableObject = {
        "match": "*",
        "host": url.hostname,
        "port": url.port or (443 if is_tls else 80),
        "tls": is_tls,
        "tls.verify": True,
    }
    if wanted.backend == "elasticsearch":
        found.update(name="es", index="kepler", suppress_type_name=True)
        found.update({"path": url.path} if url.path else {})
    else:
        found.update(name="loki", uri=f"{url.path}/loki/api/v1/push", labels="job=kepler")
    if wanted.credential_secret:
        found.update(http_user="${LOG_USERNAME}", http_passwd="${LOG_PASSWORD}")
    return found


def _pod(addons: Addons, wanted: Logging) -> MutableObject:
    container: MutableObject = {
        "name": "fluent-bit",
        "image": wanted.image,
        "args": [f"--config={_FOLDER}/fluent-bit.yaml"],
        "resources": dict(wanted.resources),
        "securityContext": telemetry.UNPRIVILEGED,
        "volumeMounts": [
            telemetry.log_mount(),
            {"name": "configuration", "mountPath": _FOLDER, "readOnly": True},
        ],
    }
    if wanted.credential_secret:
        container["env"] = telemetry.credentials(wanted.credential_secret)
    configuration = {"name": names.object_name(addons, _PART)}
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        # Log files belong to root.
        "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [
            telemetry.log_volume(),
            {"name": "configuration", "configMap": configuration},
        ],
    }
