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
from ..kube.source import read_source
from ..nodeconfig import reconciliation as node_configs
from ..pipeline.reconciliation import FleetRun
from ..pipeline.steps import StepLog
from ..reconcile import rmd
from ..scheduling.scope import Scope
from ..snapshot.snapshot import SOURCES, empty, read_waiting_pods
from . import metrics, ownership, period, settings, telling
from .resource import ALL, PowerFleet, fleets_of, is_ending, parse, path_of
from .status import HEARTBEAT_SECONDS, Failure, Outcome, status_of, suspended_status
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
        raise InvalidInput(f"{fleet}; install the current definition with role wattwise.kube.crds")
    run = _Run(options, context, kube, fleet)
    return run.suspended() if fleet.is_suspended else run.made()


@dataclass
class _Run:
    """One run and its state."""

    options: Parameters
    context: Context
    kube: Kube
    fleet: PowerFleet
    result: Result = field(default_factory=dict)
    failure: Failure | None = None
    # Objects that the API server refused while the steps continued.
    refused: list[str] = field(default_factory=list)
    ownership: ownership.Ownership | None = None
    nodes: t.Sequence[Object] = ()

    def suspended(self) -> Result:
        """Only the status."""
        is_new = self._keep_period()
        if not self.context.check_mode:
            metrics.write_suspended(self.options["run_dir"], self.fleet)
        status = suspended_status(self.fleet)
        return self._told(status, {"suspended": True, "changed": is_new, "diff": []}, None)

    def made(self) -> Result:
        """All steps, then the status in every case."""
        began, clock = self.context.now(), time.monotonic()
        folder = Path(self.options["run_dir"])
        whole_files.make_folder(folder)
        whole_files.make_folder(settings.metrics_folder(self.options["run_dir"]))
        memory = Memory.read(folder)
        trigger = trigger_of(self.fleet, memory, began)
        log = StepLog(self.context)
        fleets = fleets_of(self.kube.list(ALL))
        run = FleetRun.of(
            settings.fleet_options(self.fleet, trigger, self.options),
            self.context,
            functools.partial(self._scope_of, fleets),
            0.0 if trigger.is_whole else float(self.fleet.spec["observe"]["maxAgeSeconds"]),
            settings.record_of(self.fleet, self.options),
            settings.publication_of(self.fleet, self.options),
        )
        # Before anything is written: another run in this folder is refused.
        run.folder.open(self.options["run_process"], began)
        is_new_period = self._keep_period()
        made = self._steps(log, run, trigger, fleets)
        outcome = self._outcome(run, trigger, made, began, time.monotonic() - clock)
        if not self.context.check_mode:
            memory = memory.after(self.fleet, trigger, began, self.failure is None)
            memory.write(folder)
            metrics.write(self.options["run_dir"], self.fleet, outcome, memory.succeeded_at)
        self._tell_slow(outcome)
        found = self._told(
            status_of(self.fleet, outcome),
            self._result(run, made, trigger, is_new_period),
            self.options["heartbeat_seconds"],
        )
        if self.failure is not None and self.options["on_error"] == "fail":
            raise WattwiseError(self.failure.sentence, **found)
        return found

    def _keep_period(self) -> bool:
        """Set the interval as ansible-operator's period; return whether it was another one."""
        if period.is_kept(self.fleet):
            return False
        return self.context.check_mode or period.keep(self.kube, self.fleet, telling.FIELD_MANAGER)

    def _steps(
        self, log: StepLog, run: FleetRun, trigger: Trigger, fleets: t.Sequence[PowerFleet]
    ) -> list[Result]:
        """Execute the steps; those before the snapshot change its content."""
        spec = self.fleet.spec
        self.result = {"changed": False, "diff": []}
        if spec["nodeConfigs"]["enabled"] and trigger.renders:

            def follow(context: Context) -> Result:
                found, run.known = node_configs.follow_templates(self.kube, context)
                return found

            self._attempt(log, "node_configs", follow)
        if spec["rmd"]["enabled"] and trigger.refreshes_rmd:
            given = settings.rmd_options(self.fleet, self.options)
            found = self._attempt(log, "rmd", functools.partial(rmd.reconcile, given))
            self._tell_refused(found)
        try:
            self._leave_out_others(run, fleets)
            run.make()
        except WattwiseError as error:
            failed = [step["name"] for step in run.log.as_list() if step["failure"]]
            self._fail(failed[0] if failed else "snapshot", error)
        for step in run.log.as_list():
            if step["name"] == "statuses":
                self._note_refused(step["errors"])
        return [*log.as_list(), *run.log.as_list()]

    def _leave_out_others(self, run: FleetRun, fleets: t.Sequence[PowerFleet]) -> None:
        """Stop reading for a fleet that selects no node and has no waiting pod."""
        nodes = run.known.objects.get("nodes")
        if nodes is None:
            nodes, findings = read_source(self.kube, SOURCES["nodes"], None)
            run.known = run.known._replace(
                objects={**run.known.objects, "nodes": nodes},
                findings=[*run.known.findings, *findings],
            )
        if ownership.selects_any(self.fleet, nodes):
            return
        divided = ownership.divide(fleets, nodes, read_waiting_pods(self.kube))
        if not divided.scope_of(self.fleet.key).pods:
            run.known = empty()

    def _attempt(self, log: StepLog, name: str, work: t.Callable[[Context], Result]) -> Object:
        """Result of a step before the others, whose failure does not stop these."""
        try:
            with log.step(name) as (step, context):
                found = work(context)
                step.changed = bool(found["changed"])
                step.errors += found.get("errors") or []
                step.warnings += found.get("warnings") or []
        except WattwiseError as error:
            self._fail(name, error)
            found = error.fields
        self._note_refused([*(found.get("results") or ()), *(found.get("objects") or ())])
        self.result["changed"] = self.result["changed"] or bool(found.get("changed"))
        self.result["diff"] += found.get("diff") or []
        return found

    def _tell_refused(self, found: Object) -> None:
        """Events about refusals of daemons."""
        statuses = found.get("statuses") or []
        if statuses and not self.context.check_mode:
            telling.tell_refused(self.kube, self.fleet, statuses, self.context)

    def _fail(self, step: str, error: WattwiseError) -> None:
        """Keep the first failure."""
        self.failure = self.failure or Failure(step, str(error))

    def _note_refused(self, entries: t.Iterable[Object]) -> None:
        failed = (one for one in entries if one.get("action") == "failed")
        self.refused += [str(one.get("error")) for one in failed]

    def _scope_of(self, fleets: t.Sequence[PowerFleet], snapshot: Object) -> Scope:
        self.nodes = snapshot["nodes"]
        self.ownership = ownership.divide(fleets, self.nodes, snapshot.get("pods") or ())
        return self.ownership.scope_of(self.fleet.key)

    def _outcome(
        self,
        run: FleetRun,
        trigger: Trigger,
        steps: t.Sequence[Result],
        began: t.Any,
        seconds: float,
    ) -> Outcome:
        plan = run.plan
        return Outcome(
            trigger=trigger.name,
            began=began,
            seconds=seconds,
            steps=steps,
            ownership=self.ownership,
            summary=run.summary,
            errors=None if run.observation is None else run.observation.errors,
            unplaced=None if plan is None else plan["unplaced"],
            waiting=0 if plan is None else len(plan["unplaced"]) + len(plan["placements"]),
            unbound=run.unbound,
            saved_watts=metrics.saved_watts(plan),
            metered=run.metered,
            metering_failure=_metering_failure(run),
            failure=self.failure,
            refused=self.refused,
        )

    def _tell_slow(self, outcome: Outcome) -> None:
        interval = self.fleet.interval_seconds
        if outcome.seconds > interval:
            note = (
                f"The run took {outcome.seconds:.0f} s, longer than the interval of "
                f"{interval:g} s, so the next one begins late; raise spec.interval"
            )
            self.context.warn(note)
            telling.tell(self.kube, self.fleet, "RunSlow", note, self.context)

    def _result(
        self, run: FleetRun, steps: t.Sequence[Result], trigger: Trigger, is_new_period: bool
    ) -> Result:
        found = run.result()
        return {
            **found,
            "changed": is_new_period or self.result["changed"] or found["changed"],
            "diff": [*self.result["diff"], *found["diff"]],
            "steps": list(steps),
            "trigger": trigger.name,
            "suspended": False,
            "report": self.fleet.spec["report"]["enabled"]
            and trigger.is_whole
            and self.failure is None,
        }

    def _told(self, status: Object, found: Result, heartbeat_seconds: float | None) -> Result:
        """The result of the run, after its status is written if it is due."""
        told = telling.write_status(
            self.kube, self.fleet, status, heartbeat_seconds, self.context, self.nodes
        )
        ready = next(one for one in status["conditions"] if one["type"] == "Ready")
        return {
            **found,
            "found": True,
            "changed": found["changed"] or told["changed"],
            "diff": [*found["diff"], *told["diff"]],
            "ready": ready["status"] == "True",
            "status": dict(status),
            "status_written": told["written"],
        }


def _metering_failure(run: FleetRun) -> str:
    """Why the step gave no watts at all; the run continues without them."""
    details = (
        str(error["detail"])
        for step in run.log.as_list()
        if step["name"] == "meter" and run.metered is None
        for error in step["errors"]
    )
    return next(details, "")
