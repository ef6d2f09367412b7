# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workflow of role awx on the simulated AWX, whose jobs are runs of playbooks on the lab."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab import workload
from lab.api import Api
from lab.awx.api import ADMINISTRATOR, running_awx
from lab.awx.jobs import Job, Outcome
from lab.inventory import CLUSTER
from lab.process import wait_until
from support.awx import PLAYBOOKS, Server, apply_in_process
from support.awx_settings import default_configuration
from support.lab import RunningLab
from support.playbook import PlaybookRun, run_playbook

Json = dict[str, t.Any]

WORKFLOW = "wattwise.kube place with approval"


@pytest.fixture
def api(whole_lab: RunningLab) -> Iterator[Api]:
    """The lab's API with no pods of an earlier test."""
    with Api(whole_lab.state.kubeconfig) as opened:
        workload.make_namespace(opened)
        workload.delete_pods(opened, whole_lab.settings)
        yield opened
        workload.delete_pods(opened, whole_lab.settings)


@dataclass
class Containers:
    """Runs each job with an empty home, the inventory, and what the job got; nothing else."""

    inventory: Path
    folder: Path
    runs: dict[str, PlaybookRun] = field(default_factory=dict)

    def __call__(self, job: Job) -> Outcome:
        playbook = Path(job.playbook).stem
        name = "report" if job.tags else playbook
        home = self.folder / f"{job.number}-{name}"
        home.mkdir()
        variables = home / "extravars.json"
        variables.write_text(json.dumps(job.extra_vars))
        tags = ("--tags", job.tags) if job.tags else ()
        given = ("-i", str(self.inventory), "-e", f"@{variables}", "-e", f"wattwise_run_dir={home}")
        run = run_playbook(
            f"wattwise.kube.{playbook}",
            home,
            *given,
            *tags,
            as_json=True,
            HOME=str(home),
            **job.environment,
        )
        self.runs[name] = run
        return Outcome(run.returncode == 0, run.custom_stats() if run.returncode == 0 else {})


def bound(api: Api) -> dict[str, str]:
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in workload.list_pods(api)
        if pod["spec"].get("nodeName")
    }


def test_the_workflow_binds_what_was_approved_and_nothing_else(
    whole_lab: RunningLab, api: Api, tmp_path: Path
) -> None:
    """The kubeconfig comes from a credential, the plan from the job before the approval."""
    inventory = whole_lab.state.inventory
    site = (
        "-i",
        str(inventory),
        "--tags",
        "crds,node_configs",
        "-e",
        f"wattwise_run_dir={tmp_path}",
    )
    assert run_playbook("wattwise.kube.site", tmp_path, *site).returncode == 0
    workload.create_pods(api, workload.demo_pods(8, seed=5)[:6], "wattwise")
    without = tmp_path / "inventory.yml"
    lines = inventory.read_text().splitlines()
    without.write_text("\n".join(line for line in lines if "wattwise_kubeconfig" not in line))
    kubeconfig = whole_lab.state.kubeconfig.read_text()
    credential = {"name": "lab", "type": "cluster", "inputs": {"kubeconfig": kubeconfig}}
    lists = default_configuration(credentials=[credential])
    containers = Containers(without, tmp_path)
    with running_awx(PLAYBOOKS, containers) as awx:
        server = Server(awx.endpoint, awx.token_of(ADMINISTRATOR[0]), {})
        apply_in_process(lists, server)
        number, _item = awx.find("workflow_job_templates", WORKFLOW)
        launched = server.post(f"workflow_job_templates/{number}/launch/", {})["id"]
        nodes = f"workflow_jobs/{launched}/workflow_nodes/"
        record = awx.jobs.records["workflow_jobs"][launched]

        def asks() -> bool:
            assert record["finished"] is None, {k: v.output for k, v in containers.runs.items()}
            return bool(server.get(nodes, job__name="Bind?")["results"])

        wait_until(asks, 120.0, "the approval")
        stored = containers.runs["place"].custom_stats()["wattwise_stored_plans"][CLUSTER]
        assert stored["pods"] == 6
        assert bound(api) == {}
        approved = {pod["metadata"]["name"] for pod in workload.list_pods(api)}
        workload.create_pods(api, workload.demo_pods(8, seed=5)[6:], "wattwise")
        [waiting] = server.get(nodes, job__name="Bind?")["results"]
        decision = waiting["related"]["job"].removeprefix("/api/v2/") + "approve/"
        server.post(decision, {})
        wait_until(lambda: record["finished"] is not None, 120.0, "the workflow to end")
    assert record["status"] == "successful", {k: v.output for k, v in containers.runs.items()}
    assert bound(api).keys() == approved
    assert list(containers.runs) == ["observe", "place", "bind", "report"]
    for name in ("bind", "report"):
        summary = containers.runs[name].custom_stats()["wattwise_summaries"][CLUSTER]
        assert summary["placed"] == 6, name
