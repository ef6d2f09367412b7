# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Networks of pods, services and hosts of a cluster, which must not overlap."""

from __future__ import annotations

import typing as t

from ...base.boundary import InvalidField
from ..provisioning import Request
from ..roles.assignment import Answer
from .kubespray import NODE_PREFIXES, ip_versions_of


def check_networks(request: Request, answer: Answer) -> None:
    """Raise InvalidField if networks of pods, services and named hosts overlap.

    A host without a MAC address in the request, but with an address in such a network, gets no
    role.
    """
    named = {network.version for network in request.subnets.values()}
    for version in named | ip_versions_of(answer.assignments) or {4}:
        pods, services = request.networks(version)
        if pods.network.overlaps(services.network):
            own, other = (services, pods) if pods.is_default else (pods, services)
            raise InvalidField(
                f"spec.{own.field}",
                f"{own.network} overlaps with {other}; write another subnet, or {other.field}",
            )
    for each in answer.assignments:
        for ip in filter(None, (each.ip, each.ip6)):
            network = request.network_with(ip)
            if network is not None:
                raise InvalidField(
                    f"spec.{network.field}",
                    f"{network.origin}{network.network} overlaps with the network of the hosts: "
                    f"{each.host.name} has {ip}; write another subnet",
                )


def small_subnets(request: Request, answer: Answer) -> t.Iterator[str]:
    """Sentences on pod subnets that are too small for the nodes."""
    nodes = len({(each.host.namespace, each.host.name) for each in answer.assignments})
    for version in sorted(ip_versions_of(answer.assignments)):
        pods, _services = request.networks(version)
        length, of_node = pods.network.prefixlen, NODE_PREFIXES[version]
        room = 2 ** max(0, of_node - length)
        if length > of_node:
            yield (
                f"spec.PodSubnet: {pods.network} is smaller than a node's /{of_node}; write a "
                "larger subnet"
            )
        elif nodes > room:
            yield (
                f"spec.PodSubnet: {pods} has addresses for {room} "
                f"{'node' if room == 1 else 'nodes'}, and the cluster has {nodes}; write a larger "
                "subnet"
            )
