# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""What is wrong with objects that are read, each with its place and what was probably meant."""

from __future__ import annotations

import difflib
import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.manifests import Manifest, identity


@dataclass(frozen=True)
class Finding:
    """A defect of an object. ``file`` is "" for an object that came without one.

    A ``serious`` one makes the object unusable: what it says is not what was meant.
    """

    file: str
    object: str
    field: str
    problem: str
    intention: str = ""
    serious: bool = True

    def __str__(self) -> str:
        place = f"{self.file}: {self.object}" if self.file else self.object
        sentence = f"{place}: {self.field}: {self.problem}"
        return f"{sentence}; {self.intention}" if self.intention else sentence

    def as_dict(self) -> dict[str, str]:
        return {
            "file": self.file,
            "object": self.object,
            "field": self.field,
            "problem": self.problem,
            "intention": self.intention,
        }


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

    def __str__(self) -> str:
        return str(identity(self.manifest))

    def error(self, where: str, problem: str) -> InvalidInput:
        """An error with the place of the problem, to be raised."""
        return InvalidInput(str(Finding(self.file, str(self), where, problem)))


@dataclass
class Findings:
    """Collects findings while objects are read. Those of unused objects do not stop anything."""

    found: list[Finding] = field(default_factory=list)

    def add(
        self, given: Given, where: str, problem: str, intention: str = "", *, serious: bool = True
    ) -> None:
        finding = Finding(given.file, str(given), where, problem, intention, serious)
        if finding not in self.found:
            self.found.append(finding)

    def refuse_if_serious(self, given: Given) -> None:
        """Raise InvalidInput with the first serious finding of an object that is to be used."""
        for finding in self.found:
            if finding.serious and (finding.file, finding.object) == (given.file, str(given)):
                raise InvalidInput(str(finding))

    def unknown_fields(
        self, given: Given, value: t.Mapping[str, t.Any], known: t.Collection[str], where: str
    ) -> None:
        """Report members with names that are not known, with the name that was probably meant."""
        for name in value:
            if name not in known:
                meant = likely_name(name, known)
                self.add(
                    given,
                    f"{where}.{name}" if where else name,
                    "there is no such field",
                    f"probably {meant} is meant" if meant else "",
                )


def likely_name(name: str, known: t.Collection[str]) -> str:
    """The known name that is most like this one; also with its words in another order."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    if close:
        return close[0]
    letters = sorted(name.lower())
    return next((other for other in known if sorted(other.lower()) == letters), "")
