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
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline import compressed

NAME = "wattwise-last-binding"
_MOST_BYTES = 1_000_000
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


@dataclass(frozen=True)
class Record:
    """The ConfigMap of a series of runs; it is deleted together with ``owner`` in its namespace."""

    namespace: str
    name: str = NAME
    owner: t.Mapping[str, t.Any] | None = None

    @property
    def path(self) -> str:
        """Its path on the API server."""
        return f"/api/v1/namespaces/{self.namespace}/configmaps/{self.name}"

    def manifest(self, data: t.Mapping[str, str]) -> dict[str, t.Any]:
        """The ConfigMap with these documents."""
        metadata: dict[str, t.Any] = {"name": self.name, "namespace": self.namespace}
        if self.owner is not None:
            metadata["ownerReferences"] = [
                {
                    "apiVersion": self.owner["apiVersion"],
                    "kind": self.owner["kind"],
                    "name": self.owner["metadata"]["name"],
                    "uid": self.owner["metadata"]["uid"],
                }
            ]
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "binaryData": dict(data),
        }


def keep(kube: Kube, record: Record, folder: Path) -> list[str]:
    """Write the documents of the last binding; returns the names of those that did not fit.

    Raises ApiError.
    """
    data: dict[str, str] = {}
    left_out: list[str] = []
    room = _MOST_BYTES
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
    manifest = record.manifest(data)
    if kube.find(record.path) is None:
        kube.request("POST", record.path.rpartition("/")[0], manifest)
    else:
        kube.request("PUT", record.path, manifest)
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
