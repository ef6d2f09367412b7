# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The step ``limits`` over the lab's BMCs, which throttle their machines to the limits they get."""

from __future__ import annotations

import datetime
import json
import typing as t
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    TargetFailure,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.kube.lease import LeaseLost
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.readings import fresh_values
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.limits_record import (
    Cap,
    Entry,
    LimitsRecord,
    TakenOver,
)
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.steps import (
    capping,
    limit_evictions,
)
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.steps import limits as step
from ansible_collections.wattwise.kube.plugins.module_utils.power.sources import source_of_snapshot
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control import limiting
from lab.embedded import EmbeddedLab
from support.binding_api import pod
from support.limited_cluster import RECORD
from support.limited_rack import Json, Rack, limited_rack, with_pods


@pytest.fixture
def rack(running: EmbeddedLab, tmp_path: Path) -> Iterator[Rack]:
    with limited_rack(running, tmp_path / "run") as found:
        yield found


def limits(watts: float, cap: str = "on") -> Json:
    return {"rack_watts": {"r1": round(watts, 1)}, "cap": cap}


def test_a_rack_above_its_limit_is_capped_until_it_draws_less(rack: Rack) -> None:
    limit = 0.95 * rack.total
    result = rack.run(limits(limit))
    assert result["changed"]
    assert rack.total <= limit
    assert rack.names[1] not in rack.caps, "the highest priority gives last"
    assert set(rack.caps) == {rack.names[0], rack.names[2]}
    assert {one["name"] for one in result["limits"]["caps"]} == set(rack.caps)
    (domain,) = result["limits"]["domains"]
    assert (domain["kind"], domain["name"], domain["uncovered_watts"]) == ("rack", "r1", 0.0)
    assert (domain["state"], domain["capped"], domain["evicted"]) == ("above", 2, 0)
    assert "The rack r1 draws" in rack.warnings[-1] and "caps are set" in rack.warnings[-1]


def test_a_second_run_changes_nothing_and_caps_end_with_the_load(rack: Rack) -> None:
    setting = limits(0.95 * rack.total)
    rack.run(setting)
    capped = rack.caps
    again = rack.run(setting)
    assert (again["changed"], again["limits"]["changes"], rack.caps) == (False, [], capped)
    rack.load(0.1)
    ended = rack.run(setting)
    assert ended["changed"]
    assert {one["watts"] for one in ended["limits"]["changes"]} == {None}
    assert rack.caps == {}
    assert not rack.run(setting)["changed"]


@pytest.mark.parametrize("context", [{}, {"check_mode": True}])
def test_a_dry_run_and_check_mode_cap_no_machine(rack: Rack, context: Json) -> None:
    setting = limits(0.95 * rack.total, cap="on" if context else "dry_run")
    result = rack.run(setting, **context)
    assert rack.caps == {}
    assert [one["done"] for one in result["limits"]["changes"]] == [False, False]
    assert result["limits"]["caps"] == []
    assert result["changed"] == bool(context)


def test_without_a_limit_no_bmc_is_asked_for_caps_and_the_step_is_silent(rack: Rack) -> None:
    result = rack.run({"cap": "on"})
    assert "limits" not in result
    assert [step["name"] for step in result["steps"]] == ["read", "merge", "documents"]


def test_a_rack_that_fleets_share_is_never_called_within_its_limit(rack: Rack) -> None:
    """Each run reads its own machines alone, so that nobody knows the power of the rack."""
    rack.own = frozenset(rack.names[:2])
    result = rack.run(limits(0.9 * rack.total))
    [domain] = result["limits"]["domains"]
    assert domain["state"] == "unknown"
    [warning] = rack.warnings
    assert warning == (
        f"The limit of rack r1 does not count the power of {rack.names[2]}, which this run does not "
        "read; let one PowerFleet or run have all machines of the rack"
    )
    rack.own = None


def test_a_limit_below_all_floors_says_what_no_cap_covers(rack: Rack) -> None:
    rack.idle_watts = 250.0
    result = rack.run(limits(300.0))
    (domain,) = result["limits"]["domains"]
    assert domain["uncovered_watts"] > 0
    assert min(rack.caps.values()) >= 275.0
    assert "no cap covers" in rack.warnings[-1]


def test_a_machine_whose_curve_has_no_idle_power_gets_no_cap(rack: Rack) -> None:
    rack.idle_watts = 0.0
    result = rack.run(limits(100.0))
    assert (rack.caps, result["limits"]["changes"]) == ({}, [])


def test_a_machine_that_sleeps_gets_no_cap(rack: Rack) -> None:
    rack.taints = [{"key": "wattwise.github.io/asleep", "effect": "NoSchedule"}]
    rack.run(limits(0.97 * rack.total))
    assert rack.names[0] not in rack.caps
    assert rack.caps


def test_a_machine_that_fell_asleep_keeps_its_cap_until_it_wakes(rack: Rack) -> None:
    setting = limits(0.85 * rack.total)
    rack.run(setting)
    capped = rack.caps[rack.names[0]]
    rack.taints = [{"key": "wattwise.github.io/asleep", "effect": "NoSchedule"}]
    rack.load(0.05)
    assert rack.run(setting)["changed"]
    assert rack.caps == {rack.names[0]: capped}
    rack.taints = []
    rack.settle(setting, runs=1)
    assert rack.caps == {}


def test_a_cap_stays_as_long_as_nobody_knows_the_power_of_its_machine(
    rack: Rack, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = limits(0.85 * rack.total)
    rack.run(setting)
    capped = rack.caps

    def without_first(readings: t.Any, quantity: str) -> dict[str, float]:
        found = fresh_values(readings, quantity)
        return {name: one for name, one in found.items() if name != rack.names[0]}

    monkeypatch.setattr(step, "fresh_values", without_first)
    result = rack.run(setting)
    assert rack.caps == capped
    assert rack.names[0] in {one["name"] for one in result["limits"]["caps"]}


@pytest.mark.parametrize(
    ("mode", "words"),
    [("dry_run", "limits.cap is dry_run; set it to on"), ("on", "no usable NodeConfig names")],
)
def test_caps_that_no_run_removes_are_told(rack: Rack, mode: str, words: str) -> None:
    rack.run(limits(0.95 * rack.total))
    (first, *_rest), machines = sorted(rack.caps), rack.machines
    stuck = f"{first} ({rack.caps[first]:,.0f} W)"
    if mode == "on":
        rack.machines = [one for one in machines if one.name != first]
    rack.run(limits(0.95 * rack.total, cap=mode))
    rack.machines = machines
    [warning] = [one for one in rack.warnings if one.startswith("Caps of earlier runs stay")]
    assert stuck in warning and words in warning


def test_a_record_of_caps_that_cannot_be_read_is_not_replaced(rack: Rack) -> None:
    rack.run(limits(0.95 * rack.total))
    assert rack.cluster.record is not None
    kept = dict(rack.cluster.record["data"])
    broken = {name: value[:-3] for name, value in kept.items()}
    rack.cluster.record["data"] = broken
    with pytest.raises(InvalidInput, match="remove them with redfish_power_limit"):
        rack.run(limits(0.95 * rack.total))
    assert rack.cluster.record["data"] == broken
    rack.cluster.record["data"] = kept


@pytest.mark.parametrize("field", ["watts", "before_watts"])
def test_a_record_with_a_cap_that_is_none_is_not_used(rack: Rack, field: str) -> None:
    """A BMC would get the limit that it has from an entry."""
    rack.run(limits(0.95 * rack.total))
    kept = rack.recorded
    for name, entry in kept.items():
        rack.cluster.change_record({name: json.dumps({**entry, field: -5})})
    with pytest.raises(InvalidInput, match="remove them with redfish_power_limit") as caught:
        rack.run(limits(0.95 * rack.total))
    [failed] = [one for one in caught.value.fields["steps"] if one["failure"]]
    assert failed["name"] == "limits"
    rack.cluster.change_record({name: json.dumps(entry) for name, entry in kept.items()})


def test_a_rack_is_capped_although_a_step_before_failed(rack: Rack) -> None:
    with pytest.raises(InvalidInput, match="Cannot read the plan document") as caught:
        rack.run(limits(0.95 * rack.total), steps=["read", "merge", "bind", "limits"])
    assert rack.caps
    assert caught.value.fields["limits"]["domains"][0]["state"] == "above"


def test_machines_with_pods_of_negative_priority_give_before_empty_ones() -> None:
    pods = [{"spec": {"nodeName": "batch", "priority": given}} for given in (-10, -5)]
    assert capping._priorities(pods) == {"batch": -5}


def test_the_limit_of_a_bmc_comes_back_after_a_cap_below_it(rack: Rack) -> None:
    machine = rack.machines[0]
    stated = float(round(1.1 * rack.watts[machine.name]))
    rack.limit_by_hand(machine, limit_watts=stated)
    setting = limits(0.95 * rack.total)
    rack.run(setting)
    assert rack.caps[machine.name] < stated
    rack.load(0.1)
    rack.run(setting)
    assert rack.caps == {machine.name: stated}
    assert not rack.run(setting)["changed"]


def test_a_limit_that_somebody_set_over_a_cap_stays(rack: Rack) -> None:
    setting = limits(0.85 * rack.total)
    rack.run(setting)
    stated = rack.caps[rack.names[0]] - 20.0
    rack.limit_by_hand(rack.machines[0], limit_watts=stated)
    rack.load(0.05)
    rack.settle(setting, runs=2)
    assert rack.caps == {rack.names[0]: stated}
    assert not rack.run(setting)["changed"]


def test_a_looser_limit_that_somebody_set_over_a_cap_comes_back_after_it(rack: Rack) -> None:
    setting = limits(0.85 * rack.total)
    rack.run(setting)
    capped = rack.caps[rack.names[0]]
    stated = capped + 60.0
    rack.limit_by_hand(rack.machines[0], limit_watts=stated)
    rack.run(setting)
    assert rack.caps[rack.names[0]] <= capped
    rack.load(0.05)
    rack.settle(setting, runs=2)
    assert rack.caps == {rack.names[0]: stated}


def test_a_run_that_ends_while_bmcs_get_limits_leaves_its_caps_to_the_next_one(
    rack: Rack, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = limits(0.95 * rack.total)
    send = limiting.limit_machines

    def send_and_end(changes: t.Any, *given: t.Any) -> Json:
        result = send(changes, *given)
        if any(one.is_to_set for one in changes):
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(limiting, "limit_machines", send_and_end)
        with pytest.raises(KeyboardInterrupt):
            rack.run(setting)
    assert rack.caps
    rack.run({"cap": "off"})
    assert rack.caps == {}


@pytest.mark.parametrize(("reason", "is_kept"), [("timeout", True), ("refused", False)])
def test_a_cap_that_the_bmc_may_have_accepted_is_recorded(
    rack: Rack, monkeypatch: pytest.MonkeyPatch, reason: t.Any, is_kept: bool
) -> None:
    """A request without an answer may have set a limit, which would stay for ever."""

    async def fail(*_given: t.Any) -> t.Any:
        raise TargetFailure(reason, "no answer")

    with monkeypatch.context() as patch:
        patch.setattr(limiting, "_send", fail)
        result = rack.run(limits(0.95 * rack.total))
    assert bool(result["limits"]["caps"]) == is_kept
    assert [one["done"] for one in result["limits"]["changes"]] == [False, False]
    told = [one for one in rack.warnings if "2 of 2 limits could not be changed" in one]
    assert len(told) == 1 and "the first is a limit of" in told[0]


def test_a_cap_stays_recorded_if_its_bmc_does_not_answer(
    rack: Rack, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = limits(0.85 * rack.total)
    rack.run(setting)
    capped = set(rack.caps)
    rack.limit_by_hand(rack.machines[0], state="absent")

    async def fail(*_given: t.Any) -> t.Any:
        raise TargetFailure("forbidden", "no answer")

    with monkeypatch.context() as patch:
        patch.setattr(limiting, "_send", fail)
        result = rack.run(setting)
    assert not all(one["done"] for one in result["limits"]["changes"])
    assert {one["name"] for one in result["limits"]["caps"]} == capped


def test_a_machine_whose_node_has_no_uuid_gets_no_cap(rack: Rack) -> None:
    rack.have_uuids = False
    result = rack.run(limits(0.95 * rack.total))
    rack.have_uuids = True
    assert (rack.caps, result["limits"]["changes"]) == ({}, [])


def test_a_cap_that_somebody_removed_is_set_again(rack: Rack) -> None:
    setting = limits(0.85 * rack.total)
    rack.run(setting)
    capped = rack.caps
    rack.limit_by_hand(rack.machines[0], state="absent")
    assert set(rack.caps) < set(capped)
    assert rack.run(setting)["changed"]
    assert set(rack.caps) == set(capped)


def test_a_cap_that_is_gone_is_set_again_though_its_machine_draws_little_more(rack: Rack) -> None:
    """A run may end between its record and the BMC, which then has no cap at all."""
    setting = limits(0.995 * rack.total)
    rack.run(setting)
    capped = rack.caps
    assert capped
    rack.limit_by_hand(*rack.machines, state="absent")
    assert all(rack.watts[name] < 1.05 * watts for name, watts in capped.items())
    assert rack.run(setting)["changed"]
    assert set(rack.caps) == set(capped)


def test_one_bmc_that_refuses_leaves_the_caps_of_the_others(rack: Rack) -> None:
    refusing = rack.names[0]
    rack.lab.admin("POST", "/faults", [{"kind": "dead-bmc", "node": refusing}])
    try:
        rack.run(limits(0.95 * rack.total))
        assert refusing not in rack.caps
    finally:
        rack.lab.admin("DELETE", "/faults")


def evicting(watts: float, evict: str = "on", cap: str = "off", **more: t.Any) -> Json:
    return {**limits(watts, cap), "evict": evict, **more}


def outcomes(result: Json) -> dict[str, str]:
    return {one["pod"]: one["outcome"] for one in result["limits"]["evictions"]}


def test_without_caps_the_lowest_priority_is_evicted_with_its_reason(rack: Rack) -> None:
    with_pods(rack, low=0, high=50)
    limit = round(rack.total - 30.0, 1)
    result = rack.run(evicting(limit))
    assert result["changed"]
    assert (rack.cluster.evicted, outcomes(result)) == (["low"], {"low": "evicted"})
    [domain] = result["limits"]["domains"]
    assert (domain["state"], domain["evicted"]) == ("above", 1)
    [event] = rack.cluster.events
    assert (event["reason"], event["regarding"]["name"]) == ("EvictedForPowerLimit", "low")
    assert event["note"] == (
        f"The rack r1 draws more than its limit of {limit:,.0f} W, and no cap covers the rest; this "
        "pod had the lowest priority (0) of those that may leave"
    )
    assert "1 pod is evicted for limits: shop/low" in rack.warnings[-1]


def test_caps_come_first_and_pods_stay_where_caps_suffice(rack: Rack) -> None:
    with_pods(rack, low=0)
    result = rack.run(evicting(0.95 * rack.total, cap="on"))
    assert rack.caps
    assert (rack.cluster.evicted, result["limits"]["evictions"]) == ([], [])


def test_pods_leave_where_bmcs_refuse_the_caps(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_given: t.Any) -> t.Any:
        raise TargetFailure("refused", "no licence")

    with_pods(rack, low=0)
    with monkeypatch.context() as patch:
        patch.setattr(limiting, "_send", refuse)
        result = rack.run(evicting(rack.total - 30.0, cap="on"))
    assert (rack.caps, outcomes(result)) == ({}, {"low": "evicted"})


def test_a_machine_that_its_cap_holds_keeps_its_pods(rack: Rack) -> None:
    """Three floors of 221 W are above the limit, and no eviction takes a machine below its cap."""
    with_pods(rack, low=0)
    rack.idle_watts = 200.0
    rack.run(evicting(650.0, cap="on"))
    assert len(rack.caps) == 3
    assert rack.cluster.evicted == []
    assert "No pod may be evicted for limits; 13 W above limits are left" in rack.warnings[-1]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"evict": "dry_run"}, "because limits.evict is dry_run"),
        ({"cap": "dry_run", "evict": "on"}, "because limits.cap is dry_run"),
        ({"evict": "on", "check_mode": True}, "in check mode"),
    ],
)
def test_dry_runs_tell_what_would_leave_and_write_nothing(
    rack: Rack, setting: Json, words: str
) -> None:
    with_pods(rack, low=0, high=50)
    context = {"check_mode": setting.pop("check_mode")} if "check_mode" in setting else {}
    rack.have_uuids = False
    result = rack.run(evicting(rack.total - 30.0, **setting), **context)
    assert (rack.cluster.evicted, outcomes(result)) == ([], {"low": "planned"})
    assert not result["changed"] and rack.cluster.record is None
    assert words in rack.warnings[-1] and "shop/low" in rack.warnings[-1]


def test_a_pod_that_a_budget_keeps_leaves_the_eviction_of_the_others(rack: Rack) -> None:
    with_pods(rack, kept=0, low=0)
    rack.cluster.refused.add("kept")
    result = rack.run(evicting(rack.total - 150.0))
    assert outcomes(result) == {"kept": "refused", "low": "evicted"}
    [error] = [one for step in result["steps"] for one in step["errors"]]
    assert (error["name"], error["reason"]) == ("shop/kept", "refused")
    assert "a PodDisruptionBudget forbids the eviction" in error["detail"]


def test_within_all_limits_no_run_looks_for_pods_to_evict(
    rack: Rack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_pods(rack, low=0)
    looked = 0

    def look(*given: t.Any) -> t.Any:
        nonlocal looked
        looked += 1
        return source_of_snapshot(*given)

    monkeypatch.setattr(limit_evictions, "source_of_snapshot", look)
    rack.run(evicting(1.1 * rack.total))
    assert looked == 0
    assert rack.cluster.asked == [("GET", f"{RECORD}/wattwise-limits")]
    rack.run(evicting(0.9 * rack.total, "dry_run"))
    assert looked == 1


def test_the_next_run_waits_for_readings_that_show_the_evictions(rack: Rack) -> None:
    with_pods(rack, one=0, two=0, three=0)
    setting = evicting(rack.total - 30.0)
    now = datetime.datetime.now(datetime.UTC)
    rack.run(setting, now=lambda: now)
    assert len(rack.cluster.evicted) == 1
    assert set(rack.recorded) == {rack.names[0]} and "evicted_at" in rack.recorded[rack.names[0]]
    again = rack.run(setting, now=lambda: now + datetime.timedelta(seconds=50))
    assert (len(rack.cluster.evicted), again["changed"]) == (1, False)
    assert "until readings show the last evictions" in rack.warnings[-1]
    rack.run(setting, now=lambda: now + datetime.timedelta(seconds=61))
    assert len(rack.cluster.evicted) == 2
    rack.run({"cap": "off"}, now=lambda: now + datetime.timedelta(hours=2))
    assert rack.recorded == {}


def test_a_rack_that_evicted_takes_no_pod_back_until_it_is_well_below_its_limit(
    rack: Rack,
) -> None:
    """A curve that is too low for a pod would let it come back, and leave again, for ever."""
    with_pods(rack, low=0)
    rack.run(evicting(rack.total - 30.0))
    assert rack.cluster.evicted == ["low"]
    rack.cluster.add(pod("back", cpu="1"))
    steps = ["read", "merge", "place", "limits"]
    tight, now = evicting(1.05 * rack.total), datetime.datetime.now(datetime.UTC)
    result = rack.run(tight, steps=steps)
    assert result["summary"]["placed"] == 0
    plan = documents.load(str(rack.folder / "plan.json"), "plan")
    assert "W, and pods were evicted there)" in plan["unplaced"][0]["message"]
    assert rack.run(evicting(1.2 * rack.total), steps=steps)["summary"]["placed"] == 1
    of_fleet = {**tight, "rack_watts": {}, "fleet_watts": 1.05 * rack.total}
    assert rack.run(of_fleet, steps=steps)["summary"]["placed"] == 1
    later = now + datetime.timedelta(minutes=61)
    assert rack.run(tight, steps=steps, now=lambda: later)["summary"]["placed"] == 1


@pytest.mark.parametrize(("lost_after", "outcome"), [(0, "left"), (1, "evicted")])
def test_a_lease_that_is_lost_leaves_the_rest_and_tells_what_was_done(
    rack: Rack, monkeypatch: pytest.MonkeyPatch, lost_after: int, outcome: str
) -> None:
    def lose(*_given: t.Any, **_more: t.Any) -> t.Any:
        fates = ["evicted"] * lost_after
        raise LeaseLost("the Lease was not renewed", **({"departures": fates} if fates else {}))

    with_pods(rack, low=0)
    with monkeypatch.context() as patch:
        patch.setattr(limit_evictions, "evict_pods", lose)
        result = rack.run(evicting(rack.total - 30.0))
    assert outcomes(result) == {"low": outcome}
    assert bool(rack.recorded) == bool(lost_after)


def test_no_run_evicts_more_than_its_bound(rack: Rack) -> None:
    with_pods(rack, one=0, two=0, three=0)
    rack.run(evicting(rack.total - 250.0, max_evictions=2))
    assert len(rack.cluster.evicted) == 2
    assert rack.warnings[-1].endswith("W above limits are left")
    with pytest.raises(InvalidInput, match=r"max_evictions: 0 is no bound"):
        rack.run(evicting(rack.total, max_evictions=0))


def test_caps_are_those_of_any_later_run_and_of_no_other_owner(rack: Rack) -> None:
    rack.run(limits(0.95 * rack.total))
    assert set(rack.recorded) == set(rack.caps)
    assert {one["owner"] for one in rack.recorded.values()} == {"playbook"}
    rack.run({"cap": "off"})
    assert (rack.caps, rack.recorded) == ({}, {})


def test_two_runs_at_once_never_cap_the_same_machine(rack: Rack) -> None:
    theirs = json.dumps({"watts": 300.0, "before_watts": None, "earlier_watts": [], "owner": "x"})

    def intrude() -> None:
        rack.cluster.intrude = lambda: None
        rack.cluster.change_record({rack.names[0]: theirs})

    rack.cluster.intrude = intrude
    with_pods(rack, low=0)
    result = rack.run(evicting(0.95 * rack.total, cap="on"))
    assert (rack.caps, result["changed"], result["limits"]["caps"]) == ({}, False, [])
    assert rack.cluster.evicted == []
    [warning] = [one for one in rack.warnings if one.startswith("Another run changes")]
    assert rack.names[0] in warning
    rack.cluster.change_record({rack.names[0]: None})


def test_an_entry_of_another_machine_that_changes_meanwhile_ends_no_run(rack: Rack) -> None:
    theirs = json.dumps({"watts": 300.0, "before_watts": None, "earlier_watts": [], "owner": "x"})

    def intrude() -> None:
        rack.cluster.intrude = lambda: None
        rack.cluster.change_record({"elsewhere": theirs})

    rack.cluster.intrude = intrude
    rack.run(limits(0.95 * rack.total))
    assert rack.caps and rack.recorded.keys() == {*rack.caps, "elsewhere"}
    rack.cluster.change_record({"elsewhere": None})


def test_a_write_whose_answer_was_lost_is_no_write_of_another_run(rack: Rack) -> None:
    """The client sends it again, and the API server refuses the version that was read."""
    records = [LimitsRecord(Kube.connect({"host": rack.host}), "kube-system") for _time in "ab"]
    first, repeated = records
    for record in records:
        record.read()
    given = {"n1": Entry(Cap(300.0, owner="playbook"))}
    first.write(given)
    repeated.write(given)
    assert set(rack.recorded) == {"n1"}
    repeated.write({"n1": Entry()})
    with pytest.raises(TakenOver, match="the limits of n1"):
        first.write({"n1": Entry(Cap(290.0, owner="playbook"))})
    assert rack.recorded == {}


def test_caps_on_5000_nodes_fit_a_config_map() -> None:
    """The API server refuses a ConfigMap of more than 1 MiB, and no machine would get a cap."""
    name = "worker-04999.rack-0123.hall-2.datacenter-1.example.com"
    cap = Cap(345.0, owner="PowerFleet wattwise-system/production-hall-2")
    entry = Entry(cap, datetime.datetime.now(datetime.UTC), "fleet")
    assert 5_000 * len(name + entry.as_text()) < 2**20


def test_an_old_eviction_is_forgotten_also_where_no_run_has_the_node_any_more() -> None:
    """Nodes go without notice, and nothing else would remove their entries."""
    now = datetime.datetime.now(datetime.UTC)
    old, cap = now - datetime.timedelta(hours=2), Cap(300.0, owner="PowerFleet shop/other")
    entries = {
        "gone": Entry(evicted_at=old),
        "recent": Entry(evicted_at=now),
        "future": Entry(evicted_at=now + datetime.timedelta(days=9)),
        "theirs": Entry(cap, old),
    }
    assert concerned(entries, now, {"n1"}) == {"gone": Entry(), "future": Entry()}


OURS, OTHER, GONE = (f"PowerFleet shop/{name}" for name in ("ours", "other", "gone"))


def concerned(
    entries: dict[str, Entry], now: datetime.datetime, names: t.Collection[str]
) -> dict[str, Entry]:
    """The entries of a run that brings back machines, while another fleet lives."""
    run: t.Any = SimpleNamespace(
        context=Context(now=lambda: now), owner=OURS, other_owners=frozenset({OTHER})
    )
    cluster: t.Any = SimpleNamespace(node_names=frozenset(names))
    return step._concerned(run, cluster, entries)


def test_caps_of_an_abandoned_machine_end_by_their_owner_or_by_anyone_if_it_is_gone() -> None:
    """A machine that sleeps without a fleet is brought back by any of them."""
    now = datetime.datetime.now(datetime.UTC)
    owners = {"abandoned": OTHER, "orphaned": GONE, "own": OURS, "elsewhere": GONE}
    entries = {name: Entry(Cap(300.0, owner=owner)) for name, owner in owners.items()}
    names = {"abandoned", "orphaned"}
    assert set(concerned(entries, now, names)) == {"orphaned", "own"}
