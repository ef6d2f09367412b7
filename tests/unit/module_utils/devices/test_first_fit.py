# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Strategy first_fit is the search of Kubernetes: compared with a plain one, and checked."""

from __future__ import annotations

import typing as t

from hypothesis import given

from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from support.device_objects import (
    dra_class,
    dra_device,
    exactly,
    manifest,
    resource_claim,
    resource_slice,
)
from support.device_rules import first_fit, problems
from support.examples import examples
from support.random_devices import tasks

Json = dict[str, t.Any]
GPU = dra_class("gpu", "device.driver == 'gpu.example.com'")


def run(objects: list[Json], **options: t.Any) -> Json:
    return allocate({"objects": objects, "strategy": "first_fit", **options})


def devices_of(allocation: Json | None) -> list[str] | None:
    if allocation is None:
        return None
    return [one["device"] for one in allocation["devices"]["results"]]


@examples(40)
@given(tasks())
def test_it_finds_what_a_plain_depth_first_search_finds(objects: list[Json]) -> None:
    result = run(objects)
    found = [
        None
        if allocation is None
        else (
            where["node"],
            [
                (one["request"], one["pool"], one["device"])
                for one in allocation["devices"]["results"]
            ],
        )
        for allocation, where in zip(result["allocations"], result["claims"], strict=True)
    ]
    assert found == first_fit(objects)
    assert problems(objects, result) == []
    assert result["outcome"] == ("infeasible" if None in found else "allocated")
    for unit in result["node_results"]:
        for claim in unit["DeviceClaimResults"]:
            assert (claim["best"] >= 0) == any(
                one["score"] for one in claim["poolSetResults"] or []
            )


def test_everything_is_unwound_where_the_first_choice_was_wrong() -> None:
    """Upstream's workload for backtracking: the large device first leaves too little for seven."""
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
    counters = {"memory": {"value": "70Gi"}, **{f"cpu{n}": {"value": "1"} for n in range(1, 9)}}
    shared = [{"name": "shared", "counters": counters}]
    names = [f"claim-{number}" for number in range(7)]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod", "namespace": "default"},
        "spec": {"resourceClaims": [{"name": name, "resourceClaimName": name} for name in names]},
    }
    result = run(
        [
            resource_slice("n1", devices, sharedCounters=shared),
            GPU,
            pod,
            *(resource_claim(name, exactly("one", "gpu")) for name in names),
        ]
    )
    assert [devices_of(found) for found in result["allocations"]] == [
        [f"device-{number}"] for number in range(2, 9)
    ]


def test_a_list_is_narrowed_and_widened_again() -> None:
    """Kubernetes issue 140326: of numa [1,2], [1], [2], [2], only the first, third and fourth."""
    devices = [
        dra_device(f"d{number}", attributes={"numa": {"ints": numa}})
        for number, numa in enumerate([[1, 2], [1], [2], [2]], 1)
    ]
    claim = resource_claim(
        "c", exactly("r", "gpu", count=3), constraints=[{"matchAttribute": "gpu.example.com/numa"}]
    )
    [allocation] = run([resource_slice("n1", devices), GPU, claim])["allocations"]
    assert devices_of(allocation) == ["d1", "d3", "d4"]


def too_many(devices: int) -> list[Json]:
    """Slices and claims of one pod: one device more than available."""
    names = [f"c{number}" for number in range(devices + 1)]
    spec = {"resourceClaims": [{"name": name, "resourceClaimName": name} for name in names]}
    return [
        resource_slice("n1", [dra_device(f"d{number}") for number in range(devices)]),
        GPU,
        manifest("v1", "Pod", "pod", spec, namespace="default"),
        *(resource_claim(name, exactly("r", "gpu")) for name in names),
    ]


def test_one_device_too_few_is_no_matter_of_years() -> None:
    """Kubernetes issue 131730: the search tries every order of 32 devices, and 33 claims."""
    result = run(too_many(32))
    assert result["outcome"] == "infeasible"
    [part] = result["conflict"]
    assert (len(part["claims"]), part["request"], part["count"]) == (33, "r", 1)


def test_a_search_that_takes_too_long_knows_nothing() -> None:
    result = run(too_many(32), time_limit=1e-9)
    assert (result["outcome"], result["stopped_by"]) == ("unknown", "wall_clock")
    assert result["allocations"] == [None] * 33
