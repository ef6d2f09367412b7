# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first hour of a user with BMCs and nothing else: no predictor, no pressure, no samples."""

from __future__ import annotations

import json
import math
import os
import sys
import sysconfig
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.report.numbers import percent
from lab import workload
from lab.api import Api
from lab.demo import PODS_PER_NODE
from lab.inventory import CLUSTER, as_yaml, inventory
from lab.machines import build_machines
from support.custom_resources import remove_ours
from support.lab import RunningLab
from support.playbook import COLLECTIONS, run_playbook
from support.published_curves import collection_without_the_lab_s

Json = dict[str, t.Any]
# As many as in the demo: about half of the cores are requested.
PODS = 50 * PODS_PER_NODE


@pytest.fixture
def api(whole_lab: RunningLab, kube: Kube) -> Iterator[Api]:
    """The lab's API without pods of earlier tests or NodeConfigs that name a predictor."""
    with Api(whole_lab.state.kubeconfig) as opened:
        workload.make_namespace(opened)
        workload.delete_pods(opened, whole_lab.settings)
        remove_ours(kube)
        yield opened
        workload.delete_pods(opened, whole_lab.settings)
        remove_ours(kube)


@dataclass(frozen=True)
class User:
    """A user with the lab's cluster and BMCs, and a collection, whose documents are in a folder."""

    lab: RunningLab
    folder: Path
    collections: Path = COLLECTIONS

    def play(self, name: str, *arguments: str) -> None:
        path = self.folder / "inventory.yml"
        if not path.exists():
            path.write_text(as_yaml(self._inventory()))
        found = (str(self.collections), sysconfig.get_path("purelib"))
        ended = run_playbook(
            f"wattwise.kube.{name}",
            self.folder,
            *("-i", str(path), *arguments),
            ANSIBLE_COLLECTIONS_PATH=os.pathsep.join(found),
        )
        assert ended.returncode == 0, ended.output

    def _inventory(self) -> Json:
        """The lab's inventory, with inlet temperatures only from BMCs."""
        settings = self.lab.settings
        machines = build_machines(settings.nodes, settings.racks, settings.seed)
        given = inventory(self.lab.state, settings, machines)
        variables = given["clusters"]["hosts"][CLUSTER]
        variables["wattwise_run_dir"] = str(self.folder)
        for template in variables["node_configs_templates"]:
            inlet = template["spec"]["template"]["metricsCollector"]["inletTemp"]
            template["spec"]["template"] = {"metricsCollector": {"inletTemp": inlet}}
        return given

    def document(self, kind: str) -> Json:
        return t.cast("Json", json.loads((self.folder / CLUSTER / f"{kind}.json").read_text()))

    def measured_watts(self) -> float:
        """Current watts of the whole fleet, read by its BMCs."""
        readings = self.document("readings")["readings"]
        assert len(readings) == self.lab.settings.nodes
        return math.fsum(reading["power_watts"] for reading in readings.values())


def assert_curves_are_published(user: User, matches: set[str]) -> None:
    curves = user.document("curves")["curves"]
    assert len(curves) == user.lab.settings.nodes
    assert {curve["source"] for curve in curves.values()} == {"published"}
    assert {curve["published"]["match"] for curve in curves.values()} == matches


def assert_report_says_how_good_they_are(user: User, words: str) -> None:
    """Curves by source, and by error against the BMCs' watts after the placement."""
    report = user.document("report")
    assert report["state"] == "measured"
    [source] = report["sections"]["power_curves"]["sources"]
    assert source["source"] == words
    assert source["nodes"] == source["metered_nodes"] == user.lab.settings.nodes
    page = (user.folder / CLUSTER / "report.html").read_text()
    assert words in page
    assert percent(source["metered_error_percent"]) in page


def placed_watts(api: Api, user: User) -> float:
    """Power draw of the fleet with the pods on the nodes of the user's placement."""
    settings = user.lab.settings
    workload.delete_pods(api, settings)
    workload.create_pods(api, workload.demo_pods(PODS, seed=1), "wattwise")
    user.play("place")
    plan = user.document("plan")
    assert (len(plan["placements"]), plan["unplaced"], plan["unpriced"]) == (PODS, [], [])
    watts = plan["watts"]
    assert watts["after"] > watts["before"] > 0
    workload.wait_until_bound(api, PODS, settings)
    user.play("place")
    return user.measured_watts()


def assert_all_are_ready(kube: Kube, lab: RunningLab) -> None:
    """Missing predictor and pressure cause no errors if they are not configured."""
    conditions = [
        condition["status"]
        for config in kube.list("/apis/wao.bitmedia.co.jp/v1beta1/nodeconfigs")
        for condition in config["status"]["conditions"]
        if condition["type"] == "Ready"
    ]
    assert conditions == ["True"] * lab.settings.nodes


def test_bmcs_alone_save_four_fifths_even_if_nobody_measured_their_servers(
    whole_lab: RunningLab,
    kube: Kube,
    api: Api,
    tmp_path: Path,
) -> None:
    """The saving is against the default scheduler, and measured by the BMCs.

    One user has measurements of the very processors, the other those of similar processors.
    """
    folders = [tmp_path / name for name in ("measured", "similar", "collection")]
    for folder in folders:
        folder.mkdir()
    measured = User(whole_lab, folders[0])
    similar = User(whole_lab, folders[1], collection_without_the_lab_s(folders[2]))
    measured.play("site", "--tags", "crds,node_configs")
    workload.create_pods(api, workload.demo_pods(PODS, seed=1), "default-scheduler")
    workload.wait_until_bound(api, PODS, whole_lab.settings)
    measured.play("observe")
    default = measured.measured_watts()
    saved, saved_by_similar = (default - placed_watts(api, user) for user in (measured, similar))
    sys.stdout.write(
        f"of {default:.0f} W: {saved:.0f} W, {saved_by_similar:.0f} W by similar ones\n"
    )
    assert_curves_are_published(measured, {"processor"})
    assert_curves_are_published(similar, {"series"})
    assert_report_says_how_good_they_are(measured, "published for its processor")
    assert_report_says_how_good_they_are(similar, "published for its series of processors")
    assert_all_are_ready(kube, whole_lab)
    assert saved_by_similar >= 0.8 * saved > 0
