# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The IP versions (4, 6) of a cluster, from the addresses of its hosts and the named subnets.

Every host needs an address of each version: kubespray gives a host without one its default route's
address, or a loopback address.
"""

from __future__ import annotations

import typing as t

from ...base.boundary import InvalidField
from ..provisioning import Request
from .availability import Addresses, Refusal

Versions = frozenset[int]

_OTHER = {4: 6, 6: 4}


def choices(
    request: Request,
    usable: t.Sequence[Addresses],
    named: t.Sequence[Addresses],
    former: t.Sequence[Addresses],
) -> list[Versions]:
    """The versions that all hosts need; without subnets alternatives, the best first.

    The best lacks on the fewest hosts with a MAC address in the request, then on the fewest former
    hosts. Version 4, kubespray's default, precedes 6. Raises InvalidField for a subnet whose
    version no usable host has.
    """
    known = [each for each in usable if each]
    for field, network in request.subnets.items():
        version = network.version
        if known and not any(version in each for each in known):
            raise InvalidField(
                f"spec.{field}",
                f"{network} is a subnet of IPv{version}, and no free host has an IPv{version} "
                f"address; write one of IPv{_OTHER[version]}, or give the hosts addresses",
            )
    needed = frozenset(network.version for network in request.subnets.values())
    if needed:
        return [needed]
    found = [4] if not known or any(4 in each for each in known) else []
    found += [6] if any(4 not in each for each in known) else []
    found.sort(key=lambda version: (_lacking(version, named), _lacking(version, former), version))
    return [frozenset((version,)) for version in found]


def _lacking(version: int, hosts: t.Sequence[Addresses]) -> int:
    return sum(bool(each) and version not in each for each in hosts)


def refusal_of(request: Request, needed: Versions, addresses: Addresses) -> Refusal | None:
    """Why a host with these addresses cannot be in the cluster; unknown addresses are no reason."""
    for version in sorted(needed):
        if addresses and version not in addresses:
            subnets = request.subnets.items()
            wanted = [f"the {name} {net}" for name, net in subnets if net.version == version]
            purpose = f"for {wanted[0]}" if wanted else "as other hosts of the cluster have"
            return Refusal(f"no IPv{version}", f"has no IPv{version} address {purpose}")
    for version in sorted({4, *needed}):
        ip = addresses[version].ip if version in addresses else None
        if ip is not None and (network := request.network_with(ip)) is not None:
            return Refusal("address", f"has the address {ip} in {network}")
    return None


def used(needed: Versions, hosts: t.Iterable[Addresses]) -> Versions:
    """The versions of the cluster: the needed ones, and version 4 if every host has it."""
    return needed | {4} if all(4 in each for each in hosts if each) else needed
