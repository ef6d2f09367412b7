# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline.step_log import StepLog, shares


def test_the_time_of_documents_is_not_that_of_the_step_around_them() -> None:
    ticks = itertools.count()
    log = StepLog(Context(), clock=lambda: float(next(ticks)))
    with log.step("merge"), log.documents():
        pass
    merge, documents = log.as_list()
    assert (merge["name"], merge["seconds"]) == ("merge", 2.0)
    assert (documents["name"], documents["seconds"]) == ("documents", 1.0)


def test_a_step_keeps_its_warnings_and_the_sentence_that_it_ended_with() -> None:
    shown: list[str] = []
    log = StepLog(Context(warn=shown.append))
    with pytest.raises(InvalidInput), log.step("read") as (_step, context):
        context.warn("odd")
        raise InvalidInput("wrong")
    [entry] = log.as_list()
    assert (entry["warnings"], entry["failure"], shown) == (["odd"], "wrong", ["odd"])
    assert not log.changed


def test_progress_of_work_that_is_done_at_once_is_told_as_one() -> None:
    told: list[tuple[int, int, int]] = []
    context = Context(progress=lambda done, total, failed: told.append((done, total, failed)))
    one, two = shares(context, 2)
    one.progress(done=1, total=2, failed=1)
    two.progress(done=3, total=5, failed=0)
    assert told == [(1, 2, 1), (4, 7, 1)]
