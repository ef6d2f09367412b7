# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin node_configs, by ansible-inventory against a scripted API."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kepler.labels import METER_LABEL
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.node_inventory import (
    node_hosts,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.manifests import DEFAULT_SELECTOR
from support.inventory import run_inventory
from support.scripted_api import Asked, Reply, ScriptedApi, status_reply

Json = dict[str, t.Any]
RDT = next(iter(DEFAULT_SELECTOR))


def node(name: str, labels: Json | None = None, *addresses: str, **more: t.Any) -> Json:
    return {
        "metadata": {"name": name, "labels": labels or {}, **more},
        "spec": {},
        "status": {
            "addresses": [{"type": "InternalIP", "address": item} for item in addresses],
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"},
            "allocatable": {"cpu": "32"},
        },
    }


def node_config(node_name: str, template: str | None = None, **more: t.Any) -> Json:
    labels = {"wattwise.github.io/template": template} if template else {}
    return {
        "apiVersion": "wao.bitmedia.co.jp/v1beta1",
        "kind": "NodeConfig",
        "metadata": {"name": f"c-{node_name}", "namespace": "wao-system", "labels": labels, **more},
        "spec": {"nodeName": node_name, "metricsCollector": {}, "predictor": {}},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "readings": {"inletTemp": {"celsius": 28.5, "time": "2026-01-31T12:00:00Z"}},
        },
    }


NODES = [
    node("n1", {"wattwise.github.io/rack": "r1.a"}, "fd00::1", "10.0.0.1"),
    node("n2", {"topology.kubernetes.io/zone": "r2", "tier": "gpu"}, "fd00::2"),
    node("n3"),
]
CONFIGS = [node_config("n1", "dell"), node_config("n2")]


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    """Three nodes, two NodeConfigs; label selectors are tested on real servers."""

    def script(asked: Asked) -> Reply:
        path = asked.path.partition("?")[0]
        lists = {
            "/api/v1/nodes": NODES,
            "/apis/wao.bitmedia.co.jp/v1beta1/nodeconfigs": CONFIGS,
        }
        if path not in lists:
            return status_reply(404, "not found")
        return Reply({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": lists[path]})

    with ScriptedApi(script) as opened:
        yield opened


def test_nodes_are_hosts_with_variables_and_groups(api: ScriptedApi, tmp_path: Path) -> None:
    run = run_inventory(tmp_path, host=api.url)
    assert run.returncode == 0, run.messages
    assert run.groups == {
        "nodes",
        "rack_r1_a",
        "rack_r2",
        "architecture_amd64",
        "template_dell",
    }
    assert run.members("nodes") == run.members("architecture_amd64") == ["n1", "n2", "n3"]
    assert run.members("rack_r1_a") == run.members("template_dell") == ["n1"]
    first = run.hosts["n1"]
    assert first["ansible_host"] == "10.0.0.1"
    assert first["node_rack"] == "r1.a"
    assert first["node_ready"] is True
    assert first["node_unschedulable"] is False
    assert first["node_allocatable"] == {"cpu": "32"}
    assert first["node_config_name"] == "c-n1"
    assert first["node_config_namespace"] == "wao-system"
    assert first["node_config_ready"] is True
    assert first["node_config_readings"]["inletTemp"]["celsius"] == 28.5
    assert run.hosts["n2"]["ansible_host"] == "fd00::2"
    assert not run.hosts["n2"].keys() & {"node_config_template"}
    assert not run.hosts["n3"].keys() & {"ansible_host", "node_rack", "node_config_name"}


def test_options_choose_hosts_names_and_groups(api: ScriptedApi, tmp_path: Path) -> None:
    run = run_inventory(
        tmp_path,
        "hall-1.node_configs.yaml",
        host=api.url,
        configured_only=True,
        name_prefix="hall-1-",
        node_group="hall-1",
        node_selector="tier in (gpu, cpu)",
        rack_labels=["tier"],
    )
    assert run.members("hall_1") == ["hall-1-n1", "hall-1-n2"]
    assert run.hosts["hall-1-n1"]["node_name"] == "n1"
    assert run.members("rack_gpu") == ["hall-1-n2"]
    asked = [item.path for item in api.asked if item.path.startswith("/api/v1/nodes?")]
    assert "labelSelector=tier+in+%28gpu%2C+cpu%29" in asked[0] or "tier%20in" in asked[0]


def test_compose_groups_and_keyed_groups_see_the_variables(
    api: ScriptedApi, tmp_path: Path
) -> None:
    run = run_inventory(
        tmp_path,
        host=api.url,
        compose={
            "inlet_celsius": "node_config_readings.inletTemp.celsius",
            "ansible_user": "'ops'",
        },
        groups={
            "hot": "inlet_celsius | default(0) | float > 27",
            "bare": "node_config_name is not defined",
        },
        keyed_groups=[{"key": "node_labels.tier", "prefix": "tier"}],
    )
    assert run.returncode == 0, run.messages
    assert run.members("hot") == ["n1", "n2"]
    assert run.members("bare") == ["n3"]
    assert run.members("tier_gpu") == ["n2"]
    # ansible-core before 2.19 makes texts of composed numbers.
    assert float(run.hosts["n1"]["inlet_celsius"]) == 28.5
    assert run.hosts["n3"]["ansible_user"] == "ops"
    strict = run_inventory(
        tmp_path, host=api.url, strict=True, compose={"x": "node_config_readings.inletTemp"}
    )
    assert strict.returncode != 0
    assert "node_config_readings" in strict.messages


def test_the_cache_spares_the_api_but_not_for_another_cluster(
    api: ScriptedApi, tmp_path: Path
) -> None:
    cached: Json = {
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(tmp_path / "cache"),
        "variables": {"K8S_AUTH_HOST": api.url},
    }
    first = run_inventory(tmp_path, **cached)
    assert first.returncode == 0, first.messages
    asked = len(api.asked)
    assert asked > 0
    assert run_inventory(tmp_path, **cached).hosts == first.hosts
    assert len(api.asked) == asked
    # The same cluster, but by another address, and other nodes of it.
    run_inventory(tmp_path, **{**cached, "variables": {"K8S_AUTH_HOST": f"{api.url}/"}})
    assert len(api.asked) == 2 * asked
    run_inventory(tmp_path, **cached, node_selector="tier=gpu")
    assert len(api.asked) == 3 * asked
    assert run_inventory(tmp_path, **{**cached, "cache": False}).hosts == first.hosts
    assert len(api.asked) == 4 * asked


def test_nothing_that_stands_in_the_cluster_is_templated(tmp_path: Path) -> None:
    evil = "{{ lookup('ansible.builtin.pipe', 'touch " + str(tmp_path / "made") + "') }}"
    config = node_config("n1")
    config["spec"]["metricsCollector"] = {"inletTemp": {"endpoint": evil}}
    lists = {
        "/api/v1/nodes": [node("n1", annotations={"note": evil})],
        "/apis/wao.bitmedia.co.jp/v1beta1/nodeconfigs": [config],
    }

    def script(asked: Asked) -> Reply:
        items = lists.get(asked.path.partition("?")[0])
        return status_reply(404, "no") if items is None else Reply({"items": items, "metadata": {}})

    with ScriptedApi(script) as api:
        run = run_inventory(
            tmp_path,
            host=api.url,
            compose={
                "seen": "node_annotations.note",
                "endpoint": "node_config_spec.metricsCollector.inletTemp.endpoint | upper",
            },
            keyed_groups=[{"key": "node_annotations.note"}],
        )
    assert run.returncode == 0, run.messages
    assert not (tmp_path / "made").exists()
    assert "touch" in str(run.hosts["n1"]["seen"])


def test_a_cluster_that_cannot_be_read_is_one_sentence(api: ScriptedApi, tmp_path: Path) -> None:
    with ScriptedApi(lambda _asked: status_reply(403, "nodes is forbidden")) as closed:
        run = run_inventory(tmp_path, host=closed.url)
    assert run.returncode != 0
    assert "nodes is forbidden" in run.messages
    assert "Traceback" not in run.messages
    other = run_inventory(tmp_path, "hosts.yml", host=api.url)
    assert other.returncode != 0
    assert not api.asked


def test_the_connection_comes_from_the_environment_as_for_modules(
    api: ScriptedApi, tmp_path: Path
) -> None:
    found = run_inventory(tmp_path, variables={"K8S_AUTH_HOST": api.url})
    assert found.members("nodes") == ["n1", "n2", "n3"]
    refused = run_inventory(tmp_path, host=api.url, variables={"K8S_AUTH_VERIFY_SSL": "maybe"})
    assert refused.returncode != 0
    assert "verify_ssl" in refused.messages and "Traceback" not in refused.messages


def test_of_several_node_configs_the_one_that_counts_is_told() -> None:
    owners = [{"kind": "NodeConfigTemplate", "name": "of-owner", "controller": True}]
    made = node_config("n1", "label", ownerReferences=owners)
    by_hand = node_config("n1")
    by_hand["metadata"]["name"] = "mine"
    [both] = node_hosts({"nodes": NODES[:1], "node_configs": [made, by_hand]}, []).hosts
    assert both.variables["node_config_name"] == "mine"
    [one] = node_hosts({"nodes": NODES[:1], "node_configs": [made]}, []).hosts
    assert one.variables["node_config_template"] == "of-owner"
    assert one.groups == ("architecture_amd64", "template_of-owner")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({RDT: "true"}, ("architecture_amd64", "rdt", "rdt_rdtl3ca")),
        ({RDT: "false"}, ("architecture_amd64",)),
        ({METER_LABEL: "rapl"}, ("architecture_amd64", "meter_rapl")),
        ({METER_LABEL: "none"}, ("architecture_amd64",)),
    ],
)
def test_nodes_are_grouped_by_rdt_and_by_meter(
    labels: dict[str, str], expected: tuple[str, ...]
) -> None:
    [host] = node_hosts({"nodes": [node("n1", labels)]}, []).hosts
    assert host.groups == expected


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["10.0.0.1"], "10.0.0.1"),
        (["-oProxyCommand=id", "10.0.0.1"], "10.0.0.1"),
        (["fd00::1", "-oProxyCommand=id"], "fd00::1"),
        (["-oProxyCommand=id"], None),
        (["host.example"], None),
        (["fe80::1%-oProxyCommand"], None),
        (["127.0.0.1"], None),
        (["::1"], None),
        (["::ffff:127.0.0.1"], None),
        (["0.0.0.0"], None),
        (["10.0.0.1 -oProxyCommand=id"], None),
        (["10.0.0.1\n"], None),
        (["{{ lookup('pipe', 'id') }}"], None),
    ],
)
def test_ansible_host_is_an_address_of_another_machine_or_nothing(
    addresses: list[str], expected: str | None
) -> None:
    [host], findings = node_hosts({"nodes": [node("n1", None, *addresses)]}, [])
    assert host.variables.get("ansible_host") == expected
    assert [finding.field for finding in findings] == ([] if expected else ["status.addresses"])


def test_an_unreadable_node_is_left_out_with_a_warning(tmp_path: Path) -> None:
    lists = {"/api/v1/nodes": [node("localhost", None, "10.0.0.9"), *NODES, node("-o", None)]}

    def script(asked: Asked) -> Reply:
        items = lists.get(asked.path.partition("?")[0])
        return status_reply(404, "no") if items is None else Reply({"items": items, "metadata": {}})

    with ScriptedApi(script) as api:
        run = run_inventory(tmp_path, host=api.url)
    assert run.returncode == 0, run.messages
    assert run.members("nodes") == ["n1", "n2", "n3"]
    assert "2 objects cannot be used as they are, the first is Node localhost" in " ".join(
        run.messages.split()
    )
