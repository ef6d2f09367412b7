# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes open to a pod, against a second reading of the rules."""

from __future__ import annotations

import typing as t
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.label_selector import Requirement
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling import feasibility
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import (
    Constraints,
    Node,
    NodeTerm,
    Taint,
    Toleration,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.node_reader import (
    Loads,
    Occupancy,
    read_node,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.pod_reader import (
    from_short_form,
    read_pod,
)
from support.examples import examples
from support.placement_checker import Fleet
from support.placement_rules import open_to

Json = dict[str, t.Any]

KEYS = st.sampled_from(["disk", "zone", "cores"])
VALUES = st.sampled_from(["ssd", "a", "8", "16", "-3"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
TAINTS = st.fixed_dictionaries({"key": KEYS, "value": VALUES, "effect": EFFECTS})
TOLERATIONS = st.one_of(
    st.fixed_dictionaries({"operator": st.just("Exists")}, optional={"effect": EFFECTS}),
    st.fixed_dictionaries(
        {"key": KEYS, "operator": st.just("Exists")}, optional={"effect": EFFECTS}
    ),
    st.fixed_dictionaries({"key": KEYS, "value": VALUES}, optional={"effect": EFFECTS}),
)
DEMANDS = st.one_of(
    st.fixed_dictionaries(
        {
            "key": KEYS,
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(VALUES, min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    st.fixed_dictionaries(
        {
            "key": KEYS,
            "operator": st.sampled_from(["Gt", "Lt"]),
            "values": st.lists(st.sampled_from(["4", "10"]), min_size=1, max_size=1),
        }
    ),
)
REQUIRED = st.lists(
    st.fixed_dictionaries({"match_expressions": st.lists(DEMANDS, min_size=1, max_size=2)}),
    min_size=1,
    max_size=2,
).map(
    lambda terms: {
        "node_affinity": {
            "required_during_scheduling_ignored_during_execution": {"node_selector_terms": terms}
        }
    }
)
NODES = st.fixed_dictionaries(
    {
        "name": st.just("n1"),
        "allocatable": st.just({"cpu": "1"}),
        "labels": st.dictionaries(KEYS, st.sampled_from(["ssd", "a", "8", "16"])),
        "taints": st.lists(TAINTS, max_size=2),
        "unschedulable": st.booleans(),
    }
)
PODS = st.fixed_dictionaries(
    {"name": st.just("p"), "tolerations": st.lists(TOLERATIONS, max_size=2)},
    optional={
        "node_selector": st.dictionaries(KEYS, VALUES, max_size=1),
        "affinity": REQUIRED,
        "node_name": st.sampled_from(["n1", "n2"]),
    },
)


@examples(200)
@given(NODES, PODS)
def test_a_node_is_open_exactly_where_the_rules_say_so(node: Json, pod: Json) -> None:
    (converted,) = from_short_form(pod)
    read = read_pod(converted, Decimal(1), frozenset())
    loads = Loads("requests", Decimal(1), {})
    obstacle = feasibility.obstacle(
        read.shape.constraints, read_node(node, Occupancy(), loads, None)
    )
    assert not read.shape.unsupported
    fleet = Fleet({"nodes": [node], "pods": [pod]})
    assert (obstacle is None) == open_to(fleet.nodes[0], fleet.pods[0])


def node(**known: t.Any) -> Node:
    return Node("n1", {"cpu": 1000, "pods": 1}, **known)


@pytest.mark.parametrize(
    ("constraints", "known", "reason"),
    [
        (Constraints(), {"unschedulable": True}, "node(s) were unschedulable"),
        (
            Constraints(node_name="n2"),
            {},
            "node(s) didn't match the requested node name",
        ),
        (
            Constraints(),
            {"taints": (Taint("a", "b", "PreferNoSchedule"), Taint("gpu", "", "NoExecute"))},
            "node(s) had untolerated taint {gpu: }",
        ),
        (Constraints(), {"ready": False}, "node(s) were not ready"),
        (
            Constraints(node_selector=(("disk", "ssd"),)),
            {},
            "node(s) didn't match Pod's node affinity/selector",
        ),
        (
            Constraints(anti_affinity_nodes=frozenset({"n1"})),
            {},
            "node(s) didn't satisfy existing pods anti-affinity rules",
        ),
    ],
)
def test_the_reason_is_the_one_of_kube_scheduler(
    constraints: Constraints, known: Json, reason: str
) -> None:
    assert feasibility.obstacle(constraints, node(**known)) == reason


def test_terms_that_demand_nothing_are_met_by_no_node() -> None:
    for terms in ((), (NodeTerm(),)):
        assert feasibility.obstacle(Constraints(node_terms=terms), node()) is not None


@pytest.mark.parametrize(("name", "open_to"), [("n1", True), ("n2", False)])
def test_fields_select_a_node_by_name(name: str, open_to: bool) -> None:
    terms = (NodeTerm(fields=(Requirement("metadata.name", "In", frozenset({name})),)),)
    assert (feasibility.obstacle(Constraints(node_terms=terms), node()) is None) is open_to


def test_numbers_are_compared_only_where_both_are_numbers() -> None:
    for value, others in (("ssd", ("1",)), ("4", ("x",)), ("4", ())):
        labelled = node(labels={"cores": value})
        terms = (NodeTerm((Requirement("cores", "Gt", frozenset(others)),)),)
        assert feasibility.obstacle(Constraints(node_terms=terms), labelled) is not None


def test_an_equal_toleration_without_a_key_tolerates_nothing() -> None:
    assert not feasibility.tolerates(Toleration("", "Equal", "b", ""), Taint("a", "b", "NoExecute"))


def test_shortages_name_each_resource_and_pods_apart() -> None:
    requests = (("cpu", 2000), ("example.com/gpu", 1), ("memory", 0), ("pods", 1))
    assert feasibility.shortages(requests, {"cpu": 1000, "memory": -5}) == [
        "Insufficient cpu",
        "Insufficient example.com/gpu",
        "Too many pods",
    ]
