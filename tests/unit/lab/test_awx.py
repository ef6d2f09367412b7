# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated AWX with modules of awx.awx: the ``awx`` role's objects, and a workflow."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.awx import comparison
from ansible_collections.wattwise.kube.plugins.module_utils.awx.configuration import Configuration
from lab.awx.api import ADMINISTRATOR, running_awx
from lab.awx.instance import Awx
from lab.awx.jobs import Job, Outcome
from lab.process import wait_until
from support.awx import (
    ORGANIZATION,
    PLAYBOOKS,
    PREFIX,
    ForeignObjects,
    Refused,
    Server,
    an_awx,
    apply_in_process,
    configuration_of,
    run_module,
)
from support.awx_settings import WORKFLOW_ALONE, default_configuration, default_settings

Json = dict[str, t.Any]

WORKFLOW = "wattwise.kube place with approval"
SLEEP_WORKFLOW = "wattwise.kube sleep with approval"
HANDED = {"name": "plan-1", "sha256": "ab"}
CREDENTIALS = [
    {"name": "BMCs", "type": "bmc_fleet", "inputs": {"username": "u", "password": "hunter2"}},
    {"name": "hall 1", "type": "cluster", "inputs": {"kubeconfig": "kind: Config"}},
]


def administrator(awx: Awx) -> Server:
    return Server(awx.endpoint, awx.token_of(ADMINISTRATOR[0]), {})


class Recorded:
    """Runs jobs: records them, and hands over a plan as the roles do that store one."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.lock = threading.Lock()

    def __call__(self, job: Job) -> Outcome:
        with self.lock:
            self.jobs.append(job)
        handed = {"place.yml": "wattwise_stored_plans", "sleep.yml": "wattwise_stored_sleep_plans"}
        name = handed.get(job.playbook.split("/")[-1])
        return Outcome(artifacts={name: {"hall-1": HANDED}} if name else {})

    def playbooks(self) -> list[str]:
        return [job.playbook.split("/")[-1] for job in self.jobs]


def plan_for(lists: Configuration, server: Server, check_mode: bool = False) -> Json:
    existing = {
        endpoint: server.get(f"{endpoint}/", page_size="200", **query)["results"]
        for endpoint, query in comparison.queries(lists).items()
    }
    return comparison.compare(lists, existing, check_mode)


def parts(plan: Json) -> Json:
    """The parts of a plan that a run carries out, without removals."""
    return {**plan["apply"], "cut": plan["cut"], "replace": plan["replace"]}


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
        needed = {**lists, **parts(plan_for(lists, server))}
        assert apply_in_process(needed, server) == []
        assert not [line for line in awx.requests[before:] if not line.startswith("PATCH")]
        plan = plan_for(lists, server, check_mode=True)
        assert plan["create"] == plan["foreign"] == plan["warnings"] == []
        assert not any(plan["remove"].values())
        assert len(plan["apply"]["nodes"]) == 8


def test_a_workflow_that_turns_around_gets_its_new_links_and_keeps_its_templates() -> None:
    """AWX refuses circles and a second link between two nodes, also for a moment."""
    with running_awx(PLAYBOOKS) as awx:
        server = administrator(awx)
        apply_in_process(default_configuration(**WORKFLOW_ALONE), server)
        templates = sorted(awx.names("job_templates"))
        turned = default_configuration(
            **WORKFLOW_ALONE,
            workflow_nodes=[
                {"identifier": "bind", "playbook": "bind", "failure_nodes": ["report"]},
                {"identifier": "report", "playbook": "place", "always_nodes": ["place"]},
                {"identifier": "place", "playbook": "place", "success_nodes": ["observe"]},
                {"identifier": "observe", "approval": {"name": "Observe?"}},
                {"identifier": "approval", "playbook": "bind", "success_nodes": ["observe"]},
            ],
        )
        assert apply_in_process({**turned, **parts(plan_for(turned, server))}, server)
        assert sorted(awx.names("job_templates")) == templates
        plan = plan_for(turned, server)
        assert plan["cut"] == plan["replace"] == []
        assert apply_in_process({**turned, **parts(plan)}, server) == []


def launched(awx: Awx, server: Server, answers: Json, workflow: str = WORKFLOW) -> int:
    number, _item = awx.find("workflow_job_templates", workflow)
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
        permissions = {"role": "approval", "workflows": [WORKFLOW], "users": ["ada"]}
        assert run_module("role", permissions, server)["changed"]
        assert not run_module("role", permissions, server)["changed"]
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
        assert plans == {"hall-1": HANDED}


def test_no_machine_is_switched_off_before_somebody_who_may_approves() -> None:
    """The sleep workflow of the role's defaults: the planning job wakes, but switches nothing off."""
    recorded = Recorded()
    templates = [{"playbook": name} for name in ("sleep", "switch_off")]
    lists = default_configuration(
        job_templates=templates,
        inventory_sources=[],
        schedules=[],
        workflow_nodes=[],
        approver_users=["ada"],
    )
    assert lists["controller_roles"][0]["workflows"] == [SLEEP_WORKFLOW]
    with running_awx(PLAYBOOKS, recorded, accounts={"ada": "a", "eve": "e"}) as awx:
        server = administrator(awx)
        apply_in_process(lists, server)
        run_module("role", lists["controller_roles"][0], server)
        number = launched(awx, server, {}, SLEEP_WORKFLOW)
        nodes = f"workflow_jobs/{number}/workflow_nodes/"
        wait_until(
            lambda: bool(server.get(nodes, job__name="Bind?")["results"]), 20.0, "the approval"
        )
        assert recorded.playbooks() == ["sleep.yml"]
        answers = recorded.jobs[0].extra_vars
        assert (answers["sleep_mode"], answers["sleep_store_plan"]) == ("with_approval", "true")
        [waiting] = server.get(nodes, job__name="Bind?")["results"]
        decision = waiting["related"]["job"].removeprefix("/api/v2/") + "approve/"
        with pytest.raises(Refused, match="permission"):
            server.post(decision, {}, token=awx.token_of("eve"))
        server.post(decision, {}, token=awx.token_of("ada"))
        assert ended(awx, number)["status"] == "successful"
        assert recorded.playbooks() == ["sleep.yml", "switch_off.yml"]
        assert recorded.jobs[1].extra_vars["wattwise_stored_sleep_plans"] == {"hall-1": HANDED}
        # Nobody can give the job another plan.
        template, _item = awx.find("job_templates", "wattwise.kube.switch_off")
        given = {"wattwise_stored_sleep_plans": {"hall-1": {"sha256": "cd"}}}
        started = server.post(f"job_templates/{template}/launch/", {"extra_vars": given})
        assert started["ignored_fields"] == {"extra_vars": given}


def with_short_approval(**given: t.Any) -> Configuration:
    """The objects with an approval that expires after a second."""
    lists = default_configuration(**given)
    nodes = lists["controller_workflows"][0]["simplified_workflow_nodes"]
    nodes[2]["approval_node"]["timeout"] = 1
    return lists


def test_an_approval_that_nobody_gives_in_time_binds_nothing() -> None:
    recorded = Recorded()
    lists = with_short_approval(**WORKFLOW_ALONE)
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
    ],
)
def test_answers_outside_the_limits_of_a_survey_start_no_job(
    surveyed: Server, answers: Json, sentence: str
) -> None:
    [template] = surveyed.get(
        "job_templates/", name=f"{PREFIX}.place", organization__name=ORGANIZATION
    )["results"]
    with pytest.raises(Refused, match=sentence) as refused:
        surveyed.post(f"job_templates/{template['id']}/launch/", {"extra_vars": answers})
    assert refused.value.status == 400
    assert surveyed.get("jobs/", name=f"{PREFIX}.place")["count"] == 0


def test_a_job_gets_no_variable_that_its_survey_does_not_ask_for() -> None:
    """AWX starts the job and names the variables that it ignored; a workflow is refused."""
    recorded = Recorded()
    lists = default_configuration(**WORKFLOW_ALONE)
    given = {"wattwise_kubeconfig": "/etc/passwd", "wattwise_stored_plans": {"hall-1": {}}}
    with running_awx(PLAYBOOKS, recorded) as awx:
        server = administrator(awx)
        apply_in_process(lists, server)
        number, _item = awx.find("job_templates", "wattwise.kube.bind")
        launch = f"job_templates/{number}/launch/"
        answers = {**given, "placement_allow_evict": "true"}
        started = server.post(launch, {"extra_vars": answers})
        assert started["ignored_fields"] == {"extra_vars": given}
        record = awx.jobs.records["jobs"][started["id"]]
        wait_until(lambda: record["finished"] is not None, 20.0, "the job to end")
        [job] = recorded.jobs
        assert not given.keys() & job.extra_vars.keys()
        assert job.extra_vars["placement_allow_evict"] == "true"
        with pytest.raises(Refused, match="not allowed on launch"):
            launched(awx, server, given)


@pytest.mark.parametrize(("source", "is_needed"), [("clusters", True), ("nodes", False)])
def test_a_source_of_the_inventory_that_fails_on_launch_ends_the_workflow_before_any_job(
    source: str, is_needed: bool
) -> None:
    """Source nodes is updated only on request, so a job does not wait for it."""
    recorded = Recorded()
    lists = with_short_approval(
        **{**WORKFLOW_ALONE, "inventory_sources": default_settings()["inventory_sources"]}
    )
    with running_awx(PLAYBOOKS, recorded, failing_sources=frozenset({source})) as awx:
        server = administrator(awx)
        apply_in_process(lists, server)
        assert ended(awx, launched(awx, server, {}))["status"] == "failed"
        jobs = server.get("jobs/")["results"]
        if is_needed:
            assert recorded.jobs == []
            [observe] = jobs
            assert observe["name"] == "wattwise.kube.observe"
            assert "inventory_update" in observe["job_explanation"]
        else:
            assert recorded.playbooks() == ["observe.yml", "place.yml"]


@pytest.fixture(scope="module")
def surveyed() -> t.Iterator[Server]:
    """An AWX with the job template of place, a real one if AWX_HOST names it."""
    only = {**WORKFLOW_ALONE, "job_templates": [{"playbook": "place"}], "workflow_nodes": []}
    with an_awx() as server:
        apply_in_process(configuration_of(server, **only), server)
        yield server


def test_modules_tell_what_awx_refuses(surveyed: Server) -> None:
    nobody = Server(surveyed.endpoint, "no token", {})
    told = run_module("organization", {"name": "x"}, nobody)
    assert "Invalid authentication credentials" in told["msg"]
    new = {"name": "x", "organization": ORGANIZATION}
    template = {**new, "project": PREFIX, "playbook": "playbooks/absent.yml"}
    assert "Playbook not found" in str(run_module("job_template", template, surveyed))
    survey = {"name": "", "description": "", "spec": [{"type": "text"}]}
    surveyed_template = {"name": f"{PREFIX}.place", "survey_spec": survey}
    assert "missing" in str(run_module("job_template", surveyed_template, surveyed))
    inputs = {"kubeconfig": "k", "surprise": "s"}
    unknown = {**new, "credential_type": f"{PREFIX} cluster", "inputs": inputs}
    assert "surprise" in str(run_module("credential", unknown, surveyed))
    assert surveyed.get("credentials/", name="x")["count"] == 0


@pytest.fixture
def as_real(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Awx]:
    """A simulated AWX in place of a real one, with objects that another user of the role made."""
    with running_awx(PLAYBOOKS) as awx:
        apply_in_process(
            default_configuration(organization="Default", **WORKFLOW_ALONE), administrator(awx)
        )
        monkeypatch.setenv("AWX_HOST", awx.endpoint)
        monkeypatch.setenv("AWX_TOKEN", awx.token_of(ADMINISTRATOR[0]))
        monkeypatch.setenv("AWX_PROJECT_URL", "https://git.example.com/ours.git")
        yield awx


def test_tests_leave_an_awx_that_a_person_names_as_it_was(as_real: Awx) -> None:
    before = {kind: list(items) for kind, items in as_real.store.objects.items()}
    asked = len(as_real.requests)
    with an_awx() as server:
        only = {
            "job_templates": [{"playbook": "observe"}, {"playbook": "sleep"}],
            "workflow_nodes": [],
            "sleep_workflow_nodes": [],
        }
        lists = configuration_of(server, credentials=CREDENTIALS, **only)
        assert lists["controller_projects"][0]["scm_url"] == "https://git.example.com/ours.git"
        apply_in_process(lists, server)
        assert as_real.names("schedules") and as_real.names("inventory_sources")
        # A project that is read when the tests end delays its removal.
        [project] = server.get("projects/", name=PREFIX)["results"]
        server.post(f"projects/{project['id']}/update/", {})
    assert {kind: list(items) for kind, items in as_real.store.objects.items()} == before
    theirs = {str(number) for numbers in before.values() for number in numbers}
    writes = [line.split("/") for line in as_real.requests[asked:]]
    assert not [parts for parts in writes if parts[4] in theirs]


@pytest.mark.parametrize(
    ("endpoint", "given"),
    [
        ("organizations", {"name": ORGANIZATION, "description": "Ours."}),
        ("credential_types", {"name": f"{PREFIX} cluster", "kind": "cloud"}),
        ("execution_environments", {"name": PREFIX, "image": "example.com/theirs:1"}),
    ],
)
def test_tests_touch_nothing_where_an_object_of_somebody_else_has_their_name(
    as_real: Awx, endpoint: str, given: Json
) -> None:
    as_real.store.create(endpoint, given)
    before = list(as_real.requests)
    with pytest.raises(ForeignObjects, match=given["name"]), an_awx():
        pass
    assert as_real.requests == before
