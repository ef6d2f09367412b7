# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``awx`` playbook, and modules of awx.awx in this process, against a simulated or real AWX.

AWX_HOST names a real AWX and AWX_TOKEN an administrator's token. Tests that use ``an_awx`` then
have an organization and a prefix of names of their own there, and the project of AWX_PROJECT_URL,
which must have the playbooks. They start no job, and remove all objects that they created. They
touch nothing if an object of somebody else has one of their names.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import typing as t
import urllib.error
import urllib.parse
import urllib.request
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from ansible.module_utils.testing import patch_module_args

from ansible_collections.wattwise.kube.plugins.module_utils.awx.configuration import Configuration
from ansible_collections.wattwise.kube.plugins.module_utils.awx.naming import marker
from ansible_collections.wattwise.kube.plugins.module_utils.awx.workflow import LINKS
from lab.awx.api import ADMINISTRATOR, running_awx
from lab.process import wait_until
from support.awx_settings import default_configuration
from support.playbook import PlaybookRun, run_playbook

Json = dict[str, t.Any]

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = frozenset(f"playbooks/{path.name}" for path in (ROOT / "playbooks").glob("*.yml"))
ORGANIZATION = "wattwise tests"
# The beginning of all names that are unique in the whole AWX.
PREFIX = "wattwise tests"

# The module of each list.
_MODULES = {
    "aap_organizations": "organization",
    "controller_execution_environments": "execution_environment",
    "controller_credential_types": "credential_type",
    "controller_credentials": "credential",
    "controller_notifications": "notification_template",
    "controller_projects": "project",
    "controller_inventories": "inventory",
    "controller_inventory_sources": "inventory_source",
    "controller_templates": "job_template",
    "controller_workflows": "workflow_job_template",
    "controller_schedules": "schedule",
}
# Endpoints of the created objects; those that refer to others come first.
_MADE = (
    *("schedules", "workflow_job_templates", "job_templates", "inventory_sources", "inventories"),
    *("projects", "notification_templates", "credentials", "credential_types"),
    "execution_environments",
)


class Refused(Exception):
    """An answer other than success."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status}: {text}")
        self.status = status
        self.text = text


class ForeignObjects(Exception):
    """Objects of somebody else have names of the tests."""


@dataclass(frozen=True)
class Server:
    """An AWX with the token of an administrator."""

    endpoint: str
    token: str
    variables: Json

    def get(self, path: str, **query: str) -> Json:
        """An answer of the API."""
        return self.ask("GET", f"{path}?{urllib.parse.urlencode(query)}")

    def post(self, path: str, body: Json, token: str | None = None) -> Json:
        return self.ask("POST", path, body, token)

    def delete(self, path: str) -> None:
        """Delete an object, if necessary after the end of jobs that use it."""
        wait_until(lambda: self._is_deleted(path), 120.0, f"the deletion of {path}")

    def _is_deleted(self, path: str) -> bool:
        try:
            self.ask("DELETE", path)
        except Refused as refused:
            if "running jobs" in str(refused) or "pending deletion" in str(refused):
                return False
            if refused.status != 404:
                raise
            return True
        return not path.startswith("inventories/")

    def ask(
        self, method: str, path: str, body: Json | None = None, token: str | None = None
    ) -> Json:
        request = urllib.request.Request(
            f"{self.endpoint}/api/v2/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {token or self.token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.code, error.read().decode()) from None
        return t.cast("Json", json.loads(text)) if text else {}


@contextlib.contextmanager
def an_awx() -> Iterator[Server]:
    """The AWX of AWX_HOST, or else a simulated one."""
    host = os.environ.get("AWX_HOST")
    if host:
        url = {"awx_project_url": os.environ["AWX_PROJECT_URL"]}
        server = Server(host.rstrip("/"), os.environ["AWX_TOKEN"], url)
        _remove_made(server)
        try:
            yield server
        finally:
            _remove_made(server)
        return
    with running_awx(PLAYBOOKS) as awx:
        yield Server(awx.endpoint, awx.token_of(ADMINISTRATOR[0]), {})


def _remove_made(server: Server) -> None:
    """Remove the organization of the tests, its inventories, and all objects that name it."""
    _refuse_foreign(server)
    for endpoint in _MADE:
        ours = {"description__endswith": marker(ORGANIZATION), "page_size": "200"}
        for item in server.get(f"{endpoint}/", **ours)["results"]:
            server.delete(f"{endpoint}/{item['id']}/")
    for organization in server.get("organizations/", name=ORGANIZATION)["results"]:
        for item in server.get("inventories/", organization=str(organization["id"]))["results"]:
            server.delete(f"inventories/{item['id']}/")
        server.delete(f"organizations/{organization['id']}/")


def _refuse_foreign(server: Server) -> None:
    """Fail if an object of somebody else has a name of the tests."""
    queries = {endpoint: {"name__startswith": PREFIX} for endpoint in _MADE}
    queries["organizations"] = {"name": ORGANIZATION}
    foreign = [
        f"{endpoint}/{item['id']} {item['name']}"
        for endpoint, query in queries.items()
        for item in server.get(f"{endpoint}/", page_size="200", **query)["results"]
        if not item["description"].endswith(marker(ORGANIZATION))
    ]
    if foreign:
        raise ForeignObjects(
            f"AWX has objects with names of the tests that they did not make: {', '.join(foreign)}"
        )


def configuration_of(server: Server, **settings: t.Any) -> Configuration:
    """The role's default objects in the organization of the tests."""
    url = server.variables.get("awx_project_url")
    given = {"organization": ORGANIZATION, "name_prefix": PREFIX, **settings}
    return default_configuration(**given, **({"project_url": url} if url else {}))


def configure_awx(
    folder: Path, host: str, token: str, variables: Json, *arguments: str
) -> PlaybookRun:
    """Run the ``awx`` playbook with these variables, as a user would."""
    given = {
        "awx_host": host,
        "awx_oauth_token": token,
        "awx_organization": ORGANIZATION,
        "awx_name_prefix": PREFIX,
    }
    path = folder / "variables.json"
    path.write_text(json.dumps({**given, **variables}))
    kept = ("CONTROLLER_", "TOWER_")
    cleared = {name: "" for name in os.environ if name.startswith(kept)}
    inventory = ("-i", "localhost,", "-e", f"@{path}")
    return run_playbook(
        "wattwise.kube.awx",
        folder,
        *inventory,
        *arguments,
        as_json=True,
        HOME=str(folder),
        ANSIBLE_PIPELINING="true",
        **cleared,
        **_certificates(host),
    )


def _certificates(endpoint: str) -> dict[str, str]:
    """For plain HTTP, no CA certificates: Ansible loads the system's for each request."""
    return {} if endpoint.startswith("https:") else {"SSL_CERT_FILE": os.devnull}


def run_module(name: str, arguments: Json, server: Server) -> Json:
    """Run a module of awx.awx in this process; return its result."""
    module = importlib.import_module(f"ansible_collections.awx.awx.plugins.modules.{name}")
    connection = {"controller_host": server.endpoint, "controller_oauthtoken": server.token}
    printed = io.StringIO()
    with (
        mock.patch.dict(os.environ, _certificates(server.endpoint)),
        patch_module_args({**arguments, **connection}),
        contextlib.redirect_stdout(printed),
        contextlib.suppress(SystemExit),
    ):
        module.main()
    result = t.cast("Json", json.loads(printed.getvalue()))
    if result.get("failed"):
        # The modules leave refusals unread, and keep their connections until the process ends.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    return result


def apply_in_process(lists: Configuration, server: Server) -> list[str]:
    """Run the module of each item, as the role does; return the names of changed items."""
    changed = []
    for kind, module in _MODULES.items():
        for item in lists[kind]:
            given = {k: v for k, v in item.items() if k != "simplified_workflow_nodes"}
            if module == "credential":
                given["update_secrets"] = False
            changed += _run(module, given, server)
    for node in lists.get("replace", []):
        gone = {**node, "organization": lists["aap_organizations"][0]["name"], "state": "absent"}
        changed += _run("workflow_job_template_node", gone, server)
    for workflow in lists["controller_workflows"]:
        place = {"workflow": workflow["name"], "organization": workflow["organization"]}
        nodes = workflow["simplified_workflow_nodes"]
        for node in nodes:
            own = {key: value for key, value in node.items() if key not in LINKS and value}
            changed += _run("workflow_job_template_node", {**own, **place}, server)
        for node in [*lists.get("cut", []), *nodes]:
            links = {key: node[key] for key in ("identifier", *LINKS)}
            changed += _run("workflow_job_template_node", {**links, **place}, server)
    return changed


def _run(module: str, arguments: Json, server: Server) -> list[str]:
    result = run_module(module, arguments, server)
    name = arguments.get("name") or arguments["identifier"]
    assert not result.get("failed"), f"{module} {name}: {result}"
    return [f"{module} {name}"] if result["changed"] else []
