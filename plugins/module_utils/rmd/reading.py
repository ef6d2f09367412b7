# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reading of many objects, each within a separate boundary."""

from __future__ import annotations

import functools
import typing as t

from ..base.boundary import Finding, guarded, subject_of

T = t.TypeVar("T")


def read_each(
    objects: t.Iterable[t.Any],
    kind: str,
    read: t.Callable[[t.Any], T],
    findings: list[Finding],
) -> t.Iterator[tuple[t.Any, T]]:
    """The readable objects with their content; each other one adds a finding."""
    for index, each in enumerate(objects):
        subject = subject_of(each, kind, f"{kind}[{index}]")
        found = guarded(subject, functools.partial(read, each))
        if isinstance(found, Finding):
            findings.append(found)
        else:
            yield each, found


def said(finding: Finding) -> str:
    """A finding as text for the object itself: its field and its problem."""
    return f"{finding.field}: {finding.problem}" if finding.field else finding.problem
