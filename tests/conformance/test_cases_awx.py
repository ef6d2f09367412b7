# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of the ``awx`` role in the cases of users, and AWX's answer to them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from lab.awx.schedules import problems_of_recurrence
from support.awx_settings import default_configuration

CASES = Path(__file__).parent / "cases"


def test_24_a_recurrence_without_rrule_is_refused() -> None:
    given = yaml.safe_load((CASES / "24-awx-rrule" / "vars.yml").read_text())
    schedules = given["awx_schedules"]
    assert problems_of_recurrence(schedules[0]["rrule"]) == ["One or more rule required in rrule."]
    with pytest.raises(InvalidInput, match="schedule 'weekly' has no rule; write RRULE:"):
        default_configuration(schedules=schedules)


@pytest.mark.parametrize("rrule", [None, 5, ["RRULE:FREQ=DAILY;INTERVAL=1"]])
def test_a_recurrence_that_is_no_text_is_refused(rrule: object) -> None:
    schedule = {"name": "weekly", "playbook": "place", "rrule": rrule}
    with pytest.raises(InvalidInput, match="schedule 'weekly' does not begin with a start"):
        default_configuration(schedules=[schedule])
