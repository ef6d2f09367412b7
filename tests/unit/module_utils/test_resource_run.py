# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run of one resource: what a failed run reports, and in which words."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.argspec import ArgumentSpec
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    ApiError,
    InvalidInput,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.steps import Applying
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.kube.resource import finalizer
from ansible_collections.wattwise.kube.plugins.module_utils.kube.resource.conditions import Failure
from ansible_collections.wattwise.kube.plugins.module_utils.kube.resource.run import (
    Failed,
    Gone,
    Report,
    ResourceKind,
    Run,
    Work,
)
from support.scripted_api import Asked, Reply, ScriptedApi, status_reply

KIND = ResourceKind("x/v1", "Lamp", "lamps", ArgumentSpec({"light_colour": {"type": "str"}}))
Resource = t.Optional[dict[str, t.Any]]


def run_of(resource: Resource = None, **given: t.Any) -> Run:
    kube, context = t.cast("Kube", None), Context()
    options = {"namespace": "a", "name": "b", "spec": None, "on_error": "report", **given}
    return Run(KIND, kube, options, context, resource, Applying(kube, context, []))


def report(run: Run, reached: str | None, failure: Failure | None) -> Report:
    return Report({"status": {"reached": reached, "reason": failure.reason if failure else ""}})


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


NAME = "example.com/wait"


def lamp(*finalizers: str, version: str = "1", **metadata: t.Any) -> dict[str, t.Any]:
    return {
        "kind": "Lamp",
        "metadata": {
            "name": "b",
            "uid": "u",
            "resourceVersion": version,
            "finalizers": list(finalizers),
            **metadata,
        },
    }


@pytest.mark.parametrize(
    ("stored", "is_needed", "written"),
    [
        (lamp(), True, [NAME]),
        (lamp("other/one"), True, ["other/one", NAME]),
        (lamp("other/one", NAME), True, None),
        (lamp("other/one", NAME), False, ["other/one"]),
        (lamp(NAME, deletionTimestamp="2026-01-01T00:00:00Z"), False, []),
        (lamp(), False, None),
        # The API server refuses a new one.
        (lamp("other/one", deletionTimestamp="2026-01-01T00:00:00Z"), True, None),
    ],
)
def test_a_finalizer_is_added_and_removed_beside_those_of_others(
    stored: dict[str, t.Any], is_needed: bool, written: list[str] | None
) -> None:
    with ScriptedApi(lambda asked: Reply(stored)) as api:
        kube = Kube.connect({"host": api.url})
        assert finalizer.keep(kube, "/lamps/b", NAME, is_needed, "lamps") is (written is not None)
    bodies = [asked.body["metadata"] for asked in api.asked if asked.method == "PATCH"]
    expected = {"uid": "u", "resourceVersion": "1", "finalizers": written}
    assert bodies == ([] if written is None else [expected])


def test_a_finalizer_is_read_again_after_a_write_of_another() -> None:
    def answer(asked: Asked) -> Reply:
        writes = sum(one.method == "PATCH" for one in api.asked)
        if asked.method == "PATCH":
            return status_reply(409, "changed") if writes == 1 else Reply(asked.body)
        return Reply(lamp("new/one", version="2") if writes else lamp())

    with ScriptedApi(answer) as api:
        kube = Kube.connect({"host": api.url})
        assert finalizer.keep(kube, "/lamps/b", NAME, True, "lamps")
    assert api.asked[-1].body["metadata"]["finalizers"] == ["new/one", NAME]
    assert api.asked[-1].body["metadata"]["resourceVersion"] == "2"


def test_check_mode_tells_of_a_finalizer_and_writes_none() -> None:
    kind = replace(KIND, finalizer=NAME)
    resources = [{"name": "lamps", "kind": "Lamp", "namespaced": True, "verbs": ["get"]}]
    found = {"kind": "APIResourceList", "resources": resources}
    with ScriptedApi(lambda asked: Reply(found)) as api:
        kube = Kube.connect({"host": api.url})
        run = replace(run_of(lamp()), kube=kube, resource_kind=kind)
        run = replace(run, context=Context(check_mode=True))
        run.keep_finalizer(is_needed=False)
        assert not run.applying.result["changed"]
        run.keep_finalizer(is_needed=True)
        assert run.applying.result["changed"]
    assert {asked.method for asked in api.asked} == {"GET"}


def test_a_finalizer_that_others_keep_changing_is_an_error() -> None:
    def answer(asked: Asked) -> Reply:
        return status_reply(409, "changed") if asked.method == "PATCH" else Reply(lamp())

    with ScriptedApi(answer) as api:
        kube = Kube.connect({"host": api.url})
        with pytest.raises(ApiError, match="changed"):
            finalizer.keep(kube, "/lamps/b", NAME, True, "lamps")


@pytest.mark.parametrize(
    ("stored", "is_kept"),
    [
        (lamp("other/one", NAME), True),
        (lamp("other/one"), False),
        (lamp(NAME, deletionTimestamp="2026-01-01T00:00:00Z"), False),
        (lamp(NAME, uid="of a new one"), False),
        (None, False),
    ],
)
def test_work_that_a_deletion_undoes_needs_the_resource_with_its_finalizer(
    stored: Resource, is_kept: bool
) -> None:
    def answer(asked: Asked) -> Reply:
        if not asked.path.endswith("/b"):
            resources = [{"name": "lamps", "kind": "Lamp", "namespaced": True, "verbs": ["get"]}]
            return Reply({"kind": "APIResourceList", "resources": resources})
        return status_reply(404, "not found") if stored is None else Reply(stored)

    with ScriptedApi(answer) as api:
        kube, kind = Kube.connect({"host": api.url}), replace(KIND, finalizer=NAME)
        run = replace(run_of(lamp(NAME)), kube=kube, resource_kind=kind)
        if is_kept:
            run.check_kept()
            return
        with pytest.raises(WattwiseError, match="Lamp a/b was deleted or lost its finalizer"):
            run.check_kept()
