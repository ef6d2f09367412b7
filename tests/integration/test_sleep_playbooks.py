# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The `sleep`, `wake` and `teardown` playbooks on the whole lab."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.sleep.cluster.record import ANNOTATION
from lab.inventory import CLUSTER
from lab.machines import Machine, build_machines
from lab.process import wait_until
from support.lab import RunningLab
from support.playbook import run_playbook
from support.power_switching import accounts

Json = dict[str, t.Any]


class Site:
    """Playbooks on one rack, whose accounts for changes are one entry of the credentials."""

    def __init__(self, lab: RunningLab, kube: Kube, folder: Path) -> None:
        self.lab, self.kube, self.folder = lab, kube, folder
        settings = lab.settings
        machines = build_machines(settings.nodes, settings.racks, settings.seed)
        self.rack = machines[0].rack
        self.machines: list[Machine] = [each for each in machines if each.rack == self.rack]

    def play(self, name: str, **variables: t.Any) -> None:
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
        inventory = ("-i", str(self.lab.state.inventory))
        run = run_playbook(f"wattwise.kube.{name}", self.folder, *inventory, "-e", f"@{path}")
        assert run.returncode == 0, run.output

    def document(self) -> Json:
        return documents.load(str(self.folder / CLUSTER / "sleep.json"), "sleep")

    def asleep(self) -> set[str]:
        return {
            node["metadata"]["name"]
            for node in self.kube.list("/api/v1/nodes")
            if ANNOTATION in node["metadata"].get("annotations", {})
        }


@pytest.fixture
def site(whole_lab: RunningLab, kube: Kube, tmp_path: Path) -> Iterator[Site]:
    found = Site(whole_lab, kube, tmp_path)
    inventory = ("-i", str(whole_lab.state.inventory))
    run = run_playbook("wattwise.kube.site", tmp_path, *inventory, "--tags", "crds,node_configs")
    assert run.returncode == 0, run.output
    yield found
    found.play("wake")


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
    site.play("wake")
    assert site.asleep() == set()
    path = f"/api/v1/nodes/{min(asleep)}"
    wait_until(lambda: "taints" not in site.kube.get(path)["spec"], 30.0, "a Node without taints")
