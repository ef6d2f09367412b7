# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The best roles of hosts, against all possible assignments and on a thousand hosts."""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import replace

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.assignment_request import (
    former_roles,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.availability import (
    FormerRole,
    Owner,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.instance import idle_watts
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curve
from support.assignable_hosts import (
    EPYC,
    GOLD,
    Json,
    address_of,
    answer_of,
    host,
    mac_of,
    names_of,
    random_hosts,
    roles_of,
)
from support.host_roles import best_value, is_free, problems

LEVELS = ("spread", "workers", "waste", "idle_watts", "unprovisioned", "kept")


def random_items(rng: random.Random) -> tuple[list[Json], list[Json]]:
    def requirements() -> Json:
        found: Json = {"cpu": rng.choice([0, 8, 16, 32]), "memory": f"{rng.choice([0, 16, 64])}Gi"}
        if rng.random() < 0.3:
            found[rng.choice(["sriov", "qat"])] = True
        return found

    masters = [{**requirements(), "count": 1} for _item in range(rng.choice([1, 1, 2]))]
    masters[0]["count"] = rng.choice([1, 2, 3])
    workers = [requirements() for _item in range(rng.choice([1, 2]))]
    if rng.random() < 0.6:
        workers[0]["count"] = rng.choice([1, 2])
    return masters, workers


SEEDS = [*range(20), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20, 120))]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_answer_is_as_good_as_the_best_of_all(seed: int) -> None:
    rng = random.Random(seed)
    hosts = random_hosts(rng, rng.choice([4, 5]), racks=3)
    masters, workers = random_items(rng)
    former = {each.name: rng.choice(["master", "worker"]) for each in hosts if rng.random() < 0.5}
    roles = {("metal3", name): (FormerRole(role, name),) for name, role in former.items()}  # type: ignore[arg-type]
    answer = answer_of({"master": masters, "worker": workers}, hosts, former=roles)
    known = {each.name: idle_watts(each, {}) for each in hosts}
    worst = max((each[0] for each in known.values() if each), default=0.0)
    watts = {name: each[0] if each else worst for name, each in known.items()}
    best = best_value(masters, workers, hosts, watts, former)
    if best is None:
        assert answer.outcome == "infeasible" and not answer.assignments
        return
    assert answer.outcome == "assigned" and answer.is_proven
    assert problems(answer, masters, workers) == []
    value = {level.name: level.value for level in answer.objective}
    found = tuple(value[name] for name in LEVELS)
    # Watts are reported as whole numbers, and counted in tenths.
    assert found[:3] == (best[0], -best[1], best[2])
    assert found[3] == pytest.approx(best[3], abs=0.51)
    assert found[4:] == (best[4], -best[5])


def test_small_instances_are_of_both_kinds() -> None:
    outcomes = []
    for seed in range(20):
        rng = random.Random(seed)
        hosts = random_hosts(rng, rng.choice([4, 5]), racks=3)
        masters, workers = random_items(rng)
        outcomes.append(answer_of({"master": masters, "worker": workers}, hosts).outcome)
    assert min(outcomes.count("assigned"), outcomes.count("infeasible")) >= 4


def test_a_thousand_hosts_are_assigned_with_proof_in_seconds() -> None:
    rng = random.Random(1)
    hosts = random_hosts(rng, 1000, racks=20)
    spec: Json = {
        "master": [{"cpu": 8, "memory": "4Gi", "count": 5}, {"cpu": 32, "count": 2}],
        "worker": [{"cpu": 16, "count": 250}, {"sriov": True, "count": 60}, {"qat": True}],
    }
    answer_of({"master": {}}, hosts[:1])  # loads the solver
    start = time.process_time()
    answer = answer_of(spec, hosts)
    assert time.process_time() - start < 5
    assert answer.outcome == "assigned" and answer.is_proven
    assert problems(answer, spec["master"], spec["worker"]) == []


def test_equal_input_in_any_order_gives_equal_answers() -> None:
    hosts = random_hosts(random.Random(3), 40, racks=4)
    spec = {"master": {"cpu": 8, "count": 3}, "worker": {"cpu": 16}}
    answers = {
        str([each.as_dict() for each in answer_of(spec, order).assignments])
        for order in (hosts, hosts[::-1], random.Random(5).sample(hosts, len(hosts)))
    }
    assert len(answers) == 1


def test_masters_lie_in_racks_of_their_own_and_named_ones_count() -> None:
    hosts = [host(n, rack=f"r{n // 4}") for n in range(12)]
    spec = {
        "masters": [{"first": {"mac-address": mac_of(0)}}],
        "master": {"cpu": 1, "count": 2},
        "worker": {"cpu": 1},
    }
    answer = answer_of(spec, hosts)
    racks = [each.host.rack for each in answer.assignments if each.role == "master"]
    assert sorted(map(str, racks)) == ["r0", "r1", "r2"]
    assert len(answer.assignments) == 12


def test_a_rack_of_which_nobody_knows_is_one_rack() -> None:
    hosts = [host(0), host(1), host(2), host(3, 64, rack="r1"), host(4, 64, rack="r2")]
    masters = roles_of(answer_of({"master": {"cpu": 1, "count": 3}}, hosts))["master"]
    assert {"node-3", "node-4"} <= set(masters)


def test_spread_can_be_required_or_left_out() -> None:
    hosts = [host(0, 16, rack="a"), host(1, 16, rack="a"), host(2, 64, rack="b")]
    spec = {"master": {"cpu": 8, "count": 2}, "worker": {"cpu": 8, "count": 1}}
    assert roles_of(answer_of({**spec, "rackSpread": "none"}, hosts))["master"] == [
        "node-0",
        "node-1",
    ]
    assert "node-2" in roles_of(answer_of(spec, hosts))["master"]
    required = answer_of({**spec, "master": {"count": 3}, "rackSpread": "required"}, hosts)
    assert required.explanation and "no rack may have two masters" in required.explanation.message


def test_a_big_worker_is_not_spent_on_a_master() -> None:
    """By list order, the master would take the only host that can be a worker."""
    hosts = [host(0, 32), host(1, 16)]
    spec = {"master": {"cpu": 10, "memory": "4Gi"}, "worker": {"cpu": 20, "memory": "8Gi"}}
    assert roles_of(answer_of(spec, hosts)) == {"master": ["node-1"], "worker": ["node-0"]}
    large = [host(0, 128, 512), host(1, 32), host(2, 64)]
    limited = {"master": {"cpu": 10}, "worker": {"cpu": 20, "count": 1}}
    assert {"node-0"}.isdisjoint(names_of(answer_of(limited, large)))


def test_least_idle_watts_by_curves_and_by_published_measurements() -> None:
    hosts = [host(0, model=GOLD), host(1, model=EPYC), host(2, model="unheard of")]
    published = {each.name: idle_watts(each, {}) for each in hosts}
    assert published["node-2"] is None
    told = {name: each[0] for name, each in published.items() if each}
    frugal = min(told, key=lambda name: told[name])
    assert roles_of(answer_of({"master": {}}, hosts))["master"] == [frugal]
    curves = {"node-2": Curve((0.0, 10.0), (5.0, 300.0))}
    answer = answer_of({"master": {}}, hosts, curves=curves)
    assert roles_of(answer)["master"] == ["node-2"]
    assert "idles at 5 W by its power curve" in answer.assignments[0].why


def test_provisioned_hosts_come_first() -> None:
    hosts = [host(0), host(1, state="provisioned"), host(2)]
    assert roles_of(answer_of({"master": {}}, hosts))["master"] == ["node-1"]


def former_of(*entries: tuple[str, str, str]) -> dict[tuple[str, str], tuple[FormerRole, ...]]:
    return {("metal3", name): (FormerRole(role, label),) for name, role, label in entries}  # type: ignore[arg-type]


def test_former_roles_and_labels_stay_where_nothing_is_better() -> None:
    hosts = [host(n) for n in range(6)]
    former = former_of(("node-4", "master", "m-2"), ("node-2", "worker", "node-2"))
    spec = {"masters": [{"m-1": {"cpu": 1}, "m-2": {"cpu": 1}}], "worker": {"cpu": 1, "count": 1}}
    answer = answer_of(spec, hosts, former=former)
    labels = {each.label: each.host.name for each in answer.assignments}
    assert labels == {"m-1": "node-0", "m-2": "node-4", "node-2": "node-2"}


@pytest.mark.parametrize("by_mac", [False, True])
def test_a_host_that_claims_the_address_of_a_reserved_one_takes_it_from_nobody(
    by_mac: bool,
) -> None:
    """Inspection and BMCs report addresses, so a host may claim any."""
    mine = host(1, consumer="Provisioning/bpa/edge")
    hosts = [mine, host(2, mac=mac_of(1), ip=address_of(1)), host(3)]
    spec: Json = {"master": {"count": 1, "cpu": 32}}
    if by_mac:
        spec = {"masters": [{"m": {"mac-address": mac_of(1)}}]}
    owner = Owner("edge", "bpa", "edge")
    answer = answer_of(spec, hosts, owner=owner, former=former_of(("node-1", "master", "m")))
    assert roles_of(answer)["master"] == ["node-1"]
    reasons = {each.host.name: each.reason for each in answer.unassigned}
    assert by_mac or "shares its address" in reasons["node-2"]
    # Before one of them is reserved, its owner is unknown.
    if not by_mac:
        unknown = answer_of(spec, [replace(each, consumer=None) for each in hosts], owner=owner)
        assert roles_of(unknown)["master"] == ["node-3"]


def test_former_roles_stay_although_others_are_better_if_the_spec_says_so() -> None:
    hosts = [host(0, 16), host(1, 64)]
    former = former_of(("node-1", "master", "node-1"))
    for keep, name in (("where-equal", "node-0"), ("always", "node-1")):
        answer = answer_of({"master": {"cpu": 8}, "keepRoles": keep}, hosts, former=former)
        assert roles_of(answer)["master"] == [name]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"operational_status": "error", "error_message": "no power"}, "is in error: no power"),
        ({"state": "provisioning error"}, "is in error"),
        ({"operational_status": "detached"}, "is detached"),
        ({"state": "inspecting"}, "is in state inspecting"),
        ({"state": "deprovisioning"}, "is in state deprovisioning"),
        ({"consumer": "Metal3Machine/metal3/other-0"}, "is consumed by Metal3Machine/metal3/other"),
        ({"labels": {"bpa.akraino.org/cluster": "other"}}, "is labelled for the cluster other"),
        ({"ip": None}, "has no IP address"),
        ({"ip": "169.254.3.1"}, "has no IP address"),
        ({"name": "a b\nansible_connection=local"}, "cannot be in an inventory"),
    ],
)
def test_hosts_that_cannot_be_taken_are_left_and_others_are_not_touched(
    facts: Json, reason: str
) -> None:
    answer = answer_of({"master": {}}, [host(0, **facts), host(1)])
    assert roles_of(answer) == {"master": ["node-1"], "worker": ["node-1"]}
    assert [reason in each.reason for each in answer.unassigned] == [True]


def test_what_the_provisioning_itself_consumes_is_its_own() -> None:
    owner = Owner("p", "metal3", "mine", {("metal3", "node-2"): "Provisioning metal3/other"})
    hosts = [
        host(0, consumer="Provisioning/metal3/p", labels={"bpa.akraino.org/cluster": "mine"}),
        host(1, consumer="Provisioning/metal3/q"),
        host(2),
    ]
    answer = answer_of({"master": {}}, hosts, owner=owner)
    assert roles_of(answer)["master"] == ["node-0"]
    assert [each.reason for each in answer.unassigned] == [
        "is consumed by Provisioning/metal3/q",
        "is reserved by Provisioning metal3/other",
    ]


def test_what_cluster_api_consumes_for_the_owner_stays_its_own() -> None:
    """Anyone who may label hosts can write the label."""
    taken = host(0, consumer="Metal3Machine/metal3/c1-x", labels={"bpa.akraino.org/cluster": "c1"})
    owner, former = Owner("p", "metal3", "c1"), former_of(("node-0", "master", "m-1"))
    first = answer_of({"master": {}}, [taken], owner=owner, former=former)
    assert [(each.host.name, each.label) for each in first.assignments] == [
        ("node-0", "m-1"),
        ("node-0", "m-1"),
    ]
    again = former_roles([each.as_dict() for each in first.assignments])
    second = answer_of({"master": {}}, [taken], owner=owner, former=again)
    assert second.assignments == first.assignments
    assert answer_of({"master": {}}, [taken], owner=owner).outcome == "infeasible"
    other = Owner("p", "metal3", "c2")
    assert answer_of({"master": {}}, [taken], owner=other, former=former).outcome == "infeasible"


def test_two_hosts_that_claim_one_address_get_no_role() -> None:
    """A hostile host that copies an address must not become the machine to which a user logs in."""
    hosts = [host(0), host(1, ip="10.1.0.1"), host(2)]
    answer = answer_of(
        {
            "master": {},
            "worker": {},
        },
        [*hosts, host(3)],
    )
    assert names_of(answer) == {"node-2", "node-3"}


def test_the_selector_limits_the_hosts() -> None:
    hosts = [host(0), host(1, labels={"hall": "2"})]
    answer = answer_of({"master": {}, "hostSelector": {"matchLabels": {"hall": "2"}}}, hosts)
    assert roles_of(answer)["master"] == ["node-1"]


def test_a_host_that_the_selector_excludes_excludes_no_other() -> None:
    hosts = [host(0, labels={"hall": "2"}), host(1, ip="10.1.0.1", mac=mac_of(0))]
    answer = answer_of({"master": {}, "hostSelector": {"matchLabels": {"hall": "2"}}}, hosts)
    assert roles_of(answer)["master"] == ["node-0"]
    assert [each.reason for each in answer.unassigned] == ["is not selected by hostSelector"]


def test_a_new_host_does_not_take_the_name_of_a_running_node() -> None:
    first = answer_of({"master": {}}, [host(0, name="n1", namespace="zz")])
    former = former_roles([each.as_dict() for each in first.assignments])
    hosts = [host(0, name="n1", namespace="zz"), host(1, name="n1", namespace="aa")]
    answer = answer_of({"master": {"count": 2}}, hosts, former=former)
    labels = {each.host.namespace: each.label for each in answer.assignments}
    assert labels == {"zz": "n1", "aa": "n1-aa"}


def test_a_former_label_that_no_inventory_takes_is_forgotten() -> None:
    entry = {"host": "n", "namespace": "a", "role": "master", "label": "localhost"}
    assert former_roles([entry]) == {}


def test_names_are_those_of_hosts_and_differ() -> None:
    hosts = [host(0, name="a"), host(1, name="a", namespace="other"), host(2, name="b")]
    spec = {"masters": [{"b": {"mac-address": mac_of(0)}}], "worker": {"cpu": 1}}
    labels = {each.label for each in answer_of(spec, hosts).assignments}
    assert labels == {"b", "a", "b-metal3"}


def test_a_host_that_is_there_twice_is_refused() -> None:
    with pytest.raises(InvalidInput, match="metal3/node-0 is listed twice"):
        answer_of({"master": {}}, [host(0), host(0)])


def test_answers_of_middle_size_keep_all_rules() -> None:
    """Too many hosts for brute force."""
    for seed, count in itertools.product(range(3), (12, 30)):
        rng = random.Random(seed)
        hosts = random_hosts(rng, count, racks=4)
        masters, workers = random_items(rng)
        answer = answer_of({"master": masters, "worker": workers}, hosts)
        if answer.outcome == "assigned":
            assert problems(answer, masters, workers) == []
            taken = {each.host.name for each in answer.assignments}
            left = {each.host.name for each in answer.unassigned}
            assert taken | left == {each.name for each in hosts} and not taken & left
            assert all(is_free(each.host) for each in answer.assignments)
