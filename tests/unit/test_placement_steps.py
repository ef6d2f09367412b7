# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps selected by the variables of the ``placement`` role."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

Json = dict[str, t.Any]

ROLE = Path(__file__).resolve().parents[2] / "roles" / "placement"
PLANNING = ["observe", "predict", "place"]
# As in the `site` playbook for a cluster with devices.
SITE: Json = {
    "observe_steps": ["observe"],
    "ansible_run_tags": ["all"],
    "ansible_skip_tags": [],
    "placement_gives_devices": True,
    "devices_in_cluster": True,
}


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ({}, [*PLANNING, "bind", "devices", "limits"]),
        ({"placement_bind": "false"}, PLANNING),
        ({"placement_bind": False, "placement_store_plan": "true"}, [*PLANNING, "store"]),
        ({"placement_rebalance": True}, [*PLANNING, "bind", "devices", "limits"]),
        (
            {"placement_rebalance": True, "placement_allow_evict": "true"},
            [*PLANNING, "bind", "evict", "devices", "limits"],
        ),
        (
            {"placement_bind": False, "placement_rebalance": True, "placement_allow_evict": True},
            PLANNING,
        ),
        ({"ansible_run_tags": ["observe"]}, ["observe"]),
    ],
)
def test_without_placement_bind_nothing_is_bound_moved_capped_or_given_devices(
    given: Json, steps: list[str]
) -> None:
    loader = DataLoader()
    files = [ROLE / "defaults" / "main.yml", ROLE / "vars" / "main.yml"]
    defaults, fixed = (loader.load_from_file(str(path), trusted_as_template=True) for path in files)
    templar = Templar(loader=loader, variables={**defaults, **fixed, **SITE, **given})
    assert templar.template(fixed["placement_fleet_steps"]) == steps
