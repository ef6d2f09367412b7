# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``site`` and ``place`` playbooks with a failing step: others go on, then the report."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab import faults, workload
from lab.api import Api
from lab.inventory import CLUSTER
from support.lab import RunningLab
from support.playbook import PlaybookRun, run_playbook

Json = dict[str, t.Any]
END = "End with the reason for which the steps before ended"


@pytest.fixture
def well(whole_lab: RunningLab) -> Iterator[RunningLab]:
    """The lab; afterwards its machines are repaired and its pods deleted."""
    yield whole_lab
    faults.call(whole_lab.settings, "DELETE", "/faults")
    with Api(whole_lab.state.kubeconfig) as api:
        workload.delete_pods(api, whole_lab.settings)


def play(
    name: str, lab: RunningLab, folder: Path, *arguments: str, **options: t.Any
) -> PlaybookRun:
    inventory = ("-i", str(lab.state.inventory))
    chosen = (*inventory, "-e", f"wattwise_run_dir={folder}", *arguments)
    return run_playbook(f"wattwise.kube.{name}", folder, *chosen, **options)


def ends(run: PlaybookRun) -> list[str]:
    """The final messages of runs, by cluster."""
    return [result["msg"] for result in run.results(END) if result.get("failed")]


def test_a_cluster_that_cannot_be_reached_leaves_the_others_running(
    well: RunningLab, tmp_path: Path
) -> None:
    nowhere = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "nowhere.yml").write_text(yaml.safe_dump(nowhere))
    away = {"wattwise_kubeconfig": str(tmp_path / "nowhere.yml")}
    (tmp_path / "away.yml").write_text(yaml.safe_dump({"clusters": {"hosts": {"away": away}}}))
    both = ("-i", str(tmp_path / "away.yml"))
    run = play("site", well, tmp_path, *both, as_json=True)
    assert run.returncode == 2
    stats = run.stats()
    assert (stats[CLUSTER]["failures"], stats["away"]["failures"]) == (0, 1)
    [sentence] = ends(run)
    assert sentence.startswith("Install the CustomResourceDefinitions: ")
    assert "127.0.0.1:1" in sentence
    assert (tmp_path / CLUSTER / "report.html").exists()
    assert not (tmp_path / "away" / "report.json").exists()
    # The reason is the same whichever steps were requested.
    assert play("site", well, tmp_path, *both, "--tags", "crds").returncode == 2


def test_too_few_readings_are_reported_and_no_pod_is_placed_by_them(
    well: RunningLab, tmp_path: Path
) -> None:
    configured = play("site", well, tmp_path, "--tags", "crds,node_configs")
    assert configured.returncode == 0, configured.output
    with Api(well.state.kubeconfig) as api:
        workload.make_namespace(api)
        workload.create_pods(api, workload.demo_pods(3, seed=1), "wattwise")
    faults.call(well.settings, "POST", "/faults", [{"kind": "dead-bmc", "node": "r1-n01"}])
    run = play("place", well, tmp_path, "-e", "observe_min_success=1", as_json=True)
    assert run.returncode == 2
    [sentence] = ends(run)
    assert sentence.startswith("Observe the fleet and place the waiting pods: ")
    assert "min_success" in sentence
    report = json.loads((tmp_path / CLUSTER / "report.json").read_text())
    failing = json.dumps(report["sections"]["failing_endpoints"])
    assert '"r1-n01"' in failing
    [shown] = run.results("Say what the fleet draws")
    assert shown["msg"]
    with Api(well.state.kubeconfig) as api:
        assert not any(pod["spec"].get("nodeName") for pod in workload.list_pods(api))
    faults.call(well.settings, "DELETE", "/faults")
    mended = play("place", well, tmp_path, "-e", "observe_min_success=1", as_json=True)
    assert (mended.returncode, ends(mended)) == (0, [])
    with Api(well.state.kubeconfig) as api:
        assert all(pod["spec"].get("nodeName") for pod in workload.list_pods(api))
