# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets: NodeConfigs resolved to endpoints, and their form in the snapshot."""

from __future__ import annotations

import copy
import datetime
import json
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.nodeconfig import (
    DEFAULT_FETCH_INTERVAL_SECONDS,
    TERMS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.poll import poll_targets
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import (
    Targets,
    of_snapshot,
    resolve,
)
from support.wao import fake, node, node_config, sample

PINS = "ab" * 32 + ", " + "cd" * 32


def redfish(endpoint: str, secret: str = "") -> MutableObject:
    return {"type": "Redfish", "endpoint": endpoint, "basicAuthSecret": {"name": secret}}


def full() -> MutableObject:
    """A NodeConfig with every field that is read."""
    annotations = {
        "wattwise.github.io/fallback-inlet-celsius": "25",
        "wattwise.github.io/tls-fingerprint": PINS,
        "wattwise.github.io/cpu-usage-format": "Raw",
    }
    config = node_config("a", "n1", uid="u", annotations=annotations)
    config["spec"]["metricsCollector"]["inletTemp"] = redfish("https://10.0.0.1", "bmc")
    config["spec"]["metricsCollector"]["deltaP"] = {
        "type": "DifferentialPressureAPI",
        "endpoint": "https://pressure",
        "fetchInterval": "1m",
    }
    config["spec"]["predictor"] = {
        "powerConsumptionEndpointProvider": redfish("https://10.0.0.9/elsewhere"),
    }
    config["status"] = {
        "readings": {"inletTemp": {"celsius": 20.0, "time": "2026-01-31T12:00:00Z"}},
        "sensors": {"vendor": "v"},
        "authentication": {"failures": 2, "lastAttempt": "2026-01-31T12:00:00Z"},
    }
    return config


def of(*configs: MutableObject, nodes: t.Sequence[MutableObject] | None = None) -> Targets:
    if nodes is None:
        nodes = [node(config["spec"]["nodeName"]) for config in configs]
    return resolve(nodes, configs)


def test_targets_are_complete_and_in_the_order_of_nodes() -> None:
    second, first = sample("nodeconfig-provider"), sample("nodeconfig")
    found = of(second, first)
    assert [target.name for target in found.nodes] == ["worker-0", "worker-1"]
    worker = found.nodes[0]
    assert (worker.node_config, worker.namespace) == ("wao-system/worker-0", "wao-system")
    inlet = worker.endpoints["inlet_temp"]
    assert (inlet.type, inlet.endpoint) == ("Redfish", "https://10.0.0.100")
    assert (inlet.fetch_interval_seconds, inlet.secret_name) == (10.0, "worker-0-redfish-basicauth")
    assert [target.endpoints["delta_p"].secret_name for target in found.nodes] == [None, None]
    assert "power_consumption_endpoint_provider" not in worker.endpoints
    provided = found.nodes[1].endpoints
    assert provided["inlet_temp"].fetch_interval_seconds == DEFAULT_FETCH_INTERVAL_SECONDS
    assert provided["power_consumption_endpoint_provider"].secret_name == "bmc"
    predictor = provided["power_consumption"]
    assert (predictor.type, predictor.endpoint, predictor.problem) == ("", "", None)
    assert predictor.secret_name == "predictor-basicauth"


def test_pins_are_those_of_the_bmc_and_of_no_other_server() -> None:
    [target] = of(full()).nodes
    assert target.endpoints["inlet_temp"].tls_fingerprints == ("ab" * 32, "cd" * 32)
    assert target.endpoints["delta_p"].tls_fingerprints == ()
    # Another origin than the BMC's, though of type Redfish.
    assert target.endpoints["power_consumption_endpoint_provider"].tls_fingerprints == ()


def test_fallbacks_status_and_format_stand_in_the_target() -> None:
    [target] = of(full()).nodes
    assert target.fallbacks == {"inlet_celsius": 25.0}
    assert target.cpu_usage_format == "Raw"
    assert target.attempts.failures == 2
    assert target.attempts.last_attempt == datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    assert target.status["sensors"] == {"vendor": "v"}
    assert target.manifest_head == {
        "apiVersion": "wao.bitmedia.co.jp/v1beta1",
        "kind": "NodeConfig",
        "metadata": {"name": "a", "namespace": "wao-system", "uid": "u"},
    }


def test_targets_come_back_from_the_document_as_they_went() -> None:
    bad = node_config("b", "n2", api_version="v9")
    nodes = [node("n1", labels={"hall": "1"}), node("n2")]
    nodes[0]["status"]["capacity"] = {"cpu": "64"}
    given = [full(), bad]
    before = copy.deepcopy((nodes, given))
    found = resolve(nodes, given)
    assert (nodes, given) == before
    body = json.loads(json.dumps(found.as_dict()))
    documents.check(
        {
            "document": "wattwise.kube/snapshot/v1",
            "time": "2026-01-31T12:00:00Z",
            "cluster": {},
            "nodes": nodes,
            "targets": body,
        },
        "snapshot",
        "here",
    )
    assert of_snapshot({"targets": body}) == found
    assert [finding.subject.name for finding in found.findings] == ["b"]


def test_a_snapshot_without_targets_is_refused_with_the_remedy() -> None:
    with pytest.raises(InvalidInput, match="node_configs in include"):
        of_snapshot({"nodes": []})


def test_an_endpoint_that_cannot_be_used_says_why_and_stops_no_other() -> None:
    bad, good = node_config("a", "n1"), node_config("b", "n2")
    bad["spec"]["metricsCollector"]["inletTemp"] = {
        "type": "IPMI",
        "endpoint": "10.0.0.1",
        "fetchInterval": "often",
    }
    first, second = (target.endpoints["inlet_temp"] for target in of(good, bad).nodes)
    assert first.problem and "NodeConfig wao-system/a: spec.metricsCollector" in first.problem
    assert "'IPMI' is not a supported type" in first.problem
    assert first.fetch_interval_seconds == DEFAULT_FETCH_INTERVAL_SECONDS
    assert (second.type, second.problem) == ("Fake", None)


def test_a_node_whose_node_config_cannot_be_read_is_a_target_with_the_reason() -> None:
    found = of(node_config("a", "n", api_version="v1"))
    [target], [finding] = found.nodes, found.findings
    assert target.api_version is None
    assert {kind: one.problem for kind, one in target.endpoints.items()} == {
        "inlet_temp": str(finding),
    }


def test_only_the_node_config_that_counts_gives_endpoints() -> None:
    winner, loser = node_config("a", "n"), node_config("b", "n")
    winner["spec"]["metricsCollector"]["inletTemp"] = fake("one")
    loser["spec"]["metricsCollector"]["inletTemp"] = fake("two")
    [target] = resolve([node("n")], [loser, winner]).nodes
    assert target.endpoints["inlet_temp"].endpoint == "one"


def test_nodes_that_are_gone_are_not_asked() -> None:
    found = of(node_config("a", "n1"), node_config("b", "n2"), nodes=[node("n2")])
    assert [target.name for target in found.nodes] == ["n2"]


def test_a_selector_takes_nodes_by_their_labels() -> None:
    nodes = [node("n1", labels={"hall": "1"}), node("n2", labels={"hall": "2"}), node("n3")]
    nodes[2]["metadata"]["labels"] = ["hall"]
    found = of(*(node_config(name, name) for name in ("n1", "n2", "n3")), nodes=nodes)
    assert [target.name for target in found.selected("hall in (2, 3)").nodes] == ["n2"]
    assert [target.name for target in found.selected("hall!=2").nodes] == ["n1"]
    assert found.selected(None) == found
    with pytest.raises(InvalidInput, match="node_selector"):
        found.selected("hall in")


@pytest.mark.parametrize("kind", TERMS)
@pytest.mark.parametrize("spec", [{"metricsCollector": None, "predictor": "text"}, {}])
def test_node_configs_without_terms_give_no_endpoints(kind: t.Any, spec: MutableObject) -> None:
    config = {**node_config("a", "n"), "spec": {**spec, "nodeName": "n"}}
    assert poll_targets(of(config), kind) == []


def test_readings_hold_for_their_fetch_interval_or_longer_where_that_is_asked_for() -> None:
    targets = resolve([node("n1")], [full()])
    [unchanged], [longer] = (
        poll_targets(targets.holding_at_least(seconds), "delta_p") for seconds in (0.0, 300.0)
    )
    assert (unchanged.interval, longer.interval) == (60.0, 300.0)
    [short] = poll_targets(targets.holding_at_least(30.0), "delta_p")
    assert short.interval == 60.0
