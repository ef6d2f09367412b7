# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of AWX shows the objects of the ``awx`` role."""

from __future__ import annotations

from pathlib import Path

from support.awx_screens import fields, fields_without_a_row, screens
from support.awx_settings import default_configuration

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operate" / "awx.md"
OF_EACH = {
    *("name", "description", "organization", "inputs", "injectors"),
    *("source_path", "overwrite", "overwrite_vars", "update_on_launch"),
    *("playbook", "survey_enabled", "survey_spec"),
    *(f"ask_{what}_on_launch" for what in ("limit", "tags", "job_type", "diff_mode")),
    *(f"notification_templates_{when}" for when in ("started", "success", "error", "approvals")),
    *("simplified_workflow_nodes", "unified_job_template", "rrule", "enabled", "extra_data"),
}


def test_each_screen_has_the_values_that_the_role_makes() -> None:
    lines = PAGE.read_text().splitlines()
    rows = list(screens())
    assert [row for row in rows if row not in lines] == []
    assert [line for line in lines if line in rows] == rows


def test_each_field_with_one_value_for_all_objects_has_its_row() -> None:
    lines = PAGE.read_text().splitlines()
    rows = list(fields())
    assert [line for line in lines if line in rows] == rows


def test_no_field_that_the_role_sets_is_without_a_place_on_the_page() -> None:
    """Objects of OF_EACH differ within a kind; their tables are of ``screens``."""
    left_out = {(kind, key) for kind, keys in fields_without_a_row().items() for key in keys}
    assert {key for _kind, key in left_out} == OF_EACH


def test_each_playbook_but_the_role_s_own_has_a_job_template() -> None:
    templates = {item["playbook"] for item in default_configuration()["controller_templates"]}
    playbooks = {f"playbooks/{path.name}" for path in (ROOT / "playbooks").glob("*.yml")}
    # This one asks a question on the terminal.
    assert templates == playbooks - {"playbooks/awx.yml", "playbooks/try.yml"}
