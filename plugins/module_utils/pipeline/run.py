# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The parts that all steps of one run share."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from ..base import documents
from ..base.context import Context, Parameters
from ..base.errors import ApiError, InvalidInput
from ..base.json_types import Object
from ..kube.client import Kube
from ..scheduling.scope import Scope
from . import extender_record, last_binding
from .config_map_record import Record
from .options import complete
from .run_folder import RunFolder
from .step_log import StepLog

# Owner of runs that no PowerFleet makes.
PLAYBOOK = "playbook"
# From a snapshot to the run's part of the cluster.
ScopeOf = t.Callable[[Object], Scope]


@dataclass
class Run:
    """Options, context, folder and log of one run. Raises InvalidInput for the options.

    ``scope_of`` gives the run's part of the cluster, None for all of it. Machines with a reading
    younger than ``valid_seconds`` are not read, even if their fetchInterval is shorter.
    ``binding_record`` is the ConfigMap of the last binding, and ``publication`` is the ConfigMap for
    extenders; each is None where a run keeps none. ``owner`` names the run for people, and
    ``check_owner`` raises WattwiseError if it is gone. Caps of ``other_owners`` are left to these.
    """

    options: Parameters
    context: Context = Context()
    scope_of: ScopeOf | None = None
    valid_seconds: float = 0.0
    binding_record: Record | None = None
    publication: Record | None = None
    owner: str = PLAYBOOK
    check_owner: t.Callable[[], None] = lambda: None
    other_owners: frozenset[str] = frozenset()
    folder: RunFolder = field(init=False)
    log: StepLog = field(init=False)

    def __post_init__(self) -> None:
        self.options = options = complete(self.options)
        if self.binding_record is None and options["record_namespace"]:
            self.binding_record = last_binding.record_of(options["record_namespace"])
        if self.publication is None and options["publish_namespace"]:
            self.publication = extender_record.record_of(options["publish_namespace"])
        self.folder, self.log = RunFolder(options["run_dir"]), StepLog(self.context)

    @functools.cached_property
    def kube(self) -> Kube:
        return Kube.connect(self.options)

    def has(self, step: str) -> bool:
        return step in self.options["steps"]

    def write(self, kind: documents.DocumentKind, body: Object) -> None:
        """Write a document of the run. Raises InvalidInput."""
        with self.log.documents():
            self.folder.write(kind, body, self.context.now())

    def with_record(self, work: t.Callable[[Kube, Record, Path], t.Any]) -> None:
        """Restore or keep the last binding; a failure is only a warning, because it is optional."""
        kept_in, path = self.binding_record, self.folder.path
        if kept_in is None or path is None:
            return
        try:
            work(self.kube, kept_in, path)
        except (ApiError, InvalidInput) as error:
            self.context.warn(
                f"The record of the last binding in namespace {kept_in.namespace} could not be "
                f"used, so a later report may lack the saving: {error}"
            )
