# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rulebook for AWX, in the real ansible-rulebook: an alarm starts a job of the simulated AWX.

tests/integration/test_installed_collection.py runs the rulebook whose action is a playbook.
"""

from __future__ import annotations

import threading
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import utc_now
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time
from lab.awx.api import ADMINISTRATOR, running_awx
from lab.awx.jobs import Job, Outcome
from support.alarmed_fleet import AlarmedFleet
from support.awx import PLAYBOOKS, Server, apply_in_process
from support.awx_settings import WORKFLOW_ALONE, default_configuration
from support.playbook import environment
from support.rulebook import java_folder, running_rulebook
from support.scripted_api import ScriptedApi

ORGANIZATION = "Hall 1"


class Recorded:
    """Runs jobs and records them."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self._lock = threading.Lock()

    def __call__(self, job: Job) -> Outcome:
        with self._lock:
            self.jobs.append(job)
        return Outcome()

    def of(self, playbook: str) -> list[Job]:
        return [job for job in self.jobs if job.playbook == f"playbooks/{playbook}.yml"]


def test_a_hot_inlet_starts_a_job_template_and_waiting_pods_the_workflow(tmp_path: Path) -> None:
    """Both machines get hot within one check, and one job places for both."""
    java_folder()
    fleet, recorded = AlarmedFleet(), Recorded()
    for name in fleet.configs:
        fleet.says(name, 30.0, 100.0, time=format_time(utc_now()))
    late = {"name": "late", "creationTimestamp": "2026-01-02T11:50:00Z"}
    fleet.pods = [{"metadata": late, "spec": {"schedulerName": "wattwise"}}]
    lists = default_configuration(organization=ORGANIZATION, **WORKFLOW_ALONE)
    with (
        ScriptedApi(fleet.answer) as api,
        running_awx(PLAYBOOKS, recorded) as awx,
    ):
        server = Server(awx.endpoint, awx.token_of(ADMINISTRATOR[0]), {})
        apply_in_process(lists, server)
        (tmp_path / "kubeconfig").write_text(kubeconfig(api.url))
        variables = {
            "wattwise_kubeconfig": str(tmp_path / "kubeconfig"),
            "awx_organization": ORGANIZATION,
        }
        controller = ("--controller-url", awx.endpoint, "--controller-token", server.token)
        started = running_rulebook(
            "wattwise.kube.job_templates", tmp_path, variables, environment(), *controller
        )
        with started as rulebook:
            asked = awx.jobs.records["workflow_approvals"]
            rulebook.wait_until(
                lambda: len(recorded.of("place")) == 2 and bool(asked),
                "a job of the template and one of the workflow",
            )
    answers = [job.extra_vars["placement_rebalance"] for job in recorded.of("place")]
    assert sorted(answers) == ["false", "true"]
    assert not any("ansible_eda" in job.extra_vars for job in recorded.jobs)


def kubeconfig(url: str) -> str:
    return (
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: c, cluster: {{server: {url}}}}}]\n"
        "users: [{name: u, user: {}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
