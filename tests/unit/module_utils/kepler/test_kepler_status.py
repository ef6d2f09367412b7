# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of a KeplerSystem: one decision for each state of its DaemonSets and pods."""

from __future__ import annotations

import json
import random
import typing as t

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment import names
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.status import (
    Observation,
    status_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.system import (
    in_words_of_resource,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.facts import NodeFacts, RaplZone
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node_objects import (
    PROBE_ANNOTATION,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.crd_schema import CrdValidator
from ansible_collections.wattwise.kube.plugins.module_utils.kube.resource.conditions import Failure
from support.examples import each_seed
from support.kepler_systems import judged, labels_of, node, system
from support.odd_values import bounded, spoilt
from support.wao import DEFINITIONS

Json = dict[str, t.Any]

DEFINITION = DEFINITIONS / "kepler.system.sustainable.computing.io_keplersystems.yaml"
VALIDATOR = CrdValidator(yaml.safe_load(DEFINITION.read_text()))
READY = {
    "observedGeneration": 2,
    "desiredNumberScheduled": 2,
    "updatedNumberScheduled": 2,
    "numberReady": 2,
    "numberAvailable": 2,
}
NO_ZONES = 'level=ERROR msg="failed to create CPU power meter: no RAPL zones found"'


def daemon_set(name: str = "kepler-amd64-rapl", generation: int = 2, **status: int) -> Json:
    return {
        "metadata": {"name": name, "generation": generation},
        "status": {**READY, **status},
    }


def pod(group: str = "amd64-rapl", node_name: str = "a", **state: t.Any) -> Json:
    return {
        "metadata": {"name": f"kepler-{group}-x", "labels": {names.GROUP_LABEL: group}},
        "spec": {"nodeName": node_name},
        "status": {"containerStatuses": [{"name": "kepler", "ready": False, **state}]},
    }


def crashing(message: str = NO_ZONES) -> Json:
    ended = {"terminated": {"exitCode": 1, "message": message}}
    return pod(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ended)


def told(
    daemon_sets: list[t.Any], pods: list[t.Any], nodes: list[Json] | None = None, **spec: t.Any
) -> Json:
    """A status, which must follow the CRD."""
    wanted = system(**spec)
    found, groups = judged(wanted, nodes or [node(name, labels=labels_of("rapl")) for name in "ab"])
    status = status_of(Observation(wanted, found, groups, daemon_sets, pods), None, 7, {})
    check(status)
    return status


def check(status: Json) -> None:
    moment = "2026-01-31T12:00:00Z"
    stored = {**status}
    stored["conditions"] = [{**one, "lastTransitionTime": moment} for one in status["conditions"]]
    obj = {
        "apiVersion": "kepler.system.sustainable.computing.io/v1alpha1",
        "kind": "KeplerSystem",
        "metadata": {"name": "kepler"},
        "spec": {"image": {"repository": "registry.example/kepler"}},
        "status": stored,
    }
    assert VALIDATOR.problem(obj) is None


def condition(status: Json, name: str) -> tuple[str, str, str]:
    [one] = [each for each in status["conditions"] if each["type"] == name]
    return one["status"], one["reason"], one["message"]


@pytest.mark.parametrize(
    ("daemon_sets", "pods", "wanted"),
    [
        ([], [], ("False", "DaemonSetNotFound", "There is no DaemonSet kepler-amd64-rapl.")),
        (
            [daemon_set(generation=3, numberReady=0)],
            [crashing()],
            ("Unknown", "DaemonSetOutOfSync", "Generation 3 of DaemonSet kepler-amd64-rapl"),
        ),
        (
            [daemon_set(numberReady=0, numberAvailable=0)],
            [crashing()],
            (
                "False",
                "PodsCrashing",
                "1 of 2 pods of DaemonSet kepler-amd64-rapl crash, the first is "
                f"kepler-amd64-rapl-x on a: exit code 1: {NO_ZONES}",
            ),
        ),
        (
            [daemon_set(numberReady=0)],
            [pod(state={"waiting": {"reason": "ImagePullBackOff", "message": "not found"}})],
            ("False", "PodsWaiting", "cannot start, the first is"),
        ),
        (
            [daemon_set(desiredNumberScheduled=0)],
            [],
            ("False", "DaemonSetPodsNotRunning", "is not rolled out to any node"),
        ),
        (
            [daemon_set(updatedNumberScheduled=1)],
            [],
            ("Unknown", "DaemonSetRolloutInProgress", "1 of 2 pods have been updated"),
        ),
        (
            [daemon_set(numberReady=0)],
            [pod(state={"waiting": {"reason": "ContainerCreating"}})],
            ("False", "DaemonSetPodsNotRunning", "None of the 2 pods"),
        ),
        (
            [daemon_set(numberAvailable=1)],
            [],
            ("False", "DaemonSetPartiallyAvailable", "1 of 2 pods"),
        ),
        (
            [daemon_set()],
            [],
            ("True", "DaemonSetReady", "ready 2/2."),
        ),
    ],
)
def test_available_is_decided_in_upstreams_order(
    daemon_sets: list[Json], pods: list[Json], wanted: tuple[str, str, str]
) -> None:
    status, reason, message = condition(told(daemon_sets, pods), "Available")
    assert (status, reason) == wanted[:2]
    assert wanted[2] in message


def test_a_container_that_ended_between_two_waits_is_crashing() -> None:
    ended = {"terminated": {"exitCode": 2, "message": "no zones"}}
    for pods in (pod(state=ended), pod(state={"running": {}}, lastState=ended)):
        found = told([daemon_set(numberReady=0)], [pods])
        assert condition(found, "Available")[1] == "PodsCrashing"
        assert found["nodes"]["crashing"] == 1
    running = pod(state={"running": {}}, lastState=ended, ready=True)
    assert condition(told([daemon_set()], [running]), "Available")[0] == "True"


def test_last_words_are_short_and_printable_and_end_with_the_error() -> None:
    found = told([daemon_set()], [crashing("x" * 100_000 + "\x1b[31m\nno zones")])
    message = condition(found, "Available")[2]
    assert len(message) < 700 and message.isprintable() and message.endswith("no zones")


def test_the_worst_group_is_told_and_the_others_are_counted() -> None:
    nodes = [
        node("a", labels=labels_of("rapl")),
        node("b", "arm64", labels=labels_of("hwmon")),
    ]
    sets = [daemon_set(updatedNumberScheduled=1), daemon_set("kepler-arm64-hwmon", numberReady=0)]
    found = told(sets, [], nodes)
    assert condition(found, "Available")[1:] == (
        "DaemonSetPodsNotRunning",
        "None of the 2 pods of DaemonSet kepler-arm64-hwmon is ready. 1 more groups are not "
        "available.",
    )
    assert [(each["name"], each["ready"]) for each in found["groups"]] == [
        ("amd64-rapl", 2),
        ("arm64-hwmon", 0),
    ]


def test_nodes_and_pools_are_counted_and_those_left_out_are_named() -> None:
    pools = [{"name": "fast", "node_selector": {"pool": "fast"}}]
    rapl = labels_of("rapl")
    nodes = [
        node("a", labels=rapl),
        node("b", labels={"pool": "fast", **rapl}),
        node("c", metal=False),
    ]
    found = told([daemon_set(numberReady=1)], [], nodes, pools=pools)
    assert found["nodes"] == {"selected": 3, "metered": 2, "leftOut": 1, "ready": 1, "crashing": 0}
    assert found["pools"] == [
        {"name": "others", "nodes": 2, "metered": 1, "ready": 1},
        {"name": "fast", "nodes": 1, "metered": 1, "ready": 0},
    ]
    [left_out] = found["leftOut"]
    assert left_out["node"] == "c" and "virtual machine" in left_out["reason"]
    assert condition(found, "NodesMetered")[:2] == ("False", "NodesLeftOut")
    assert found["version"] == "0.11.4" and found["observedGeneration"] == 7


@pytest.mark.parametrize(("scope", "status"), [("minimum", "False"), ("cluster", "True")])
def test_a_condition_says_whether_pods_have_names(scope: str, status: str) -> None:
    assert condition(told([], [], scope=scope), "PodNames")[0] == status


def test_a_run_that_ended_early_keeps_what_is_known() -> None:
    before = told([daemon_set()], [])
    failed = Failure("AnotherKepler", "Kepler runs here already.")
    after = status_of(None, failed, 8, before)
    check(after)
    assert condition(after, "Reconciled") == ("False", "AnotherKepler", "Kepler runs here already.")
    assert condition(after, "Available")[0] == "True"
    assert after["nodes"] == before["nodes"] and after["groups"] == before["groups"]
    assert (after["observedGeneration"], after["appliedGeneration"]) == (8, 7)
    nothing = status_of(None, failed, 1, {"conditions": [{"type": "Available"}, 5]})
    check(nothing)
    assert condition(nothing, "Available")[:2] == ("Unknown", "NotYet")


@each_seed(150)
def test_a_bad_pod_or_daemon_set_beside_good_ones_changes_nothing_for_them(seed: int) -> None:
    source = random.Random(seed)
    nodes = [
        node("a", labels=labels_of("rapl")),
        node("b", "arm64", labels=labels_of("hwmon")),
    ]
    good_set, bad_set = daemon_set("kepler-arm64-hwmon"), spoilt(source, daemon_set())
    bad_pod = spoilt(source, crashing())
    with bounded():
        found = told([bad_set, good_set], [bad_pod, pod("arm64-hwmon", ready=True)], nodes)
    assert found["groups"][1]["ready"] == 2
    json.dumps(found)


def test_remarks_on_spec_and_nodes_are_in_the_status_of_a_run_that_applied_it() -> None:
    zones = (RaplZone("intel-rapl:0", "package-0", 1, True),)
    facts = NodeFacts("host", "amd64", virtualization="none", rapl_zones=zones)
    probed = {PROBE_ANNOTATION: json.dumps(facts.as_dict())}
    wanted = in_words_of_resource(
        system(
            image={"repository": "registry.example/kepler", "tag": "latest"},
            collector={
                "metric_levels": ["pod"],
                "additional_config": {"rapl": {"zones": ["package", "psys"]}},
            },
        )
    )
    found, groups = judged(wanted, [node(name, annotations=probed) for name in "ab"])
    status, reason, message = condition(
        status_of(Observation(wanted, found, groups), None, 7, {}), "Reconciled"
    )
    assert (status, reason) == ("True", "ReconcileSuccess")
    for remark in (
        "image.tag: 'latest' is not the tag of Kepler 0.11.4",
        "collector.metricLevels: pod has no effect in the minimum scope",
        "a: rapl.zones names psys, but the node has only package; and 1 more nodes",
    ):
        assert remark in message
