# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's machines: facts for an operator's inventory, without the hidden ones of physics.

Standard library only: the predictor's environment imports this file.
"""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from lab.errors import LabError
from lab.hardware import Hardware, build_hardware

Vendor = Literal["idrac9", "idrac10", "hpe", "lenovo", "supermicro", "openbmc"]
Certificate = Literal["lab-ca", "self-signed"]

RACK_UNITS = 42
MAX_RACKS = 254
MAX_MACHINES_IN_A_RACK = 254
SELF_SIGNED_ONE_IN = 10
PASSWORD_LENGTH = 20


@dataclass(frozen=True)
class ServerType:
    """A model of server; `node_type` is its row in data/server_power_curves.csv.

    `boot_seconds` last from the power-on to the operating system: the firmware trains the memory,
    and tests its devices, longer in larger servers.
    """

    name: str
    node_type: int
    vendor: Vendor
    model: str
    processor: str
    sockets: int
    cores: int
    memory_gib: int
    boot_seconds: float
    architecture: str = "amd64"


@dataclass(frozen=True)
class Machine:
    """A server in its rack, with the facts known to its owner.

    `position` is the rack unit, counted from the floor. The BMC has the address of the node's
    InternalIP with 127 in place of 10, so that a NodeConfigTemplate can compute it. The account
    `bmc_username` may read, `power_username` may also switch and cap.
    """

    name: str
    rack: str
    position: int
    server_type: str
    vendor: Vendor
    model: str
    internal_address: str
    bmc_address: str
    cores: int
    memory_gib: int
    architecture: str
    hardware: Hardware
    bmc_username: str
    bmc_password: str = field(repr=False)
    power_username: str
    power_password: str = field(repr=False)
    certificate: Certificate = "lab-ca"


# Chosen from the rows of 16–128 cores with a processor of 2017 or later and 1–40 W a core at full
# load (some rows are mis-scaled). `bow` is the distance of the power draw at half load above the
# straight line from idle to full load, relative to the span: the most concave (+0.18 … +0.12) and
# the most convex (−0.24 … −0.13) ones of different makers, which mislead a greedy choice, and two
# nearly straight ones. The first six have six different kinds of BMC.
_CATALOGUE = (
    # name, row, BMC, model, processor, sockets, cores, GiB, boot                       bow
    ServerType(  # +0.17
        "epyc-7702p-64c", 316, "idrac9", "PowerEdge R6515", "AMD EPYC 7702P", 1, 64, 256, 150.0
    ),
    ServerType(  # −0.06
        "epyc-9754-128c", 215, "idrac10", "PowerEdge R7715", "AMD EPYC 9754", 1, 128, 512, 210.0
    ),
    ServerType(  # −0.24
        "xeon-8480-112c", 133, "hpe", "ProLiant DL380 Gen11", "Intel Xeon 8480+", 2, 112, 512, 300.0
    ),
    ServerType(  # −0.20
        "xeon-8380-80c", 117, "lenovo", "ThinkSystem SR650 V2", "Intel Xeon 8380", 2, 80, 384, 240.0
    ),
    ServerType(  # +0.18
        "epyc-7351-32c", 179, "supermicro", "AS-2023US-TR4", "AMD EPYC 7351", 2, 32, 128, 150.0
    ),
    ServerType(  # −0.13
        "altra-max-128c", 53, "openbmc", "Mt. Jade", "Ampere Altra Max", 1, 128, 512, 180.0, "arm64"
    ),
    ServerType(  # +0.14
        "epyc-7702-128c", 246, "idrac9", "PowerEdge R7525", "AMD EPYC 7702", 2, 128, 512, 210.0
    ),
    ServerType(  # +0.04
        "epyc-9654p-96c", 247, "hpe", "ProLiant DL365 Gen11", "AMD EPYC 9654P", 1, 96, 384, 270.0
    ),
    ServerType(  # +0.13
        "epyc-8124p-16c", 207, "supermicro", "AS-1015SV-WTNRT", "AMD EPYC 8124P", 1, 16, 64, 120.0
    ),
)
SERVER_TYPES: Mapping[str, ServerType] = MappingProxyType({item.name: item for item in _CATALOGUE})


def build_machines(nodes: int, racks: int, seed: int) -> list[Machine]:
    """The machines of a lab, rack by rack from the floor up; equal arguments give equal machines.

    Raises LabError if the racks cannot hold them.
    """
    if nodes < 1 or not 1 <= racks <= MAX_RACKS:
        raise LabError(
            f"A lab of {nodes} nodes in {racks} racks cannot be built;"
            f" ask for at least 1 node and 1 to {MAX_RACKS} racks."
        )
    largest = -(-nodes // racks)
    if largest > MAX_MACHINES_IN_A_RACK:
        raise LabError(
            f"{nodes} nodes do not fit into {racks} racks of at most {MAX_MACHINES_IN_A_RACK};"
            f" ask for {-(-nodes // MAX_MACHINES_IN_A_RACK)} racks or more."
        )
    types = _deal_types(nodes, seed)
    self_signed = set(
        random.Random(f"{seed} certificates").sample(range(nodes), nodes // SELF_SIGNED_ONE_IN)
    )
    machines: list[Machine] = []
    for rack in range(1, racks + 1):
        size = nodes // racks + (rack <= nodes % racks)
        for index in range(1, size + 1):
            number = len(machines)
            place = _Place(rack, index, size, digits=max(2, len(str(largest))))
            certificate: Certificate = "self-signed" if number in self_signed else "lab-ca"
            machines.append(_machine(types[number], place, seed, certificate))
    return machines


def select(machines: Sequence[Machine], names: Sequence[str]) -> list[Machine]:
    """The named machines, in the order of the names; LabError names the first unknown one."""
    by_name = {machine.name: machine for machine in machines}
    for name in names:
        if name not in by_name:
            raise LabError(
                f"There is no machine {name} in this lab; its {len(machines)} machines are"
                f" {machines[0].name} to {machines[-1].name}."
            )
    return [by_name[name] for name in names]


@dataclass(frozen=True)
class _Place:
    """Machine number `index` of `size` in a rack; names have `digits` digits of it."""

    rack: int
    index: int
    size: int
    digits: int


def _machine(kind: ServerType, place: _Place, seed: int, certificate: Certificate) -> Machine:
    rack = f"r{place.rack}"
    secret = random.Random(f"{seed} {rack} credential")
    alphabet = string.ascii_letters + string.digits
    name = f"{rack}-n{place.index:0{place.digits}d}"
    return Machine(
        name=name,
        rack=rack,
        position=1 + (place.index - 1) * RACK_UNITS // place.size,
        server_type=kind.name,
        vendor=kind.vendor,
        model=kind.model,
        internal_address=f"10.71.{place.rack}.{place.index}",
        bmc_address=f"127.71.{place.rack}.{place.index}",
        cores=kind.cores,
        memory_gib=kind.memory_gib,
        architecture=kind.architecture,
        hardware=build_hardware(name, kind.processor, kind.cores, seed),
        bmc_username=f"monitor-{rack}",
        bmc_password="".join(secret.choices(alphabet, k=PASSWORD_LENGTH)),
        power_username=f"power-{rack}",
        power_password="".join(secret.choices(alphabet, k=PASSWORD_LENGTH)),
        certificate=certificate,
    )


def _deal_types(nodes: int, seed: int) -> list[ServerType]:
    """A type for each node, all types equally often, in an order determined by the seed."""
    dealt = [_CATALOGUE[number % len(_CATALOGUE)] for number in range(nodes)]
    random.Random(f"{seed} server types").shuffle(dealt)
    return dealt
