# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small tasks of device allocation that are hard for a search without look-ahead."""

from __future__ import annotations

import typing as t

from support.device_objects import dra_device, exactly, manifest, resource_claim, resource_slice
from support.partitioned_gpus import a100, asks

DRIVER = "gpu.example.com"
SAME_NUMA = [{"matchAttribute": f"{DRIVER}/numa"}]
Json = dict[str, t.Any]


def pod_with(claims: list[Json]) -> Json:
    """A pod that needs all of these claims."""
    names = [claim["metadata"]["name"] for claim in claims]
    named = [{"name": name, "resourceClaimName": name} for name in names]
    return manifest("v1", "Pod", "pod", {"resourceClaims": named}, namespace="default")


def one(name: str, *selectors: str, **more: t.Any) -> Json:
    """A claim with one request."""
    constraints = more.pop("constraints", [])
    return resource_claim(name, exactly("r", "gpu", *selectors, **more), constraints=constraints)


def model(letters: str) -> str:
    """A selector of devices of one of these models."""
    return f"'{letters}'.contains(device.attributes['{DRIVER}'].model)"


def _halves(pool: int) -> Json:
    """Eight devices that take 20 each of a counter of 90, so that four fit."""
    consumed = [{"counterSet": "s", "counters": {"memory": {"value": "20"}}}]
    devices = [dra_device(f"d{pool}-{number}", consumesCounters=consumed) for number in range(8)]
    shared = [{"name": "s", "counters": {"memory": {"value": "90"}}}]
    return resource_slice(f"p{pool}", devices, sharedCounters=shared, nodeName="n1")


def _devices(count: int, attribute: str, values: t.Sequence[int | str]) -> Json:
    return resource_slice(
        "n1",
        [
            dra_device(f"d{number}", attributes={attribute: values[number % len(values)]})
            for number in range(count)
        ],
    )


def impossible(size: int) -> dict[str, tuple[list[Json], list[Json]]]:
    """Slices and claims of five kinds: one claim more than the ``size`` that can be satisfied.

    ``size`` is a multiple of 8. In ``one value in common``, each claim needs two devices.
    """
    pairs = size // 3 + 1
    profiles = ["3g"] * (size // 4) + ["2g"] * (size // 4) + ["1g"] * (size // 2 + 1)
    wishes = [model(["a", "b", "ab", "c", "ab"][number % 5]) for number in range(size + 1)]
    return {
        "plain": ([_devices(size, "model", "a")], [one(f"c{n}") for n in range(size + 1)]),
        "counters that do not divide": (
            [_halves(pool) for pool in range(size // 4)],
            [one(f"c{n}") for n in range(size + 1)],
        ),
        "one value in common": (
            [_devices(3 * pairs, "numa", range(pairs))],
            [one(f"c{n}", count=2, constraints=SAME_NUMA) for n in range(pairs + 1)],
        ),
        "mixed shapes": (
            [_devices(size, "model", "abc")],
            [one(f"c{number}", wish) for number, wish in enumerate(wishes)],
        ),
        "partitions": (
            [a100(f"gpu-{number}", "n1") for number in range(size // 4)],
            [asks(f"c{number}", profile) for number, profile in enumerate(profiles)],
        ),
    }


def pathologies() -> dict[str, tuple[list[Json], int]]:
    """Objects of known issues of Kubernetes, with satisfiable claims.

    Each task has one node; the numbers are those of the issues.
    """
    backtracking = [one(f"c{number}") for number in range(7)]
    six = [one(f"c{number}") for number in range(6)]
    numa = [{"ints": [1, 2]}, {"int": 1}, {"int": 2}, {"int": 2}]
    near = [dra_device(f"d{n}", attributes={"numa": value}) for n, value in enumerate(numa)]
    gang = [dra_device(name, attributes={"size": size}) for name, size in (("a", 8), ("b", 4))]
    large = f"device.attributes['{DRIVER}'].size == 8"
    seven = [asks(f"c{number}", "1g") for number in range(7)]
    return {
        "6 of 5 devices (130593)": ([_devices(5, "model", "a"), pod_with(six), *six], 0),
        "the first of 8 devices is too large for 7 claims": (
            [_first_too_large(), pod_with(backtracking), *backtracking],
            7,
        ),
        "lists of values in common (140326)": (
            [resource_slice("n1", near), one("c", count=3, constraints=SAME_NUMA)],
            1,
        ),
        "a gang and its whole device (138765)": (
            [resource_slice("n1", gang), one("any"), one("whole", large)],
            2,
        ),
        "7 partitions on 8 GPUs (NVIDIA 932)": (
            [*(a100(f"gpu-{number}", "n1") for number in range(8)), *seven],
            7,
        ),
    }


def _first_too_large() -> Json:
    """Memory suffices for seven of the eight devices, unless the first is among them."""
    devices = [
        dra_device(
            f"device-{number}",
            consumesCounters=[
                {
                    "counterSet": "shared",
                    "counters": {
                        "memory": {"value": "20Gi" if number == 1 else "10Gi"},
                        f"cpu{number}": {"value": "1"},
                    },
                }
            ],
        )
        for number in range(1, 9)
    ]
    processors = {f"cpu{number}": {"value": "1"} for number in range(1, 9)}
    shared = [{"name": "shared", "counters": {"memory": {"value": "70Gi"}, **processors}}]
    return resource_slice("n1", devices, sharedCounters=shared)
