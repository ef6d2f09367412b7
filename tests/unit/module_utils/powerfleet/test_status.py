# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status: its content after a run, and when it is worth a write."""

from __future__ import annotations

import datetime
import typing as t

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import TargetError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.crd_schema import CrdValidator
from ansible_collections.wattwise.kube.plugins.module_utils.kube.unschedulable import Unplaced
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering.metering import (
    Metering,
)
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering.pods import Pod
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import PowerFleet
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.status import (
    Failure,
    Outcome,
    is_due,
    status_of,
    suspended_status,
)
from support.power_fleets import (
    DEFINITION,
    INLET,
    LIMITING,
    NOW,
    SLEEP,
    fleet,
    manifest,
    outcome,
    parsed,
)

Json = dict[str, t.Any]


def conditions(status: Json) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


def stored(status: Json, **spec: t.Any) -> PowerFleet:
    """The fleet with a status as the API server keeps it."""
    moment = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    kept = {**status, "conditions": [{**one, **moment} for one in status["conditions"]]}
    return parsed({**manifest(**spec), "status": kept})


def test_a_run_that_went_well() -> None:
    status = status_of(fleet(), outcome())
    assert conditions(status) == {
        "Observed": ("True", "MachinesRead"),
        "Placed": ("True", "NoPodLeft"),
        "Ready": ("True", "Reconciled"),
    }
    assert status["nodes"] == {
        "selected": 2,
        "claimedByOlder": 0,
        "claimedFromYounger": 0,
        "read": 2,
        "failing": 0,
    }
    assert status["watts"] == {"measured": 400.0, "predicted": 410.0, "lowerBound": 410.0}
    assert status["hottestInlet"] == {"node": "n1", "celsius": 24.3}
    assert status["pods"] == {"waiting": 0, "bound": 1, "unplaced": 0}
    assert status["lastRun"] == {
        "time": "2026-01-01T12:00:02Z",
        "trigger": "interval",
        "seconds": 2.0,
        "steps": [{"name": "snapshot", "seconds": 0.1}],
    }
    assert "failing" not in status and "unplaced" not in status


def test_nodes_are_counted_by_the_source_of_their_curve() -> None:
    counted = {"stated": 0, "predictor": 1, "learned": 1, "none": 0}
    status = status_of(fleet(), outcome(summary={"curve_sources": counted}))
    assert status["curves"] == counted
    # A run that ends earlier leaves the known values.
    assert status_of(stored(status), outcome())["curves"] == counted
    assert suspended_status(stored(status))["curves"] == counted


def test_nodes_with_a_published_curve_are_counted_by_its_match() -> None:
    counted = {"stated": 0, "predictor": 0, "learned": 0, "published": 3, "none": 0}
    matched = {"processor": 2, "model": 1}
    summary = {"curve_sources": counted, "published_matches": matched}
    status = status_of(fleet(), outcome(summary=summary))
    assert status["curves"] == {**counted, "publishedMatches": matched}


def test_machines_are_counted_by_phase_of_sleep() -> None:
    status = status_of(fleet(), outcome(summary={"sleep": SLEEP}))
    assert status["sleep"] == {
        "mode": "on",
        "awake": 3,
        "draining": 1,
        "goingOff": 1,
        "asleep": 2,
        "waking": 0,
        "quarantined": 1,
        "reserveCores": 8.0,
        "savedWatts": 220.5,
        "savedKilowattHours": 2.0,
    }
    assert suspended_status(stored(status))["sleep"] == status["sleep"]
    # A run that ends earlier leaves the known values.
    failed = outcome(failure=Failure("read", "No."))
    assert status_of(stored(status), failed)["sleep"] == status["sleep"]
    blocked = outcome(summary={"sleep": {**SLEEP, "obstacle": "The readings are 905 s old."}})
    assert status_of(fleet(), blocked)["sleep"]["message"] == "The readings are 905 s old."


@pytest.mark.parametrize(
    ("changed", "due"),
    [
        ({"saved_joules": 8e6}, False),
        ({"saved_watts": 221.0}, False),
        ({"saved_watts": 330.0}, True),
        ({"asleep": 3}, True),
        ({"obstacle": "The readings are 905 s old."}, True),
    ],
)
def test_energy_that_grows_writes_no_status(changed: Json, due: bool) -> None:
    before = stored(status_of(fleet(), outcome(summary={"sleep": SLEEP})))
    after = status_of(before, outcome(summary={"sleep": {**SLEEP, **changed}}))
    assert is_due(after, before.status, None, NOW) == due


def limited_fleet() -> PowerFleet:
    return fleet(limits={"rackWatts": {"r1": 4000}})


def limiting(**rack: t.Any) -> Json:
    fleet_domain, rack_domain = LIMITING["domains"]
    return {**LIMITING, "domains": [fleet_domain, {**rack_domain, **rack}]}


def test_limits_have_their_power_and_state_those_above_theirs_first() -> None:
    waiting = Unplaced(
        "shop", "a", "0/4 nodes: 4 node(s) in rack r1 (3,960 W of 4,000 W; this pod)"
    )
    found = outcome(summary={"limiting": LIMITING}, unplaced=[waiting])
    status = status_of(limited_fleet(), found)
    own = {"limitWatts": 9000.0, "watts": 7000.0, "capped": 2, "evicted": 0}
    assert status["limits"] == {
        "cap": "on",
        "evict": "dry_run",
        "capped": 2,
        "evicted": 0,
        "domains": [
            {
                **{**own, "limitWatts": 4000.0, "watts": 4120.5},
                **{"kind": "rack", "name": "r1", "state": "above", "deferredPods": 1},
            },
            {**own, "kind": "fleet", "state": "within", "deferredPods": 0},
        ],
    }
    # A run that ends earlier leaves the known values, until neither a limit nor a cap is left.
    kept = parsed({**limited_fleet().manifest, "status": status})
    assert status_of(kept, outcome())["limits"] == status["limits"]
    nothing = {**LIMITING, "capped": [], "domains": []}
    assert "limits" not in status_of(kept, outcome(summary={"limiting": nothing}))
    without = {**status["limits"], "capped": 0}
    assert "limits" not in status_of(stored({**status, "limits": without}), outcome())


def test_an_inlet_has_its_temperature_and_the_pods_that_wait_for_it() -> None:
    messages = ("(3,960 W of 4,000 W)", "(inlet of 34 °C, limit 32 °C)")
    waiting = [Unplaced("shop", "a", f"0/4 nodes: 4 node(s) in rack r1 {one}") for one in messages]
    told = {**LIMITING, "domains": [INLET]}
    found = status_of(limited_fleet(), outcome(summary={"limiting": told}, unplaced=waiting))
    [inlet] = found["limits"]["domains"]
    assert (inlet["limitWatts"], inlet["limitCelsius"], inlet["celsius"]) == (3900, 32, 34.4)
    assert inlet["deferredPods"] == 1
    unread = {**INLET, "celsius": None, "limit_watts": None, "state": "unknown"}
    told = {**LIMITING, "domains": [unread]}
    [inlet] = status_of(limited_fleet(), outcome(summary={"limiting": told}))["limits"]["domains"]
    assert "celsius" not in inlet and "limitWatts" not in inlet


@pytest.mark.parametrize(("celsius", "due"), [(33.4, False), (36.0, True)])
def test_a_temperature_that_varies_writes_no_status(celsius: float, due: bool) -> None:
    """Sensors have whole degrees, and an inlet near its limit is above it in each second run."""
    inlets = [INLET, {**INLET, "celsius": celsius, "state": "reduced"}]
    told = [{**LIMITING, "domains": [one]} for one in inlets]
    before, after = (status_of(limited_fleet(), outcome(summary={"limiting": one})) for one in told)
    assert is_due(after, stored(before).status, None, NOW) == due


@pytest.mark.parametrize(
    ("rack", "due"),
    [
        ({"watts": 4121.0}, False),
        ({"watts": 4500.0}, True),
        ({"state": "within"}, True),
        ({"capped": 3}, True),
        ({"evicted": 1}, True),
    ],
)
def test_power_that_varies_below_a_limit_writes_no_status(rack: Json, due: bool) -> None:
    status = status_of(limited_fleet(), outcome(summary={"limiting": LIMITING}))
    before = stored(status)
    after = status_of(limited_fleet(), outcome(summary={"limiting": limiting(**rack)}))
    assert is_due(after, before.status, None, NOW) == due


def test_the_end_of_evictions_writes_no_status() -> None:
    evicted = limiting(evicted=1)
    status = status_of(limited_fleet(), outcome(summary={"limiting": evicted}))
    before = stored(status)
    after = status_of(limited_fleet(), outcome(summary={"limiting": LIMITING}))
    assert not is_due(after, before.status, None, NOW)


def test_the_age_in_an_obstacle_writes_no_status() -> None:
    blocked = {**SLEEP, "obstacle": "The readings are 905 s old."}
    before = stored(status_of(fleet(), outcome(summary={"sleep": blocked})))
    older = {**SLEEP, "obstacle": "The readings are 965 s old."}
    assert not is_due(
        status_of(before, outcome(summary={"sleep": older})), before.status, None, NOW
    )


def test_what_failed_is_listed_up_to_twenty() -> None:
    errors = [TargetError(f"n{index:02}", "e", "timeout", "{{ odd }}\n") for index in range(30)]
    unplaced = [Unplaced("a", f"p{index:02}", "0/2", "u") for index in range(30)]
    found = outcome(
        errors=[*errors, *errors], unplaced=unplaced, summary={"failed": 30, "fresh": 0}
    )
    status = status_of(fleet(), found)
    assert len(status["failing"]) == len(status["unplaced"]) == 20
    assert status["failing"][0] == {"node": "n00", "message": r"timeout: {{ odd }}\n"}
    assert status["unplaced"][0] == {"namespace": "a", "pod": "p00", "message": "0/2"}
    assert conditions(status)["Placed"] == ("False", "PodsUnplaced")
    assert conditions(status)["Observed"] == ("True", "SomeMachinesFailing")
    assert conditions(status)["Ready"] == ("True", "Reconciled")


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("snapshot", {"Observed": "NotYet", "Placed": "NotYet", "Ready": "SnapshotFailed"}),
        ("merge", {"Observed": "MergeFailed", "Placed": "NotYet", "Ready": "MergeFailed"}),
        ("node_configs", {"Observed": "NotYet", "Ready": "NodeConfigsFailed"}),
        ("bind", {"Placed": "BindFailed", "Ready": "BindFailed"}),
    ],
)
def test_the_step_that_failed_is_named_where_it_matters(step: str, told: Json) -> None:
    failed = Outcome("start", NOW, 1.0, failure=Failure(step, "It did not work."))
    status = status_of(fleet(), failed)
    reasons = {name: reason for name, (_status, reason) in conditions(status).items()}
    assert told.items() <= reasons.items()
    [ready] = [one for one in status["conditions"] if one["type"] == "Ready"]
    assert (ready["status"], ready["message"]) == ("False", "It did not work.")


def test_objects_that_were_refused_are_told_although_the_steps_went_on() -> None:
    status = status_of(fleet(), outcome(refused=["NodeConfig a/b: another manager owns it", "no"]))
    assert conditions(status)["Ready"] == ("False", "ObjectsRefused")
    message = status["conditions"][-1]["message"]
    assert message == "NodeConfig a/b: another manager owns it (and 1 more)"
    assert conditions(status)["Placed"] == ("True", "NoPodLeft")


def test_pods_that_binding_skipped_wait_and_the_condition_says_why() -> None:
    full = {("shop", "web"): "node n1 is full: Insufficient cpu"}
    status = status_of(fleet(), outcome(unbound=full, waiting=2))
    [placed] = [one for one in status["conditions"] if one["type"] == "Placed"]
    assert (placed["status"], placed["reason"]) == ("False", "PodsNotBound")
    assert placed["message"] == (
        "1 pod with a planned node waits; shop/web was not bound: node n1 is full: Insufficient cpu"
    )
    assert status["pods"] == {"waiting": 1, "bound": 1, "unplaced": 0}
    two = {**full, ("shop", "api"): "node n2 is gone"}
    unplaced = [Unplaced("a", "p", "0/2", "u")]
    status = status_of(fleet(), outcome(unbound=two, unplaced=unplaced, waiting=4))
    [placed] = [one for one in status["conditions"] if one["type"] == "Placed"]
    assert placed["reason"] == "PodsUnplaced"
    assert placed["message"] == (
        "For 1 waiting pods the fleet has no node. 2 pods with a planned node wait; "
        "shop/api was not bound: node n2 is gone (and 1 more)"
    )
    assert status["pods"] == {"waiting": 3, "bound": 1, "unplaced": 1}
    whole = status_of(fleet(), outcome(unbound={}, waiting=3))
    assert conditions(whole)["Placed"] == ("True", "NoPodLeft")
    assert whole["pods"]["waiting"] == 0


def test_parts_that_a_run_did_not_reach_stay_as_they_were() -> None:
    before = status_of(fleet(), outcome())
    failed = Outcome("interval", NOW, 1.0, failure=Failure("snapshot", "No answer."))
    after = status_of(stored(before), failed)
    for part in ("nodes", "watts", "hottestInlet", "pods"):
        assert after[part] == before[part]
    assert conditions(after)["Observed"] == conditions(before)["Observed"]


def metered(watts: float = 10.0, *errors: str) -> Metering:
    """Two pods on one node, and errors of these nodes."""
    zones = {"package": watts / 2, "dram": 0.0}
    pods = {Pod("shop", name, name, "n1", "", ""): zones for name in ("a", "b")}
    failures = [TargetError(name, "e", "timeout", "too slow") for name in errors]
    return Metering("prometheus", NOW, pods=pods, nodes={"n1": zones}, errors=failures)


METERING: Json = {"metering": {"source": "prometheus", "url": "https://p"}}


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"metered": metered()}, ("True", "PodsMetered")),
        ({"metered": metered(10.0, "n2")}, ("False", "SomeNotMetered")),
        ({"metered": Metering("prometheus", NOW)}, ("False", "NothingMetered")),
        ({"metering_failure": "No."}, ("False", "MeterFailed")),
        ({}, ("Unknown", "NotYet")),
    ],
)
def test_metering_is_told_and_leaves_the_fleet_ready(parts: Json, told: tuple[str, str]) -> None:
    status = status_of(fleet(**METERING), outcome(**parts))
    assert conditions(status)["Metered"] == told
    assert conditions(status)["Ready"] == ("True", "Reconciled")
    if parts.get("metered"):
        found = parts["metered"]
        counts = {"nodes": len(found.nodes), "pods": len(found.pods), "failing": len(found.errors)}
        assert counts.items() <= status["metering"].items()
    assert "Metered" not in conditions(status_of(fleet(), outcome(**parts)))


def test_watts_of_pods_are_news_only_where_they_moved() -> None:
    before = status_of(fleet(**METERING), outcome(metered=metered(100.0)))
    assert before["metering"] == {"nodes": 1, "pods": 2, "watts": 100.0, "failing": 0}
    for found, due in (
        (metered(101.0), False),
        (metered(110.0), True),
        (metered(100.0, "n"), True),
    ):
        after = status_of(fleet(**METERING), outcome(metered=found))
        assert is_due(after, before, 300.0, NOW) == due
    # A run without metering keeps the known values.
    kept = status_of(stored(before, **METERING), outcome())
    assert kept["metering"] == before["metering"]
    assert conditions(kept)["Metered"] == ("True", "PodsMetered")


def test_a_suspended_fleet_keeps_what_was_known() -> None:
    before = status_of(fleet(), outcome())
    status = suspended_status(stored(before, suspend=True))
    assert conditions(status)["Ready"] == ("False", "Suspended")
    assert conditions(status)["Placed"] == conditions(before)["Placed"]
    assert status["watts"] == before["watts"] and status["lastRun"] == before["lastRun"]
    again = suspended_status(stored(status, suspend=True))
    assert not is_due(again, stored(status).status, None, NOW)


@pytest.mark.parametrize(
    ("change", "due"),
    [
        ({}, False),
        ({"seconds": 9.0}, False),
        ({"trigger": "pods"}, False),
        ({"summary": {"bound": 0}, "waiting": 0}, False),
        ({"summary": {"bound": 2}, "waiting": 2}, True),
        ({"summary": {"measured_watts": 407.9}}, False),
        ({"summary": {"measured_watts": 408.1}}, True),
        ({"summary": {"hottest_node": "n2", "hottest_inlet_celsius": 24.7}}, False),
        ({"summary": {"hottest_inlet_celsius": 24.9}}, True),
        ({"summary": {"hottest_node": None, "hottest_inlet_celsius": None}}, True),
        ({"summary": {"fresh": 1}}, True),
        ({"summary": {"curve_sources": {"learned": 1, "none": 1}}}, True),
        ({"waiting": 2}, True),
        ({"unplaced": [Unplaced("a", "b", "c")], "waiting": 2}, True),
        ({"failure": Failure("bind", "No.")}, True),
    ],
    ids=str,
)
def test_only_news_and_heartbeats_are_written(change: Json, due: bool) -> None:
    kept = stored(status_of(fleet(), outcome()))
    status = status_of(kept, outcome(**change))
    assert is_due(status, kept.status, 300.0, NOW + datetime.timedelta(seconds=299)) == due
    assert is_due(status, kept.status, 300.0, NOW + datetime.timedelta(seconds=303))


def test_another_generation_and_conditions_that_somebody_changed_are_news() -> None:
    status = status_of(fleet(), outcome())
    assert is_due({**status, "observedGeneration": 2}, stored(status).status, 300.0, NOW)
    other = {"type": "X", "status": "True", "reason": "Y", "message": ""}
    foreign = stored({**status, "conditions": [*status["conditions"], other]})
    assert not is_due(status, foreign.status, 300.0, NOW)
    assert is_due(status, stored({**status, "conditions": []}).status, 300.0, NOW)


@pytest.mark.parametrize(
    "odd",
    [
        *({}, {"conditions": 7}, {"conditions": [7, {}, {"type": 1}]}, {"watts": 7, "nodes": []}),
        {"lastRun": {"time": "soon"}, "pods": "none", "hottestInlet": [1]},
    ],
    ids=str,
)
def test_an_odd_stored_status_is_replaced(odd: Json) -> None:
    kept = parsed({**manifest(), "status": odd})
    assert is_due(status_of(kept, outcome()), kept.status, 300.0, NOW)


def test_every_status_follows_the_definition() -> None:
    validator = CrdValidator(yaml.safe_load(DEFINITION.read_text(encoding="utf-8")))
    unplaced = [Unplaced("a", "b", "c")]
    error = TargetError("n1", "", "tls", "x" * 5000)
    for status in (
        status_of(fleet(), outcome()),
        status_of(fleet(), outcome(summary={"sleep": {**SLEEP, "obstacle": "x" * 5000}})),
        status_of(fleet(), outcome(unplaced=unplaced, errors=[error])),
        status_of(fleet(), Outcome("start", NOW, 0.0, failure=Failure("rmd", "x" * 9999))),
        suspended_status(fleet()),
    ):
        obj = {**manifest(), "status": stored(status).manifest["status"]}
        assert validator.problem(obj) is None
