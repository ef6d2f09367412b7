# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading the spec of a Provisioning: accepted values, and the messages for refused ones."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.addresses import inventory_name
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.host import (
    Disk,
    Hardware,
    NetworkInterface,
    Processors,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.provisioning import (
    Item,
    Requirements,
    read_request,
    user_name,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.role_assignment import assign
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.instance import idle_watts
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.requirements import (
    Judge,
    size_text,
)
from ansible_collections.wattwise.kube.plugins.module_utils.published.curves import table
from support.assignable_hosts import (
    EPYC,
    GOLD,
    Json,
    answer_of,
    bare_metal_host,
    host,
    mac_of,
    names_of,
    roles_of,
)

MAC = mac_of(0)
ONE: Json = {"masters": [{"m": {"mac-address": MAC}}]}


def test_a_map_and_a_list_of_it_are_the_same() -> None:
    item = {"cpu": 10, "memory": "4Gi"}
    one, several = (read_request({"master": given}).items for given in (item, [item]))
    assert [each.requirements for each in one] == [each.requirements for each in several]
    assert one[0].requirements == Requirements(cpu=10, memory=4 << 30)
    assert (one[0].count, one[0].also_worker) == (1, True)


def test_without_a_count_workers_are_all_that_fit_and_zero_is_none() -> None:
    items = read_request({"master": {}, "worker": [{"cpu": 1}, {"cpu": 2, "count": 3}]}).items
    assert [(each.role, each.count, each.also_worker) for each in items] == [
        ("master", 1, False),
        ("worker", None, False),
        ("worker", 3, False),
    ]
    [master] = read_request({"master": {}, "worker": {"count": 0}}).items
    assert master.also_worker


def test_a_label_of_master_and_worker_has_the_requirements_of_both() -> None:
    spec = {"masters": [{"m": {"cpu": 8}}], "workers": [{"m": {"cpu": 16, "sriov": True}}]}
    [item] = read_request(spec).items
    assert item.also_worker and item.requirements == Requirements(cpu=16, sriov=True)


def both(first: Json, second: Json) -> Json:
    return {"masters": [{"m": first}], "workers": [{"m": second}]}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "a cluster needs a master"),
        ({"master": {"count": 0}}, "a cluster needs a master"),
        ([], "spec: .* is not a mapping"),
        ({"master": {}, "replicas": 101}, "spec.replicas: .*100"),
        (
            {"masters": [{"m": {"mac-address": "<pn4-IF2-mac>"}}]},
            "is not a MAC address|of a single adapter",
        ),
        (
            {"masters": [{"m": {"mac-address": "08:00:27:00:ab"}}]},
            "is not a MAC address|of a single adapter",
        ),
        (
            {"masters": [{"m": {"mac-address": "08:00-27:00:ab:2c"}}]},
            "is not a MAC address|of a single adapter",
        ),
        (
            {"masters": [{"m": {"mac-address": "00:00:00:00:00:00"}}]},
            "is not a MAC address|of a single adapter",
        ),
        ({"masters": [{"m": {"mac-address": 800270}}]}, "is not a MAC address|of a single adapter"),
        ({"masters": [{"m": None}]}, "MAC address for masterNode m not provided"),
        ({**ONE, "workers": [{"w": None}]}, "MAC address for worker w not provided"),
        (both({"mac-address": MAC}, {"mac-address": mac_of(1)}), "node with label m already"),
        ({**ONE, "workers": [{"w": {"mac-address": MAC}}]}, "a host that is master and worker has"),
        ({"masters": [{"a b": {"cpu": 1}}]}, "cannot be the name of a node"),
        ({"masters": [{"m\nx ansible_connection=local": {"cpu": 1}}]}, "cannot be the name"),
        ({"master": {"memory": "4 GB"}}, r"spec.master.memory: '4 GB' is not a Kubernetes quant"),
        ({"master": {"memory": "-4Gi"}}, "is negative"),
        ({"master": {"cpu": "ten"}}, r"spec.master.cpu: 'ten' is not a whole number"),
        ({"master": {"cpu": 2.5}}, "is not a whole number"),
        ({"master": {"sriov": "yes"}}, "is not true or false"),
        ({"master": {"CPU": 1}}, "there is no such field; probably cpu is meant"),
        ({"master": {}, "podSubnet": "10.0.0.0/8"}, "probably PodSubnet is meant"),
        ({"master": {}, "PodSubnet": "10.244.64.0"}, "is not a subnet in CIDR notation"),
        ({"master": {}, "PodSubnet": "10.244.64.0/33"}, "is not a subnet in CIDR notation"),
        ({"master": {}, "PodSubnet": "10.244.65.0/18"}, "10.244.64.0/18 is the subnet"),
        (
            {"master": {}, "PodSubnet": "10.244.0.0/16", "ServiceSubnet": "10.244.64.0/18"},
            "overlaps with the ServiceSubnet",
        ),
        ({"master": {}, "KUDPlugins": ["--cluster x"]}, "is not the name of a plugin"),
        ({"master": {}, "rackSpread": "maybe"}, "is none of preferred, required, none"),
        ({"master": {}, "ssh": {"user": "root; rm"}}, "is not the name of a user"),
        ({"master": {}, "ssh": {"password": "x"}}, "there is no such field"),
        ({"master": {}, "hostSelector": {"labels": {}}}, "is not part of a label selector"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(spec: Json, told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        read_request(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("masters", "warned"), [(1, False), (2, True), (3, False), (4, True)])
def test_an_even_number_of_masters_is_warned_about(masters: int, warned: bool) -> None:
    assert bool(read_request({"master": {"count": masters}}).warnings) == warned


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("host.cpu.count = 2", "for equality write =="),
        ("host.cpu.count + 1", "a selector must return true or false"),
        ("device.driver == 'x'", "undeclared reference"),
        ("[1,2,3].all(a, [1,2].all(b, host.nics.all(c, host.nics.all(d, true))))", "may cost"),
    ],
)
def test_an_expression_that_cannot_be_used_is_refused_before_any_host(
    expression: str, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        answer_of({"master": {"expressions": [expression]}}, [])
    assert "spec.master.expressions[0]" in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("host.cpu.count >= 64 && host.memory.mebibytes >= 1024", {"node-1"}),
        ("host.nics.exists(nic, nic.sriov)", {"node-1"}),
        ("'vmx' in host.cpu.flags && host.disks.exists(d, d.kind == 'SSD')", {"node-0", "node-1"}),
        ("host.labels['hall'] == '2'", {"node-0"}),
        ("has(host.gpus) && host.gpus > 0", set()),
    ],
)
def test_expressions_choose_hosts(expression: str, names: set[str]) -> None:
    hosts = [host(0, 32, labels={"hall": "2"}), host(1, 64, can_sriov=True)]
    spec = {"master": [{"expressions": [expression]}], "worker": {"expressions": [expression]}}
    answer = answer_of(
        {"master": {"expressions": [expression], "count": max(1, len(names))}}, hosts
    )
    assert names_of(answer) == names and spec


HARDWARE = Hardware(
    Processors(32, GOLD),
    65536,
    (NetworkInterface("a", can_sriov=True), NetworkInterface("b", can_sriov=None)),
    (Disk("sda", 500 * 10**9), Disk("sdb", None)),
)


@pytest.mark.parametrize(
    ("requirements", "hardware", "answer", "reason"),
    [
        (Requirements(cpu=32), HARDWARE, True, "cpu: 32 hardware threads, 32 wanted"),
        (Requirements(cpu=33), HARDWARE, False, "cpu: 32 hardware threads, 33 wanted"),
        (Requirements(cpu=1), Hardware(), None, "no source states hardware threads"),
        (Requirements(memory=64 << 30), HARDWARE, True, "memory: 64Gi, 64Gi wanted"),
        (Requirements(memory=(64 << 30) + 1), HARDWARE, False, "memory: 64Gi"),
        (Requirements(memory=1), Hardware(), None, "unknown"),
        (Requirements(sriov=True), HARDWARE, True, "the switch in the BIOS is not known"),
        (Requirements(sriov=True), Hardware(), None, "unknown"),
        (
            Requirements(sriov=True),
            Hardware(network_interfaces=(NetworkInterface("a", can_sriov=False),)),
            False,
            "no network adapter supports it",
        ),
        (
            Requirements(sriov=True),
            Hardware(network_interfaces=HARDWARE.network_interfaces, sriov_enabled=False),
            False,
            "switched off in the BIOS",
        ),
        (Requirements(qat=True), HARDWARE, None, "no source states the PCI devices"),
        (Requirements(qat=True), Hardware(has_qat=False), False, "not there"),
        (Requirements(gpu=2), Hardware(gpus=2), True, "2 GPUs"),
        (Requirements(cpu_model="gold 62*"), HARDWARE, False, "wanted"),
        (Requirements(cpu_model="*gold 62*"), HARDWARE, True, "wanted"),
        (Requirements(cpu_model="gold 6252"), HARDWARE, True, "wanted"),
        (Requirements(disk=500 * 10**9), HARDWARE, True, "minDisk: 500G, 500G wanted"),
        (Requirements(disk=10**12), HARDWARE, None, "no source states the size of each disk"),
        (Requirements(disk=1), Hardware(disks=()), False, "minDisk: 0, 1 wanted"),
    ],
)
def test_a_requirement_is_met_or_not_or_nobody_knows(
    requirements: Requirements, hardware: Hardware, answer: bool | None, reason: str
) -> None:
    given = host(0)
    judge = Judge([type(given)("n", "Redfish", hardware=hardware)])
    [[verdict]] = [list(each) for each in judge.verdicts(requirements)]
    assert verdict.answer is answer and reason in verdict.reason


def test_what_nobody_knows_is_no_yes_unless_a_mac_address_names_the_host() -> None:
    hosts = [host(0), host(1)]
    assert answer_of({"master": {"qat": True}}, hosts).outcome == "infeasible"
    answer = answer_of({"masters": [{"m": {"mac-address": MAC, "qat": True}}]}, hosts)
    assert roles_of(answer)["master"] == ["node-0"]
    assert "qat: unknown" in answer.warnings[0]


class TestNamedHosts:
    def test_two_addresses_of_one_host_are_refused(self) -> None:
        given = host(0)
        port = NetworkInterface("eth1", mac_of(9), "10.9.9.9")
        ports = (*given.hardware.network_interfaces, port)
        machine = type(given)("n", "Redfish", hardware=Hardware(network_interfaces=ports))
        spec = {"masters": [{"a": {"mac-address": MAC}}, {"b": {"mac-address": mac_of(9)}}]}
        with pytest.raises(InvalidInput, match="belong to one host, n"):
            answer_of(spec, [machine])

    def test_a_mac_address_of_two_hosts_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=f"{MAC} belongs to 2 hosts"):
            answer_of(ONE, [host(0), host(1, mac=MAC)])

    def test_hosts_that_the_selector_excludes_have_no_mac_address(self) -> None:
        spec = {**ONE, "hostSelector": {"matchLabels": {"hall": "2"}}}
        inside, outside = host(0, labels={"hall": "2"}), host(1, mac=MAC)
        assert names_of(answer_of(spec, [inside, outside])) == {"node-0"}
        with pytest.raises(InvalidInput, match="node-1 is not selected by hostSelector"):
            answer_of(spec, [outside])

    def test_an_address_of_one_link_is_none(self) -> None:
        with pytest.raises(InvalidInput, match="IP address not found for host with MAC address"):
            answer_of(ONE, [host(0, ip="fe80::1")])

    def test_named_hosts_are_not_given_to_others(self) -> None:
        spec = {**ONE, "master": {"cpu": 1}, "worker": {"cpu": 1}}
        answer = answer_of(spec, [host(n) for n in range(4)])
        assert roles_of(answer)["master"] == ["node-0", "node-1"]
        assert roles_of(answer)["worker"] == ["node-2", "node-3"]


class TestShortages:
    def test_more_masters_than_hosts(self) -> None:
        answer = answer_of({"master": {"count": 5}}, [host(0), host(1), host(2)])
        assert answer.explanation
        assert (
            "spec.master needs 5 hosts and lacks 2: 3 of 3 free hosts fit"
            in answer.explanation.message
        )
        assert [each.text for each in answer.explanation.changes] == [
            "request 3 instead of 5 hosts for spec.master"
        ]

    def test_the_requirement_that_fails_and_the_smallest_change(self) -> None:
        hosts = [host(0, 16), host(1, 16), host(2, 20), host(3, 64, 16)]
        spec = {"master": {"cpu": 8}, "worker": {"cpu": 24, "memory": "32Gi", "count": 2}}
        explanation = answer_of(spec, hosts).explanation
        assert explanation
        [shortage] = explanation.shortages
        assert (shortage.missing, shortage.fitting) == (2, 0)
        assert [(each.requirement, each.hosts) for each in shortage.failing] == [
            ("cpu >= 24", 3),
            ("memory >= 32Gi", 1),
        ]
        assert [each.text for each in explanation.changes] == ["lower cpu of spec.worker to 16"]

    def test_every_change_that_is_told_helps(self) -> None:
        hosts = [host(0, 16, can_sriov=True), host(1, 32), host(2, 32, operational_status="error")]
        spec: Json = {"master": {"cpu": 8}, "worker": {"cpu": 20, "sriov": True, "count": 1}}
        explanation = answer_of(spec, hosts).explanation
        assert explanation
        assert [each.text for each in explanation.changes] == [
            "lower cpu of spec.worker to 16",
            "drop sriov of spec.worker",
        ]
        for change in ({"cpu": 16}, {"sriov": False}):
            worker = {**spec["worker"], **change}
            assert answer_of({**spec, "worker": worker}, hosts).outcome == "assigned"
        assert "1 host unavailable (error: 1)" in explanation.message

    def test_hosts_that_could_be_made_available_are_told(self) -> None:
        hosts = [host(0), host(1, consumer="Metal3Machine/a/b")]
        explanation = answer_of({"master": {}, "worker": {}}, hosts).explanation
        assert explanation and "1 host available (now: consumed)" in str(explanation)

    def test_every_host_says_why_it_has_no_role(self) -> None:
        answer = answer_of({"master": {"cpu": 32, "count": 2}}, [host(0, 16), host(1)])
        assert [each.reason for each in answer.unassigned] == [
            "spec.master: cpu: 16 hardware threads, 32 wanted",
            "fits, but others are lacking",
        ]
        spec = {
            "masters": [{"m": {"mac-address": mac_of(3)}}],
            "worker": {"count": 2, "expressions": ["host.name > 3"]},
        }
        answer = answer_of(spec, [host(n) for n in range(4)])
        reasons = {each.host.name: each.reason for each in answer.unassigned}
        assert reasons["node-3"] == "is named by its MAC address, but others are lacking"
        assert "not known, No matching overloads" in reasons["node-0"]
        assert answer.explanation and "fails on 0" not in answer.explanation.message

    def test_workers_without_count_are_one_at_least(self) -> None:
        assert answer_of({"master": {}, "worker": {}}, [host(0)]).outcome == "infeasible"


@pytest.mark.parametrize(
    ("subnet", "told"),
    [
        ("10.1.0.0/24", "spec.PodSubnet: 10.1.0.0/24 overlaps with the network of the hosts"),
        ("10.233.0.0/16", "overlaps with kubespray's default ServiceSubnet 10.233.0.0/18"),
    ],
)
def test_pods_and_hosts_have_networks_of_their_own(subnet: str, told: str) -> None:
    hosts = [bare_metal_host("n", [{"name": "eth0", "mac": MAC, "ip": "10.1.0.1"}])]
    with pytest.raises(InvalidInput, match=told):
        assign({"hosts": hosts, "request": {**ONE, "PodSubnet": subnet}})


@pytest.mark.parametrize(
    ("spec", "ip", "told"),
    [
        (
            {"ServiceSubnet": "10.233.64.0/24"},
            "10.1.0.1",
            "spec.ServiceSubnet: 10.233.64.0/24 overlaps with kubespray's default PodSubnet",
        ),
        ({}, "10.233.64.9", "spec.PodSubnet: kubespray's default 10.233.64.0/18 overlaps with the"),
        ({}, "10.233.0.9", "spec.ServiceSubnet: kubespray's default 10.233.0.0/18 overlaps with"),
    ],
)
def test_defaults_of_kubespray_count_as_subnets(spec: Json, ip: str, told: str) -> None:
    hosts = [bare_metal_host("n", [{"name": "eth0", "mac": MAC, "ip": ip}])]
    with pytest.raises(InvalidInput, match=told):
        assign({"hosts": hosts, "request": {**ONE, **spec}})


@pytest.mark.parametrize(
    ("subnet", "told"),
    [
        ("10.244.0.0/26", "10.244.0.0/26 is smaller than a node's /24"),
        ("10.244.0.0/24", "the PodSubnet 10.244.0.0/24 has addresses for 1 node, and the cluster"),
    ],
)
def test_a_small_subnet_of_pods_is_a_warning(subnet: str, told: str) -> None:
    hosts = [
        bare_metal_host(f"n-{n}", [{"name": "e", "mac": mac_of(n), "ip": f"10.1.0.{n + 1}"}])
        for n in range(2)
    ]
    warnings: list[str] = []
    request = {"master": {}, "worker": {}, "PodSubnet": subnet}
    assign({"hosts": hosts, "request": request}, Context(warn=warnings.append))
    assert any(told in each for each in warnings), warnings


def test_a_host_inside_the_subnet_of_pods_gets_no_role_and_the_others_do() -> None:
    hosts = [host(0, ip="10.244.64.5"), host(1)]
    answer = answer_of({"master": {}, "PodSubnet": "10.244.64.0/18"}, hosts)
    assert names_of(answer) == {"node-1"}
    assert [each.reason for each in answer.unassigned] == [
        "has the address 10.244.64.5 in the PodSubnet 10.244.64.0/18"
    ]


@pytest.mark.parametrize("name", ["-x", "1a", "Root", "a" * 33])
def test_what_no_user_of_a_host_is_called(name: str) -> None:
    with pytest.raises(InvalidInput, match="is not the name of a user"):
        user_name(name, "user")


def test_a_label_of_more_than_63_characters_names_no_host() -> None:
    with pytest.raises(InvalidInput, match="has more than 63 characters"):
        inventory_name("a" * 64 + ".b", "label")
    assert inventory_name("a" * 63 + ".b", "label")


def test_sizes_without_a_fraction_have_none() -> None:
    assert size_text(100_000 * 2**30) == "100000Gi"
    assert size_text(127 * 2**29) == "63.5Gi"


def test_a_hostile_host_changes_nothing_for_others() -> None:
    good = bare_metal_host("good", [{"name": "eth0", "mac": MAC, "ip": "10.1.0.1"}])
    bad: list[t.Any] = [
        {"metadata": {"name": "x\n[all]\ny ansible_connection=local"}},
        {"metadata": None},
        bare_metal_host("bad", [{"name": "e", "mac": "{{ x }}", "ip": "1.2.3.4 a=b"}]),
        {"metadata": {"name": "ugly"}, "spec": [], "status": "\u2028"},
        bare_metal_host("worse", hardware={"ramMebibytes": "1e999999", "cpu": {"count": -1}}),
    ]
    expected = assign({"hosts": [good], "request": {"master": {"cpu": 1}}})
    result = assign({"hosts": [*bad, good], "request": {"master": {"cpu": 1}}})
    assert result["assignments"] == expected["assignments"]
    assert result["inventory"] == expected["inventory"]
    assert len(result["findings"]) >= 3


@pytest.mark.parametrize(
    ("model", "threads", "watts"),
    [
        (GOLD, 96, "intel_xeon_gold_6252"),
        (EPYC, 256, "amd_epyc_7742"),
        ("INTEL(R) XEON(R) PLATINUM 8480+", 224, "intel_xeon_platinum_8480+"),
        ("Intel(R) Xeon(R) CPU E5-2660 v2 @ 2.20GHz", 40, "intel_xeon_e5_2660v2"),
    ],
)
def test_models_of_firmware_are_found_in_the_table(model: str, threads: int, watts: str) -> None:
    rows = [row for row in table() if row.processor == watts and 2 * row.cores == threads]
    found = idle_watts(host(0, threads, model=model), {})
    assert found is not None and found[0] in [row.watts[0] for row in rows]


def test_items_name_their_place() -> None:
    spec = {"master": [{"cpu": 1}, {"cpu": 2}], "workers": [{"w": {"cpu": 3}}]}
    places = [item.where for item in read_request(spec).items]
    assert places == ["spec.master[0]", "spec.master[1]", "spec.workers[0].w"]
    assert isinstance(read_request(spec).items[0], Item)
