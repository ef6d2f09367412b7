# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``report`` role and playbook, and their module fleet_report, on documents in a folder."""

from __future__ import annotations

import base64
import gzip
import json
import stat
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import WattwiseError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.report import building
from ansible_collections.wattwise.kube.plugins.module_utils.report.publication import publish
from lab.api import Api
from support.https_server import SHARED_CERTIFICATE, HttpsServer, Reply
from support.lab import RunningLab
from support.playbook import PlaybookRun, run_playbook
from support.report_documents import Case, write

# Braces would be evaluated if Ansible took the cluster's texts for templates.
HOSTILE = "-{{ 6 * 7 }}{% raw %}<script>"


def play(folder: Path, *arguments: str, as_json: bool = False) -> PlaybookRun:
    inventory = folder / "inventory.yml"
    clusters = {"hosts": {"hall-1": {"wattwise_run_dir": str(folder)}}}
    inventory.write_text(json.dumps({"clusters": clusters}))
    return run_playbook(
        "wattwise.kube.report", folder, "-i", str(inventory), *arguments, as_json=as_json
    )


@pytest.mark.parametrize("arguments", [(), ("--check", "--diff")])
def test_page_data_and_summary_are_written_and_nothing_is_changed(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    folder = write(tmp_path / "hall-1", Case(suffix=HOSTILE))
    done = play(tmp_path, *arguments, as_json=True)
    assert done.returncode == 0, done.output
    assert done.stats()["hall-1"]["changed"] == 0
    [said] = done.results("Say what the fleet draws")
    summary = json.loads((folder / "summary.json").read_text())
    assert said["msg"] == summary["lines"]
    assert summary["report"] == str(folder / "report.html")
    page = (folder / "report.html").read_text()
    assert page.startswith("<!doctype html>\n")
    assert page.endswith("</html>\n")
    assert "r1-n01-{{ 6 * 7 }}{% raw %}&lt;script&gt;" in page
    for name in ("report.html", "report.json", "summary.json"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


def test_equal_documents_give_equal_files_and_the_page_goes_where_it_is_wanted(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "hall-1")
    wanted = tmp_path / "index.html"
    assert play(tmp_path).returncode == 0
    before = (folder / "report.html").read_bytes()
    assert play(tmp_path, "-e", f"report_path={wanted}").returncode == 0
    assert wanted.read_bytes() == before


def test_the_report_is_published_where_the_variables_say(
    tmp_path: Path, kubeconfig: str, kube: Kube, namespace: str
) -> None:
    """A second run changes nothing, and check mode publishes nothing."""
    folder = write(tmp_path / "hall-1")
    web = tmp_path / "web"
    web.mkdir()
    places = {"config_map": f"{namespace}/report", "web_folder": str(web)}
    given: dict[str, t.Any] = {f"report_{name}": place for name, place in places.items()}
    given["wattwise_kubeconfig"] = kubeconfig
    with HttpsServer({"/page": Reply(200)}) as server:
        (tmp_path / "store.pem").write_text(SHARED_CERTIFICATE.pem)
        given["report_upload_ca_path"] = str(tmp_path / "store.pem")
        url, secret = f"{server.endpoint}/page?signature=5ecre7", "t0ps3cret"
        given["report_uploads"] = [{"url": url, "headers": {"Authorization": secret}}]
        # Ansible prints the words of its command, so secrets come from a file.
        (tmp_path / "given.json").write_text(json.dumps(given))
        done = play(tmp_path, "-e", f"@{tmp_path / 'given.json'}", "-vvvv")
        assert server.seen.authorizations == [secret]
    assert done.returncode == 0 and "changed=1 " in done.output, done.output
    assert "5ecre7" not in done.output and secret not in done.output
    page = (folder / "report.html").read_text()
    assert server.seen.contents == [page.encode()]
    path = f"/api/v1/namespaces/{namespace}/configmaps/report"
    data = kube.request("GET", path)["data"]
    assert data == {"report.html": page, "summary.json": (folder / "summary.json").read_text()}
    assert (web / "hall-1.html").read_text() == page
    options = {"run_dir": str(folder), "kubeconfig": kubeconfig}
    assert not publish({**options, **places})["changed"]
    other = {**options, "config_map": f"{namespace}/other"}
    assert publish(other, Context(check_mode=True))["changed"]
    assert kube.find(f"/api/v1/namespaces/{namespace}/configmaps/other") is None

    # A page that is too large for a ConfigMap is stored compressed, and without an old page beside
    # it.
    large = tmp_path / "large.html"
    large.write_text(page + "x" * 1_000_000)
    options["path"] = str(large)
    assert publish({**options, "config_map": f"{namespace}/report"})["changed"]
    found = kube.request("GET", path)
    assert found["data"].keys() == {"summary.json"}
    packed = base64.b64decode(found["binaryData"]["report.html.gz"])
    assert gzip.decompress(packed) == large.read_bytes()
    with pytest.raises(WattwiseError, match="nowhere"):
        publish({**options, "config_map": "nowhere/report"})


def test_the_config_map_needs_the_permissions_that_the_page_on_security_tells(
    tmp_path: Path, lab: RunningLab, kube: Kube, namespace: str
) -> None:
    """Once to create it and once to change it, by an account with these permissions alone."""
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["report"],
            "verbs": ["get", "patch"],
        },
    ]
    account = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "publisher"}
    about = {"metadata": {"name": "publisher", "namespace": namespace}}
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    kube.request("POST", f"{rbac}/roles", {**about, "rules": rules})
    binding = {**about, "subjects": [account], "roleRef": role}
    kube.request("POST", f"{rbac}/rolebindings", binding)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    token = kube.request("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    with Api(lab.state.kubeconfig) as api:
        server = api.server
    folder = write(tmp_path / "hall-1")
    options = {
        "run_dir": str(folder),
        "config_map": f"{namespace}/report",
        "host": server,
        "api_key": token,
        "ca_cert": str(lab.state.ca_certificate),
    }
    for title in ("first", "second"):
        building.write({"run_dir": str(folder), "title": title})
        assert publish(options)["changed"]


def test_a_folder_without_documents_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "hall-1").mkdir()
    done = play(tmp_path)
    assert done.returncode != 0
    assert "There is nothing to report in" in done.output
    assert "run wattwise.kube.observe" in done.output
    assert "Traceback" not in done.output
