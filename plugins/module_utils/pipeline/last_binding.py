# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The documents of the last binding in a ConfigMap, for runs whose folder does not survive them.

The report reckons what a placement saves from readings before and after it, so the ones before must
outlive the run that bound. A ConfigMap holds at most 1 MiB, so documents are kept in their order as
long as there is room.
"""

from __future__ import annotations

import base64
import gzip
import io
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents, strict_json
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube

NAME = "wattwise-last-binding"
_MOST_BYTES = 1_000_000
# A document that unpacks to more was not packed here.
_LONGEST = 100_000_000
# File in the run folder and kind of its document; the first matter most.
_FILES: tuple[tuple[str, documents.DocumentKind], ...] = (
    ("bound/bindings.json", "bindings"),
    ("bound/plan.json", "plan"),
    ("bound/readings.json", "readings"),
    ("baseline.json", "readings"),
    ("bound/curves.json", "curves"),
)
# Long parts of a plan that no report reads.
_LEFT_OUT = ("allocations", "findings", "steps", "unplaced")


def keep(kube: Kube, namespace: str, folder: Path) -> list[str]:
    """Write the documents of the folder's last binding; the names of those that had no room.

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
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": namespace},
        "binaryData": data,
    }
    path = _path(namespace)
    if kube.find(path) is None:
        kube.request("POST", path.rpartition("/")[0], manifest)
    else:
        kube.request("PUT", path, manifest)
    return left_out


def restore(kube: Kube, namespace: str, folder: Path) -> bool:
    """Bring back the documents of the last binding, where the folder has none; whether it did.

    Raises ApiError, and InvalidInput where the ConfigMap holds no documents.
    """
    if (folder / _FILES[0][0]).exists():
        return False
    found = kube.find(_path(namespace))
    data = (found or {}).get("binaryData") or {}
    bodies = [
        (folder / name, kind, _unpacked(data[_key(name)], name))
        for name, kind in _FILES
        if _key(name) in data and not (folder / name).exists()
    ]
    if not bodies:
        return False
    (folder / "bound").mkdir(mode=0o700, exist_ok=True)
    # The bindings come last: they say that all others are there.
    for path, kind, body in reversed(bodies):
        documents.write(str(path), kind, body, documents.MadeFrom((), body.get("run")))
    return True


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{NAME}"


def _key(name: str) -> str:
    return f"{name.replace('/', '.')}.gz"


def _packed(body: t.Mapping[str, t.Any]) -> str:
    # Without the time of packing, so that equal documents are equal.
    text = strict_json.format_compact(body, sort_keys=True).encode()
    return base64.b64encode(gzip.compress(text, mtime=0)).decode()


def _unpacked(text: str, name: str) -> dict[str, t.Any]:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(base64.b64decode(text))) as file:
            content = file.read(_LONGEST + 1)
        if len(content) > _LONGEST:
            raise ValueError("it is too long")
        body = strict_json.parse(content)
    except (OSError, EOFError, ValueError) as error:
        raise InvalidInput(
            f"The ConfigMap {NAME} holds no document {name} ({error}); delete it, and the next "
            "binding makes it anew"
        ) from error
    return t.cast("dict[str, t.Any]", body)
