# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Objects of a cluster as hosts of an inventory, with checked names and addresses.

Tenants and machines write the objects, and connections go to the addresses in an inventory.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t
from dataclasses import dataclass

from ..base.boundary import Finding, InvalidField

Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]

# Ansible treats localhost and 127.0.0.1 as the controller, and ssh completes shorter addresses.
_MEANS_CONTROLLER = re.compile(r"localhost|[0-9]+(\.[0-9]+){1,3}")
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")


@dataclass(frozen=True)
class InventoryHost:
    """One host. Group names are raw names of the cluster."""

    name: str
    variables: dict[str, t.Any]
    groups: tuple[str, ...]


class InventoryHosts(t.NamedTuple):
    """Hosts in the order of their names, and findings."""

    hosts: list[InventoryHost]
    findings: list[Finding]


def group_names(groups: t.Iterable[tuple[str, str | None]]) -> tuple[str, ...]:
    """Names such as ``rack_r1`` of kinds and values; a missing value gives no group."""
    return tuple(f"{kind}_{value}" for kind, value in groups if value)


def known(variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The variables that have a value."""
    return {key: value for key, value in variables.items() if value is not None}


def require_name_of_a_host(
    name: str, path: str = "metadata.name", remedy: str = "set name_prefix to have it as a host"
) -> None:
    """Raises InvalidField for a name that is an address or means the controller to Ansible.

    An inventory host with such a name replaces the controller in all plays on localhost.
    """
    if _MEANS_CONTROLLER.fullmatch(name):
        raise InvalidField(
            path, f"{name} means the controller, or an address, to Ansible; {remedy}"
        )


def address_of_machine(text: t.Any) -> Address | None:
    """The address, or None for an address of the controller or an invalid one.

    ssh treats some texts as options, and a connection to a loopback address reaches the controller.
    """
    if not isinstance(text, str) or "%" in text:
        return None
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    plain = getattr(address, "ipv4_mapped", None) or address
    refused = plain.is_loopback or plain.is_unspecified or plain.is_multicast
    return None if refused or plain == _BROADCAST else address
