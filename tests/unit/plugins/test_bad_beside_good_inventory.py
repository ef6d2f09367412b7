# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bad Node or NodeConfig beside good ones: all other hosts are the same as without it."""

from __future__ import annotations

import ipaddress
import random
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.node_inventory import (
    node_hosts,
)
from support.examples import each_seed
from support.odd_values import TEXTS, bounded, odd_value, spoilt
from support.wao import node, node_config

RACKS = ["wattwise.github.io/rack"]


def full_node(index: int) -> MutableObject:
    given = node(f"n{index}", f"10.0.0.{index}", labels={RACKS[0]: "r1"}, annotations={"a": "b"})
    given["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": False}
    given["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    given["status"]["nodeInfo"] = {"architecture": "amd64", "operatingSystem": "linux"}
    given["status"]["capacity"] = given["status"]["allocatable"] = {"cpu": "32"}
    return given


def full_config(index: int) -> MutableObject:
    config = node_config(f"c{index}", f"n{index}", labels={"wattwise.github.io/template": "t"})
    moment = "2026-01-31T12:00:00Z"
    config["status"] = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "readings": {"inletTemp": {"celsius": 20.0, "time": moment}},
    }
    return config


NODES = [full_node(index) for index in range(3)]
CONFIGS = [full_config(index) for index in range(3)]


def variables(nodes: list[t.Any], configs: list[t.Any]) -> MutableObject:
    hosts, _findings = node_hosts({"nodes": nodes, "node_configs": configs}, RACKS)
    assert all(
        name.startswith("node_") or name == "ansible_host"
        for host in hosts
        for name in host.variables
    )
    for host in hosts:
        if "ansible_host" in host.variables:
            assert "%" not in host.variables["ansible_host"]
            ipaddress.ip_address(host.variables["ansible_host"])
    return {host.name: host for host in hosts}


@each_seed(40)
def test_all_other_hosts_are_as_without_the_bad_node(seed: int) -> None:
    source = random.Random(seed)
    odd: t.Any = spoilt(source, full_node(3), keep=[("metadata", "name")])
    if source.randrange(10) == 0:
        odd = source.choice([odd_value(source), {"metadata": odd_value(source)}])
    with bounded():
        beside = variables([*NODES, odd], CONFIGS)
    alone = variables(NODES, CONFIGS)
    assert {name: beside.get(name) for name in alone} == alone


@each_seed(40)
def test_all_other_hosts_are_as_without_the_bad_node_config(seed: int) -> None:
    keep = [("metadata", "name"), ("spec", "nodeName")]
    odd = spoilt(random.Random(seed), full_config(3), keep=keep)
    with bounded():
        beside = variables([*NODES, full_node(3)], [odd, *CONFIGS])
    alone = variables(NODES, CONFIGS)
    assert {name: beside.get(name) for name in alone} == alone
    assert beside["n3"].variables["ansible_host"] == "10.0.0.3"


@pytest.mark.parametrize("text", [*TEXTS, "10.0.0.1;id", "1", "0x7f.1", "10.0.0.1/8", "[fd00::1]"])
def test_an_odd_address_is_never_the_host_of_a_connection(text: str) -> None:
    odd = full_node(3)
    odd["status"]["addresses"] = [{"type": "InternalIP", "address": text}]
    assert "ansible_host" not in variables([odd], [])["n3"].variables
