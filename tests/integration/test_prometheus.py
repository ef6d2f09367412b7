# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``observe`` role's files for Prometheus and Grafana, checked by Prometheus' promtool.

The metrics are those of the files that fleet_reconciliation and power_placement wrote for three
nodes, one of them failing, two with RMD, and those that the operator's endpoint serves for a
PowerFleet. The alerts' own tests are in prometheus/rules.test.yml.
"""

from __future__ import annotations

import datetime
import itertools
import json
import re
import time
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering.metering import (
    Metering,
)
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering.pods import Pod
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet import metrics, serving
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.stalling import (
    Stalls,
    view_fleet,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.status import Failure
from lab import kepler, process, prometheus
from lab.bmc.pods import BoundPod
from lab.machines import build_machines
from lab.physics import Truth
from lab.state import LabSettings, LabState
from support import observing, promql
from support.power_fleets import INLET, LIMITING, SLEEP, fleet, manifest, outcome
from support.promtool import Expectation, lint, promtool, samples, unmet
from support.snapshots import with_targets

Json = dict[str, t.Any]

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = ROOT / "roles" / "observe" / "files"
RULES = FILES / "prometheus-rules.yml"
REAL_KEPLER = (ROOT / "tests" / "conformance" / "kepler" / "metrics.txt").read_text()
DASHBOARD: Json = json.loads((FILES / "grafana-dashboard.json").read_text())
PANELS: list[Json] = DASHBOARD["panels"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]

NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
WATTS = {"n1": 300.0, "n2": 210.5}
VARIABLES = ("cluster", "power_fleet", "node")
METRIC = re.compile(r"\b(?:wattwise_\w+|inlet_temp_celsius|delta_p_pascal|node_power_watts)\b")


def node_config(node: str) -> Json:
    return {
        "apiVersion": "wao.bitmedia.co.jp/v1beta1",
        "kind": "NodeConfig",
        "metadata": {"name": node, "namespace": "wao-system"},
        "spec": {"nodeName": node, "metricsCollector": {}, "predictor": {}},
    }


def node_state(node: str, reachable: str) -> Json:
    pools = {"free": "1-3,7", "freeWays": 4, "longestFreeRun": 3}
    return {
        "metadata": {"name": f"rmd-node-state-{node}"},
        "spec": {"node": node},
        "status": {
            "conditions": [{"type": "Reachable", "status": reachable}],
            "caches": [
                {"cacheId": 0, "ways": 20, "guaranteed": pools},
                {"cacheId": 1, "ways": 20, "besteffort": pools},
            ],
        },
    }


@pytest.fixture(scope="module")
def textfile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of cluster hall-1: n1 and n2 are read and have curves; n3's BMC is unreachable."""
    folder = tmp_path_factory.mktemp("textfile")
    names = ("n1", "n2", "n3")
    snapshot = {
        "cluster": {},
        "nodes": [{"metadata": {"name": name}} for name in names],
        "node_configs": [node_config(name) for name in names],
        "node_metrics": [
            {"metadata": {"name": "n1"}, "usage": {"cpu": "5"}},
            {"metadata": {"name": "n2"}, "usage": {"cpu": "0"}},
        ],
        "rmd_node_states": [node_state("n1", "True"), node_state("n2", "False")],
    }
    documents.write(str(folder / "snapshot.json"), "snapshot", with_targets(snapshot))
    curve = {"cpu": [0.0, 10.0], "watts": [200.0, 400.0]}
    documents.write(str(folder / "curves.json"), "curves", {"curves": dict.fromkeys(names, curve)})
    read = [
        {"name": name, "inlet_celsius": 20.0 + len(name), "power_watts": watts}
        for name, watts in WATTS.items()
    ]
    lost = {"name": "n3", "endpoint": "https://n3", "reason": "timeout", "detail": "too slow"}
    pascals = [{"name": name, "pascals": -2.5} for name in names]
    observing.observe(
        folder,
        Context(now=lambda: NOON),
        thermal=[{"readings": read, "errors": [lost]}],
        pressure=[{"readings": pascals, "errors": []}],
        textfile=str(folder / "wattwise.prom"),
        textfile_labels={"cluster": "hall-1"},
    )
    predicted = {
        "snapshot": str(folder / "snapshot.json"),
        "curves": str(folder / "curves.json"),
        "textfile": str(folder / "predicted.prom"),
        "textfile_labels": {"cluster": "hall-1"},
        "usage_source": "metrics",
        "strategy": "greedy",
    }
    place(predicted)
    files = [(folder / name).read_text() for name in ("wattwise.prom", "predicted.prom")]
    zones = {"package": 90.0, "dram": 10.0}
    pod = Pod("shop", "web-1", "u1", "n1", "Deployment", "web")
    metered = Metering("prometheus", NOON, pods={pod: zones}, nodes={"n1": zones})
    files.append(metered.metrics({"cluster": "hall-1"}))
    return "".join([*files, served(folder / "runs"), watched()])


def served(runs: Path) -> str:
    """The answer of the operator's endpoint after one run, with a step that failed."""
    steps = [
        {"name": "snapshot", "seconds": 0.5},
        {"name": "node_configs", "seconds": 1.5, "failure": "No."},
    ]
    made = outcome(
        began=NOON,
        seconds=45.0,
        steps=steps,
        summary={
            **{"configured": 4, "fresh": 3, "stale": 1, "failed": 1, "gap": 0.25},
            "limits": [{"kind": "rack", "name": "r1", "limit_watts": 4e3, "watts_after": 3950.5}],
            "limiting": {**LIMITING, "domains": [*LIMITING["domains"], INLET]},
            "sleep": SLEEP,
        },
        unplaced=[{}, {}],
        waiting=3,
        saved_watts={"spread": 12.5},
        failure=Failure("node_configs", "No."),
    )
    run_dir = runs / "power" / "fleet"
    (run_dir / "metrics").mkdir(parents=True)
    metrics.write(str(run_dir), fleet(), made, NOON)
    return serving.collect(runs, time.time())


def watched() -> str:
    """The answer of the watcher's endpoint."""
    stalls, seen = Stalls(300.0), view_fleet(manifest())
    assert seen is not None
    stalls.see(seen, 0.0)
    return stalls.exposition(0.0)


@pytest.fixture(scope="module")
def everything(textfile: str) -> str:
    """The same, and the metrics of one of the lab's Keplers and of a real one with more families."""
    [machine] = build_machines(1, 1, seed=1)
    meter = kepler.Meter(machine, 0.0)
    pod = BoundPod("u1", machine.name, 4.0, "shop", "web-7d4b9c-x2x4z")
    meter.sample(10.0, Truth(20.0, 5.0, 300.0, pod.cores), [pod])
    return textfile + meter.text() + REAL_KEPLER


def on_everything(query: str) -> str:
    """A query of the dashboard with all clusters, PowerFleets and nodes selected."""
    for name in VARIABLES:
        query = query.replace(f"${name}", ".*")
    return query


def test_names_units_and_form_of_the_metrics_are_as_prometheus_wants_them(textfile: str) -> None:
    assert lint(textfile) == ""
    assert "base unit" in lint(textfile.replace("_celsius", "_fahrenheit"))
    assert "error while linting" in lint(textfile.replace('"n1"', "n1"))


def test_the_readings_are_in_the_metrics(textfile: str, tmp_path: Path) -> None:
    expected = {
        'sum(inlet_temp_celsius{node="n1", cluster="hall-1"})': 22.0,
        "count(inlet_temp_celsius)": 2,
        "sum(delta_p_pascal)": -7.5,
        "sum(node_power_watts)": sum(WATTS.values()),
        'sum(wattwise_predicted_power_watts{node="n1"})': 300.0,
        'sum(wattwise_predicted_power_watts{node="n2"})': 200.0,
        "count(wattwise_predicted_power_watts)": 2,
        "sum(wattwise_node_read)": 2,
        "count(wattwise_node_read)": 3,
        "sum(wattwise_observation_timestamp_seconds)": NOON.timestamp(),
        "count(wattwise_cache_free_ways)": 1,
        'sum(wattwise_cache_free_ways{node="n1", cache="0", cluster="hall-1"})': 4,
        'sum(wattwise_cache_longest_free_run_ways{node="n1"})': 3,
    }
    found = [Expectation(query, [value]) for query, value in expected.items()]
    assert unmet(samples(textfile), found, tmp_path) == ""
    wrong = [Expectation("sum(wattwise_node_read)", [3])]
    assert "sum(wattwise_node_read)" in unmet(samples(textfile), wrong, tmp_path)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a Prometheus without scrapes."""
    state = LabState(tmp_path_factory.mktemp("prometheus"))
    state.create()
    ports = {name: process.free_port() for name in ("kepler", "prometheus")}
    settings = LabSettings(1, 1, ports=ports)
    prometheus.prepare(state, settings, print)
    process.start(prometheus.services(state, settings), state)
    yield ports["prometheus"]
    process.stop(state)


def test_every_query_of_dashboards_and_rules_names_metrics_and_labels_that_exist(
    everything: str, port: int
) -> None:
    known, seen = promql.catalogue(everything), set()
    for path in sorted(ROOT.glob("roles/*/files/*rules*.yml")):
        for rule in (
            one for each in yaml.safe_load(path.read_text())["groups"] for one in each["rules"]
        ):
            name = rule.get("record") or rule["alert"]
            found = held(port, rule["expr"], known, f"{path.name}: {name}")
            told = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule.get("annotations"))))
            assert told <= found | {"cluster"}, f"{path.name}: {name}"
            if "record" in rule:
                known[name] = found
            seen.add(path.name)
    for path in sorted(ROOT.glob("roles/*/files/*dashboard*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                where = f"{path.name}: {panel['title']}"
                found = held(port, on_everything(target["expr"]), known, where)
                told = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
                assert told <= found, where
            seen.add(path.name)
    assert {"prometheus-rules.yml", "grafana-dashboard.json"} <= seen


def held(port: int, query: str, known: t.Mapping[str, promql.Labels], where: str) -> promql.Labels:
    try:
        return promql.labels_of(promql.parsed(port, query), known)
    except promql.Unknown as error:
        raise AssertionError(f"{where}: {error}: {query}") from error


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("sum(rate(kepler_nodes_joules_total[5m]))", "metric kepler_nodes_joules_total"),
        ('up{nod="n1"}', "label nod"),
        ("sum by (namespace) (kepler_pod_cpu_watts)", "label namespace"),
        ("max by (node) (sum by (cluster) (node_power_watts))", "label node"),
        ("node_power_watts and on (node_name) inlet_temp_celsius", "label node_name"),
        ('label_replace(up, "a", "$1", "b", "(.*)")', "label b"),
    ],
)
def test_what_does_not_exist_is_found(everything: str, port: int, query: str, wrong: str) -> None:
    with pytest.raises(AssertionError, match=f"there is no {wrong}"):
        held(port, query, promql.catalogue(everything), "here")


def test_the_dashboard_shows_something_in_every_panel(everything: str, tmp_path: Path) -> None:
    shown = [Expectation(f"count({on_everything(q)}) > bool 0", [1]) for _title, q in QUERIES]
    assert unmet(samples(everything), shown, tmp_path, RULES) == ""
    # The same for a cluster that does not exist: only a count of failures is 0.
    elsewhere = [
        Expectation(
            f"count({on_everything(query.replace('$cluster', 'hall-9'))}) > bool 0",
            [1] if query.endswith("or vector(0)") else [],
        )
        for _title, query in QUERIES
    ]
    assert unmet(samples(everything), elsewhere, tmp_path, RULES) == ""


@pytest.mark.parametrize(
    ("title", "value"),
    [
        ("Fleet power", 510.5),
        ("Model error", 500.0 / 510.5 - 1),
        ("Hottest inlet", 22.0),
        ("Nodes read", 2 / 3),
        ("BMCs failing", 1),
        ("Last observation", 7200 - NOON.timestamp()),
        ("Fleets failing", 1),
        ("Oldest success", 7200 - NOON.timestamp()),
        ("Share of the interval", 0.75),
        ("Pods without a node", 2),
        ("Machines not read", 0.25),
        ("Optimality gap", 0.25),
        ("Fleets suspended", 0),
    ],
)
def test_the_dashboard_s_figures_are_right(
    textfile: str, tmp_path: Path, title: str, value: float
) -> None:
    [query] = [query for name, query in QUERIES if name == title]
    found = [Expectation(on_everything(query), [value])]
    assert unmet(samples(textfile), found, tmp_path) == ""


def test_the_dashboard_shows_containers_virtual_machines_and_zones_of_kepler(
    tmp_path: Path,
) -> None:
    found = samples(REAL_KEPLER)

    def watts(family: str, *zones: str) -> float:
        return sum(
            value
            for series, value in found.items()
            if series.startswith(f"{family}{{")
            and any(f'zone="{zone}"' in series for zone in zones)
        )

    by_title = dict(QUERIES)
    expected = {
        "Containers that draw most": watts("kepler_container_cpu_watts", "package", "dram"),
        "Virtual machines that draw most": watts("kepler_vm_cpu_watts", "package", "dram"),
        "Zones of the meters": watts("kepler_node_cpu_watts", "package", "dram"),
    }
    assert min(expected.values()) > 1
    queries = [
        Expectation(f"sum({on_everything(by_title[title])})", [value])
        for title, value in expected.items()
    ]
    assert unmet(found, queries, tmp_path) == ""


def test_the_failing_step_is_in_the_table(textfile: str, tmp_path: Path) -> None:
    [query] = [query for name, query in QUERIES if name == "Failing steps"]
    row = 'wattwise_power_fleet_step_failed{step="node_configs", power_fleet="power/fleet"}'
    found = [
        Expectation(f"count({on_everything(query)})", [1]),
        Expectation(f"count({on_everything(query)} and on (step, power_fleet) {row})", [1]),
    ]
    assert unmet(samples(textfile), found, tmp_path) == ""


def test_the_failing_endpoint_is_in_the_table(textfile: str, tmp_path: Path) -> None:
    [query] = [query for name, query in QUERIES if name == "Failing endpoints"]
    row = 'wattwise_endpoint_failing{node="n3", endpoint="bmc", reason="timeout"}'
    found = f"count({on_everything(query)} and on (node, endpoint, reason) {row})"
    assert unmet(samples(textfile), [Expectation(found, [1])], tmp_path) == ""


def test_everything_in_the_textfile_is_on_the_dashboard_or_in_an_alert(textfile: str) -> None:
    named = set(METRIC.findall(" ".join(query for _title, query in QUERIES) + RULES.read_text()))
    assert named == set(re.findall(r"^# TYPE (\w+)", textfile, re.MULTILINE))


def test_the_page_of_metrics_lists_every_metric_alert_and_record(textfile: str) -> None:
    page = (ROOT / "docs" / "operate" / "metrics.md").read_text()
    listed = set(re.findall(r"^\| `([\w:]+)` \|", page, re.MULTILINE))
    assert set(re.findall(r"^# TYPE (\w+)", textfile, re.MULTILINE)) <= listed
    groups = yaml.safe_load(RULES.read_text())["groups"]
    rules = {one.get("alert") or one["record"] for group in groups for one in group["rules"]}
    assert len(rules) > 1
    assert rules <= listed


def test_the_dashboard_can_be_imported_anywhere() -> None:
    variables = {item["name"]: item for item in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert METRIC.findall(variables["cluster"]["definition"])
    for panel in PANELS:
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        assert all(item["datasource"] == panel["datasource"] for item in panel["targets"])
        assert panel["description"]
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert "id" not in DASHBOARD  # Grafana supplies one


def test_the_panels_do_not_overlap() -> None:
    taken = [
        (panel["gridPos"]["x"] + dx, panel["gridPos"]["y"] + dy)
        for panel in PANELS
        for dx, dy in itertools.product(range(panel["gridPos"]["w"]), range(panel["gridPos"]["h"]))
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _y in taken) < 24


def test_the_rules_are_valid_and_alert_when_they_must() -> None:
    checked = promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert checked.returncode == 0, checked.stdout
    tests = Path(__file__).parent / "prometheus" / "rules.test.yml"
    done = promtool("test", "rules", str(tests))
    assert done.returncode == 0, done.stdout
    alerts = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    assert alerts == set(re.findall(r"alertname: (\w+)", tests.read_text()))
