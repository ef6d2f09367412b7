# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power limits of many machines, the work of redfish_power_limit."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, replace

from ...base.argspec import ArgumentSpec
from ...base.context import Context, Parameters, Result, difference
from ...base.errors import InvalidInput, TargetError, TargetFailure
from ...fleet.visits import Client, Pace
from ...nodeconfig.poll import AUTHENTICATION, Job, PollTarget, conclude, poll, reading_spec
from ..discovery import survey
from ..power import MAX_WATTS
from ..tree import Tree
from .answers import READ_SECONDS, WRITE_SECONDS, messages_of, require_permission, send_change
from .limits import PowerLimit, find_limit, read_limit
from .machines import IDENTITY_OPTIONS, REDFISH, Machine, machines_of, repeated_machines
from .system import System, read_system

_OWN_OPTIONS = {**IDENTITY_OPTIONS, "limit_watts": {"type": "float"}}
_READING = reading_spec(**_OWN_OPTIONS).merge(
    AUTHENTICATION,
    ArgumentSpec(
        {
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "limit_watts": {"type": "float"},
        }
    ),
)
SPEC = replace(
    _READING, options={**_READING.options, "timeout": {"type": "float", "default": 60.0}}
)

_PAUSE_SECONDS = 2.0
# For a change after which another one may be tried.
_TRIAL_SECONDS = 10.0
_REMEDIES = {
    "PowerValueUnAvailable": "the server is initialising; try again after its power-on self-test",
    "PowerValueInvalidCalibrationData": "the calibration is invalid; reboot the server",
    "License": "a power limit needs a licence of the BMC",
}


@dataclass
class LimitChange:
    """One machine: its limit before, the desired one, and the limit after.

    The limit is only read unless it ``is_to_set``, also to None. Of limits in force only those that
    it ``replaces`` are changed; None are all.
    """

    machine: Machine
    desired: float | None = None
    is_to_set: bool = False
    replaces: tuple[float, ...] | None = None
    system: System | None = None
    before: PowerLimit | None = None
    after: PowerLimit | None = None
    error: TargetError | None = None
    changed: bool = False

    def as_result(self) -> Result:
        if self.before is None:
            raise AssertionError
        shown = self.after or self.before
        action = "none"
        if self.error is not None:
            action = "failed"
        elif self.changed:
            action = "removed" if self.desired is None else "set"
        return {
            "name": self.machine.name,
            "action": action,
            "changed": self.changed,
            "limit_watts": shown.watts,
            "previous_limit_watts": self.before.watts,
            "min_watts": shown.min_watts,
            "max_watts": shown.max_watts,
            "place": shown.place,
            "uri": shown.uri,
        }


def limit_power(
    parameters: Parameters,
    context: Context = Context(),
    pace: Pace = Pace(),  # noqa: B008 - frozen
) -> Result:
    """Read, set or remove power limits, with the result of redfish_power_limit.

    Raises InvalidInput, and WattwiseError with all results if too few targets succeeded.
    """
    options = SPEC.complete(parameters)
    if options["state"] == "absent" and options["limit_watts"] is not None:
        raise InvalidInput("limit_watts: state absent removes limits; leave one of the two out")
    changes = [_capped(one, options) for one in machines_of(options, list(_OWN_OPTIONS))]
    return limit_machines(changes, options, context, pace)


def limit_machines(
    capped: t.Sequence[LimitChange],
    options: Parameters,
    context: Context = Context(),
    pace: Pace = Pace(),  # noqa: B008 - frozen
) -> Result:
    """Like ``limit_power``, for these machines; ``options`` follow SPEC, without targets."""
    authentication = _look(capped, options, context)
    pending = [one for one in capped if one.error is None and _needs_change(one)]
    if context.check_mode:
        for one in pending:
            if one.before is None:
                raise AssertionError
            one.after, one.changed = replace(one.before, watts=one.desired), True
    else:
        _change(pending, capped, options, context, pace)
    results = [one.as_result() for one in capped if one.before is not None]
    changes = [
        (one["name"], one["previous_limit_watts"], one["limit_watts"])
        for one in results
        if one["changed"]
    ]
    return conclude(
        options,
        len(capped),
        [one.error for one in capped if one.error is not None],
        {
            "limits": results,
            "authentication": authentication,
            "diff": difference("power limits (W)", changes),
        },
        changed=any(one.changed for one in capped),
    )


def _capped(machine: Machine, options: Parameters) -> LimitChange:
    own = machine.target.extra.get("limit_watts")
    watts = options["limit_watts"] if own is None else own
    if watts is not None and not (math.isfinite(watts) and 0 < watts <= MAX_WATTS):
        raise InvalidInput(
            f"limit_watts: {watts} is no power limit; give W above 0, at most {MAX_WATTS:g}"
        )
    if options["state"] == "absent":
        return LimitChange(machine, None, is_to_set=True)
    return LimitChange(machine, watts, is_to_set=watts is not None)


def _look(capped: t.Sequence[LimitChange], options: Parameters, context: Context) -> list[Result]:
    """Read all limits, and refuse impossible ones."""
    fake = "a BMC of type Fake has no power limit"
    jobs = [
        Job(one.machine.target, REDFISH, _reader(one), one.machine.of_type_fake(fake))
        for one in capped
    ]
    options = {**options, "timeout": min(options["timeout"], READ_SECONDS)}

    def progress(done: int, total: int, failed: int) -> None:
        """Looks before a change do not count as done, unless they failed."""
        is_all = not any(one.is_to_set for one in capped)
        context.progress(done if is_all else failed, len(capped), failed)

    polled = poll(jobs, options, replace(context, progress=progress))
    for one, found in zip(capped, polled.results):
        if isinstance(found, TargetError):
            one.error = found
        else:
            one.system, one.before = found
    usable = [one for one in capped if one.error is None and one.is_to_set]
    failures = repeated_machines([(one.machine, one.system) for one in usable])
    for one, failure in zip(usable, failures):
        try:
            if one.before is None:
                raise AssertionError
            if failure is not None:
                raise failure
            if _needs_change(one):
                one.before.require_possible(one.desired)
        except TargetFailure as error:
            one.error = one.machine.error(error)
    return polled.authentication


def _needs_change(one: LimitChange) -> bool:
    if not one.is_to_set or one.before is None or one.before.is_at(one.desired):
        return False
    replaces = (None, *(one.replaces or ()))
    return one.replaces is None or any(map(one.before.is_at, replaces))


def _reader(
    one: LimitChange,
) -> t.Callable[[Client, PollTarget], t.Awaitable[tuple[System, PowerLimit]]]:
    async def work(client: Client, _target: PollTarget) -> tuple[System, PowerLimit]:
        tree = Tree(client)
        system = await read_system(tree, one.machine.system)
        one.machine.expected.require(system)
        body = await tree.read(system.uri) or {}
        return system, await find_limit(tree, await survey(tree), system.uri, body)

    return work


def _change(
    pending: t.Sequence[LimitChange],
    capped: t.Sequence[LimitChange],
    options: Parameters,
    context: Context,
    pace: Pace,
) -> None:
    jobs: list[Job[None]] = []
    changed: list[LimitChange] = []
    for one in pending:
        try:
            if one.system is None:
                raise AssertionError
            machine = one.machine.for_changes(one.system)
        except TargetFailure as failure:
            one.error = one.machine.error(failure)
            continue
        changed.append(one)
        jobs.append(Job(machine.target, REDFISH, _changer(one, options["timeout"], pace), None))
    settled = len(capped) - len(changed)
    failed_before = sum(one.error is not None for one in capped)

    def progress(done: int, total: int, failed: int) -> None:
        context.progress(settled + done, len(capped), failed_before + failed)

    options = {**options, "timeout": options["timeout"] + WRITE_SECONDS}
    options.pop("authentication")
    polled = poll(jobs, options, replace(context, progress=progress), pace=pace)
    for one, found in zip(changed, polled.results):
        if isinstance(found, TargetError):
            one.error = found


def _changer(
    one: LimitChange, timeout: float, pace: Pace
) -> t.Callable[[Client, PollTarget], t.Awaitable[None]]:
    async def work(client: Client, _target: PollTarget) -> None:
        if one.before is None:
            raise AssertionError
        bodies = one.before.changes(one.desired)
        for position, body in enumerate(bodies):
            is_last = position == len(bodies) - 1
            refused, told = await _send(client, one.before, body, one.desired)
            if refused is None:
                one.changed = True
                limit = timeout if is_last else min(timeout, _TRIAL_SECONDS)
                one.after = await _settled(client, one.before, one.desired, limit, pace)
                if one.after.is_at(one.desired):
                    return
                refused = _unsettled(one.after, one.desired, timeout, told)
            if is_last:
                raise refused

    return work


async def _send(
    client: Client, limit: PowerLimit, body: t.Any, watts: float | None
) -> tuple[TargetFailure | None, str]:
    """Send one change; the failure if the BMC refuses it, and its messages. Raises TargetFailure."""
    what = f"PATCH {limit.uri}"
    received = await send_change(client, "PATCH", limit.uri, body, limit.uri)
    require_permission(received, what)
    if 200 <= received.status < 300 and limit.trigger:
        what = f"POST {limit.trigger}"
        trigger = {"PowerLimitTrigger": "Deactivate" if watts is None else "Activate"}
        received = await send_change(client, "POST", limit.trigger, trigger, limit.uri)
        require_permission(received, what)
    messages = "; ".join(messages_of(client, received))
    if 200 <= received.status < 300:
        return None, messages
    remedy = next((one for key, one in _REMEDIES.items() if key in messages), "")
    told = ": ".join(filter(None, (messages, remedy))) or "check what the BMC supports"
    return TargetFailure("refused", f"HTTP {received.status} to {what}: {told}"), messages


async def _settled(
    client: Client, known: PowerLimit, watts: float | None, timeout: float, pace: Pace
) -> PowerLimit:
    """The limit once it is the desired one, or after the time for it."""
    begin = pace.clock()
    while True:
        limit = await read_limit(Tree(client), known)
        if limit.is_at(watts) or pace.clock() - begin + _PAUSE_SECONDS > timeout:
            return limit
        await pace.sleep(_PAUSE_SECONDS)


def _unsettled(limit: PowerLimit, watts: float | None, timeout: float, told: str) -> TargetFailure:
    desired = "no limit" if watts is None else f"{watts:g} W"
    found = "no limit" if limit.watts is None else f"{limit.watts:g} W"
    return TargetFailure(
        "timeout",
        f"the BMC accepted {desired} at {limit.uri}{f' ({told})' if told else ''}, but has {found} "
        f"after {timeout:g} s; a limit may need a licence, a setting of the firmware, or a machine "
        "that is on",
    )
