# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The JSON documents that pass between steps: written whole or not at all, checked when read."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.context import utc_now
from ansible_collections.wattwise.kube.plugins.module_utils.document_schemas import SCHEMAS
from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput, require
from ansible_collections.wattwise.kube.plugins.module_utils.units import format_time

DocumentKind = t.Literal[
    "snapshot",
    "node_configs",
    "readings",
    "models",
    "curves",
    "plan",
    "bindings",
    "report",
    "summary",
    "rmd",
]


KEPT_DOCUMENTS = 3


def document_name(kind: str) -> str:
    """What stands in a document's field ``document``: kind and version."""
    return f"wattwise.kube/{kind}/v1"


def load(
    path: str,
    kind: DocumentKind,
    shorten: t.Callable[[dict[str, t.Any]], t.Any] | None = None,
) -> dict[str, t.Any]:
    """Read the document of this kind at ``path`` and check it against its schema.

    ``shorten`` gets each object of the document as soon as it is read, those inside it first, and
    gives what stands for it: who needs little of a large document never has all of it in memory.
    Raises InvalidInput, which names the file and the field.
    """
    try:
        body = json.loads(Path(path).read_text(encoding="utf-8"), object_hook=shorten)
    except OSError as error:
        raise InvalidInput(
            f"Cannot read the {kind} document {path}: {error.strerror}; run the step that writes it"
        ) from error
    except ValueError as error:
        raise InvalidInput(
            f"The {kind} document {path} is not JSON ({error}); run the step that writes it again"
        ) from error
    check(body, kind, path)
    return t.cast("dict[str, t.Any]", body)


def check(body: t.Any, kind: DocumentKind, where: str) -> None:
    """Raise InvalidInput unless ``body`` is a document of this kind."""
    found = body.get("document") if isinstance(body, dict) else None
    if found != document_name(kind):
        raise InvalidInput(
            f"{where} is not a {kind} document: its field `document` is {found!r}, not "
            f"{document_name(kind)!r}; give the file that the {kind} step wrote"
        )
    fastjsonschema = require("fastjsonschema")
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
    """The schema as code, made once: that takes longer than checking a small document."""
    return t.cast("t.Callable[[t.Any], t.Any]", require("fastjsonschema").compile(SCHEMAS[kind]))


def write(path: str, kind: DocumentKind, body: t.Mapping[str, t.Any]) -> str:
    """Write a document, readable by its owner only, and return its SHA-256.

    The file appears whole: readers see the old content or the new one. The former ones stay
    beside it, as ``<name>.1.json`` for the last and so on.
    """
    moment = body.get("time") or format_time(utc_now())
    document = {"document": document_name(kind), "time": moment, **body}
    check(document, kind, path)
    content = (json.dumps(document, separators=(",", ":"), sort_keys=True) + "\n").encode()
    destination = Path(path).absolute()
    folder = destination.parent
    try:
        handle, partial = tempfile.mkstemp(dir=folder, prefix=f".{destination.name}.")
    except OSError as error:
        raise InvalidInput(
            f"Cannot write the {kind} document {path}: {error.strerror}; make the folder {folder}"
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        _keep_former(destination)
        Path(partial).replace(destination)
    except BaseException:
        Path(partial).unlink()
        raise
    return hashlib.sha256(content).hexdigest()


def _keep_former(destination: Path) -> None:
    if not destination.exists():
        return
    former = [destination.with_suffix(f".{age}.json") for age in range(1, KEPT_DOCUMENTS + 1)]
    for older, newer in zip(reversed(former), reversed([destination, *former[:-1]])):
        if newer.exists():
            older.unlink(missing_ok=True)
            os.link(newer, older)


def keep(paths: t.Iterable[str], folder: str) -> None:
    """Keep these documents in ``folder`` as they are now, under their names, as hard links.

    The folder is made where it is missing. A document is only ever replaced, never changed, so a
    link holds what it held. One that is not there is left out, and so is its namesake in the
    folder. Raises InvalidInput.
    """
    try:
        Path(folder).mkdir(mode=0o700, exist_ok=True)
        for path in map(Path, paths):
            kept = Path(folder) / path.name
            kept.unlink(missing_ok=True)
            if path.exists():
                os.link(path, kept)
    except OSError as error:
        raise InvalidInput(
            f"Cannot keep documents in {folder}: {error.strerror} ({error.filename}); it must be a "
            "folder on their file system in which this user may write"
        ) from error
