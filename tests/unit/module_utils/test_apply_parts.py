# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pure parts of applying: changes, status transitions, readiness."""

from __future__ import annotations

import datetime
import json
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.base.manifests import Identity
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply import change, patches
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.waiting import is_ready

SECRET = Identity("v1", "Secret", "n", "s")
NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)


def test_the_diff_of_a_secret_shows_keys_but_no_values() -> None:
    secret = {"kind": "Secret", "metadata": {"name": "s", "uid": "1"}, "data": {"password": "aGk="}}
    shown = change.Change(SECRET, "created", None, secret).diff()
    assert shown["before"] == ""
    assert json.loads(shown["after"])["data"] == {"password": "(hidden)"}
    assert "uid" not in json.loads(shown["after"])["metadata"]


def test_an_observation_is_no_change() -> None:
    written = change.Change(SECRET, "configured", {}, {}, is_change=False)
    assert not written.is_effective
    assert change.Change(SECRET, "configured", {}, {}).is_effective
    assert not change.Change(SECRET, "unchanged", {}, {}).is_effective


@pytest.mark.parametrize(
    ("metadata", "manager"),
    [
        ({"managedFields": [{"manager": "wattwise"}, {"manager": "kubectl"}]}, None),
        ({"managedFields": [{"manager": "kubectl"}]}, "kubectl"),
        (
            {"managedFields": [{"manager": "wattwise", "subresource": "status"}]},
            "an unknown manager",
        ),
        ({"labels": {"app.kubernetes.io/managed-by": "Helm"}, "managedFields": []}, "Helm"),
        ({}, "an unknown manager"),
    ],
)
def test_the_manager_of_a_foreign_object_is_named(
    metadata: dict[str, t.Any], manager: str | None
) -> None:
    assert change.foreign_manager({"metadata": metadata}, "wattwise") == manager


def test_a_conflict_names_fields_and_managers_and_other_409s_are_left_alone() -> None:
    cause = {"reason": "FieldManagerConflict", "field": ".data.a", "message": 'with "kubectl"'}
    sentence = change.conflict_sentence(ApiError("x", 409, causes=[cause]), SECRET)
    assert sentence is not None
    assert "Secret n/s" in sentence and ".data.a" in sentence and "kubectl" in sentence
    assert change.conflict_sentence(ApiError("x", 409, causes=[]), SECRET) is None


def test_the_summary_counts_failures_and_shows_the_first() -> None:
    failed = change.Change(SECRET, "failed", None, None, "Secret n/s: no")
    fine = change.Change(SECRET, "created", None, {})
    assert change.summary_sentence([fine, failed]) == "1 of 2 objects failed: Secret n/s: no"
    assert "(and 1 more, see results)" in change.summary_sentence([failed, failed])


def conditions(**statuses: str) -> dict[str, t.Any]:
    return {"conditions": [{"type": key, "status": value} for key, value in statuses.items()]}


def test_a_condition_that_stays_keeps_its_time_and_one_that_moves_gets_the_present() -> None:
    current = conditions(Ready="True", Rendered="True")
    for item in current["conditions"]:
        item["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    result = patches.with_transition_times(
        {**conditions(Ready="False", Rendered="True", Shadowed="False"), "x": 1}, current, NOON
    )
    times = {item["type"]: item["lastTransitionTime"] for item in result["conditions"]}
    assert times == {
        "Ready": "2026-01-31T12:00:00Z",
        "Rendered": "2026-01-01T00:00:00Z",
        "Shadowed": "2026-01-31T12:00:00Z",
    }
    assert result["x"] == 1
    assert patches.with_transition_times({"x": 1}, current, NOON) == {"x": 1}


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        (conditions(Ready="True"), conditions(Ready="True"), False),
        (conditions(Ready="True"), conditions(Ready="False"), True),
        (conditions(), conditions(Ready="True"), True),
        (conditions(Ready="True"), {}, True),
        ({"readings": 1}, {"readings": 2}, False),
    ],
)
def test_only_conditions_make_a_status_changed(
    before: dict[str, t.Any], after: dict[str, t.Any], moved: bool
) -> None:
    assert patches.conditions_moved(before, after) is moved


def obj(kind: str, spec: t.Any = None, status: t.Any = None) -> dict[str, t.Any]:
    return {"kind": kind, "metadata": {"generation": 2}, "spec": spec or {}, "status": status or {}}


def true(condition: str) -> dict[str, t.Any]:
    return {"conditions": [{"type": condition, "status": "True"}]}


READY_DEPLOYMENT = {"observedGeneration": 2, "updatedReplicas": 3, "availableReplicas": 3}
READY_DAEMONS = {
    "observedGeneration": 2,
    "desiredNumberScheduled": 2,
    "updatedNumberScheduled": 2,
    "numberAvailable": 2,
}


@pytest.mark.parametrize(
    ("given", "ready"),
    [
        (obj("ConfigMap"), True),
        (obj("Namespace", status={"phase": "Active"}), True),
        (obj("Namespace", status={"phase": "Terminating"}), False),
        (obj("CustomResourceDefinition", status=true("Established")), True),
        (obj("CustomResourceDefinition"), False),
        (obj("Deployment", {"replicas": 3}, READY_DEPLOYMENT), True),
        (obj("Deployment", {"replicas": 4}, READY_DEPLOYMENT), False),
        (obj("Deployment", {"replicas": 3}, {**READY_DEPLOYMENT, "observedGeneration": 1}), False),
        (obj("StatefulSet", status={**READY_DEPLOYMENT, "readyReplicas": 1}), True),
        (obj("StatefulSet", status=READY_DEPLOYMENT), False),
        (obj("DaemonSet", status=READY_DAEMONS), True),
        (obj("DaemonSet", status={"observedGeneration": 2}), False),
        (obj("DaemonSet", status={**READY_DAEMONS, "numberAvailable": 1}), False),
        (obj("Job", status=true("Complete")), True),
        (obj("Pod", status=true("Ready")), True),
        (obj("Pod"), False),
    ],
)
def test_readiness_is_judged_by_kind(given: dict[str, t.Any], ready: bool) -> None:
    assert is_ready(given) is ready
