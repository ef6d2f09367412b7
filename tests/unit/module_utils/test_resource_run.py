# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run of one resource: what a failed run reports, and in which words."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.argspec import ArgumentSpec
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context, Result
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.steps import Applying
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.kube.resource.conditions import Failure
from ansible_collections.wattwise.kube.plugins.module_utils.kube.resource.run import (
    Failed,
    Gone,
    ResourceKind,
    Run,
    Work,
)

KIND = ResourceKind("x/v1", "Lamp", "lamps", ArgumentSpec({"light_colour": {"type": "str"}}))
Resource = t.Optional[dict[str, t.Any]]


def run_of(resource: Resource = None, **given: t.Any) -> Run:
    kube, context = t.cast("Kube", None), Context()
    options = {"namespace": "a", "name": "b", "spec": None, "on_error": "report", **given}
    return Run(KIND, kube, options, context, resource, Applying(kube, context, []))


def report(run: Run, reached: str | None, failure: Failure | None) -> Result:
    return {"status": {"reached": reached, "reason": failure.reason if failure else ""}}


def failing(error: WattwiseError) -> t.Callable[[Run], t.Iterator[str]]:
    def steps(run: Run) -> t.Iterator[str]:
        yield "read"
        yield "rendered"
        raise error

    return steps


def test_a_failed_run_by_options_raises_its_error_with_the_last_value_of_its_steps() -> None:
    work = Work(KIND, failing(Failed("NoPower", "it is dark")), report)
    with pytest.raises(Failed, match="it is dark") as raised:
        work.execute(run_of(spec={}))
    assert raised.value.fields["status"] == {"reached": "rendered", "reason": "NoPower"}
    assert raised.value.fields["changed"] is False


def test_a_run_that_fails_before_its_first_value_reports_none() -> None:
    def steps(run: Run) -> t.Iterator[str]:
        run.read(lambda namespace, name, spec: _refused())
        yield "read"

    with pytest.raises(Failed) as raised:
        Work(KIND, steps, report).execute(run_of(spec={}))
    assert raised.value.fields["status"] == {"reached": None, "reason": "InvalidLamp"}


def test_a_resource_that_was_deleted_during_the_run_gets_no_status() -> None:
    found = Work(KIND, failing(Gone("deleted")), report).execute(run_of({"metadata": {}}))
    assert found == {"changed": False, "diff": [], "results": [], "pruned": [], "found": False}


def test_a_failure_names_the_field_of_a_resource_and_the_option_without_one() -> None:
    error = InvalidInput("light_colour: it must be a text")
    assert run_of().failure(error).sentence == "light_colour: it must be a text"
    assert run_of({}).failure(error).sentence == "lightColour: it must be a text"


@pytest.mark.parametrize(
    ("resource", "is_new"),
    [
        (None, False),
        ({"metadata": {"generation": 2}, "status": {"appliedGeneration": 2}}, False),
        ({"metadata": {"generation": 3}, "status": {"appliedGeneration": 2}}, True),
        ({"metadata": {"generation": 1}, "status": 5}, True),
    ],
)
def test_a_spec_is_new_until_a_run_applied_its_generation(resource: Resource, is_new: bool) -> None:
    assert run_of(resource).is_new_spec is is_new


def _refused() -> None:
    raise InvalidInput("light_colour: it must be a text")
