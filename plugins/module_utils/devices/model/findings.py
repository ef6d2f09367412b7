# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Defects of objects, each with its place and the probable intention."""

from __future__ import annotations

import difflib
import typing as t
from dataclasses import dataclass, field

from ...base import boundary
from ...base.boundary import InvalidField, Subject, shown_text
from ...base.errors import InvalidInput
from ...base.manifests import Manifest, identity, read_manifests

if t.TYPE_CHECKING:
    P = t.ParamSpec("P")
T = t.TypeVar("T")
# Namespace and name.
Key = tuple[str, str]

# Comparing names takes time that is quadratic in their lengths.
_MAX_LIKELY_NAME_LENGTH = 64


@dataclass(frozen=True)
class Defect(boundary.Finding):
    """A finding with the file of the object, "" without one, and what its author probably meant.

    A ``serious`` one makes the object unusable, because it does not mean what it says.
    """

    file: str = ""
    intention: str = ""
    serious: bool = True

    def __str__(self) -> str:
        sentence = super().__str__()
        place = f"{self.file}: {sentence}" if self.file else sentence
        return f"{place}; {self.intention}" if self.intention else place

    def as_dict(self) -> dict[str, str]:
        return {**super().as_dict(), "file": self.file, "intention": self.intention}


class DefectError(InvalidField):
    """A defect that ends the reading of dependents of the object."""

    def __init__(self, defect: Defect) -> None:
        super().__init__(defect.field, defect.problem)
        self.defect = defect

    def __str__(self) -> str:
        return str(self.defect)


@dataclass(frozen=True)
class ApiObject:
    """An object with the file that it came from."""

    manifest: Manifest
    file: str = ""

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.manifest["metadata"].get("namespace") or "")

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def subject(self) -> Subject:
        return boundary.subject_of(self.manifest, shown_text(self.kind))

    def __str__(self) -> str:
        return str(self.subject)

    def error(self, where: str, problem: str) -> DefectError:
        """An error with the place of the problem, to be raised."""
        return DefectError(Defect(self.subject, where, problem, self.file))

    def attempt(
        self, read: t.Callable[t.Concatenate[ApiObject, P], T], *more: P.args, **named: P.kwargs
    ) -> T | Defect:
        """The result of ``read`` for the object, or any defect of it: ``boundary.guarded``.

        If another object is at fault, such as a claim's class, the problem names that.
        """

        def read_it() -> T | Defect:
            try:
                return read(self, *more, **named)
            except DefectError as error:
                if error.defect.subject == self.subject:
                    return error.defect
                problem = str(error)
            raise InvalidInput(problem)

        found = boundary.guarded(self.subject, read_it)
        if isinstance(found, boundary.Finding) and not isinstance(found, Defect):
            return Defect(found.subject, found.field, found.problem, self.file)
        return found


def read_objects(
    items: t.Sequence[t.Any], where: str, file: str, bad: list[Defect]
) -> list[ApiObject]:
    """The items that are objects with a kind and name; all others are in ``bad``.

    The first of several objects with one name counts.
    """
    found: dict[t.Hashable, ApiObject] = {}
    for index, item in enumerate(items):
        place = f"{where}[{index}]"
        subject = boundary.subject_of(item, "object", place)
        read = boundary.guarded(subject, lambda: read_manifests([item], place))  # noqa: B023 - now
        if isinstance(read, boundary.Finding):
            bad.append(Defect(read.subject, read.field, read.problem, file))
            continue
        for manifest in read:
            obj, key = ApiObject(manifest, file), identity(manifest)
            if key in found:
                bad.append(Defect(obj.subject, "metadata.name", "is listed twice", file))
            else:
                found[key] = obj
    return list(found.values())


@dataclass
class Findings:
    """Collects findings while objects are read. Findings of unused objects stop nothing."""

    found: list[Defect] = field(default_factory=list)

    def add(
        self, obj: ApiObject, where: str, problem: str, intention: str = "", *, serious: bool = True
    ) -> None:
        self.note(
            Defect(
                obj.subject,
                shown_text(where),
                shown_text(problem),
                obj.file,
                shown_text(intention),
                serious,
            )
        )

    def note(self, finding: Defect) -> None:
        """Add a finding unless it is known."""
        if finding not in self.found:
            self.found.append(finding)

    def refuse_if_serious(self, obj: ApiObject) -> None:
        """Raise Defect with the first serious finding of an object that is to be used."""
        for finding in self.found:
            if finding.serious and (finding.file, finding.subject) == (obj.file, obj.subject):
                raise DefectError(finding)

    def unknown_fields(
        self, obj: ApiObject, value: t.Mapping[str, t.Any], known: t.Collection[str], where: str
    ) -> None:
        """Report members with unknown names, each with the probable intention."""
        for name in value:
            if name not in known:
                meant = likely_name(name, known)
                self.add(
                    obj,
                    f"{where}.{name}" if where else str(name),
                    "there is no such field",
                    f"probably {meant} is meant" if meant else "",
                )


def likely_name(name: str, known: t.Collection[str]) -> str:
    """The most similar known name, also with its words in another order."""
    if not isinstance(name, str) or len(name) > _MAX_LIKELY_NAME_LENGTH:
        return ""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    if close:
        return close[0]
    letters = sorted(name.lower())
    return next((other for other in known if sorted(other.lower()) == letters), "")
