# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``site``, ``place``, ``trust`` and ``teardown`` playbooks on the whole lab, as for users."""

from __future__ import annotations

import json
import sys
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab import workload
from lab.api import Api
from lab.comparison import Comparison, compare
from lab.demo import PODS_PER_NODE
from lab.inventory import CLUSTER
from lab.machines import build_machines
from lab.process import wait_until
from support import ansible_yaml
from support.lab import RunningLab
from support.playbook import PlaybookRun, run_playbook
from support.promtool import lint, samples

Json = dict[str, t.Any]

NODE_CONFIGS = "/apis/wao.bitmedia.co.jp/v1beta1/nodeconfigs"


@pytest.fixture
def api(whole_lab: RunningLab) -> Iterator[Api]:
    """The lab's API without pods of earlier tests."""
    with Api(whole_lab.state.kubeconfig) as opened:
        workload.make_namespace(opened)
        workload.delete_pods(opened, whole_lab.settings)
        yield opened
        workload.delete_pods(opened, whole_lab.settings)


def play(
    name: str, lab: RunningLab, folder: Path, *arguments: str, **options: t.Any
) -> PlaybookRun:
    run_dir = ("-e", f"wattwise_run_dir={folder}")
    inventory = ("-i", str(lab.state.inventory))
    return run_playbook(
        f"wattwise.kube.{name}", folder, *inventory, *run_dir, *arguments, **options
    )


def document(folder: Path, kind: str) -> Json:
    return t.cast("Json", json.loads((folder / CLUSTER / f"{kind}.json").read_text()))


@pytest.fixture(scope="module")
def configured(whole_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    """The lab with the objects of its inventory, but no reading and no plan."""
    folder = tmp_path_factory.mktemp("configured")
    run = play("site", whole_lab, folder, "--tags", "crds,node_configs,rmd")
    assert run.returncode == 0, run.output
    return whole_lab


@pytest.mark.usefixtures("configured")
def test_teardown_check_and_install_from_an_empty_cluster(
    whole_lab: RunningLab, kube: Kube, api: Api, tmp_path: Path
) -> None:
    """One test for all steps, because each step needs the state of the previous one.

    When the cluster is installed, two pods are pending with a reason: one fits nowhere, the other
    is not supported. Each further test finds the cluster installed.
    """
    made_by_hand = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "by-hand", "namespace": "wao-system"},
    }
    kept = "/api/v1/namespaces/wao-system/configmaps/by-hand"
    kube.request("POST", "/api/v1/namespaces/wao-system/configmaps", made_by_hand)
    assert play("teardown", whole_lab, tmp_path).returncode == 0
    assert kube.find(kept) is not None
    assert kube.find(NODE_CONFIGS) is not None
    for node in kube.list("/api/v1/nodes"):
        allocatable = node["status"]["allocatable"]
        assert int(allocatable["cpu"]) > 0
        assert allocatable.get("intel.com/l3_cache_ways", "0") == "0"
    everything = ("-e", f"teardown_everything_of={CLUSTER}")
    assert play("teardown", whole_lab, tmp_path, *everything).returncode == 0
    wait_until(lambda: kube.find(NODE_CONFIGS) is None, 60.0, "the API to serve no NodeConfigs")
    kube.request("DELETE", kept)

    workload.create_pods(api, workload.demo_pods(20, seed=3), "wattwise")
    checked = play("site", whole_lab, tmp_path, "--check", "--diff")
    assert checked.returncode == 0, checked.output
    assert "20 pods would be placed on " in checked.output
    assert "wattwise, predicted" in checked.output
    assert kube.find(NODE_CONFIGS) is None
    assert not any(pod["spec"].get("nodeName") for pod in workload.list_pods(api))
    planned = {item["pod"]: item["node"] for item in document(tmp_path, "plan")["placements"]}
    assert planned.keys() == {pod["metadata"]["name"] for pod in workload.list_pods(api)}
    assert all(name in checked.output for name in planned)

    too_large, unknown = workload.demo_pods(22, seed=3)[20:]
    too_large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500"
    unknown["metadata"]["annotations"] = {"wattwise.github.io/device-claims": "gpu"}
    workload.create_pods(api, [too_large, unknown], "wattwise")
    installed = play("site", whole_lab, tmp_path, as_json=True)
    assert installed.returncode == 0, installed.output
    assert len(kube.list(NODE_CONFIGS)) == whole_lab.settings.nodes
    found = {pod["metadata"]["name"]: pod for pod in workload.list_pods(api)}
    assert planned.keys() == {name for name, pod in found.items() if pod["spec"].get("nodeName")}
    message = why_it_waits(found[too_large["metadata"]["name"]])
    assert message.startswith("0/50 nodes are available: ")
    assert "50 Insufficient cpu" in message
    message = why_it_waits(found[unknown["metadata"]["name"]])
    assert "unsupported: wattwise.github.io/device-claims" in message

    files = {"observe": tmp_path / "lab.prom", "placement": tmp_path / "lab-predicted.prom"}
    wanted = [f"-e{role}_textfile={path}" for role, path in files.items()]
    again = play("site", whole_lab, tmp_path, *wanted, as_json=True)
    assert again.stats()[CLUSTER]["changed"] == 0
    metrics = "".join(path.read_text() for path in files.values())
    assert lint(metrics) == ""
    metered = samples(metrics)
    for node in document(tmp_path, "curves")["curves"]:
        labels = f'{{node="{node}",cluster="{CLUSTER}"}}'
        predicted = metered[f"wattwise_predicted_power_watts{labels}"]
        assert predicted == pytest.approx(metered[f"node_power_watts{labels}"], rel=0.15)


def why_it_waits(pod: Json) -> str:
    """The message of the condition that a pod's scheduler sets."""
    [condition] = [item for item in pod["status"]["conditions"] if item["type"] == "PodScheduled"]
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    return str(condition["message"])


@pytest.mark.usefixtures("configured")
def test_a_job_binds_what_was_approved_and_nothing_else(
    whole_lab: RunningLab, kube: Kube, api: Api, tmp_path: Path
) -> None:
    """Two jobs with empty homes, as started by AWX; they share only the plan's name and SHA-256."""
    pods = workload.demo_pods(12, seed=5)
    workload.create_pods(api, pods[:11], "wattwise")
    folders = [tmp_path / name for name in ("place", "bind", "again", "edited")]
    for folder in folders:
        folder.mkdir()
    wanted = ("-e", json.dumps({"placement_bind": False, "placement_store_plan": True}))
    placed = play("place", whole_lab, folders[0], *wanted, as_json=True, HOME=str(folders[0]))
    assert placed.returncode == 0, placed.output
    handed = placed.custom_stats()
    stored = handed["wattwise_stored_plans"][CLUSTER]
    assert stored["pods"] == 11
    assert handed["wattwise_summaries"][CLUSTER]["placed"] == 11
    assert not any(pod["spec"].get("nodeName") for pod in workload.list_pods(api))
    planned = {item["pod"]: item["node"] for item in document(folders[0], "plan")["placements"]}
    gone = sorted(planned)[0]
    kube.request("DELETE", f"/api/v1/namespaces/{workload.NAMESPACE}/pods/{gone}")
    workload.create_pods(api, pods[11:], "wattwise")

    def bind(folder: Path, **changes: str) -> PlaybookRun:
        approved = {"wattwise_stored_plans": {CLUSTER: {**stored, **changes}}}
        given = ("-e", json.dumps(approved))
        return play("bind", whole_lab, folder, *given, as_json=True, HOME=str(folder))

    edited = bind(folders[3], sha256="0" * 64)
    assert edited.returncode != 0
    assert "is not the one that was approved" in " ".join(edited.failures().values())
    assert not any(pod["spec"].get("nodeName") for pod in workload.list_pods(api))
    bound = bind(folders[1])
    assert bound.returncode == 0, bound.output
    nodes = {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in workload.list_pods(api)
        if pod["spec"].get("nodeName")
    }
    assert nodes == {name: node for name, node in planned.items() if name != gone}
    assert bound.custom_stats()["wattwise_summaries"][CLUSTER]["state"] == "pending"
    assert bind(folders[2]).stats()[CLUSTER]["changed"] == 0


@pytest.mark.usefixtures("configured")
def test_trust_shows_certificates_and_writes_them_only_where_told(
    whole_lab: RunningLab, tmp_path: Path
) -> None:
    pinned = ansible_yaml.load(whole_lab.state.inventory.read_text())
    pins = pinned["clusters"]["hosts"][CLUSTER]["node_configs_tls_fingerprints"]
    shown = play("trust", whole_lab, tmp_path)
    assert shown.returncode == 0, shown.output
    path = tmp_path / "pins.yml"
    assert not path.exists()
    told = play("trust", whole_lab, tmp_path, "-e", f"observe_trust_file={path}")
    assert told.returncode == 0, told.output
    written = yaml.safe_load(path.read_text())["node_configs_tls_fingerprints"]
    assert len(written) == whole_lab.settings.nodes
    for node, fingerprint in pins.items():
        assert written[node] == fingerprint
        assert fingerprint in shown.output


def test_the_fleet_draws_fewer_watts_than_under_the_default_scheduler(
    whole_lab: RunningLab,
) -> None:
    result = compare(whole_lab.state, pods=150, seed=1, say=print)
    assert_saves_as_promised(whole_lab, result)
    assert abs(result.fleet_error_percent) < 5
    assert result.changed_again == 0
    assert result.lines[0].startswith("150 pods placed on ")
    assert_report_is_whole(whole_lab)


def assert_saves_as_promised(lab: RunningLab, result: Comparison) -> None:
    """The plan is as good as its bound, and the BMCs measure the predicted power.

    The default scheduler spreads pods, so strategy spread predicts the saving against it. Models
    have an error for each machine, so the measured saving may be lower: here by a quarter.
    """
    report = document(lab.state.root / "runs", "report")
    added = {
        entry["strategy"]: entry["watts_added"]
        for entry in report["sections"]["strategies"]["strategies"]
    }
    # The run after the placing one has left a plan without pods.
    kept = sorted((lab.state.root / "runs" / CLUSTER).glob("plan*.json"))
    plan = max(map(json.loads, map(Path.read_text, kept)), key=lambda made: len(made["placements"]))
    assert len(plan["placements"]) >= 150
    assert plan["gap"] <= 0.003
    predicted = added["spread"] - added["this plan"]
    saved = result.default_watts - result.wattwise_watts
    assert saved >= 0.75 * predicted > 0.2 * added["spread"]


def assert_report_is_whole(lab: RunningLab) -> None:
    """Page and data name every node and pod and the measurement, and contain no password."""
    folder = lab.state.root / "runs"
    report = document(folder, "report")
    assert report["state"] == "measured"
    sections = report["sections"]
    assert sections["headline"]["saved"]["basis"] == "measured"
    assert (sections["headline"]["gone"], sections["headline"]["came"]) == (0, 0)
    assert sections["headline"]["counted"] == lab.settings.nodes
    assert sections["prediction_error"]["fleet"]["node_error_percent"] < 10
    strategies = {entry["strategy"] for entry in sections["strategies"]["strategies"]}
    assert strategies == {"this plan", "greedy", "minimize_power", "peaks", "spread"}
    page = (folder / CLUSTER / "report.html").read_text()
    cells = [cell for rack in sections["temperatures"]["racks"] for cell in rack["nodes"]]
    curves = page.partition('<section id="power_curves"')[2].partition("</section>")[0]
    assert len(cells) == curves.count("<figure") == lab.settings.nodes
    assert sections["cache_ways"]["daemons"] == lab.settings.nodes
    assert page.count("<li>demo/") == 150
    machines = build_machines(lab.settings.nodes, lab.settings.racks, lab.settings.seed)
    texts = [path.read_text() for path in (folder / CLUSTER).rglob("*.*") if path.is_file()]
    for password in {machine.bmc_password for machine in machines}:
        assert not any(password in text for text in texts)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 4, 5])
def test_it_does_so_for_other_workloads(whole_lab: RunningLab, seed: int) -> None:
    pods = whole_lab.settings.nodes * PODS_PER_NODE
    result = compare(whole_lab.state, pods=pods, seed=seed, say=print)
    sys.stdout.write(
        f"seed {seed}: {result.default_watts:.0f} W under the default scheduler, "
        f"{result.wattwise_watts:.0f} W under wattwise, predicted {result.predicted_watts:.0f} W\n"
    )
    assert_saves_as_promised(whole_lab, result)
    report = document(whole_lab.state.root / "runs", "report")
    ours, *others = report["sections"]["strategies"]["strategies"]
    assert ours["strategy"] == "this plan"
    assert all(entry["watts_added"] > 1.03 * ours["watts_added"] for entry in others)
