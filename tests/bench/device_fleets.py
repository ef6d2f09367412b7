# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets for rows about devices: partitioned GPUs, shared GPUs and mixed claims."""

from __future__ import annotations

import random

from bench.kit.rows import Json
from support.device_objects import dra_class, dra_device, exactly, resource_claim, resource_slice
from support.partitioned_gpus import a100, asks, profile_is

DRIVER = "gpu.example.com"
GPU = dra_class("gpu", f"device.driver == '{DRIVER}'")


def cut_gpus(nodes: int, claims: int, seed: int) -> list[Json]:
    """Nodes with partitioned GPUs; claims for partitions, pairs of GPUs and lists of both."""
    slices = [
        a100(f"node-{node:04}-gpu-{gpu}", f"node-{node:04}", numa=gpu // 4)
        for node in range(nodes)
        for gpu in range(8)
    ]
    chance = random.Random(seed)
    weights = {"1g": 40, "2g": 20, "3g": 15, "7g": 5, "pair": 5, "list": 15}
    kinds = chance.choices(list(weights), list(weights.values()), k=claims)
    wishes = [_for_partitions(f"claim-{n:05}", kind) for n, kind in enumerate(kinds)]
    return [GPU, *slices, *wishes]


def _for_partitions(name: str, kind: str) -> Json:
    if kind == "pair":
        near = [{"matchAttribute": f"{DRIVER}/numa"}]
        return resource_claim(
            name, exactly("gpus", "gpu", profile_is("7g"), count=2), constraints=near
        )
    if kind == "list":
        ways = [
            {"name": profile, **exactly("", "gpu", profile_is(profile))["exactly"]}
            for profile in ("4g", "3g", "2g")
        ]
        return resource_claim(name, {"name": "gpu", "firstAvailable": ways})
    return asks(name, kind)


def shared_gpus(nodes: int, claims: int, seed: int) -> list[Json]:
    """Nodes with GPUs whose memory is shared, and network cards on the same PCIe roots."""
    slices = [
        resource_slice(
            f"node-{node:04}",
            [
                *(_shared_gpu(gpu, "large" if node % 3 else "small") for gpu in range(8)),
                *(_card(card) for card in range(4)),
            ],
        )
        for node in range(nodes)
    ]
    chance = random.Random(seed)
    weights = {"15": 20, "25": 20, "35": 20, "45": 20, "near": 5, "list": 15}
    kinds = chance.choices(list(weights), list(weights.values()), k=claims)
    wishes = [_for_memory(f"claim-{n:05}", kind) for n, kind in enumerate(kinds)]
    return [GPU, *slices, *wishes]


def _shared_gpu(gpu: int, model: str) -> Json:
    return dra_device(
        f"gpu-{gpu}",
        attributes={"kind": "gpu", "model": model, "pcieRoot": gpu // 2},
        allowMultipleAllocations=True,
        capacity={"memory": {"value": "80Gi" if model == "large" else "40Gi"}},
    )


def _card(card: int) -> Json:
    return dra_device(f"nic-{card}", attributes={"kind": "nic", "pcieRoot": card})


def _is(attribute: str, value: str) -> str:
    return f"device.attributes['{DRIVER}'].{attribute} == '{value}'"


def _gpu(*selectors: str, memory: str) -> Json:
    """A request for a part of the memory of one GPU."""
    asked = {"requests": {"memory": f"{memory}Gi"}}
    return exactly("gpu", "gpu", _is("kind", "gpu"), *selectors, capacity=asked)


def _for_memory(name: str, kind: str) -> Json:
    if kind == "near":
        near = [{"matchAttribute": f"{DRIVER}/pcieRoot"}]
        card = exactly("nic", "gpu", _is("kind", "nic"))
        return resource_claim(name, _gpu(memory="20"), card, constraints=near)
    if kind == "list":
        ways = [
            {"name": model, **_gpu(_is("model", model), memory=gib)["exactly"]}
            for model, gib in (("large", "60"), ("small", "30"))
        ]
        return resource_claim(name, {"name": "gpu", "firstAvailable": ways})
    return resource_claim(name, _gpu(memory=kind))
