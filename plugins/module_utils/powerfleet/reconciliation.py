# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""One run for a PowerFleet, the work of power_fleet_reconciliation.

The resource is read here, and its values do not pass through Ansible, which would render them.
"""

from __future__ import annotations

import datetime
import functools
import time
import typing as t
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..base import whole_files
from ..base.argspec import KUBERNETES, LEASE, PROGRESS, RMD, ArgumentSpec
from ..base.boundary import Finding
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput, WattwiseError
from ..base.fields.lenient import member
from ..base.json_types import Object
from ..kube.apply.steps import Applying
from ..kube.client import Kube
from ..kube.resource import conditions
from ..kube.resource.finalizer import is_ending
from ..kube.resource.run import Failed, Report, Run, Work
from ..kube.source import Parts, read_source
from ..nodeconfig import reconciliation as node_configs
from ..pipeline import run as pipeline_run
from ..pipeline.reconciliation import FleetRun
from ..pipeline.step_log import StepLog
from ..rmd import reconciliation as rmd
from ..scheduling.scope import Scope
from ..sleep.cluster.record import is_held
from ..snapshot.snapshot import SOURCES, empty, read_waiting_pods
from . import metrics, ownership, resource, settings
from .resource import ALL, RESOURCE_KIND, PowerFleet, fleets_of, parse, path_of
from .status import (
    HEARTBEAT_SECONDS,
    Failure,
    Outcome,
    ending_status,
    is_due,
    limits_of,
    sleep_of,
    status_of,
    suspended_status,
    unready_status,
)
from .telling import lost_machines, refused_workloads, tell_limits, tell_switched
from .triggers import Memory, Trigger, trigger_of

_CLIENT = ("ca_path", "client_cert", "client_key", "username", "password")

SPEC = KUBERNETES.merge(
    PROGRESS,
    LEASE,
    ArgumentSpec(
        {
            "namespace": {"type": "str", "required": True},
            "name": {"type": "str", "required": True},
            "run_dir": {"type": "path", "required": True},
            "run_process": {"type": "str"},
            "heartbeat_seconds": {"type": "float", "default": HEARTBEAT_SECONDS},
            "record_namespaces": {"type": "list", "elements": "str", "default": []},
            "publish_namespaces": {"type": "list", "elements": "str", "default": []},
            "default_credential_dir": {"type": "path"},
            "default_credential_namespaces": {"type": "list", "elements": "str", "default": []},
            "metering_credential_dir": {"type": "path"},
            "rmd_client": {
                "type": "dict",
                "default": {},
                "options": {name: RMD.options[name] for name in _CLIENT},
                "required_by": dict(RMD.required_by),
            },
            "on_error": {"type": "str", "default": "report", "choices": ["report", "fail"]},
        }
    ),
)


def reconcile(parameters: Parameters, context: Context = Context()) -> Result:
    """Make one run for a fleet, and write the outcome into its status.

    A failed step is reported there, and raised with ``on_error: fail``. A deleted fleet goes when
    its machines are awake. Raises WattwiseError if the fleet cannot be read or its status cannot be
    written.
    """
    options = SPEC.complete(parameters)
    kube = Kube.connect(options)
    path = path_of(options["namespace"], options["name"])
    manifest = RESOURCE_KIND.unless_gone(kube.find(path))
    if manifest is None:
        return {"changed": False, "found": False, "diff": []}
    fleet = parse(manifest)
    if isinstance(fleet, Finding):
        raise InvalidInput(f"{fleet}; install the current CRD with the wattwise.kube.crds role")
    run = Run(RESOURCE_KIND, kube, options, context, manifest, Applying(kube, context, ()))
    steps = _steps_of(run, fleet)
    work = Work(RESOURCE_KIND, lambda _run: steps, functools.partial(_report, fleet), _result)
    return work.execute(run)


def _steps_of(run: Run, fleet: PowerFleet) -> t.Iterator[_Reached]:
    if is_ending(fleet.manifest):
        return _ended(run, fleet)
    if fleet.is_suspended:
        return _suspended(run, fleet)
    return _made(_prepared(run, fleet))


@dataclass(frozen=True)
class _Reached:
    """The end of a run: its status, and the fields of its result.

    ``heartbeat_seconds`` is None if there was no run. ``nodes`` are the cluster's nodes.
    ``has_work_to_undo`` says whether machines of the fleet sleep or have a cap; None if unknown.
    """

    status: Object
    fields: Result
    has_work_to_undo: bool | None = None
    heartbeat_seconds: float | None = None
    nodes: t.Sequence[Object] = ()


@dataclass
class _Division:
    """The fleets' parts of the cluster; ``ownership`` is None until the snapshot was read."""

    fleets: t.Sequence[PowerFleet]
    ownership: ownership.Ownership | None = None
    nodes: t.Sequence[Object] = ()

    def scope_of(self, fleet: PowerFleet, snapshot: Object) -> Scope:
        self.nodes = snapshot["nodes"]
        self.ownership = ownership.divide(self.fleets, self.nodes, snapshot.get("pods") or ())
        return self.ownership.scope_of(fleet.key)


@dataclass
class _StepResults:
    """Results of the steps so far. ``refused`` has objects that the API server refused.

    ``has_abandoned`` says whether abandoned machines are not awake yet.
    """

    log: StepLog
    applying: Applying
    refused: list[str] = field(default_factory=list)
    failure: Failure | None = None
    has_abandoned: bool = False

    def attempt(self, name: str, work: t.Callable[[Context], Result]) -> Object:
        """Result of a step before the snapshot, whose failure does not stop the others."""
        try:
            with self.log.step(name) as (step, context):
                found = work(context)
                step.changed = bool(found["changed"])
                step.errors += found.get("errors") or []
                step.warnings += found.get("warnings") or []
        except WattwiseError as error:
            self.fail(name, error)
            found = error.fields
        self.note_refused([*(found.get("results") or ()), *(found.get("objects") or ())])
        self.applying.add({name: found.get(name) for name in ("changed", "diff")})
        return found

    def fail(self, step: str, error: WattwiseError) -> None:
        """Keep the first failure."""
        self.failure = self.failure or Failure(step, str(error))

    def note_refused(self, entries: t.Iterable[Object]) -> None:
        failed = (one for one in entries if one.get("action") == "failed")
        self.refused += [str(one.get("error")) for one in failed]


def _suspended(run: Run, fleet: PowerFleet) -> t.Iterator[_Reached]:
    """Only the status, after machines that sleep were brought back."""
    _keep_period(run, fleet)
    status, problem = suspended_status(fleet), ""
    if settings.has_sleepers(fleet) or settings.may_have_caps(fleet):
        living = fleets_of(run.kube.list(ALL))
        undone = _undo_all(run, fleet, living, living)
        problem = undone.problem
        if problem:
            run.context.warn(f"Machines of {fleet.key} were not woken: {problem}")
        status = undone.within(status)
        run.applying.add({"changed": True})
    if not run.context.check_mode:
        metrics.write_suspended(run.given["run_dir"], fleet)
    yield _Reached(status, {"suspended": True}, _has_work_to_undo(fleet, status, not problem))


def _ended(run: Run, fleet: PowerFleet) -> t.Iterator[_Reached]:
    """Bring back the machines of a deleted fleet, which goes when none sleeps or has a cap."""
    living = fleets_of(run.kube.list(ALL))
    undone = _undo_all(run, fleet, [*ownership.heirs(fleet, living), fleet], living)
    waits = bool(undone.left or undone.capped or undone.problem)
    status = dict(fleet.status)
    if waits:
        told = ending_status(fleet, undone.left, undone.capped, undone.problem)
        status = undone.within(told)
    yield _Reached(status, {"suspended": fleet.is_suspended}, waits)
    if undone.problem:
        raise Failed("MachinesNotWoken", undone.problem)


def _has_work_to_undo(fleet: PowerFleet, status: Object, is_complete: bool) -> bool | None:
    """Whether a status has such work; None if it has none and the run is not complete."""
    has_work = settings.has_sleepers(fleet, status) or settings.has_caps(fleet, status)
    return None if not has_work and not is_complete else has_work


class _Undone(t.NamedTuple):
    """Parts of the status, machines that sleep or have a cap, and the failure of the run."""

    parts: Object
    left: t.Sequence[str]
    capped: t.Sequence[str]
    problem: str

    def within(self, status: Object) -> dict[str, t.Any]:
        """A status with these parts; an empty part goes."""
        whole = {**status, **self.parts}
        return {name: part for name, part in whole.items() if part or name not in self.parts}


def _undo_all(
    run: Run,
    fleet: PowerFleet,
    fleets: t.Sequence[PowerFleet],
    living: t.Sequence[PowerFleet],
    *,
    with_caps: bool = True,
) -> _Undone:
    """Bring back the machines of the fleet among fleets, the first of which owns a node.

    Machines that are abandoned among the ``living`` fleets come back, too, but for others' caps.
    """
    division, problem = _Division(fleets), ""
    now = run.context.now().timestamp()

    def scope_of(snapshot: Object) -> Scope:
        scope = division.scope_of(fleet, snapshot)
        abandoned = ownership.abandoned(fleet, living, division.nodes, now)
        return replace(scope, nodes=scope.nodes | abandoned)

    waking = pipeline_run.Run(
        settings.undoing_options(fleet, run.given, with_caps=with_caps),
        run.context,
        scope_of,
        owner=f"{ownership.OWNER}{fleet.key}",
        other_owners=_other_owners(fleet, living),
    )
    try:
        FleetRun(waking).make()
    except WattwiseError as error:
        problem = str(error)
    found = waking.log.results.get("sleep", {})
    switched = found.get("transitions", ())
    run.applying.add({"changed": bool(switched)})
    tell_switched(run.reporter, fleet, switched)
    left = _left_by(found, division.nodes)
    summary = waking.log.summary
    parts = {"sleep": sleep_of(fleet, summary), "limits": limits_of(fleet, summary)}
    return _Undone(parts, left, member(summary, "limiting", "capped") or (), problem)


def _other_owners(fleet: PowerFleet, living: t.Iterable[PowerFleet]) -> frozenset[str]:
    """The owners that end their caps themselves."""
    others = (f"{ownership.OWNER}{one.key}" for one in living if one.key != fleet.key)
    return frozenset((*others, pipeline_run.PLAYBOOK))


def _left_by(found: Object, nodes: t.Iterable[Object]) -> list[str]:
    """Machines that a step of sleep left in another phase than awake, but for those on hold."""
    held = {member(node, "metadata", "name") for node in nodes if is_held(node)}
    return [
        one["name"]
        for one in found.get("machines", ())
        if one["phase"] != "awake" and one["name"] not in held
    ]


@dataclass(frozen=True)
class _Parts:
    """The parts of a run that its steps share and fill."""

    run: Run
    fleet: PowerFleet
    trigger: Trigger
    division: _Division
    fleet_run: FleetRun
    results: _StepResults
    memory: Memory
    began: datetime.datetime


def _prepared(run: Run, fleet: PowerFleet) -> _Parts:
    """The parts of a run, whose folder is its own now. Raises InvalidInput."""
    options, began = run.given, run.context.now()
    folder = Path(options["run_dir"])
    whole_files.make_folder(folder)
    whole_files.make_folder(settings.metrics_folder(options["run_dir"]))
    memory = Memory.read(folder)
    trigger = trigger_of(fleet, memory, began)
    division = _Division(fleets_of(run.kube.list(ALL)))
    results = _StepResults(StepLog(run.context), run.applying)
    fleet_run = FleetRun(_run_of(run, fleet, trigger, division, results))
    # Before anything is written: another run in this folder is refused.
    fleet_run.run.folder.open(options["run_process"], began)
    return _Parts(run, fleet, trigger, division, fleet_run, results, memory, began)


def _made(parts: _Parts) -> t.Iterator[_Reached]:
    """All steps, each of which may fail."""
    run, fleet, clock = parts.run, parts.fleet, time.monotonic()
    if _needs_finalizer(fleet):
        run.keep_finalizer(is_needed=True)
    _keep_period(run, fleet)
    _execute(parts)
    outcome, failure = _outcome(parts, time.monotonic() - clock), parts.results.failure
    if not run.context.check_mode:
        memory = parts.memory.after(fleet, parts.trigger, parts.began, failure is None)
        memory.write(Path(run.given["run_dir"]))
        metrics.write(run.given["run_dir"], fleet, outcome, memory.succeeded_at)
    _warn_of_slow_run(run, fleet, outcome)
    if fleet.spec["sleep"]["mode"] != "dry_run":
        tell_switched(run.reporter, fleet, outcome.switched)
    status = status_of(fleet, outcome)
    if "limiting" in outcome.summary:
        tell_limits(run.reporter, fleet, status)
    yield _Reached(
        status,
        _fields(parts, outcome),
        parts.results.has_abandoned or _has_work_to_undo(fleet, status, failure is None),
        run.given["heartbeat_seconds"],
        parts.division.nodes,
    )
    if failure is not None:
        raise Failed(failure.reason, failure.sentence)


def _fields(parts: _Parts, outcome: Outcome) -> Result:
    """The result of the fleet's run with the steps before it."""
    found = parts.fleet_run.result()
    parts.run.applying.add({name: found.pop(name) for name in ("changed", "diff")})
    is_reported = parts.fleet.spec["report"]["enabled"] and parts.trigger.is_whole
    return {
        **found,
        "steps": list(outcome.steps),
        "trigger": parts.trigger.name,
        "suspended": False,
        "report": is_reported and outcome.failure is None,
    }


def _report(
    fleet: PowerFleet, run: Run, reached: _Reached | None, failure: conditions.Failure | None
) -> Report:
    """The outcome of a run, with the status if it is due."""
    if reached is None:
        if failure is None:
            raise AssertionError
        unready = unready_status(fleet, failure.reason, failure.sentence)
        reached = _Reached(unready, {"suspended": fleet.is_suspended})
    status, now = reached.status, run.context.now()
    is_told = is_due(status, fleet.status, reached.heartbeat_seconds, now)
    is_ready = conditions.has_condition({"status": status}, "Ready")
    may_need = _needs_finalizer(fleet) and not (is_ending(run.resource) or fleet.is_suspended)
    keeps = None if reached.has_work_to_undo is None else may_need or reached.has_work_to_undo
    return Report(
        {**reached.fields, "ready": is_ready, "status": dict(status)},
        run.status_manifests(dict(status)) if is_told else (),
        notes={"MachineLost": lost_machines(fleet, status, reached.nodes)},
        keeps_finalizer=keeps,
    )


def _result(fields: Result, applied: Result) -> Result:
    """The result of the module; only the status was applied."""
    is_written = any(one["action"] != "unchanged" for one in applied["results"])
    changes = {name: applied[name] for name in ("changed", "diff")}
    return {**fields, **changes, "found": True, "status_written": is_written}


def _run_of(
    run: Run, fleet: PowerFleet, trigger: Trigger, division: _Division, results: _StepResults
) -> pipeline_run.Run:
    """The run; without its step ``sleep`` if ``spec.sleep`` is invalid. Raises InvalidInput."""
    given = settings.fleet_options(fleet, trigger, run.given)
    others = (
        run.context,
        functools.partial(division.scope_of, fleet),
        0.0 if trigger.is_whole else float(fleet.spec["observe"]["maxAgeSeconds"]),
        settings.record_of(fleet, run.given),
        settings.publication_of(fleet, run.given),
        f"{ownership.OWNER}{fleet.key}",
        functools.partial(_check_kept, run, fleet),
        # Without a limit only caps of its own may be left.
        frozenset() if settings.has_limits(fleet) else _other_owners(fleet, division.fleets),
    )
    try:
        return pipeline_run.Run(given, *others)
    except InvalidInput as error:
        if "sleep" not in given["steps"]:
            raise
        results.fail("sleep", error)
        steps = [step for step in given["steps"] if step != "sleep"]
        return pipeline_run.Run({**given, "steps": steps}, *others)


def _check_kept(run: Run, fleet: PowerFleet) -> None:
    """Only a fleet with the finalizer switches machines off or caps them; its deletion undoes it."""
    if _needs_finalizer(fleet):
        run.check_kept()


def _needs_finalizer(fleet: PowerFleet) -> bool:
    return fleet.spec["sleep"]["mode"] == "on" or settings.sets_caps(fleet)


def _keep_period(run: Run, fleet: PowerFleet) -> None:
    """Set the interval as ansible-operator's period."""
    if not resource.period_is_kept(fleet):
        manager = run.resource_kind.field_manager
        is_new = run.context.check_mode or resource.keep_period(run.kube, fleet, manager)
        run.applying.add({"changed": is_new})


def _execute(parts: _Parts) -> None:
    """Execute the steps; those before the snapshot change its content."""
    run, fleet, trigger = parts.run, parts.fleet, parts.trigger
    fleet_run, results = parts.fleet_run, parts.results
    spec, log = fleet.spec, fleet_run.run.log
    if spec["nodeConfigs"]["enabled"] and trigger.renders:

        def follow(context: Context) -> Result:
            found, fleet_run.known = node_configs.follow_templates(run.kube, context)
            return found

        results.attempt("node_configs", follow)
    if spec["rmd"]["enabled"] and trigger.refreshes_rmd:
        given = settings.rmd_options(fleet, run.given)
        found = results.attempt("rmd", functools.partial(rmd.reconcile, given))
        refused = refused_workloads(found.get("statuses") or ())
        if not run.context.check_mode:
            run.reporter.tell_each(fleet.as_object, "WorkloadRefused", refused)
    try:
        known = _with_nodes(run.kube, fleet_run.known)
        _wake_abandoned(parts, known.objects["nodes"])
        fleet_run.known = _without_other_fleets(parts, known)
        fleet_run.make()
    except WattwiseError as error:
        failed = [step["name"] for step in log.as_list() if step["failure"]]
        results.fail(failed[0] if failed else "snapshot", error)
    for step in log.as_list():
        if step["name"] == "statuses":
            results.note_refused(step["errors"])


def _with_nodes(kube: Kube, known: Parts) -> Parts:
    """The known parts with the nodes. Raises ApiError."""
    if "nodes" in known.objects:
        return known
    nodes, findings = read_source(kube, SOURCES["nodes"], None)
    return known._replace(
        objects={**known.objects, "nodes": nodes}, findings=[*known.findings, *findings]
    )


def _wake_abandoned(parts: _Parts, nodes: t.Sequence[Object]) -> None:
    """Wake machines of the fleet that no fleet handles any more, before its own steps."""
    run, fleet, living = parts.run, parts.fleet, parts.division.fleets
    if not ownership.abandoned(fleet, living, nodes, parts.began.timestamp()):
        return
    woken = _undo_all(run, fleet, (), living, with_caps=False)
    parts.results.has_abandoned = bool(woken.left or woken.problem)
    if woken.problem:
        parts.results.fail("sleep", WattwiseError(woken.problem))


def _without_other_fleets(parts: _Parts, known: Parts) -> Parts:
    """The known parts; of an empty cluster if the fleet has no node and no pod."""
    nodes = known.objects["nodes"]
    if ownership.selects_any(parts.fleet, nodes) or settings.may_have_caps(parts.fleet):
        return known
    divided = ownership.divide(parts.division.fleets, nodes, read_waiting_pods(parts.run.kube))
    return known if divided.scope_of(parts.fleet.key).pods else empty()


def _outcome(parts: _Parts, seconds: float) -> Outcome:
    """The outcome of the steps."""
    fleet_run, results = parts.fleet_run, parts.results
    plan, observation, log = fleet_run.plan, fleet_run.observation, fleet_run.run.log
    failures = (
        str(error["detail"])
        for step in log.as_list()
        if step["name"] == "meter" and fleet_run.metered is None
        for error in step["errors"]
    )
    return Outcome(
        trigger=parts.trigger.name,
        began=parts.began,
        seconds=seconds,
        steps=[*results.log.as_list(), *log.as_list()],
        ownership=parts.division.ownership,
        summary=log.summary,
        errors=None if observation is None else observation.errors,
        # A pod that waits for its hour is no pod for which the fleet has no node.
        unplaced=None if plan is None else [one for one in plan.unplaced if not one.starts],
        waiting=0 if plan is None else len(plan.unplaced) + len(plan.placements),
        unbound=fleet_run.unbound,
        saved_watts=metrics.saved_watts(plan),
        metered=fleet_run.metered,
        # The run continues without any power reading.
        metering_failure=next(failures, ""),
        switched=log.results.get("sleep", {}).get("transitions", ()),
        failure=results.failure,
        refused=results.refused,
    )


def _warn_of_slow_run(run: Run, fleet: PowerFleet, outcome: Outcome) -> None:
    interval = fleet.interval_seconds
    if outcome.seconds > interval:
        note = (
            f"The run took {outcome.seconds:.0f} s, longer than the interval of "
            f"{interval:g} s, so the next one begins late; raise spec.interval"
        )
        run.context.warn(note)
        run.reporter.tell(fleet.as_object, "RunSlow", note)
