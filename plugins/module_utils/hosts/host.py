# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A bare-metal host, its hardware, and the source of each fact.

None stands for an unknown fact, which differs from no.
"""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass, field

from ..base.boundary import Finding, read_each, subject_of

HostSource = t.Literal["BareMetalHost", "Redfish"]


@dataclass(frozen=True)
class Processors:
    """All processors of a host together; `count` is of hardware threads, as Ironic counts."""

    count: int | None = None
    model: str | None = None
    architecture: str | None = None
    flags: frozenset[str] | None = None


@dataclass(frozen=True)
class NetworkInterface:
    """A network port; `mac` has lower-case letters and colons, `ip` is a checked address.

    `ip6` is the IPv6 address of a port whose `ip` is of IPv4.
    `pci_id` is vendor and device, such as ``8086:1572``. `can_sriov` is about the adapter; the
    switch in the BIOS is a fact of the host.
    """

    name: str
    mac: str | None = None
    ip: str | None = None
    ip6: str | None = None
    pci_id: str | None = None
    gigabits: float | None = None
    boots: bool | None = None
    can_sriov: bool | None = None


@dataclass(frozen=True)
class Disk:
    """A disk; `kind` is ``HDD``, ``SSD`` or ``NVME``."""

    name: str
    size_bytes: int | None = None
    kind: str | None = None


@dataclass(frozen=True)
class PciDevice:
    """A device on the PCI bus other than a network port: `pci_id` such as ``8086:37c8``."""

    pci_id: str
    name: str = ""


@dataclass(frozen=True)
class Hardware:
    """Components of a host.

    `sriov_enabled` is the switch in the BIOS. `has_qat` and `gpus` are None without a source that
    sees the PCI bus, or a label. `memory_mib` is the whole memory in MiB.
    """

    processors: Processors = Processors()
    memory_mib: int | None = None
    network_interfaces: tuple[NetworkInterface, ...] = ()
    disks: tuple[Disk, ...] | None = None
    pci_devices: tuple[PciDevice, ...] | None = None
    has_qat: bool | None = None
    gpus: int | None = None
    sriov_enabled: bool | None = None
    manufacturer: str | None = None
    product: str | None = None
    serial_number: str | None = None

    @property
    def memory_bytes(self) -> int | None:
        """The whole memory in bytes."""
        return None if self.memory_mib is None else self.memory_mib << 20

    @property
    def has_sriov(self) -> bool:
        """Whether an adapter has virtual functions and the switch in the BIOS is not known as off."""
        ports = self.network_interfaces
        return self.sriov_enabled is not False and any(port.can_sriov for port in ports)


@dataclass(frozen=True)
class Host:
    """A host that a Provisioning may take.

    `state` is Metal3's ``status.provisioning.state``, empty for hosts without BareMetalHost;
    `operational_status` is ``OK``, ``error``, ``detached``, … . `consumer` names the object that
    consumes the host, as ``kind/namespace/name``. `inspected_at` is the end of Metal3's last
    inspection. `findings` are sentences about defects of this host's own data, which do not affect
    other hosts.
    """

    name: str
    source: HostSource
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: t.Mapping[str, str] = field(default_factory=dict)
    annotations: t.Mapping[str, str] = field(default_factory=dict)
    hardware: Hardware = Hardware()
    boot_mac: str | None = None
    bmc_address: str | None = None
    bmc_credentials_name: str | None = None
    rack: str | None = None
    state: str = ""
    operational_status: str = ""
    error_message: str = ""
    is_online: bool | None = None
    consumer: str | None = None
    user_data_secret: str | None = None
    inspected_at: datetime.datetime | None = None
    findings: tuple[str, ...] = ()

    @property
    def macs(self) -> frozenset[str]:
        """Every MAC address by which a user may name this host."""
        ports = (port.mac for port in self.hardware.network_interfaces)
        return frozenset(mac for mac in (self.boot_mac, *ports) if mac)


def read_each_host(
    objects: t.Sequence[t.Any],
    kind: str,
    read: t.Callable[[t.Any], Host],
    findings: list[Finding],
    place: str = "",
) -> list[Host]:
    """The readable objects as hosts; all defects are added to the findings."""
    hosts = []
    for obj, host in read_each(objects, kind, read, findings, place):
        hosts.append(host)
        subject = subject_of(obj, kind)
        findings += [Finding(subject, "", sentence) for sentence in host.findings]
    return hosts
