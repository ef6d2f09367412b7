# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Switching of many machines, the work of redfish_power.

Every machine is looked at first, with the account that reads. Then those that lack the state are
switched, with the account that may, or by Metal3 where it manages the machine.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import typing as t
from dataclasses import dataclass, field, replace

from ...base.argspec import ArgumentSpec
from ...base.context import Context, Parameters, Result, difference
from ...base.errors import InvalidInput, TargetError, TargetFailure
from ...fleet.visits import Budget, Client, Pace
from ...kube.client import Kube
from ...nodeconfig.poll import AUTHENTICATION, Job, PollTarget, conclude, poll, reading_spec
from ..tree import Tree
from .answers import READ_SECONDS, WRITE_SECONDS
from .bmc import BmcHand, switch
from .machines import IDENTITY_OPTIONS, REDFISH, Machine, machines_of, repeated_machines, with_hosts
from .metal3 import HostHand, unmanaged_because
from .planning import Failed, Finished, Goal, Look, Observation, SwitchPlan
from .system import System, read_system, with_allowed_values

_OWN_OPTIONS = {**IDENTITY_OPTIONS, "bare_metal_host": {"type": "str"}}
_READING = reading_spec(**_OWN_OPTIONS).merge(
    AUTHENTICATION,
    ArgumentSpec(
        {
            "state": {"type": "str", "choices": ["on", "off", "cycle"], "required": True},
            "mode": {
                "type": "str",
                "choices": ["graceful", "graceful_then_force", "force"],
                "default": "graceful",
            },
            "graceful_timeout": {"type": "float", "default": 180.0},
            "wait": {"type": "bool", "default": True},
        }
    ),
)
SPEC = replace(
    _READING, options={**_READING.options, "timeout": {"type": "float", "default": 300.0}}
)

By = t.Literal["redfish", "metal3"]

_MAX_BUDGET_SECONDS = 7200.0
_LOOK_BYTES, _LOOK_MEMBERS = 32 * 1024, 1_000


@dataclass
class Switch:
    """One machine with its plan; ``before`` is the first state that was seen."""

    machine: Machine
    plan: SwitchPlan
    by: By = "redfish"
    system: System | None = None
    before: str | None = None
    error: TargetError | None = None
    has_answered: bool = False
    needs_change: bool = False

    @property
    def changed(self) -> bool:
        return self.plan.changed or (self.needs_change and self.error is None)

    def fail(self, failure: Exception) -> None:
        self.error = self.machine.error(failure)
        self.needs_change = False

    def observe_first(self, observation: Observation, goal: Goal) -> None:
        """Find out by a plan of its own whether the machine needs a request."""
        self.before, self.has_answered = observation.power_state, True
        command = SwitchPlan(goal).observe(observation, 0.0)
        if isinstance(command, Failed):
            self.fail(command.failure)
        elif isinstance(command, Look):
            heading = {"PoweringOn": "on", "PoweringOff": "off"}.get(str(observation.power_state))
            self.needs_change = heading is None or goal.state != heading
        else:
            self.needs_change = not isinstance(command, Finished)

    def as_result(self, goal: Goal, check_mode: bool) -> Result:
        last = self.plan.states[-1] if self.plan.states else self.before
        after = last
        if check_mode and self.needs_change:
            after = "Off" if goal.state == "off" else "On"
        action = "none"
        if self.error is not None:
            action = "failed"
        elif self.changed:
            action = {"on": "switched_on", "off": "switched_off", "cycle": "cycled"}[goal.state]
        return {
            "name": self.machine.name,
            "by": self.by,
            "action": action,
            "changed": self.changed,
            "previous_power_state": self.before,
            "power_state": after,
            "requests": [
                {
                    "parameter": request.parameter,
                    "value": request.reset_type,
                    "answer": request.answer.text,
                    "seconds": round(request.seconds, 1),
                }
                for request in self.plan.requests
            ],
            "system": self.system.uri if self.system else None,
        }


def switch_power(
    parameters: Parameters,
    context: Context = Context(),
    pace: Pace = Pace(),  # noqa: B008 - frozen
) -> Result:
    """Bring machines to a power state, with the result of redfish_power.

    Raises InvalidInput, ApiError without an answer of the cluster, and WattwiseError with all
    results if too few targets succeeded.
    """
    options = SPEC.complete(parameters)
    machines = with_hosts(machines_of(options, list(_OWN_OPTIONS)), options, context)
    return switch_machines(machines, options, context, pace)


def switch_machines(
    machines: t.Sequence[Machine],
    options: Parameters,
    context: Context = Context(),
    pace: Pace = Pace(),  # noqa: B008 - frozen
) -> Result:
    """Like ``switch_power``, for these machines; ``options`` follow SPEC, without targets."""
    goal = _goal(options)
    run = _Run(options, goal, context, pace, [Switch(one, SwitchPlan(goal)) for one in machines])
    run.look()
    run.refuse_shared()
    run.prepare()
    if not context.check_mode:
        run.change()
    context.progress(len(machines), len(machines), sum(one.error is not None for one in run.all))
    results = [one.as_result(goal, context.check_mode) for one in run.all if one.has_answered]
    changes = [
        (one["name"], one["previous_power_state"], one["power_state"])
        for one in results
        if one["changed"] and one["previous_power_state"] != one["power_state"]
    ]
    return conclude(
        options,
        len(machines),
        [one.error for one in run.all if one.error is not None],
        {
            "results": results,
            "authentication": run.authentication,
            "diff": difference("power", changes),
        },
        changed=any(one.changed for one in run.all),
    )


def _goal(options: Parameters) -> Goal:
    for name in ("timeout", "graceful_timeout"):
        if not options[name] > 0:
            raise InvalidInput(f"{name}: {options[name]} is not a duration; give seconds above 0")
    if (
        options["mode"] == "graceful_then_force"
        and options["graceful_timeout"] >= options["timeout"]
    ):
        raise InvalidInput(
            f"graceful_timeout: {options['graceful_timeout']:g} s leave no time to force the machine "
            f"off within timeout, {options['timeout']:g} s; raise timeout"
        )
    names = ("state", "mode", "timeout", "graceful_timeout", "wait")
    return Goal(**{name: options[name] for name in names})


@dataclass
class _Run:
    options: Parameters
    goal: Goal
    context: Context
    pace: Pace
    all: list[Switch]
    authentication: list[Result] = field(default_factory=list)
    _kube: Kube | None = None
    _pending: list[Switch] = field(default_factory=list)
    _done_by_host: int = 0
    _done_by_bmc: int = 0
    _failed_by_bmc: int = 0

    def look(self) -> None:
        """Look at all machines, without a change."""
        self._look_at_hosts([one for one in self.all if one.machine.host is not None])
        by_bmc = [one for one in self.all if one.by == "redfish" and one.error is None]
        jobs = [
            Job(
                one.machine.target,
                REDFISH,
                _reader(one),
                one.machine.of_type_fake("a BMC of type Fake cannot be switched"),
            )
            for one in by_bmc
        ]
        options = {**self.options, "timeout": min(self.options["timeout"], READ_SECONDS)}
        polled = poll(jobs, options, replace(self.context, progress=self._progress_of_looks))
        self.authentication = polled.authentication
        for one, found in zip(by_bmc, polled.results):
            if isinstance(found, TargetError):
                one.error = found
            else:
                one.system, observation = found
                one.observe_first(observation, self.goal)

    def _progress_of_looks(self, done: int, total: int, failed: int) -> None:
        """Looks do not count as done, unless they failed."""
        self.context.progress(failed, len(self.all), failed)

    def _look_at_hosts(self, switches: t.Sequence[Switch]) -> None:
        """Find out which machines Metal3 switches."""
        if not switches:
            return
        kube = self._kube = Kube.connect(self.options)

        def look(one: Switch) -> None:
            if one.machine.host is None:
                raise AssertionError
            try:
                hand = self._host_hand(one)
                if unmanaged_because(hand.read()):
                    return
                one.by = "metal3"
                goal = replace(self.goal, mode="graceful")
                one.plan = SwitchPlan(goal)
                one.observe_first(asyncio.run(hand.look()), goal)
            except Exception as error:  # noqa: BLE001 - the boundary around one machine
                one.fail(error)

        kube.in_parallel(look, switches)
        shutting_down = [one for one in switches if one.by == "metal3" and one.needs_change]
        if shutting_down and self.goal.state != "on":
            self.context.warn(
                f"Metal3 switches {len(shutting_down)} machines and forces off what does not shut "
                "down within its own time; mode has no effect on them"
            )

    def _host_hand(self, one: Switch) -> HostHand:
        if self._kube is None or one.machine.host is None:
            raise AssertionError
        return HostHand(self._kube, one.machine.host, self.goal.state, one.machine.expected)

    def refuse_shared(self) -> None:
        """Let one machine be switched once, though several targets lead to it."""
        usable = [one for one in self.all if one.error is None]
        failures = repeated_machines([(one.machine, one.system) for one in usable])
        for one, failure in zip(usable, failures):
            if failure is not None:
                one.fail(failure)

    def prepare(self) -> None:
        """Find the accounts for changes, of the machines that are to be changed or waited for."""
        self._pending = [one for one in self.all if one.error is None and self._is_to_follow(one)]
        for one in self._pending:
            if one.system is not None:
                try:
                    one.machine = one.machine.for_changes(one.system)
                except TargetFailure as failure:
                    one.fail(failure)
        self._pending = [one for one in self._pending if one.error is None]

    def change(self) -> None:
        """Switch all machines that need it, and wait for those that are about to."""
        for one in self._pending:
            one.needs_change = False
        by_host = [one for one in self._pending if one.by == "metal3"]
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            changing = executor.submit(asyncio.run, self._change_by_hosts(by_host))
            self._change_by_bmcs([one for one in self._pending if one.by == "redfish"])
            changing.result()

    def _is_to_follow(self, one: Switch) -> bool:
        has_state = one.before == {"on": "On", "off": "Off"}.get(self.goal.state)
        return not has_state and (one.needs_change or self.goal.wait)

    def _note_done(self) -> None:
        """Report progress; a machine that is not changed is done."""
        done = len(self.all) - len(self._pending) + self._done_by_host + self._done_by_bmc
        failed = sum(each.error is not None for each in self.all)
        self.context.progress(done, len(self.all), max(failed, self._failed_by_bmc))

    async def _change_by_hosts(self, switches: t.Sequence[Switch]) -> None:
        slots = asyncio.Semaphore(self.options["concurrency"])

        async def change(one: Switch) -> None:
            async with slots:
                try:
                    await switch(one.plan, self._host_hand(one), self.pace)
                except Exception as error:  # noqa: BLE001 - the boundary around one machine
                    one.fail(error)
                self._done_by_host += 1
                self._note_done()

        await asyncio.gather(*map(change, switches))

    def _change_by_bmcs(self, switches: t.Sequence[Switch]) -> None:
        jobs = [Job(one.machine.target, REDFISH, self._switcher(one), None) for one in switches]
        # The plan ends first, with the states that were seen.
        options = {**self.options, "timeout": self.options["timeout"] + 2 * WRITE_SECONDS}
        options.pop("authentication")
        failed_before = sum(one.error is not None for one in self.all)

        def progress(done: int, total: int, failed: int) -> None:
            self._done_by_bmc, self._failed_by_bmc = done, failed_before + failed
            self._note_done()

        polled = poll(
            jobs,
            options,
            replace(self.context, progress=progress),
            budget=_budget(self.goal),
            pace=self.pace,
        )
        for one, found in zip(switches, polled.results):
            if isinstance(found, TargetError):
                one.error = found

    def _switcher(self, one: Switch) -> t.Callable[[Client, PollTarget], t.Awaitable[None]]:
        async def work(client: Client, _target: PollTarget) -> None:
            machine = one.machine
            hand = BmcHand(client, machine.system, machine.expected, self.pace)
            try:
                await switch(one.plan, hand, self.pace)
            finally:
                one.system = hand.system or one.system

        return work


def _budget(goal: Goal) -> Budget:
    """A budget for all looks at one machine; a system has 20 kB on some BMCs."""
    usual, looks = Budget(), round(min(goal.timeout, _MAX_BUDGET_SECONDS)) // 2 + 50
    return replace(
        usual,
        requests=usual.requests + 4 * looks,
        size=usual.size + _LOOK_BYTES * looks,
        members=usual.members + _LOOK_MEMBERS * looks,
    )


def _reader(
    one: Switch,
) -> t.Callable[[Client, PollTarget], t.Awaitable[tuple[System, Observation]]]:
    async def work(client: Client, _target: PollTarget) -> tuple[System, Observation]:
        tree = Tree(client)
        system = await read_system(tree, one.machine.system)
        one.machine.expected.require(system)
        action, problem = await with_allowed_values(tree, system)
        return system, Observation(system.power_state, action, problem)

    return work
