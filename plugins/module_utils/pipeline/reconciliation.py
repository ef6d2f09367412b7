# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""One run over a fleet, with values that pass from step to step."""

from __future__ import annotations

import contextlib
import functools
import typing as t
from dataclasses import replace

from ..base import documents
from ..base.context import Context, Parameters, Result
from ..base.errors import WattwiseError
from ..inference.samples import Samples
from ..kube.source import NOTHING, Parts
from ..nodeconfig.models import NodeModels, models_of
from ..nodeconfig.readings import Readings, readings_of
from ..observe.metering.metering import Metering
from ..observe.observation import LastObservation, Observation, Polls
from ..scheduling.curve import Curves
from ..scheduling.plan import Plan
from ..sleep.cluster.sleep_plan import SleepPlan
from . import last_binding
from .run import Run
from .steps.bind import Unbound, bind_pods, evict_pods, give_devices
from .steps.cluster import Cluster, cluster_of_document, read_cluster
from .steps.limits import keep_limits
from .steps.machines import given_polls, read_machines
from .steps.merge import former_samples, keep_observation, merge_readings
from .steps.meter import meter_pods
from .steps.place import keep_plan, place_pods
from .steps.predict import predict_curves
from .steps.prices import Prices, read_prices, set_aside
from .steps.sleep import FleetKnowledge, sleep_machines
from .steps.store import restore_plan, restore_sleep_plan, store_plan, store_sleep_plan

# Without these steps, and after its own failure, the step limits cannot run.
_BEFORE_LIMITS = ("restore_sleep", "snapshot", "read", "merge", "limits")


def reconcile_fleet(parameters: Parameters, context: Context = Context()) -> Result:
    """Run the steps of the parameters, and return the result of each.

    Raises WattwiseError, with the results so far in its fields, if a step fails. Statuses and
    readings are written even if a later step fails.
    """
    fleet_run = FleetRun(Run(parameters, context))
    try:
        fleet_run.make()
    except WattwiseError as error:
        error.fields = {**error.fields, **fleet_run.result()}
        raise
    return fleet_run.result()


class FleetRun:
    """The steps of one run, with the inputs of each.

    A cached property is the output of a step; the document of an earlier task replaces a step that
    does not run in this process. The five others are None until their step has run here.
    """

    def __init__(self, run: Run, known: Parts = NOTHING) -> None:
        self.run = run
        # Parts of the cluster that were read just before the run.
        self.known = known
        self.observation: Observation | None = None
        self.metered: Metering | None = None
        self.plan: Plan | None = None
        self.unbound: Unbound | None = None
        self.approved: SleepPlan | None = None

    def make(self) -> None:
        """Execute the steps in their order. Raises WattwiseError if one fails."""
        run = self.run
        steps: t.Mapping[str, t.Callable[[], None]] = {
            "restore_sleep": self._restore_sleep,
            "snapshot": self._read_cluster,
            "read": self._read_machines,
            "merge": self._merge,
            "meter": self._meter,
            "predict": self._predict,
            "place": self._place,
            "store": functools.partial(store_plan, run),
            "restore": self._restore,
            "bind": self._bind,
            "devices": self._give_devices,
            "evict": self._evict,
            "sleep": self._sleep,
            "store_sleep": functools.partial(store_sleep_plan, run),
            "limits": self._limit,
        }
        run.folder.open(run.options["run_process"], run.context.now())
        run.with_record(last_binding.restore)
        for name, step in steps.items():
            if not run.has(name):
                continue
            try:
                step()
            except WattwiseError:
                self._limit_after(name)
                raise

    def result(self) -> Result:
        log = self.run.log
        return {
            "changed": log.changed,
            "diff": log.diff,
            "steps": log.as_list(),
            "summary": log.summary,
            "documents": self.run.folder.written,
            **log.results,
        }

    @functools.cached_property
    def cluster(self) -> Cluster:
        return cluster_of_document(self.run)

    @functools.cached_property
    def last(self) -> LastObservation:
        return LastObservation.from_document(self.run.folder.last("readings"))

    @functools.cached_property
    def polls(self) -> Polls:
        return given_polls(self.run)

    @functools.cached_property
    def readings(self) -> Readings:
        return readings_of(self.run.folder.this("readings"))

    @functools.cached_property
    def models(self) -> t.Sequence[NodeModels]:
        return models_of(self.run.folder.this("models")["models"])

    @functools.cached_property
    def samples(self) -> Samples:
        return former_samples(self.run)

    @functools.cached_property
    def curves(self) -> Curves:
        return Curves.from_document(self.run.folder.this("curves")["curves"])

    @functools.cached_property
    def prices(self) -> Prices:
        return read_prices(self.run)

    def _read_cluster(self) -> None:
        self.cluster = read_cluster(self.run, self.known)

    def _read_machines(self) -> None:
        self.polls = read_machines(self.run, self.cluster, self.last)

    def _merge(self) -> None:
        merged = merge_readings(self.run, self.cluster, self.polls, self.last)
        self.observation = merged
        self.readings, self.models = merged.readings, merged.models
        recorded = keep_observation(self.run, self.cluster, self.polls, merged)
        if recorded is not None:
            self.samples = recorded

    def _meter(self) -> None:
        if self.run.options["meter"]["source"] != "none":
            self.metered = meter_pods(self.run, self.cluster, self.readings)

    def _predict(self) -> None:
        self.curves = predict_curves(
            self.run, self.cluster, self.readings, self.models, self.samples
        )

    def _place(self) -> None:
        cluster, deferred = set_aside(self.run, self.cluster, self.prices)
        plan = place_pods(self.run, cluster, self.curves, lambda: self.readings, self.metered)
        self.plan = replace(plan, unplaced=(*plan.unplaced, *deferred))
        keep_plan(self.run, self.curves, self.plan)

    def _restore(self) -> None:
        self.plan = restore_plan(self.run)

    def _planned(self) -> Plan:
        if self.plan is None:
            self.plan = Plan.from_document(self.run.folder.this("plan"))
        return self.plan

    def _bind(self) -> None:
        cluster: Cluster | None = vars(self).get("cluster")  # None if no step has needed it
        pods = () if cluster is None else cluster.snapshot.get("pods") or ()
        self.unbound = bind_pods(self.run, self._planned(), pods)

    def _give_devices(self) -> None:
        scope = None if self.run.scope_of is None else self.cluster.scope
        self.unbound = give_devices(self.run, self._plan_for_devices(), scope, self.unbound)

    def _plan_for_devices(self) -> Plan | None:
        """The plan of this run, else of the option, else of the last run, if any."""
        path = self.run.options["devices"]["plan"]
        if self.plan is not None:
            return self.plan
        body = documents.load(path, "plan") if path else self.run.folder.last("plan")
        return None if body is None else Plan.from_document(body)

    def _evict(self) -> None:
        evict_pods(self.run, self._planned())

    def _restore_sleep(self) -> None:
        self.approved = restore_sleep_plan(self.run)

    def _sleep(self) -> None:
        # Machines are brought back without any reading.
        is_off = self.run.options["sleep"]["mode"] == "off"
        known = (
            FleetKnowledge()
            if is_off
            else FleetKnowledge(self.curves, self.readings, self.samples, self.prices)
        )
        sleep_machines(self.run, self.cluster, known, self.approved)

    def _limit_after(self, failed: str) -> None:
        """Keep limits although a step failed: a rack above its limit cannot wait for pods."""
        if self.run.has("limits") and failed not in _BEFORE_LIMITS:
            with contextlib.suppress(WattwiseError):
                self._limit()

    def _limit(self) -> None:
        keep_limits(self.run, self.cluster, lambda: self.readings, lambda: self.curves)
