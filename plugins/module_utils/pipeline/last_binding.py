# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The documents of the last binding in a ConfigMap, for runs without a persistent folder.

The report computes savings from readings before and after a placement, so the readings before it
must outlive the run. A ConfigMap holds at most 1 MiB, so documents are kept in their order until it
is full.
"""

from __future__ import annotations

import base64
import typing as t
from pathlib import Path

from ..base import compressed, documents
from ..base.errors import InvalidInput
from ..base.json_types import Object
from ..kube.client import Kube
from .config_map_record import MAX_BYTES, Record

NAME = "wattwise-last-binding"
# Files in the run folder and kinds of documents, by importance.
_FILES: tuple[tuple[str, documents.DocumentKind], ...] = (
    ("bound/bindings.json", "bindings"),
    ("bound/plan.json", "plan"),
    ("bound/readings.json", "readings"),
    ("baseline.json", "readings"),
    ("bound/curves.json", "curves"),
)
# Long parts of a plan that reports do not read.
_LEFT_OUT = ("allocations", "findings", "steps", "unplaced")


def record_of(namespace: str, suffix: str = "", owner: Object | None = None) -> Record:
    """The ConfigMap of a series of runs; ``suffix`` distinguishes it from others."""
    return Record(namespace, f"{NAME}{suffix}", owner)


def keep(kube: Kube, record: Record, folder: Path) -> list[str]:
    """Write the documents of the last binding; returns the names of those that did not fit.

    Raises ApiError.
    """
    data: dict[str, str] = {}
    left_out: list[str] = []
    room = MAX_BYTES
    for name, kind in _FILES:
        if not (folder / name).exists():
            continue
        body = documents.load(str(folder / name), kind)
        if kind == "plan":
            body.update({part: [] for part in _LEFT_OUT if part in body})
        text = _packed(body)
        if len(text) > room:
            left_out.append(name)
        else:
            data[_key(name)] = text
            room -= len(text)
    record.write(kube, data, kube.find(record.path) is not None)
    return left_out


def restore(kube: Kube, record: Record, folder: Path) -> bool:
    """Restore the documents of the last binding if the folder has none; True if restored.

    Raises ApiError, and InvalidInput for an invalid ConfigMap.
    """
    if (folder / _FILES[0][0]).exists():
        return False
    found = kube.find(record.path)
    data = (found or {}).get("binaryData") or {}
    bodies = [
        (folder / name, kind, _unpacked(data[_key(name)], name, record))
        for name, kind in _FILES
        if _key(name) in data and not (folder / name).exists()
    ]
    if not bodies:
        return False
    (folder / "bound").mkdir(mode=0o700, exist_ok=True)
    # The bindings are last, because they imply that all other documents exist.
    for path, kind, body in reversed(bodies):
        documents.write(str(path), kind, body, documents.MadeFrom((), body.get("run")))
    return True


def _key(name: str) -> str:
    return f"{name.replace('/', '.')}.gz"


def _packed(body: t.Mapping[str, t.Any]) -> str:
    return base64.b64encode(compressed.pack(body)).decode()


def _unpacked(text: str, name: str, record: Record) -> dict[str, t.Any]:
    try:
        return compressed.unpack(base64.b64decode(text))
    except ValueError as error:
        raise InvalidInput(
            f"The ConfigMap {record.name} holds no document {name} ({error}); delete it, and the next "
            "binding makes it anew"
        ) from error
