# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The documents of a run, for audit, replay and later tasks."""

from __future__ import annotations

import datetime
import typing as t
from pathlib import Path

from ..base import documents, whole_files
from ..base.json_types import Object
from ..base.units import format_time
from ..bind.binding import Bindings
from ..snapshot import run_owner

# Kind → file, if the names differ.
_FILES = {"node_configs": "statuses"}


class RunFolder:
    """The folder of a cluster's documents; without a path nothing is written or found."""

    def __init__(self, path: str | None) -> None:
        self._path = Path(path).absolute() if path else None
        # Source documents of all others in this run.
        self._made_from = documents.NOTHING
        self.written: dict[str, str] = {}

    def open(self, run_process: str | None, now: datetime.datetime) -> None:
        """Create the folder if missing, and claim it for this run. Raises InvalidInput."""
        if self._path is None:
            return
        whole_files.make_folder(self._path)
        if run_process:
            run_owner.claim(self.file("snapshot"), run_process, now)

    def file(self, kind: str) -> str:
        """Path of a document, for a folder with a path."""
        return str((self._path or Path()) / f"{_FILES.get(kind, kind)}.json")

    @property
    def path(self) -> Path | None:
        return self._path

    def last(self, kind: documents.DocumentKind) -> Object | None:
        """Document of the last run; None if missing or unusable."""
        return None if self._path is None else documents.last(self.file(kind), kind)

    def former(self, kind: documents.DocumentKind) -> Object | None:
        """Document of a former run; None if missing. Raises InvalidInput if unusable."""
        if self._path is None or not Path(self.file(kind)).exists():
            return None
        return documents.load(self.file(kind), kind)

    def this(self, kind: documents.DocumentKind) -> Object:
        """Document of an earlier task of this run. Raises InvalidInput."""
        paths = dict.fromkeys((*self._made_from.paths, self.file(kind)))
        self._made_from = documents.MadeFrom.read(*paths)
        return documents.load(self.file(kind), kind)

    def begin(self, snapshot: Object, now: datetime.datetime) -> None:
        """Write the snapshot, which begins a run."""
        self._made_from = documents.new_run()
        self.write("snapshot", snapshot, now)
        if self._path is not None:
            paths = (self.file("snapshot"),)
            self._made_from = documents.MadeFrom(paths, self._made_from.run)

    def made(
        self, kinds: t.Iterable[documents.DocumentKind]
    ) -> dict[documents.DocumentKind, dict[str, t.Any]]:
        """The documents that this run made. Raises InvalidInput."""
        run = self._made_from.run
        return {
            kind: documents.load(self.file(kind), kind)
            for kind in kinds
            if Path(self.file(kind)).exists() and documents.run_of(self.file(kind)) in (None, run)
        }

    def restore(self, bodies: t.Mapping[documents.DocumentKind, Object]) -> None:
        """Write the documents of a former run, and continue that run. Raises InvalidInput."""
        run = next((body["run"] for body in bodies.values() if "run" in body), None)
        self._made_from = documents.MadeFrom((), run)
        if self._path is None:
            return
        for kind, body in bodies.items():
            documents.write(self.file(kind), kind, body, self._made_from)
            self.written[_FILES.get(kind, kind)] = self.file(kind)

    def write(self, kind: documents.DocumentKind, body: Object, now: datetime.datetime) -> None:
        """Write a document of this run. Raises InvalidInput."""
        if self._path is None:
            return
        path = self.file(kind)
        documents.write(path, kind, {"time": format_time(now), **body}, self._made_from)
        self.written[_FILES.get(kind, kind)] = path

    def keep_bindings(self, plan_time: str, bindings: Bindings, now: datetime.datetime) -> bool:
        """Write the bindings document, and keep those of its plan beside it; whether it was due.

        Planned pods that an earlier run bound are recorded too. A document that another run
        replaced meanwhile is left out. ``now`` is the time after the last binding. Raises
        InvalidInput.
        """
        if self._path is None:
            return False
        path = self._path / "bound" / "bindings.json"
        if not _is_due(str(path), plan_time, bindings):
            return False
        kept = [self.file(kind) for kind in ("plan", "snapshot", "readings", "curves")]
        documents.keep(kept, str(path.parent), self._made_from.run)
        result = bindings.as_result()
        body = {
            "time": format_time(now),
            "bound": [*result["bound"], *result["unchanged"]],
            "skipped": result["skipped"],
            "errors": result["errors"],
            "plan_time": plan_time,
        }
        documents.write(str(path), "bindings", body, self._made_from)
        return True


def _is_due(path: str, plan_time: str, bindings: Bindings) -> bool:
    """Whether a pod was bound, or an interrupted run bound all pods without a record."""
    if bindings.of("bound") or not bindings.of("unchanged"):
        return bool(bindings.of("bound"))
    recorded = documents.last(path, "bindings") or {}
    return bool(recorded.get("plan_time", "") < plan_time)
