# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin bare_metal_hosts, by ansible-inventory and by its library."""

from __future__ import annotations

import functools
import json
import random
import typing as t
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.host_inventory import (
    inventory_hosts,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.labels import RACK_LABELS
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.inventory_hosts import (
    InventoryHost,
)
from support.bare_metal import bare_metal_host, nic
from support.examples import each_seed
from support.inventory import InventoryRun, run_inventory
from support.odd_values import bounded, odd_value, spoilt
from support.scripted_api import Asked, Reply, ScriptedApi, status_reply

API = "/apis/metal3.io/v1alpha1"
RESOURCES = {"resources": [{"name": "baremetalhosts", "kind": "BareMetalHost", "namespaced": True}]}
FACTS_API = "/apis/bpa.akraino.org/v1alpha1"
FACTS = {"resources": [{"name": "hosthardwares", "kind": "HostHardware", "namespaced": True}]}
Script = Callable[[Asked], Reply]


def serving(*objects: MutableObject) -> Script:
    def script(asked: Asked) -> Reply:
        path = asked.path.partition("?")[0]
        if path == API:
            return Reply(RESOURCES)
        if not path.startswith(API):
            return status_reply(404, "not found")
        namespace = path.split("/")[5] if "/namespaces/" in path else None
        items = [one for one in objects if namespace in (None, one["metadata"].get("namespace"))]
        return Reply({"kind": "BareMetalHostList", "metadata": {}, "items": items})

    return script


def run(folder: Path, *objects: MutableObject, **options: t.Any) -> tuple[InventoryRun, list[str]]:
    with ScriptedApi(serving(*objects)) as api:
        name = options.pop("name", "bare_metal_hosts.yml")
        found = run_inventory(folder, name, plugin="bare_metal_hosts", host=api.url, **options)
        return found, [item.path for item in api.asked]


def in_namespace(namespace: str, host: MutableObject) -> MutableObject:
    return {**host, "metadata": {**host["metadata"], "namespace": namespace}}


def test_hosts_have_variables_and_groups_and_nothing_is_templated(tmp_path: Path) -> None:
    evil = "{{ lookup('ansible.builtin.pipe', 'touch " + str(tmp_path / "made") + "') }}"
    able = bare_metal_host(
        "able",
        labels={"wattwise.github.io/rack": "r1.a", "wattwise.github.io/qat": "true"},
        annotations={"note": evil, "wattwise.github.io/gpus": "2"},
    )
    plain = in_namespace(
        "other",
        bare_metal_host(
            "able",
            hardware={"nics": [nic("a", "02:00:00:00:00:01", "-oProxyCommand=id")]},
            spec={"firmware": {"sriovEnabled": False}},
            status={"provisioning": {"state": "externally provisioned"}},
        ),
    )
    nameless = {**able, "metadata": {"name": "localhost"}}
    found, _asked = run(
        tmp_path,
        *(able, plain, nameless),
        compose={"seen": "host_annotations.note", "gib": "host_memory_mib // 1024"},
        groups={"free": "host_state == 'available'"},
        keyed_groups=[{"key": "host_annotations.note"}],
    )
    assert found.returncode == 0, found.messages
    assert not (tmp_path / "made").exists()
    assert found.members("bare_metal_hosts") == ["metal3.able", "other.able"]
    assert found.members("rack_r1_a") == ["metal3.able"]
    assert found.members("sriov") == found.members("qat") == ["metal3.able"]
    assert found.members("gpu") == found.members("state_available") == ["metal3.able"]
    assert found.members("state_externally_provisioned") == ["other.able"]
    assert found.members("architecture_x86_64") == ["metal3.able", "other.able"]
    assert found.members("free") == ["metal3.able"]
    first, second = found.hosts["metal3.able"], found.hosts["other.able"]
    assert first["ansible_host"] == "192.168.50.63"
    assert (first["host_name"], first["host_namespace"]) == ("able", "metal3")
    assert (first["host_gpus"], first["host_has_qat"]) == (2, True)
    assert first["host_network_interfaces"][0]["pci_id"] == "8086:1572"
    assert first["host_disks"][0]["kind"] == "SSD"
    assert first["host_processors"]["flags"] == ["aes", "avx512f", "vmx"]
    assert int(first["gib"]) == 192
    assert "touch" in str(first["seen"])
    assert not second.keys() & {"ansible_host", "host_has_qat", "host_gpus", "host_rack"}
    messages = " ".join(found.messages.split())
    assert "2 objects cannot be used as they are" in messages


def test_options_choose_hosts_names_and_groups(tmp_path: Path) -> None:
    hosts = [bare_metal_host("a", labels={"row": "7"}), in_namespace("n2", bare_metal_host("b"))]
    found, asked = run(
        tmp_path,
        *hosts,
        name="hall-1.bare_metal_hosts.yaml",
        namespaces=["metal3"],
        name_prefix="hall-1-",
        host_group="hall-1",
        host_selector="row in (6, 7)",
        rack_labels=["row"],
    )
    assert found.members("hall_1") == found.members("rack_7") == ["hall-1-a"]
    [listed] = [path for path in asked if "baremetalhosts" in path]
    assert listed.startswith(f"{API}/namespaces/metal3/baremetalhosts?")
    assert "labelSelector=row+in+%286%2C+7%29" in listed


def test_a_cluster_without_metal3_is_one_sentence(tmp_path: Path) -> None:
    with ScriptedApi(lambda _asked: status_reply(404, "not found")) as api:
        found = run_inventory(
            tmp_path, "bare_metal_hosts.yml", plugin="bare_metal_hosts", host=api.url
        )
    assert found.returncode != 0
    assert "serves no BareMetalHost of metal3.io/v1alpha1" in " ".join(found.messages.split())
    assert "Traceback" not in found.messages


def test_an_account_without_the_right_to_what_agents_wrote_gets_the_inspected_facts(
    tmp_path: Path,
) -> None:
    def script(asked: Asked) -> Reply:
        if asked.path.partition("?")[0] == FACTS_API:
            return Reply(FACTS)
        if asked.path.startswith(FACTS_API):
            reason = 'User "x" cannot list resource "hosthardwares" in API group "bpa.akraino.org"'
            return status_reply(403, f"hosthardwares.bpa.akraino.org is forbidden: {reason}")
        return serving(bare_metal_host("a"))(asked)

    with ScriptedApi(script) as api:
        found = run_inventory(
            tmp_path, "bare_metal_hosts.yml", plugin="bare_metal_hosts", host=api.url
        )
    assert found.returncode == 0, found.messages
    assert found.hosts["metal3.a"]["host_processors"]["count"] == 64
    assert "are missing in the inventory: Not allowed at" in " ".join(found.messages.split())


def hosts(*objects: t.Any, told: t.Sequence[t.Any] = ()) -> dict[str, InventoryHost]:
    return {host.name: host for host in inventory_hosts(objects, RACK_LABELS, told=told).hosts}


def facts_of(name: str, **spec: t.Any) -> MutableObject:
    """HostHardware of a host, which reports QuickAssist."""
    told = {"hasQat": True, "memoryMib": 1024, "disks": [{"name": "a", "sizeBytes": 5}]}
    address = bare_metal_host()["spec"]["bmc"]["address"]
    given = {"hostUid": f"uid-{name}", "bmcAddress": address, "hardware": told, **spec}
    return {"metadata": {"name": name, "namespace": "metal3"}, "spec": given}


def test_a_host_without_inspection_has_the_facts_that_an_agent_wrote() -> None:
    silent = bare_metal_host("a", status={"hardware": None})
    assert "qat" not in hosts(silent)["metal3.a"].groups
    found = hosts(silent, told=[facts_of("a")])["metal3.a"]
    assert "qat" in found.groups
    assert (found.variables["host_has_qat"], found.variables["host_memory_mib"]) == (True, 1024)
    assert "ansible_host" not in found.variables
    other = facts_of("a", hostUid="uid-b")
    assert "qat" not in hosts(silent, told=[other])["metal3.a"].groups


def test_nobody_displaces_the_host_of_another_namespace() -> None:
    mine, theirs = bare_metal_host("a"), in_namespace("aaa", bare_metal_host("a"))
    alone = hosts(mine)
    assert hosts(theirs, mine)["metal3.a"] == hosts(mine, theirs)["metal3.a"] == alone["metal3.a"]


def test_a_capability_that_is_not_known_is_in_no_group() -> None:
    bare = {"metadata": {"name": "new", "namespace": "metal3"}}
    [host] = hosts(bare).values()
    assert host.groups == ()
    off = bare_metal_host("off", spec={"firmware": {"sriovEnabled": False}})
    unknown = bare_metal_host("unknown", spec={"firmware": None})
    found = hosts(off, unknown)
    assert "sriov" not in found["metal3.off"].groups
    assert "sriov" in found["metal3.unknown"].groups
    assert "host_sriov_enabled" not in found["metal3.unknown"].variables


@pytest.mark.parametrize("state", ["qat", "sriov", "", ["available"], {"a": 1}, "\x1b[2J"])
def test_no_text_of_a_host_puts_it_into_a_group_of_a_capability(state: t.Any) -> None:
    odd = bare_metal_host(
        "odd",
        status={"provisioning": {"state": state}},
        labels={"wattwise.github.io/rack": "qat"},
        hardware={"nics": [], "cpu": {"arch": "gpu"}},
    )
    groups = hosts(odd)["metal3.odd"].groups
    assert not {"qat", "sriov", "gpu"} & set(groups)
    assert {"rack_qat", "architecture_gpu"} <= set(groups)


GOOD = [bare_metal_host(f"good-{number}") for number in range(2)]
GOOD_FACTS = [facts_of("good-0")]
ALONE = hosts(*GOOD, told=GOOD_FACTS)


@each_seed(40)
def test_all_other_hosts_are_as_without_the_bad_one(seed: int) -> None:
    source = random.Random(seed)
    odd: t.Any = spoilt(source, bare_metal_host("bad"), keep=[("metadata", "name")])
    if source.randrange(10) == 0:
        odd = source.choice([odd_value(source), {"metadata": odd_value(source)}])
    facts = spoilt(source, facts_of("bad"), keep=[("metadata", "name")])
    with bounded():
        beside = hosts(GOOD[0], odd, GOOD[1], told=[facts, *GOOD_FACTS])
    assert {name: beside.get(name) for name in ALONE} == ALONE
    # The cache and ansible-inventory write variables as JSON.
    dumped = functools.partial(json.dumps, allow_nan=False, ensure_ascii=False)
    for host in beside.values():
        dumped(host.variables).encode()
        assert all(isinstance(group, str) and group.isprintable() for group in host.groups)
