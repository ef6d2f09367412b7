# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Obstacles to switching machines off, and the record of demand and switches."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster import guards
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.cluster_view import (
    read_peers,
    unready_share,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.demand_record import (
    MachineHistory,
    SleepRecord,
    record_of_body,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.guards import (
    Moment,
    Peers,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record import (
    NOT_REMEDIATED,
    SCALE_DOWN_DISABLED,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.machine import Phase
from support.scripted_api import Asked, Reply, ScriptedApi, status_reply

Json = dict[str, t.Any]
NOW = 1_800_000_000.0
NONE = Peers()
MACHINE, SKIPPED = "cluster.x-k8s.io/machine", "cluster.x-k8s.io/skip-remediation"
CHECKED = Peers(machine_annotations=frozenset({MACHINE}))


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (Moment(), ""),
        (Moment(list_seconds=90.0), "unwell"),
        (Moment(readings_age=None), "missing"),
        (Moment(readings_age=1000.0), "1000 s old"),
        (Moment(readings_age=-500.0), "-500 s old"),
        (Moment(unready_share=0.5), "50% of the Nodes"),
    ],
)
def test_an_obstacle_of_the_fleet_says_why(moment: Moment, words: str) -> None:
    found = guards.fleet_obstacle(moment)
    assert words in found
    assert bool(found) == bool(words)


def node(**more: t.Any) -> Json:
    metadata = {"name": "n1", "annotations": {}, "labels": {}, **more.pop("metadata", {})}
    return {
        "metadata": metadata,
        "spec": more.pop("spec", {}),
        "status": {"nodeInfo": {"systemUUID": "u"}, **more},
    }


@pytest.mark.parametrize(
    ("given", "peers", "has_bmc", "words"),
    [
        (node(), NONE, True, ""),
        (node(), NONE, False, "no BMC"),
        (node(nodeInfo={}), NONE, True, "no systemUUID"),
        (node(metadata={"annotations": {"wattwise.github.io/hold": ""}}), NONE, True, "holds it"),
        (node(spec={"providerID": "x://1"}), Peers(has_cluster_autoscaler=True), True, ""),
        (node(metadata={"annotations": {MACHINE: "m"}}), CHECKED, True, "MachineHealthCheck"),
        (node(metadata={"annotations": {MACHINE: "m", SKIPPED: ""}}), CHECKED, True, ""),
        (node(metadata={"annotations": {MACHINE: "m"}}), NONE, True, ""),
    ],
)
def test_a_protection_says_why(given: Json, peers: Peers, has_bmc: bool, words: str) -> None:
    found = guards.protection(given, peers, has_bmc)
    assert words in found
    assert bool(found) == bool(words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("On", "", True, 0.0, Phase.AWAKE), ""),
        ((None, "", True, 0.0, Phase.AWAKE), "unknown"),
        ((None, "another machine", True, 0.0, Phase.AWAKE), "another machine"),
        (("On", "", False, 0.0, Phase.AWAKE), "readings are old"),
        (("On", "", False, 0.0, Phase.GOING_OFF), ""),
        (("On", "", True, 0.5, Phase.AWAKE), "of its zone"),
    ],
)
def test_an_obstacle_of_a_machine_says_why(given: t.Any, words: str) -> None:
    found = guards.machine_obstacle(*given)
    assert words in found
    assert bool(found) == bool(words)


def test_a_zone_counts_nodes_without_the_label_alone() -> None:
    def in_zone(zone: str, ready: str, **labels: str) -> Json:
        given = {guards.ZONE_LABEL: zone, **labels}
        return {"metadata": {"labels": given}, **member(ready)}

    nodes = [
        *(in_zone("a", "True"), in_zone("a", "Unknown")),
        in_zone("a", "Unknown", **{"node.kubernetes.io/exclude-disruption": ""}),
        in_zone("b", "True"),
    ]
    assert guards.unready_by_zone(nodes) == {"a": 0.5, "b": 0.0}


def test_sleeping_machines_of_other_fleets_are_no_outage() -> None:
    taint = {"key": "wattwise.github.io/asleep", "value": "asleep", "effect": "NoSchedule"}
    asleep = {**member("Unknown"), "spec": {"taints": [taint]}}
    assert unready_share([asleep, asleep, asleep, member("Unknown"), member("True")]) == 0.5
    assert unready_share([asleep]) == 0.0


def member(ready: str) -> Json:
    return {"status": {"conditions": [{"type": "Ready", "status": ready}]}}


@pytest.mark.parametrize(
    ("ready", "unready", "room"), [(3, 0, 3), (6, 1, 2), (60, 40, 5), (50, 50, -5)]
)
def test_the_cluster_autoscaler_bounds_how_many_nodes_are_off(
    ready: int, unready: int, room: int
) -> None:
    nodes = [member("True")] * ready + [member("Unknown")] * unready
    assert guards.room_for_autoscaler(nodes, Peers(has_cluster_autoscaler=True)) == room
    assert guards.room_for_autoscaler(nodes, NONE) == float("inf")


def test_marks_that_others_set_are_not_ours() -> None:
    both = Peers(has_cluster_autoscaler=True, has_node_health_checks=True)
    assert both.pauses_for(node()) == (SCALE_DOWN_DISABLED, NOT_REMEDIATED)
    marked = node(metadata={"labels": {NOT_REMEDIATED: "true"}})
    assert both.pauses_for(marked) == (SCALE_DOWN_DISABLED,)
    assert NONE.pauses_for(node()) == ()


AUTOSCALER = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
NODE_CHECKS = "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks"
MACHINE_CHECKS = "/apis/cluster.x-k8s.io/v1beta1/machinehealthchecks"
OPENSHIFT_CHECKS = "/apis/machine.openshift.io/v1beta1/machinehealthchecks"


@pytest.mark.parametrize(
    ("served", "found"),
    [
        ({MACHINE_CHECKS: [], OPENSHIFT_CHECKS: []}, NONE),
        ({MACHINE_CHECKS.replace("beta1", "beta2"): [], OPENSHIFT_CHECKS: []}, NONE),
        # Machines of another cluster's Cluster API, whose checks nobody sees from here.
        ({OPENSHIFT_CHECKS: []}, CHECKED),
        ({OPENSHIFT_CHECKS: [], MACHINE_CHECKS: [{"metadata": {"name": "a"}}]}, CHECKED),
        (
            {
                OPENSHIFT_CHECKS: [],
                MACHINE_CHECKS: [{"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}],
            },
            NONE,
        ),
        (
            {OPENSHIFT_CHECKS: [], MACHINE_CHECKS: [], NODE_CHECKS: [{"spec": {}}]},
            Peers(has_node_health_checks=True),
        ),
        (
            {
                OPENSHIFT_CHECKS: [],
                MACHINE_CHECKS: [],
                NODE_CHECKS: [{"spec": {"pauseRequests": ["upgrade"]}}],
            },
            NONE,
        ),
        (
            {OPENSHIFT_CHECKS: [], MACHINE_CHECKS: [], AUTOSCALER: [{}]},
            Peers(has_cluster_autoscaler=True),
        ),
    ],
)
def test_programs_that_would_undo_a_sleep_are_recognised(
    served: dict[str, list[Json]], found: Peers
) -> None:
    def script(asked: Asked) -> Reply:
        path = asked.path.partition("?")[0]
        if path not in served:
            return status_reply(404, "not found")
        return Reply({"kind": "List", "metadata": {}, "items": served[path]})

    with ScriptedApi(script) as api:
        assert read_peers(Kube.connect({"host": api.url})) == found


def pod(name: str, created: str = "2027-01-15T07:30:00Z", **more: t.Any) -> Json:
    requests = {"cpu": "500m"}
    return {
        "metadata": {"name": name, "uid": name, "namespace": "x", "creationTimestamp": created},
        "spec": {"containers": [{"resources": {"requests": requests}}]},
        **more,
    }


class TestRecord:
    """What outlives a run."""

    def stored(self, record: SleepRecord) -> SleepRecord:
        return record_of_body(json.loads(json.dumps(record.as_body())), NOW + 1e6)

    def test_pods_that_were_there_already_are_no_arrivals(self) -> None:
        record = SleepRecord(NOW - 7200, NOW - 7200)
        record.observe([pod("old")], NOW - 7200)
        assert record.arrivals == []
        record = self.stored(record)
        record.at = NOW - 60
        record.observe([pod("old"), pod("new")], NOW)
        assert len(record.arrivals) == 1
        record = self.stored(record)
        record.observe([], NOW + 60)
        assert len(record.departures) == 2
        assert record.demand().names == {"cpu", "pods"}

    def test_a_run_without_news_has_nothing_to_write(self) -> None:
        record = SleepRecord(NOW, NOW)
        record.observe([pod("a")], NOW)
        record = self.stored(record)
        record.observe([pod("a")], NOW + 60)
        assert not record.is_due(NOW + 60)
        assert record.is_due(NOW + 3600)

    def test_a_long_gap_is_a_hole(self) -> None:
        record = self.stored(SleepRecord(NOW, NOW))
        record.observe([], NOW + 9000)
        assert record.holes == [(NOW, NOW + 9000)]

    def test_an_unreadable_pod_harms_no_other(self) -> None:
        record = SleepRecord(NOW, NOW)
        record.observe([pod("a"), pod("b", created="never"), {"metadata": 5}], NOW)
        assert len(record.present) == 1

    def test_the_record_is_bounded(self) -> None:
        record = self.stored(SleepRecord(0.0, NOW, shapes=[{"cpu": 1.0}]))
        record.arrivals = [(float(at), 0) for at in range(30_000)]
        record.observe([], NOW + 1)
        assert len(record.arrivals) == 20_000
        assert record.since == 10_000.0

    def test_energy_is_that_of_the_time_asleep(self) -> None:
        history = MachineHistory()
        history.fell_asleep(NOW, 115.0, 15.0)
        assert history.joules(NOW + 60) == 6000.0
        history.woke(NOW + 60)
        assert (history.joules(NOW + 600), history.woken) == (6000.0, NOW + 60)
        history.fell_asleep(NOW + 90_000, 65.0, 15.0)
        assert history.off == [NOW + 90_000]

    def test_standby_is_measured_while_the_machine_is_off(self) -> None:
        history = MachineHistory()
        history.fell_asleep(NOW, 115.0, 15.0)
        history.measured(25.0)
        assert history.joules(NOW + 60) == 60 * 90.0
        history.woke(NOW + 60)
        # The next sleep begins with what was measured.
        history.fell_asleep(NOW + 600, 125.0, 15.0)
        assert (history.saved_watts, history.is_probed) == (100.0, False)

    @pytest.mark.parametrize("watts", [None, 110.0])
    def test_without_a_plausible_reading_standby_is_assumed(self, watts: float | None) -> None:
        """Some BMCs report the power draw from before the shutdown."""
        history = MachineHistory()
        history.fell_asleep(NOW, 115.0, 15.0)
        history.measured(watts)
        assert (history.saved_watts, history.standby_watts) == (100.0, None)
        assert history.is_probed

    def test_a_week_of_dry_runs_is_told(self) -> None:
        record = self.stored(SleepRecord(NOW, NOW))
        record.note_dry_run(NOW + 10, "2027-01-15", 2, 100.0)
        record.at = NOW + 10
        record.is_changed = False
        record.note_dry_run(NOW + 60, "2027-01-15", 2, 100.0)
        assert not record.is_changed
        record.note_dry_run(NOW + 110, "2027-01-15", 1, 40.0)
        [day] = record.dry_days.values()
        assert day == {"most_asleep": 2, "watts": 40.0, "saved_joules": 10_000.0}
