# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Names and addresses that become part of an inventory: checked before anything is written.

An inventory is a program for Ansible: a line break in a label would be another host, and a space
before ``ansible_connection=local`` would run the installer on the controller.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import InvalidField, shown
from ansible_collections.wattwise.kube.plugins.module_utils.base.object_shapes import is_subdomain

Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

_MAC = re.compile(r"[0-9a-f]{2}(?:(?::[0-9a-f]{2}){5}|(?:-[0-9a-f]{2}){5})", re.ASCII)
_NO_MACS = frozenset(("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"))
_LONGEST_ADDRESS = 64


def mac_address(value: t.Any, path: str) -> str:
    """A MAC address with lower-case letters and colons. Raises InvalidField."""
    text = value.strip().lower() if isinstance(value, str) else ""
    mac = text.replace("-", ":")
    if not _MAC.fullmatch(text) or mac in _NO_MACS:
        raise InvalidField(
            path, f"{shown(value)} is not a MAC address; write one such as 08:00:27:00:ab:2c"
        )
    return mac


def host_address(value: t.Any, path: str) -> str:
    """An address at which a host can be reached, in canonical form. Raises InvalidField."""
    try:
        if not isinstance(value, str) or len(value) > _LONGEST_ADDRESS or "%" in value:
            raise ValueError
        address = ipaddress.ip_address(value)
    except ValueError:
        raise InvalidField(path, f"{shown(value)} is not an IP address") from None
    if address.is_unspecified or address.is_loopback or address.is_multicast:
        raise InvalidField(path, f"{address} is not the address of a host")
    if address.is_link_local:
        raise InvalidField(path, f"{address} is a link-local address, which leads to no host")
    return str(address)


def inventory_name(value: t.Any, path: str) -> str:
    """A name that a Node and a host of an inventory may have. Raises InvalidField."""
    if not is_subdomain(value):
        raise InvalidField(
            path,
            f"{shown(value)} cannot be the name of a node; write lower-case letters, digits, "
            "hyphens and dots, such as master-1",
        )
    return str(value)


def subnet(value: t.Any, path: str) -> Network:
    """A subnet in CIDR notation. Raises InvalidField."""
    problem = f"{shown(value)} is not a subnet in CIDR notation; write one such as 10.244.64.0/18"
    if not isinstance(value, str) or len(value) > _LONGEST_ADDRESS or "/" not in value:
        raise InvalidField(path, problem)
    try:
        network = ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise InvalidField(path, problem) from None
    if str(network.network_address) != str(ipaddress.ip_address(value.split("/")[0])):
        raise InvalidField(path, f"{shown(value)} has host bits set; {network} is the subnet")
    return network
