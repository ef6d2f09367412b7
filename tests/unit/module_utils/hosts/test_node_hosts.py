# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BMCs of nodes from BareMetalHosts, for bare_metal_host_info."""

from __future__ import annotations

import json
import random
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.label_selector import (
    parse_selector_text,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.node_hosts import (
    match,
    read_node_hosts,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import resolve
from support.bare_metal import bare_metal_host
from support.examples import each_seed
from support.odd_values import bounded, spoilt
from support.scripted_api import Asked, Reply, ScriptedApi, status_reply
from support.snapshots import write_snapshot

Json = dict[str, t.Any]


def node(name: str, provider: str = "", **labels: str) -> Json:
    spec = {"providerID": provider} if provider else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {},
    }


def host(name: str, address: t.Any = "", **parts: t.Any) -> Json:
    given = bare_metal_host(name, **parts)
    given["spec"]["bmc"]["address"] = (
        address or f"redfish://{name}.bmc.example/redfish/v1/Systems/1"
    )
    return given


def endpoints(nodes: list[Json], hosts: list[Json]) -> dict[str, str]:
    return {one.node: one.endpoint for one in match(nodes, hosts).found}


def test_a_node_has_the_host_of_its_provider_id_else_that_of_its_name() -> None:
    nodes = [
        node("a", "metal3://metal3/host-1/machine-1"),
        node("b", "metal3://uid-host-2"),
        node("c", "baremetalhost:///metal3/host-3/uid"),
        node("host-4"),
        node("host-5", "k3s://host-5"),
        node("host-6"),
    ]
    hosts = [host(f"host-{number}") for number in range(1, 6)]
    assert endpoints(nodes, hosts) == {
        name: f"https://host-{number}.bmc.example"
        for name, number in (("a", 1), ("b", 2), ("c", 3), ("host-4", 4))
    }
    errors = match(nodes, hosts).errors
    assert [error["node"] for error in errors] == ["host-5", "host-6"]
    assert "no BareMetalHost is the machine of the Node" in errors[0]["detail"]


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        ("idrac-virtualmedia+https://10.0.0.9:8443/redfish/v1/Systems/1", "https://10.0.0.9:8443"),
        ("redfish://admin:secret@10.0.0.9/s", "https://10.0.0.9"),
        ("redfish+https://[fd00::1]/s?x=1#y", "https://[fd00::1]"),
    ],
)
def test_an_address_is_the_origin_of_a_bmc(address: str, endpoint: str) -> None:
    found = match([node("a")], [host("a", address)])
    assert [one.endpoint for one in found.found] == [endpoint]
    assert "secret" not in json.dumps([one.node_config("x") for one in found.found])


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ipmi://10.0.0.9", "ipmi://10.0.0.9 is not an address of Redfish"),
        ("redfish+http://10.0.0.9/s", "is plain HTTP, where no certificate shows who gets"),
        ("redfish://", "is not an address of Redfish"),
        ("redfish://10.0.0.9:port/s", "is not a URL"),
        ("redfish://evil.example[::1]/s", "is not a URL"),
        ("redfish://bmc\u0435.example/s", "has letters beyond ASCII"),
        ("redfish://a\nb", "is not an address of a BMC"),
        (7, "7 is not an address of a BMC"),
    ],
)
def test_an_address_of_nothing_to_confirm_is_an_error_of_its_node(
    address: t.Any, words: str
) -> None:
    found = match([node("a"), node("b")], [host("a", address), host("b")])
    assert [one.node for one in found.found] == ["b"]
    [error] = found.errors
    assert (error["node"], error["host"]) == ("a", "metal3/a")
    assert words in error["detail"] and error["detail"].isprintable()


def test_a_bmc_of_several_hosts_meters_none_of_them() -> None:
    """A chassis of several machines, also if only one of them is a node."""
    shared = [host(name, f"redfish://chassis/redfish/v1/Systems/{name}") for name in "ab"]
    found = match([node("a"), node("c")], [*shared, host("c")])
    assert [one.node for one in found.found] == ["c"]
    assert "https://chassis is the BMC of several hosts" in found.errors[0]["detail"]
    twice = [node("n1", "metal3://metal3/c/x"), node("n2", "metal3://metal3/c/y")]
    assert [error["node"] for error in match(twice, [host("c")]).errors] == ["n1", "n2"]


def test_identity_and_endpoint_become_a_target_without_a_secret() -> None:
    nodes = [node("a", rack="r1"), node("b", rack="r2")]
    selector = parse_selector_text("rack=r1", "node_selector")
    found = match(nodes, [host("a"), host("b")], selector)
    configs = [one.node_config("wattwise-try") for one in found.found]
    [target] = resolve(nodes, configs).nodes
    assert target.endpoints["inlet_temp"].endpoint == "https://a.bmc.example"
    assert target.endpoints["inlet_temp"].secret_name is None
    assert json.loads(target.system or "") == {
        "manufacturer": "Dell Inc.",
        "model": "PowerEdge R740",
        "processor": "Intel(R) Xeon(R) Gold 6240R",
    }


@each_seed(60)
def test_whatever_one_host_says_other_nodes_have_their_bmc(seed: int) -> None:
    odd = spoilt(random.Random(seed), host("bad"), keep=[])
    with bounded():
        found = match([node("bad"), node("good")], [odd, host("good")])
    assert "https://good.bmc.example" in [one.endpoint for one in found.found]
    json.dumps([one.node_config("x") for one in found.found]).encode()


def serve(hosts: list[Json] | None) -> t.Callable[[Asked], Reply]:
    def answer(asked: Asked) -> Reply:
        kind = {"name": "baremetalhosts", "kind": "BareMetalHost", "namespaced": True}
        if hosts is None:
            return status_reply(404, "not served")
        if asked.path.partition("?")[0] == "/apis/metal3.io/v1alpha1":
            return Reply({"resources": [kind]})
        return Reply({"kind": "BareMetalHostList", "metadata": {}, "items": hosts})

    return answer


def test_the_document_has_the_node_configs(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path, nodes=[node("a"), node("b")])
    path = str(tmp_path / "node_configs.json")
    with ScriptedApi(serve([host("a")])) as api:
        result = read_node_hosts({"host": api.url, "snapshot": snapshot, "path": path})
        literal = read_node_hosts({"host": api.url, "snapshot": snapshot})
    assert (result["changed"], result["counts"]) == (False, {"hosts": 1, "node_configs": 1})
    assert "node_configs" not in result
    written = documents.load(path, "node_configs")["node_configs"]
    assert written == literal["node_configs"]
    assert [entry["host"] for entry in result["hosts"]] == ["metal3/a"]
    assert [error["node"] for error in result["errors"]] == ["b"]


def test_a_cluster_without_metal3_is_told(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path, nodes=[node("a")])
    with ScriptedApi(serve(None)) as api, pytest.raises(InvalidInput, match="serves no BareMetalH"):
        read_node_hosts({"host": api.url, "snapshot": snapshot})
