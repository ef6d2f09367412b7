# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hardware of the lab's machines: adapters, disks, accelerators, the switch in the BIOS."""

from __future__ import annotations

import hashlib
import random
import uuid
from dataclasses import dataclass

GPU_SLOTS = 2
DRIVE_BAYS = 4
PORTS = 2
QUICK_ASSIST = "8086:37c8"
GPU = "10de:20b5"


@dataclass(frozen=True)
class Adapter:
    """A network adapter with two ports; `virtual_functions` says whether it supports SR-IOV."""

    name: str
    pci_id: str
    gigabits: int
    virtual_functions: bool


@dataclass(frozen=True)
class Drive:
    """A disk in a bay."""

    kind: str
    size_bytes: int


@dataclass(frozen=True)
class Hardware:
    """One machine's hardware, which its BMC and its BareMetalHost describe."""

    threads: int
    serial_number: str
    adapter: Adapter
    macs: tuple[str, ...]
    drives: tuple[Drive, ...]
    has_qat: bool
    gpus: int
    sriov_enabled: bool


_ADAPTERS = (
    Adapter("Intel X710 10GbE SFP+", "8086:1572", 10, True),
    Adapter("Mellanox ConnectX-6 Dx", "15b3:101d", 100, True),
    Adapter("Broadcom BCM57414 25GbE", "14e4:16d7", 25, True),
    Adapter("Intel I210 Gigabit", "8086:1533", 1, False),
)
_DRIVES = (
    Drive("NVME", 1_600_321_314_816),
    Drive("SSD", 480_103_981_056),
    Drive("HDD", 4_000_787_030_016),
)


def system_uuid(name: str) -> str:
    """The UUID in the firmware of the machine of this name; its BMC and its kubelet tell it."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def build_hardware(name: str, processor: str, cores: int, seed: int) -> Hardware:
    """The hardware of the machine of this name; equal arguments give equal hardware."""
    source = random.Random(f"{seed} {name} hardware")
    # Locally administered addresses, which no real adapter has.
    digits = hashlib.sha256(f"{seed} {name} mac".encode()).hexdigest()
    pairs = [digits[at : at + 2] for at in range(0, 8, 2)]
    is_intel = "Intel" in processor
    return Hardware(
        threads=cores if "Ampere" in processor else 2 * cores,
        serial_number="".join(source.choices("0123456789ABCDEFGHJKLMNPQRSTVWXYZ", k=7)),
        adapter=source.choice(_ADAPTERS),
        macs=tuple(":".join(["02", *pairs, f"{number:02x}"]) for number in range(PORTS)),
        drives=tuple(source.choice(_DRIVES) for _bay in range(source.randint(1, DRIVE_BAYS))),
        has_qat=source.random() < (0.5 if is_intel else 0.2),
        gpus=source.choice((0, 0, 0, 0, 1, 2)),
        sriov_enabled=source.random() < 0.75,
    )
