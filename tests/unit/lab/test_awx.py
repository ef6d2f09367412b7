# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated AWX with the real modules of awx.awx: all objects of role awx, and a workflow."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.awx import comparison
from lab.awx.api import ADMINISTRATOR, Awx, running_awx
from lab.awx.jobs import Job, Outcome
from lab.process import wait_until
from support.awx import PLAYBOOKS, Refused, Server, apply_in_process, run_module
from support.awx_settings import default_configuration

Json = dict[str, t.Any]

# What the workflow needs.
WORKFLOW_ALONE = {
    "job_templates": [{"playbook": name} for name in ("observe", "place", "bind")],
    "inventory_sources": [],
    "schedules": [],
}
WORKFLOW = "wattwise.kube place with approval"
CREDENTIALS = [
    {"name": "BMCs", "type": "bmc_fleet", "inputs": {"username": "u", "password": "hunter2"}},
    {"name": "hall 1", "type": "cluster", "inputs": {"kubeconfig": "kind: Config"}},
]


def administrator(awx: Awx) -> Server:
    return Server(awx.endpoint, awx.token_of(ADMINISTRATOR[0]), {})


class Recorded:
    """Runs jobs: remembers them, and hands over a plan as role placement does."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.lock = threading.Lock()

    def __call__(self, job: Job) -> Outcome:
        with self.lock:
            self.jobs.append(job)
        stored = {"wattwise_stored_plans": {"hall-1": {"name": "plan-1", "sha256": "ab"}}}
        return Outcome(artifacts=stored if job.playbook.endswith("place.yml") else {})

    def playbooks(self) -> list[str]:
        return [job.playbook.split("/")[-1] for job in self.jobs]


def test_all_objects_are_made_once_and_found_again() -> None:
    lists = default_configuration(
        credentials=CREDENTIALS,
        execution_environment_image="example.com/wattwise:1",
        notifications=[
            {
                "name": "hook",
                "type": "webhook",
                "configuration": {"url": "https://example.com", "headers": {}},
            }
        ],
        organization="Hall {{ 1 }} 'ü\"",
    )
    with running_awx(PLAYBOOKS) as awx:
        server = administrator(awx)
        made = apply_in_process(lists, server)
        assert len(made) > 30
        before = len(awx.requests)
        assert apply_in_process(lists, server) == []
        assert not [line for line in awx.requests[before:] if not line.startswith("PATCH")]
        existing = {
            endpoint: server.get(f"{endpoint}/", page_size="200", **query)["results"]
            for endpoint, query in comparison.queries(lists).items()
        }
        plan = comparison.compare(lists, existing, check_mode=True)
        assert plan["create"] == plan["foreign"] == plan["warnings"] == []
        assert not any(plan["remove"].values())
        assert len(plan["apply"]["nodes"]) == 5


def launched(awx: Awx, server: Server, answers: Json) -> int:
    number, _item = awx.find("workflow_job_templates", WORKFLOW)
    job = server.post(f"workflow_job_templates/{number}/launch/", {"extra_vars": answers})
    return t.cast("int", job["id"])


def ended(awx: Awx, number: int) -> Json:
    record = awx.jobs.records["workflow_jobs"][number]
    wait_until(lambda: record["finished"] is not None, 20.0, "the workflow to end")
    return record


def test_nothing_is_bound_before_somebody_who_may_approves() -> None:
    """The workflow of the role's defaults, from observe to report."""
    recorded = Recorded()
    lists = default_configuration(credentials=CREDENTIALS, **WORKFLOW_ALONE)
    with running_awx(PLAYBOOKS, recorded, accounts={"ada": "a", "eve": "e"}) as awx:
        server = administrator(awx)
        apply_in_process(lists, server)
        rights = {"role": "approval", "workflows": [WORKFLOW], "users": ["ada"]}
        assert run_module("role", rights, server)["changed"]
        assert not run_module("role", rights, server)["changed"]
        number = launched(awx, server, {})
        nodes = f"workflow_jobs/{number}/workflow_nodes/"
        wait_until(
            lambda: bool(server.get(nodes, job__name="Bind?")["results"]), 20.0, "the approval"
        )
        assert recorded.playbooks() == ["observe.yml", "place.yml"]
        placed = recorded.jobs[1]
        assert placed.extra_vars["placement_bind"] == "false"
        assert placed.extra_vars["placement_store_plan"] == "true"
        assert placed.extra_vars["placement_strategy"] == "optimal"
        assert placed.environment["WATTWISE_REDFISH_PASSWORD"] == "hunter2"
        [waiting] = server.get(nodes, job__name="Bind?")["results"]
        decision = waiting["related"]["job"].removeprefix("/api/v2/") + "approve/"
        with pytest.raises(Refused, match="permission") as refused:
            server.post(decision, {}, token=awx.token_of("eve"))
        assert refused.value.status == 403
        server.post(decision, {}, token=awx.token_of("ada"))
        assert ended(awx, number)["status"] == "successful"
        assert recorded.playbooks() == ["observe.yml", "place.yml", "bind.yml", "place.yml"]
        assert recorded.jobs[3].tags == "observe,report"
        plans = recorded.jobs[2].extra_vars["wattwise_stored_plans"]
        assert plans == {"hall-1": {"name": "plan-1", "sha256": "ab"}}


def test_an_approval_that_nobody_gives_in_time_binds_nothing() -> None:
    recorded = Recorded()
    lists = default_configuration(**WORKFLOW_ALONE)
    nodes = lists["controller_workflows"][0]["simplified_workflow_nodes"]
    nodes[2]["approval_node"]["timeout"] = 1
    with running_awx(PLAYBOOKS, recorded) as awx:
        server = administrator(awx)
        apply_in_process(lists, server)
        assert ended(awx, launched(awx, server, {}))["status"] == "failed"
        assert "bind.yml" not in recorded.playbooks()
        [approval] = awx.jobs.records["workflow_approvals"].values()
        assert approval["timed_out"]


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ({"placement_time_limit": 0}, "too small"),
        ({"placement_time_limit": 3601}, "too large"),
        ({"placement_time_limit": "10"}, "numeric"),
        ({"placement_strategy": "fastest"}, "expected to be one of"),
        ({"observe_gather": ["inlet", "noise"]}, "expected to be one of"),
        ({"wattwise_kubeconfig": "/etc/passwd"}, "not allowed on launch"),
    ],
)
def test_answers_outside_the_limits_of_a_survey_start_no_job(
    surveyed: tuple[Awx, Server], answers: Json, sentence: str
) -> None:
    awx, server = surveyed
    number, _item = awx.find("job_templates", "wattwise.kube.place")
    with pytest.raises(Refused, match=sentence) as refused:
        server.post(f"job_templates/{number}/launch/", {"extra_vars": answers})
    assert refused.value.status == 400
    assert awx.jobs.records["jobs"] == {}


@pytest.fixture(scope="module")
def surveyed() -> t.Iterator[tuple[Awx, Server]]:
    """An AWX with the job template of place."""
    only = {"job_templates": [{"playbook": "place"}], "workflow_nodes": [], "schedules": []}
    lists = default_configuration(**only)
    with running_awx(PLAYBOOKS) as awx:
        server = administrator(awx)
        apply_in_process(lists, server)
        yield awx, server


def test_modules_tell_what_awx_refuses(surveyed: tuple[Awx, Server]) -> None:
    awx, server = surveyed
    nobody = Server(server.endpoint, "no token", {})
    told = run_module("organization", {"name": "x"}, nobody)
    assert "Invalid authentication credentials" in told["msg"]
    template = {
        "name": "x",
        "organization": "Default",
        "project": "wattwise.kube",
        "playbook": "playbooks/absent.yml",
    }
    assert "Playbook not found" in str(run_module("job_template", template, server))
    survey = {"name": "", "description": "", "spec": [{"type": "text"}]}
    surveyed_template = {"name": "wattwise.kube.place", "survey_spec": survey}
    assert "missing" in str(run_module("job_template", surveyed_template, server))
    unknown = {
        "name": "x",
        "organization": "Default",
        "credential_type": "wattwise.kube cluster",
        "inputs": {"kubeconfig": "k", "surprise": "s"},
    }
    assert "surprise" in str(run_module("credential", unknown, server))
    assert "x" not in awx.names("credentials")
