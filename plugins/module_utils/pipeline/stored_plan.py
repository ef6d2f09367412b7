# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A plan with its documents in one place, so that a later run carries out what a person approved.

There are plans of pods to bind and plans of machines to switch off. Name and SHA-256 identify a
stored plan. Its bytes are in a file, or in several immutable ConfigMaps of at most 1 MiB each.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import hashlib
import hmac
import re
import typing as t
from dataclasses import dataclass
from pathlib import Path

from ..base import compressed, documents, whole_files
from ..base.boundary import shown
from ..base.context import Parameters
from ..base.errors import ApiError, InvalidInput
from ..base.fields.strict import is_subdomain
from ..base.units import format_duration, parse_time
from ..kube.client import Kube

STORE_OPTIONS: t.Mapping[str, t.Any] = {
    "namespace": {"type": "str"},
    "path": {"type": "path"},
    "keep": {"type": "int", "default": 5},
}
RESTORE_OPTIONS: t.Mapping[str, t.Any] = {
    "namespace": {"type": "str"},
    "name": {"type": "str"},
    "path": {"type": "path"},
    "sha256": {"type": "str"},
    "max_age": {"type": "float", "default": 3600.0},
}


@dataclass(frozen=True)
class PlanKind:
    """A kind of stored plan: its document, those stored beside it, and the beginning of its name.

    ``again`` tells a person how to make a new one.
    """

    document: documents.DocumentKind
    others: tuple[documents.DocumentKind, ...]
    prefix: str
    again: str

    @property
    def documents(self) -> tuple[documents.DocumentKind, ...]:
        return (*self.others, self.document)


# Binding needs the plan, and the report needs the rest.
PLACEMENT = PlanKind(
    "plan", ("snapshot", "readings", "models", "metering", "curves"), "wattwise-plan", "place again"
)
SLEEP = PlanKind("sleep_plan", (), "wattwise-sleep", "plan again")

LABEL = "wattwise.github.io/stored-plan"
_PARTS = "wattwise.github.io/parts"
_PART = re.compile(r"(?P<plan>[a-z-]+-[0-9]{8}-[0-9]{6}-[0-9a-f]{8})-[0-9]{1,2}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PART_BYTES = 900 * 1024
_MAX_PARTS = 64
# Allowed difference between the clocks of two machines.
_CLOCK_SECONDS = 120.0

Bodies = t.Mapping[documents.DocumentKind, t.Mapping[str, t.Any]]


@dataclass(frozen=True)
class StoredPlan:
    """Identity of a stored plan, by which a later run finds and verifies it.

    ``counts`` are of pods or machines, and of moves.
    """

    sha256: str
    time: str
    counts: t.Mapping[str, int]
    bytes: int
    name: str | None = None
    namespace: str | None = None
    path: str | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """As the module returns it."""
        given = {key: value for key, value in vars(self).items() if value is not None}
        return {**given.pop("counts"), **given}


def check_options(store: Parameters | None, restore: Parameters | None) -> None:
    """Raise InvalidInput unless each group names one place, and ``restore`` a SHA-256."""
    for name, group in (("store", store), ("restore", restore)):
        if group is not None and bool(group["namespace"]) == bool(group["path"]):
            raise InvalidInput(
                f"{name}: give either namespace, for ConfigMaps, or path, for a file of this machine"
            )
    if store is not None and store["keep"] < 1:
        raise InvalidInput("store.keep: at least the new plan is kept; give 1 or more")
    if restore is None:
        return
    if not _SHA256.fullmatch(restore["sha256"] or ""):
        raise InvalidInput(
            f"restore.sha256: {shown(restore['sha256'])} is not a SHA-256 digest; give the 64 "
            "hexadecimal digits that the run which stored the plan returned"
        )
    if restore["namespace"] and not is_subdomain(restore["name"]):
        raise InvalidInput(
            f"restore.name: {shown(restore['name'])} is not the name of a stored plan; give the "
            "name that the run which stored the plan returned"
        )


def store(
    kube: t.Callable[[], Kube],
    options: Parameters,
    kind: PlanKind,
    bodies: Bodies,
    *,
    check_mode: bool,
) -> StoredPlan:
    """Store the documents, and delete the oldest plans of this kind beyond ``keep``.

    Raises ApiError and InvalidInput.
    """
    plan = bodies[kind.document]
    content = compressed.pack({str(kind): body for kind, body in bodies.items()})
    digest = hashlib.sha256(content).hexdigest()
    moment = parse_time(plan["time"], "time of the plan")
    name = f"{kind.prefix}-{moment.strftime('%Y%m%d-%H%M%S')}-{digest[:8]}"
    stored = StoredPlan(
        sha256=digest,
        time=plan["time"],
        counts=_counts(plan),
        bytes=len(content),
        **(
            {"path": str(Path(options["path"]).absolute())}
            if options["path"]
            else {"name": name, "namespace": options["namespace"]}
        ),
    )
    if check_mode:
        return stored
    if stored.path is not None:
        _write_file(Path(stored.path), content)
    else:
        _write_config_maps(kube(), stored, content)
        _delete_oldest(kube(), options["namespace"], options["keep"], kind, name)
    return stored


def _counts(plan: t.Mapping[str, t.Any]) -> dict[str, int]:
    if "machines" in plan:
        machines = plan["machines"]
        return {"machines": len(machines), "moves": sum(len(one["moves"]) for one in machines)}
    return {"pods": len(plan["placements"]), "moves": len(plan.get("steps") or ())}


def restore(
    kube: t.Callable[[], Kube], options: Parameters, kind: PlanKind, now: datetime.datetime
) -> dict[documents.DocumentKind, dict[str, t.Any]]:
    """The documents of a stored plan.

    Raises ApiError, and InvalidInput if the plan is missing, changed, too old or of another
    version.
    """
    path, name = options["path"], options["name"]
    where = f"The stored plan {path or name}"
    content = (
        _read_file(Path(path))
        if path
        else _read_config_maps(kube(), options["namespace"], name, kind.again)
    )
    if not hmac.compare_digest(hashlib.sha256(content).hexdigest(), options["sha256"]):
        raise InvalidInput(
            f"{where} is not the one that was approved: its SHA-256 differs from restore.sha256; "
            f"{kind.again}, and approve the new plan"
        )
    try:
        bodies = compressed.unpack(content)
    except ValueError as error:
        raise InvalidInput(f"{where} cannot be read ({error}); {kind.again}") from error
    found: dict[documents.DocumentKind, dict[str, t.Any]] = {}
    for document in kind.documents:
        if document in bodies:
            documents.check(bodies[document], document, f"{where}, document {document},")
            found[document] = bodies[document]
    if kind.document not in found:
        raise InvalidInput(f"{where} holds no {kind.document.replace('_', ' ')}; {kind.again}")
    _check_age(found[kind.document]["time"], options["max_age"], now, where, kind.again)
    return found


def _check_age(time: str, max_age: float, now: datetime.datetime, where: str, again: str) -> None:
    age = (now - parse_time(time, "time of the plan")).total_seconds()
    if age < -_CLOCK_SECONDS:
        raise InvalidInput(
            f"{where} is from the future ({time}); set the clocks of the machines that run Ansible"
        )
    if age > max_age:
        raise InvalidInput(
            f"{where} is {format_duration(round(age))} old, and restore.max_age allows "
            f"{format_duration(max_age)}; {again}, and approve the new plan"
        )


def _write_file(path: Path, content: bytes) -> None:
    try:
        whole_files.make_folder(path.parent)
        whole_files.replace(path, content)
    except OSError as error:
        raise InvalidInput(
            f"Cannot write the stored plan {path}: {error.strerror}; give a path where this user "
            "may write"
        ) from error


def _read_file(path: Path) -> bytes:
    try:
        with path.expanduser().open("rb") as file:
            content = file.read(_PART_BYTES * _MAX_PARTS + 1)
    except OSError as error:
        raise InvalidInput(
            f"Cannot read the stored plan {path}: {error.strerror}; give the path that the run "
            "which stored it returned"
        ) from error
    return content


def _collection(namespace: str) -> str:
    if not is_subdomain(namespace):
        raise InvalidInput(f"namespace: {shown(namespace)} is not the name of a namespace")
    return f"/api/v1/namespaces/{namespace}/configmaps"


def _part_name(name: str, number: int) -> str:
    return f"{name}-{number}"


def _write_config_maps(kube: Kube, stored: StoredPlan, content: bytes) -> None:
    parts = [content[at : at + _PART_BYTES] for at in range(0, len(content), _PART_BYTES)]
    if len(parts) > _MAX_PARTS:
        raise InvalidInput(
            f"store: the plan with its documents has {len(content)} bytes, too many for ConfigMaps; "
            "give store.path in place of store.namespace"
        )
    name, namespace = str(stored.name), str(stored.namespace)
    # The first part is written last: a plan whose first part exists is complete.
    for number, part in reversed(list(enumerate(parts))):
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": _part_name(name, number),
                "namespace": namespace,
                "labels": {LABEL: name},
                "annotations": {_PARTS: str(len(parts))},
            },
            "immutable": True,
            "binaryData": {"part": base64.b64encode(part).decode()},
        }
        try:
            kube.request("POST", _collection(namespace), manifest)
        except ApiError as error:
            # An equal plan has this name; restoring checks its SHA-256.
            if error.status != 409:
                raise


def _read_config_maps(kube: Kube, namespace: str, name: str, again: str) -> bytes:
    first = _part(kube, namespace, name, 0, again)
    counted = (first["metadata"].get("annotations") or {}).get(_PARTS, "")
    count = int(counted) if re.fullmatch(r"[0-9]{1,3}", counted) else 0
    if not 1 <= count <= _MAX_PARTS:
        raise InvalidInput(
            f"The stored plan {name} says that it has {shown(counted)} parts; {again}"
        )
    others = [_part(kube, namespace, name, number, again) for number in range(1, count)]
    try:
        parts = [
            base64.b64decode((part.get("binaryData") or {}).get("part") or "", validate=True)
            for part in (first, *others)
        ]
    except binascii.Error as error:
        raise InvalidInput(f"The stored plan {name} cannot be read ({error}); {again}") from error
    return b"".join(parts)


def _part(kube: Kube, namespace: str, name: str, number: int, again: str) -> dict[str, t.Any]:
    found = kube.find(f"{_collection(namespace)}/{_part_name(name, number)}")
    if found is None:
        raise InvalidInput(
            f"There is no ConfigMap {_part_name(name, number)} in namespace {namespace}, which the "
            f"stored plan needs; {again}, or store.keep more plans"
        )
    return found


def _delete_oldest(kube: Kube, namespace: str, keep: int, kind: PlanKind, new: str) -> None:
    """Delete all parts of the plans of a kind beyond the newest, never those of the new one.

    Names of plans begin with the time. Any writer of ConfigMaps can set labels, so only objects
    with the name of a part count.
    """
    collection = _collection(namespace)
    parts: dict[str, list[str]] = {}
    for one in kube.metadata_only().list(collection, {"labelSelector": LABEL}):
        part = _PART.fullmatch(one["metadata"]["name"])
        if part is not None and part["plan"].startswith(kind.prefix):
            parts.setdefault(part["plan"], []).append(part[0])
    former = sorted(parts.keys() - {new}, reverse=True)
    for name in former[keep - 1 :]:
        for part_name in parts[name]:
            try:
                kube.request("DELETE", f"{collection}/{part_name}")
            except ApiError as error:
                if error.status != 404:
                    raise
