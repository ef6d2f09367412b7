# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Steps ``merge`` and ``statuses``: one observation, with its statuses, documents and metrics."""

from __future__ import annotations

import typing as t

from ...base import metrics
from ...base.boundary import Finding, Subject, guarded, warn_of
from ...base.errors import WattwiseError
from ...inference import samples
from ...inference.samples import Samples
from ...kube.apply import work as applying
from ...kube.apply.live import LiveObjects
from ...observe import observation
from ...observe.observation import LastObservation, Observation, Polls
from ..run import Run
from .cluster import Cluster

_FIELD_MANAGER = "wattwise-observe"


def merge_readings(run: Run, cluster: Cluster, polls: Polls, last: LastObservation) -> Observation:
    """One observation from the answers of all machines."""
    with run.log.step("merge") as (step, context):
        options = run.options["merge"]
        merged = observation.merge(
            cluster.targets,
            polls,
            last,
            max_age=options["max_age"],
            heartbeat_seconds=options["heartbeat_seconds"],
            now=context.now(),
        )
        run.log.summary.update(merged.summary)
        step.counts = {
            name: value for name, value in merged.summary.items() if isinstance(value, int)
        }
        step.errors += [error.as_dict() for error in merged.errors]
        step.errors += [finding.as_dict() for finding in merged.findings]
        warn_of(merged.findings, context)
    return merged


def keep_observation(
    run: Run, cluster: Cluster, polls: Polls, merged: Observation
) -> Samples | None:
    """Write the statuses, the documents and the metrics; the samples, if any were recorded.

    Raises the first failure of the readers or of a write after all writes, and WattwiseError if too
    few nodes were read.
    """
    failures = [] if polls.failure is None else [polls.failure]
    recorded: Samples | None = None
    try:
        # Refused logins come first, so that no later failure loses them.
        _write_statuses(run, cluster, merged)
    except WattwiseError as error:
        failures.append(error)
    try:
        with run.log.step("merge"):
            recorded = _write_documents(run, cluster, merged)
    except WattwiseError as error:
        failures.append(error)
    if failures:
        raise failures[0]
    with run.log.step("merge"):
        merged.judge(run.options["merge"]["min_success"])
    return recorded


def _write_statuses(run: Run, cluster: Cluster, merged: Observation) -> None:
    """Write new statuses; a refused status is only a failure of its object."""
    if not run.has("statuses"):
        return
    with run.log.step("statuses") as (step, context):
        step.counts = {"new": len(merged.statuses)}
        if context.check_mode or not merged.statuses:
            return
        stored = LiveObjects.of(cluster.snapshot["node_configs"])
        options = applying.SPEC.complete(
            {"status": True, "on_error": "report", "field_manager": _FIELD_MANAGER}
        )
        manifests = [dict(status) for status in merged.statuses]
        result = applying.apply_manifests(run.kube, manifests, options, context, stored)
        step.changed = result["changed"]
        step.errors += [item for item in result["results"] if item["action"] == "failed"]
        run.log.diff += result["diff"]


def _write_documents(run: Run, cluster: Cluster, merged: Observation) -> Samples | None:
    run.write("node_configs", {"node_configs": [], "statuses": merged.statuses})
    run.write("readings", merged.as_document())
    run.write("models", {"models": [models.as_document() for models in merged.models]})
    options = run.options["merge"]
    if options["textfile"]:
        states: t.Sequence[t.Any] = cluster.snapshot.get("rmd_node_states") or []
        metrics.write(options["textfile"], merged.metrics(options["textfile_labels"], states))
    if not options["samples_max_age"] or run.folder.path is None:
        return None
    return _record_samples(run, cluster, merged, options["samples_max_age"])


def _record_samples(
    run: Run, cluster: Cluster, merged: Observation, max_age: float
) -> Samples | None:
    """Add load and power draw of each node to the samples, from which curves are learned."""
    observed = samples.observe(cluster.snapshot, merged.readings)
    if not observed:
        return None
    former = former_samples(run)
    with run.log.step("merge") as (step, context):
        step.errors += [finding.as_dict() for finding in former.findings]
        warn_of(former.findings, context)
    recorded = samples.extended(former, observed, run.context.now(), max_age)
    run.write("samples", recorded.as_document())
    return recorded


def former_samples(run: Run) -> Samples:
    """Samples of former runs; an unreadable document is a finding."""
    read = guarded(
        Subject("document", "samples.json"),
        lambda: samples.read(run.folder.former("samples") or {}),
    )
    return Samples(findings=[read]) if isinstance(read, Finding) else read
