# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Step ``snapshot``: the cluster, and the run's part of it."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, replace

from ...base import documents
from ...base.json_types import MutableObject, Object
from ...inference.nodes import NodeFacts, facts_of
from ...kube.source import Parts
from ...nodeconfig.targets import Targets, of_snapshot
from ...scheduling.scope import Scope
from ...snapshot import snapshot
from ..options import of_module
from ..run import Run


@dataclass(frozen=True)
class Cluster:
    """A snapshot, and the run's part of the cluster; ``scope`` None: all of it.

    ``resolved`` are the targets of the whole cluster; None: those of the document.
    """

    snapshot: Object
    scope: Scope | None = None
    resolved: Targets | None = None

    @functools.cached_property
    def targets(self) -> Targets:
        """The targets of the run's nodes."""
        return self.targets_with(())

    def targets_with(self, names: t.Collection[str]) -> Targets:
        """The targets of the run's nodes, and of these."""
        targets = of_snapshot(self.snapshot) if self.resolved is None else self.resolved
        if self.scope is None:
            return targets
        own = self.scope.nodes
        found = tuple(one for one in targets.nodes if one.name in own or one.name in names)
        return replace(targets, nodes=found)

    @property
    def node_names(self) -> frozenset[str] | None:
        """The run's nodes; None: all."""
        return None if self.scope is None else self.scope.nodes

    @functools.cached_property
    def nodes(self) -> dict[str, NodeFacts]:
        return facts_of(self.snapshot, self.node_names)


def read_cluster(run: Run, known: Parts) -> Cluster:
    """Read the cluster, except the ``known`` parts, and begin the documents of the run."""
    with run.log.step("snapshot") as (step, context):
        options = of_module(snapshot.SPEC, run.options)
        if run.has("sleep"):
            options["include"] = [*options["include"], "bare_metal_hosts"]
        body, targets = snapshot.read_cluster(run.kube, options, context, _rendered(run), known)
        step.errors += body["findings"]
        step.counts = {name: len(items) for name, items in body.items() if isinstance(items, list)}
        with run.log.documents():
            run.folder.begin(body, context.now())
    return _scoped(run, body, targets)


def cluster_of_document(run: Run) -> Cluster:
    """The cluster of an earlier task. Raises InvalidInput."""
    return _scoped(run, run.folder.this("snapshot"))


def _scoped(run: Run, body: Object, targets: Targets | None = None) -> Cluster:
    return Cluster(body, None if run.scope_of is None else run.scope_of(body), targets)


def _rendered(run: Run) -> list[MutableObject]:
    """NodeConfigs that check mode rendered without applying them."""
    path = run.options["node_configs"]
    if not path or not run.context.check_mode:
        return []
    return list(documents.load(path, "node_configs")["node_configs"])
