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

T = t.TypeVar("T")

# Comparing names takes time that is quadratic in their lengths.
_MAX_LIKELY_NAME_LENGTH = 64


@dataclass(frozen=True)
class Finding(boundary.Finding):
    """A defect of an object. ``file`` is "" for an object that came without one.

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


class Defect(InvalidField):
    """A finding that ends the reading of dependents of the object."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.field, finding.problem)
        self.finding = finding

    def __str__(self) -> str:
        return str(self.finding)


@dataclass(frozen=True)
class Given:
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
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def subject(self) -> Subject:
        return boundary.subject_of(self.manifest, shown_text(self.kind))

    def __str__(self) -> str:
        return str(self.subject)

    def error(self, where: str, problem: str) -> Defect:
        """An error with the place of the problem, to be raised."""
        return Defect(Finding(self.subject, where, problem, self.file))


def guarded(given: Given, read: t.Callable[[], T]) -> T | Finding:
    """The result of ``read`` for the object, or any defect of it.

    If another object is at fault, such as a claim's class, the problem names that.
    """

    def read_it() -> T | Finding:
        try:
            return read()
        except Defect as defect:
            if defect.finding.subject == given.subject:
                return defect.finding
            problem = str(defect)
        raise InvalidInput(problem)

    found = boundary.guarded(given.subject, read_it)
    if isinstance(found, boundary.Finding) and not isinstance(found, Finding):
        return Finding(found.subject, found.field, found.problem, given.file)
    return found


def read_given(items: t.Sequence[t.Any], where: str, file: str, bad: list[Finding]) -> list[Given]:
    """The items that are objects with a kind and name; all others are in ``bad``.

    The first of several objects with one name counts.
    """
    found: dict[t.Hashable, Given] = {}
    for index, item in enumerate(items):
        place = f"{where}[{index}]"
        subject = boundary.subject_of(item, "object", place)
        read = boundary.guarded(subject, lambda: read_manifests([item], place))  # noqa: B023 - now
        if isinstance(read, boundary.Finding):
            bad.append(Finding(read.subject, read.field, read.problem, file))
            continue
        for manifest in read:
            given, key = Given(manifest, file), identity(manifest)
            if key in found:
                bad.append(Finding(given.subject, "metadata.name", "is listed twice", file))
            else:
                found[key] = given
    return list(found.values())


@dataclass
class Findings:
    """Collects findings while objects are read. Findings of unused objects stop nothing."""

    found: list[Finding] = field(default_factory=list)

    def add(
        self, given: Given, where: str, problem: str, intention: str = "", *, serious: bool = True
    ) -> None:
        self.note(
            Finding(
                given.subject,
                shown_text(where),
                shown_text(problem),
                given.file,
                shown_text(intention),
                serious,
            )
        )

    def note(self, finding: Finding) -> None:
        """Add a finding unless it is known."""
        if finding not in self.found:
            self.found.append(finding)

    def refuse_if_serious(self, given: Given) -> None:
        """Raise Defect with the first serious finding of an object that is to be used."""
        for finding in self.found:
            if finding.serious and (finding.file, finding.subject) == (given.file, given.subject):
                raise Defect(finding)

    def unknown_fields(
        self, given: Given, value: t.Mapping[str, t.Any], known: t.Collection[str], where: str
    ) -> None:
        """Report members with unknown names, each with the probable intention."""
        for name in value:
            if name not in known:
                meant = likely_name(name, known)
                self.add(
                    given,
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
