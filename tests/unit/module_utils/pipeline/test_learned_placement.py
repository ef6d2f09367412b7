# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that record samples, learn from them, and place by the result."""

from __future__ import annotations

import datetime
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.inference.samples import (
    NodeSamples,
    Sample,
    Samples,
)
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.reconciliation import (
    reconcile_fleet,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report import building
from support.binding_api import Json, pod
from support.inference_server import InferenceServer, Model
from support.small_fleet import Fleet
from support.wao import fake

NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
CORES = 4.0
STEPS = ["snapshot", "merge", "statuses", "predict", "place", "bind"]


def fleet_without_predictors() -> Fleet:
    """Two nodes of one type, without predictor and metrics-server."""
    fleet = Fleet()
    for name, config in fleet.configs.items():
        config["spec"]["predictor"] = {}
        node = fleet.cluster.nodes[name]
        node["status"]["capacity"] = {"cpu": "4"}
        node["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "r650"
    return fleet


def answers(**watts: float) -> Json:
    """Results of the reading modules, in place of machines."""
    bmcs = [
        {"name": name, "inlet_celsius": 22.0, "power_watts": value} for name, value in watts.items()
    ]
    air = [{"name": name, "pascals": 5.0} for name in watts]
    return {"thermal": [{"readings": bmcs, "errors": []}], "pressure": [{"readings": air}]}


def run(fleet: Fleet, folder: Path, warnings: list[str] | None = None, **options: t.Any) -> Json:
    told: list[str] = [] if warnings is None else warnings
    context = Context(warn=told.append, now=lambda: NOON)
    given = {**answers(n1=100.0, n2=100.0), "steps": STEPS, "run_dir": str(folder), **options}
    with fleet.cluster.serve() as api:
        return reconcile_fleet({"host": api.url, **given}, context)


def samples_of(slope: float) -> NodeSamples:
    """Samples over all loads; the cores are requests, 0.8 of which count as used."""
    rows = (
        Sample(NOON.timestamp() - 60 * step, None, step / 4, 22.0, 5.0, 100 + slope * step / 5)
        for step in range(1, 17)
    )
    return NodeSamples(CORES, tuple(sorted(rows)))


def steps_of(result: Json) -> dict[str, Json]:
    return {step["name"]: step for step in result["steps"]}


def record(folder: Path, **nodes: NodeSamples) -> None:
    folder.mkdir(exist_ok=True)
    body = Samples(dict(nodes)).as_document()
    documents.write(str(folder / "samples.json"), "samples", body)


def curves_in(folder: Path) -> Json:
    return documents.load(str(folder / "curves.json"), "curves")


def test_each_run_records_the_load_and_watts_of_each_node(tmp_path: Path) -> None:
    fleet = fleet_without_predictors()
    fleet.cluster.add(pod("a", cpu="2", nodeName="n1"))
    fleet.cluster.pods["shop", "a"]["status"]["phase"] = "Running"
    result = run(fleet, tmp_path, steps=["snapshot", "merge", "statuses"])
    assert "samples" in result["documents"]
    [n1, n2] = json.loads((tmp_path / "samples.json").read_text())["nodes"].values()
    assert (n1["requested_cores"], n1["power_watts"], n1["metered_cores"]) == (
        [2.0],
        [100.0],
        [None],
    )
    assert (n2["requested_cores"], n2["power_watts"]) == ([0.0], [100.0])


def test_nothing_is_recorded_without_a_folder_or_with_an_age_of_zero(tmp_path: Path) -> None:
    fleet = fleet_without_predictors()
    assert "samples" not in run(fleet, tmp_path, merge={"samples_max_age": 0})["documents"]
    assert not (tmp_path / "samples.json").exists()
    assert "samples" not in run(fleet, tmp_path, run_dir=None)["documents"]


def test_a_node_without_predictor_is_placed_by_what_was_learned(tmp_path: Path) -> None:
    fleet = fleet_without_predictors()
    fleet.cluster.add(pod("a"), pod("b"))
    record(tmp_path, n1=samples_of(90.0), n2=samples_of(20.0))
    result = run(fleet, tmp_path)
    assert {fleet.cluster.place_of(name) for name in ("a", "b")} == {"n2"}
    assert result["summary"]["curve_sources"] == {
        "stated": 0,
        "predictor": 0,
        "learned": 2,
        "published": 0,
        "none": 0,
    }
    assert steps_of(result)["predict"]["counts"]["learned"] == 2
    curve = curves_in(tmp_path)["curves"]["n2"]
    evidence = curve["learned"]
    assert (curve["source"], evidence["of"], evidence["samples"]) == ("learned", "node", 17)
    assert evidence["error_percent"] < 3
    assert curve["watts"][-1] == pytest.approx(164, rel=0.02)
    # The previous run has a valid curve, so nothing is fitted again.
    record(tmp_path, n1=samples_of(90.0), n2=samples_of(70.0))
    run(fleet, tmp_path)
    assert curves_in(tmp_path)["curves"]["n2"]["watts"] == curve["watts"]
    run(fleet, tmp_path, place={"pod_usage_assumption": 0.7})
    assert curves_in(tmp_path)["curves"]["n2"]["cpu"][-1] < curve["cpu"][-1]
    run(fleet, tmp_path, predict={"keep_seconds": 0})
    assert curves_in(tmp_path)["curves"]["n2"]["watts"] != curve["watts"]


def test_a_node_with_a_predictor_takes_that_and_one_with_a_statement_takes_this(
    tmp_path: Path,
) -> None:
    fleet = fleet_without_predictors()
    fleet.configs["n1"]["spec"]["predictor"] = {"powerConsumption": fake()}
    fleet.configs["n2"]["metadata"]["annotations"] = {
        "wattwise.github.io/power-curve": '{"idle": 90, "max": 190}'
    }
    record(tmp_path, n1=samples_of(90.0), n2=samples_of(20.0))
    run(fleet, tmp_path)
    curves = curves_in(tmp_path)["curves"]
    assert {name: curve["source"] for name, curve in curves.items()} == {
        "n1": "predictor",
        "n2": "stated",
    }
    assert curves["n2"]["watts"] == [90.0, 190.0]
    off = run(fleet, tmp_path, predict={"learn": False, "power_curves": []})
    assert off["summary"]["curve_sources"]["learned"] == 0


def test_a_node_with_a_bmc_alone_is_placed_by_what_is_published_of_its_server(
    tmp_path: Path,
) -> None:
    fleet = fleet_without_predictors()
    for config in fleet.configs.values():
        del config["spec"]["metricsCollector"]["deltaP"], config["spec"]["predictor"]
    fleet.cluster.add(pod("a"), pod("b"))
    told = {
        "n1": {"processor": "AMD EPYC 9654P 96-Core Processor", "cores": 96},
        "n2": {"processor": "Loongson 3C5000"},
    }
    given = answers(n1=100.0, n2=100.0)
    given["thermal"][0]["sensors"] = [
        {"name": name, "system": system} for name, system in told.items()
    ]
    del given["pressure"]
    result = run(fleet, tmp_path, merge={"min_success": 1.0}, **given)
    assert {fleet.cluster.place_of(name) for name in ("a", "b")} == {"n1"}
    assert result["summary"]["curve_sources"]["published"] == 1
    assert result["summary"]["published_matches"] == {"processor": 1}
    document = curves_in(tmp_path)
    assert document["curves"]["n1"]["published"]["of"] == ["1 x amd_epyc_9654p, 96 cores"]
    assert document["lacking"]["n2"].endswith("no published measurement is of Loongson 3C5000")
    # The identity stays in the status, because a run with known sensors does not read it again.
    fleet.configs["n2"]["spec"]["predictor"] = {"powerConsumption": fake()}
    off = run(fleet, tmp_path, predict={"published": False}, **answers(n1=100.0, n2=100.0))
    assert off["summary"]["curve_sources"] | {"learned": 0} == {
        "stated": 0,
        "predictor": 1,
        "learned": 0,
        "published": 0,
        "none": 1,
    }


def test_a_wrong_statement_leaves_the_node_to_what_was_learned(tmp_path: Path) -> None:
    fleet = fleet_without_predictors()
    fleet.configs["n2"]["metadata"]["annotations"] = {
        "wattwise.github.io/power-curve": "[[0, 200], [100, 100]]"
    }
    record(tmp_path, n1=samples_of(90.0), n2=samples_of(20.0))
    warnings: list[str] = []
    run(fleet, tmp_path, warnings)
    document = curves_in(tmp_path)
    assert document["curves"]["n2"]["source"] == "learned"
    assert [one["field"] for one in document["findings"]] == [
        "metadata.annotations[wattwise.github.io/power-curve]"
    ]
    assert any("fewer than 200 W" in warning for warning in warnings)
    with pytest.raises(InvalidInput, match=r"power_curves\[0\]"):
        run(fleet, tmp_path, predict={"power_curves": [{"idle": 5.0, "max": 1.0}]})


def test_a_statement_counts_though_its_predictor_disagrees_and_both_are_told(
    tmp_path: Path,
) -> None:
    fleet = fleet_without_predictors()
    with InferenceServer({"m": Model()}) as server:
        model = {"type": "V2InferenceProtocol", "endpoint": server.endpoint("m")}
        for config in fleet.configs.values():
            config["spec"]["predictor"] = {"powerConsumption": model}
        fleet.configs["n2"]["metadata"]["annotations"] = {
            "wattwise.github.io/power-curve": '{"idle": 90, "max": 900}'
        }
        warnings: list[str] = []
        first = run(fleet, tmp_path, warnings)
        again = run(fleet, tmp_path)
    assert "the stated power curve has 900 W and the predictor curve" in "".join(warnings)
    document = curves_in(tmp_path)
    assert document["curves"]["n2"]["source"] == "stated"
    assert [one["name"] for one in document["findings"]] == ["n2"]
    counts = [steps_of(each)["predict"]["counts"] for each in (first, again)]
    assert [each["requests"] for each in counts] == [1, 0]
    # The server is unreachable, which concerns only the node that needs it.
    lost = run(fleet, tmp_path, predict={"keep_seconds": 0})
    assert {error["name"] for error in steps_of(lost)["predict"]["errors"]} == {"n1"}


@pytest.mark.parametrize("broken", ["{", '{"document": "wattwise.kube/plan/v1"}'])
def test_a_broken_recording_is_one_finding_and_begins_anew(tmp_path: Path, broken: str) -> None:
    (tmp_path / "samples.json").write_text(broken)
    fleet = fleet_without_predictors()
    warnings: list[str] = []
    result = run(fleet, tmp_path, warnings)
    assert len([one for one in warnings if "samples.json" in one]) == 1
    assert len(steps_of(result)["merge"]["errors"]) == 1
    assert documents.load(str(tmp_path / "samples.json"), "samples")["nodes"].keys() == {"n1", "n2"}


def test_a_broken_node_in_the_recording_touches_no_other(tmp_path: Path) -> None:
    record(tmp_path, n1=samples_of(90.0), n2=samples_of(20.0))
    path = tmp_path / "samples.json"
    body = json.loads(path.read_text())
    body["nodes"]["n1"]["power_watts"][3] = -5
    path.write_text(json.dumps(body))
    warnings: list[str] = []
    fleet = fleet_without_predictors()
    run(fleet, tmp_path, warnings)
    assert len([one for one in warnings if "power_watts" in one]) == 1
    document = curves_in(tmp_path)
    assert document["curves"].keys() == {"n2"}
    assert "samples are recorded" in document["lacking"]["n1"]


def test_the_report_tells_sources_and_errors(tmp_path: Path) -> None:
    record(tmp_path, n1=samples_of(90.0))
    run(fleet_without_predictors(), tmp_path)
    section = building.build_from(str(tmp_path))["sections"]["power_curves"]
    learned, none = section["sources"]
    assert (learned["source"], learned["nodes"], learned["samples"]) == (
        "learned from the node",
        1,
        17,
    )
    assert learned["load_percent"] == [0.0, 80.0]
    assert none == {"source": "none", "nodes": 1}
