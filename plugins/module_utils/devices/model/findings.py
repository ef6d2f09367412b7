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
# Length of a name in a message; the name is arbitrary input.
_MAX_NAME_LENGTH = 100
# Claims of a pod, which are allocated together.
MAX_CLAIMS = 128
# Characters of the selectors of a claim.
_MAX_SELECTORS_LENGTH = 64 * 1024


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

    def __getitem__(self, name: str) -> Field:
        """A member of the object, such as its spec."""
        return Field(self, name, self.manifest.get(name))

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


class Field:
    """A value within an object, with its place for messages; absent ones are None.

    Each reader raises DefectError with the place of a value that it cannot read. Large pools have
    tens of thousands of fields, so names of a mapping are checked once.
    """

    __slots__ = ("_is_checked", "_name", "_within", "obj", "value")

    def __init__(
        self, obj: ApiObject, within: str | Field, value: t.Any, name: str | int = ""
    ) -> None:
        self.obj, self.value = obj, value
        self._within, self._name = within, name
        self._is_checked = False

    @property
    def where(self) -> str:
        """Its place, such as ``spec.devices[0].name``; written only when it is needed."""
        if isinstance(self._within, str):
            return self._within
        within, name = self._within.where, self._name
        if isinstance(name, int):
            return f"{within}[{name}]"
        return f"{within}.{shown_text(name, _MAX_NAME_LENGTH)}"

    def __getitem__(self, name: str) -> Field:
        """A member of the mapping."""
        given = self.value if self._is_checked else self.mapping()
        return Field(self.obj, self, given.get(name), name)

    def error(self, problem: str) -> DefectError:
        """An error with this place, to be raised."""
        return self.obj.error(self.where, problem)

    def read(self, parse: t.Callable[[t.Any, str], T]) -> T:
        """The value as a function of value and place reads it; the place is for its errors."""
        try:
            return parse(self.value, "")
        except InvalidInput:
            return parse(self.value, self.where)

    def mapping(self, known: t.AbstractSet[str] | None = None) -> dict[str, t.Any]:
        """A mapping by names; empty if absent.

        A field that is not ``known`` is refused by name, because its meaning is unknown.
        """
        if self.value is None:
            return {}
        given: dict[str, t.Any] = self.value
        if not self._is_checked:
            if not isinstance(given, dict) or not _are_texts(given):
                raise self.error("must be a mapping of names")
            self._is_checked = True
        if known is not None and not given.keys() <= known:
            name = shown_text(min(given.keys() - known), _MAX_NAME_LENGTH)
            raise self.obj.error(f"{self.where}.{name}", "unsupported")
        return given

    def members(self) -> t.Iterator[tuple[str, Field]]:
        """The members of the mapping by name."""
        for name, value in self.mapping().items():
            yield name, Field(self.obj, self, value, name)

    def items(
        self, most: int | None = None, problem: str = "{count} entries; the API allows {most}"
    ) -> list[Field]:
        """The mappings of a list, up to ``most``; none if it is absent. A null item is a defect."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            raise self.error("must be a list of mappings")
        found = [Field(self.obj, self, item, index) for index, item in enumerate(self.value)]
        for item in found:
            if item.value is None:
                raise item.error("must be a mapping of names")
            item.mapping()
        if most is not None:
            self.limit(len(found), most, problem)
        return found

    def texts(self, problem: str = "must be a list of names") -> list[str]:
        """A list of texts; empty if absent."""
        given = [] if self.value is None else self.value
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            raise self.error(problem)
        return given

    def limit(self, count: int, most: int, problem: str) -> None:
        """Refuse more than ``most`` of what others decide how many there are."""
        if count > most:
            raise self.error(problem.format(count=count, most=most))

    def limit_selectors(self, key: str) -> None:
        """Refuse expressions under ``key`` that are too long together.

        The library takes milliseconds for each KiB that it reads.
        """
        found, waiting = 0, list[t.Any]([self.value])
        while waiting:
            value = waiting.pop()
            if isinstance(value, list):
                waiting += value
            elif isinstance(value, dict):
                waiting += value.values()
                if isinstance(value.get(key), str):
                    found += len(value[key])
        problem = "{count} characters in all; at most {most}"
        self.limit(found, _MAX_SELECTORS_LENGTH, f"unsupported: too many selectors, {problem}")


def _are_texts(names: t.Iterable[t.Any]) -> bool:
    # A loop takes half the time of all(); most mappings have one to three names.
    for name in names:  # noqa: SIM110
        if not isinstance(name, str):
            return False
    return True


def too_many(what: str) -> str:
    """The problem of ``Field.limit`` with a limit of ours."""
    return f"unsupported: too many {what}, {{count}}; at most {{most}}"


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

    def read(
        self,
        obj: ApiObject,
        read: t.Callable[t.Concatenate[ApiObject, P], T],
        *more: P.args,
        **named: P.kwargs,
    ) -> T | Defect:
        """Like ``ApiObject.attempt``; the defect is added."""
        found = obj.attempt(read, *more, **named)
        if isinstance(found, Defect):
            self.note(found)
        return found

    def refuse_if_serious(self, obj: ApiObject) -> None:
        """Raise Defect with the first serious finding of an object that is to be used."""
        for finding in self.found:
            if finding.serious and (finding.file, finding.subject) == (obj.file, obj.subject):
                raise DefectError(finding)

    def unknown_fields(self, field: Field, known: t.Collection[str]) -> None:
        """Report members with unknown names, each with the probable intention."""
        for name in field.mapping():
            if name not in known:
                meant = likely_name(name, known)
                intention = f"probably {meant} is meant" if meant else ""
                problem = "there is no such field"
                self.add(field.obj, f"{field.where}.{name}", problem, intention)


def likely_name(name: str, known: t.Collection[str]) -> str:
    """The most similar known name, also with its words in another order."""
    if not isinstance(name, str) or len(name) > _MAX_LIKELY_NAME_LENGTH:
        return ""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    if close:
        return close[0]
    letters = sorted(name.lower())
    return next((other for other in known if sorted(other.lower()) == letters), "")
