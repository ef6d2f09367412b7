# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of AWX shows what role awx makes."""

from __future__ import annotations

from pathlib import Path

from support.awx_screens import screens
from support.awx_settings import default_configuration

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "awx.md"


def test_each_screen_has_the_values_that_the_role_makes() -> None:
    lines = PAGE.read_text().splitlines()
    rows = list(screens())
    assert [row for row in rows if row not in lines] == []
    assert [line for line in lines if line in rows] == rows


def test_each_playbook_but_the_role_s_own_has_a_job_template() -> None:
    templates = {item["playbook"] for item in default_configuration()["controller_templates"]}
    playbooks = {f"playbooks/{path.name}" for path in (ROOT / "playbooks").glob("*.yml")}
    assert templates == playbooks - {"playbooks/awx.yml"}
