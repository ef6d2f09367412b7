# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``try`` playbook on the lab: one page from BMCs alone, without any change in the cluster."""

from __future__ import annotations

import dataclasses
import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab import bare_metal
from lab.api import Api
from lab.machines import build_machines
from support.custom_resources import remove_ours
from support.lab import RunningLab
from support.playbook import PlaybookRun, run_playbook

Json = dict[str, t.Any]
RACK = "r1"


@pytest.fixture
def inventory(whole_lab: RunningLab, tmp_path: Path) -> Path:
    """As in the README; for one rack, because each of the lab's racks has an account of its own."""
    port = whole_lab.settings.ports["bmc"]
    variables = {
        "wattwise_kubeconfig": whole_lab.kubeconfig,
        "wattwise_run_dir": str(tmp_path / "runs"),
        "observe_try_endpoint": f"https://127.<IPv4.Octet2>.<IPv4.Octet3>.<IPv4.Octet4>:{port}",
        "observe_try_labels": {"topology.kubernetes.io/zone": RACK},
    }
    path = tmp_path / "inventory.json"
    path.write_text(json.dumps({"clusters": {"hosts": {"hall-1": variables}}}))
    return path


def account(lab: RunningLab) -> dict[str, str]:
    settings = lab.settings
    machines = build_machines(settings.nodes, settings.racks, settings.seed)
    machine = next(machine for machine in machines if machine.rack == RACK)
    return {
        "WATTWISE_REDFISH_USERNAME": machine.bmc_username,
        "WATTWISE_REDFISH_PASSWORD": machine.bmc_password,
    }


def versions(kube: Kube) -> dict[str, str]:
    """Resource versions of objects that a run could change; other tests' namespaces may vanish."""
    namespaces = kube.list("/api/v1/namespaces")
    leaving = {
        item["metadata"]["name"] for item in namespaces if item["metadata"].get("deletionTimestamp")
    }
    core = ("pods", "configmaps", "secrets")
    paths = [f"/api/v1/{plural}" for plural in core]
    paths.append("/apis/wao.bitmedia.co.jp/v1beta1/nodeconfigs")
    found = {}
    for path in paths:
        for item in kube.list(path) if kube.find(path) is not None else ():
            metadata = item["metadata"]
            if metadata["namespace"] not in leaving:
                found[metadata["uid"]] = metadata["resourceVersion"]
    return found


def run(lab: RunningLab, inventory: Path, folder: Path, *arguments: str) -> PlaybookRun:
    given = ("-i", str(inventory), *arguments)
    return run_playbook("wattwise.kube.try", folder, *given, as_json=False, **account(lab))


def test_nothing_is_sent_before_somebody_says_yes(
    whole_lab: RunningLab, inventory: Path, tmp_path: Path
) -> None:
    nobody = run_playbook("wattwise.kube.try", tmp_path, "-i", str(inventory))
    assert nobody.returncode != 0
    assert "There is no account for the BMCs" in nobody.output
    wrong = ("-e", "observe_try_endpoint=10.0.0.<IPv4.Octet4>")
    nowhere = run(whole_lab, inventory, tmp_path, *wrong)
    assert nowhere.returncode != 0
    assert "No node has a BMC: the endpoint '10.0.0." in nowhere.output
    ended = run(whole_lab, inventory, tmp_path)
    assert ended.returncode != 0
    assert "no password was sent" in ended.output
    assert "SHA-256" in ended.output and "127." in ended.output
    assert not (tmp_path / "runs" / "hall-1-try" / "readings.json").exists()


def test_one_page_from_bmcs_alone_and_nothing_changed(
    whole_lab: RunningLab, kube: Kube, inventory: Path, namespace: str, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        resources = {"requests": {"cpu": "2", "memory": "1Gi"}}
        container = {"name": "c", "image": "i:1", "resources": resources}
        # This scheduler does not run, so the pods stay pending.
        spec = {"schedulerName": "try-of-a-test", "containers": [container]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        kube.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    # A NodeConfig left by another test may name a predictor.
    remove_ours(kube)
    before = versions(kube)
    given = ("-e", "observe_try_confirmed=true", "-e", "observe_try_scheduler=try-of-a-test")
    ended = run(whole_lab, inventory, tmp_path, *given)
    assert ended.returncode == 0, ended.output
    after = versions(kube)
    assert {uid: after.get(uid) for uid in before} == before
    folder = tmp_path / "runs" / "hall-1-try"
    curves = json.loads((folder / "curves.json").read_text())["curves"]
    settings = whole_lab.settings
    machines = build_machines(settings.nodes, settings.racks, settings.seed)
    ours = [machine.name for machine in machines if machine.rack == RACK]
    matched = {curves[name]["published"]["match"] for name in ours if name in curves}
    assert "processor" in matched
    readings = json.loads((folder / "readings.json").read_text())["readings"]
    assert all(readings[name]["power_watts"] for name in ours)
    plan = json.loads((folder / "plan.json").read_text())
    assert {entry["node"] for entry in plan["placements"]} <= curves.keys()
    assert len(plan["placements"]) == 2
    page = (folder / "report.html").read_text()
    for words in ("Nodes that may sleep", "published for its processor", "Moves"):
        assert words in page
    password = account(whole_lab)["WATTWISE_REDFISH_PASSWORD"]
    texts = [ended.output, *(path.read_text() for path in folder.rglob("*.*") if path.is_file())]
    assert not [text for text in texts if password in text]


@pytest.fixture
def bare_metal_hosts(whole_lab: RunningLab) -> Iterator[None]:
    settings = whole_lab.settings
    machines = build_machines(settings.nodes, settings.racks, settings.seed)
    with Api(whole_lab.state.kubeconfig) as api:
        settings = dataclasses.replace(settings, bare_metal_hosts=len(machines))
        bare_metal.create(api, machines, settings)
        yield
        bare_metal.delete(api)


@pytest.mark.usefixtures("bare_metal_hosts")
def test_bare_metal_hosts_name_the_bmcs_and_each_is_confirmed(
    whole_lab: RunningLab, inventory: Path, tmp_path: Path
) -> None:
    """Another user wrote their addresses, so only a confirmation sends them a password."""
    given = json.loads(inventory.read_text())
    del given["clusters"]["hosts"]["hall-1"]["observe_try_endpoint"]
    inventory.write_text(json.dumps(given))
    unseen = run(whole_lab, inventory, tmp_path, "-e", "observe_validate_certs=false")
    assert unseen.returncode != 0
    assert "no password was sent" in unseen.output
    ended = run(whole_lab, inventory, tmp_path, "-e", "observe_try_confirmed=true")
    assert ended.returncode == 0, ended.output
    settings = whole_lab.settings
    machines = build_machines(settings.nodes, settings.racks, settings.seed)
    ours = [machine.name for machine in machines if machine.rack == RACK]
    folder = tmp_path / "runs" / "hall-1-try"
    readings = json.loads((folder / "readings.json").read_text())["readings"]
    assert all(readings[name]["power_watts"] for name in ours)
    # One rack of four is enough for the first screen.
    assert "Power not known" not in (folder / "report.html").read_text()
