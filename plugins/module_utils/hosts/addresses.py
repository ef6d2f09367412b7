# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Checks of names and subnets before they become part of an inventory.

An inventory is a program for Ansible: a line break in a label would be another host, and a space
before ``ansible_connection=local`` would run the installer on the controller.
"""

from __future__ import annotations

import ipaddress
import typing as t

from ..base.boundary import InvalidField, shown
from ..base.fields.strict import is_subdomain
from ..nodeconfig.inventory_hosts import require_name_of_a_host

Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

# Groups of inventories and of kubespray. Its plays for a group would run on such a host, and a host
# named bastion would become the jump host of all others, without a check of their keys.
_NAMES_OF_GROUPS = frozenset(
    (
        *("all", "ungrouped", "etcd", "bastion", "calico-rr", "no-floating"),
        *("kube-master", "kube-node", "k8s-cluster", "ovn-central", "ovn-controller", "virtlet"),
    )
)
_MAX_ADDRESS_LENGTH = 64
# Shortest and longest prefix that kubeadm accepts for services, by IP version.
_SERVICE_PREFIXES = {4: (12, 28), 6: (108, 124)}
_MAX_PART_LENGTH = 63  # length of a host name (RFC 1123)


def inventory_name(value: t.Any, path: str) -> str:
    """A valid name of a Node and of an inventory host. Raises InvalidField."""
    if not is_subdomain(value):
        raise InvalidField(
            path,
            f"{shown(value)} cannot be the name of a node; write lower-case letters, digits, "
            "hyphens and dots, such as master-1",
        )
    if any(len(part) > _MAX_PART_LENGTH for part in value.split(".")):
        raise InvalidField(
            path,
            f"a part of {shown(value)} has more than {_MAX_PART_LENGTH} characters; shorten it",
        )
    if value in _NAMES_OF_GROUPS:
        raise InvalidField(path, f"{value} is the name of a group; choose another name")
    require_name_of_a_host(value, path, "choose another name")
    return str(value)


def subnet(value: t.Any, path: str) -> Network:
    """A subnet in CIDR notation. Raises InvalidField."""
    problem = f"{shown(value)} is not a subnet in CIDR notation; write one such as 10.244.64.0/18"
    if not isinstance(value, str) or len(value) > _MAX_ADDRESS_LENGTH or "/" not in value:
        raise InvalidField(path, problem)
    try:
        network = ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise InvalidField(path, problem) from None
    if str(network.network_address) != str(ipaddress.ip_address(value.split("/")[0])):
        raise InvalidField(path, f"{shown(value)} has host bits set; {network} is the subnet")
    if "%" in value or network.is_multicast or network.is_loopback or network.is_link_local:
        raise InvalidField(
            path, f"{shown(value)} has no addresses that a cluster can route; write another subnet"
        )
    return network


def service_subnet(value: t.Any, path: str) -> Network:
    """A subnet in CIDR notation with a length for services. Raises InvalidField."""
    network = subnet(value, path)
    shortest, longest = _SERVICE_PREFIXES[network.version]
    if not shortest <= network.prefixlen <= longest:
        raise InvalidField(
            path,
            f"kubeadm refuses {network} for services; write a subnet from /{shortest} to "
            f"/{longest}",
        )
    return network
