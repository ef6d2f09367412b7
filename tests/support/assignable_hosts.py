# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bare-metal hosts for tests, in the library's form and in Metal3's."""

from __future__ import annotations

import dataclasses
import random
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.hosts.host import (
    Disk,
    Hardware,
    Host,
    NetworkInterface,
    Processors,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.provisioning import read_request
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.assignment import (
    Answer,
    Question,
    assign,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.availability import Owner
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits

Json = dict[str, t.Any]

GOLD = "Intel(R) Xeon(R) Gold 6252 CPU @ 2.10GHz"
EPYC = "AMD EPYC 7742 64-Core Processor"
PLATINUM = "Intel(R) Xeon(R) Platinum 8280 CPU @ 2.70GHz"


def mac_of(number: int) -> str:
    return f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"


def address_of(number: int) -> str:
    return f"10.1.{number // 200}.{number % 200 + 1}"


def host(number: int, threads: int | None = 32, gibibytes: int | None = 64, **given: t.Any) -> Host:
    """A host ``node-<number>`` with one network interface, as inspection would report it."""
    facts = {key: given.pop(key) for key in ("has_qat", "gpus", "sriov_enabled") if key in given}
    port = NetworkInterface(
        "eth0",
        given.pop("mac", mac_of(number)),
        given.pop("ip", address_of(number)),
        can_sriov=given.pop("can_sriov", False),
        boots=True,
    )
    disks = given.pop("disks", (Disk("/dev/sda", 960 * 10**9, "SSD"),))
    hardware = Hardware(
        Processors(threads, given.pop("model", GOLD), "x86_64", frozenset(("vmx",))),
        None if gibibytes is None else gibibytes * 1024,
        (port,),
        disks,
        **facts,
    )
    defaults: Json = {"namespace": "metal3", "state": "available", "operational_status": "OK"}
    return Host(
        given.pop("name", f"node-{number}"),
        given.pop("source", "BareMetalHost"),
        hardware=hardware,
        **{**defaults, **given},
    )


def answer_of(spec: Json, hosts: t.Sequence[Host], seconds: float = 20.0, **given: t.Any) -> Answer:
    """The library's answer to the spec of a Provisioning."""
    owner = dataclasses.replace(given.pop("owner", Owner()), former=given.pop("former", {}))
    return assign(Question(read_request(spec), hosts, owner, **given), Limits(seconds))


def roles_of(answer: Answer) -> dict[str, list[str]]:
    """Names of hosts by role, in the order of the answer."""
    found: dict[str, list[str]] = {"master": [], "worker": []}
    for each in answer.assignments:
        found[each.role].append(each.host.name)
    return found


def names_of(answer: Answer) -> set[str]:
    """Names of all hosts that have a role."""
    return {each.host.name for each in answer.assignments}


def random_hosts(rng: random.Random, count: int, racks: int) -> list[Host]:
    """Hosts of few kinds, some with unknown facts or not available."""
    return [
        host(
            number,
            rng.choice([8, 16, 32, 64, None]),
            rng.choice([16, 64, 256]),
            model=rng.choice([GOLD, EPYC, PLATINUM, None]),
            rack=rng.choice([None, *(f"rack-{rack}" for rack in range(racks))]),
            state=rng.choice(["available", "provisioned"]),
            operational_status=rng.choice(["OK"] * 9 + ["error"]),
            can_sriov=rng.choice([True, False, None]),
            has_qat=rng.choice([True, False, None]),
            gpus=rng.choice([0, 0, 2, None]),
        )
        for number in range(count)
    ]


def bare_metal_host(name: str, nics: t.Sequence[Json] = (), **given: t.Any) -> Json:
    """A BareMetalHost in the API's form."""
    spec = {"online": True, **given.get("spec", {})}
    hardware = {
        "cpu": {"arch": "x86_64", "count": 32, "model": GOLD, "flags": ["vmx"]},
        "ramMebibytes": 65536,
        "nics": list(nics),
        **given.get("hardware", {}),
    }
    return {
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": "metal3", **given.get("metadata", {})},
        "spec": spec,
        "status": {
            "operationalStatus": "OK",
            "provisioning": {"state": "provisioned"},
            "hardware": hardware,
            **given.get("status", {}),
        },
    }
