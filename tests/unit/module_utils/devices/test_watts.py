# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power draw of devices and of nodes without load decide between otherwise equal devices."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from support.device_objects import (
    attributes,
    device_claim,
    device_pool,
    dra_class,
    dra_device,
    exactly,
    manifest,
    resource_claim,
    resource_slice,
)

GPU = dra_class("gpu", "device.driver == 'gpu.example.com'")
ONE = resource_claim("c", exactly("r", "gpu"))
Json = dict[str, t.Any]


def watts_of(result: Json) -> list[float]:
    return [level["value"] for level in result["objective"] if level["level"] == "watts"]


@pytest.mark.parametrize("name", ["power", "gpu.example.com/power"])
def test_the_device_that_draws_less_is_taken(name: str) -> None:
    slices = resource_slice(
        "n1", [dra_device(f"d{watts}", attributes={"power": watts}) for watts in (400, 70, 250)]
    )
    result = allocate({"objects": [slices, GPU, ONE], "device_power": name})
    assert result["allocations"][0]["devices"]["results"][0]["device"] == "d70"
    assert watts_of(result) == [70.0]


def test_a_capacity_may_say_the_watts() -> None:
    devices = [
        dra_device("a", capacity={"power": {"value": "300"}}),
        dra_device("b", capacity={"power": {"value": "72500m"}}),
    ]
    result = allocate(
        {"objects": [resource_slice("n1", devices), GPU, ONE], "device_power": "power"}
    )
    assert watts_of(result) == [72.5]


def test_the_prototype_s_devices_have_watts_too() -> None:
    pools = [
        device_pool(f"p{watts}", f"n{watts}", "d", count=1, attributes=attributes(tdp=watts))
        for watts in (300, 200)
    ]
    claim = device_claim("c", driver="d")
    assert allocate({"objects": [*pools, claim], "device_power": "tdp"})["node"] == "n200"


def test_a_node_that_runs_already_costs_less_than_one_without_load(tmp_path: Path) -> None:
    slices = [resource_slice(name, [dra_device("d")]) for name in ("n1", "n2", "n3")]
    curve = {"cpu": [0, 8], "watts": [90.0, 200.0]}
    path = str(tmp_path / "curves.json")
    documents.write(path, "curves", {"curves": dict.fromkeys(("n1", "n2", "n3"), curve)})
    daemon = manifest("v1", "Pod", "daemon", {"nodeName": "n1"}, namespace="default")
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet"}]
    running = manifest("v1", "Pod", "running", {"nodeName": "n2"}, namespace="default")
    named = [{"name": "gpu", "resourceClaimName": "c"}]
    asking = manifest("v1", "Pod", "asking", {"resourceClaims": named}, namespace="default")
    objects = [*slices, GPU, ONE, daemon, running, asking]
    result = allocate({"objects": objects, "curves": path})
    assert (result["node"], watts_of(result)) == ("n2", [0.0])
