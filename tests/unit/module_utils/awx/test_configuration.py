# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AWX objects for variables of the ``awx`` role, compared with those of an AWX, and as a file."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml
from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from ansible_collections.wattwise.kube.plugins.module_utils.awx import comparison, files
from ansible_collections.wattwise.kube.plugins.module_utils.awx.configuration import (
    CREDENTIAL_TYPES,
    SPEC,
    configure,
)
from ansible_collections.wattwise.kube.plugins.module_utils.awx.naming import marker
from ansible_collections.wattwise.kube.plugins.module_utils.awx.workflow import LINKS
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.plugin_utils.options import checked_options
from ansible_collections.wattwise.kube.plugins.plugin_utils.role_variables import (
    role_names,
    variables_of,
)
from lab.awx import credentials

Json = dict[str, t.Any]

NAME = "wattwise.kube"
BMC = {"name": "BMCs", "type": "bmc_fleet", "inputs": {"username": "u", "password": "hunter2"}}

RMD = {
    "name": "RMD",
    "type": "rmd_client",
    "inputs": {"authority": "a", "certificate": "c", "private_key": "hunter2"},
}


def settings(**given: t.Any) -> Json:
    basis = {
        "organization": "Hall 1",
        "name_prefix": NAME,
        "project_url": "https://git.example.com/inventories.git",
        "job_templates": [{"playbook": "place"}, {"playbook": "bind"}],
        "workflow_nodes": [
            {"identifier": "place", "playbook": "place", "success_nodes": ["ask"]},
            {"identifier": "ask", "approval": {"name": "Bind?"}, "success_nodes": ["bind"]},
            {"identifier": "bind", "playbook": "bind"},
        ],
        "surveys": {"place": {"name": "place", "description": "", "spec": []}},
    }
    return checked_options(SPEC, {**basis, **given})


def as_awx_has_them(lists: dict[str, list[Json]]) -> dict[str, list[Json]]:
    """The objects in the API's list format: references as names in the summary."""
    references = ("organization", "inventory", "unified_job_template", "credential_type")
    found = {
        endpoint: [
            {
                **item,
                "summary_fields": {
                    key: {"name": item[key]}
                    for key in references
                    if item.get(key) and (key != "organization" or kind != "aap_organizations")
                },
            }
            for item in lists[kind]
        ]
        for kind, endpoint in comparison.ENDPOINTS.items()
    }
    found[comparison.NODES] = []
    for workflow in lists["controller_workflows"]:
        nodes = workflow["simplified_workflow_nodes"]
        ids = {node["identifier"]: number for number, node in enumerate(nodes)}
        for node in nodes:
            kind = "workflow_approval_templates" if "approval_node" in node else "job_templates"
            found[comparison.NODES].append(
                {
                    "id": ids[node["identifier"]],
                    "identifier": node["identifier"],
                    **{link: [ids[name] for name in node[link]] for link in LINKS},
                    "related": {"unified_job_template": f"/api/v2/{kind}/7/"},
                    "summary_fields": {"workflow_job_template": {"name": workflow["name"]}},
                }
            )
    return found


def test_objects_refer_to_each_other_by_names_and_bear_the_marker() -> None:
    lists = configure(settings(credentials=[BMC], execution_environment_image="example.com/ee:1"))
    [place, bind] = lists["controller_templates"]
    assert place["name"] == f"{NAME}.place"
    assert place["playbook"] == "playbooks/place.yml"
    assert place["credentials"] == ["BMCs"]
    assert place["survey_enabled"] and not bind["survey_enabled"]
    assert place["inventory"] == lists["controller_inventories"][0]["name"]
    assert place["execution_environment"] == NAME
    for kind, items in lists.items():
        if kind != "controller_roles":
            assert all(item["description"].endswith(marker("Hall 1")) for item in items), kind


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"credentials": [{**BMC, "inputs": {"username": "u"}}]}, "needs password, username"),
        ({"job_templates": [{"playbook": "place", "credentials": ["x"]}]}, "credential 'x'"),
        ({"schedules": [{"name": "s", "playbook": "rmd", "rrule": "r"}]}, "starts 'rmd'"),
        (
            {"schedules": [{"name": "weekly", "playbook": "place", "rrule": "FREQ=WEEKLY"}]},
            "awx_schedules: the rrule of schedule 'weekly' does not begin with a start",
        ),
        ({"credentials": [RMD]}, "input private_key of credential 'RMD' is no private key"),
        ({"workflow_nodes": [{"identifier": "a", "playbook": "rmd"}]}, "needs approval"),
        (
            {"workflow_nodes": [{"identifier": "a", "playbook": "place", "always_nodes": ["b"]}]},
            "leads to b, but the nodes are a",
        ),
        ({"name_prefix": "42"}, "is a number"),
        ({"name_prefix": "a++b"}, "contains '\\+\\+'"),
        ({"organization": "a,b"}, "a comma"),
        ({"organization": "line\nbreak"}, "cannot be printed"),
        ({"organization": " "}, "is empty"),
        ({"name_prefix": "x" * 513}, "more than 512"),
        ({"credentials": [BMC, BMC]}, "is listed twice"),
    ],
)
def test_settings_that_awx_would_misunderstand_are_refused(given: Json, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        configure(settings(**given))


def test_an_awx_that_has_everything_needs_nothing() -> None:
    lists = configure(settings(credentials=[BMC]))
    plan = comparison.compare(lists, as_awx_has_them(lists), check_mode=True)
    assert plan["create"] == plan["foreign"] == plan["warnings"] == []
    assert not any(plan["remove"].values())
    assert plan["apply"]["controller_templates"] == lists["controller_templates"]
    assert [node["identifier"] for node in plan["apply"]["nodes"]] == ["place", "ask", "bind"]


def test_an_empty_awx_gets_everything_and_check_mode_asks_no_module() -> None:
    lists = configure(settings())
    plan = comparison.compare(lists, {})
    assert "job template wattwise.kube.place" in plan["create"]
    assert plan["apply"]["controller_projects"] == lists["controller_projects"]
    checked = comparison.compare(lists, {}, check_mode=True)
    assert checked["create"] == plan["create"]
    assert not any(checked["apply"].values())


def test_a_list_without_names_is_no_term_of_a_query() -> None:
    """AWX answers 400 to an empty list."""
    found = comparison.queries(configure(settings(job_templates=[], workflow_nodes=[])))
    assert "or__name__in" not in found["schedules"]
    assert found["projects"]["or__name__in"] == NAME
    assert all(value for query in found.values() for value in query.values())


def test_old_links_go_before_new_ones_and_nodes_that_become_approvals_are_replaced() -> None:
    existing = as_awx_has_them(configure(settings()))
    turned = [
        {"identifier": "bind", "playbook": "bind", "always_nodes": ["ask"]},
        {"identifier": "ask", "playbook": "place", "failure_nodes": ["place"]},
        {"identifier": "place", "approval": {"name": "Place?"}},
    ]
    plan = comparison.compare(configure(settings(workflow_nodes=turned)), existing)
    workflow = f"{NAME} place with approval"
    none: Json = {link: [] for link in LINKS}
    assert plan["cut"] == [
        {"identifier": "place", "workflow": workflow, **none},
        {"identifier": "ask", "workflow": workflow, **none},
    ]
    assert plan["replace"] == [{"identifier": "place", "workflow": workflow}]


def test_an_inventory_that_awx_still_deletes_is_missing_and_not_removed_again() -> None:
    lists = configure(settings())
    existing = as_awx_has_them(lists)
    [inventory] = existing["inventories"]
    inventory["pending_deletion"] = True
    plan = comparison.compare(lists, existing)
    assert plan["deleting"] == [NAME]
    assert plan["create"] == [f"inventory {NAME}"]
    other = comparison.compare(configure(settings(name_prefix="other")), existing)
    assert other["deleting"] == other["remove"]["controller_inventories"] == []
    assert "project wattwise.kube" in other["unwanted"]


def test_only_ours_is_removed_and_names_of_others_are_refused() -> None:
    existing = as_awx_has_them(configure(settings(credentials=[BMC])))
    theirs = {**existing["job_templates"][0], "name": "theirs", "description": "By hand."}
    elsewhere = {
        **existing["job_templates"][0],
        "description": "By hand.",
        "summary_fields": {"organization": {"name": "Hall 2"}},
    }
    existing["job_templates"] += [theirs, elsewhere]
    fewer = configure(
        settings(
            job_templates=[{"playbook": "place"}],
            workflow_nodes=[{"identifier": "place", "playbook": "place"}],
        )
    )
    plan = comparison.compare(fewer, existing)
    removed = {kind: items for kind, items in plan["remove"].items() if items}
    assert removed == {
        "controller_credentials": [
            {
                "name": "BMCs",
                "organization": "Hall 1",
                "credential_type": f"{NAME} BMC fleet",
            }
        ],
        "controller_templates": [
            {"name": f"{NAME}.bind", "inventory": NAME, "organization": "Hall 1"}
        ],
        "nodes": [
            {"identifier": name, "workflow": f"{NAME} place with approval"}
            for name in ("ask", "bind")
        ],
    }
    assert plan["foreign"] == []
    existing["projects"][0]["description"] = "By hand."
    assert comparison.compare(fewer, existing)["foreign"] == ["project wattwise.kube"]
    assert comparison.compare(fewer, existing, adopt=True)["foreign"] == []


def test_a_field_that_an_older_awx_lacks_is_left_out_and_named() -> None:
    lists = configure(settings())
    existing = as_awx_has_them(lists)
    for item in existing["job_templates"]:
        del item["ask_diff_mode_on_launch"]
    plan = comparison.compare(lists, existing)
    assert "ask_diff_mode_on_launch" not in plan["apply"]["controller_templates"][0]
    assert plan["warnings"] == [
        "This AWX has no field ask_diff_mode_on_launch for job_templates; it is left out."
    ]


def test_notifications_are_written_again_only_if_more_than_a_secret_may_differ() -> None:
    hook = {"url": "https://example.com", "password": "hunter2"}
    given = {"name": "hook", "type": "webhook", "configuration": hook}
    lists = configure(settings(notifications=[given]))
    existing = as_awx_has_them(lists)
    shown = {**hook, "password": "$encrypted$", "http_method": "POST"}
    existing["notification_templates"][0]["notification_configuration"] = shown

    def applied(**options: bool) -> int:
        plan = comparison.compare(lists, existing, **options)
        return len(plan["apply"]["controller_notifications"])

    assert (applied(), applied(update_secrets=True)) == (0, 1)
    shown["url"] = "https://other.example.com"
    assert applied() == 1


@pytest.mark.parametrize("artifacts", [None, {}, {"wattwise_summaries": {"hall-1": {"watts": 7}}}])
def test_a_notification_carries_the_summary_of_a_job_that_has_one(artifacts: Json | None) -> None:
    """AWX renders it, and refuses undefined names; jobs of a workflow itself have no artifacts."""
    given = {"name": "hook", "type": "webhook", "configuration": {"url": "https://example.com"}}
    [made] = configure(settings(notifications=[given]))["controller_notifications"]
    job: Json = {"id": 3, "name": 'place "all"', "status": "successful"}
    if artifacts is not None:
        job["artifacts"] = artifacts
    templates = SandboxedEnvironment(undefined=StrictUndefined)
    names = {"job": job, "job_friendly_name": "Job", "url": "https://awx.example.com/#/jobs/3"}
    for message in made["messages"].values():
        body = json.loads(templates.from_string(message["body"]).render(**names))
        assert body["summaries"] == (artifacts or {}).get("wattwise_summaries", {})
        assert (body["name"], body["status"]) == (job["name"], "successful")
        text = templates.from_string(message["message"]).render(**names)
        assert text == 'Job place "all" #3: successful'


def test_who_is_named_no_more_loses_the_right_to_approve() -> None:
    lists = configure(settings(approver_users=["ada"]))
    existing = {
        "approver_users": [{"username": "ada"}, {"username": "eve"}],
        "approver_teams": [{"name": "night shift"}],
    }
    revoked = comparison.compare(lists, existing)["revoke"]
    assert revoked == {"users": ["eve"], "teams": ["night shift"]}


def test_the_file_has_no_empty_dictionaries() -> None:
    """Role controller_inventories of infra.aap_configuration fails at ``variables: {}``."""
    text = files.as_variables_file(configure(settings()))
    assert "controller_inventories" in text
    assert not re.search(r"^[ -] \w+: \{\}$", text, re.MULTILINE)
    given = configure(settings(inventory_variables={"a": {}}))
    assert "  variables:\n    a: {}\n" in files.as_variables_file(given)


def test_the_file_has_no_secret_and_leaves_templates_to_awx() -> None:
    hook = {"url": "https://example.com", "password": "hunter2"}
    notification = {"name": "hook", "type": "webhook", "configuration": hook}
    lists = configure(settings(credentials=[BMC], notifications=[notification]))
    text = files.as_variables_file(lists)
    assert "hunter2" not in text
    assert "awx_secret_bmcs_password" in text.splitlines()[2]

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!unsafe", lambda _loader, node: {"left alone": node.value})
    read = yaml.load(text, Loader)
    [credential] = read["controller_credentials"]
    assert credential["inputs"] == {"username": "u", "password": "{{ awx_secret_bmcs_password }}"}
    types = {item["name"]: item for item in read["controller_credential_types"]}
    injected = types[f"{NAME} BMC fleet"]["injectors"]["env"]
    assert injected["WATTWISE_REDFISH_USERNAME"] == {"left alone": "{{ username }}"}


@pytest.mark.parametrize("name", CREDENTIAL_TYPES)
def test_awx_takes_each_credential_type_and_injects_what_the_collection_reads(
    name: str, tmp_path: Path
) -> None:
    known = CREDENTIAL_TYPES[name]
    assert credentials.problem_of_type(known.inputs(), known.injectors) is None
    given = {field["id"]: f"<{field['id']}>" for field in known.fields}
    injected = credentials.inject(known.injectors, given, tmp_path)
    texts = [path.read_text() for path in tmp_path.iterdir()]
    everything = str((injected.environment, injected.extra_vars, texts))
    assert all(value in everything for value in given.values())
    assert injected.extra_vars.keys() <= variables_of(role_names()).keys()
    reference = Path(__file__).resolve().parents[4] / "docs" / "reference" / "inventory.md"
    assert all(f"`{variable}`" in reference.read_text() for variable in injected.environment)
