# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The boundary around one object: an exception inside it becomes a finding of that object only.

Tenants, kubelets and machines write the objects that the library reads. A reader of many objects
reads each within ``guarded``, so that a defective object affects no other result.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from .context import Context
from .errors import InvalidInput, MissingLibrary, WattwiseError
from .texts import shown, shown_text

__all__ = [
    "Finding",
    "InvalidField",
    "Subject",
    "guarded",
    "shown",
    "shown_text",
    "subject_of",
    "warn_of",
]

T = t.TypeVar("T")

_MAX_NAME_LENGTH = 253  # of an object in Kubernetes (RFC 1123)


@dataclass(frozen=True)
class Subject:
    """The object inside a boundary, as findings and messages name it."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}"


@dataclass(frozen=True)
class Finding:
    """One defect of one object. ``field`` is empty if the defect has no single place."""

    subject: Subject
    field: str
    problem: str

    def __str__(self) -> str:
        place = f"{self.subject}: {self.field}" if self.field else str(self.subject)
        return f"{place}: {self.problem}"

    @property
    def said(self) -> str:
        """Its text for the object itself: field and problem."""
        return f"{self.field}: {self.problem}" if self.field else self.problem

    def as_dict(self) -> dict[str, str]:
        """The finding in the form of module results."""
        return {**vars(self.subject), "field": self.field, "problem": self.problem}

    @classmethod
    def from_dict(cls, entry: t.Mapping[str, str]) -> Finding:
        """A finding from the form of module results."""
        subject = Subject(entry["kind"], entry["name"], entry["namespace"])
        return cls(subject, entry["field"], entry["problem"])


class InvalidField(InvalidInput):
    """A field of an object has no usable value; ``field`` is its path."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}", field=field)
        self.field = field
        self.problem = problem


def guarded(subject: Subject | t.Callable[[], Subject], read: t.Callable[[], T]) -> T | Finding:
    """The result of ``read``, or a finding for any exception inside it.

    Readers of a hundred thousand objects give a function for ``subject``, which only a finding
    calls. MissingLibrary is raised, because it is no defect of the object.
    """
    try:
        return read()
    except MissingLibrary:
        raise
    except InvalidField as error:
        field, problem = shown_text(error.field), shown_text(error.problem)
    except WattwiseError as error:
        field, problem = str(error.fields.get("field", "")), shown_text(str(error))
    except Exception as error:  # noqa: BLE001 - the boundary: no object may stop the others
        field, problem = "", f"cannot be read ({type(error).__name__})"
    return Finding(subject if isinstance(subject, Subject) else subject(), field, problem)


def read_each(
    objects: t.Iterable[t.Any],
    kind: str,
    read: t.Callable[[t.Any], T],
    findings: list[Finding],
    place: str = "",
) -> t.Iterator[tuple[t.Any, T]]:
    """The readable objects with their content; each other one adds a finding.

    ``place`` names the list of objects without a readable name, if it is not the kind.
    """
    for index, each in enumerate(objects):
        subject = subject_of(each, kind, f"{place or kind}[{index}]")
        found = guarded(subject, functools.partial(read, each))
        if isinstance(found, Finding):
            findings.append(found)
        else:
            yield each, found


def warn_of(findings: t.Sequence[Finding], context: Context) -> None:
    """Emit one warning for all unusable objects; the result lists every finding."""
    subjects = list(dict.fromkeys(finding.subject for finding in findings))
    if len(subjects) == 1:
        context.warn(f"{findings[0]}; correct this object")
    elif subjects:
        context.warn(
            f"{len(subjects)} objects cannot be used as they are, the first is {findings[0]}; "
            "correct them, findings has all"
        )


def subject_of(obj: t.Any, kind: str, place: str = "") -> Subject:
    """Kind, namespace and name of an object of unknown shape.

    ``place`` (such as ``pods[3]``) replaces a missing or unusable name.
    """
    metadata = obj.get("metadata", obj) if isinstance(obj, dict) else None
    given = metadata if isinstance(metadata, dict) else {}
    name, namespace = given.get("name"), given.get("namespace")
    return Subject(
        kind,
        shown_text(name, _MAX_NAME_LENGTH) if isinstance(name, str) and name else place or "?",
        shown_text(namespace, _MAX_NAME_LENGTH) if isinstance(namespace, str) else "",
    )
