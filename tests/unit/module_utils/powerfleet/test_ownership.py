# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ownership of nodes and pods: never by two fleets, and the oldest fleet first."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import Finding
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.ownership import (
    OWNER,
    Ownership,
    abandoned,
    divide,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import (
    FLEET_ANNOTATION,
    fleets_of,
    parse,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import ASLEEP_TAINT
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record import (
    ANNOTATION,
    HOLD,
    NodeRecord,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Phase
from support.binding_api import node, pod
from support.examples import examples, generated
from support.power_fleets import fleet, manifest

Json = dict[str, t.Any]

RACKS = ("r0", "r1", "r2")
DAYS = st.integers(1, 3).map("2026-01-0{}T00:00:00Z".format)


def in_rack(name: str, rack: str) -> Json:
    made = node(name)
    made["metadata"]["labels"]["rack"] = rack
    return made


def of_racks(*racks: str) -> Json:
    if not racks:
        return {}
    return {"matchExpressions": [{"key": "rack", "operator": "In", "values": list(racks)}]}


def annotated(name: str, text: t.Any, **spec: t.Any) -> Json:
    made = pod(name, **spec)
    made["metadata"]["annotations"] = {FLEET_ANNOTATION: text}
    return made


FLEETS = st.lists(
    st.builds(
        manifest,
        created=DAYS,
        nodeSelector=st.lists(st.sampled_from(RACKS), unique=True).map(lambda it: of_racks(*it)),
        suspend=st.booleans(),
        placement=st.fixed_dictionaries({"enabled": st.booleans()}),
    ),
    max_size=4,
).map(lambda made: [renamed(each, f"f{index}") for index, each in enumerate(made)])
NODES = st.lists(st.sampled_from(RACKS), max_size=5).map(
    lambda racks: [in_rack(f"n{index}", rack) for index, rack in enumerate(racks)]
)
WISHES = st.lists(
    st.tuples(
        st.sampled_from([None, *RACKS]),
        st.sampled_from([None, None, "power/f0", "power/f3", "power/none", ""]),
        st.sampled_from([None, None, "n0", "n4", "gone"]),
    ),
    max_size=6,
)


def renamed(obj: Json, name: str) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "name": name, "uid": name}}


def wishing(index: int, rack: str | None, fleet_name: str | None, on_node: str | None) -> Json:
    spec: Json = {} if rack is None else {"nodeSelector": {"rack": rack}}
    spec.update({} if on_node is None else {"nodeName": on_node})
    name = f"p{index}"
    return pod(name, **spec) if fleet_name is None else annotated(name, fleet_name, **spec)


@generated
@examples(300)
@given(manifests=FLEETS, nodes=NODES, wishes=WISHES)
def test_nodes_and_pods_have_one_fleet_at_most_and_the_oldest_comes_first(
    manifests: list[Json],
    nodes: list[Json],
    wishes: list[tuple[str | None, str | None, str | None]],
) -> None:
    pods = [wishing(index, *wish) for index, wish in enumerate(wishes)]
    fleets = fleets_of(manifests)
    assert [one.seniority for one in fleets] == sorted(one.seniority for one in fleets)
    found = divide(fleets, nodes, pods)
    scopes = [found.scope_of(one.key) for one in fleets]
    for part in ("nodes", "pods"):
        everything = [item for scope in scopes for item in getattr(scope, part)]
        assert len(everything) == len(set(everything))
    for item in nodes:
        name, labels = item["metadata"]["name"], item["metadata"]["labels"]
        selecting = [one.key for one in fleets if one.selector.matches(labels)]
        assert found.fleet_of_node.get(name) == next(iter(selecting), None)
    rack_of = {each["metadata"]["name"]: each["metadata"]["labels"]["rack"] for each in nodes}
    for item, (rack, named, on_node) in zip(pods, wishes, strict=True):
        owner = found.fleet_of_pod.get(("shop", item["metadata"]["name"]))
        if on_node is not None:
            of_node = found.fleet_of_node.get(on_node)
            assert owner == (of_node if named in (None, of_node) else None)
        elif named is not None:
            assert owner == (named if named in [one.key for one in fleets] else None)
        else:
            serving = [one.key for one in fleets if one.spec["placement"]["enabled"]]
            with_node = [
                key
                for key in serving
                if any(
                    found.fleet_of_node.get(name) == key and rack in (None, its)
                    for name, its in rack_of.items()
                )
            ]
            assert owner == next(iter(with_node or serving), None)


@generated
@examples(100)
@given(manifests=FLEETS, nodes=NODES, order=st.randoms(use_true_random=False))
def test_the_answer_does_not_depend_on_the_order_of_anything(
    manifests: list[Json], nodes: list[Json], order: t.Any
) -> None:
    pods = [pod(f"p{index}") for index in range(3)]
    first = divide(fleets_of(manifests), nodes, pods)
    for items in (manifests, nodes, pods):
        order.shuffle(items)
    again = divide(fleets_of(manifests), nodes, pods)
    assert (first.fleet_of_node, first.fleet_of_pod) == (again.fleet_of_node, again.fleet_of_pod)


def owners(pods: list[Json], **of_old: t.Any) -> dict[str, str]:
    """Fleets by the names of the pods; the older fleet has rack r0, the younger one all others."""
    fleets = [
        fleet("old", "2026-01-01T00:00:00Z", nodeSelector=of_racks("r0"), **of_old),
        fleet("young", "2026-01-02T00:00:00Z"),
    ]
    nodes = [in_rack("n0", "r0"), in_rack("n1", "r1")]
    found = divide(fleets, nodes, pods)
    return {name: owner for (_namespace, name), owner in found.fleet_of_pod.items()}


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"rack": "r1"}},
        {"nodeName": "n1"},
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchFields": [
                                    {"key": "metadata.name", "operator": "In", "values": ["n1"]}
                                ]
                            }
                        ]
                    }
                }
            }
        },
    ],
    ids=["selector", "running there", "affinity"],
)
def test_a_pod_goes_to_the_oldest_fleet_with_a_node_for_it(spec: Json) -> None:
    assert owners([pod("anywhere"), pod("bound-to", **spec)]) == {
        "anywhere": "power/old",
        "bound-to": "power/young",
    }


def test_a_pod_that_fits_nowhere_is_told_so_by_the_oldest_fleet() -> None:
    assert owners([pod("lost", nodeSelector={"rack": "none"})]) == {"lost": "power/old"}


def test_a_fleet_without_placement_is_left_out_and_a_suspended_one_is_not() -> None:
    assert owners([pod("a")], placement={"enabled": False}) == {"a": "power/young"}
    assert owners([pod("a")], suspend=True) == {"a": "power/old"}


def test_pods_of_other_schedulers_have_no_fleet_unless_devices_open_their_gate() -> None:
    other = pod("other")
    other["spec"]["schedulerName"] = "default-scheduler"
    gated = pod("gated", schedulingGates=[{"name": "wattwise.github.io/devices"}])
    gated["spec"]["schedulerName"] = "default-scheduler"
    assert owners([other, gated]) == {}
    assert owners([other, gated], devices={"enabled": True}) == {"gated": "power/old"}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "old",
            "power/",
            "power/OLD",
            " power/old",
            "power/old/x",
            "{{ lookup('pipe', 'id') }}",
        ),
        *("\x00", "a" * 100_000, 7, None, ["power/old"], {"power/old": 1}),
    ],
    ids=lambda text: str(text)[:20],
)
def test_an_annotation_that_names_no_fleet_keeps_the_pod_waiting(text: t.Any) -> None:
    expected = {} if text is not None else {"odd": "power/old"}
    assert owners([annotated("odd", text)]) == expected


@pytest.mark.parametrize(
    "odd",
    [
        *(None, 7, "pod", [], {}, {"metadata": None}, {"metadata": {"name": 1, "namespace": "a"}}),
        {"metadata": {"name": "a", "namespace": "b", "annotations": "c"}, "spec": {}},
        {"metadata": {"name": "a", "namespace": "b"}, "spec": "c"},
        {"metadata": {"name": "a", "namespace": "b"}, "spec": {"nodeName": ["n1"]}},
        {"metadata": {"name": "a", "namespace": "b"}, "spec": {"schedulingGates": 3}},
    ],
    ids=str,
)
def test_what_cannot_be_read_takes_nothing_from_others(odd: t.Any) -> None:
    fleets = [fleet("old"), fleet("young", "2026-01-02T00:00:00Z")]
    nodes, pods = [in_rack("n0", "r0")], [pod("good")]
    expected = divide(fleets, nodes, pods)
    found = divide(fleets, [odd, *nodes, odd], [odd, *pods, odd])
    assert expected.scope_of("power/old").nodes <= found.scope_of("power/old").nodes
    assert ("shop", "good") in found.scope_of("power/old").pods
    assert isinstance(found, Ownership)


def test_a_pod_whose_demands_cannot_be_read_is_told_so_by_the_oldest_fleet() -> None:
    assert owners([pod("odd", tolerations=7)]) == {"odd": "power/old"}


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
        {"nodeSelector": {"matchLabels": {"a": 1}}},
        {"nodeSelector": ["a"]},
        {"interval": "soon"},
        {"interval": 60},
    ],
    ids=str,
)
def test_a_fleet_that_cannot_be_read_has_no_nodes(spec: Json) -> None:
    bad = manifest("bad", "2025-01-01T00:00:00Z", **spec)
    assert isinstance(parse(bad), Finding)
    found = divide(fleets_of([bad, manifest("good")]), [in_rack("n0", "r0")], [])
    assert found.fleet_of_node == {"n0": "power/good"}


def test_a_fleet_that_is_being_deleted_has_let_go() -> None:
    ending = manifest("ending", "2025-01-01T00:00:00Z")
    ending["metadata"]["deletionTimestamp"] = "2026-02-01T00:00:00Z"
    found = divide(fleets_of([ending, manifest("good")]), [in_rack("n0", "r0")], [pod("a")])
    assert set(found.fleet_of_node.values()) | set(found.fleet_of_pod.values()) == {"power/good"}


def test_both_fleets_are_told_of_nodes_that_both_select() -> None:
    fleets = [
        fleet("old", nodeSelector=of_racks("r0")),
        fleet("young", "2026-01-02T00:00:00Z"),
    ]
    found = divide(fleets, [in_rack("n0", "r0"), in_rack("n1", "r1")], [])
    assert (found.lost_to_older("power/old"), found.kept_from_younger("power/old")) == (0, 1)
    assert (found.lost_to_older("power/young"), found.kept_from_younger("power/young")) == (1, 0)


SLEEPING: Json = {"sleep": {"mode": "on", "nodeSelector": "rack"}}


def asleep(owner: str, rack: str = "r0", phase: Phase = Phase.ASLEEP, hold: bool = False) -> Json:
    made = in_rack("n0", rack)
    record = NodeRecord(phase, 1e9, owner)
    made["metadata"]["annotations"] = {ANNOTATION: record.as_annotation()}
    if hold:
        made["metadata"]["annotations"][HOLD] = "true"
    made["spec"] = {"taints": [{"key": ASLEEP_TAINT, "value": phase.value, "effect": "NoSchedule"}]}
    return made


@pytest.mark.parametrize(
    ("machine", "older", "is_abandoned"),
    [
        (asleep(f"{OWNER}power/mine"), {}, True),
        (asleep(f"{OWNER}power/gone"), {}, True),
        (asleep(f"{OWNER}power/mine", "r9"), {}, True),
        (asleep(f"{OWNER}power/mine"), SLEEPING, False),
        (asleep(f"{OWNER}power/mine"), {"sleep": {"mode": "off"}}, False),
        (asleep(f"{OWNER}power/mine"), {**SLEEPING, "suspend": True}, True),
        (asleep(f"{OWNER}power/mine"), {**SLEEPING, "placement": {"enabled": False}}, True),
        (asleep(f"{OWNER}power/mine"), {"sleep": {"mode": "with_approval"}}, True),
        (asleep(f"{OWNER}power/older"), {}, False),
        (asleep("playbook"), {}, False),
        (asleep(""), {}, False),
        (asleep(f"{OWNER}power/mine", hold=True), {}, False),
        (asleep(f"{OWNER}power/mine", phase=Phase.QUARANTINED), {}, False),
        (in_rack("n0", "r0"), {}, False),
    ],
    ids=str,
)
def test_a_sleeping_machine_that_no_fleet_handles_is_left_to_the_one_of_its_record(
    machine: Json, older: Json, is_abandoned: bool
) -> None:
    mine = fleet("mine", "2026-01-02T00:00:00Z", nodeSelector=of_racks("r0"), **SLEEPING)
    first = fleet("older", "2026-01-01T00:00:00Z", nodeSelector=of_racks("r0"), **older)
    assert bool(abandoned(mine, [first, mine], [machine], 2e9)) == is_abandoned
    every = fleet("mine", **SLEEPING)
    assert not abandoned(every, [every], [machine], 2e9)
