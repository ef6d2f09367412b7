# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power draw of devices in use, and of nodes that nothing runs on yet."""

from __future__ import annotations

import dataclasses
import typing as t

from ...cel.values import THOUSANDTHS, Quantity
from ...scheduling.pod_reader import is_daemon, is_finished
from .findings import ApiObject
from .model import Device, Instance

# Limit for one device; a larger value is not plausible as watts.
_MAX_MILLIWATTS = 10**9

Curves = t.Mapping[str, t.Mapping[str, t.Any]]


def with_watts(
    instance: Instance, device_power: str | None, curves: Curves, objects: t.Sequence[ApiObject]
) -> Instance:
    """The instance with the power of its devices.

    ``device_power`` names the attribute or capacity with the power that a device draws in use, in
    W; a device without it counts as 0 W. ``curves`` are watts over CPU use by node. The first value
    is the idle power of a node, and is added if only DaemonSet pods run there.
    """
    busy = {
        obj.manifest.get("spec", {}).get("nodeName")
        for obj in objects
        if obj.kind == "Pod" and not is_daemon(obj.manifest) and not is_finished(obj.manifest)
    }
    nodes = tuple(
        dataclasses.replace(
            node, wake_milliwatts=round(curves[node.name]["watts"][0] * THOUSANDTHS)
        )
        if node.name in curves and node.name not in busy
        else node
        for node in instance.nodes
    )
    if device_power is None:
        return dataclasses.replace(instance, nodes=nodes)
    devices = tuple(
        dataclasses.replace(device, milliwatts=milliwatts_of(device, device_power))
        for device in instance.devices
    )
    return dataclasses.replace(instance, nodes=nodes, devices=devices)


def milliwatts_of(device: Device, name: str) -> int:
    """Power draw of a device, by an attribute or capacity; without a domain it is the driver's."""
    for known in (name, f"{device.driver}/{name}"):
        value = device.attributes.get(known)
        milliwatts = None
        if isinstance(value, Quantity):
            milliwatts = round(value.value * THOUSANDTHS)
        elif isinstance(value, int) and not isinstance(value, bool):
            milliwatts = value * THOUSANDTHS
        elif known in device.capacities:
            milliwatts = device.capacities[known].amount
        if milliwatts is not None:
            return milliwatts if 0 <= milliwatts <= _MAX_MILLIWATTS else 0
    return 0
