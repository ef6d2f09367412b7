# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of a cluster with prices: no machine wakes for a pod that waits for its hour."""

from __future__ import annotations

import datetime
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time
from ansible_collections.wattwise.kube.plugins.module_utils.power import placement
from ansible_collections.wattwise.kube.plugins.module_utils.prices.deferral import Deferral
from ansible_collections.wattwise.kube.plugins.module_utils.prices.series import PriceSeries
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curves
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.cluster_view import (
    Lists,
    Records,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.demand_record import (
    SleepRecord,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.guards import Peers
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.options import (
    OPTIONS,
    SleepOptions,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.planner import (
    FleetInputs,
    Plan,
    Planner,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record import NodeRecord
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.timeline import counts_of
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Phase
from support.binding_api import Json, node, pod

NOW = 1_750_000_000.0
HOUR = 3600.0
CURVE = {"cpu": [0.0, 64.0], "watts": [100.0, 250.0]}


def moment(seconds: float) -> str:
    return format_time(datetime.datetime.fromtimestamp(seconds, datetime.UTC))


def job(finish_by: float) -> Json:
    made = pod("job", cpu="3")
    made["metadata"]["creationTimestamp"] = moment(NOW - HOUR)
    made["metadata"]["annotations"] = {
        "wattwise.github.io/finish-by": moment(finish_by),
        "wattwise.github.io/expected-duration": "1h",
    }
    return made


def planned(waiting: Json, **inputs: t.Any) -> Plan:
    """One machine is awake and full; the other one sleeps."""
    nodes = {name: node(name) for name in ("n1", "n2")}
    for each in nodes.values():
        each["metadata"]["labels"]["sleeps"] = "yes"
        each["status"]["nodeInfo"] = {"systemUUID": "11111111-2222-3333-4444-555555555555"}
    full = {**pod("full", cpu="4", nodeName="n1"), "status": {"phase": "Running"}}
    lists = Lists(
        nodes,
        {"nodes": [*nodes.values()], "pods": [full, waiting], "pod_disruption_budgets": []},
    )
    options = SleepOptions.of(OPTIONS.complete({"mode": "on", "select": "sleeps=yes"}))
    curves = Curves.from_document(dict.fromkeys(nodes, CURVE))
    fleet = FleetInputs({}, curves, placement.SPEC.complete({}), **inputs)
    records = Records({"n2": NodeRecord(Phase.ASLEEP, NOW - HOUR, "test")})
    planner = Planner(fleet, options, Peers(), lambda _name: True, NOW)
    return planner.plan(lists, records, (), SleepRecord(NOW - 86400.0, NOW))


def wakes(plan: Plan) -> list[str]:
    return [name for name, intent in plan.intents.items() if intent.action == "wake"]


def test_a_sleeping_machine_is_woken_for_a_pod_only_in_its_hour() -> None:
    prices = tuple(10.0 if hour == 3 else 80.0 for hour in range(24))
    series = PriceSeries(tuple(NOW + HOUR * hour for hour in range(24)), prices)
    deferral = Deferral(series, 1800.0, "wattwise", NOW)
    waiting = job(NOW + 8 * HOUR)
    assert wakes(planned(waiting)) == ["n2"]
    assert wakes(planned(waiting, deferral=deferral)) == []
    assert wakes(planned(job(NOW + 2 * HOUR), deferral=deferral)) == ["n2"]


def test_a_pod_that_waits_for_its_hour_needs_no_machine() -> None:
    """Neither in the plan nor in the timeline of the machines that pods need."""
    series = PriceSeries((NOW, NOW + 3 * HOUR), (80.0, 10.0))
    deferral = Deferral(series, 1800.0, "wattwise", NOW)
    pods = [job(NOW + 8 * HOUR), job(NOW + 2 * HOUR)]
    pods[1]["metadata"]["name"] = "soon"
    fleet = FleetInputs({}, Curves({}), placement.SPEC.complete({}), deferral=deferral)
    assert fleet.due(pods) == [pods[1]]
    assert counts_of([node("n1"), node("n2")], fleet.due(pods), NOW).needed == 1
    assert counts_of([node("n1"), node("n2")], pods, NOW).needed == 2


def test_the_plan_says_what_energy_costs() -> None:
    waiting = job(NOW + 8 * HOUR)
    assert planned(waiting, energy_weight=1.5).notes[-1] == (
        "Energy costs 1.50 times its mean in the next hours."
    )
    assert planned(waiting).notes == planned(waiting, energy_weight=1.0).notes
