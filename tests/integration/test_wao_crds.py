# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CRDs of WAO's resources on a real API server: accepted, refused and shown fields."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.nodeconfig import (
    API_VERSIONS,
)
from support.kubectl_table import row
from support.wao import DEFINITIONS, in_group, sample, sample_names

PLURALS = {"NodeConfig": "nodeconfigs", "NodeConfigTemplate": "nodeconfigtemplates"}
GROUPS = range(len(API_VERSIONS))


@pytest.fixture(scope="module")
def definitions(kubeconfig: str) -> None:
    """The CRDs, established; they belong to the whole lab and stay."""
    files = [str(path) for path in sorted(DEFINITIONS.glob("*_nodeconfig*.yaml"))]
    apply({"kubeconfig": kubeconfig, "src": files, "wait": True})


def path_of(obj: MutableObject) -> str:
    namespace = obj["metadata"]["namespace"]
    return f"/apis/{obj['apiVersion']}/namespaces/{namespace}/{PLURALS[obj['kind']]}"


def create(kube: Kube, obj: MutableObject) -> MutableObject:
    """Create like kubectl, with strict field validation."""
    return kube.request("POST", path_of(obj), obj, query={"fieldValidation": "Strict"})


def without(obj: MutableObject, *path: str) -> MutableObject:
    inner = obj
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return obj


def with_value(obj: MutableObject, value: t.Any, *path: str) -> MutableObject:
    inner = obj
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
    inner[path[-1]] = value
    return obj


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", sample_names())
def test_every_sample_manifest_is_accepted(
    kube: Kube, namespace: str, name: str, group: int
) -> None:
    obj = in_group(sample(name), group, namespace)
    assert create(kube, obj)["metadata"]["name"] == obj["metadata"]["name"]


@pytest.mark.usefixtures("definitions")
def test_the_fetch_interval_of_collectors_has_upstreams_default(kube: Kube, namespace: str) -> None:
    stored = create(kube, in_group(sample("nodeconfig-provider"), 0, namespace))["spec"]
    assert stored["metricsCollector"]["inletTemp"]["fetchInterval"] == "15s"
    assert "fetchInterval" not in stored["predictor"]["powerConsumption"]


COLLECTOR = ("spec", "metricsCollector", "inletTemp")
PREDICTOR = ("spec", "predictor", "powerConsumption")
DURATION = "must be a duration of more than 0s"
URL = "endpoint must be an http or https URL"
REFUSED_CONFIGS: dict[str, tuple[tuple[str, ...], t.Any, str]] = {
    "a duration in words": ((*COLLECTOR, "fetchInterval"), "10 seconds", DURATION),
    "a duration without unit": ((*COLLECTOR, "fetchInterval"), "10", DURATION),
    "a duration of nothing": ((*COLLECTOR, "fetchInterval"), "0s", DURATION),
    "a negative duration": ((*COLLECTOR, "fetchInterval"), "-10s", DURATION),
    "an unused duration that is none": ((*PREDICTOR, "fetchInterval"), "soon", DURATION),
    "a type in the wrong case": ((*COLLECTOR, "type"), "redfish", "Unsupported value"),
    "a type of another term": ((*PREDICTOR, "type"), "Redfish", "Unsupported value"),
    "an empty type of a collector": ((*COLLECTOR, "type"), "", "Unsupported value"),
    "an empty type without provider": (
        (*PREDICTOR, "type"),
        "",
        "powerConsumptionEndpointProvider",
    ),
    "a URL without scheme": ((*COLLECTOR, "endpoint"), "10.0.0.100", URL),
    "a URL of another scheme": ((*COLLECTOR, "endpoint"), "ftp://10.0.0.100", URL),
    "a URL without host": ((*COLLECTOR, "endpoint"), "https:///redfish", URL),
    "a URL with credentials": ((*COLLECTOR, "endpoint"), "https://root:x@10.0.0.1", URL),
    "a URL with a query": ((*COLLECTOR, "endpoint"), "https://10.0.0.1/?a=b", URL),
    "an unknown field": ((*COLLECTOR, "timeout"), "5s", "unknown field"),
    "an unknown field of the Secret": (
        (*COLLECTOR, "basicAuthSecret", "key"),
        "a",
        "unknown field",
    ),
    "no node": (("spec", "nodeName"), "", "nodeName"),
    "a node name that is none": (("spec", "nodeName"), "Worker_0", "nodeName"),
}


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("case", REFUSED_CONFIGS)
def test_a_bad_node_config_is_refused_with_its_reason(
    kube: Kube, namespace: str, case: str, group: int
) -> None:
    path, value, reason = REFUSED_CONFIGS[case]
    with pytest.raises(ApiError, match=reason):
        create(kube, with_value(in_group(sample("nodeconfig"), group, namespace), value, *path))


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize("group", GROUPS)
def test_a_bmc_is_required_and_pressure_and_predictor_are_not(
    kube: Kube, namespace: str, group: int
) -> None:
    obj = in_group(sample("nodeconfig"), group, namespace)
    with pytest.raises(ApiError, match="inletTemp"):
        create(kube, without(obj, "spec", "metricsCollector", "inletTemp"))
    obj = in_group(sample("nodeconfig"), group, namespace)
    create(kube, without(without(obj, "spec", "metricsCollector", "deltaP"), "spec", "predictor"))
    template = in_group(sample("nodeconfigtemplate"), group, namespace)
    less = without(template, "spec", "template", "metricsCollector", "deltaP")
    create(kube, without(less, "spec", "template", "predictor"))


TEMPLATE_TERM = ("spec", "template", "metricsCollector", "inletTemp")
REFUSED_TEMPLATES: dict[str, tuple[tuple[str, ...], t.Any, str]] = {
    "both shapes": (("spec", "predictor"), {}, "write either template, or"),
    "half of the flat shape beside the other": (
        ("spec", "metricsCollector"),
        {"inletTemp": {"type": "a", "endpoint": ""}, "deltaP": {"type": "a", "endpoint": ""}},
        "write either template, or",
    ),
    "a duration that is none": ((*TEMPLATE_TERM, "fetchInterval"), "{{ .Hostname }}", DURATION),
    "an unknown field": ((*TEMPLATE_TERM, "timeout"), "5s", "unknown field"),
    "an operator that is none": (
        ("spec", "nodeSelector", "matchExpressions"),
        [{"key": "a", "operator": "Equals", "values": ["b"]}],
        "Unsupported value",
    ),
    "In without values": (
        ("spec", "nodeSelector", "matchExpressions"),
        [{"key": "a", "operator": "In"}],
        "In and NotIn need values",
    ),
    "Exists with values": (
        ("spec", "nodeSelector", "matchExpressions"),
        [{"key": "a", "operator": "Exists", "values": ["b"]}],
        "In and NotIn need values",
    ),
}


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("case", REFUSED_TEMPLATES)
def test_a_bad_template_is_refused_with_its_reason(
    kube: Kube, namespace: str, case: str, group: int
) -> None:
    path, value, reason = REFUSED_TEMPLATES[case]
    obj = in_group(sample("nodeconfigtemplate"), group, namespace)
    with pytest.raises(ApiError, match=reason):
        create(kube, with_value(obj, value, *path))


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize(
    ("name", "path", "reason"),
    [
        ("nodeconfigtemplate", ("spec", "nodeSelector"), "nodeSelector"),
        ("nodeconfigtemplate", ("spec", "template"), "write either template, or"),
        ("nodeconfigtemplate-flat", ("spec", "metricsCollector"), "goes together"),
    ],
)
def test_a_template_without_selector_or_shape_is_refused(
    kube: Kube, namespace: str, name: str, path: tuple[str, ...], reason: str
) -> None:
    obj = without(in_group(sample(name), 0, namespace), *path)
    with pytest.raises(ApiError, match=reason):
        create(kube, obj)


STATUS: MutableObject = {
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Read",
            "message": "Inlet temperature and differential pressure were read.",
            "lastTransitionTime": "2026-11-21T10:00:00Z",
        }
    ],
    "readings": {
        "inletTemp": {"celsius": 23.5, "time": "2026-11-21T10:00:00Z"},
        "deltaP": {"pascals": 7.25, "time": "2026-11-21T10:00:00Z"},
        "power": {"watts": 212, "time": "2026-11-21T10:00:00Z"},
    },
    "sensors": {
        "vendor": "Dell",
        "inletTemp": {"uri": "/redfish/v1/Chassis/1/Sensors/Inlet", "name": "Inlet"},
        "power": {"uri": "/redfish/v1/Chassis/1/EnvironmentMetrics"},
        "system": {
            "manufacturer": "Dell Inc.",
            "model": "PowerEdge R6515",
            "processor": "AMD EPYC 7702P",
            "sockets": 1,
            "cores": 64,
        },
    },
    "authentication": {
        "failures": 1,
        "lastAttempt": "2026-11-21T10:00:00Z",
        "secretResourceVersion": "417",
    },
}


@pytest.mark.usefixtures("definitions")
def test_the_status_is_written_through_its_subresource_and_shown_in_columns(
    kube: Kube, kubeconfig: str, namespace: str
) -> None:
    config = create(kube, in_group(sample("nodeconfig"), 0, namespace))
    identity = {"name": config["metadata"]["name"], "namespace": namespace}
    status = {**in_group(sample("nodeconfig"), 0), "metadata": identity, "status": STATUS}
    del status["spec"]
    apply({"kubeconfig": kubeconfig, "manifests": [status], "status": True})
    assert kube.get(f"{path_of(config)}/{identity['name']}")["status"] == STATUS
    assert row(kubeconfig, path_of(config))[:6] == ["worker-0", "Redfish", "True", 23.5, 7.25, 212]


@pytest.mark.usefixtures("definitions")
def test_conditions_of_two_writers_stand_side_by_side(
    kube: Kube, kubeconfig: str, namespace: str
) -> None:
    template = create(kube, in_group(sample("nodeconfigtemplate"), 0, namespace))
    identity = {"name": template["metadata"]["name"], "namespace": namespace}
    for kind in ("Rendered", "Other"):
        condition = {"type": kind, "status": "True", "reason": "Test", "message": "x"}
        status = {
            "apiVersion": API_VERSIONS[0],
            "kind": "NodeConfigTemplate",
            "metadata": identity,
            "status": {"matchedNodes": 3, "conditions": [condition]},
        }
        apply(
            {
                "kubeconfig": kubeconfig,
                "manifests": [status],
                "status": True,
                "field_manager": f"test-{kind.lower()}",
            }
        )
    stored = kube.get(f"{path_of(template)}/{identity['name']}")["status"]
    assert {condition["type"] for condition in stored["conditions"]} == {"Rendered", "Other"}
    assert row(kubeconfig, path_of(template))[:2] == [3, "True"]
