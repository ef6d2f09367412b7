# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan for one daemon, without a daemon."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    TargetFailure,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.explain import (
    cpus_of_hex_mask,
    explained,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.plan import Step, plan
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.workload import (
    Desired,
    Stored,
    body_of,
    desired_of,
    parse_core_ids,
    stored_of,
    uuid_of,
)
from lab.rmd import bitmaps
from support.examples import examples

CACHE = {"max": 2, "min": 2}
MORE = {"max": 9, "min": 9}
ON_A = "CPU 1-2 belongs to the workload 'a' (id a)"
BY_NAME = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.frozensets(st.integers(0, 5), min_size=1)),
    unique_by=lambda item: item[0],
)


def wanted(name: str, cores: str = "1,2", **settings: t.Any) -> Desired:
    return desired_of({"name": name, "core_ids": [cores], **(settings or {"cache": CACHE})})


def has(name: str, cores: str = "1,2", **members: t.Any) -> Stored:
    return stored_of(
        {
            "id": name, "uuid": name, "core_ids": cores.split(","), "status": "Successful",
            "origin": "REST", "cos_name": "x", "cache": CACHE, "pstate": {}, **members,
        }
    )  # fmt: skip


def actions(steps: list[Step]) -> dict[str, str]:
    return {step.uuid: step.action for step in steps}


def action(stored: Stored, desired: Desired) -> str:
    return plan([stored], [desired])[0].action


@pytest.mark.parametrize(
    ("stored", "desired", "expected"),
    [
        (has("a"), wanted("a"), "unchanged"),
        (has("a", "0-2,^0"), wanted("a", "2,1"), "unchanged"),
        (has("a", rdt={"cache": CACHE, "mba": {"percentage": 100}}), wanted("a"), "unchanged"),
        (has("a"), wanted("a", cache={"max": 4, "min": 2}), "change"),
        (has("a"), wanted("a", "1-3"), "replace"),
        (has("a"), wanted("a", "1-3", cache={"max": 4, "min": 2}), "replace"),
        (has("a", status="Failed"), wanted("a"), "replace"),
        (has("a", policy="gold"), wanted("a", policy="gold", cache=MORE), "unchanged"),
        (has("a", policy="gold"), wanted("a", policy="silver"), "change"),
        (has("a"), wanted("a", policy="gold"), "change"),
        # A PATCH with equal values would have no effect, and the policy would stay.
        (has("a", policy="gold"), wanted("a"), "replace"),
        (has("a", policy="gold"), wanted("a", cache={"max": 4, "min": 4}), "change"),
        # A PATCH cannot remove a P-state.
        (has("a", pstate={"ratio": 1.5, "monitoring": "on"}), wanted("a"), "replace"),
        (
            has("a", pstate={"ratio": 1.5, "monitoring": "on"}),
            wanted("a", cache=CACHE, pstate={"ratio": "1.50", "monitoring": "ON"}),
            "unchanged",
        ),
        (
            has("a", pstate={"ratio": 1.5, "monitoring": "on"}),
            wanted("a", cache=CACHE, pstate={"ratio": 1.5}),
            "unchanged",
        ),
        (has("a"), wanted("a", cache=CACHE, pstate={"ratio": 1.5}), "change"),
        (
            has("a", rdt={"cache": CACHE, "mba": {"percentage": 50}}),
            wanted("a", cache=CACHE, mba={"percentage": 60}),
            "change",
        ),
        (has("a", rdt={"cache": CACHE, "mba": {"percentage": 50}}), wanted("a"), "change"),
        (has("a", origin="OPENSTACK"), wanted("a"), "conflict"),
        (has("a", task_ids=["5"]), wanted("a"), "replace"),
    ],
)  # fmt: skip
def test_one_workload(stored: Stored, desired: Desired, expected: str) -> None:
    assert action(stored, desired) == expected


def test_a_workload_that_is_not_there_is_created_and_only_named_ones_are_deleted() -> None:
    steps = plan(
        [has("old", "4"), has("foreign", "5"), has("nameless", "6", uuid="")],
        [wanted("a")],
        ["old", "gone"],
    )
    assert actions(steps) == {"a": "create", "old": "delete"}


def test_what_others_hold_is_taken() -> None:
    steps = plan([has("foreign", "2-3")], [wanted("a"), wanted("b", "4")])
    assert actions(steps) == {"a": "conflict", "b": "create"}
    assert steps[0].reason == (
        "CPU 2 belongs to the workload 'foreign' (id foreign) of the daemon; remove it from one of"
        " them"
    )


def test_what_is_freed_in_the_same_call_may_be_taken() -> None:
    steps = plan(
        [has("a", "1"), has("b", "2"), has("c", "3")], [wanted("a", "2"), wanted("b", "1,3")], ["c"]
    )
    assert actions(steps) == {"a": "replace", "b": "replace", "c": "delete"}


def test_two_that_want_a_cpu_are_both_told_before_anything_is_written() -> None:
    steps = plan([], [wanted("a", "1-3"), wanted("b", "3-4"), wanted("c", "5")])
    assert actions(steps) == {"a": "conflict", "b": "conflict", "c": "create"}
    assert steps[0].reason.startswith("CPU 3 is also requested by 'b'")
    assert steps[1].reason.startswith("CPU 3 is also requested by 'a'")


def test_one_that_has_the_cpu_keeps_it_and_is_told_as_well() -> None:
    steps = plan([has("a", "1-3")], [wanted("a", "1-3"), wanted("b", "3-4")])
    assert actions(steps) == {"a": "unchanged", "b": "conflict"}
    assert all("also requested" in step.reason for step in steps)


def test_what_cannot_move_blocks_others() -> None:
    stored = [has("a", "1"), has("b", "2"), has("foreign", "3")]
    steps = plan(stored, [wanted("a", "3"), wanted("b", "1"), wanted("c", "2")])
    assert actions(steps) == {"a": "conflict", "b": "conflict", "c": "conflict"}


def test_cpus_that_the_machine_has_not() -> None:
    [step] = plan([], [wanted("a", "1,44-45")], machine_cpus=frozenset(range(44)))
    assert step.action == "conflict"
    assert step.reason.startswith("the machine has no CPU 44-45 (it has 0-43)")


@pytest.mark.parametrize(
    ("reserved", "expected"), [([], "0-95"), (["0-9"], "10-95"), (["1,2", "4-7"], "0,3,8-95")]
)
def test_all_cores_without_the_reserved_ones(reserved: list[str], expected: str) -> None:
    desired = desired_of(
        {
            "name": "a",
            "core_ids": ["3"],
            "all_cores": True,
            "reserved_core_ids": reserved,
            "cache": CACHE,
        }
    )
    [step] = plan([], [desired], machine_cpus=frozenset(range(96)))
    assert step.desired is not None
    assert step.desired.core_ids == (expected,)


def test_all_cores_need_a_daemon_that_tells_them() -> None:
    [step] = plan([], [desired_of({"name": "a", "all_cores": True, "cache": CACHE})])
    assert (step.action, "does not list them" in step.reason) == ("conflict", True)


def test_all_cores_are_compared_as_a_set() -> None:
    desired = desired_of({"name": "a", "all_cores": True, "cache": CACHE})
    stored = has("a", "0-10,11-20")
    assert plan([stored], [desired], machine_cpus=frozenset(range(21)))[0].action == "unchanged"


@examples(50)
@given(BY_NAME, BY_NAME, st.frozensets(st.sampled_from("abcdefg")))
def test_a_plan_ends_without_a_cpu_in_two_workloads(
    before: list[tuple[str, frozenset[int]]],
    asked: list[tuple[str, frozenset[int]]],
    absent: frozenset[str],
) -> None:
    taken: set[int] = set()
    stored = []
    for name, cpus in before:
        if not cpus & taken:
            taken |= cpus
            stored.append(has(name, ",".join(map(str, sorted(cpus)))))
    desired = [wanted(name, ",".join(map(str, sorted(cpus)))) for name, cpus in asked]
    gone = absent - {item.name for item in desired}
    held = {item.uuid: set(item.cpus or ()) for item in stored}
    for step in plan(stored, desired, gone):
        if step.action in ("delete", "replace"):
            del held[step.uuid]
    for step in plan(stored, desired, gone):
        if step.action in ("create", "replace"):
            assert step.desired is not None
            assert not set(step.desired.cpus) & set().union(*held.values())
            held[step.uuid] = set(step.desired.cpus)
    untouched = {item.uuid for item in stored} - {item.name for item in desired} - gone
    assert untouched <= held.keys()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"core_ids": []}, "no CPU is given"),
        ({"core_ids": ["abc"]}, "'abc' is not a list of CPUs"),
        ({"core_ids": ["3-1"]}, "ends before it begins"),
        ({"core_ids": ["1,,2"]}, "is not a list of CPUs"),
        ({"cache": {"max": 2}}, "give both max and min"),
        ({"cache": {"max": 2, "min": 0}}, "max 2 with min 0 is not a request"),
        ({"cache": {"max": 1, "min": 2}}, "max 1 with min 2 is not a request"),
        ({"cache": {"max": 0, "min": 2}}, "max 0 with min 2 is not a request"),
        ({"cache": {"max": -1, "min": -1}}, "is not a request"),
        ({"cache": None}, "nothing is requested"),
        ({"pstate": {"ratio": 0}}, "not a number above 0"),
        ({"pstate": {"ratio": "fast"}}, "not a number above 0"),
        ({"pstate": {"monitoring": "on"}}, "monitoring needs a ratio"),
        ({"pstate": {"ratio": 1.5, "monitoring": "maybe"}}, "is not on or off"),
        ({"mba": {"percentage": 101}}, "not between 1 and 100"),
        ({"mba": {"mbps": 0}}, "not between 1 and"),
        ({"mba": {"percentage": 50, "mbps": 50}}, "not both"),
        ({"cache": {"max": 2, "min": 1}, "mba": {"percentage": 50}}, "guaranteed ways only"),
        ({"cache": {"max": 0, "min": 0}, "mba": {"mbps": 50}}, "guaranteed ways only"),
    ],
)
def test_what_rmd_would_refuse_is_refused_first(given: dict[str, t.Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        desired_of({"name": "a", "core_ids": ["1"], "cache": CACHE, **given})


def test_the_names_in_daemons() -> None:
    assert uuid_of("default", "a") == "a"
    assert uuid_of("team", "a") == "team/a"


def test_bodies_of_both_versions() -> None:
    desired = wanted("a", "0-2", cache=CACHE, mba={"percentage": 50}, pstate={"ratio": 3})
    assert body_of("a", desired.core_ids, desired.settings, "0.2") == {
        "uuid": "a", "core_ids": ["0-2"], "cache": CACHE,
        "pstate": {"ratio": 3.0, "monitoring": "on"},
    }  # fmt: skip
    assert body_of("a", desired.core_ids, desired.settings, "0.3") == {
        "uuid": "a", "core_ids": ["0", "1", "2"],
        "rdt": {"cache": CACHE, "mba": {"percentage": 50}},
        "plugins": {"pstate": {"ratio": 3.0, "monitoring": "on"}},
    }  # fmt: skip
    policy = wanted("a", policy="gold", cache=CACHE)
    assert body_of("a", ["1"], policy.settings, "0.2") == {
        "uuid": "a",
        "core_ids": ["1"],
        "policy": "gold",
    }


@pytest.mark.parametrize("document", [None, [], {}, {"id": 3}, "x"])
def test_what_is_no_workload_is_malformed(document: t.Any) -> None:
    with pytest.raises(TargetFailure, match="something else"):
        stored_of(document)


@given(st.frozensets(st.integers(0, 200), min_size=1))
def test_a_hexadecimal_mask_is_read_as_the_daemon_writes_it(cpus: frozenset[int]) -> None:
    text = bitmaps.hex_groups(bitmaps.bits_of(cpus), max(cpus) + 1)
    assert cpus_of_hex_mask(text) == cpus


@given(st.lists(st.sampled_from(["0-3", "2", "^1", "4-6,^5", "8,9", "^0-9"]), min_size=1))
def test_lists_of_cpus_are_read_as_the_daemon_does(core_ids: list[str]) -> None:
    assert parse_core_ids(core_ids) == bitmaps.cpus_of(core_ids)


@pytest.mark.parametrize(
    ("text", "wire", "meaning"),
    [
        ("CPU list 6 has been assigned", "0.2", f"'6' is a hexadecimal mask: {ON_A}"),
        ("CPU list 20000,00000000 has been assigned", "0.2", "CPU 49 has a workload"),
        ("CPU list [1 2] has been assigned", "0.3", ON_A),
        ("CPU list [] has been assigned", "0.3", "a CPU above 31"),
        ("error, not enough CLOS on host, 16 used", "0.2", "no class of service is left"),
        ("error doesn't support pool besteffort", "0.2", "has no ways in the machine's rmd.toml"),
        ("P-State configuration given while plugin not enabled", "0.2", "without the P-state"),
    ],
)  # fmt: skip
def test_the_daemon_s_words_are_explained(text: str, wire: t.Any, meaning: str) -> None:
    shown = explained(text, wire, [has("a")], [])
    assert shown.startswith(text)
    assert meaning in shown
