# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Step ``predict``: the power curve of each node, from the first source that has one."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.boundary import Finding, warn_of
from ...base.context import Context
from ...base.errors import TargetError, WattwiseError
from ...inference import (
    curve_sources,
    learned_curves,
    prediction,
    published_curves,
    queries,
    sources,
    stated,
)
from ...inference.curves import PowerCurves, SourceCurves, curves_of
from ...inference.nodes import name_of
from ...inference.samples import Samples
from ...nodeconfig.models import NodeModels
from ...nodeconfig.readings import Readings
from ...scheduling.curve import Curves
from ..options import of_module
from ..run import Run
from .cluster import Cluster


@dataclass(frozen=True)
class Observed:
    """Readings and models of this observation, and the curves of the last run."""

    readings: Readings
    models: t.Sequence[NodeModels]
    last_curves: PowerCurves


@dataclass(frozen=True)
class _Predicted:
    """Curves of power models; ``needed`` counts the nodes that have no stated curve."""

    curves: PowerCurves
    errors: t.Sequence[TargetError]
    needed: int
    counts: t.Mapping[str, int]


def predict_curves(
    run: Run,
    cluster: Cluster,
    readings: Readings,
    models: t.Sequence[NodeModels],
    recorded: Samples,
) -> Curves:
    """The curves of all nodes. Raises WattwiseError if too few power models answered."""
    with run.log.step("predict") as (step, context):
        last = curves_of(run.folder.last("curves"))
        observed = Observed(readings, models, last)
        said = _stated(run, cluster)
        predicted = _predicted(run, cluster, observed, said.curves, context)
        priced = {**said.curves, **predicted.curves}
        learned = _learned(run, cluster, observed, recorded, priced)
        published = _published(run, cluster, observed, priced)
        of_source: dict[str, PowerCurves] = {
            curve_sources.STATED: curve_sources.with_predicted(said.curves, predicted.curves),
            curve_sources.PREDICTOR: predicted.curves,
            curve_sources.LEARNED: learned.curves,
            curve_sources.PUBLISHED: published.curves,
        }
        curves = curve_sources.in_order(of_source)
        findings = [*said.findings, *learned.findings, *published.findings]
        findings += curve_sources.contradictions(curves, readings, of_source)
        step.errors += [error.as_dict() for error in predicted.errors]
        step.errors += [finding.as_dict() for finding in findings]
        warn_of(findings, context)
        step.counts = {**predicted.counts, **curve_sources.counted(curves, cluster.nodes)}
        lacking = curve_sources.lacking(learned, published)
        _keep_curves(run, curves, predicted.errors, findings, lacking)
        configured = [target.name for target in cluster.targets.nodes]
        run.log.summary.update(
            curves=len(curves),
            curve_sources=curve_sources.counted(curves, configured),
            published_matches=curve_sources.matches(curves),
            kept_curves=predicted.counts["kept"],
        )
        _require_curves(predicted, run.options["predict"]["min_success"])
    return Curves({name: found.curve for name, found in curves.items()})


def _stated(run: Run, cluster: Cluster) -> SourceCurves:
    given = stated.statements(run.options["predict"]["power_curves"])
    targets = {target.name: target for target in cluster.targets.nodes}
    return stated.stated_curves(cluster.nodes.values(), targets, given)


def _predicted(
    run: Run, cluster: Cluster, observed: Observed, said: PowerCurves, context: Context
) -> _Predicted:
    """Curves of power models, without queries to models whose inputs did not move."""
    options = of_module(prediction.SPEC, run.options, "predict")
    asked, without = sources.of_targets(
        cluster.targets, observed.readings, observed.models, options
    )
    keep_seconds = run.options["predict"]["keep_seconds"]
    due, kept = queries.divide(asked, observed.last_curves, context.now(), keep_seconds)
    found = prediction.predict(due, options, context, run.kube)
    counts = {
        "asked": len(due),
        "kept": len(kept),
        "requests": found.requests,
        "without_predictor": len(without),
    }
    return _Predicted(
        {**kept, **found.curves},
        # A node with a stated curve needs no predictor.
        [error for error in found.errors if error.name not in said],
        sum(query.name not in said for query in asked),
        counts,
    )


def _learned(
    run: Run, cluster: Cluster, observed: Observed, recorded: Samples, priced: PowerCurves
) -> SourceCurves:
    """Learned curves of the nodes without a stated or predicted one."""
    options = run.options["predict"]
    if not options["learn"] or cluster.nodes.keys() <= priced.keys():
        return SourceCurves()
    present = learned_curves.Present(
        observed.readings,
        {name_of(one) for one in cluster.snapshot.get("node_metrics") or ()},
        run.options["place"]["usage_source"],
        run.options["place"]["pod_usage_assumption"],
        options["type_label"],
        run.context.now(),
    )
    found = learned_curves.learned_curves(
        cluster.nodes, priced, recorded, present, observed.last_curves, options["keep_seconds"]
    )
    found.findings += recorded.findings
    return found


def _published(run: Run, cluster: Cluster, observed: Observed, priced: PowerCurves) -> SourceCurves:
    """Published curves of the same nodes, because learned curves are compared with them."""
    options = run.options["predict"]
    if not options["published"]:
        return SourceCurves()
    annotations = {one.name: one.system for one in cluster.targets.nodes if one.system}
    return published_curves.published_curves(
        cluster.nodes, priced, observed.readings, options["type_label"], annotations=annotations
    )


def _keep_curves(
    run: Run,
    curves: PowerCurves,
    errors: t.Sequence[TargetError],
    findings: t.Sequence[Finding],
    lacking: t.Mapping[str, str],
) -> None:
    body: dict[str, t.Any] = {
        "curves": {name: curve.as_document() for name, curve in curves.items()},
        "errors": [error.as_dict() for error in errors],
    }
    if findings:
        body["findings"] = [finding.as_dict() for finding in findings]
    if lacking:
        body["lacking"] = lacking
    run.write("curves", body)


def _require_curves(predicted: _Predicted, min_success: float) -> None:
    """Raise WattwiseError if too few nodes with a power model got a curve."""
    total = predicted.needed
    succeeded = total - len({error.name for error in predicted.errors})
    if total and succeeded / total < min_success:
        first = predicted.errors[0]
        raise WattwiseError(
            f"Only {succeeded} of {total} nodes with a power model got a curve, "
            f"{min_success:.0%} must; the first that failed is {first.name} "
            f"({first.endpoint}), {first.reason}: {first.detail}"
        )
