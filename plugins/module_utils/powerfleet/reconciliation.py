# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""One run for a PowerFleet, the work of power_fleet_reconciliation.

The resource is read here, and its values do not pass through Ansible, which would render them.
"""

from __future__ import annotations

import functools
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from ..base import whole_files
from ..base.argspec import KUBERNETES, LEASE, PROGRESS, RMD, ArgumentSpec
from ..base.boundary import Finding
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput, WattwiseError
from ..base.json_types import Object
from ..kube.client import Kube
from ..kube.source import Parts, read_source
from ..nodeconfig import reconciliation as node_configs
from ..pipeline.reconciliation import FleetRun
from ..pipeline.run import Run
from ..pipeline.step_log import StepLog
from ..rmd import reconciliation as rmd
from ..scheduling.scope import Scope
from ..snapshot.snapshot import SOURCES, empty, read_waiting_pods
from . import metrics, ownership, period, settings, telling
from .resource import ALL, PowerFleet, fleets_of, is_ending, parse, path_of
from .status import HEARTBEAT_SECONDS, Failure, Outcome, sleep_of, status_of, suspended_status
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

    A failed step is reported there, and raised with ``on_error: fail``. Raises WattwiseError if the
    fleet cannot be read or its status cannot be written.
    """
    options = SPEC.complete(parameters)
    kube = Kube.connect(options)
    namespace, name = options["namespace"], options["name"]
    manifest = kube.find(path_of(namespace, name))
    if manifest is None or is_ending(manifest):
        return {"changed": False, "found": False, "diff": []}
    fleet = parse(manifest)
    if isinstance(fleet, Finding):
        raise InvalidInput(f"{fleet}; install the current CRD with the wattwise.kube.crds role")
    setting = _Setting(options, context, kube, fleet)
    return _suspended(setting) if fleet.is_suspended else _made(setting)


@dataclass(frozen=True)
class _Setting:
    """The fleet, and the parts that all steps of its run share."""

    options: Parameters
    context: Context
    kube: Kube
    fleet: PowerFleet


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
    """Results of the steps so far. ``refused`` has objects that the API server refused."""

    log: StepLog
    changed: bool = False
    diff: list[Object] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    failure: Failure | None = None

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
        self.changed = self.changed or bool(found.get("changed"))
        self.diff += found.get("diff") or []
        return found

    def fail(self, step: str, error: WattwiseError) -> None:
        """Keep the first failure."""
        self.failure = self.failure or Failure(step, str(error))

    def note_refused(self, entries: t.Iterable[Object]) -> None:
        failed = (one for one in entries if one.get("action") == "failed")
        self.refused += [str(one.get("error")) for one in failed]


def _suspended(setting: _Setting) -> Result:
    """Only the status, after machines that sleep were brought back."""
    is_new = _keep_period(setting)
    woken = _wake_all(setting) if settings.has_sleepers(setting.fleet) else {}
    if not setting.context.check_mode:
        metrics.write_suspended(setting.options["run_dir"], setting.fleet)
    status = {**suspended_status(setting.fleet), **woken}
    found = {"suspended": True, "changed": is_new or bool(woken), "diff": []}
    return _with_status(setting, status, found, None)


def _wake_all(setting: _Setting) -> Result:
    """Bring back the machines of the fleet; the part of the status that says so."""
    division = _Division(fleets_of(setting.kube.list(ALL)))
    run = Run.of(
        settings.waking_options(setting.fleet, setting.options),
        setting.context,
        functools.partial(division.scope_of, setting.fleet),
        owner=f"PowerFleet {setting.fleet.key}",
    )
    try:
        FleetRun(run).make()
    except WattwiseError as error:
        setting.context.warn(f"Machines of {setting.fleet.key} were not woken: {error}")
    switched = run.log.results.get("sleep", {}).get("transitions", ())
    telling.tell_switched(setting.kube, setting.fleet, switched, setting.context)
    return {"sleep": sleep_of(setting.fleet, run.log.summary)}


def _made(setting: _Setting) -> Result:
    """All steps, then the status in every case."""
    options, fleet = setting.options, setting.fleet
    began, clock = setting.context.now(), time.monotonic()
    folder = Path(options["run_dir"])
    whole_files.make_folder(folder)
    whole_files.make_folder(settings.metrics_folder(options["run_dir"]))
    memory = Memory.read(folder)
    trigger = trigger_of(fleet, memory, began)
    division = _Division(fleets_of(setting.kube.list(ALL)))
    results = _StepResults(StepLog(setting.context))
    fleet_run = FleetRun(_run_of(setting, trigger, division, results))
    # Before anything is written: another run in this folder is refused.
    fleet_run.run.folder.open(options["run_process"], began)
    is_new_period = _keep_period(setting)
    _execute(setting, trigger, division, fleet_run, results)
    outcome = Outcome(
        trigger=trigger.name,
        began=began,
        seconds=time.monotonic() - clock,
        steps=[*results.log.as_list(), *fleet_run.run.log.as_list()],
        ownership=division.ownership,
        failure=results.failure,
        refused=results.refused,
        **_outcome_parts(fleet_run),
    )
    if not setting.context.check_mode:
        memory = memory.after(fleet, trigger, began, results.failure is None)
        memory.write(folder)
        metrics.write(options["run_dir"], fleet, outcome, memory.succeeded_at)
    _warn_of_slow_run(setting, outcome)
    if fleet.spec["sleep"]["mode"] != "dry_run":
        telling.tell_switched(setting.kube, fleet, outcome.switched, setting.context)
    found = _result(fleet, trigger, fleet_run.result(), results, outcome, is_new_period)
    status, heartbeat_seconds = status_of(fleet, outcome), options["heartbeat_seconds"]
    found = _with_status(setting, status, found, heartbeat_seconds, division.nodes)
    if results.failure is not None and options["on_error"] == "fail":
        raise WattwiseError(results.failure.sentence, **found)
    return found


def _result(
    fleet: PowerFleet,
    trigger: Trigger,
    found: Result,
    results: _StepResults,
    outcome: Outcome,
    is_new_period: bool,
) -> Result:
    """The result of the fleet's run with that of the steps before it."""
    is_reported = fleet.spec["report"]["enabled"] and trigger.is_whole
    return {
        **found,
        "changed": is_new_period or results.changed or found["changed"],
        "diff": [*results.diff, *found["diff"]],
        "steps": list(outcome.steps),
        "trigger": trigger.name,
        "suspended": False,
        "report": is_reported and outcome.failure is None,
    }


def _run_of(setting: _Setting, trigger: Trigger, division: _Division, results: _StepResults) -> Run:
    """The run; without its step ``sleep`` if ``spec.sleep`` is invalid. Raises InvalidInput."""
    given = settings.fleet_options(setting.fleet, trigger, setting.options)
    try:
        return _run_with(given, setting, trigger, division)
    except InvalidInput as error:
        if "sleep" not in given["steps"]:
            raise
        results.fail("sleep", error)
        steps = [step for step in given["steps"] if step != "sleep"]
        return _run_with({**given, "steps": steps}, setting, trigger, division)


def _run_with(given: Parameters, setting: _Setting, trigger: Trigger, division: _Division) -> Run:
    fleet, options = setting.fleet, setting.options
    return Run.of(
        given,
        setting.context,
        functools.partial(division.scope_of, fleet),
        0.0 if trigger.is_whole else float(fleet.spec["observe"]["maxAgeSeconds"]),
        settings.record_of(fleet, options),
        settings.publication_of(fleet, options),
        f"PowerFleet {fleet.key}",
    )


def _keep_period(setting: _Setting) -> bool:
    """Set the interval as ansible-operator's period; return whether it was another one."""
    if period.is_kept(setting.fleet):
        return False
    return setting.context.check_mode or period.keep(
        setting.kube, setting.fleet, telling.FIELD_MANAGER
    )


def _execute(
    setting: _Setting,
    trigger: Trigger,
    division: _Division,
    fleet_run: FleetRun,
    results: _StepResults,
) -> None:
    """Execute the steps; those before the snapshot change its content."""
    spec, log = setting.fleet.spec, fleet_run.run.log
    if spec["nodeConfigs"]["enabled"] and trigger.renders:

        def follow(context: Context) -> Result:
            found, fleet_run.known = node_configs.follow_templates(setting.kube, context)
            return found

        results.attempt("node_configs", follow)
    if spec["rmd"]["enabled"] and trigger.refreshes_rmd:
        given = settings.rmd_options(setting.fleet, setting.options)
        found = results.attempt("rmd", functools.partial(rmd.reconcile, given))
        statuses = found.get("statuses") or []
        if statuses and not setting.context.check_mode:
            telling.tell_refused(setting.kube, setting.fleet, statuses, setting.context)
    try:
        fleet_run.known = _without_other_fleets(setting, division, fleet_run.known)
        fleet_run.make()
    except WattwiseError as error:
        failed = [step["name"] for step in log.as_list() if step["failure"]]
        results.fail(failed[0] if failed else "snapshot", error)
    for step in log.as_list():
        if step["name"] == "statuses":
            results.note_refused(step["errors"])


def _without_other_fleets(setting: _Setting, division: _Division, known: Parts) -> Parts:
    """The known parts with the nodes; of an empty cluster if the fleet has no node and no pod."""
    nodes = known.objects.get("nodes")
    if nodes is None:
        nodes, findings = read_source(setting.kube, SOURCES["nodes"], None)
        known = known._replace(
            objects={**known.objects, "nodes": nodes}, findings=[*known.findings, *findings]
        )
    if ownership.selects_any(setting.fleet, nodes):
        return known
    divided = ownership.divide(division.fleets, nodes, read_waiting_pods(setting.kube))
    return known if divided.scope_of(setting.fleet.key).pods else empty()


def _outcome_parts(fleet_run: FleetRun) -> dict[str, t.Any]:
    """The parts of the outcome that the steps of the fleet's run made."""
    plan, observation = fleet_run.plan, fleet_run.observation
    log = fleet_run.run.log
    failures = (
        str(error["detail"])
        for step in log.as_list()
        if step["name"] == "meter" and fleet_run.metered is None
        for error in step["errors"]
    )
    return {
        "summary": log.summary,
        "errors": None if observation is None else observation.errors,
        # A pod that waits for its hour is no pod for which the fleet has no node.
        "unplaced": None if plan is None else [one for one in plan.unplaced if not one.starts],
        "waiting": 0 if plan is None else len(plan.unplaced) + len(plan.placements),
        "unbound": fleet_run.unbound,
        "saved_watts": metrics.saved_watts(plan),
        "metered": fleet_run.metered,
        # The run continues without any power reading.
        "metering_failure": next(failures, ""),
        "switched": log.results.get("sleep", {}).get("transitions", ()),
    }


def _warn_of_slow_run(setting: _Setting, outcome: Outcome) -> None:
    interval = setting.fleet.interval_seconds
    if outcome.seconds > interval:
        note = (
            f"The run took {outcome.seconds:.0f} s, longer than the interval of "
            f"{interval:g} s, so the next one begins late; raise spec.interval"
        )
        setting.context.warn(note)
        telling.tell(setting.kube, setting.fleet, "RunSlow", note, setting.context)


def _with_status(
    setting: _Setting,
    status: Object,
    found: Result,
    heartbeat_seconds: float | None,
    nodes: t.Sequence[Object] = (),
) -> Result:
    """The result of the run, after its status is written if it is due."""
    written = telling.write_status(
        setting.kube, setting.fleet, status, heartbeat_seconds, setting.context, nodes
    )
    ready = next(one for one in status["conditions"] if one["type"] == "Ready")
    return {
        **found,
        "found": True,
        "changed": found["changed"] or written["changed"],
        "diff": [*found["diff"], *written["diff"]],
        "ready": ready["status"] == "True",
        "status": dict(status),
        "status_written": written["written"],
    }
