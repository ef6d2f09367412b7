# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""BareMetalHosts as inventory hosts, in groups by state, rack and capability."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import asdict

from ..base.boundary import Finding, Subject, guarded
from ..base.errors import ApiError
from ..kube.client import Kube
from ..nodeconfig.inventory_hosts import (
    InventoryHost,
    InventoryHosts,
    group_names,
    known,
    require_name_of_a_host,
)
from . import bare_metal_host, host_hardware
from .bare_metal_host import KIND, read_hosts
from .host import Host
from .host_hardware import read_told

_FORBIDDEN = 403


def read_objects(
    kube: Kube,
    namespaces: t.Sequence[str],
    selector: str | None,
    warn: t.Callable[[str], None],
) -> dict[str, t.Any]:
    """The BareMetalHosts under ``hosts``, and the objects of host agents under ``told``.

    An account without the permission for the latter gets a warning, because inspected hardware
    suffices. Raises UnknownKind for a cluster without Metal3, and ApiError.
    """
    hosts = bare_metal_host.list_objects(kube, namespaces, selector)
    told: t.Sequence[t.Any] = ()
    try:
        told = host_hardware.list_objects(kube, namespaces)
    except ApiError as error:
        if error.status != _FORBIDDEN:
            raise
        warn(f"Facts that host agents read from BMCs are missing in the inventory: {error}")
    return {"hosts": hosts, "told": told}


def inventory_hosts(
    objects: t.Sequence[t.Any],
    rack_labels: t.Sequence[str],
    name_prefix: str = "",
    *,
    told: t.Sequence[t.Any] = (),
    one_namespace: bool = False,
) -> InventoryHosts:
    """The BareMetalHosts as hosts; ``told`` are the objects of host agents about them.

    Names are ``<namespace>.<name>``, so that equal names in several namespaces do not displace each
    other; with ``one_namespace`` only the name.
    """
    by_bmc, findings = read_told(told)
    found = read_hosts(objects, rack_labels, by_bmc)
    findings += found.findings
    hosts: dict[str, InventoryHost] = {}
    for host in found.hosts:
        plain = one_namespace or not host.namespace
        name = name_prefix + (host.name if plain else f"{host.namespace}.{host.name}")
        subject = Subject(KIND, host.name, host.namespace)
        made = guarded(subject, functools.partial(_inventory_host, name, host))
        if isinstance(made, Finding):
            findings.append(made)
        else:
            hosts[name] = made
    return InventoryHosts([hosts[name] for name in sorted(hosts)], findings)


def has_sriov(host: Host) -> bool:
    """Whether an adapter has virtual functions and the switch in the BIOS is not known as off."""
    ports = host.hardware.network_interfaces
    return host.hardware.sriov_enabled is not False and any(port.can_sriov for port in ports)


def _inventory_host(name: str, host: Host) -> InventoryHost:
    """Raises InvalidField for a name that means the controller."""
    require_name_of_a_host(name)
    hardware = host.hardware
    capabilities = (
        ("sriov", has_sriov(host)),
        ("qat", hardware.has_qat is True),
        ("gpu", bool(hardware.gpus)),
    )
    groups = group_names(
        (
            ("state", host.state),
            ("rack", host.rack),
            ("architecture", hardware.processors.architecture),
        )
    )
    return InventoryHost(
        name,
        known(_variables(host)),
        (*groups, *(group for group, applies in capabilities if applies)),
    )


def _variables(host: Host) -> dict[str, t.Any]:
    hardware = host.hardware
    flags = hardware.processors.flags
    processors = {**asdict(hardware.processors), "flags": None if flags is None else sorted(flags)}
    return {
        "ansible_host": _address(host),
        "host_name": host.name,
        "host_namespace": host.namespace,
        "host_labels": dict(host.labels),
        "host_annotations": dict(host.annotations),
        "host_state": host.state or None,
        "host_operational_status": host.operational_status or None,
        "host_error_message": host.error_message or None,
        "host_online": host.is_online,
        "host_consumer": host.consumer,
        "host_bmc_address": host.bmc_address,
        "host_boot_mac": host.boot_mac,
        "host_rack": host.rack,
        "host_processors": known(processors),
        "host_memory_mib": hardware.memory_mib,
        "host_network_interfaces": [known(asdict(port)) for port in hardware.network_interfaces],
        "host_disks": _dictionaries(hardware.disks),
        "host_pci_devices": _dictionaries(hardware.pci_devices),
        "host_has_qat": hardware.has_qat,
        "host_gpus": hardware.gpus,
        "host_sriov_enabled": hardware.sriov_enabled,
        "host_manufacturer": hardware.manufacturer,
        "host_product": hardware.product,
        "host_serial_number": hardware.serial_number,
    }


def _dictionaries(items: t.Sequence[t.Any] | None) -> list[dict[str, t.Any]] | None:
    return None if items is None else [known(asdict(item)) for item in items]


def _address(host: Host) -> str | None:
    """The address of the port that the host boots from, else the first one."""
    ports = [port for port in host.hardware.network_interfaces if port.ip is not None]
    booting = [port for port in ports if port.mac is not None and port.mac == host.boot_mac]
    return next((port.ip for port in (*booting, *ports)), None)
