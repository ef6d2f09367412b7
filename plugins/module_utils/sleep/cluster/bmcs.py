# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""BMCs of the machines: their power states, and the requests to switch."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ...base.context import Context, Parameters
from ...base.errors import TargetError, WattwiseError
from ...base.json_types import Object
from ...fleet.visits import Client
from ...nodeconfig.poll import Job, PollTarget, poll
from ...nodeconfig.targets import Targets
from ...redfish.power_control.machines import (
    REDFISH,
    Machine,
    configured_machines,
    with_hosts_of,
    with_uuids_of,
)
from ...redfish.power_control.switching import SPEC, switch_machines
from ...redfish.power_control.system import ExpectedMachine, System, find_machine, read_system
from ...redfish.tree import Tree
from ...redfish.walk import KnownSensors, Walk

T = t.TypeVar("T")
_Read = t.Callable[[Tree, Machine], t.Awaitable[t.Optional[T]]]

_UUID_MISSING = "its Node has no systemUUID, with which its BMC could be compared"
_SERIAL_MISSING = (
    "its BMC gives no serial number, with which its BareMetalHost could be compared; pause or detach "
    "the BareMetalHost"
)

# Pods wait for the end of a run. What a BMC has not done by then, the next run asks again.
_SWITCH_SECONDS = 30.0
_GRACEFUL_SECONDS = 10.0


@dataclass(frozen=True)
class Power:
    """The PowerState of a machine, None if unknown, and why its BMC cannot switch it."""

    state: str | None = None
    problem: str = ""


class Bmcs:
    """The machines whose NodeConfig names a BMC of type Redfish.

    Every request goes only to a machine with the systemUUID of its Node, which is compared at each
    look, before the first request.
    """

    def __init__(
        self, snapshot: Object, targets: Targets, options: Parameters, context: Context
    ) -> None:
        """``options`` are those of reading BMCs, with accounts."""
        self._options, self._context = options, context
        found = configured_machines(targets, {**options, "targets": None})
        self._machines: dict[str, Machine] = {}
        self._problems: dict[str, str] = {}
        self._systems: dict[str, System] = {}
        for one in with_uuids_of(with_hosts_of(found, snapshot, context), snapshot):
            if one.target.kind != REDFISH:
                continue
            is_known = one.expected.system_uuid is not None
            problem = one.target.problem or ("" if is_known else _UUID_MISSING)
            if problem:
                self._problems[one.name] = problem
            else:
                self._machines[one.name] = one

    def __contains__(self, name: str) -> bool:
        return name in self._machines or name in self._problems

    def read(self, names: t.Collection[str]) -> dict[str, Power]:
        """The power states of these machines; a failed one is unknown, with the problem."""
        found = self._poll(names, _find_system)
        for name, system in found.items():
            if isinstance(system, System):
                self._systems[name] = system
                machine = self._machines[name]
                # Of several systems at one address, the one that was found.
                self._machines[name] = replace(machine, system=machine.system or system.uri)
        unusable = {name: Power(None, self._problems[name]) for name in self._problems_of(names)}
        return {**{name: _power(system) for name, system in found.items()}, **unusable}

    def read_standby(self, names: t.Collection[str]) -> dict[str, float]:
        """The power draw in watts of those of these machines that are off and measure it."""
        found = self._poll(names, _read_standby)
        return {name: watts for name, watts in found.items() if isinstance(watts, float)}

    def _poll(self, names: t.Collection[str], read: _Read[T]) -> dict[str, T | TargetError]:
        asked = [self._machines[name] for name in sorted(names) if name in self._machines]
        jobs = [Job(one.target, REDFISH, _job_of(one, read), None) for one in asked]
        polled = poll(jobs, self._complete(), replace(self._context, progress=_silent))
        return {one.name: found for one, found in zip(asked, polled.results) if found is not None}

    def _problems_of(self, names: t.Iterable[str]) -> list[str]:
        return [name for name in names if name in self._problems]

    def switch(
        self, names: t.Collection[str], state: t.Literal["on", "off", "cycle"], context: Context
    ) -> dict[str, str]:
        """Ask the machines to switch, without waiting; the problems of those that refused.

        A machine is shut down by its operating system, never by force, unless its boot failed.
        """
        problems = {name: self._problems[name] for name in self._problems_of(names)}
        machines = []
        for name in sorted(self._machines.keys() & set(names)):
            machine = self._with_comparable_host(self._machines[name])
            if machine is None:
                problems[name] = _SERIAL_MISSING
            else:
                machines.append(machine)
        if not machines:
            return problems
        options = {
            **self._complete(),
            "state": state,
            "wait": False,
            "mode": "graceful" if state == "off" else "graceful_then_force",
            "graceful_timeout": _GRACEFUL_SECONDS,
            "timeout": _SWITCH_SECONDS,
        }
        try:
            result = switch_machines(machines, options, context)
        except WattwiseError as error:
            if "errors" not in error.fields:
                raise
            result = error.fields
        refused = {str(one["name"]): str(one["detail"]) for one in result["errors"]}
        return {**problems, **refused}

    def _with_comparable_host(self, machine: Machine) -> Machine | None:
        """A BareMetalHost has no UUID, so it must have the serial number that the BMC gave."""
        if machine.host is None:
            return machine
        system = self._systems.get(machine.name)
        if system is None or not system.serial_numbers:
            return None
        # The last one is the service tag of Dell, which is the system's serial number for Metal3.
        return replace(machine, expected=ExpectedMachine(system.serial_numbers[-1]))

    def _complete(self) -> dict[str, t.Any]:
        given = {name: value for name, value in self._options.items() if name in SPEC.options}
        return SPEC.complete({**given, "state": "on", "targets": [], "min_success": 0.0})


def _job_of(
    machine: Machine, read: _Read[T]
) -> t.Callable[[Client, PollTarget], t.Awaitable[T | None]]:
    async def work(client: Client, _target: PollTarget) -> T | None:
        return await read(Tree(client), machine)

    return work


async def _find_system(tree: Tree, machine: Machine) -> System:
    if machine.system:
        system = await read_system(tree, machine.system)
    else:
        system = await find_machine(tree, machine.expected)
    machine.expected.require(system)
    return system


async def _read_standby(tree: Tree, machine: Machine) -> float | None:
    if (await _find_system(tree, machine)).power_state != "Off":
        return None
    return (await Walk(tree, KnownSensors()).read_power()).watts


def _power(found: System | TargetError | None) -> Power:
    if isinstance(found, System):
        return Power(found.power_state)
    return Power(None, found.detail if isinstance(found, TargetError) else "it has no BMC")


def _silent(done: int, total: int, failed: int) -> None:
    """Looks are no progress of the switch."""
