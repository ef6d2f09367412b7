# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The step ``limits`` for racks above their inlet limits, over BMCs that throttle their machines."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.limits_record import rack_key
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.run import Run
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.steps.place import limited
from ansible_collections.wattwise.kube.plugins.module_utils.power.limits.reductions import STEP
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import ASLEEP_TAINT
from lab.embedded import EmbeddedLab
from support.limited_rack import Json, Rack, limited_rack, with_pods

KEY = rack_key("r1", "playbook")
HOT, COOL = 35.0, 26.0


@pytest.fixture
def rack(running: EmbeddedLab, tmp_path: Path) -> Iterator[Rack]:
    with limited_rack(running, tmp_path / "run") as found:
        warm(found, HOT)
        yield found


def warm(rack: Rack, celsius: float | None) -> None:
    rack.inlets = {} if celsius is None else dict.fromkeys(rack.names, celsius)


def after(rack: Rack, minutes: float, celsius: float, cap: str = "on", evict: str = "off") -> Json:
    """A run some minutes later, at another temperature."""
    rack.now += datetime.timedelta(minutes=minutes)
    warm(rack, celsius)
    return rack.run(inlet(cap, evict))


def inlet(cap: str = "on", evict: str = "off") -> Json:
    return {"inlet_celsius": {"r1": 32.0}, "cap": cap, "evict": evict}


def domain_of(result: Json) -> Json:
    (found,) = result["limits"]["domains"]
    assert (found["kind"], found["name"]) == ("inlet", "r1")
    return dict(found)


def test_a_rack_above_its_inlet_limit_is_capped_step_by_step_and_comes_back(rack: Rack) -> None:
    before = rack.total
    found = domain_of(rack.run(inlet()))
    allowed = (1 - STEP) * before
    assert found["limit_watts"] == pytest.approx(allowed, rel=0.01)
    assert (found["celsius"], found["limit_celsius"], found["state"]) == (HOT, 32.0, "above")
    assert rack.total <= allowed * 1.01
    assert rack.names[1] not in rack.caps, "the highest priority gives last"
    assert rack.recorded[KEY]["first_celsius"] == HOT
    assert rack.warnings == [
        f"The inlet of rack r1 has 35 °C at {min(rack.names)}, above its limit of 32 °C; the rack "
        f"draws {found['watts']:,.0f} W and may draw {found['limit_watts']:,.0f} W; caps are set"
    ]
    # Before readings show the step nothing more happens; then the next step is due.
    caps = rack.caps
    after(rack, 4, HOT)
    assert rack.caps == caps
    assert domain_of(after(rack, 1, HOT))["limit_watts"] == pytest.approx(
        (1 - STEP) ** 2 * before, rel=0.02
    )
    low = rack.total
    # Between the thresholds the power stays, below them it rises by one step.
    assert domain_of(after(rack, 60, 31.0))["state"] == "reduced"
    assert rack.total == pytest.approx(low, rel=0.02)
    after(rack, 1, COOL)
    assert low < rack.total <= (1 + STEP) * low * 1.01
    for _step in range(3):
        found = domain_of(after(rack, 10, COOL))
    assert (found["limit_watts"], found["state"]) == (None, "within")
    for _step in range(3):
        after(rack, 1, COOL)
    assert (rack.caps, rack.recorded) == ({}, {})
    assert rack.total == pytest.approx(before, rel=0.02)


@pytest.mark.parametrize("context", [{}, {"check_mode": True}])
def test_dry_runs_tell_the_first_step_and_write_nothing(rack: Rack, context: Json) -> None:
    found = rack.run(inlet(cap="on" if context else "dry_run"), **context)
    assert (rack.caps, rack.recorded) == ({}, {})
    assert domain_of(found)["limit_watts"] == pytest.approx((1 - STEP) * rack.total, rel=0.01)
    assert len(found["limits"]["changes"]) == 2
    assert "above its limit of 32 °C" in rack.warnings[-1]


def test_with_all_remedies_off_an_inlet_is_only_told(rack: Rack) -> None:
    found = rack.run(inlet(cap="off"))
    assert (domain_of(found)["state"], domain_of(found)["limit_watts"]) == ("above", None)
    assert rack.warnings[-1].endswith("nothing reduces its power")
    assert rack.recorded == {}


@pytest.mark.parametrize("lie", [0.0, -40.0, 255.0])
def test_a_sensor_that_lies_caps_no_rack_and_is_told(rack: Rack, lie: float) -> None:
    rack.inlets = {rack.names[0]: 25.0, rack.names[1]: lie, rack.names[2]: 26.0}
    found = domain_of(rack.run(inlet()))
    assert (found["state"], found["celsius"], rack.caps) == ("within", 26.0, {})
    [warning] = rack.warnings
    assert f"does not count the inlets of {rack.names[1]}" in warning


def test_one_inlet_far_above_all_others_caps_no_rack_and_is_told(rack: Rack) -> None:
    rack.inlets = {rack.names[0]: 25.0, rack.names[1]: 26.0, rack.names[2]: 48.0}
    assert domain_of(rack.run(inlet()))["state"] == "within"
    assert rack.names[2] in rack.warnings[0]


def test_a_rack_without_an_inlet_is_told_and_keeps_its_caps(rack: Rack) -> None:
    rack.run(inlet())
    caps, recorded = rack.caps, rack.recorded
    warm(rack, None)
    rack.now += datetime.timedelta(hours=2)
    found = domain_of(rack.run(inlet()))
    assert (found["state"], found["celsius"]) == ("unknown", None)
    assert (rack.caps, rack.recorded) == (caps, recorded)
    assert "no machine of it has a fresh inlet" in rack.warnings[0]


def test_the_inlet_of_a_machine_that_sleeps_does_not_count(rack: Rack) -> None:
    rack.taints = [{"key": ASLEEP_TAINT, "effect": "NoSchedule"}]
    rack.inlets = {rack.names[0]: 44.0, rack.names[1]: 30.0, rack.names[2]: 30.0}
    found = domain_of(rack.run(inlet()))
    assert (found["state"], found["celsius"], rack.caps) == ("within", 30.0, {})


@pytest.mark.parametrize("field", ["watts", "first_watts", "first_celsius", "changed_at"])
def test_a_reduction_that_cannot_be_read_is_not_replaced(rack: Rack, field: str) -> None:
    rack.run(inlet())
    entry = rack.recorded[KEY]
    rack.cluster.change_record({KEY: json.dumps({**entry, field: None})})
    with pytest.raises(InvalidInput, match="wattwise-limits is not readable"):
        rack.run(inlet())
    rack.cluster.change_record({KEY: json.dumps(entry)})


def test_caps_end_with_the_inlet_limit(rack: Rack) -> None:
    rack.run(inlet())
    for _run in range(3):
        rack.run({"cap": "on"})
    assert (rack.caps, rack.recorded) == ({}, {})


def test_off_removes_caps_and_reductions(rack: Rack) -> None:
    rack.run(inlet())
    rack.run(inlet(cap="off"))
    assert (rack.caps, rack.recorded) == ({}, {})


def test_two_owners_reduce_their_own_machines_of_a_shared_rack(rack: Rack) -> None:
    rack.own = frozenset(rack.names[:1])
    rack.run(inlet())
    assert set(rack.caps) == {rack.names[0]}
    [entry] = [one for name, one in rack.recorded.items() if name == KEY]
    assert entry["first_watts"] == pytest.approx(rack.watts[rack.names[0]], rel=0.2)
    assert "does not count the inlet of" in rack.warnings[0]
    other = rack_key("r1", "PowerFleet shop/b")
    rack.cluster.change_record(
        {
            other: '{"rack":"r1","owner":"PowerFleet shop/b","watts":9.0,"first_watts":10.0,'
            '"first_celsius":40.0,"changed_at":"2026-01-01T00:00:00Z"}'
        }
    )
    rack.own = None
    rack.run({"cap": "off"})
    assert set(rack.recorded) == {other}, "the entry is that of another owner"


def test_evictions_come_where_caps_are_off_and_wait_for_the_next_step(rack: Rack) -> None:
    with_pods(rack, low=0, middle=10, high=50, higher=60)
    result = rack.run(inlet(cap="off", evict="on"))
    first = list(rack.cluster.evicted)
    assert first in (["low"], ["low", "middle"])
    assert {one["kind"] for one in result["limits"]["evictions"]} == {"inlet"}
    note = rack.cluster.events[0]["note"]
    assert note.startswith("The inlet of rack r1 is above its limit, so that the rack may draw")
    rack.load(0.6)
    after(rack, 4, HOT, cap="off", evict="on")
    assert rack.cluster.evicted == first, "the rack draws what it may"
    after(rack, 1, HOT - 2, cap="off", evict="on")
    assert len(rack.cluster.evicted) > len(first)


def test_a_rack_of_many_kilowatts_has_a_record_that_the_next_run_reads(rack: Rack) -> None:
    """A BMC gets no such limit, but a rack of accelerators may draw it."""
    rack.run(inlet())
    entry = {**rack.recorded[KEY], "watts": 124_000.0, "first_watts": 130_000.0}
    rack.cluster.change_record({KEY: json.dumps(entry)})
    assert domain_of(rack.run(inlet()))["limit_watts"] == 124_000.0


def test_a_rack_whose_machines_all_sleep_is_reduced_no_more(rack: Rack) -> None:
    """Nothing there can cool or heat up, and a reduced rack would never be woken."""
    rack.run(inlet())
    rack.taints, rack.tainted = [{"key": ASLEEP_TAINT, "effect": "NoSchedule"}], rack.names
    found = domain_of(rack.run(inlet()))
    assert (found["limit_watts"], KEY in rack.recorded) == (None, False)


def test_a_cool_rack_without_power_readings_is_reduced_no_more(rack: Rack) -> None:
    rack.run(inlet())
    rack.unread = frozenset(rack.names)
    found = domain_of(after(rack, 11, COOL))
    assert (found["state"], found["limit_watts"], rack.recorded) == ("within", None, {})


def test_bmcs_that_do_not_answer_take_nothing_from_what_their_rack_may_draw(rack: Rack) -> None:
    """Else the rack had to draw as little as the others do, once they answer again."""
    before = rack.total
    rack.unread = frozenset(rack.names[1:])
    first = domain_of(rack.run(inlet()))["limit_watts"]
    assert first >= (1 - STEP) * before
    rack.unread = frozenset()
    rack.run(inlet())
    low = rack.total
    assert low >= 0.9 * before
    # One that fails later leaves no room for the others, and is no reason for a wider step.
    caps, rack.unread = rack.caps, frozenset(rack.names[1:])
    rack.run(inlet())
    assert all(watts <= caps[name] for name, watts in rack.caps.items() if name in caps)
    lowered = domain_of(after(rack, 5, HOT))["limit_watts"]
    assert lowered >= 0.9 * first


def test_a_time_in_the_future_stops_no_reduction(rack: Rack) -> None:
    """A clock that was wrong for a while, or a hand in the record."""
    rack.run(inlet())
    entry = {**rack.recorded[KEY], "changed_at": "2099-01-01T00:00:00Z"}
    rack.cluster.change_record({KEY: json.dumps(entry)})
    rack.run(inlet())
    after(rack, 11, COOL)
    for _step in range(4):
        after(rack, 11, COOL)
    assert rack.recorded.get(KEY) is None


def test_a_reduced_rack_whose_inlets_vary_below_the_limit_causes_no_write(rack: Rack) -> None:
    rack.run(inlet())
    caps = rack.caps
    for celsius in (31.0, 32.0, 30.0, 32.0):
        rack.cluster.asked.clear()
        result = after(rack, 6, celsius)
        assert {method for method, _path in rack.cluster.asked} == {"GET"}
        assert (domain_of(result)["state"], result["changed"]) == ("reduced", False)
        assert (rack.caps, result["limits"]["changes"]) == (caps, [])


@pytest.mark.parametrize("evict", ["off", "on"])
def test_a_dry_run_after_caps_leaves_them_and_tells_it(rack: Rack, evict: str) -> None:
    rack.run(inlet())
    caps, recorded = rack.caps, rack.recorded
    for _run in range(3):
        after(rack, 11, COOL, cap="dry_run", evict=evict)
    assert (rack.caps, rack.recorded) == (caps, recorded)
    assert any("Caps of earlier runs stay" in one for one in rack.warnings)


def test_the_warning_names_the_machine_of_the_hottest_inlet(rack: Rack) -> None:
    rack.inlets = {**dict.fromkeys(rack.names, 25.0), rack.names[1]: 32.4}
    rack.run(inlet())
    assert f"has 32.4 °C at {rack.names[1]}, above its limit of 32 °C" in rack.warnings[-1]


def test_a_room_above_the_limit_evicts_no_pod_once_it_is_known(rack: Rack) -> None:
    """A limit below the temperature of the room must not empty a rack."""
    with_pods(rack, low=0)
    reduced = {"watts": 0.7 * rack.total, "first_watts": rack.total, "first_celsius": HOT}
    entry = {"rack": "r1", "owner": "playbook", "changed_at": "2026-01-01T00:00:00Z", **reduced}
    rack.cluster.change_record({KEY: json.dumps(entry)})
    rack.run(inlet(cap="off", evict="on"))
    assert rack.cluster.evicted == []
    assert any("its air comes warm from the room" in one for one in rack.warnings)
    warm(rack, HOT - 2)
    rack.run(inlet(cap="off", evict="on"))
    assert rack.cluster.evicted == ["low"]


def test_a_cap_that_is_refused_leaves_the_rest_to_evictions(rack: Rack) -> None:
    with_pods(rack, low=0)
    rack.have_uuids = False
    rack.run(inlet(evict="on"))
    assert (rack.caps, rack.cluster.evicted) == ({}, ["low"])


def test_a_machine_that_only_a_gateway_reaches_gets_no_cap_and_is_told(rack: Rack) -> None:
    """Its reading came from the gateway; the BMC does not answer this host."""
    far = rack.names[0]
    rack.lab.admin("POST", "/faults", [{"kind": "dead-bmc", "node": far}])
    try:
        rack.run(inlet())
    finally:
        rack.lab.admin("DELETE", "/faults")
    assert far not in rack.caps and rack.caps
    assert f"The BMC of {far} did not answer" in rack.warnings[0]
    assert "never a gateway" in rack.warnings[0]


def test_a_cap_never_rises_above_the_limit_of_somebody_else(rack: Rack) -> None:
    """A hand set it, for a reason of its own; all other machines idle, so that there is room."""
    first = rack.machines[0]
    rack.limit_by_hand(first, limit_watts=300)
    rack.run(inlet())
    entry = rack.recorded[KEY]
    assert rack.caps[first.name] < 300
    loads = {one.name: 0.05 * one.cores for one in rack.machines[1:]}
    rack.lab.admin("PUT", "/loads", loads)
    after(rack, 1, 31.0)
    assert rack.recorded[KEY] == entry
    assert rack.caps[first.name] == 300
    rack.load(1.0)
    rack.run(inlet(cap="off"))
    assert rack.caps == {first.name: 300}


def test_a_reduced_rack_takes_no_pod(rack: Rack) -> None:
    rack.run(inlet())
    given = {"host": rack.host, "steps": ["limits"], "run_dir": str(rack.folder), "limits": inlet()}
    found = limited(Run(given, Context(now=lambda: rack.now)), dict)
    assert set(found.reduced) == {"r1"}


def test_a_limit_in_watts_stays_above_the_step_of_an_inlet(rack: Rack) -> None:
    watts = math.floor(0.9 * rack.total)
    given = {**inlet(), "rack_watts": {"r1": watts}}
    rack.run(given)
    assert rack.total <= watts
    rack.now += datetime.timedelta(minutes=11)
    warm(rack, COOL)
    for _run in range(4):
        rack.run(given)
        assert rack.total <= watts
