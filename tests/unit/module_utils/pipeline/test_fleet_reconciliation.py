# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole run against an API over a real socket; the machines are of type Fake."""

from __future__ import annotations

import base64
import gzip
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import (
    Context,
    ProgressCallback,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.observe import pressure
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.options import STEPS
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.reconciliation import (
    FleetRun,
    reconcile_fleet,
)
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.run import Run
from ansible_collections.wattwise.kube.plugins.module_utils.report import building
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.scope import Scope
from support.binding_api import Json, pod
from support.kepler_exporter import Load, MeteredNode, exporter, prometheus
from support.scripted_api import Asked, Reply
from support.small_fleet import Fleet

READING = ["snapshot", "read", "merge", "statuses"]


def run(fleet: Fleet, context: Context = Context(), **options: t.Any) -> Json:
    with fleet.cluster.serve() as api:
        return reconcile_fleet({"host": api.url, **options}, context)


def steps_of(result: Json) -> dict[str, Json]:
    return {step["name"]: step for step in result["steps"]}


def test_a_run_reads_places_and_binds_and_leaves_its_documents(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.cluster.add(pod("a"), pod("huge", cpu="99"))
    result = run(fleet, run_dir=str(tmp_path / "run"))
    assert result["changed"]
    assert fleet.cluster.place_of("a") in ("n1", "n2")
    steps = steps_of(result)
    made = ["snapshot", "read", "merge", "statuses", "predict", "place", "bind", "documents"]
    assert list(steps) == made
    assert all(step["seconds"] >= 0 and step["failure"] is None for step in steps.values())
    assert (steps["bind"]["changed"], steps["snapshot"]["changed"]) == (True, False)
    assert steps["bind"]["counts"] == {"bound": 1, "unchanged": 0, "skipped": 0, "marked": 1}
    summary = result["summary"]
    assert (summary["fresh"], summary["placed"], summary["unplaced"]) == (2, 1, 1)
    documents = {
        name: json.loads(Path(path).read_text()) for name, path in result["documents"].items()
    }
    assert documents.keys() == {"snapshot", "readings", "models", "statuses", "curves", "plan"}
    assert len({body["run"] for body in documents.values()}) == 1
    bound = json.loads((tmp_path / "run" / "bound" / "bindings.json").read_text())
    assert (bound["run"], bound["plan_time"]) == (
        documents["plan"]["run"],
        documents["plan"]["time"],
    )
    assert (tmp_path / "run" / "bound" / "plan.json").exists()
    assert [config["status"]["conditions"][0]["status"] for config in fleet.configs.values()] == [
        "True",
        "True",
    ]
    assert result["diff"][-1]["after"]["shop/a"] == fleet.cluster.place_of("a")


def test_a_second_run_changes_nothing_and_each_list_is_read_once(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.cluster.add(pod("a"), pod("huge", cpu="99"))
    run(fleet, run_dir=str(tmp_path))
    fleet.lists.clear()
    versions = {
        key: item["metadata"]["resourceVersion"] for key, item in fleet.cluster.pods.items()
    }
    result = run(fleet, run_dir=str(tmp_path))
    assert not result["changed"]
    assert not any(step["changed"] for step in result["steps"])
    assert {path: count for path, count in fleet.lists.items() if count > 1} == {}
    assert versions == {
        key: item["metadata"]["resourceVersion"] for key, item in fleet.cluster.pods.items()
    }
    # A pod that already has its condition is neither read nor written again.
    assert steps_of(result)["bind"]["counts"]["marked"] == 0
    assert not any("/pods/huge" in path for path in fleet.lists)


def test_check_mode_plans_and_writes_nothing_to_the_cluster(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.cluster.add(pod("a"))
    result = run(fleet, Context(check_mode=True), run_dir=str(tmp_path))
    assert result["changed"]
    assert result["diff"][-1]["after"].keys() == {"shop/a"}
    assert fleet.cluster.place_of("a") is None
    assert fleet.cluster.leases == []
    assert not any("status" in config for config in fleet.configs.values())


def test_without_a_folder_a_run_places_all_the_same(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.cluster.add(pod("a"))
    result = run(fleet)
    assert fleet.cluster.place_of("a")
    assert result["documents"] == {}
    assert list(tmp_path.iterdir()) == []


def test_what_a_reader_fails_at_leaves_statuses_and_readings_and_places_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_given: t.Any) -> t.NoReturn:
        raise InvalidInput("the pressure cannot be read")

    monkeypatch.setattr(pressure, "read", fails)
    fleet = Fleet()
    fleet.cluster.add(pod("a"))
    with pytest.raises(WattwiseError, match="the pressure cannot be read") as caught:
        run(fleet, run_dir=str(tmp_path))
    steps = steps_of(caught.value.fields)
    assert list(steps) == [*READING, "documents"]
    assert steps["read"]["failure"] == "the pressure cannot be read"
    assert {config["status"]["conditions"][0]["status"] for config in fleet.configs.values()} == {
        "False"
    }
    readings = json.loads((tmp_path / "readings.json").read_text())
    assert readings["readings"]["n1"]["inlet_celsius"] is not None
    assert "the pressure cannot be read" in readings["errors"][0]["detail"]
    assert fleet.cluster.place_of("a") is None


def test_too_few_readings_end_the_run_before_anything_is_placed(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.cluster.add(pod("a"))
    inlet = {"type": "Redfish", "endpoint": "https://127.0.0.1:1"}
    fleet.configs["n1"]["spec"]["metricsCollector"]["inletTemp"] = inlet
    with pytest.raises(WattwiseError, match="Only 1 of 2 nodes were read") as caught:
        run(fleet, run_dir=str(tmp_path), merge={"min_success": 0.9})
    assert "place" not in steps_of(caught.value.fields)
    assert steps_of(caught.value.fields)["merge"]["failure"]
    assert fleet.configs["n1"]["status"]["conditions"][0]["reason"] == "Unreachable"
    assert fleet.cluster.place_of("a") is None
    assert run(fleet, run_dir=str(tmp_path), merge={"min_success": 0.5})["summary"]["bound"] == 1


def test_a_metrics_file_that_cannot_be_written_fails_after_the_statuses(tmp_path: Path) -> None:
    fleet = Fleet()
    wanted = {"textfile": str(tmp_path / "none" / "x.prom")}
    with pytest.raises(WattwiseError, match="check that the folder exists"):
        run(fleet, run_dir=str(tmp_path), merge=wanted)
    assert "status" in fleet.configs["n1"]


def test_a_refused_status_is_the_failure_of_that_object_alone(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.refuses_statuses = True
    fleet.cluster.add(pod("a"))
    result = run(fleet, run_dir=str(tmp_path))
    assert len(steps_of(result)["statuses"]["errors"]) == 2
    assert steps_of(result)["statuses"]["warnings"]
    assert result["summary"]["bound"] == 1


def test_a_later_task_goes_on_with_the_documents_of_the_first(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.cluster.add(pod("a"))
    first = run(fleet, run_dir=str(tmp_path), steps=READING)
    assert set(first["documents"]) == {"snapshot", "readings", "models", "statuses"}
    second = run(fleet, run_dir=str(tmp_path), steps=["predict", "place", "bind"])
    assert second["summary"]["bound"] == 1
    runs = {
        json.loads((tmp_path / f"{name}.json").read_text())["run"] for name in ("snapshot", "plan")
    }
    assert len(runs) == 1


def test_results_of_gateways_take_the_place_of_reading(tmp_path: Path) -> None:
    fleet = Fleet()
    run(fleet, run_dir=str(tmp_path), steps=["snapshot"])
    thermal = {"readings": [{"name": "n1", "inlet_celsius": 31.5}]}
    failed = {"failed": True, "msg": "no route"}
    options: Json = {"thermal": [thermal, failed], "pressure": [failed], "models": [failed]}
    result = run(fleet, run_dir=str(tmp_path), steps=["merge", "statuses"], **options)
    readings = json.loads((tmp_path / "readings.json").read_text())
    assert readings["readings"]["n1"]["inlet_celsius"] == 31.5
    assert "no route" in readings["errors"][0]["detail"]
    assert result["summary"]["fresh"] == 0


def test_a_folder_that_did_not_survive_gets_the_last_binding_back(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.cluster.add(pod("a"))
    run(fleet, run_dir=str(tmp_path / "one"), record_namespace="kube-system")
    assert fleet.record is not None
    result = run(fleet, run_dir=str(tmp_path / "two"), record_namespace="kube-system")
    assert not result["changed"]
    for name in ("bindings", "plan", "readings", "curves"):
        before, after = (
            json.loads((tmp_path / folder / "bound" / f"{name}.json").read_text())
            for folder in ("one", "two")
        )
        assert {**before, "unplaced": [], "allocations": [], "findings": []} == {
            **after,
            "unplaced": [],
            "allocations": [],
            "findings": [],
        }
    report = building.write({"run_dir": str(tmp_path / "two")})
    assert "1 pod" in report["lines"][0]


def compressed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode())).decode()


@pytest.mark.parametrize(
    "odd",
    ["bm8=", compressed("[]"), compressed("{"), compressed("{}")[:12] + "AAAAAAAAAAAA"],
    ids=["no gzip", "a list", "half", "broken"],
)
def test_a_record_that_is_odd_is_a_warning_and_hinders_no_run(tmp_path: Path, odd: str) -> None:
    fleet = Fleet()
    fleet.record = {"binaryData": {"bound.bindings.json.gz": odd}}
    fleet.cluster.add(pod("a"))
    told: list[str] = []
    context = Context(warn=told.append)
    result = run(fleet, context, run_dir=str(tmp_path), record_namespace="kube-system")
    assert "holds no document bound/bindings.json" in told[0]
    assert result["summary"]["bound"] == 1
    assert fleet.record.keys() > {"binaryData"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": []}, "the list is empty"),
        ({"steps": ["place"]}, "place needs the result of snapshot"),
        ({"steps": ["statuses"]}, "add merge"),
        ({"steps": ["merge"], "run_dir": "x"}, "merge needs readings"),
        ({"thermal": []}, "replace step read"),
        ({"place": {"pod_usage_assumption": 80}}, "from 0 to 1"),
        ({"place": {"strategie": "greedy"}}, "unknown option strategie"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_asked(
    options: Json, message: str
) -> None:
    fleet = Fleet()
    with pytest.raises(InvalidInput, match=message):
        run(fleet, **options)
    assert not fleet.lists


def test_progress_is_told_by_step() -> None:
    told: list[tuple[str, int, int]] = []

    def progress_of(step: str) -> ProgressCallback:
        def progress(done: int, total: int, failed: int) -> None:
            told.append((step, done, total))

        return progress

    run(Fleet(), Context(progress_of=progress_of))
    assert {step for step, _done, _total in told} <= {*STEPS}
    assert ("snapshot", 11, 11) in told


def test_a_run_for_a_part_of_the_cluster_reads_and_places_that_part_alone() -> None:
    fleet = Fleet()
    fleet.cluster.add(pod("a"), pod("other"))
    scope = Scope(frozenset({"n2"}), frozenset({("shop", "a")}))
    with fleet.cluster.serve() as api:
        made = FleetRun(Run({"host": api.url}, scope_of=lambda _snapshot: scope))
        made.make()
    result = made.result()
    assert (fleet.cluster.place_of("a"), fleet.cluster.place_of("other")) == ("n2", None)
    assert result["summary"]["configured"] == 1
    assert "status" in fleet.configs["n2"] and "status" not in fleet.configs["n1"]
    assert "conditions" not in fleet.cluster.pods["shop", "other"]["status"]


class Cordoning(Fleet):
    """Another client cordons each planned node just before binding reads it."""

    def answer(self, asked: Asked) -> Reply | None:
        name = asked.path.removeprefix("/api/v1/nodes/")
        if asked.method == "GET" and name in self.cluster.nodes:
            self.cluster.nodes[name]["spec"]["unschedulable"] = True
        return None


def test_pods_that_were_planned_and_not_bound_are_known_with_the_reason() -> None:
    fleet = Cordoning()
    fleet.cluster.add(pod("a"))
    with fleet.cluster.serve() as api:
        made = FleetRun(Run({"host": api.url}))
        made.make()
    assert made.run.log.summary["skipped"] == 1 and fleet.cluster.place_of("a") is None
    assert made.unbound is not None
    [(key, reason)] = made.unbound.items()
    assert key == ("shop", "a") and reason.endswith(" is cordoned")


METERED = MeteredNode("n1", (Load("uid-web", "shop", "web", 3.0),))


def metered_run(tmp_path: Path, source: Json, context: Context = Context()) -> Json:
    """A run with a running pod, which is metered, and a waiting one."""
    fleet = Fleet()
    fleet.cluster.add({**pod("web", nodeName="n1"), "status": {"phase": "Running"}}, pod("a"))
    # The machine is a fake with a known inlet temperature and unknown watts.
    steps = [*STEPS[STEPS.index("snapshot") : STEPS.index("predict")]]
    return run(fleet, context, run_dir=str(tmp_path), steps=steps, meter=source)


def test_watts_of_pods_are_a_document_and_metrics_of_their_own(tmp_path: Path) -> None:
    textfile = tmp_path / "metering.prom"
    with exporter(METERED) as kepler:
        source = {
            "source": "kepler",
            "targets": [{"name": "n1", "endpoint": kepler.url}],
            "textfile": str(textfile),
        }
        result = metered_run(tmp_path / "run", source)
    assert steps_of(result)["meter"]["counts"] == {"pods": 1, "nodes": 1, "left_out": 0}
    body = json.loads(Path(result["documents"]["metering"]).read_text())
    readings = json.loads(Path(result["documents"]["readings"]).read_text())
    assert body["run"] == readings["run"]
    assert [(one["pod"], one["package_watts"]) for one in body["pods"]] == [("web", 30.0)]
    assert 'wattwise_namespace_metered_watts{namespace="shop"} 33' in textfile.read_text()
    # Power of package and memory is not that of the machine.
    assert readings["readings"]["n1"]["power_watts"] is None
    assert result["summary"]["measured_nodes"] == 0
    report = building.build_from(str(tmp_path / "run"))
    assert report["sections"]["metering"]["namespaces"][0]["watts"] == 33.0


@pytest.mark.parametrize(
    "source",
    [
        {"source": "prometheus", "url": "http://127.0.0.1:9"},
        {"source": "kepler", "targets": [{"name": "n1", "endpoint": "nonsense"}]},
        {"source": "kepler", "ca_path": "/nowhere"},
    ],
)
def test_a_metering_that_fails_is_a_warning_and_the_run_goes_on(
    tmp_path: Path, source: Json
) -> None:
    warnings: list[str] = []
    result = metered_run(tmp_path, source, Context(warn=warnings.append))
    meter = steps_of(result)["meter"]
    assert (meter["failure"], len(meter["errors"]), len(warnings)) == (None, 1, 1)
    assert json.loads((tmp_path / "readings.json").read_text())["readings"]["n1"]


def test_without_a_source_nothing_is_metered(tmp_path: Path) -> None:
    result = metered_run(tmp_path, {})
    assert "meter" not in steps_of(result)
    assert "metering" not in result["documents"]


@pytest.mark.parametrize(("source", "cores"), [("prometheus", 0.3), ("none", 0.8)])
def test_a_waiting_pod_uses_as_much_as_the_metered_ones_of_its_workload(
    tmp_path: Path, source: str, cores: float
) -> None:
    """The placement assumes 0.8 of its request only without a measurement."""
    fleet = Fleet()
    owner = {"kind": "StatefulSet", "name": "pg", "uid": "s", "controller": True}
    running = {**pod("pg-0", nodeName="n1"), "status": {"phase": "Running"}}
    for one in (running, waiting := pod("pg-1")):
        one["metadata"]["ownerReferences"] = [owner]
        fleet.cluster.add(one)
    with prometheus(MeteredNode("n1", (Load("uid-pg-0", "shop", "pg-0", 0.3),))) as server:
        steps = [*STEPS[STEPS.index("snapshot") : STEPS.index("store")]]
        meter = {"source": source, "url": server.url}
        run(fleet, run_dir=str(tmp_path), steps=steps, meter=meter)
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert [one["pod"] for one in plan["placements"]] == [waiting["metadata"]["name"]]
    added = sum(node["cpu_after"] - node["cpu_before"] for node in plan["nodes"])
    assert added == pytest.approx(cores)
