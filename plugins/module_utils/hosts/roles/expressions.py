# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The variable ``host`` of a Provisioning's CEL expressions.

An unknown fact is missing, so an expression that reads it has an error, and the host is not taken
and counts as unknown. ``has(host.cpu.model)`` tests whether a fact is known.
"""

from __future__ import annotations

import typing as t

from ...base.texts import shown_text
from ..host import Host

# Bounds for cel/selector.py's estimate of an expression's cost.
_MAX_TEXT_LENGTH = 256
_MAX_MEMBERS = 512


def variables_of(host: Host) -> dict[str, t.Any]:
    """The variables of expressions over this host."""
    hardware = host.hardware
    processors = hardware.processors
    flags = processors.flags
    return {
        "host": _known(
            {
                "name": host.name,
                "namespace": host.namespace,
                "source": host.source,
                "rack": host.rack,
                "labels": _texts(host.labels),
                "annotations": _texts(host.annotations),
                "cpu": _known(
                    {
                        "count": processors.count,
                        "model": processors.model,
                        "architecture": processors.architecture,
                        "flags": None if flags is None else sorted(flags)[:_MAX_MEMBERS],
                    }
                ),
                "memory": _known({"mebibytes": hardware.memory_mib}),
                "nics": _nics(host),
                "disks": _disks(host),
                "pciDevices": _pci_devices(host),
                "qat": hardware.has_qat,
                "gpus": hardware.gpus,
                "sriovEnabled": hardware.sriov_enabled,
                "manufacturer": hardware.manufacturer,
                "product": hardware.product,
                "serialNumber": hardware.serial_number,
                "state": host.state,
                "online": host.is_online,
            }
        )
    }


def _nics(host: Host) -> list[dict[str, t.Any]]:
    return [
        _known(
            {
                "name": port.name,
                "mac": port.mac,
                "ip": port.ip,
                "pciId": port.pci_id,
                "gigabits": None if port.gigabits is None else float(port.gigabits),
                "boots": port.boots,
                "sriov": port.can_sriov,
            }
        )
        for port in host.hardware.network_interfaces[:_MAX_MEMBERS]
    ]


def _disks(host: Host) -> list[dict[str, t.Any]] | None:
    if host.hardware.disks is None:
        return None
    return [
        _known({"name": disk.name, "bytes": disk.size_bytes, "kind": disk.kind})
        for disk in host.hardware.disks[:_MAX_MEMBERS]
    ]


def _pci_devices(host: Host) -> list[dict[str, t.Any]] | None:
    if host.hardware.pci_devices is None:
        return None
    return [
        {"pciId": device.pci_id, "name": shown_text(device.name, _MAX_TEXT_LENGTH)}
        for device in host.hardware.pci_devices[:_MAX_MEMBERS]
    ]


def _texts(given: t.Mapping[str, str]) -> dict[str, str]:
    """At most 512 labels or annotations, without those with long texts."""
    short = (item for item in sorted(given.items()) if len(item[1].encode()) <= _MAX_TEXT_LENGTH)
    return dict(list(short)[:_MAX_MEMBERS])


def _known(facts: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {
        name: shown_text(value, _MAX_TEXT_LENGTH) if isinstance(value, str) else value
        for name, value in facts.items()
        if value is not None
    }
