# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``awx`` playbook with the modules of awx.awx: against a simulated AWX, or AWX_HOST's.

Each module takes a second, so ``make test`` has only the runs of the molecule chain and one of
these tests. tests/unit/lab/test_awx.py runs the modules in one process, with all objects.
"""

from __future__ import annotations

import json
import threading
import typing as t
from pathlib import Path

import pytest
import yaml

from lab.awx.api import ADMINISTRATOR, running_awx
from lab.awx.jobs import Job, Outcome
from lab.process import wait_until
from support.awx import ORGANIZATION, PLAYBOOKS, PREFIX, ROOT, Server, an_awx, configure_awx
from support.playbook import PlaybookRun

Json = dict[str, t.Any]

# Few objects, one of each kind that others refer to.
SMALL: Json = {
    "awx_inventory_sources": [],
    "awx_schedules": [],
    "awx_job_templates": [{"playbook": "place"}],
    "awx_sleep_workflow_nodes": [],
    "awx_credentials": [
        {"name": "BMCs", "type": "bmc_fleet", "inputs": {"username": "u", "password": "hunter2"}}
    ],
    "awx_workflow_nodes": [
        {
            "identifier": "place",
            "playbook": "place",
            "extra_data": {"placement_bind": "false"},
            "success_nodes": ["ask"],
        },
        {"identifier": "ask", "approval": {"name": "Bind?", "timeout": 60}},
    ],
}
FEW: Json = {**SMALL, "awx_credentials": [], "awx_workflow_nodes": []}
NOTHING: Json = {**FEW, "awx_job_templates": []}


def changed(run: PlaybookRun) -> int:
    assert run.returncode == 0, run.output
    return run.stats()["localhost"]["changed"]


def changed_tasks(run: PlaybookRun) -> set[str]:
    """The names of changed tasks, without the role's name."""
    assert run.returncode == 0, run.output
    body = json.loads(run.output[run.output.index("{") :])
    return {
        entry["task"]["name"].rpartition(" : ")[2]
        for play in body["plays"]
        for entry in play["tasks"]
        for result in entry["hosts"].values()
        if result.get("changed")
    }


def names(server: Server, endpoint: str) -> set[str]:
    """The names of our objects, as a user would look for them."""
    found = server.get(f"{endpoint}/", description__endswith=f"organization {ORGANIZATION}.")
    return {item["name"] for item in found["results"]}


@pytest.mark.slow  # The stage of the molecule chain covers it, only for a simulated AWX.
def test_check_mode_makes_no_object_and_a_run_makes_them(tmp_path: Path) -> None:
    with an_awx() as server:

        def run(*arguments: str) -> PlaybookRun:
            given = {**FEW, **server.variables}
            return configure_awx(tmp_path, server.endpoint, server.token, given, *arguments)

        before = names(server, "projects")
        assert changed(run("--check")) == 1
        assert names(server, "projects") == before
        assert changed(run()) > 3
        assert names(server, "job_templates") == {f"{PREFIX}.place"}


@pytest.mark.slow  # The modules of four runs take a minute.
def test_objects_are_made_once_and_go_with_their_variables_and_nothing_else_goes(
    tmp_path: Path,
) -> None:
    with an_awx() as server:

        def run(variables: Json, *arguments: str) -> PlaybookRun:
            given = {**variables, **server.variables}
            return configure_awx(tmp_path, server.endpoint, server.token, given, *arguments)

        made = run(SMALL)
        assert changed(made) > 5
        assert "hunter2" not in made.output
        assert changed(run(SMALL)) == 0
        [organization] = server.get("organizations/", name=ORGANIZATION)["results"]
        by_hand = {"name": "by hand", "organization": organization["id"], "description": "Mine."}
        server.post("inventories/", by_hand)
        assert changed(run(NOTHING, "--check")) > 0
        assert names(server, "job_templates") == {f"{PREFIX}.place"}
        assert changed(run(NOTHING)) > 0
        assert names(server, "job_templates") == names(server, "workflow_job_templates") == set()
        assert names(server, "credentials") == set()
        assert names(server, "projects") == {PREFIX}
        assert server.get("inventories/", name="by hand")["count"] == 1


def test_nothing_is_touched_where_names_belong_to_others_or_nobody_may_log_in(
    tmp_path: Path,
) -> None:
    with running_awx(PLAYBOOKS) as awx:
        token = awx.token_of(ADMINISTRATOR[0])
        awx.store.create("organizations", {"name": ORGANIZATION})
        number, _item = awx.find("organizations", ORGANIZATION)
        theirs = {"name": PREFIX, "organization": number, "description": "By hand."}
        awx.store.create("projects", theirs)
        refused = configure_awx(tmp_path, awx.endpoint, token, SMALL)
        assert f"project {PREFIX}" in refused.failures()["localhost"]
        wrong = {"awx_username": "admin", "awx_password": "hunter2"}
        failed = configure_awx(tmp_path, awx.endpoint, "", {**SMALL, **wrong})
        assert "Cannot log in to AWX" in failed.failures()["localhost"]
        assert "hunter2" not in failed.output
        failed = configure_awx(tmp_path, awx.endpoint, "hunter2", SMALL)
        told = f"Cannot log in to AWX at {awx.endpoint} with its token; check"
        assert failed.failures()["localhost"].startswith(told)
        assert "hunter2" not in failed.output
        assert "HTTP 401" in failed.output
        assert awx.requests == []


def test_a_recurrence_that_awx_refuses_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    case = ROOT / "tests" / "conformance" / "cases" / "24-awx-rrule" / "vars.yml"
    variables = {**FEW, **yaml.safe_load(case.read_text())}
    with running_awx(PLAYBOOKS) as awx:
        login = {"awx_username": ADMINISTRATOR[0], "awx_password": ADMINISTRATOR[1]}
        refused = configure_awx(tmp_path, awx.endpoint, "", {**variables, **login})
        assert "rrule of schedule 'weekly' has no rule" in refused.failures()["localhost"]
        assert awx.requests == []
        assert awx.tokens == {}


@pytest.mark.slow  # Three runs take half a minute.
def test_objects_that_a_job_uses_are_removed_at_its_end_or_named(tmp_path: Path) -> None:
    ends = threading.Event()

    def blocked(_job: Job) -> Outcome:
        ends.wait(120)
        return Outcome()

    with running_awx(PLAYBOOKS, blocked) as awx:
        server = Server(awx.endpoint, awx.token_of(ADMINISTRATOR[0]), {})

        def run(variables: Json) -> PlaybookRun:
            return configure_awx(tmp_path, awx.endpoint, server.token, variables)

        assert changed(run(FEW)) > 3
        number, _item = awx.find("job_templates", f"{PREFIX}.place")
        server.post(f"job_templates/{number}/launch/", {})
        try:
            other = {**NOTHING, "awx_name_prefix": f"{PREFIX} 2"}
            told = run({**other, "awx_removal_timeout": 0}).failures()["localhost"]
            assert told.startswith("AWX did not remove ")
            assert f"inventory {PREFIX}, job template {PREFIX}.place. If jobs use" in told
            assert "Resource is being used by running jobs" in told
            asked = len(awx.requests)

            def release() -> None:
                refused = f"DELETE /api/v2/job_templates/{number}/"
                wait_until(lambda: refused in awx.requests[asked:], 60.0, "a refused removal")
                ends.set()

            releasing = threading.Thread(target=release)
            releasing.start()
            assert changed(run(other)) > 0
            releasing.join()
        finally:
            ends.set()
        assert awx.names("job_templates") == []
        wait_until(lambda: awx.names("inventories") == [f"{PREFIX} 2"], 20.0, "the deletion")


@pytest.mark.slow  # Three runs take half a minute.
def test_the_name_of_an_inventory_that_awx_still_deletes_is_waited_for(tmp_path: Path) -> None:
    few = {**NOTHING, "awx_project_url": "https://git.example.com/ours.git"}
    with running_awx(PLAYBOOKS, deletion_seconds=3600.0) as awx:
        server = Server(awx.endpoint, awx.token_of(ADMINISTRATOR[0]), {})

        def run(**variables: t.Any) -> PlaybookRun:
            return configure_awx(tmp_path, awx.endpoint, server.token, {**few, **variables})

        assert changed(run()) > 3
        number, _item = awx.find("inventories", PREFIX)
        server.ask("DELETE", f"inventories/{number}/")
        told = run(awx_removal_timeout=3).failures()["localhost"]
        assert told.startswith(f"AWX did not delete inventory {PREFIX} within 3 seconds")
        awx.store.delete("inventories", number)
        assert changed(run()) == 1
        assert awx.find("inventories", PREFIX)[0] != number


@pytest.mark.slow  # All objects take a minute; tests in one process cover the same.
def test_every_object_with_a_password_on_an_older_awx(tmp_path: Path) -> None:
    lacking = {"job_templates": frozenset({"ask_diff_mode_on_launch"})}
    variables = {
        "awx_username": ADMINISTRATOR[0],
        "awx_password": ADMINISTRATOR[1],
        "awx_organization": "Hall {{ 1 }} 'ü\"",
        "awx_approver_users": ["ada"],
        "awx_notifications": [
            {
                "name": "hook",
                "type": "webhook",
                "configuration": {
                    "url": "https://example.com",
                    "headers": {},
                    "username": "u",
                    "password": "hunter2",
                },
            }
        ],
        "awx_configuration_path": str(tmp_path / "objects.yml"),
    }
    with running_awx(PLAYBOOKS, lacking=lacking, accounts={"ada": "a"}, version="23.9.0") as awx:
        first = configure_awx(tmp_path, awx.endpoint, "", variables)
        assert changed(first) > 10
        assert "hunter2" not in first.output
        assert "hunter2" not in (tmp_path / "objects.yml").read_text()
        again = configure_awx(tmp_path, awx.endpoint, "", variables)
        assert changed(again) == 0
        assert "no field ask_diff_mode_on_launch" in again.output
        assert awx.tokens == {}
        fewer = {**variables, "awx_approver_users": [], "awx_schedules": []}
        wanted = {
            "Write a file for infra.aap_configuration",
            "Revoke approval from others",
            "Remove schedules",
        }
        checked = configure_awx(tmp_path, awx.endpoint, "", fewer, "--check")
        assert changed_tasks(checked) == wanted
        assert len(awx.names("schedules")) == 1
        assert changed_tasks(configure_awx(tmp_path, awx.endpoint, "", fewer)) == wanted
        assert awx.names("schedules") == []
