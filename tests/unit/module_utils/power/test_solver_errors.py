# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the solver itself."""

from __future__ import annotations

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.libraries import mathopt
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.solving import linear
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits


def test_a_solver_that_ends_with_an_error_of_its_own_is_one_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HiGHS does so rarely; then the search without it gives the answer, which is not proven."""

    def fail(*_given: object, **_options: object) -> None:
        raise AttributeError("'StatusNotOk' object has no attribute 'canonical_code'")

    nodes = [
        {"name": name, "allocatable": {"cpu": "4"}, "curve": {"cpu": [0, 4], "watts": [50, watts]}}
        for name, watts in (("cheap", 60), ("dear", 90))
    ]
    requests = {"cpu": "1"}
    pods = [{"name": "p", "requests": requests, "count": 6}]
    monkeypatch.setattr(mathopt, "solve", fail)
    assert linear.solve(linear.LinearModel(), Limits(5.0)).values == ()
    result = place({"nodes": nodes, "pods": pods})
    assert len(result["placements"]) == 6

    def defect(*_given: object, **_options: object) -> None:
        raise AttributeError("another defect")

    monkeypatch.setattr(mathopt, "solve", defect)
    with pytest.raises(AttributeError, match="another defect"):
        linear.solve(linear.LinearModel(), Limits(5.0))
