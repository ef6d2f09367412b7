# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""One run over a fleet, with values that pass from step to step."""

from __future__ import annotations

import concurrent.futures
import functools
import typing as t
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..base import documents, metrics
from ..base.boundary import Finding, Subject, guarded, warn_of
from ..base.context import Context, Parameters, Result
from ..base.errors import ApiError, InvalidInput, WattwiseError
from ..base.fields.lenient import objects
from ..base.json_types import Object
from ..base.units import format_time
from ..bind import binding, record
from ..devices import reconciliation as devices
from ..devices.reconciliation import NOTHING_KNOWN, SnapshotParts
from ..eviction import eviction
from ..extender.publication import publication_of
from ..inference import (
    curve_sources,
    kept_predictions,
    learning,
    prediction,
    published_curves,
    samples,
    sources,
    stated,
)
from ..inference.nodes import NodeFacts, facts_of, name_of
from ..inference.samples import Samples
from ..kube import unschedulable
from ..kube.apply import work as applying
from ..kube.apply.live import LiveObjects
from ..kube.client import Kube
from ..kube.source import NOTHING, Parts
from ..nodeconfig.poll import poll_targets
from ..nodeconfig.targets import Targets, of_snapshot
from ..observe import observation, pressure
from ..observe.metering import metering
from ..power import placement
from ..power.sources import given_of
from ..redfish import bmc, thermal
from ..scheduling.scope import Scope
from ..snapshot import snapshot
from . import extender_record, last_binding, stored_plan
from .config_map_record import Record
from .options import complete, of_module
from .run_folder import RunFolder
from .steps import StepLog, shares

Diffs = list[t.Mapping[str, t.Any]]
# From a snapshot to the run's part of the cluster.
ScopeOf = t.Callable[[Object], Scope]

_FIELD_MANAGER = "wattwise-observe"


def reconcile_fleet(parameters: Parameters, context: Context = Context()) -> Result:
    """Run the steps of the parameters, and return the result of each.

    Raises WattwiseError, with the results so far in its fields, if a step fails. Statuses and
    readings are written even if a later step fails.
    """
    run = FleetRun.of(parameters, context)
    try:
        run.make()
    except WattwiseError as error:
        error.fields = {**error.fields, **run.result()}
        raise
    return run.result()


@dataclass
class FleetRun:
    """Values of the run so far; None for a step that did not run in this process.

    ``scope_of`` gives the run's part of the cluster, None for all of it. Machines with a reading
    younger than ``valid_seconds`` are not asked, even if their fetchInterval is shorter.
    ``binding_record`` is the ConfigMap of the last binding, and ``publication`` is the ConfigMap for
    extenders; each is None where a run keeps none. ``known`` are parts of the cluster that were read
    just before the run.
    """

    options: Parameters
    context: Context
    folder: RunFolder
    log: StepLog
    scope_of: ScopeOf | None = None
    valid_seconds: float = 0.0
    binding_record: Record | None = None
    publication: Record | None = None
    known: Parts = NOTHING
    snapshot: Object | None = None
    answers: dict[str, t.Sequence[Result]] = field(default_factory=dict)
    observation: observation.Observation | None = None
    metered: metering.Metering | None = None
    recorded: Samples | None = None
    curves: Object | None = None
    plan: Object | None = None
    stored: stored_plan.StoredPlan | None = None
    # Pods of the plan that step bind left without a node, with reasons; devices may bind them.
    unbound: dict[tuple[str, str], str] | None = None
    devices: Result | None = None
    evicted: Result | None = None
    diffs: Diffs = field(default_factory=list)
    summary: Result = field(default_factory=dict)
    # First failure of the observation, which ends the run after all readings are written.
    failure: WattwiseError | None = None

    @classmethod
    def of(
        cls,
        parameters: Parameters,
        context: Context = Context(),
        scope_of: ScopeOf | None = None,
        valid_seconds: float = 0.0,
        binding_record: Record | None = None,
        publication: Record | None = None,
    ) -> FleetRun:
        """A new run. Raises InvalidInput."""
        options = complete(parameters)
        folder, namespace = RunFolder(options["run_dir"]), options["record_namespace"]
        if binding_record is None and namespace:
            binding_record = last_binding.record_of(namespace)
        if publication is None and options["publish_namespace"]:
            publication = extender_record.record_of(options["publish_namespace"])
        log = StepLog(context)
        return cls(
            options, context, folder, log, scope_of, valid_seconds, binding_record, publication
        )

    def make(self) -> None:
        """Execute the steps in their order. Raises WattwiseError if one fails."""
        steps: t.Mapping[str, t.Callable[[], None]] = {
            "snapshot": self._read_cluster,
            "read": self._read_machines,
            "merge": self._merge,
            "meter": self._meter,
            "predict": self._predict,
            "place": self._place,
            "store": self._store,
            "restore": self._restore,
            "bind": self._bind,
            "devices": self._give_devices,
            "evict": self._evict,
        }
        self.folder.open(self.options["run_process"], self.context.now())
        self._with_record(last_binding.restore)
        for name, step in steps.items():
            if name in self.options["steps"]:
                step()

    def _with_record(self, work: t.Callable[[Kube, Record, Path], t.Any]) -> None:
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

    @functools.cached_property
    def kube(self) -> Kube:
        return Kube.connect(self.options)

    @functools.cached_property
    def scope(self) -> Scope | None:
        """The run's part of the cluster; None: all of it."""
        return None if self.scope_of is None else self.scope_of(self._snapshot())

    @functools.cached_property
    def targets(self) -> Targets:
        targets = of_snapshot(self._snapshot())
        scope = self.scope
        if scope is None:
            return targets
        return replace(
            targets, nodes=tuple(one for one in targets.nodes if one.name in scope.nodes)
        )

    def result(self) -> Result:
        return {
            "changed": self.log.changed,
            "diff": self.diffs,
            "steps": self.log.as_list(),
            "summary": self.summary,
            "documents": self.folder.written,
            **({"stored_plan": self.stored.as_dict()} if self.stored is not None else {}),
            **({"devices": self.devices} if self.devices is not None else {}),
            **({"evict": self.evicted} if self.evicted is not None else {}),
        }

    def _snapshot(self) -> Object:
        if self.snapshot is None:
            self.snapshot = self.folder.this("snapshot")
        return self.snapshot

    def _write(self, kind: documents.DocumentKind, body: Object) -> None:
        with self.log.documents():
            self.folder.write(kind, body, self.context.now())

    def _attempt(self, work: t.Callable[[], None]) -> None:
        """Continue after a failure of one part of the observation, and keep the first failure."""
        try:
            work()
        except WattwiseError as error:
            self.failure = self.failure or error

    def _read_cluster(self) -> None:
        with self.log.step("snapshot") as (step, context):
            options = of_module(snapshot.SPEC, self.options)
            self.snapshot = snapshot.read_cluster(
                self.kube, options, context, self._rendered(), self.known
            )
            step.errors += self.snapshot["findings"]
            step.counts = {
                name: len(items) for name, items in self.snapshot.items() if isinstance(items, list)
            }
            with self.log.documents():
                self.folder.begin(self.snapshot, context.now())

    def _rendered(self) -> t.Sequence[t.Any]:
        """NodeConfigs that check mode rendered without applying them."""
        path = self.options["node_configs"]
        if not path or not self.context.check_mode:
            return ()
        return t.cast("t.Sequence[t.Any]", documents.load(path, "node_configs")["node_configs"])

    def _read_machines(self) -> None:
        with self.log.step("read") as (step, context):
            asked = self.targets.holding_at_least(self.valid_seconds)
            readings = self._last_readings
            models = (self.folder.last("models") or {}).get("models") or ()
            of_bmcs, of_servers = shares(context, 2)
            kube = self.kube

            def ask_bmcs() -> None:
                answer = bmc.read(
                    asked,
                    of_module(thermal.SPEC, self.options, "read"),
                    of_bmcs,
                    readings,
                    models,
                    kube,
                    model_max_age=self.options["read"]["model_max_age"],
                )
                self.answers.update(thermal=[answer.thermal], models=[answer.models])

            def ask_servers() -> None:
                found = poll_targets(asked, "delta_p")
                options = of_module(pressure.SPEC, self.options, "read")
                answer = pressure.read(found, options, of_servers, readings, kube)
                self.answers["pressure"] = [answer]

            with concurrent.futures.ThreadPoolExecutor(2) as executor:
                for waiting in [executor.submit(ask) for ask in (ask_bmcs, ask_servers)]:
                    self._attempt(waiting.result)
            for name in ("thermal", "pressure", "models"):
                failed = {"failed": True, "msg": str(self.failure)}
                for answer in self.answers.setdefault(name, [failed]):
                    step.errors += answer.get("errors") or ()
            if self.failure is not None:
                step.failure = str(self.failure)

    @functools.cached_property
    def _last_observation(self) -> Object:
        found: Object = self.folder.last("readings") or {}
        return found

    @property
    def _last_readings(self) -> Object:
        found: Object = self._last_observation.get("readings") or {}
        return found

    def _merge(self) -> None:
        with self.log.step("merge") as (step, context):
            given = self.options["merge"]
            last = self._last_readings
            answers = {
                name: self.answers.get(name) or self.options[name] or ()
                for name in ("thermal", "pressure", "models")
            }
            merged = observation.merge(
                self.targets,
                **answers,
                previous=last,
                previous_errors=objects(self._last_observation.get("errors")),
                max_age=given["max_age"],
                heartbeat_seconds=given["heartbeat_seconds"],
                now=context.now(),
            )
            self.observation = merged
            self.summary.update(merged.summary)
            step.counts = {
                name: value for name, value in merged.summary.items() if isinstance(value, int)
            }
            step.errors += merged.errors
            step.errors += [finding.as_dict() for finding in merged.findings]
            warn_of(merged.findings, context)
        # Refused logins come first, so that no later failure loses them.
        self._attempt(self._write_statuses)
        self._attempt(self._keep_observation)
        if self.failure is not None:
            raise self.failure
        with self.log.step("merge"):
            merged.judge(given["min_success"])

    def _write_statuses(self) -> None:
        """Write new statuses; a refused status is only a failure of its object."""
        if "statuses" not in self.options["steps"] or self.observation is None:
            return
        with self.log.step("statuses") as (step, context):
            new = self.observation.statuses
            step.counts = {"new": len(new)}
            if context.check_mode or not new:
                return
            stored = LiveObjects.of(self._snapshot()["node_configs"])
            options = applying.SPEC.complete(
                {"status": True, "on_error": "report", "field_manager": _FIELD_MANAGER}
            )
            manifests = [dict(status) for status in new]
            result = applying.apply_manifests(self.kube, manifests, options, context, stored)
            step.changed = result["changed"]
            step.errors += [item for item in result["results"] if item["action"] == "failed"]
            self.diffs += result["diff"]

    def _keep_observation(self) -> None:
        """Write the documents and the metrics of the observation."""
        merged = t.cast("observation.Observation", self.observation)
        with self.log.step("merge"):
            self._write("node_configs", {"node_configs": [], "statuses": merged.statuses})
            self._write("readings", {"readings": merged.readings, "errors": merged.errors})
            self._write("models", {"models": merged.models})
            given = self.options["merge"]
            if given["textfile"]:
                states = self._snapshot().get("rmd_node_states") or []
                text = merged.metrics(given["textfile_labels"], states)
                metrics.write(given["textfile"], text)
            if given["samples_max_age"] and self.folder.path is not None:
                self._record_samples(merged.readings, given["samples_max_age"])

    def _record_samples(self, readings: Object, max_age: float) -> None:
        """Add load and watts of each node to the samples, from which curves are learned."""
        observed = samples.observe(self._snapshot(), readings)
        if not observed:
            return
        known = self._known_samples()
        with self.log.step("merge") as (step, context):
            step.errors += [finding.as_dict() for finding in known.findings]
            warn_of(known.findings, context)
        self.recorded = samples.extended(known, observed, self.context.now(), max_age)
        self._write("samples", self.recorded.body())

    def _known_samples(self) -> Samples:
        """Samples of this run, else of former ones; an unreadable one is a finding."""
        if self.recorded is not None:
            return self.recorded
        read = guarded(
            Subject("document", "samples.json"),
            lambda: samples.read(self.folder.former("samples") or {}),
        )
        return Samples(findings=[read]) if isinstance(read, Finding) else read

    def _meter(self) -> None:
        """Watts of pods; a failure does not end the run, because no other step depends on them."""
        if self.options["meter"]["source"] == "none":
            return
        with self.log.step("meter") as (step, context):
            try:
                found = self.metered = self._metering(context)
                step.errors += [error.as_dict() for error in found.errors]
                step.counts = {
                    "pods": len(found.pods),
                    "nodes": len(found.nodes),
                    "left_out": found.left_out,
                }
                self._write_metering(found)
            except WattwiseError as error:
                context.warn(f"Watts of pods were not read or not written: {error}")
                step.errors.append({"name": "", "reason": "malformed", "detail": str(error)})

    def _metering(self, context: Context) -> metering.Metering:
        readings, last = self._read_values()[0], self.folder.last("metering")
        options = self.options["meter"]
        nodes = None if self.scope is None else self.scope.nodes
        return metering.meter(options, self._snapshot(), readings, context, self.kube, last, nodes)

    def _write_metering(self, found: metering.Metering) -> None:
        self._write("metering", found.body())
        options = self.options["meter"]
        if options["textfile"]:
            metrics.write(options["textfile"], found.metrics(options["textfile_labels"]))

    def _predict(self) -> None:
        with self.log.step("predict") as (step, context):
            options = of_module(prediction.SPEC, self.options, "predict")
            now, keep_seconds = context.now(), self.options["predict"]["keep_seconds"]
            nodes = facts_of(self._snapshot(), None if self.scope is None else self.scope.nodes)
            said, findings = self._stated(nodes)
            readings, models = self._read_values()
            subjects, without = sources.of_targets(self.targets, readings, models, options)
            last = (self.folder.last("curves") or {}).get("curves") or {}
            before = curve_sources.predicted_before(last)
            due, kept = kept_predictions.divide(subjects, before, now, keep_seconds)
            lenient = {**options, "min_success": 0.0, "on_error": "report"}
            found = prediction.predict(due, lenient, context, self.kube)
            asked = prediction.curves_of(found["predictions"])
            predicted = {**kept, **kept_predictions.with_inputs(asked, due, now)}
            inferred = self._inferred(nodes, {**said, **predicted}, readings, last)
            of_source: dict[str, t.Mapping[str, Object]] = {
                curve_sources.STATED: curve_sources.with_predicted(said, predicted),
                curve_sources.PREDICTOR: predicted,
                **inferred.curves,
            }
            self.curves = curve_sources.in_order(of_source)
            # A node with a stated curve needs no predictor.
            errors = [error for error in found["errors"] if error["name"] not in said]
            findings += inferred.findings
            findings += curve_sources.contradictions(self.curves, readings, of_source)
            step.errors += [*errors, *(finding.as_dict() for finding in findings)]
            warn_of(findings, context)
            step.counts = {
                "asked": len(due),
                "kept": len(kept),
                "requests": found["requests"],
                "without_predictor": len(without),
                **curve_sources.counted(self.curves, nodes),
            }
            self._keep_curves(errors, findings, inferred.lacking)
            self.summary.update(kept_curves=len(kept))
            needed = sum(subject.query.name not in said for subject in subjects)
            _require_curves(needed, errors, options["min_success"])

    def _keep_curves(
        self,
        errors: t.Sequence[Object],
        findings: t.Sequence[Finding],
        lacking: t.Mapping[str, str],
    ) -> None:
        curves = self.curves or {}
        body: Result = {"curves": curves, "errors": errors}
        if findings:
            body["findings"] = [finding.as_dict() for finding in findings]
        if lacking:
            body["lacking"] = lacking
        self._write("curves", body)
        configured = [target.name for target in self.targets.nodes]
        self.summary.update(
            curves=len(curves),
            curve_sources=curve_sources.counted(curves, configured),
            published_matches=curve_sources.matches(curves),
        )

    def _stated(self, nodes: t.Mapping[str, NodeFacts]) -> tuple[dict[str, Result], list[Finding]]:
        given = stated.statements(self.options["predict"]["power_curves"])
        targets = {target.name: target for target in self.targets.nodes}
        return stated.stated_curves(nodes.values(), targets, given)

    def _inferred(
        self, nodes: t.Mapping[str, NodeFacts], others: Object, readings: Object, last: Object
    ) -> curve_sources.Inferred:
        """Learned and published curves of the nodes without a curve in ``others``.

        A node may have both.
        """
        learned = self._learned(nodes, others, readings, last)
        given, published = self.options["predict"], published_curves.PublishedCurves()
        if given["published"]:
            # Learned curves are compared with them.
            annotations = {one.name: one.system for one in self.targets.nodes if one.system}
            published = published_curves.published_curves(
                nodes, others, readings, given["type_label"], annotations=annotations
            )
        return curve_sources.Inferred.of(learned, published)

    def _learned(
        self, nodes: t.Mapping[str, NodeFacts], others: Object, readings: Object, last: Object
    ) -> learning.Learning:
        """Curves of the nodes without a curve in ``others``; ``last`` are those of the last run."""
        given = self.options["predict"]
        if not given["learn"] or nodes.keys() <= others.keys():
            return learning.Learning()
        usage_source, assumption = (
            self.options["place"][name] for name in ("usage_source", "pod_usage_assumption")
        )
        metered = {name_of(one) for one in self._snapshot().get("node_metrics") or ()}
        known = self._known_samples()
        found = curve_sources.learned_curves(
            nodes,
            others,
            known,
            curve_sources.Present(readings, metered, usage_source, assumption),
            curve_sources.Keeping(last, self.context.now(), given["keep_seconds"], assumption),
            given["type_label"],
        )
        found.findings += known.findings if self.recorded is None else ()
        return found

    def _read_values(self) -> tuple[Object, t.Sequence[Object]]:
        """Readings and models, from this process or an earlier task of the run."""
        if self.observation is not None:
            return self.observation.readings, self.observation.models
        return self.folder.this("readings")["readings"], self.folder.this("models")["models"]

    def _place(self) -> None:
        with self.log.step("place") as (step, context):
            options = of_module(placement.SPEC, self.options, "place")
            if self.curves is None:
                self.curves = self.folder.this("curves")["curves"]
            previous = (self.folder.last("plan") or {}).get("placements") or ()
            given = given_of(self._snapshot(), self.curves, previous, options, self.scope)
            if self.metered is not None:
                given = replace(given, cores_by_uid=self.metered.cores_by_uid)
            plan = placement.place_pods(given, options, context)
            self.plan = {"time": format_time(context.now()), **plan}
            step.counts = {
                "placed": len(plan["placements"]),
                "unplaced": len(plan["unplaced"]),
                "unpriced": len(plan["unpriced"]),
                "steps": len(plan.get("steps") or ()),
            }
            step.errors += plan["findings"]
            self.summary.update(watts=plan["watts"], gap=plan["gap"], **step.counts)
            self._write("plan", self.plan)
            self._publish(options)

    def _publish(self, options: Parameters) -> None:
        """Curves and plan for extenders; a failure is only a warning, for scheduling continues."""
        if self.publication is None or self.context.check_mode:
            return
        body = publication_of(self.curves or {}, self.plan or {}, options, self.context.now())
        try:
            extender_record.publish(self.kube, self.publication, body)
        except (ApiError, InvalidInput) as error:
            self.context.warn(f"Curves and plan were not published for the extender: {error}")

    def _planned(self) -> Object:
        if self.plan is None:
            self.plan = self.folder.this("plan")
        return self.plan

    def _store(self) -> None:
        """Store the plan with the documents that binding and the report read."""
        with self.log.step("store") as (step, context):
            plan = self.folder.this("plan")
            bodies = {**self.folder.made(stored_plan.KINDS), "plan": plan}
            self.stored = stored_plan.store(
                lambda: self.kube,
                self.options["store"],
                bodies,
                check_mode=context.check_mode,
            )
            step.changed = True
            step.counts = {name: getattr(self.stored, name) for name in ("pods", "moves", "bytes")}

    def _restore(self) -> None:
        """Continue the run whose plan was stored."""
        with self.log.step("restore") as (step, context):
            given = self.options["restore"]
            bodies = stored_plan.restore(lambda: self.kube, given, context.now())
            with self.log.documents():
                self.folder.restore(bodies)
            self.plan = bodies["plan"]
            step.counts = {"documents": len(bodies), "pods": len(self.plan["placements"])}

    def _bind(self) -> None:
        with self.log.step("bind") as (step, context):
            options = of_module(binding.SPEC, self.options, "bind")
            plan = self._planned()
            planned = binding.planned_bindings(plan, options["mark_unplaced"], plan["time"])
            planned = self._not_yet_told(planned)
            result = binding.bind_planned(self.kube, planned, options, context, self._record)
            step.changed = result["changed"]
            step.errors += result["errors"]
            step.counts = {
                name: len(result[name]) for name in ("bound", "unchanged", "skipped", "marked")
            }
            self.summary.update(bound=len(result["bound"]), skipped=len(result["skipped"]))
            self.unbound = binding.still_waiting(result)
            self.diffs += result["diff"]

    def _not_yet_told(self, planned: binding.PlannedBindings) -> binding.PlannedBindings:
        """The plan without unplaced pods that already had their condition."""
        pods = {
            (pod["metadata"].get("namespace"), pod["metadata"]["name"]): pod
            for pod in (self.snapshot or {}).get("pods") or ()
        }

        def is_told(one: unschedulable.Unplaced) -> bool:
            pod = pods.get((one.namespace, one.pod))
            return pod is not None and unschedulable.is_marked(pod, one)

        left = [one for one in planned.unplaced if not is_told(one)]
        return replace(planned, unplaced=left)

    def _record(self, result: Result) -> None:
        """Record the bindings with the documents of the run."""
        path = self.folder.bindings
        if path is None:
            return
        others = tuple(self.folder.file(name) for name in ("snapshot", "readings", "curves"))
        files = record.Files(path, self.folder.file("plan"), others)
        plan_time, now = self._planned()["time"], self.context.now()
        with self.log.documents():
            written = record.keep(files, plan_time, result, now, self.folder.made_from)
            if written:
                self._with_record(last_binding.keep)

    def _give_devices(self) -> None:
        with self.log.step("devices") as (step, context):
            options = of_module(devices.SPEC, self.options, "devices")
            plan = self._plan_for_devices(options["plan"])
            result = devices.give_devices(
                self.kube,
                dict(plan),
                options,
                context,
                self.scope,
                # A person approved only the stored plan.
                is_approved="restore" in self.options["steps"],
                known=self._known_to_devices(),
            )
            self.devices = {
                name: result[name] for name in ("outcome", "changes", "pods", "errors", "conflict")
            }
            if self.unbound is not None:
                self.unbound = devices.left_without(result, self.unbound)
            step.changed = result["changed"]
            step.errors += result["errors"]
            step.counts = {"changes": len(result["changes"])}
            self.diffs += result["diff"]

    def _known_to_devices(self) -> SnapshotParts:
        """Nodes and pods that this process has read in this run, before any binding."""
        if self.snapshot is None or "snapshot" not in self.options["steps"]:
            return NOTHING_KNOWN
        has_bound = bool(self.summary.get("bound"))
        return SnapshotParts.of(self.snapshot, has_bound=has_bound)

    def _plan_for_devices(self, path: str | None) -> Object:
        """The plan of this run, else of the option, else of the last run, if any."""
        if self.plan is not None:
            return self.plan
        if path:
            return documents.load(path, "plan")
        return self.folder.last("plan") or {}

    def _evict(self) -> None:
        with self.log.step("evict") as (step, context):
            options = of_module(
                eviction.SPEC,
                self.options,
                "evict",
                scheduler_name=self.options["place"]["scheduler_name"],
            )
            steps = eviction.steps_of(self._planned().get("steps") or ())
            if not steps:
                return
            result = eviction.make_moves(self.kube, steps, options, context)
            self.evicted = {name: result[name] for name in ("moves", "gain_watts", "stopped")}
            step.changed = result["changed"]
            moved = sum(move["outcome"] == "moved" for move in result["moves"])
            step.counts = {"moves": len(result["moves"]), "moved": moved}
            step.errors += [result["stopped"]] if result["stopped"] else []
            self.summary["moved"] = moved
            self.diffs += result["diff"]


def _require_curves(total: int, errors: t.Sequence[Object], min_success: float) -> None:
    """Raise WattwiseError if too few nodes with a power model got a curve."""
    succeeded = total - len({error["name"] for error in errors})
    if total and succeeded / total < min_success:
        first = errors[0]
        raise WattwiseError(
            f"Only {succeeded} of {total} nodes with a power model got a curve, "
            f"{min_success:.0%} must; the first that failed is {first['name']} "
            f"({first['endpoint']}), {first['reason']}: {first['detail']}"
        )
