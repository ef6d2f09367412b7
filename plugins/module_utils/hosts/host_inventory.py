# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""BareMetalHosts as inventory hosts, in groups by state, rack and capability."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import asdict

from ..base.boundary import Subject, read_noting
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

_FORBIDDEN = 403


def read_objects(
    kube: Kube, namespaces: t.Sequence[str], selector: str | None, warn: t.Callable[[str], None]
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
    of_bmcs, findings = host_hardware.hosts_of_bmcs(told)
    found = read_hosts(objects, rack_labels, of_bmcs)
    findings += found.findings
    hosts: dict[str, InventoryHost] = {}
    for host in found.hosts:
        plain = one_namespace or not host.namespace
        name = name_prefix + (host.name if plain else f"{host.namespace}.{host.name}")
        subject = Subject(KIND, host.name, host.namespace)
        made = read_noting(subject, functools.partial(_inventory_host, name, host), findings)
        if made is not None:
            hosts[name] = made
    return InventoryHosts([hosts[name] for name in sorted(hosts)], findings)


def _inventory_host(name: str, host: Host) -> InventoryHost:
    """Raises InvalidField for a name that means the controller."""
    require_name_of_a_host(name)
    hardware = host.hardware
    capabilities = (
        ("sriov", hardware.has_sriov),
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
    """The variables: facts of the host and of its hardware, each with the prefix ``host_``."""
    variables = {
        "ansible_host": _address(host),
        "host_labels": dict(host.labels),
        "host_annotations": dict(host.annotations),
        "host_online": host.is_online,
        "host_name": host.name,
        "host_namespace": host.namespace,
    }
    variables |= {f"host_{name}": getattr(host, name) or None for name in _TEXTS}
    return variables | {f"host_{key}": _shown(each) for key, each in asdict(host.hardware).items()}


_TEXTS = (
    *("state", "operational_status", "error_message", "consumer", "bmc_address", "boot_mac"),
    "rack",
)


def _shown(value: t.Any) -> t.Any:
    """A fact, or a component with its known facts."""
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, dict):
        return known({key: _shown(each) for key, each in value.items()})
    return [_shown(each) for each in value] if isinstance(value, tuple) else value


def _address(host: Host) -> str | None:
    """The address of the port that the host boots from, else the first one."""
    ports = [port for port in host.hardware.network_interfaces if port.ip is not None]
    booting = [port for port in ports if port.mac is not None and port.mac == host.boot_mac]
    return next((port.ip for port in (*booting, *ports)), None)
