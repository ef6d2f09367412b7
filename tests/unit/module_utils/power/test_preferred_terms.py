# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preferred affinity and anti-affinity between pods that are placed at the same time.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power import placement
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.problem import (
    Problem,
    build_problem,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.power.search import local_search
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.affinity_swaps import (
    AffinitySwaps,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.move_gains import Exchanges
from ansible_collections.wattwise.kube.plugins.module_utils.power.search.preference_gains import (
    PreferredTermGains,
)
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.examples import are_many, generated, seeds
from support.placement_checker import value_of, violations
from support.placement_fleets import Size, placement_task
from support.placement_instance import read_instance
from support.related_instances import random_instance

Json = dict[str, t.Any]
PREFERRED = "preferred_during_scheduling_ignored_during_execution"
HOSTNAME = "kubernetes.io/hostname"


def nodes(*zones: str, cores: int = 4) -> list[Json]:
    """A node per zone (without one if empty); each next node costs a pod 5 W more."""
    return [
        {
            "name": f"n{index}",
            "allocatable": {"cpu": str(cores), "pods": "10"},
            "curve": {"cpu": [0, cores], "watts": [100, 100 + 12.5 * cores * (1 + index)]},
            "labels": {HOSTNAME: f"n{index}"} | ({"zone": zone} if zone else {}),
        }
        for index, zone in enumerate(zones)
    ]


def pod(app: str, *preferred: Json, **fields: t.Any) -> Json:
    return {
        "name": app,
        "requests": {"cpu": "500m"},
        "labels": {"app": app},
        **(
            {
                "affinity": {
                    kind: preferred_term[kind]
                    for preferred_term in preferred
                    for kind in preferred_term
                }
            }
            if preferred
            else {}
        ),
        **fields,
    }


def near(app: str, key: str = "zone", weight: int = 100) -> Json:
    return {"pod_affinity": {PREFERRED: [_wish(app, key, weight)]}}


def away(app: str, key: str = "zone", weight: int = 100) -> Json:
    return {"pod_anti_affinity": {PREFERRED: [_wish(app, key, weight)]}}


def _wish(app: str, key: str, weight: int) -> Json:
    selector = {"match_labels": {"app": app}}
    return {
        "weight": weight,
        "pod_affinity_term": {"topology_key": key, "label_selector": selector},
    }


def on(name: str) -> Json:
    return {"node_selector": {HOSTNAME: name}}


def problem_of(parameters: Json) -> Problem:
    return build_problem(read_instance(placement.SPEC.complete({**parameters})))


def outcome(fleet: list[Json], pods: list[Json], watts: float) -> tuple[dict[str, str], float]:
    """The node of each pod, and the power draw of unmet preferences, of a proven answer."""
    result = place({"nodes": fleet, "pods": pods, "preference_watts": watts})
    assert result["proven"]
    found = {entry["pod"]: entry["node"] for entry in result["placements"]}
    return found, result["preference_watts"]


@pytest.mark.parametrize(("watts", "chosen"), [(4.0, "n0"), (6.0, "n1")])
def test_a_wish_to_be_near_a_pod_that_is_placed_now_is_weighed(watts: float, chosen: str) -> None:
    cache = pod("cache", **on("n1"))
    found, unmet = outcome(nodes("a", "b"), [cache, pod("web", near("cache"))], watts)
    assert found == {"cache": "n1", "web": chosen}
    assert unmet == (0.0 if chosen == "n1" else watts)


def test_the_pods_that_others_want_near_come_to_them() -> None:
    """Three pods that must be on a node outweigh the power draw of the one that they want near."""
    web = pod("web", near("cache"), count=3, **on("n1"))
    found, unmet = outcome(nodes("a", "b"), [web, pod("cache")], 2.0)
    assert found["cache"] == "n1"
    assert unmet == 0.0
    found, unmet = outcome(nodes("a", "b"), [web, pod("cache")], 1.0)
    assert found["cache"] == "n0"
    assert unmet == 3.0


def test_a_pod_is_no_company_for_itself() -> None:
    """One of its kind finds no other; two find each other, even away from the cheapest node."""
    alone = pod("web", near("web"))
    assert outcome(nodes("a", "b"), [alone], 7.0) == ({"web": "n0"}, 7.0)
    pair = pod("web", near("web", HOSTNAME), count=2)
    fleet = nodes("a", "b")
    fleet[0]["allocatable"]["pods"] = "1"
    assert outcome(fleet, [pair], 3.0) == ({"web-0": "n1", "web-1": "n1"}, 0.0)
    found, unmet = outcome(fleet, [pair], 2.0)
    assert (sorted(found.values()), unmet) == (["n0", "n1"], 4.0)


def test_a_wish_that_nobody_can_meet_is_unmet_and_changes_nothing() -> None:
    assert outcome(nodes("a", "b"), [pod("web", near("cache"))], 9.0) == ({"web": "n0"}, 9.0)


def test_a_node_in_no_domain_is_near_nobody_and_away_from_all() -> None:
    cache = pod("cache", **on("n0"))
    assert outcome(nodes("", "b"), [cache, pod("web", near("cache"))], 4.0)[1] == 4.0
    assert outcome(nodes("", "b"), [cache, pod("web", away("cache"))], 9.0) == (
        {"cache": "n0", "web": "n0"},
        0.0,
    )


@pytest.mark.parametrize(("watts", "chosen"), [(4.0, "n0"), (6.0, "n1")])
def test_a_wish_to_be_away_from_a_pod_that_is_placed_now_is_weighed(
    watts: float, chosen: str
) -> None:
    cache = pod("cache", **on("n0"))
    found, unmet = outcome(nodes("a", "b"), [cache, pod("web", away("cache"))], watts)
    assert found["web"] == chosen
    assert unmet == (0.0 if chosen == "n1" else watts)


def test_of_pods_that_keep_away_from_each_other_the_first_is_not_disturbed() -> None:
    web = pod("web", away("web"), count=3, **on("n0"))
    assert outcome(nodes("a"), [web], 1.0)[1] == 2.0
    stranger = {**pod("stranger", **on("n0")), "labels": {"app": "web"}}
    assert outcome(nodes("a"), [web, stranger], 1.0)[1] == 3.0


def test_equal_wishes_of_a_pod_add_up() -> None:
    twice = near("cache", weight=40)
    twice["pod_affinity"][PREFERRED] *= 2
    assert outcome(nodes("a"), [pod("web", twice)], 10.0)[1] == 8.0


@generated
def test_a_pod_more_costs_what_it_is_said_to() -> None:
    concerned, tried = 0, seeds(50)
    for seed in tried:
        problem = build_problem(random_instance(seed))
        assignment, source = Assignment(problem), random.Random(seed)
        for _pod in range(8):
            group = source.randrange(len(problem.groups))
            open_to = assignment.fits(group, assignment.all_nodes)
            if assignment.left()[group] and open_to.any():
                node = int(source.choice(open_to.nonzero()[0]))
                before = assignment.rank()[2]
                expected = float(assignment.added_cost(group, assignment.all_nodes)[node])
                assignment.place(group, node)
                assert before - assignment.rank()[2] == pytest.approx(expected), seed
                related = assignment.related
                concerned += related is not None and related.has_caps(group)
    assert not are_many(tried) or concerned > 2 * len(tried) // 3


@generated
def test_tables_of_wishes_follow_the_pods_and_tell_where_they_changed() -> None:
    changes, tried = 0, seeds(50)
    for seed in tried:
        problem = build_problem(random_instance(seed))
        assignment, source = Assignment(problem), random.Random(seed)
        groups = list(range(len(problem.groups)))
        kept = PreferredTermGains(assignment, groups)
        for _pod in range(6):
            kept.refresh()
            before = kept.arrival.copy(), kept.departure.copy()
            node = source.randrange(len(problem.instance.nodes))
            assignment.place(source.choice(groups), node)
            changed = kept.refresh().tolist()
            fresh = PreferredTermGains(assignment, groups)
            fresh.refresh()
            assert kept.arrival.tolist() == fresh.arrival.tolist()
            assert kept.departure.tolist() == fresh.departure.tolist()
            moved = (before[0] != kept.arrival) | (before[1] != kept.departure)
            assert moved.any(axis=0).nonzero()[0].tolist() == changed
            changes += len(changed)
    assert not are_many(tried) or changes > 2 * len(tried) // 3


@pytest.mark.parametrize("unused", [Exchanges, AffinitySwaps])
def test_pods_change_places_for_the_sake_of_company(
    unused: type[Exchanges | AffinitySwaps], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All nodes are full, so no pod can move alone. Each way to find an exchange is enough."""
    monkeypatch.setattr(unused, "steps", lambda _exchanges: [])
    apps = range(10)
    near_caches = [pod(f"web-{app}", near(f"cache-{app}", HOSTNAME)) for app in apps]
    problem = problem_of(
        {
            "nodes": nodes(*"a" * 20, cores=1),
            "pods": [pod("other", count=20), *near_caches, *(pod(f"cache-{app}") for app in apps)],
            "preference_watts": 0.1,
        }
    )
    group_of = {group.pods[0].name: index for index, group in enumerate(problem.groups)}
    assignment = Assignment(problem)
    for app in apps:
        assignment.place(group_of[f"cache-{app}"], app)
        assignment.place(group_of[f"web-{app}"], 10 + app)
        for node in (app, 10 + app):
            assignment.place(group_of["other-0"], node)
    watts = assignment.watts()
    assert assignment.preference_watts() == pytest.approx(1.0)
    assert local_search.improve(assignment, Limits(60.0), rounds=50)
    assert assignment.is_feasible()
    assert assignment.preference_watts() == 0.0
    assert assignment.watts() == pytest.approx(watts)


def test_pods_find_each_other_on_fleets_that_are_too_large_for_a_proof() -> None:
    """Each app has a cache; the power draw of an additional zone is far less than that of being
    apart.
    """
    fleet = nodes(*("abcd"[index % 4] for index in range(120)), cores=2)
    pods = [
        each
        for app in range(8)
        for each in (
            pod(f"cache-{app}", count=2),
            pod(f"web-{app}", near(f"cache-{app}"), count=12),
        )
    ]
    result = place({"nodes": fleet, "pods": pods, "preference_watts": 10_000.0})
    assert result["unplaced"] == []
    assert result["preference_watts"] == 0.0


@pytest.mark.parametrize("key", [HOSTNAME, "wattwise.github.io/rack"])
@pytest.mark.large
def test_with_wishes_a_large_fleet_costs_no_more_than_if_they_were_ignored(key: str) -> None:
    task = placement_task(0, Size(110, 330, 0.6))
    for node in task["nodes"]:
        node["labels"][HOSTNAME] = node["name"]
    for index, each in enumerate(task["pods"]):
        preferred_term = near if index % 3 else away
        each["labels"] = {"app": f"app-{index}"}
        each |= {"affinity": preferred_term(f"app-{index - index % 2}", key)} if index % 4 else {}
    ignoring = place({**task, "preference_watts": 0.0})
    task["preference_watts"] = 2.0
    result = place(task)
    assert violations(task, result, is_complete=False) == []
    assert value_of(task, result) >= value_of(task, ignoring)
