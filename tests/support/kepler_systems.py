# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KeplerSystems and Nodes to try them on, without a cluster."""

from __future__ import annotations

import typing as t
from random import Random

import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment import manifests
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.groups import (
    Group,
    group,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.nodes import (
    JudgedNode,
    judge_all,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.options import (
    LOG_LEVELS,
    METRIC_LEVELS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.system import (
    System,
    read_system,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.labels import (
    METER_LABEL,
    SUPPORTED_LABEL,
)

Json = dict[str, t.Any]

IMAGE = {"repository": "registry.example/kepler"}


def system(**spec: t.Any) -> System:
    """The system kepler in namespace kepler."""
    return read_system("kepler", "kepler", {"image": IMAGE, **spec})


def node(
    name: str,
    architecture: str = "amd64",
    *,
    metal: bool = True,
    labels: t.Mapping[str, str] | None = None,
    annotations: t.Mapping[str, str] | None = None,
) -> Json:
    """A Node as its kubelet and cloud provider create it."""
    info = {"architecture": architecture, "operatingSystem": "linux", "kernelVersion": "6.1.0"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/arch": architecture, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": {"providerID": f"metal3://metal/{name}" if metal else f"aws:///zone/{name}"},
        "status": {"nodeInfo": info},
    }


def labels_of(meter: str, *, supported: bool = True) -> dict[str, str]:
    """The probe's labels for a node."""
    return {METER_LABEL: meter, SUPPORTED_LABEL: "true" if supported else "false"}


def judged(wanted: System, nodes: t.Iterable[t.Any]) -> tuple[list[JudgedNode], list[Group]]:
    """The verdicts on readable nodes, and the groups of the nodes."""
    found, findings = judge_all(wanted, nodes)
    assert not findings
    return found, group(wanted, found)


def selected_by(terms: t.Sequence[Json], name: str, labels: t.Mapping[str, str]) -> bool:
    """Whether a node matches one of the terms of a node affinity, by Kubernetes' rules."""
    return any(
        all(_meets(each, labels.get(each["key"])) for each in term.get("matchExpressions", []))
        and all(_meets(each, name) for each in term.get("matchFields", []))
        for term in terms
        # A term without any requirement selects nothing.
        if term.get("matchExpressions") or term.get("matchFields")
    )


def _meets(requirement: Json, value: str | None) -> bool:
    inside = value is not None and value in requirement.get("values", ())
    operators = {"In": inside, "NotIn": not inside, "DoesNotExist": value is None}
    return operators[requirement["operator"]]


VERSIONS = (
    "0.10.0",
    "0.10.1",
    "0.10.2",
    "0.11.0",
    "0.11.1",
    "0.11.2",
    "0.11.3",
    "0.11.4",
    "0.11.5",
)
_LATE = ("0.11.4", "0.11.5")
_DURATIONS = ("5s", "1500ms", " 2s ", "+3s", "1m30s", "0.5s", "2h")


def random_spec(random: Random) -> Json:
    """A valid spec of Kepler 0.10 or later; two of five have the scope cluster."""
    version = random.choice(VERSIONS)
    is_late = version in _LATE
    spec: Json = {
        "version": version,
        "image": IMAGE,
        "scope": random.choice(("minimum", "minimum", "minimum", "cluster", "cluster")),
        "collector": {**_random_collector(random, version), **_random_place(random)},
        "security": {"mode": random.choice(("none", "tls", "mtls"))},
    }
    if is_late and random.random() < 0.3:
        spec["collector"]["pod_informer"] = "kubelet"
    if version >= "0.11" and random.random() < 0.3:
        spec["redfish"] = {"enabled": True, "fake_cpu_meter": random.random() < 0.5}
    if random.random() < 0.3:
        pool = {
            "name": "fast",
            "node_selector": {"pool": "fast"},
            "collector": _random_collector(random, version),
        }
        spec["pools"] = [pool]
    return spec


def _random_place(random: Random) -> Json:
    return {"port": random.choice((1024, 28282, 65535))} if random.random() < 0.3 else {}


def _random_collector(random: Random, version: str) -> Json:
    """Some settings of a collector, each with a chance."""
    choices: Json = {
        "sample_rate": random.choice(_DURATIONS),
        "staleness": random.choice((*_DURATIONS, "0", "0s")),
        "metric_levels": random.sample(METRIC_LEVELS, random.randint(1, 5)),
        "log_level": random.choice(LOG_LEVELS),
        "max_terminated": random.choice((-1, 0, 7)),
        "additional_config": _random_additional(random, version),
    }
    return {name: value for name, value in choices.items() if random.random() < 0.4}


def _random_additional(random: Random, version: str) -> Json:
    """Some keys that no option sets, each with a chance."""
    more: Json = {
        "log": {"format": "json"},
        "monitor": {"minTerminatedEnergyThreshold": random.choice((0, 10))},
        "rapl": {"zones": random.sample(("package", "dram", "package-0-die-1"), 2)},
        "exporter": {"prometheus": {"debugCollectors": random.choice(([], ["go", "process"]))}},
        "debug": {"pprof": {"enabled": True}},
        "dev": {"fake-cpu-meter": {"zones": ["package"]}},
    }
    if version in _LATE:
        rule = {"name": "ina3221", "pairings": {"1": 2}, "skipVoltages": [4]}
        more["experimental"] = {"hwmon": {"zones": ["vdd"], "chipRules": [rule]}}
        more["kube"] = {"podInformer": {"pollInterval": random.choice(_DURATIONS)}}
    return {name: value for name, value in more.items() if random.random() < 0.4}


# Nodes of each meter, with and without the pool's label.
METERED = tuple(
    node(f"{meter}-{pool or 'rest'}", labels={**labels_of(meter), **pools})
    for meter in ("rapl", "hwmon", "redfish")
    for pool, pools in (("", {}), ("fast", {"pool": "fast"}))
)


class Started(t.NamedTuple):
    """How a DaemonSet starts Kepler; ``files`` are what its container can read."""

    config: Json
    arguments: list[str]
    files: frozenset[str]


def started(wanted: System, nodes: t.Sequence[Json] = METERED) -> list[Started]:
    """The starts of all groups of the system on these nodes."""
    _nodes, groups = judged(wanted, nodes)
    by_kind: dict[tuple[str, str], Json] = {
        (each["kind"], each["metadata"]["name"]): each
        for each in manifests.in_namespace(wanted, groups)
    }
    found: list[Started] = []
    for (kind, _name), manifest in by_kind.items():
        if kind != "DaemonSet":
            continue
        pod = manifest["spec"]["template"]["spec"]
        [container] = pod["containers"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        texts: dict[str, str] = {}
        files: set[str] = set()
        for mount in container["volumeMounts"]:
            volume, folder = volumes[mount["name"]], mount["mountPath"]
            if "configMap" in volume:
                data = by_kind["ConfigMap", volume["configMap"]["name"]]["data"]
                texts.update({f"{folder}/{name}": text for name, text in data.items()})
            elif "secret" in volume:
                files |= {f"{folder}/{item['path']}" for item in volume["secret"]["items"]}
            else:
                files.add(folder)
        arguments = [each.replace("$(NODE_NAME)", "n1") for each in container["args"]]
        [path] = [each[14:] for each in arguments if each.startswith("--config.file=")]
        config = yaml.safe_load(texts[path])
        found.append(Started(config, arguments, frozenset(files | texts.keys())))
    return found
