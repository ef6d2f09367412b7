# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the solver itself."""

from __future__ import annotations

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.libraries import mathopt
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.solving import linear
from ansible_collections.wattwise.kube.plugins.module_utils.solving.growing_model import (
    GrowingModel,
    Optimum,
)
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits
from support.placement_fleets import Size, placement_task


class StatusNotOkError(Exception):
    """Like OR-Tools' own error, with the code of an absl::Status."""

    def __init__(self, code: int) -> None:
        super().__init__("HighsStatus: kError")
        self._code = code

    @property
    def status(self) -> StatusNotOkError:
        return self

    def raw_code(self) -> int:
        return self._code


def fail(*_given: object, **_options: object) -> None:
    """As OR-Tools 9.15 does with every error status."""
    try:
        raise StatusNotOkError(13)
    except StatusNotOkError:
        raise AttributeError("'StatusNotOk' object has no attribute 'canonical_code'")  # noqa: B904


def test_a_solver_that_ends_with_an_error_of_its_own_is_one_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HiGHS rarely fails so; then the search without it gives the answer, which is not proven."""

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

    def told(*_given: object, **_options: object) -> None:
        raise mathopt.InternalMathOptError("HighsStatus: kError")

    monkeypatch.setattr(mathopt, "solve", told)
    assert linear.solve(linear.LinearModel(), Limits(5.0)).values == ()


def test_a_program_on_which_the_solver_gives_up_ends_column_generation_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """GLOP ends so (ABNORMAL) if a program is badly conditioned, even after good rounds."""
    solve, rounds = GrowingModel.solve, 3

    def give_up(model: GrowingModel, limits: Limits) -> Optimum | None:
        nonlocal rounds
        rounds -= 1
        if rounds == 0:
            monkeypatch.setattr(mathopt.IncrementalSolver, "solve", fail)
        return solve(model, limits)

    monkeypatch.setattr(GrowingModel, "solve", give_up)
    given = placement_task(0, Size(12, 60, 0.5, 8, "rows", "memory"))
    result = place({**given, "time_limit": 2.0})
    assert rounds <= 0
    assert result["unplaced"] == []
    assert result["watts"]["after"] >= result["watts"]["lower_bound"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (AttributeError("another defect"), "another defect"),
        (RuntimeError("no error of a solver"), "no error of a solver"),
    ],
)
def test_other_errors_are_no_answer_of_a_solver(
    monkeypatch: pytest.MonkeyPatch, error: Exception, text: str
) -> None:
    def defect(*_given: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(mathopt, "solve", defect)
    with pytest.raises(type(error), match=text):
        linear.solve(linear.LinearModel(), Limits(5.0))
    monkeypatch.setattr(mathopt.IncrementalSolver, "solve", defect)
    with pytest.raises(type(error), match=text):
        GrowingModel().solve(Limits(5.0))


def test_a_model_that_the_solver_refuses_is_a_defect() -> None:
    model = linear.LinearModel()
    model.column(float("nan"), 1.0)
    with pytest.raises((AttributeError, ValueError)) as raised:
        linear.solve(model, Limits(5.0))
    assert "Invalid NaN value" in f"{raised.value} {raised.value.__context__}"
