# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The hosts document, with each host's rack, role, capabilities and reason, for the report."""

from __future__ import annotations

import typing as t

from ...base.errors import told_text
from ..host import Host
from ..host_inventory import has_sriov
from ..roles.assignment import Answer, Assigned
from ..roles.availability import HostKey, key_of


def hosts_document(answer: Answer, cluster: str) -> dict[str, t.Any]:
    """All hosts of the assignment, hosts with a role first."""
    roles: dict[HostKey, list[Assigned]] = {}
    for each in answer.assignments:
        roles.setdefault(key_of(each.host), []).append(each)
    entries = [
        {
            **_facts(given[0].host),
            "roles": [each.role for each in given],
            "label": given[0].label,
            "why": told_text(given[0].why),
        }
        for given in roles.values()
    ]
    entries += [
        {**_facts(each.host), "roles": [], "label": None, "why": told_text(each.reason)}
        for each in answer.unassigned
    ]
    return {"cluster": cluster, "hosts": entries}


def _facts(host: Host) -> dict[str, t.Any]:
    """Place and capabilities of a host; None for unknown facts."""
    hardware = host.hardware
    ports = [port.can_sriov for port in hardware.network_interfaces]
    is_known = any(can is not None for can in ports)
    return {
        "name": host.name,
        "namespace": host.namespace,
        "rack": host.rack,
        "processors": hardware.processors.count,
        "memory_mib": hardware.memory_mib,
        "sriov": has_sriov(host) if is_known else None,
        "qat": hardware.has_qat,
        "gpus": hardware.gpus,
    }
