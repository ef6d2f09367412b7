# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The blocks ``console lab`` of the documentation, page by page, as a reader types them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from lab.machines import build_machines
from support.commands import output_of
from support.lab import RunningLab
from support.pages import ROOT, Block, blocks
from support.playbook import environment

PAGES: dict[str, list[Block]] = {}
for _block in blocks():
    if _block.kind == "console lab":
        PAGES.setdefault(_block.page, []).append(_block)


@pytest.fixture
def clone(whole_lab: RunningLab, tmp_path: Path) -> Path:
    """A folder like a clone, with the files that readers create for the lab."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "inventory.yml").symlink_to(whole_lab.state.inventory)
    settings = whole_lab.settings
    machine = next(
        item
        for item in build_machines(settings.nodes, settings.racks, settings.seed)
        if item.certificate == "self-signed"
    )
    access = {
        "bmc": f"https://{machine.bmc_address}:{settings.ports['bmc']}",
        "bmc_username": machine.bmc_username,
        "bmc_password": machine.bmc_password,
    }
    (tmp_path / "bmc.yml").write_text(yaml.safe_dump(access))
    for block in blocks():
        if block.kind == "yaml check.yml":
            (tmp_path / "check.yml").write_text(block.text)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_a_reader_can_type_the_commands_in_order(
    whole_lab: RunningLab, clone: Path, page: str
) -> None:
    variables = environment(KUBECONFIG=whole_lab.kubeconfig)
    variables["PATH"] = f"{whole_lab.state.run / 'bin'}{os.pathsep}{variables['PATH']}"
    for block in PAGES[page]:
        for command in block.commands:
            output_of(["bash", "-c", command], clone, variables)
            for name in re.findall(r"_file=(\S+)", command):
                assert (clone / name).exists(), f"{block}: {command} wrote it elsewhere"
