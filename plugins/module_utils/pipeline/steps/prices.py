# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The prices of energy that the steps ``place`` and ``sleep`` weigh."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...base.boundary import warn_of
from ...prices import sources
from ...prices.deferral import Deferral, without
from ...prices.series import PriceSeries
from ...scheduling.plan import UnplacedPod
from ..run import Run
from .cluster import Cluster


@dataclass(frozen=True)
class Prices:
    """The usable series, and the choice of pods that wait for their hour; None without."""

    series: PriceSeries | None = None
    deferral: Deferral | None = None

    def weight(self, start: float, seconds: float) -> float:
        """The price of energy from a time on over its mean; 1 without a series."""
        if self.series is None or seconds <= 0:
            return 1.0
        return self.series.weight(start, start + seconds)


def read_prices(run: Run) -> Prices:
    """The prices of the options; they never stop a run."""
    options = run.options["prices"]
    if not sources.is_given(options):
        return Prices()
    with run.log.step("prices") as (step, context):
        found = sources.read_prices(options, context, run.folder.last("prices"))
        if found.document is not None:
            run.write("prices", found.document)
        if found.series is None:
            return Prices()
        step.counts = {"prices": len(found.series.prices)}
        if not options["defer_pods"]:
            return Prices(found.series)
        scheduler = run.options["place"]["scheduler_name"]
        now = context.now().timestamp()
        return Prices(
            found.series, Deferral(found.series, options["margin_seconds"], scheduler, now)
        )


def set_aside(
    run: Run, cluster: Cluster, prices: Prices
) -> tuple[Cluster, tuple[UnplacedPod, ...]]:
    """The cluster without the pods that wait for their hour, and these."""
    if prices.deferral is None:
        return cluster, ()
    with run.log.step("prices") as (step, context):
        pods = cluster.snapshot.get("pods") or []
        waiting, findings = prices.deferral.waiting(
            [pod for pod in pods if cluster.scope is None or cluster.scope.has_pod(pod)]
        )
        warn_of(findings, context)
        step.errors += [finding.as_dict() for finding in findings]
        step.counts["deferred"] = len(waiting)
    snapshot = {**cluster.snapshot, "pods": without(pods, waiting)}
    return replace(cluster, snapshot=snapshot), tuple(waiting.values())
