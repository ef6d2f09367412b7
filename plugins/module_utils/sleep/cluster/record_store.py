# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The ConfigMap of the records of all fleets: a key for each, and a bounded size.

Dry runs take no Lease, and each fleet has a run of its own. So every write tests the version that
was read; after a conflict, the record is merged into the one that another run stored.
"""

from __future__ import annotations

import base64
import hashlib
import re
import typing as t

from ...base import compressed
from ...base.boundary import Finding, Subject, guarded
from ...base.context import Context
from ...base.errors import ApiError
from ...base.fields.lenient import member
from ...base.json_types import Object
from ...kube.client import Kube
from .demand_record import SleepRecord, record_of_body

NAME = "wattwise-sleep"
_CONFLICTS = 5
# A ConfigMap holds 1 MiB; these are characters of base64.
_MAX_CHARACTERS = 1_200_000
_MAX_KEY_LENGTH = 200
_DAY = 86400.0
# A fleet writes once an hour, so an older record is of a fleet that is gone.
_MAX_AGE_SECONDS = 14 * _DAY


class RecordStore:
    """The record of one fleet in the ConfigMap. ``fleet`` is any text."""

    def __init__(self, kube: Kube, namespace: str, fleet: str) -> None:
        self._kube, self._namespace = kube, namespace
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self.key = _key_of(fleet)
        self._found: Object | None = None

    def read(self, now: float) -> tuple[SleepRecord, list[Finding]]:
        """The record of former runs; a new one, with a finding, if it is unreadable.

        Raises ApiError.
        """
        self._found = self._kube.find(f"{self._collection}/{NAME}")
        packed = member(self._found, "binaryData", self.key)
        if packed is None:
            return SleepRecord(now, now), []
        read = self._read(packed, now)
        if isinstance(read, SleepRecord):
            return read, []
        return SleepRecord(now, now, is_changed=True), [read]

    def _read(self, packed: t.Any, now: float) -> SleepRecord | Finding:
        def unpack() -> SleepRecord:
            return record_of_body(compressed.unpack(base64.b64decode(packed, validate=True)), now)

        return guarded(Subject("ConfigMap", NAME, self._namespace), unpack)

    def write(self, record: SleepRecord, now: float, context: Context) -> None:
        """Write the record if it is due. Raises ApiError."""
        if not record.is_due(now):
            return
        record.at = now
        for _attempt in range(_CONFLICTS):
            try:
                self._put(record, now)
                return
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
            stored, _findings = self.read(now)
            if stored.is_stored:
                record = record.merged_into(stored)
        context.warn(
            f"The ConfigMap {self._namespace}/{NAME} was changed by others {_CONFLICTS} times, so that "
            "this run is not recorded; the next run records again"
        )

    def _put(self, record: SleepRecord, now: float) -> None:
        """Replace exactly what was read. Raises ApiError, 404 and 409 after another's write."""
        if self._found is not None:
            body = {**self._found, "binaryData": self._data(record, now)}
            self._kube.request("PUT", f"{self._collection}/{NAME}", body)
            return
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": self._namespace},
            "binaryData": self._data(record, now),
        }
        self._kube.request("POST", self._collection, body)

    def _data(self, record: SleepRecord, now: float) -> dict[str, str]:
        """All records with this one, each within its share if they would not fit."""
        given = member(self._found, "binaryData")
        data = dict(given) if isinstance(given, dict) else {}
        data[self.key] = _packed(record)
        if sum(map(len, data.values())) <= _MAX_CHARACTERS:
            return data
        others = {key: self._read(one, now) for key, one in data.items() if key != self.key}
        records = {
            key: one
            for key, one in others.items()
            if isinstance(one, SleepRecord) and one.at > now - _MAX_AGE_SECONDS
        }
        records[self.key] = record
        return {key: _packed(one, _MAX_CHARACTERS // len(records)) for key, one in records.items()}


def _packed(record: SleepRecord, limit: int = _MAX_CHARACTERS) -> str:
    """The record as text of at most ``limit`` characters; the oldest events are forgotten first."""
    while True:
        text = base64.b64encode(compressed.pack(record.as_body())).decode()
        if len(text) <= limit or not record.forget_older_half():
            return text


def _key_of(fleet: str) -> str:
    """A key of the ConfigMap; different fleets have different keys."""
    name = re.sub(r"[^-._a-zA-Z0-9]+", ".", fleet)
    if name != fleet or len(name) > _MAX_KEY_LENGTH:
        digest = hashlib.sha256(fleet.encode()).hexdigest()[:8]
        name = f"{name[:_MAX_KEY_LENGTH]}.{digest}"
    return f"{name}.gz"
