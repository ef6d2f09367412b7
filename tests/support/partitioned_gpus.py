# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Partitioned GPUs and claims for the partitions, as objects of resource.k8s.io/v1."""

from __future__ import annotations

import typing as t

from support.device_objects import dra_device, exactly, resource_claim, resource_slice

DRIVER = "gpu.example.com"
Json = dict[str, t.Any]

# NVIDIA's placements of an A100 with 40 GB: profile, compute slices, memory slices, and start
# slices.
PLACEMENTS = {
    "1g": (1, 1, range(7)),
    "2g": (2, 2, (0, 2, 4)),
    "3g": (3, 4, (0, 4)),
    "4g": (4, 4, (0,)),
    "7g": (7, 8, (0,)),
}


def a100(gpu: str, node: str, **attributes: int) -> Json:
    """A GPU with its memory slices as counters, so that partitions do not overlap."""
    devices = [
        dra_device(
            f"{profile}-{start}",
            attributes={"profile": profile, **attributes},
            consumesCounters=[
                {"counterSet": "gpu", "counters": _amounts(compute, range(start, start + memory))}
            ],
        )
        for profile, (compute, memory, starts) in PLACEMENTS.items()
        for start in starts
    ]
    shared = [{"name": "gpu", "counters": _amounts(7, range(8))}]
    return resource_slice(gpu, devices, sharedCounters=shared, nodeName=node)


def _amounts(compute: int, memory: range) -> Json:
    slices = {f"slice-{number}": {"value": "1"} for number in memory}
    return {"compute": {"value": str(compute)}, **slices}


def profile_is(profile: str) -> str:
    """A selector of partitions of one size."""
    return f"device.attributes['{DRIVER}'].profile == '{profile}'"


def asks(name: str, profile: str) -> Json:
    """A claim for one partition."""
    return resource_claim(name, exactly("r", "gpu", profile_is(profile)))
