# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of WAO for tests: the sample manifests, and small ones created here."""

from __future__ import annotations

import copy
import typing as t
from pathlib import Path

import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.nodeconfig import (
    API_VERSIONS,
)

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tests" / "conformance" / "wao"
DEFINITIONS = ROOT / "roles" / "crds" / "files"


def sample(name: str) -> MutableObject:
    """The sample manifest of this name, freshly read."""
    loaded: MutableObject = yaml.safe_load((SAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
    return copy.deepcopy(loaded)  # without the aliases that anchors leave behind


def sample_names() -> list[str]:
    """Every sample manifest."""
    return sorted(path.stem for path in SAMPLES.glob("*.yaml"))


def in_group(obj: MutableObject, group: int, namespace: str | None = None) -> MutableObject:
    """The object in another API group and namespace."""
    metadata = {**obj["metadata"], **({"namespace": namespace} if namespace else {})}
    return {**obj, "apiVersion": API_VERSIONS[group], "metadata": metadata}


def node(
    name: str,
    *addresses: str,
    labels: t.Mapping[str, str] | None = None,
    annotations: t.Mapping[str, str] | None = None,
) -> MutableObject:
    """A Node with these internal addresses; its host name is its name."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "status": {
            "addresses": [
                {"type": "Hostname", "address": name},
                *({"type": "InternalIP", "address": address} for address in addresses),
            ]
        },
    }


def fake(endpoint: str = "", **more: t.Any) -> MutableObject:
    """An endpoint of type Fake."""
    return {"type": "Fake", "endpoint": endpoint, **more}


def node_config(name: str, node_name: str, **metadata: t.Any) -> MutableObject:
    """A NodeConfig with fake collectors."""
    return {
        "apiVersion": metadata.pop("api_version", API_VERSIONS[0]),
        "kind": "NodeConfig",
        "metadata": {"name": name, "namespace": "wao-system", **metadata},
        "spec": {
            "nodeName": node_name,
            "metricsCollector": {"inletTemp": fake(), "deltaP": fake()},
            "predictor": {},
        },
    }


def template(name: str, inlet: MutableObject | None = None, **metadata: t.Any) -> MutableObject:
    """A NodeConfigTemplate that selects every node."""
    return {
        "apiVersion": metadata.pop("api_version", API_VERSIONS[0]),
        "kind": "NodeConfigTemplate",
        "metadata": {"name": name, "namespace": "wao-system", **metadata},
        "spec": {
            "nodeSelector": {},
            "template": {
                "metricsCollector": {"inletTemp": inlet or fake(), "deltaP": fake()},
                "predictor": {},
            },
        },
    }
