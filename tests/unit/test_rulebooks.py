# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-rulebook accepts each rulebook, and their actions start existing things; Java is not
needed.
"""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_rulebook.rules_parser import parse_rule_sets
from ansible_rulebook.validators import Validate

from ansible_collections.wattwise.kube.plugins.module_utils.observe import alarms
from support.awx_settings import default_configuration

ROOT = Path(__file__).resolve().parents[2]
RULEBOOKS = sorted((ROOT / "extensions" / "eda" / "rulebooks").glob("*.yml"))
PREFIX = "{{ awx_name_prefix | default('wattwise.kube') }}"


def started() -> t.Iterator[str]:
    """Names that an action may start."""
    yield from (f"wattwise.kube.{path.stem}" for path in (ROOT / "playbooks").glob("*.yml"))
    lists = default_configuration()
    for kind in ("controller_templates", "controller_workflows"):
        for item in lists[kind]:
            yield str(item["name"]).replace("wattwise.kube", PREFIX, 1)


@pytest.mark.parametrize("path", RULEBOOKS, ids=lambda path: path.stem)
def test_a_rulebook_is_valid_and_names_alarms_and_actions_that_exist(path: Path) -> None:
    rulebook = yaml.safe_load(path.read_text())
    Validate.rulebook(rulebook)
    [rule_set] = parse_rule_sets(rulebook, {})
    assert [source.source_name for source in rule_set.sources] == ["wattwise.kube.fleet"]
    named = re.findall(r'event\.alarm == "(\w+)"', path.read_text())
    assert named and set(named) <= set(t.get_args(alarms.AlarmName))
    actions = [action for rule in rule_set.rules for action in rule.actions]
    names = [action.action_args["name"] for action in actions if "name" in action.action_args]
    assert names and set(names) <= set(started())
    [source] = rulebook[0]["sources"]
    assert source["wattwise.kube.fleet"].keys() <= alarms.SPEC.options.keys()
