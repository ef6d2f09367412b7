# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events about a fleet that users must see: each object has its own, and there is no flood."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.kube.resource.events import Reporter
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet import telling
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import PowerFleet
from support.event_store import Store
from support.power_fleets import NOW, manifest, parsed
from support.scripted_api import ScriptedApi, status_reply

Json = dict[str, t.Any]


def failing(*numbers: int) -> list[Json]:
    return [{"node": f"n{number:03}", "message": f"timeout: {number}"} for number in numbers]


def nodes(count: int) -> list[Json]:
    names = [f"n{number:03}" for number in range(count)]
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": f"uid-{name}"}}
        for name in names
    ]


def stored(*numbers: int) -> PowerFleet:
    """The fleet whose status lists these nodes."""
    return parsed({**manifest(), "status": {"failing": failing(*numbers)}})


class Cluster(Store):
    """Records the Events."""

    def told(self) -> dict[str, str]:
        """The texts of the Events, by the name of their object."""
        return {event["involvedObject"]["name"]: event["message"] for event in self.events.values()}


def tell_lost(cluster: Cluster, fleet: PowerFleet, *numbers: int, count: int = 100) -> list[str]:
    """A run in which these fail; returns its warnings."""
    warnings: list[str] = []
    context = Context(warn=warnings.append, now=lambda: NOW)
    notes = telling.lost_machines(fleet, {"failing": failing(*numbers)}, nodes(count))
    with ScriptedApi(cluster) as api:
        reporter_of(api, context).tell_each(fleet.as_object, "MachineLost", notes)
    return warnings


def reporter_of(api: ScriptedApi, context: Context) -> Reporter:
    return Reporter(Kube.connect({"host": api.url}), context, "wattwise.github.io/power-fleet")


def test_a_lost_machine_is_told_of_its_node_and_of_the_fleet() -> None:
    cluster = Cluster()
    tell_lost(cluster, stored(1), 1, 2)
    assert cluster.told() == {"n002": "timeout: 2", "fleet": "n002: timeout: 2"}
    # The next one comes a moment later: the fleet's Event is recent, and its node has its own.
    tell_lost(cluster, stored(1, 2), 1, 2, 3)
    assert cluster.told() == {
        "n002": "timeout: 2",
        "n003": "timeout: 3",
        "fleet": "n002: timeout: 2",
    }


def test_a_hall_without_power_is_no_flood() -> None:
    cluster = Cluster()
    tell_lost(cluster, stored(), *range(20))
    assert len(cluster.events) == 21
    assert cluster.told()["fleet"].endswith("n002: timeout: 2 (and 17 more)")
    # The list of a status is full: nodes beyond its end may have failed before.
    tell_lost(cluster, stored(*range(1, 21)), *range(2, 22))
    assert len(cluster.events) == 21
    tell_lost(cluster, stored(*range(30, 50)), 29, *range(30, 49))
    assert cluster.told()["n029"] == "timeout: 29"


def test_events_that_are_refused_are_two_warnings() -> None:
    cluster = Cluster()
    cluster.refusal = status_reply(403, "no permission to it")
    warnings = tell_lost(cluster, stored(), *range(20))
    of_fleet, of_nodes = warnings
    assert of_fleet.startswith("The Event MachineLost of PowerFleet power/fleet could not")
    assert of_nodes.startswith(
        "20 Events MachineLost could not be written; the first is that of Node n000: "
    )


def test_a_failing_node_that_is_no_more_is_told_of_the_fleet() -> None:
    cluster = Cluster()
    tell_lost(cluster, stored(), 5, count=1)
    assert cluster.told() == {"fleet": "n005: timeout: 5"}


def test_machines_that_switched_are_told_by_the_phase_at_which_they_arrived() -> None:
    cluster = Cluster()
    transitions = [
        {"name": name, "phase": phase, "reason": reason, "warning": phase == "quarantined"}
        for name, phase, reason in (
            ("n1", "draining", "The others carry its pods."),
            ("n2", "asleep", "Its BMC says that it is off."),
            ("n3", "quarantined", "Its Node was not ready after 3 boots."),
        )
    ]
    with ScriptedApi(cluster) as api:
        reporter = reporter_of(api, Context(now=lambda: NOW))
        telling.tell_switched(reporter, stored(), transitions)
    told = {event["reason"]: (event["type"], event["message"]) for event in cluster.events.values()}
    assert told == {
        "MachinesAsleep": ("Normal", "n2: Its BMC says that it is off."),
        "MachinesQuarantined": ("Warning", "n3: Its Node was not ready after 3 boots."),
    }


def domain(state: str, **more: t.Any) -> Json:
    given = {"kind": "rack", "name": "r1", "limitWatts": 4000.0, "watts": 4120.5, "state": state}
    return {**given, "capped": 2, "evicted": 0, **more}


def limits_told(before: Json, after: Json) -> dict[str, tuple[str, str]]:
    """The Events between two states of a rack, by their reason."""
    cluster = Cluster()
    with ScriptedApi(cluster) as api:
        reporter = reporter_of(api, Context(now=lambda: NOW))
        known = parsed({**manifest(), "status": {"limits": {"domains": [before]}}})
        telling.tell_limits(reporter, known, {"limits": {"domains": [after]}})
    return {event["reason"]: (event["type"], event["message"]) for event in cluster.events.values()}


def test_a_rack_is_told_when_it_comes_above_its_limit_and_when_it_is_below_it_again() -> None:
    within, above = domain("within", watts=3800.0, capped=0), domain("above")
    assert limits_told(within, above) == {
        "PowerLimitExceeded": (
            "Warning",
            "rack r1: 4,120 W, above its limit of 4,000 W; 2 machines have a cap",
        )
    }
    assert limits_told(above, within) == {
        "PowerLimitKept": ("Normal", "rack r1: 3,800 W, within its limit of 4,000 W")
    }
    assert limits_told(above, above) == limits_told(within, within) == {}
    assert limits_told(above, domain("above", evicted=3)) == {
        "PodsEvictedForPowerLimit": ("Warning", "rack r1 (pods evicted: 3)")
    }


def test_an_inlet_is_told_as_kept_only_when_its_rack_is_not_reduced_any_more() -> None:
    def inlet(state: str, celsius: float) -> Json:
        return domain(state, kind="inlet", celsius=celsius, limitCelsius=32.0)

    within, above, reduced = inlet("within", 29.0), inlet("above", 34.4), inlet("reduced", 31.0)
    assert limits_told(within, above) == {
        "InletLimitExceeded": (
            "Warning",
            "inlet of rack r1: 34.4 °C, above its limit of 32 °C; 2 machines have a cap",
        )
    }
    assert limits_told(above, reduced) == limits_told(reduced, above) == {}
    assert set(limits_told(reduced, within)) == {"InletLimitKept"}


def workload(name: str, ready: str, kind: str = "RmdWorkload") -> Json:
    condition = {"type": "Ready", "status": ready, "reason": "Refused", "message": "no ways"}
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    status = {"conditions": [condition]}
    return {
        "apiVersion": "intel.com/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "status": status,
    }


def test_a_refused_workload_is_told_of_itself_and_of_the_fleet() -> None:
    cluster = Cluster()
    statuses = [workload("a", "False"), workload("b", "True"), workload("c", "False", "RmdConfig")]
    context = Context(now=lambda: NOW)
    with ScriptedApi(cluster) as api:
        for each in (statuses, [workload("b", "True")]):
            notes = telling.refused_workloads(each)
            reporter_of(api, context).tell_each(stored().as_object, "WorkloadRefused", notes)
    assert cluster.told() == {"a": "Refused: no ways", "fleet": "shop/a: Refused: no ways"}
    assert {event["reason"] for event in cluster.events.values()} == {"WorkloadRefused"}
