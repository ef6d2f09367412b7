# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Column generation respects the rules, and its bounds hold for every answer."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from hypothesis import assume, event, given

from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.model import (
    Alternative,
    Claim,
    Constraint,
    Instance,
    Node,
    Request,
    Unit,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.model import (
    Device as ApiObject,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model.objective import Objective
from ansible_collections.wattwise.kube.plugins.module_utils.devices.solve import optimal
from ansible_collections.wattwise.kube.plugins.module_utils.devices.solve.columns.components import (
    groups_of,
    kinds_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.solve.optimal import solve
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.device_optimum import Fixed, answer_of, answers, instances, levels, plain_instances
from support.device_rules import problems
from support.examples import examples
from support.random_devices import tasks

Json = dict[str, t.Any]
MAX_ANSWERS = 5_000
NUMA = "gpu.example.com/numa"


@pytest.fixture(autouse=True, scope="module")
def no_model_of_everything() -> t.Iterator[None]:
    """Small tasks use the code path of large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimal, "_MAX_OF_A_MODEL", -1)
        patch.setattr(optimal, "solve_plain", lambda *_args, **_more: None)
        yield


def less_is_better(level: str, value: float) -> float:
    return -value if level.startswith(("satisfied", "fragmentation")) else value


@examples(40)
@given(instances() | plain_instances())
def test_no_answer_is_better_than_the_bounds(instance: Instance) -> None:
    everything = answers(instance, MAX_ANSWERS)
    assume(len(everything) <= MAX_ANSWERS)
    found = solve(instance, Limits(60))
    answer = answer_of(found.claims)
    assert answer in everything
    reached = levels(instance, answer)
    said = [less_is_better(one.level, one.value) for one in found.objective]
    assert said == pytest.approx(reached)
    bounds = [less_is_better(one.level, one.bound) for one in found.objective]
    best = min(levels(instance, one) for one in everything)
    event("at the optimum" if reached[:-1] == pytest.approx(best[:-1]) else "not at the optimum")
    for level, bound in enumerate(bounds):
        as_good = [
            values
            for values in (levels(instance, one) for one in everything)
            if all(a <= b + 1e-9 for a, b in zip(values[:level], reached[:level], strict=True))
        ]
        assert bound <= min(values[level] for values in as_good) + 1e-9
    wanted = len(instance.claims)
    satisfied = sum(one is not None for one in found.claims)
    most = max(len(one) for one in everything)
    assert (found.outcome == "allocated") == (satisfied == wanted)
    assert found.outcome != "infeasible" or most < wanted


@examples(20)
@given(tasks())
def test_what_is_packed_keeps_the_rules(objects: list[Json]) -> None:
    result = allocate({"objects": objects, "strategy": "optimal"})
    assert problems(objects, result) == []
    assert result == allocate({"objects": objects, "strategy": "optimal"})


def pairs(values: t.Sequence[int], constraint: tuple[Constraint, ...]) -> Instance:
    """Nodes with a device for each of the values, and a claim for two of them."""
    nodes = tuple(Node(f"n{number}") for number in range(3))
    devices = tuple(
        ApiObject("d", node.name, f"d{number}", frozenset([node.name]), {NUMA: value + 10 * index})
        for index, node in enumerate(nodes)
        for number, value in enumerate(values)
    )
    claim = Claim("", "c", (Request("r", (Alternative(0, 2, 2),)),), constraint)
    everything = Fixed(tuple(range(len(devices))))
    return Instance(nodes, devices, (), (everything,), (claim,), (Unit((0,)),))


def test_devices_with_one_value_in_common_are_a_cell() -> None:
    near = Constraint("match", NUMA, frozenset({(0, 0)}))
    for constraint, sizes, components in ((near, [2, 2], 6), ((), [4], 3)):
        instance = pairs([0, 0, 1, 1], (constraint,) if constraint else ())
        kinds = kinds_of(instance, Objective(instance), groups_of(instance))
        assert kinds is not None
        # Components with the same pattern of values are equivalent, whatever the names of the
        # values.
        [kind] = kinds
        assert len(kind.components) == components
        assert len(kind.components[0].devices) == sizes[0]


def test_a_device_of_two_nodes_is_in_no_cell() -> None:
    instance = pairs([0, 0], ())
    shared = dataclasses.replace(instance.devices[0], nodes=frozenset({"n0", "n1"}))
    instance = dataclasses.replace(instance, devices=(shared, *instance.devices[1:]))
    assert kinds_of(instance, Objective(instance), groups_of(instance)) is None
