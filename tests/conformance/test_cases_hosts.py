# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports about hosts: IP versions of kubespray's inventory, labels of NFD."""

from __future__ import annotations

import copy
import ipaddress
import json
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.bare_metal_host import read_hosts
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.host import Hardware
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.role_assignment import assign
from support.assignable_hosts import Json
from support.bare_metal import bare_metal_host, nic

CASES = Path(__file__).parent / "cases"
SIX, FOUR = CASES / "16-ipv6-only-hosts", CASES / "29-podsubnet-v6-on-v4"
# kubespray's defaults, from roles/kubespray_defaults.
DEFAULTS = {"ipv4_stack": True, "ipv6_stack": False}
NFD = "feature.node.kubernetes.io/"


def case(name: str) -> Json:
    loaded: Json = yaml.safe_load((SIX / name).read_text("utf-8"))
    return loaded


def addresses(inventory: Json) -> dict[str, list[str]]:
    """The addresses of each host in the stacks, as kubespray's role network_facts finds them.

    A host without the variable of a stack would get the address of a fact, or of loopback.
    """
    stacks = DEFAULTS | inventory["all"]["children"]["k8s_cluster"]["vars"]
    variables = [name for name, stack in (("ip", "ipv4_stack"), ("ip6", "ipv6_stack"))
                 if stacks[stack]]  # fmt: skip
    assert variables
    for host in inventory["all"]["hosts"].values():
        assert {name for name in ("ip", "ip6") if name in host} == set(variables)
        for name, version in (("ip", 4), ("ip6", 6)):
            assert name not in host or ipaddress.ip_address(host[name]).version == version
        # The installer connects by the first address, which kubespray calls main_ip.
        assert host["ansible_host"] == host[variables[0]]
    for name in ("kube_pods_subnet", "kube_service_addresses"):
        assert name not in stacks or stacks["ipv4_stack"]
        assert f"{name}_ipv6" not in stacks or stacks["ipv6_stack"]
    hosts: dict[str, Json] = inventory["all"]["hosts"]
    return {label: [host[name] for name in variables] for label, host in hosts.items()}


def fleet(*ips: t.Sequence[str]) -> list[Json]:
    """Hosts ``n0``, ``n1``, …, each with one port and its addresses."""
    return [
        bare_metal_host(
            f"n{n}",
            spec={"bootMACAddress": mac},
            hardware={"nics": [nic("eno1", mac, ip, pxe=True) for ip in own]},
        )
        for n, (own, mac) in enumerate(
            (own, f"3c:ec:ef:00:01:{n:02x}") for n, own in enumerate(ips)
        )
    ]


BOTH = [("10.0.0.1", "2001:db8::1"), ("2001:db8::2", "10.0.0.2"), ("10.0.0.3", "2001:db8::3")]
ONLY_4 = [("10.0.0.1",), ("10.0.0.2",), ("10.0.0.3",)]
ONLY_6 = [("2001:db8::1",), ("2001:db8::2",), ("fe80::9", "2001:db8::3")]
SPEC: Json = {"master": {}, "worker": {"count": 2}}


def answer(hosts: t.Sequence[Json], **spec: t.Any) -> Json:
    return assign({"hosts": list(hosts), "request": {**SPEC, **spec}})


def test_hosts_with_ipv6_alone_make_a_cluster_of_ipv6() -> None:
    result = assign(case("input.yaml"))
    found = addresses(result["inventory"])
    assert sorted(found.values()) == [["fd00:6::11"], ["fd00:6::12"]]
    stacks = result["inventory"]["all"]["children"]["k8s_cluster"]["vars"]
    assert stacks == {"ipv4_stack": False, "ipv6_stack": True}


def test_an_ipv6_subnet_on_hosts_with_both_versions_uses_both() -> None:
    result = assign(case("dual-hosts-v6-subnet.yaml"))
    assert sorted(addresses(result["inventory"]).values()) == [
        ["10.0.0.11", "2001:db8::11"],
        ["10.0.0.12", "2001:db8::12"],
    ]
    networks = result["inventory"]["all"]["children"]["k8s_cluster"]["vars"]
    # kubeadm refuses more than 16 bits between the subnet and a node's part of it.
    assert networks == {
        "ipv4_stack": True,
        "ipv6_stack": True,
        "kube_pods_subnet_ipv6": "fd00:10:244::/56",
        "kube_network_node_prefix_ipv6": 72,
    }
    assert [(each["ip"], each["ip6"]) for each in result["assignments"]] == [
        ("10.0.0.11", "2001:db8::11"),
        ("10.0.0.12", "2001:db8::12"),
    ]


def test_an_ipv6_subnet_on_hosts_with_ipv4_alone_is_refused() -> None:
    hosts = json.loads((FOUR / "hosts.json").read_text("utf-8"))
    request = json.loads((FOUR / "request.json").read_text("utf-8"))
    told = "PodSubnet: fd00:1::/64 is a subnet of IPv6, and no free host has an IPv6 address"
    for on_error in ("fail", "report"):
        with pytest.raises(InvalidInput, match=told):
            assign({"hosts": hosts, "request": request, "on_error": on_error})


@pytest.mark.parametrize(
    ("hosts", "spec", "field"),
    [
        (ONLY_4, {"ServiceSubnet": "fd00:2::/112"}, "ServiceSubnet"),
        (ONLY_4, {"PodSubnet": "10.244.0.0/16", "ServiceSubnet": "fd00:2::/112"}, "ServiceSubnet"),
        (ONLY_4, {"PodSubnet": "fd00:1::/64", "ServiceSubnet": "10.96.0.0/16"}, "PodSubnet"),
        (ONLY_6, {"PodSubnet": "10.244.0.0/16"}, "PodSubnet"),
        (ONLY_6, {"ServiceSubnet": "10.96.0.0/16"}, "ServiceSubnet"),
        (ONLY_6, {"PodSubnet": "fd00:1::/64", "ServiceSubnet": "10.96.0.0/16"}, "ServiceSubnet"),
        ([("fe80::1", own[0]) for own in ONLY_4], {"PodSubnet": "fd00:1::/64"}, "PodSubnet"),
    ],
)
def test_subnets_of_a_version_that_no_host_has_are_refused(
    hosts: t.Sequence[t.Sequence[str]], spec: Json, field: str
) -> None:
    with pytest.raises(InvalidInput, match=f"spec.{field}: .* is a subnet of IPv[46], and no free"):
        answer(fleet(*hosts), **spec)


@pytest.mark.parametrize(
    ("hosts", "spec", "told"),
    [
        # ValidateNetworking of kubeadm: at least ten addresses, and at most 2^20.
        (ONLY_4, {"ServiceSubnet": "10.96.0.0/29"}, "from /12 to /28"),
        (ONLY_4, {"ServiceSubnet": "11.0.0.0/8"}, "from /12 to /28"),
        (ONLY_6, {"ServiceSubnet": "fd00:2::/64"}, "from /108 to /124"),
        (ONLY_4, {"PodSubnet": "169.254.0.0/16"}, "no addresses that a cluster can route"),
        (ONLY_4, {"ServiceSubnet": "127.0.0.0/16"}, "no addresses that a cluster can route"),
        (ONLY_6, {"PodSubnet": "fe80::/64"}, "no addresses that a cluster can route"),
        (ONLY_6, {"PodSubnet": "fd00::%eth0/64"}, "no addresses that a cluster can route"),
    ],
)
def test_subnets_that_no_cluster_can_use_are_refused(
    hosts: t.Sequence[t.Sequence[str]], spec: Json, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        answer(fleet(*hosts), **spec)


@pytest.mark.parametrize(
    ("hosts", "spec", "versions"),
    [
        (ONLY_4, {}, [4]),
        (ONLY_4, {"PodSubnet": "10.244.0.0/16", "ServiceSubnet": "10.96.0.0/16"}, [4]),
        (ONLY_6, {}, [6]),
        (ONLY_6, {"PodSubnet": "fd00:1::/64", "ServiceSubnet": "fd00:2::/112"}, [6]),
        (BOTH, {}, [4]),
        (BOTH, {"PodSubnet": "10.244.0.0/16"}, [4]),
        (BOTH, {"ServiceSubnet": "fd00:2::/112"}, [4, 6]),
        (BOTH, {"PodSubnet": "fd00:1::/64", "ServiceSubnet": "10.96.0.0/16"}, [4, 6]),
        # One host decides whether there is a common version.
        ([*BOTH[:2], ONLY_6[2]], {"PodSubnet": "fd00:1::/64"}, [6]),
        ([*BOTH[:2], ONLY_6[2]], {}, [6]),
        ([*BOTH[:2], ONLY_4[2]], {}, [4]),
    ],
)
def test_stacks_are_those_of_the_hosts_and_the_subnets(
    hosts: t.Sequence[t.Sequence[str]], spec: Json, versions: list[int]
) -> None:
    found = addresses(answer(fleet(*hosts), **spec)["inventory"])
    assert len(found) == 3
    for ips in found.values():
        assert [ipaddress.ip_address(ip).version for ip in ips] == versions


def test_a_host_without_the_version_of_the_others_gets_no_role() -> None:
    more = ("10.0.0.9",)
    result = answer(fleet(*BOTH, more), PodSubnet="fd00:1::/64")
    assert addresses(result["inventory"]).keys() == {"n0", "n1", "n2"}
    assert [each["reason"] for each in result["unassigned"]] == [
        "has no IPv6 address for the PodSubnet fd00:1::/64"
    ]
    result = answer(fleet(*ONLY_6, more))
    assert [each["host"] for each in result["unassigned"]] == ["n3"]
    with pytest.raises(WattwiseError, match="2 hosts unavailable \\(no IPv4: 2\\)"):
        answer(fleet(*ONLY_6[:2], *ONLY_4[1:]))


def test_a_named_host_without_the_version_of_the_subnet_is_an_error() -> None:
    hosts = fleet(*ONLY_4[:1], *ONLY_6[1:2])
    masters = [{"m": {"mac-address": "3c:ec:ef:00:01:00"}}]
    spec: Json = {"masters": masters, "PodSubnet": "fd00:1::/64"}
    with pytest.raises(InvalidInput, match="n0 has no IPv6 address for the PodSubnet fd00:1::/64"):
        assign({"hosts": hosts, "request": spec})
    # Without a subnet the named host decides the version.
    workers: Json = {"masters": masters, "worker": {"count": 1}}
    result = assign({"hosts": [*hosts, *fleet(*BOTH)[2:]], "request": workers})
    assert addresses(result["inventory"]) == {"m": ["10.0.0.1"], "n2": ["10.0.0.3"]}


def test_a_named_port_has_the_address_of_the_cluster() -> None:
    hosts = fleet(*ONLY_6[:1])
    other = nic("eno2", "3c:ec:ef:00:02:00", "192.168.9.1")
    hosts[0]["status"]["hardware"]["nics"].append(other)
    masters = [{"m": {"mac-address": "3c:ec:ef:00:01:00"}}]
    result = assign({"hosts": hosts, "request": {"masters": masters}})
    assert addresses(result["inventory"]) == {"m": ["2001:db8::1"]}


def test_a_running_cluster_keeps_its_version_when_other_hosts_arrive() -> None:
    hosts = fleet(*ONLY_6)
    former = answer(hosts)["assignments"]
    more = fleet(*ONLY_6, ("10.0.0.7",), ("10.0.0.8",), ("10.0.0.9",))
    result = assign({"hosts": more, "request": SPEC, "former": former})
    assert addresses(result["inventory"]).keys() == {"n0", "n1", "n2"}


def test_addresses_of_two_ports_make_both_versions() -> None:
    hosts = fleet(*ONLY_4)
    for n, host in enumerate(hosts):
        port = nic("eno2", f"3c:ec:ef:00:02:{n:02x}", f"2001:db8::{n + 1}")
        host["status"]["hardware"]["nics"].insert(0, port)
    found = addresses(answer(hosts, PodSubnet="fd00:1::/64")["inventory"])
    assert found["n0"] == ["10.0.0.1", "2001:db8::1"]


def test_two_hosts_with_one_ipv6_address_get_no_role() -> None:
    hosts = fleet(*BOTH, ("10.0.0.4", "2001:db8::3"))
    with pytest.raises(WattwiseError, match="2 hosts unavailable \\(address: 2\\)"):
        answer(hosts, PodSubnet="fd00:1::/64")


def test_a_small_ipv6_subnet_of_pods_is_a_warning() -> None:
    warnings: list[str] = []
    request = {**SPEC, "PodSubnet": "fd00:1::/119"}
    assign({"hosts": fleet(*ONLY_6), "request": request}, Context(warn=warnings.append))
    assert any("has addresses for 2 nodes, and the cluster has 3" in each for each in warnings)


def hardware_of(labels: dict[str, str]) -> Hardware:
    host = bare_metal_host(labels=labels)
    before = copy.deepcopy(host)
    [read] = read_hosts([host]).hosts
    assert host == before and not read.findings
    return read.hardware


def test_devices_are_found_by_every_choice_of_label_fields() -> None:
    path = CASES / "25-nfd-label-fields" / "labels.yaml"
    found = [hardware_of(each) for each in yaml.safe_load(path.read_text("utf-8"))["labels"]]
    assert [each.has_qat for each in found] == [True, True, True, None]
    assert found[3].gpus == 1


@pytest.mark.parametrize(
    ("fields", "has_qat", "gpus"),
    [
        ("0b40_8086_4940", True, None),
        ("0b40_4940", True, None),
        ("0b40_8086_8086_0000", True, None),
        ("8086_37c8_1028_0a1b", True, None),
        ("37c9", True, None),
        # QuickAssist of Xeon 6 (qat_6xxx of Linux), and of Atom and Xeon D (DPDK's table of devices).
        ("8086_4948", True, None),
        ("0b40_18a0", True, None),
        ("18ee", True, None),
        ("0b40", None, None),
        ("8086", None, None),
        # A Xeon Phi is a co-processor of Intel.
        ("0b40_8086_225c", None, None),
        ("10de_20b5", None, 1),
        ("0302_10de_20b5_10de_1463", None, 1),
        ("0302", None, 1),
        ("1200_1da3", None, 1),
        ("1002_0442", None, 1),
        ("0300", None, None),
        ("0300_1a03", None, None),
        ("0300_1a03_2000", None, None),
        ("0300_2000", None, None),
        ("1a03_2000", None, None),
        ("0403_10de", None, None),
        ("0200_8086_1572", None, None),
    ],
)
def test_labels_of_devices_in_all_forms(
    fields: str, has_qat: bool | None, gpus: int | None
) -> None:
    found = hardware_of({f"{NFD}pci-{fields}.present": "true"})
    assert (found.has_qat, found.gpus) == (has_qat, gpus)
    unlabelled = hardware_of({})
    for value in ("false", "", "0"):
        assert hardware_of({f"{NFD}pci-{fields}.present": value}) == unlabelled


@pytest.mark.parametrize(
    ("labels", "gpus"),
    [
        ({"nvidia.com/gpu.present": "true"}, 1),
        ({"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "8"}, 8),
        ({"intel.feature.node.kubernetes.io/gpu": "true"}, 1),
        ({f"{NFD}amd-gpu": "true"}, 1),
        ({"nvidia.com/gpu.present": "false"}, None),
    ],
)
def test_labels_of_device_plugins_tell_gpus(labels: dict[str, str], gpus: int | None) -> None:
    assert hardware_of(labels).gpus == gpus


@pytest.mark.parametrize(
    ("fields", "is_capable"),
    [
        ("0200_8086", True),
        ("0200", True),
        ("0207_15b3_1017", True),
        ("15b3", True),
        ("8086_1572", True),
        ("1572", True),
        ("8086", None),
        ("0b40_8086", None),
        ("0108_144d", None),
        ("8086_37c8", None),
        ("10de_20b5", None),
    ],
)
def test_labels_of_adapters_with_virtual_functions(fields: str, is_capable: bool | None) -> None:
    host = bare_metal_host(
        labels={f"{NFD}pci-{fields}.sriov.capable": "true"},
        hardware={"nics": [nic("eno1", "3c:ec:ef:00:01:01", "10.0.0.1", model="unknown")]},
    )
    [read] = read_hosts([host]).hosts
    assert [port.can_sriov for port in read.hardware.network_interfaces] == [is_capable]
