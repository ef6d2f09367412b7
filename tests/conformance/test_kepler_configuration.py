# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rendered configuration starts Kepler, by upstream's rules and by its recorded verdicts."""

from __future__ import annotations

import copy
import json
import typing as t
from random import Random

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.system import (
    read_system,
)
from lab import kepler
from lab.bmc.pods import BoundPod
from lab.machines import build_machines
from lab.physics import Truth
from support.kepler_exporter import RECORDED, Load, MeteredNode
from support.kepler_rules import DATA, Verdict, verdict
from support.kepler_systems import random_spec, started
from support.promql import OF_SCRAPES, catalogue

Json = dict[str, t.Any]

VERDICTS: Json = json.loads((DATA / "verdicts.json").read_text())
FAMILIES: dict[str, list[str]] = json.loads((DATA / "families.json").read_text())


@pytest.mark.parametrize("seed", range(600))
def test_every_rendered_configuration_starts_kepler(seed: int) -> None:
    spec = random_spec(Random(seed))
    starts = started(read_system("kepler", "kepler", spec))
    assert starts
    for start in starts:
        assert verdict(_upstream(spec["version"]), *start) == Verdict("")
        named = [flag for flag in start.arguments if flag == "--kube.enable"]
        assert len(named) == (spec["scope"] == "cluster")
        if spec["scope"] == "cluster":
            # Kepler checks the file before it sets the flag that names the node.
            in_file = copy.deepcopy(start.config)
            in_file["kube"]["enabled"] = True
            told = verdict(_upstream(spec["version"]), in_file, start.arguments, start.files)
            assert told == Verdict("file", ("kube.nodeName",))


def _upstream(version: str) -> str:
    """The version 0.11.5 stands for the state after 0.11.4."""
    return "main" if version == "0.11.5" else version


@pytest.mark.parametrize("change", VERDICTS["changes"], ids=lambda each: json.dumps(each)[:60])
def test_the_rules_give_the_verdicts_of_kepler_s_own_packages(change: Json) -> None:
    """Upstream's config packages gave them, built from each tag and from main."""
    for told in change["verdicts"]:
        for version in told["versions"]:
            base = VERDICTS["bases"][version]
            config = copy.deepcopy(base["config"])
            for path, value in change["set"].items():
                _put(config, path, value)
            left_out = change.get("without arguments", [])
            arguments = [each for each in base["arguments"] if each not in left_out]
            arguments += change.get("more arguments", [])
            files = set(base["files"]).difference(change.get("without files", []))
            found = verdict(version, config, arguments, files)
            assert found.stage == told["stage"], version
            assert found.stage == "decode" or [*found.keys] == told["keys"], version


def _put(tree: Json, path: str, value: t.Any) -> None:
    *folders, name = path.split(".")
    for folder in folders:
        tree = tree.setdefault(folder, {})
    tree[name] = value


def test_the_simulated_keplers_export_real_families_with_their_real_labels() -> None:
    [machine] = build_machines(1, 1, seed=1)
    meter = kepler.Meter(machine, 0.0)
    pod = BoundPod("u1", machine.name, 4.0, "shop", "web")
    meter.sample(10.0, Truth(20.0, 5.0, 300.0, pod.cores), [pod])
    node = MeteredNode("n1", (Load("u1", "shop", "web-1", 3.0),))
    real = (DATA / "metrics.txt").read_text()
    assert len(catalogue(real)) > 15
    for text in (real, meter.text(), RECORDED, node.text(), node.container_text(1.0)):
        found = catalogue(text)
        found.pop("up")
        for name, labels in found.items():
            assert labels - OF_SCRAPES == set(FAMILIES[name]), name
