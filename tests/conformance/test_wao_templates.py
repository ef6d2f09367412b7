# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Vectors of wao-core's own tests for templates, and our deviations from its defects."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.nodeconfig import problems
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.templates import render
from support.wao import fake, node, sample, sample_names, template

WORKER_0 = node("worker-0", "10.0.0.1")


def render_inlet(endpoint: str, secret: str) -> MutableObject:
    inlet = {
        "type": "Redfish",
        "endpoint": endpoint,
        "basicAuthSecret": {"name": secret},
        "fetchInterval": "10s",
    }
    return render({"templates": [template("t", inlet)], "nodes": [WORKER_0]})


@pytest.mark.parametrize(
    ("endpoint", "secret", "rendered_endpoint", "rendered_secret"),
    [
        (
            "https://10.0.100.{{.IPv4.Octet4}}",
            "redfish-basicauth-{{.Hostname}}",
            "https://10.0.100.1",
            "redfish-basicauth-worker-0",
        ),
        (
            "https://10.0.{{ add .IPv4.Octet3 10 }}.{{.IPv4.Octet4}}",
            "redfish-basicauth-worker-0",
            "https://10.0.10.1",
            "redfish-basicauth-worker-0",
        ),
    ],
    ids=["ok", "add"],
)
def test_a_term_renders_as_upstream(
    endpoint: str, secret: str, rendered_endpoint: str, rendered_secret: str
) -> None:
    [config] = render_inlet(endpoint, secret)["node_configs"]
    assert config["spec"]["metricsCollector"]["inletTemp"] == {
        "type": "Redfish",
        "endpoint": rendered_endpoint,
        "basicAuthSecret": {"name": rendered_secret},
        "fetchInterval": "10s",
    }
    # Upstream's case "nil": an absent term stays absent.
    assert config["spec"]["predictor"] == {}


def test_partially_fail_is_an_error_instead_of_verbatim_text() -> None:
    """Deviation: upstream leaves the field unchanged and reports nothing."""
    result = render_inlet("https://10.0.100.{{.IPv4.Octet4}}", "redfish-basicauth-{{.Unknown}}")
    assert result["node_configs"] == []
    [error] = result["errors"]
    assert error["field"] == "spec.metricsCollector.inletTemp.basicAuthSecret.name"
    assert "column 21: there is no .Unknown here" in error["detail"]


@pytest.mark.parametrize("empty", ["", "  ", "{{/* nothing */}}"])
def test_an_empty_field_renders_to_itself(empty: str) -> None:
    """Defect B1 is fixed: upstream gives the previous field's text for an empty one."""
    given = sample("nodeconfigtemplate")
    given["spec"]["nodeSelector"] = {}
    collector = given["spec"]["template"]["metricsCollector"]
    collector["inletTemp"] = fake(empty)
    power = given["spec"]["template"]["predictor"]["powerConsumption"]
    power["endpoint"] = empty
    [config] = render({"templates": [given], "nodes": [WORKER_0]})["node_configs"]
    expected = "" if "{" in empty else empty
    assert config["spec"]["metricsCollector"]["inletTemp"] == fake(expected)
    assert config["spec"]["predictor"]["powerConsumption"] == {
        "type": "",
        "endpoint": expected,
        "basicAuthSecret": {"name": "predictor-basicauth"},
    }


def test_the_readme_example_gives_what_sprig_gives() -> None:
    """The arguments of upstream's example are in the wrong order; the result is literal."""
    for text, expected in (
        ('{{ trimPrefix .Hostname "worker-" }}', "worker-"),
        ('{{ trimPrefix "worker-" .Hostname }}', "0"),
    ):
        [config] = render({"templates": [template("t", fake(text))], "nodes": [WORKER_0]})[
            "node_configs"
        ]
        assert config["spec"]["metricsCollector"]["inletTemp"]["endpoint"] == expected


def test_the_controller_suite() -> None:
    labels = {"test-label": "test-label-value"}
    nodes = [node(f"node-{n}", f"10.0.0.10{n}", labels=labels) for n in range(2)]
    configs = render(
        {"templates": [sample("nodeconfigtemplate-suite")], "nodes": [*nodes, WORKER_0]}
    )["node_configs"]
    assert [config["metadata"]["name"] for config in configs] == ["nct0-node-0", "nct0-node-1"]
    for number, config in enumerate(configs):
        address, name = f"10.0.0.10{number}", f"node-{number}"
        term = fake(f"http://{address}/{address}-{name}", fetchInterval="10s")
        assert config["metadata"]["namespace"] == "wao-system"
        assert config["spec"] == {
            "nodeName": name,
            "metricsCollector": {"inletTemp": term, "deltaP": term},
            "predictor": {"powerConsumptionEndpointProvider": term},
        }


def test_the_flat_shape_of_the_first_release_renders() -> None:
    given = sample("nodeconfigtemplate-flat")
    worker = node("worker-0", labels={"node.kubernetes.io/instance-type": "redfish-enabled"})
    [config] = render({"templates": [given], "nodes": [worker]})["node_configs"]
    assert config["metadata"]["name"] == "redfish-enabled-nodes-worker-0"
    assert config["spec"] == {
        "nodeName": "worker-0",
        "metricsCollector": given["spec"]["metricsCollector"],
        "predictor": given["spec"]["predictor"],
    }


TEMPLATES = [name for name in sample_names() if name.startswith("nodeconfigtemplate")]


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_sample_template_renders_to_a_valid_node_config(name: str) -> None:
    given = sample(name)
    labels: dict[str, t.Any] = given["spec"]["nodeSelector"]["matchLabels"]
    result = render({"templates": [given], "nodes": [node("worker-0", "10.0.0.1", labels=labels)]})
    assert result["errors"] == []
    assert [problems(config) for config in result["node_configs"]] == [[]]
