# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The JSON documents between steps, with atomic writes and validation on reading."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import typing as t
import uuid
from dataclasses import dataclass
from pathlib import Path

from . import strict_json, whole_files
from .context import utc_now
from .document_schemas import SCHEMAS
from .errors import InvalidInput
from .json_types import MutableObject, Object
from .libraries import fastjsonschema
from .units import format_time

DocumentKind = t.Literal[
    "snapshot",
    "node_configs",
    "readings",
    "metering",
    "models",
    "samples",
    "curves",
    "plan",
    "bindings",
    "limits",
    "sleep",
    "sleep_plan",
    "prices",
    "report",
    "summary",
    "advice",
    "rmd",
    "hosts",
]


KEPT_DOCUMENTS = 3
_BEGINNING = re.compile(rb'\{"document":"[^"\\]*","run":"([0-9a-f]{32})",')


def document_name(kind: str) -> str:
    """Value of the field ``document`` of a document: kind and version."""
    return f"wattwise.kube/{kind}/v1"


def load(
    path: str, kind: DocumentKind, shorten: t.Callable[[dict[str, t.Any]], t.Any] | None = None
) -> dict[str, t.Any]:
    """Read the document at ``path`` and check it against the schema of its kind.

    ``shorten`` replaces each object as soon as it is read, inner objects first, so that a reader of
    a few fields never holds a large document in memory. Raises InvalidInput, which names the file
    and the field.
    """
    try:
        body: dict[str, t.Any] = strict_json.parse(Path(path).read_bytes(), object_hook=shorten)
    except OSError as error:
        raise InvalidInput(
            f"Cannot read the {kind} document {path}: {error.strerror}; run the step that writes it"
        ) from error
    except ValueError as error:
        raise InvalidInput(
            f"The {kind} document {path} is not JSON ({error}); run the step that writes it again"
        ) from error
    check(body, kind, path)
    return body


def last(path: str | None, kind: DocumentKind) -> dict[str, t.Any] | None:
    """The document of a former run; None if it is missing or unusable."""
    try:
        return None if path is None else load(path, kind)
    except InvalidInput:
        return None


def check(body: t.Any, kind: DocumentKind, where: str) -> None:
    """Raise InvalidInput unless ``body`` is a document of this kind."""
    found = body.get("document") if isinstance(body, dict) else None
    if found != document_name(kind):
        raise InvalidInput(
            f"{where} is not a {kind} document: its field `document` is {found!r}, not "
            f"{document_name(kind)!r}; give the file that the {kind} step wrote"
        )
    try:
        _validator(kind)(body)
    except fastjsonschema.JsonSchemaValueException as error:
        field = error.name.replace("data", kind, 1)
        raise InvalidInput(
            f"{where} does not follow the schema of {document_name(kind)}: {field} "
            f"{error.message.replace(error.name, '', 1).strip()}; write it again with this version"
        ) from error


@functools.cache
def _validator(kind: DocumentKind) -> t.Callable[[t.Any], t.Any]:
    """Compile the schema once, because this takes longer than checking a small document."""
    validate: t.Callable[[t.Any], t.Any] = fastjsonschema.compile(SCHEMAS[kind])
    return validate


@dataclass(frozen=True)
class MadeFrom:
    """Source documents of a new document; ``run`` is their common run, if known.

    A snapshot begins a run. Documents made from documents of a run belong to that run.
    """

    paths: tuple[str, ...]
    run: str | None

    @classmethod
    def read(cls, *paths: str | None) -> MadeFrom:
        """Read the runs before loading the documents. Raises InvalidInput for two runs.

        Documents without a run match all others.
        """
        named = tuple(path for path in paths if path)
        runs = {path: run for path in named if (run := run_of(path)) is not None}
        if len(set(runs.values())) > 1:
            raise InvalidInput(
                f"{' and '.join(runs)} are from different runs, so another run wrote there "
                "meanwhile; observe again, with one run at a time in a run folder"
            )
        return cls(named, next(iter(runs.values()), None))

    def check(self) -> None:
        """Raise InvalidInput if another run has replaced one of the documents since."""
        if self.paths and self.read(*self.paths).run != self.run:
            raise InvalidInput(
                f"Another run has replaced {' and '.join(self.paths)} since they were read, so "
                "nothing was made from them; run again when it has ended"
            )


NOTHING = MadeFrom((), None)


def new_run() -> MadeFrom:
    """A new run identifier."""
    return MadeFrom((), uuid.uuid4().hex)


def run_of(path: str) -> str | None:
    """Run of a document, from the beginning of its file; None if it names none."""
    try:
        with Path(path).expanduser().open("rb") as file:
            found = _BEGINNING.match(file.read(256))
    except OSError:
        return None
    return found[1].decode() if found else None


def write(path: str, kind: DocumentKind, body: Object, made_from: MadeFrom = NOTHING) -> str:
    """Write a document, readable by its owner only, and return its SHA-256.

    The write is atomic: readers see the old content or the new one. Old versions stay beside it as
    ``<name>.1.json`` (the last one) and so on. Raises InvalidInput, also if another run has
    replaced a source document.
    """
    moment = body.get("time") or format_time(utc_now())
    head: MutableObject = {"document": document_name(kind), "time": moment}
    if made_from.run is not None:
        head = {"document": head["document"], "run": made_from.run, "time": moment}
    document = {**body, **head}
    check(document, kind, path)
    try:
        content = _encoded(head, {key: value for key, value in body.items() if key not in head})
    except ValueError as error:
        raise InvalidInput(f"The {kind} document {path} cannot be written: {error}") from error
    destination = Path(path).absolute()
    folder = destination.parent
    try:
        with whole_files.locked(folder):
            made_from.check()
            _keep_former(destination)
            whole_files.replace(destination, content)
    except OSError as error:
        raise InvalidInput(
            f"Cannot write the {kind} document {path}: {error.strerror}; make the folder {folder}"
        ) from error
    return hashlib.sha256(content).hexdigest()


def _encoded(head: Object, rest: Object) -> bytes:
    """One JSON object that begins with the head, so that ``run_of`` reads only its beginning."""
    first, others = (strict_json.format_compact(part, sort_keys=True) for part in (head, rest))
    return (f"{first[:-1]},{others[1:]}\n" if rest else f"{first}\n").encode()


def _keep_former(destination: Path) -> None:
    if not destination.exists():
        return
    former = [destination.with_suffix(f".{age}.json") for age in range(1, KEPT_DOCUMENTS + 1)]
    for older, newer in zip(reversed(former), reversed([destination, *former[:-1]])):
        if newer.exists():
            older.unlink(missing_ok=True)
            os.link(newer, older)


def keep(paths: t.Iterable[str], folder: str, run: str | None = None) -> None:
    """Keep the present versions of these documents in ``folder``, as hard links of the same names.

    The folder is created if missing. Documents are replaced and never modified, so a link keeps its
    content. A document that is missing or of another run than ``run`` is left out, and a file of
    its name in the folder is removed. Raises InvalidInput.
    """
    try:
        Path(folder).mkdir(mode=0o700, exist_ok=True)
        with whole_files.locked(Path(folder)):
            for path in map(Path, paths):
                kept = Path(folder) / path.name
                of_another = run is not None and run_of(str(path)) not in (None, run)
                if of_another or not path.exists():
                    kept.unlink(missing_ok=True)
                else:
                    whole_files.link(path, kept)
            whole_files.sync(Path(folder))
    except OSError as error:
        raise InvalidInput(
            f"Cannot keep documents in {folder}: {error.strerror} ({error.filename}); it must be a "
            "folder on their file system in which this user may write"
        ) from error
