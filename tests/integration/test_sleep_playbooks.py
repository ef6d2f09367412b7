# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The `sleep`, `wake` and `teardown` playbooks on the whole lab."""

from __future__ import annotations

import hashlib
import json
import typing as t
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record import (
    ANNOTATION,
    HOLD,
)
from lab import faults
from lab.inventory import CLUSTER
from lab.machines import Machine, build_machines
from lab.process import wait_until
from support.lab import RunningLab
from support.playbook import PlaybookRun, run_playbook
from support.power_switching import accounts
from support.sleeping_lab import QUICK

Json = dict[str, t.Any]
MODE = "with_approval"


class Site:
    """Playbooks on one rack, whose accounts for changes are one entry of the credentials."""

    def __init__(self, lab: RunningLab, kube: Kube, folder: Path) -> None:
        self.lab, self.kube, self.folder = lab, kube, folder
        settings = lab.settings
        machines = build_machines(settings.nodes, settings.racks, settings.seed)
        self.rack = machines[0].rack
        self.machines: list[Machine] = [each for each in machines if each.rack == self.rack]

    def play(self, name: str, **variables: t.Any) -> None:
        run = self._run(name, variables)
        assert run.returncode == 0, run.output

    def failures(self, name: str, hosts: Mapping[str, Json]) -> dict[str, str]:
        """The errors of a run on several hosts, with their variables; all are the lab's cluster."""
        given = {
            host: {"wattwise_kubeconfig": self.lab.kubeconfig, **own} for host, own in hosts.items()
        }
        path = self.folder / "hosts.json"
        path.write_text(json.dumps({"clusters": {"hosts": given}}), encoding="utf-8")
        return self._run(name, {}, "-i", str(path), as_json=True).failures()

    def _run(
        self, name: str, variables: Json, *arguments: str, as_json: bool = False
    ) -> PlaybookRun:
        given = {
            "wattwise_run_dir": str(self.folder),
            "observe_credentials": {"power": accounts(self.machines[0])["switcher"]},
            "sleep_select": f"topology.kubernetes.io/zone={self.rack}",
            "sleep_min_awake_seconds": 0,
            "sleep_wait_timeout": 30,
            **variables,
        }
        path = self.folder / "variables.json"
        path.write_text(json.dumps(given), encoding="utf-8")
        given_too = ("-i", str(self.lab.state.inventory), *arguments, "-e", f"@{path}")
        return run_playbook(f"wattwise.kube.{name}", self.folder, *given_too, as_json=as_json)

    def document(self) -> Json:
        return documents.load(str(self.folder / CLUSTER / "sleep.json"), "sleep")

    def asleep(self) -> set[str]:
        return {
            node["metadata"]["name"]
            for node in self.kube.list("/api/v1/nodes")
            if ANNOTATION in node["metadata"].get("annotations", {})
        }


@pytest.fixture(scope="module")
def configured(whole_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    """The lab with its NodeConfigs."""
    arguments = ("-i", str(whole_lab.state.inventory), "--tags", "crds,node_configs")
    run = run_playbook("wattwise.kube.site", tmp_path_factory.mktemp("site"), *arguments)
    assert run.returncode == 0, run.output
    return whole_lab


@pytest.fixture
def site(configured: RunningLab, kube: Kube, tmp_path: Path) -> Iterator[Site]:
    found = Site(configured, kube, tmp_path)
    names = [machine.name for machine in found.machines]
    faults.call(configured.settings, "PUT", "/power", dict.fromkeys(names, QUICK))
    yield found
    if found.asleep():
        found.play("wake")
    faults.call(configured.settings, "DELETE", "/power")


def test_playbooks_tell_then_switch_and_wake(site: Site) -> None:
    site.play("sleep")
    told = site.document()
    assert (told["mode"], told["asleep"], site.asleep()) == ("dry_run", 0, set())
    would = {one["name"] for one in told["transitions"]}
    assert would
    assert would <= {machine.name for machine in site.machines}
    assert all(one["reason"] for one in told["machines"])
    site.play("sleep", sleep_mode="on")
    done = site.document()
    assert done["asleep"] >= 1, done
    asleep = site.asleep()
    assert asleep
    # Only machines that the rule selects.
    assert asleep <= {machine.name for machine in site.machines}
    assert done["saved_watts"] > 0
    timeline, nodes = done["timeline"], len(site.kube.list("/api/v1/nodes"))
    last = {name: timeline[name][-1] for name in ("awake", "asleep", "waking", "quarantined")}
    assert (last["asleep"], sum(last.values())) == (done["asleep"], nodes)
    assert 0 <= timeline["needed"][-1] <= nodes
    site.play("wake")
    assert site.asleep() == set()
    path = f"/api/v1/nodes/{min(asleep)}"
    wait_until(lambda: "taints" not in site.kube.get(path)["spec"], 30.0, "a Node without taints")


def test_playbooks_switch_off_only_the_approved_plan(site: Site) -> None:
    """The plan is a file, whose SHA-256 the second playbook needs, as from the first job of AWX."""
    path = str(site.folder / "plan.gz")
    planning = {"sleep_store_plan": True, "placement_store_path": path, "sleep_mode": MODE}
    site.play("sleep", **planning)
    waits = {one["name"] for one in site.document()["machines"] if one["word"] == "approval"}
    assert waits
    assert site.asleep() == set()
    planned = documents.load(str(site.folder / CLUSTER / "sleep_plan.json"), "sleep_plan")
    assert {one["name"] for one in planned["machines"]} == waits
    content = Path(path).read_bytes()
    stored = {"path": path, "sha256": hashlib.sha256(content).hexdigest()}
    held = {"metadata": {"annotations": {HOLD: "true"}}}
    node = f"/api/v1/nodes/{min(waits)}"
    site.kube.request("PATCH", node, held, MERGE_CONTENT_TYPE)
    hosts: dict[str, Json] = {
        "without": {},
        "foreign": {"sleep_stored_plan": {**stored, "sha256": "0" * 64}},
        "old": {"sleep_stored_plan": stored, "sleep_stored_plan_max_age": 0.1},
        CLUSTER: {"sleep_stored_plan": stored},
    }
    failures = site.failures("switch_off", hosts)
    site.kube.request(
        "PATCH", node, {"metadata": {"annotations": {HOLD: None}}}, MERGE_CONTENT_TYPE
    )
    assert "sleep_stored_plan names no plan" in failures["without"]
    assert "is not the one that was approved" in failures["foreign"]
    assert "plan again, and approve the new plan" in failures["old"]
    assert "The state has moved on since the plan was made" in failures[CLUSTER]
    assert site.asleep() == set()
    site.play("switch_off", sleep_stored_plan=stored)
    assert site.asleep() == waits
