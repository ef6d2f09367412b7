# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Status and body of the refusals of AWX 24.6, in the simulated AWX."""

from __future__ import annotations

import json
import threading
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lab.awx.api import ADMINISTRATOR, running_awx
from lab.awx.instance import Awx
from lab.awx.jobs import Job, Outcome
from lab.process import wait_until
from support.awx import Refused, Server

Json = dict[str, t.Any]

PLAYBOOK = "playbooks/place.yml"
FORBIDDEN = {"detail": "You do not have permission to perform this action."}
NOT_PROMPTED = ["Field is not configured to prompt on launch."]
DAILY = "DTSTART:20300308T050000Z RRULE:FREQ=DAILY;INTERVAL=1"


@dataclass(frozen=True)
class Site:
    """An AWX with one object of most kinds."""

    awx: Awx
    server: Server
    organization: int
    project: int
    inventory: int
    template: int
    workflow: int

    def make(self, endpoint: str, /, **given: t.Any) -> int:
        return int(self.server.post(f"{endpoint}/", given)["id"])

    def refused(
        self, method: str, path: str, body: Json | None = None, token: str = ""
    ) -> tuple[int, Json]:
        with pytest.raises(Refused) as refused:
            self.server.ask(method, path, body, token or None)
        return refused.value.status, json.loads(refused.value.text)

    def node(self, identifier: str, **given: t.Any) -> int:
        place = {"identifier": identifier, "workflow_job_template": self.workflow}
        return self.make("workflow_job_template_nodes", **place, **given)

    def launched(self, kind: str, number: int) -> Json:
        return self.server.post(f"{kind}/{number}/launch/", {})


ENDS = threading.Event()


def _until_the_end(_job: Job) -> Outcome:
    ENDS.wait(60)
    return Outcome()


@pytest.fixture
def site() -> Iterator[Site]:
    ENDS.clear()
    accounts = {"ada": "a", "eve": "e"}
    with running_awx(frozenset({PLAYBOOK}), _until_the_end, accounts=accounts) as awx:
        server = Server(awx.endpoint, awx.token_of(ADMINISTRATOR[0]), {})

        def make(kind: str, **given: t.Any) -> int:
            return int(server.post(f"{kind}/", {"name": "ours", **given})["id"])

        organization = make("organizations")
        ours = {"organization": organization}
        project = make("projects", scm_type="git", scm_url="https://git.example.com/x.git", **ours)
        wait_until(lambda: project in awx.store.updated, 20.0, "the project's update")
        inventory = make("inventories", **ours)
        runs = {"project": project, "inventory": inventory, "playbook": PLAYBOOK}
        template = make("job_templates", **runs, **ours)
        workflow = make("workflow_job_templates", **ours)
        try:
            yield Site(awx, server, organization, project, inventory, template, workflow)
        finally:
            ENDS.set()


@pytest.mark.parametrize("query", ["or__name__in=", "name__in=", "id__in="])
@pytest.mark.parametrize("kind", ["schedules", "jobs", "unified_job_templates"])
def test_an_empty_list_in_a_query(site: Site, kind: str, query: str) -> None:
    body = {"detail": "cannot provide empty value for __in"}
    name, _, _ = query.partition("=")
    with pytest.raises(Refused) as refused:
        site.server.get(f"{kind}/", **{name: ""})
    assert (refused.value.status, json.loads(refused.value.text)) == (400, body)


def test_objects_that_a_running_job_uses_stay(site: Site) -> None:
    job = site.launched("job_templates", site.template)
    active = [{"id": job["id"], "type": "job"}]
    body = {"error": "Resource is being used by running jobs.", "active_jobs": active}
    used = {
        "job_templates": site.template,
        "inventories": site.inventory,
        "projects": site.project,
        "organizations": site.organization,
    }
    for kind, number in used.items():
        assert site.refused("DELETE", f"{kind}/{number}/") == (409, body), kind
    ENDS.set()
    record = site.awx.jobs.records["jobs"][job["id"]]
    wait_until(lambda: record["finished"] is not None, 20.0, "the job to end")
    for kind, number in used.items():
        site.server.delete(f"{kind}/{number}/")


def test_a_running_workflow_keeps_its_template(site: Site) -> None:
    node = site.node("ask")
    site.server.post(f"workflow_job_template_nodes/{node}/create_approval_template/", {"name": "?"})
    job = site.launched("workflow_job_templates", site.workflow)
    status, body = site.refused("DELETE", f"workflow_job_templates/{site.workflow}/")
    assert status == 409
    assert body["active_jobs"] == [{"id": job["id"], "type": "workflow_job"}]


def test_an_inventory_is_deleted_in_the_background(site: Site) -> None:
    path = f"inventories/{site.inventory}/"
    site.server.ask("DELETE", path)
    assert site.server.get(path)["pending_deletion"] is True
    assert site.server.get(f"job_templates/{site.template}/")["inventory"] is None
    pending = {"error": "Inventory is already pending deletion."}
    assert site.refused("DELETE", path) == (400, pending)
    same = {"name": "ours", "organization": site.organization}
    taken = {"__all__": ["Inventory with this Name and Organization already exists."]}
    assert site.refused("POST", "inventories/", same) == (400, taken)
    wait_until(lambda: not site.awx.names("inventories"), 20.0, "the deletion")
    assert site.make("inventories", **same)


def test_accounts_without_permission_and_tokens_to_read_change_nothing(site: Site) -> None:
    eve = site.awx.token_of("eve")
    reading = site.awx.token_of(ADMINISTRATOR[0], "read")
    before = {kind: dict(items) for kind, items in site.awx.store.objects.items()}
    place = f"job_templates/{site.template}/"
    for token in (eve, reading):
        for method, path, body in (
            ("POST", "organizations/", {"name": "new"}),
            ("POST", "credential_types/", {"name": "new", "kind": "cloud"}),
            ("POST", "projects/", {"name": "new", "organization": site.organization}),
            ("PATCH", place, {"name": "new"}),
            ("POST", f"{place}launch/", {}),
            ("POST", f"{place}survey_spec/", {}),
            ("POST", f"{place}credentials/", {"id": 1}),
            ("DELETE", place, None),
        ):
            assert site.refused(method, path, body, token) == (403, FORBIDDEN), path
        assert site.server.ask("GET", f"{place}?page_size=1", token=token)["name"] == "ours"
    assert site.awx.store.objects == before


def test_an_administrator_of_the_organization_makes_all_but_global_objects(site: Site) -> None:
    ada, _item = site.awx.find("users", "ada")
    [shown] = site.server.get("organizations/", name="ours")["results"]
    role = shown["summary_fields"]["object_roles"]["admin_role"]["id"]
    site.server.post(f"roles/{role}/users/", {"id": ada})
    token = site.awx.token_of("ada")
    made = {"name": "new", "organization": site.organization}
    site.server.post("inventories/", made, token)
    site.server.post(
        "schedules/", {**made, "unified_job_template": site.template, "rrule": DAILY}, token
    )
    types = {"name": "new", "kind": "cloud"}
    assert site.refused("POST", "credential_types/", types, token) == (403, FORBIDDEN)
    assert site.refused("POST", "organizations/", {"name": "new"}, token) == (403, FORBIDDEN)


@pytest.mark.parametrize(
    ("rrule", "problems"),
    [
        (
            "DTSTART;TZID=UTC:20210101T070000 FREQ=WEEKLY;INTERVAL=1",
            ["One or more rule required in rrule."],
        ),
        (
            "RRULE:FREQ=DAILY;INTERVAL=1",
            [
                "Valid DTSTART required in rrule. Value should start with: DTSTART:YYYYMMDDTHHMMSSZ",
            ],
        ),
        (
            "DTSTART:20300308T050000Z RRULE:FREQ=DAILY",
            ["INTERVAL required in rrule: RULE:FREQ=DAILY"],
        ),
        (
            "DTSTART:20300308T050000Z RRULE:FREQ=DAILY;INTERVAL=1;COUNT=2000",
            ["COUNT > 999 is unsupported: RULE:FREQ=DAILY;INTERVAL=1;COUNT=2000"],
        ),
        (f"{DAILY} EXDATE:20220401", ["EXDATE not allowed in rrule."]),
    ],
)
def test_recurrences(site: Site, rrule: str, problems: list[str]) -> None:
    given = {"name": "s", "unified_job_template": site.template, "rrule": rrule}
    status, body = site.refused("POST", "schedules/", given)
    assert status == 400
    told = [problem for problem in body["rrule"] if "parsing failed" not in problem]
    assert told == problems


def test_notifications_are_checked_and_completed(site: Site) -> None:
    given = {"name": "hook", "organization": site.organization, "notification_type": "webhook"}
    missing = "Missing required fields for Notification Configuration: ['headers']."
    wrong = "Configuration field 'headers' incorrect type, expected object."
    for configuration, problem in (
        ({"url": "https://example.com"}, missing),
        ({"url": "https://example.com", "headers": ""}, wrong),
        (
            {"url": "https://example.com", "headers": {}, "http_method": "GET"},
            "HTTP method must be either 'POST' or 'PUT'.",
        ),
    ):
        body = {**given, "notification_configuration": configuration}
        told = {"__all__": [problem]}
        assert site.refused("POST", "notification_templates/", body) == (400, told)
    complete = {"url": "https://example.com", "headers": {}, "password": "hunter2"}
    made = site.server.post(
        "notification_templates/", {**given, "notification_configuration": complete}
    )
    assert made["notification_configuration"] == {
        **complete,
        "http_method": "POST",
        "disable_ssl_verification": False,
        "username": "",
        "password": "$encrypted$",
    }
    messages = {"approvals": {"message": "m"}}
    told = {
        "messages": [
            "Event 'approvals' invalid, must be one of 'started', 'success', 'error', or "
            "'workflow_approval'"
        ]
    }
    path = f"notification_templates/{made['id']}/"
    assert site.refused("PATCH", path, {"messages": messages}) == (400, told)
    mail = {**given, "name": "mail", "notification_type": "email", "notification_configuration": {}}
    status, refusal = site.refused("POST", "notification_templates/", mail)
    assert status == 400
    assert "['host', 'port', 'username'," in refusal["__all__"][0]


def test_credentials_have_an_owner_and_keys_are_keys(site: Site) -> None:
    fields = [
        {"id": "key", "label": "Key", "type": "string", "secret": True, "format": "ssh_private_key"}
    ]
    kind = site.make("credential_types", name="c", kind="cloud", inputs={"fields": fields})
    given: Json = {"name": "c", "credential_type": kind}
    owner = {"detail": ["Missing 'user', 'team', or 'organization'."]}
    assert site.refused("POST", "credentials/", given) == (400, owner)
    given |= {"organization": site.organization, "inputs": {"key": "hunter2"}}
    told = {"inputs": {"key": ["Invalid certificate or key: hunter2..."]}}
    assert site.refused("POST", "credentials/", given) == (400, told)
    key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    site.make("credentials", **{**given, "inputs": {"key": key}})


def test_links_of_a_workflow(site: Site) -> None:
    first, second, third = (site.node(name) for name in "abc")
    nodes = "workflow_job_template_nodes"

    def links(node: int, name: str) -> str:
        return f"{nodes}/{node}/{name}_nodes/"

    site.server.post(links(first, "success"), {"id": second})
    site.server.post(links(first, "success"), {"id": second})
    site.server.post(links(second, "always"), {"id": third})
    twice = {"Error": "Relationship not allowed."}
    assert site.refused("POST", links(first, "failure"), {"id": second}) == (400, twice)
    circle = {"Error": "Cycle detected."}
    assert site.refused("POST", links(third, "failure"), {"id": first}) == (400, circle)
    assert site.refused("POST", links(first, "always"), {"id": first}) == (400, circle)
    shown = site.server.get(f"{nodes}/{first}/")
    assert (shown["success_nodes"], shown["failure_nodes"]) == ([second], [])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"job_tags": "observe"}, {"job_tags": NOT_PROMPTED}),
        ({"limit": "hall-1"}, {"limit": NOT_PROMPTED}),
        ({"job_type": "check"}, {"job_type": NOT_PROMPTED}),
        (
            {"extra_data": {"surprise": 1}},
            {
                "extra_data": [
                    "Variables surprise are not allowed on launch. Check the Prompt on Launch "
                    "setting on the Job Template to include Extra Variables."
                ]
            },
        ),
    ],
)
def test_prompts_that_a_template_does_not_ask_for(site: Site, given: Json, told: Json) -> None:
    node = {"identifier": "a", "workflow_job_template": site.workflow}
    node |= {"unified_job_template": site.template}
    path = "workflow_job_template_nodes/"
    assert site.refused("POST", path, {**node, **given}) == (400, told)
    schedule = {"name": "s", "unified_job_template": site.template, "rrule": DAILY}
    assert site.refused("POST", "schedules/", {**schedule, **given}) == (400, told)
    project = {**schedule, "unified_job_template": site.project}
    for field in given.keys() - {"extra_data"}:
        refused = {field: ["Field is not allowed on launch."]}
        assert site.refused("POST", "schedules/", {**project, **given}) == (400, refused)


def test_a_project_has_its_playbooks_after_its_first_update(site: Site) -> None:
    new = {"name": "new", "organization": site.organization}
    made = site.server.post("projects/", {**new, "scm_type": "git", "scm_url": "https://x/y.git"})
    update = made["summary_fields"]["current_update"]
    assert update["status"] in ("pending", "running")
    template = {**new, "project": made["id"], "playbook": PLAYBOOK}
    told = {"playbook": ["Playbook not found for project."]}
    assert site.refused("POST", "job_templates/", template) == (400, told)
    busy = site.refused("DELETE", f"projects/{made['id']}/")
    assert busy[0] == 409
    assert busy[1]["active_jobs"] == [{"id": update["id"], "type": "project_update"}]
    path = f"project_updates/{update['id']}/"
    wait_until(lambda: site.server.get(path)["status"] == "successful", 20.0, "the update")
    summary = site.server.get(f"projects/{made['id']}/")["summary_fields"]
    assert summary["last_update"]["id"] == update["id"]
    assert "current_update" not in summary
    assert site.make("job_templates", **template)


@pytest.mark.parametrize("waits", [True, False])
def test_another_approval_of_a_node_ends_a_running_workflow(site: Site, waits: bool) -> None:
    """A waiting approval is denied; one that the workflow has not reached is missing."""
    first = site.node("job", unified_job_template=site.template)
    ask = site.node("ask")
    site.server.post(f"workflow_job_template_nodes/{first}/success_nodes/", {"id": ask})
    path = f"workflow_job_template_nodes/{ask}/create_approval_template/"
    site.server.post(path, {"name": "Bind?"})
    job = site.launched("workflow_job_templates", site.workflow)
    approvals = site.awx.jobs.records["workflow_approvals"]
    if waits:
        ENDS.set()
        wait_until(lambda: bool(approvals), 20.0, "the approval")
    site.server.post(path, {"name": "Bind?"})
    ENDS.set()
    record = site.awx.jobs.records["workflow_jobs"][job["id"]]
    wait_until(lambda: record["finished"] is not None, 20.0, "the workflow to end")
    assert record["status"] == "failed"
    told = "No error handling paths found, marking workflow as failed"
    assert record["job_explanation"] == told
    assert [each["status"] for each in approvals.values()] == (["failed"] if waits else [])


def test_users_need_a_password_and_roles_need_users(site: Site) -> None:
    password = {"password": ["Password required for new User."]}
    assert site.refused("POST", "users/", {"username": "bob"}) == (400, password)
    number = site.make("users", username="bob", password="hunter2")
    assert site.server.get(f"users/{number}/")["password"] == "$encrypted$"
    role = site.awx.store.role_ids[site.workflow, "approval"]
    for actors, model in (("users", "User"), ("teams", "Team")):
        unknown = {"detail": f"{model} matching query does not exist."}
        assert site.refused("POST", f"roles/{role}/{actors}/", {"id": 9999}) == (400, unknown)
