# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reading many objects, each within a boundary of its own."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import (
    Finding,
    guarded,
    subject_of,
)

T = t.TypeVar("T")


def read_each(
    objects: t.Iterable[t.Any],
    kind: str,
    read: t.Callable[[t.Any], T],
    findings: list[Finding],
) -> t.Iterator[tuple[t.Any, T]]:
    """The objects that can be read, with what was read; of each other one a finding is added."""
    for index, each in enumerate(objects):
        subject = subject_of(each, kind, f"{kind}[{index}]")
        found = guarded(subject, functools.partial(read, each))
        if isinstance(found, Finding):
            findings.append(found)
        else:
            yield each, found


def said(finding: Finding) -> str:
    """A finding for those who look at the object: its field and its problem."""
    return f"{finding.field}: {finding.problem}" if finding.field else finding.problem
