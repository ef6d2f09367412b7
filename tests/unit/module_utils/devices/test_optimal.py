# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Strategy optimal finds the brute-force optimum, and its claims of proof are right."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import assume, event, given

from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.model import Instance
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.objective import Objective
from ansible_collections.wattwise.kube.plugins.module_utils.devices.solve.optimal import solve
from ansible_collections.wattwise.kube.plugins.module_utils.devices.solve.plain_fleet import (
    solve_plain,
)
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.device_objects import (
    dra_class,
    dra_device,
    exactly,
    manifest,
    resource_claim,
    resource_slice,
)
from support.device_optimum import answer_of, answers, instances, levels, plain_instances
from support.device_rules import problems
from support.examples import examples
from support.partitioned_gpus import a100, asks
from support.random_devices import tasks

Json = dict[str, t.Any]
DRIVER = "gpu.example.com"
GPU = dra_class("gpu", f"device.driver == '{DRIVER}'")
MAX_ANSWERS = 20_000


def less_is_better(level: str, value: float) -> float:
    return -value if level.startswith(("satisfied", "fragmentation")) else value


@examples(60)
@given(instances() | plain_instances())
def test_it_is_the_best_of_all_answers(instance: Instance) -> None:
    plain = solve_plain(instance, Objective(instance), Limits(60))
    event("plain" if plain else "by a model")
    everything = answers(instance, MAX_ANSWERS)
    assume(len(everything) <= MAX_ANSWERS)
    found = solve(instance, Limits(60))
    best = min(levels(instance, answer) for answer in everything)
    answer = answer_of(found.claims)
    assert answer in everything
    assert levels(instance, answer) == pytest.approx(best)
    said = [less_is_better(one.level, one.value) for one in found.objective]
    assert said == pytest.approx(best)
    assert [less_is_better(one.level, one.bound) for one in found.objective] == pytest.approx(best)
    assert found.outcome == ("infeasible" if None in found.claims else "allocated")
    assert found.stopped_by == "completed"


@examples(30)
@given(plain_instances(wake=(0, 150, 500, 1000), network=False))
def test_the_fewest_watts_are_woken_for_plain_claims(instance: Instance) -> None:
    """The code path of large fleets, where names have only a bound."""
    everything = answers(instance, MAX_ANSWERS)
    assume(len(everything) <= MAX_ANSWERS)
    objective = Objective(instance)
    found = solve_plain(instance, objective, Limits(60), may_wake=True)
    assert found is not None
    best = min(levels(instance, answer) for answer in everything)
    answer = answer_of(found.claims)
    assert answer in everything
    assert levels(instance, answer)[:-1] == pytest.approx(best[:-1])
    said = objective.levels(objective.values(found.claims), found.bounds)
    bounds = [less_is_better(one.level, one.bound) for one in said]
    assert bounds[:-1] == pytest.approx(best[:-1])
    assert bounds[-1] <= best[-1] <= levels(instance, answer)[-1]


@examples(30)
@given(tasks())
def test_every_answer_keeps_the_rules(objects: list[Json]) -> None:
    result = allocate({"objects": objects, "strategy": "optimal"})
    assert problems(objects, result) == []
    first = allocate({"objects": objects, "strategy": "first_fit"})
    satisfied = [one is not None for one in result["allocations"]]
    assert sum(satisfied) >= sum(one is not None for one in first["allocations"])
    assert result == allocate({"objects": objects, "strategy": "optimal"})


def pod_of(claims: list[Json]) -> Json:
    named = [
        {"name": claim["metadata"]["name"], "resourceClaimName": claim["metadata"]["name"]}
        for claim in claims
    ]
    return manifest("v1", "Pod", "pod", {"resourceClaims": named}, namespace="default")


def run(*objects: Json, **options: t.Any) -> Json:
    return allocate({"objects": [GPU, *objects], "strategy": "optimal", **options})


def value_of(result: Json, level: str) -> tuple[float, float]:
    [found] = [one for one in result["objective"] if one["level"] == level]
    return found["value"], found["bound"]


def test_small_partitions_share_a_gpu_and_leave_the_other_whole() -> None:
    """Kubernetes spreads them, or leaves holes: dra-driver-nvidia-gpu issues 932 and 933."""
    claims = [asks(f"c{number}", "1g") for number in range(3)] + [asks("c3", "3g")]
    result = run(a100("gpu-0", "n1"), a100("gpu-1", "n1"), *claims)
    assert result["outcome"] == "allocated"
    pools = {one["devices"]["results"][0]["pool"] for one in result["allocations"]}
    assert pools == {"gpu-0"}
    # The remaining slice of the first GPU, and all of the second.
    slice_share = (1000 // 7 + 1000) // 9 / 1000
    assert value_of(result, "fragmentation") == (1 + slice_share, 1 + slice_share)


def test_partitions_fill_gpus_to_the_last_slice() -> None:
    """Each of four GPUs takes one half and one quarter and two of one slice, wherever they are."""
    profiles = ["1g"] * 8 + ["2g"] * 4 + ["3g"] * 4
    slices = [a100(f"gpu-{number}", f"n{number // 2}") for number in range(4)]
    claims = [asks(f"c{number}", profile) for number, profile in enumerate(profiles)]
    assert run(*slices, *claims)["outcome"] == "allocated"
    more = run(*slices, *claims, asks("one-more", "3g"))
    assert more["outcome"] == "infeasible"
    assert value_of(more, "satisfied") == (16, 16)


@pytest.mark.large
def test_more_than_a_model_can_hold_is_packed() -> None:
    """400 halves of a GPU are more than 150 GPUs have; each GPU is a cell with two halves."""
    slices = [a100(f"gpu-{number}", f"n{number // 2:02}") for number in range(150)]
    claims = [asks(f"c{number}", "3g") for number in range(400)]
    result = run(*slices, *claims)
    assert (result["outcome"], result["stopped_by"]) == ("infeasible", "completed")
    assert value_of(result, "satisfied") == (300, 300)


@pytest.mark.large
def test_halves_do_not_keep_more_slices_out() -> None:
    """In order, 60 halves would leave 30 of 60 GPUs to 210 of 400 claims for one slice."""
    slices = [a100(f"gpu-{number}", f"n{number:02}") for number in range(60)]
    claims = [asks(f"c{number}", "3g" if number < 60 else "1g") for number in range(460)]
    result = run(*slices, *claims)
    # 56 GPUs take seven slices each, two a half and four slices, and two both halves.
    assert value_of(result, "satisfied") == (56 * 7 + 2 * 5 + 2 * 2, 406)


def test_a_whole_device_is_left_for_the_pod_that_needs_it() -> None:
    """Kubernetes issue 138765: the first of a gang takes the device that the last one needs."""
    large, small = (
        dra_device(name, attributes={"size": size})
        for name, size in (("a-large", 8), ("b-small", 4))
    )
    any_size = resource_claim("any", exactly("r", "gpu"))
    whole = resource_claim("whole", exactly("r", "gpu", f"device.attributes['{DRIVER}'].size == 8"))
    result = run(resource_slice("n1", [large, small]), any_size, whole)
    assert [one["devices"]["results"][0]["device"] for one in result["allocations"]] == [
        "b-small",
        "a-large",
    ]


def test_the_large_device_first_is_not_for_seven() -> None:
    """Upstream's workload for backtracking: only devices 2 to 8 are available together."""
    devices = [
        dra_device(
            f"device-{number}",
            consumesCounters=[
                {
                    "counterSet": "shared",
                    "counters": {"memory": {"value": "20Gi" if number == 1 else "10Gi"}},
                }
            ],
        )
        for number in range(1, 9)
    ]
    shared = [{"name": "shared", "counters": {"memory": {"value": "70Gi"}}}]
    claims = [resource_claim(f"c{number}", exactly("r", "gpu")) for number in range(7)]
    result = run(resource_slice("n1", devices, sharedCounters=shared), *claims)
    names = [one["devices"]["results"][0]["device"] for one in result["allocations"]]
    assert names == [f"device-{number}" for number in range(2, 9)]


@pytest.mark.parametrize("together", [True, False])
def test_one_device_too_few_is_counted(together: bool) -> None:
    devices = [dra_device(f"d{number}") for number in range(32)]
    claims = [resource_claim(f"c{number}", exactly("r", "gpu")) for number in range(33)]
    pods = [pod_of(claims)] if together else []
    result = run(resource_slice("n1", devices), *pods, *claims)
    assert result["outcome"] == "infeasible"
    assert value_of(result, "satisfied") == ((0, 0) if together else (32, 32))
    [part] = result["conflict"]
    assert (len(part["claims"]), part["count"]) == (33, 1)


def test_devices_of_a_claim_are_close_to_each_other() -> None:
    numa = [0, 1, 0, 1]
    devices = [
        dra_device(f"d{number}", attributes={"numa": value}) for number, value in enumerate(numa)
    ]
    claims = [resource_claim(f"c{number}", exactly("r", "gpu", count=2)) for number in range(2)]
    result = run(resource_slice("n1", devices), *claims)
    names = [
        [one["device"] for one in found["devices"]["results"]] for found in result["allocations"]
    ]
    assert names == [["d0", "d2"], ["d1", "d3"]]
    assert value_of(result, "closeness") == (0, 0)


def test_halves_that_pools_lack_are_counted_without_time_for_a_solver() -> None:
    slices = [a100(f"gpu-{number}", f"n{number}") for number in range(32)]
    claims = [asks(f"c{number}", "3g") for number in range(65)]
    result = run(*slices, *claims, time_limit=1e-9)
    assert result["outcome"] == "infeasible"
    assert value_of(result, "satisfied") == (64, 64)


def test_at_a_limit_nothing_is_claimed() -> None:
    """Whether one more pair is available takes a proof, and without time for it remains unknown.

    Each node has three devices, so one is left over; counting takes two of these for a pair.
    """
    slices = [
        resource_slice(f"n{node}", [dra_device(f"d{number}") for number in range(3)])
        for node in range(32)
    ]
    claims = [resource_claim(f"c{number}", exactly("r", "gpu", count=2)) for number in range(33)]
    result = run(*slices, *claims, time_limit=1e-9)
    assert result["outcome"] == "unknown"
    assert value_of(result, "satisfied")[1] == 33
    given = [one["devices"]["results"][0] for one in result["allocations"] if one]
    assert len({(one["pool"], one["device"]) for one in given}) == len(given)
