# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan stored by one run and bound by a later one, over an API on a real socket."""

from __future__ import annotations

import base64
import copy
import datetime
import gzip
import hashlib
import json
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import compressed
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context, utc_now
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import WattwiseError
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline import stored_plan
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.reconciliation import (
    reconcile_fleet,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report import building
from support.binding_api import Json, pod
from support.scripted_api import Asked, Reply, status_reply
from support.small_fleet import Fleet, listed

SLEEPING = ["snapshot", "read", "merge", "predict", "sleep"]
PLANNING = ["snapshot", "read", "merge", "predict", "place", "store"]
MAPS_OF_PLANS: dict[str, t.Any] = {"namespace": "plans"}
MAPS = "/api/v1/namespaces/plans/configmaps"


class PlannedFleet(Fleet):
    """The fleet with the ConfigMaps of its stored plans."""

    def __init__(self) -> None:
        super().__init__()
        self.maps: dict[str, Json] = {}
        self.made: list[str] = []

    def answer(self, asked: Asked) -> Reply | None:
        path = asked.path.partition("?")[0]
        if path.endswith("/eviction"):
            return self._evict(path.split("/")[-2])
        if path == "/api/v1/namespaces/shop/pods":
            waiting = [one for one in self.cluster.pods.values() if "nodeName" not in one["spec"]]
            return listed("Pod", waiting)
        if not path.startswith(MAPS):
            return None
        name = path[len(MAPS) + 1 :]
        if asked.method == "POST":
            self.maps[asked.body["metadata"]["name"]] = asked.body
            self.made.append(asked.body["metadata"]["name"])
            return Reply(asked.body, 201)
        if asked.method == "DELETE":
            return Reply(self.maps.pop(name))
        if not name:
            return listed("ConfigMap", self.maps.values())
        return Reply(self.maps[name]) if name in self.maps else status_reply(404, "no such map")

    def run_pod(self, name: str, **spec: t.Any) -> None:
        """Add a pod that is recreated after eviction."""
        made = pod(name, **spec)
        owner = {"kind": "ReplicaSet", "name": name, "uid": f"rs-{name[0]}", "controller": True}
        made["metadata"]["ownerReferences"] = [owner]
        made["status"] = {"phase": "Running" if spec else "Pending"}
        self.cluster.add(made)

    def _evict(self, name: str) -> Reply:
        del self.cluster.pods["shop", name]
        self.run_pod(f"{name}-again")
        return Reply({"kind": "Status", "status": "Success"}, 201)


@pytest.fixture
def fleet() -> PlannedFleet:
    fleet = PlannedFleet()
    fleet.cluster.add(pod("a"), pod("b"), pod("huge", cpu="99"))
    return fleet


def run(fleet: Fleet, context: Context = Context(), **options: t.Any) -> Json:
    with fleet.cluster.serve() as api:
        return reconcile_fleet({"host": api.url, **options}, context)


def plan_of(
    fleet: Fleet, tmp_path: Path, context: Context = Context(), /, **options: t.Any
) -> dict[str, t.Any]:
    given = options or MAPS_OF_PLANS
    result = run(fleet, context, run_dir=str(tmp_path / "one"), steps=PLANNING, store=given)
    return dict(result["stored_plan"])


def binding(stored: t.Mapping[str, t.Any], tmp_path: Path, **changes: t.Any) -> Json:
    """The options of the run that binds it, on a machine with an empty folder."""
    place = {key: stored[key] for key in ("namespace", "name", "path") if key in stored}
    restore = {**place, "sha256": stored["sha256"], **changes}
    return {"steps": ["restore", "bind"], "run_dir": str(tmp_path / "two"), "restore": restore}


@pytest.mark.parametrize("kind", ["ConfigMaps", "file"])
def test_a_later_run_binds_the_stored_plan_and_can_report_it(
    kind: str, fleet: PlannedFleet, tmp_path: Path
) -> None:
    path = str(tmp_path / "plans" / "plan.gz")
    stored = plan_of(fleet, tmp_path, **(MAPS_OF_PLANS if kind == "ConfigMaps" else {"path": path}))
    assert (stored["pods"], stored["moves"]) == (2, 0)
    assert [fleet.cluster.place_of(name) for name in "ab"] == [None, None]
    result = run(fleet, **binding(stored, tmp_path))
    assert result["changed"] and result["summary"]["bound"] == 2
    plan = json.loads((tmp_path / "two" / "plan.json").read_text())
    assert {one["pod"]: one["node"] for one in plan["placements"]} == {
        name: fleet.cluster.place_of(name) for name in "ab"
    }
    bound = json.loads((tmp_path / "two" / "bound" / "bindings.json").read_text())
    assert (bound["run"], bound["plan_time"]) == (plan["run"], stored["time"])
    assert (tmp_path / "two" / "bound" / "readings.json").exists()
    report = building.write({"run_dir": str(tmp_path / "two")})
    assert "2 pods" in report["lines"][0]
    assert not run(fleet, **binding(stored, tmp_path))["changed"]


def test_what_no_longer_holds_is_skipped_and_said(fleet: PlannedFleet, tmp_path: Path) -> None:
    stored = plan_of(fleet, tmp_path)
    fleet.cluster.pods.clear()
    other = pod("b")
    other["metadata"]["uid"] = "another"
    fleet.cluster.add(other)
    result = run(fleet, **binding(stored, tmp_path))
    assert result["summary"]["bound"] == 0 and result["summary"]["skipped"] == 2


def test_a_plan_that_was_edited_or_is_not_there_binds_nothing(
    fleet: PlannedFleet, tmp_path: Path
) -> None:
    stored = plan_of(fleet, tmp_path)
    part = fleet.maps[f"{stored['name']}-0"]
    kept = copy.deepcopy(part)
    bodies = json.loads(gzip.decompress(base64.b64decode(part["binaryData"]["part"])))
    bodies["plan"]["placements"][0]["node"] = "n2"
    content = gzip.compress(json.dumps(bodies).encode())
    part["binaryData"]["part"] = base64.b64encode(content).decode()
    problems = {}
    with pytest.raises(WattwiseError) as caught:
        run(fleet, **binding(stored, tmp_path))
    problems["edited"] = str(caught.value)
    bodies["plan"]["placements"][0]["node"] = 7
    content = gzip.compress(json.dumps(bodies).encode())
    part["binaryData"]["part"] = base64.b64encode(content).decode()
    digest = hashlib.sha256(content).hexdigest()
    with pytest.raises(WattwiseError) as caught:
        run(fleet, **binding(stored, tmp_path, sha256=digest))
    problems["invalid"] = str(caught.value)
    part["metadata"]["annotations"] = {"wattwise.github.io/parts": "9" * 40}
    with pytest.raises(WattwiseError) as caught:
        run(fleet, **binding(stored, tmp_path))
    problems["parts"] = str(caught.value)
    part["metadata"]["annotations"] = {"wattwise.github.io/parts": "2"}
    with pytest.raises(WattwiseError) as caught:
        run(fleet, **binding(stored, tmp_path))
    problems["missing"] = str(caught.value)
    part.update(kept, binaryData={"part": "%%"})
    with pytest.raises(WattwiseError) as caught:
        run(fleet, **binding(stored, tmp_path))
    problems["garbage"] = str(caught.value)
    assert "not the one that was approved" in problems["edited"]
    assert "does not follow the schema" in problems["invalid"]
    assert "says that it has '999" in problems["parts"]
    assert "-1 in namespace plans" in problems["missing"]
    assert "cannot be read" in problems["garbage"]
    assert fleet.cluster.place_of("a") is None and fleet.cluster.place_of("b") is None


def test_only_moves_of_a_stored_plan_are_made(fleet: PlannedFleet, tmp_path: Path) -> None:
    """The pod that became pending after the approval stays pending."""
    path = tmp_path / "plan.gz"
    stored = plan_of(fleet, tmp_path, path=str(path))
    for name in ("r", "s"):
        fleet.run_pod(name, cpu="100m", nodeName="n1")
    fleet.cluster.add(pod("late"))
    move = {"namespace": "shop", "pod": "r", "uid": "uid-r", "from_node": "n1", "to_node": "n2"}
    bodies = compressed.unpack(path.read_bytes())
    step = {"gain_watts": 9.0, "cost_if_stopped_watts": 0.0, "asleep": []}
    bodies["plan"]["steps"] = [{**step, "moves": [{**move, "gain_watts": 9.0}]}]
    content = compressed.pack(bodies)
    path.write_bytes(content)
    stored["sha256"] = hashlib.sha256(content).hexdigest()
    options = binding(stored, tmp_path)
    result = run(fleet, **{**options, "steps": ["restore", "bind", "evict"]})
    [made] = result["evict"]["moves"]
    assert (made["outcome"], made["replacement"]) == ("moved", "r-again")
    assert fleet.cluster.place_of("r-again") == "n2" and fleet.cluster.place_of("s") == "n1"
    assert fleet.cluster.place_of("late") is None
    again = run(fleet, **{**options, "steps": ["restore", "bind", "evict"]})
    assert [one["outcome"] for one in again["evict"]["moves"]] == ["skipped"]


def test_an_old_plan_binds_nothing(fleet: PlannedFleet, tmp_path: Path) -> None:
    before = utc_now() - datetime.timedelta(hours=2)
    stored = plan_of(fleet, tmp_path, Context(now=lambda: before))
    with pytest.raises(WattwiseError, match="is 2 h 00 min old, and restore.max_age allows"):
        run(fleet, **binding(stored, tmp_path))
    run(fleet, **binding(stored, tmp_path, max_age=10_000.0))
    assert fleet.cluster.place_of("a") is not None


def test_a_large_plan_has_several_parts_and_the_first_is_written_last(
    fleet: PlannedFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_plan, "_PART_BYTES", 1000)
    stored = plan_of(fleet, tmp_path)
    assert len(fleet.made) > 1 and fleet.made[-1] == f"{stored['name']}-0"
    assert all(one["immutable"] for one in fleet.maps.values())
    assert run(fleet, **binding(stored, tmp_path))["summary"]["bound"] == 2


def test_the_oldest_plans_go(fleet: PlannedFleet, tmp_path: Path) -> None:
    now = utc_now()
    names = []
    for hour in range(3):
        moment = now + datetime.timedelta(hours=hour)
        context = Context(now=lambda moment=moment: moment)  # type: ignore[misc]
        names.append(plan_of(fleet, tmp_path, context, namespace="plans", keep=2)["name"])
    assert {re.sub("-[0-9]+$", "", name) for name in fleet.maps} == set(names[1:])


def test_labels_that_others_wrote_cost_no_plan_and_no_object(
    fleet: PlannedFleet, tmp_path: Path
) -> None:
    late = "wattwise-plan-20991231-235959-00000000"
    labels = {f"of-others-{number}": f"zzz{number}" for number in range(5)}
    for name, label in {**labels, f"{late}-0": late}.items():
        fleet.maps[name] = {"metadata": {"name": name, "labels": {stored_plan.LABEL: label}}}
    stored = plan_of(fleet, tmp_path, Context(), namespace="plans", keep=1)
    assert fleet.maps.keys() == {*labels, f"{stored['name']}-0"}


def test_check_mode_stores_nothing(fleet: PlannedFleet, tmp_path: Path) -> None:
    stored = plan_of(fleet, tmp_path, Context(check_mode=True))
    assert stored["name"].startswith("wattwise-plan-") and not fleet.maps


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"steps": PLANNING}, "store needs the documents"),
        ({"steps": PLANNING, "run_dir": "/x"}, "either namespace"),
        ({"steps": PLANNING, "run_dir": "/x", "store": {"path": "/y", "keep": 0}}, "keep"),
        ({"steps": ["place", "restore"], "run_dir": "/x"}, "leave place out"),
        ({"steps": ["restore", "bind"]}, "either namespace"),
        ({"steps": ["restore"], "restore": {"path": "/y", "sha256": "abc"}}, "not a SHA-256"),
        (
            {"steps": ["restore"], "restore": {"namespace": "plans", "sha256": "a" * 64}},
            "not the name of a stored plan",
        ),
        ({"steps": [*SLEEPING, "store_sleep"]}, "store_sleep needs the documents of the run"),
        (
            {"steps": [*SLEEPING, "store_sleep"], "run_dir": "/x"},
            "store_sleep needs step sleep with sleep.mode with_approval",
        ),
        (
            {"steps": ["restore_sleep", *PLANNING[:4]], "sleep": {"mode": "with_approval"}},
            "restore_sleep needs step sleep",
        ),
        (
            {"steps": ["restore_sleep", *SLEEPING, "store_sleep"], "run_dir": "/x"},
            "store_sleep and restore_sleep are of two plans",
        ),
        (
            {"steps": ["restore_sleep", *SLEEPING], "sleep": {"mode": "with_approval"}},
            "either namespace",
        ),
    ],
)
def test_options_that_contradict_are_told_before_anything_runs(
    options: Json, sentence: str
) -> None:
    with pytest.raises(WattwiseError, match=sentence):
        reconcile_fleet({"host": "https://127.0.0.1:9", **options})
