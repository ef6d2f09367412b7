# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of an assignment: inventories that Ansible reads, SSH, and nothing injected."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

from ansible_collections.wattwise.kube.plugins.doc_fragments import host_roles, solver
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.outputs.cluster_objects import (
    config_map,
    installer_files,
    installer_job,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.outputs.kubespray import (
    etcd_members,
    hosts_ini,
    kubespray_inventory,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.outputs.ssh import (
    SshAccess,
    access_of_inventory,
    access_of_secret,
    access_of_user_data,
    keys_in_known_hosts,
    known_hosts_text,
    public_key,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.provisioning import read_request
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.role_assignment import (
    SPEC as SPEC_OF_MODULE,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.role_assignment import assign
from ansible_collections.wattwise.kube.plugins.modules import host_role_assignment as module
from support.assignable_hosts import Json, answer_of, bare_metal_host, host, mac_of

SPEC: Json = {"master": {"cpu": 1, "count": 3}, "worker": {"cpu": 1}, "PodSubnet": "10.244.0.0/18"}


def key_of(number: int, kind: str = "ssh-ed25519") -> str:
    blob = len(kind).to_bytes(4, "big") + kind.encode() + b"\0\0\0\x20" + bytes([number]) * 32
    return f"{kind} {base64.b64encode(blob).decode()}"


def machines(count: int) -> list[Json]:
    return [
        bare_metal_host(f"n-{n}", [{"name": "eth0", "mac": mac_of(n), "ip": f"10.1.0.{n + 1}"}])
        for n in range(count)
    ]


def groups_of(path: Path) -> dict[str, list[str]]:
    manager = InventoryManager(loader=DataLoader(), sources=[str(path)])
    return {
        name: sorted(each.name for each in group.get_hosts())
        for name, group in manager.groups.items()
    }


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        ("current", ("kube_control_plane", "kube_node", "k8s_cluster")),
        ("legacy", ("kube-master", "kube-node", "k8s-cluster")),
    ],
)
def test_ansible_reads_the_inventory(tmp_path: Path, names: str, groups: tuple[str, ...]) -> None:
    result = assign({"hosts": machines(5), "request": SPEC, "group_names": names})
    path = tmp_path / "hosts.yml"
    path.write_text(yaml.safe_dump(result["inventory"]))
    found = groups_of(path)
    masters, workers, cluster = (found[name] for name in groups)
    assert (len(masters), len(workers), found["etcd"]) == (3, 2, masters)
    assert cluster == sorted(masters + workers) == found["all"]
    manager = InventoryManager(loader=DataLoader(), sources=[str(path)])
    variables = manager.get_host(masters[0]).get_vars()
    assert variables["ansible_host"] == variables["ip"] and variables["ansible_user"] == "root"
    assert manager.groups[groups[2]].get_vars()["kube_pods_subnet"] == "10.244.0.0/18"


# In `hosts:` of kubespray's playbooks (2.32), without the one that it creates at run time.
KUBESPRAY_GROUPS = (
    "bastion",
    "calico_rr",
    "etcd",
    "k8s_cluster",
    "kube_control_plane",
    "kube_node",
)
# In kubespray's ansible.cfg; ssh takes the first of two values for one option.
KUBESPRAY_ARGUMENTS = "-o UserKnownHostsFile=/dev/null"


def test_kubespray_finds_its_groups_and_checks_host_keys(tmp_path: Path) -> None:
    known = "/etc/kud/known_hosts"
    given = {"hosts": machines(4), "request": SPEC, "ssh": {"known_hosts_file": known}}
    result = assign(given)
    path = tmp_path / "hosts.yml"
    path.write_text(yaml.safe_dump(result["inventory"]))
    assert set(KUBESPRAY_GROUPS) <= groups_of(path).keys()
    variables = result["inventory"]["all"]["vars"]
    # ansible_ssh_args replaces the arguments of ansible.cfg; ansible_ssh_common_args is kubespray's
    # own, for a bastion.
    arguments = variables["ansible_ssh_args"]
    assert KUBESPRAY_ARGUMENTS not in arguments
    assert f"-o StrictHostKeyChecking=yes -o UserKnownHostsFile={known}" in arguments
    assert "ansible_ssh_common_args" not in variables
    unnamed = assign({**given, "ssh": {}})["inventory"]["all"]["vars"]
    assert "StrictHostKeyChecking=yes" in unnamed["ansible_ssh_args"]


def test_kubespray_gets_networks_of_ipv6_under_their_own_names() -> None:
    request = read_request({"master": {}, "PodSubnet": "fd00:1::/56"})
    inventory = kubespray_inventory((), request, {})["all"]["children"]["k8s_cluster"]["vars"]
    assert inventory == {
        "ipv4_stack": False,
        "ipv6_stack": True,
        "kube_pods_subnet_ipv6": "fd00:1::/56",
        "kube_network_node_prefix_ipv6": 72,
    }


@pytest.mark.parametrize("label", ["bastion", "etcd", "kube-master", "all"])
def test_no_label_is_the_name_of_a_group(label: str) -> None:
    spec = {"masters": [{label: {"mac-address": mac_of(0)}}]}
    with pytest.raises(InvalidInput, match="is the name of a group"):
        assign({"hosts": machines(1), "request": spec})


def test_ansible_reads_hosts_ini(tmp_path: Path) -> None:
    result = assign({"hosts": machines(5), "request": SPEC})
    path = tmp_path / "hosts.ini"
    path.write_text(result["hosts_ini"])
    found = groups_of(path)
    assert len(found["kube-master"]) == 3 and found["etcd"] == found["kube-master"]
    assert found["k8s-cluster"] == found["all"] and len(found["all"]) == 5


@pytest.mark.parametrize("masters", range(1, 8))
def test_etcd_has_an_odd_number_of_members(masters: int) -> None:
    members = etcd_members([f"m{n}" for n in range(masters)])
    assert len(members) % 2 == 1 and masters - len(members) in (0, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"label": "m ansible_connection=local"},
        {"label": "m\nevil ansible_connection=local"},
        {"label": "{{ lookup('pipe', 'id') }}"},
        {"label": "localhost"},
        {"ip": "10.0.0.1 ansible_connection=local"},
        {"ip": "10.0.0.1\n[all]"},
        {"ip": "fe80::1%eth0"},
        {"ip": "127.0.0.1"},
    ],
)
def test_no_output_takes_a_name_or_address_that_says_more(change: dict[str, str]) -> None:
    """Even if a caller passes an unchecked assignment."""
    [assigned, *_rest] = answer_of({"master": {}}, [host(0)]).assignments
    bad = [dataclasses.replace(assigned, **change)]  # type: ignore[arg-type]
    for write in (
        lambda: kubespray_inventory(bad, read_request({"master": {}}), {}),
        lambda: hosts_ini(bad, {}, is_virtlet=False),
        lambda: config_map(bad, "c", "n"),
    ):
        with pytest.raises(InvalidInput):
            write()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"user": "root ansible_become=yes"}, "is not the name of a user"),
        ({"port": 70000}, "is not a whole number from 1 to 65535"),
        ({"private_key_file": "/k -o ProxyCommand=id"}, "cannot be a path in an inventory"),
        ({"password": "secret"}, "hosts are reached with a key, not a password"),
        ({"ansible_ssh_pass": "secret"}, "with a key, not a password"),
        ({"host_keys": ["ssh-ed25519 AAAA"]}, "is not a public key"),
        ({"host_keys": [key_of(1).replace("ssh-ed25519", "ssh-rsa")]}, "is not a public key"),
        ({"host_keys": [f"{key_of(1)}\n* {key_of(2)}", "x"]}, r"host_keys\[1\]"),
        ({"shell": "x"}, "there is no such field"),
    ],
)
def test_what_the_inventory_says_is_checked(given: Json, told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        access_of_inventory(given, "ssh.hosts.m")
    assert "secret" not in str(caught.value)


def test_sources_of_ssh_in_their_order() -> None:
    user_data = (
        "#cloud-config\nusers:\n- name: icn\n  ssh_authorized_keys: [x]\n"
        f"ssh_keys:\n  ed25519_public: {key_of(1)}\n"
    )
    secret = {
        "data": {
            "ssh-privatekey": base64.b64encode(b"PRIVATE").decode(),
            "user": base64.b64encode(b"admin").decode(),
            "port": base64.b64encode(b"2222").decode(),
            "known_hosts": base64.b64encode(f"[10.1.0.2]:2222 {key_of(2)}".encode()).decode(),
            "password": base64.b64encode(b"hunter2").decode(),
        }
    }
    hosts = machines(3)
    hosts[0]["spec"]["userData"] = {"name": "n-0-data"}
    hosts[2]["status"]["operationalStatus"] = "OK"
    warnings: list[str] = []
    result = assign(
        {
            "hosts": hosts,
            "request": {**SPEC, "worker": {"count": 0}, "ssh": {"secretName": "key"}},
            "ssh_secret": secret,
            "user_data": {"metal3/n-0-data": user_data},
            "ssh": {
                "private_key_file": "/etc/keys/edge",
                "hosts": {"n-2": {"user": "ops", "port": 22, "host_keys": [key_of(3)]}},
            },
        },
        Context(warn=warnings.append),
    )
    ways = {
        name: (each["ansible_user"], each["ansible_port"], each["ansible_ssh_private_key_file"])
        for name, each in result["inventory"]["all"]["hosts"].items()
    }
    assert ways == {
        "n-0": ("icn", 2222, "/etc/keys/edge"),
        "n-1": ("admin", 2222, "/etc/keys/edge"),
        "n-2": ("ops", 22, "/etc/keys/edge"),
    }
    assert result["known_hosts"].splitlines() == [
        f"[10.1.0.1]:2222 {key_of(1)}",
        f"[10.1.0.2]:2222 {key_of(2)}",
        f"10.1.0.3 {key_of(3)}",
    ]
    assert result["hosts_without_key"] == []
    assert any("password is not used" in each for each in warnings)
    assert not {"PRIVATE", "hunter2"} & set(str(result).split("'"))


def test_keys_are_found_in_known_hosts_also_behind_hashes() -> None:
    salt = b"0123456789abcdefghij"
    digest = hmac.new(salt, b"10.0.0.1", hashlib.sha1).digest()
    hashed = f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
    content = "\n".join(
        (
            "# a comment",
            f"@revoked 10.0.0.1 {key_of(9)}",
            f"name,10.0.0.1 {key_of(1)} comment",
            f"{hashed} {key_of(2)}",
            f"10.0.0.1 ssh-ed25519 broken {key_of(3)}",
            f"* {key_of(4)}",
            f"[10.0.0.1]:2222 {key_of(5)}",
        )
    )
    assert keys_in_known_hosts(content, "10.0.0.1", 22) == (key_of(1), key_of(2))
    assert keys_in_known_hosts(content, "10.0.0.1", 2222) == (key_of(5),)
    text = known_hosts_text([("10.0.0.1", SshAccess(port=2222, host_keys=(key_of(5),)))])
    assert text == f"[10.0.0.1]:2222 {key_of(5)}\n"


@pytest.mark.parametrize(
    "content", ["", "#!/bin/sh\nusers: [{name: x}]", "#cloud-config\n", "#cloud-config\nusers: 3\n"]
)
def test_user_data_that_says_nothing_about_ssh(content: str) -> None:
    assert access_of_user_data(content, "user_data.a/b") == SshAccess()


@pytest.mark.parametrize(
    "content", ["#cloud-config\na: [", "#cloud-config\nssh_keys: {rsa_public: PRIVATE}\n"]
)
def test_user_data_that_is_broken_is_refused(content: str) -> None:
    with pytest.raises(InvalidInput, match="user_data.a/b"):
        access_of_user_data(content, "user_data.a/b")


@pytest.mark.parametrize(
    "content",
    [
        "#cloud-config\nusers: [",
        "#cloud-config\nusers: [{name: Admin, ssh_authorized_keys: [x]}]",
        "#cloud-config\n" + "[" * 60_000,
        "#cloud-config\nport: !!int ''",
        "#cloud-config\na0: &a0 {x: 1}\n"
        + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 28)),
    ],
)
def test_broken_user_data_is_a_finding_of_its_host_alone(content: str) -> None:
    hosts = machines(3)
    hosts[0]["spec"]["userData"] = {"name": "data"}
    request = {**SPEC, "worker": {"count": 0}}
    plain = assign({"hosts": hosts, "request": request})
    warnings: list[str] = []
    result = assign(
        {"hosts": hosts, "request": request, "user_data": {"metal3/data": content}},
        Context(warn=warnings.append),
    )
    assert result["inventory"] == plain["inventory"]
    [finding] = result["findings"]
    assert (finding["kind"], finding["name"]) == ("BareMetalHost", "n-0")
    assert finding["field"].startswith("user_data.metal3/data")
    assert any("user_data.metal3/data" in each for each in warnings)


def test_host_keys_of_types_that_are_used_no_longer_are_left_out() -> None:
    keys = f"{{dsa_public: ssh-dss AAAA, ed25519_public: {key_of(1)}}}"
    access = access_of_user_data(f"#cloud-config\nssh_keys: {keys}", "user_data.a/b")
    assert access.host_keys == (key_of(1),)


def test_other_keys_of_a_secret_are_not_read() -> None:
    given = {"ssh-privatekey": "AA==", "ca.der": base64.b64encode(b"\xff\xfe").decode()}
    assert access_of_secret({"data": given}) == (SshAccess(), "", [])


def test_a_revoked_key_is_trusted_from_no_source() -> None:
    hosts = machines(3)
    hosts[0]["spec"]["userData"] = {"name": "data"}
    user_data = f"#cloud-config\nssh_keys: {{ed25519_public: {key_of(9)}}}"
    of_secret = f"@revoked * {key_of(8)}\n10.1.0.3 {key_of(8)}\n10.1.0.3 {key_of(3)}\n"
    result = assign(
        {
            "hosts": hosts,
            "request": {**SPEC, "worker": {"count": 0}},
            "user_data": {"metal3/data": user_data},
            "ssh_secret": {"stringData": {"ssh-privatekey": "x", "known_hosts": of_secret}},
            "ssh": {
                "known_hosts": f"@revoked 10.1.0.9 {key_of(9)} lost\n10.1.0.2 {key_of(9)}",
                "hosts": {"n-1": {"host_keys": [key_of(8)]}},
            },
        }
    )
    assert result["known_hosts"].splitlines() == [
        f"@revoked 10.1.0.9 {key_of(9)}",
        f"@revoked * {key_of(8)}",
        f"10.1.0.3 {key_of(3)}",
    ]
    assert result["hosts_without_key"] == ["n-0", "n-1"]


def test_a_secret_without_key_or_with_a_wrong_port_is_told() -> None:
    _access, _known, doubts = access_of_secret({"stringData": {"user": "ops"}})
    assert doubts == ["the Secret has no ssh-privatekey"]
    with pytest.raises(InvalidInput, match="'many' is not a port"):
        access_of_secret({"stringData": {"port": "many"}})


def test_a_public_key_has_no_comment() -> None:
    assert public_key(f"{key_of(1)} root@host", "key") == key_of(1)


def test_hosts_of_which_redfish_alone_tells_get_roles() -> None:
    nic = {"name": "e", "mac": mac_of(7), "ip": "10.1.0.8"}
    told = {"name": "bare", "memory_mib": 4096, "network_interfaces": [nic]}
    hardware: list[Json] = [told, {"name": 3}, {**told, "name": "x\n[all]"}]
    result = assign(
        {"hosts": machines(1), "hardware": hardware, "request": {"master": {}, "worker": {}}}
    )
    assert sorted(each["host"] for each in result["assignments"]) == ["bare", "n-0"]
    assert len(result["findings"]) == 2


def test_labels_and_values_for_cluster_api() -> None:
    result = assign({"hosts": machines(4), "request": SPEC, "cluster": "edge", "require_ip": False})
    roles = [each["labels"]["bpa.akraino.org/role"] for each in result["host_labels"]]
    assert sorted(roles) == ["control-plane"] * 3 + ["worker"]
    values = result["cluster_api"]
    assert (values["numControlPlaneMachines"], values["numWorkerMachines"]) == (3, 1)
    assert values["podCidrBlocks"] == ["10.244.0.0/18"]
    for part in ("controlPlaneHostSelector", "workersHostSelector"):
        wanted = values[part]["matchLabels"]
        matching = [e for e in result["host_labels"] if wanted.items() <= e["labels"].items()]
        assert len(matching) == (3 if "Plane" in part else 1)


def test_the_job_mounts_what_the_files_hold() -> None:
    request = read_request({"master": {}, "ssh": {"secretName": "edge-key"}})
    job = installer_job(request, "edge", "ns", "kud:1")
    files = installer_files("edge", "ns", "[all]\n", "")
    pod = job["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert volumes["files"]["configMap"]["name"] == files["metadata"]["name"]
    [key, known] = volumes["ssh"]["projected"]["sources"]
    assert key["secret"]["name"] == "edge-key"
    assert known["configMap"]["items"][0]["key"] in files["data"]
    mounts = pod["containers"][0]["volumeMounts"]
    assert {each["name"] for each in mounts} == volumes.keys()
    assert next(e["subPath"] for e in mounts if "subPath" in e) in files["data"]
    assert pod["restartPolicy"] == "Never"


def test_a_cluster_has_a_name_that_its_objects_can_have() -> None:
    for name in ("Edge", "a.b", "x" * 51, "a\nb"):
        with pytest.raises(InvalidInput, match="cannot be the name of a cluster"):
            assign({"hosts": machines(1), "request": {"master": {}}, "cluster": name})


def test_roles_without_hosts_fail_or_are_reported() -> None:
    parameters: dict[str, t.Any] = {"hosts": machines(1), "request": SPEC}
    with pytest.raises(WattwiseError, match="Not every role gets a host: spec.master") as caught:
        assign(parameters)
    assert caught.value.fields["shortages"]
    reported = assign({**parameters, "on_error": "report"})
    assert reported["outcome"] == "infeasible" and "inventory" not in reported


def test_every_result_is_documented() -> None:
    returned = yaml.safe_load(module.RETURN)
    result = assign({"hosts": machines(4), "request": SPEC})
    assert result.keys() - {"changed"} == returned.keys()
    fragments = (host_roles.ModuleDocFragment, solver.ModuleDocFragment)
    texts = (module.DOCUMENTATION, *(fragment.DOCUMENTATION for fragment in fragments))
    options = [name for text in texts for name in yaml.safe_load(text)["options"]]
    assert sorted(options) == sorted(SPEC_OF_MODULE.options)
