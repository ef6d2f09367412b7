# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""BMCs of the machines: their power states, and the requests to switch."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ...base.context import Context, Parameters
from ...base.errors import TargetError, WattwiseError
from ...base.fields.lenient import member, text
from ...base.json_types import Object
from ...fleet.visits import Client
from ...nodeconfig.poll import Job, PollTarget, poll
from ...nodeconfig.targets import Targets
from ...redfish.power_control.machines import REDFISH, Machine, configured_machines, with_hosts_of
from ...redfish.power_control.switching import SPEC, switch_machines
from ...redfish.power_control.system import ExpectedMachine, System, read_system
from ...redfish.tree import Tree

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
        uuids = {
            text(member(node, "metadata", "name")): text(
                member(node, "status", "nodeInfo", "systemUUID")
            )
            for node in snapshot["nodes"]
        }
        found = configured_machines(targets, {**options, "targets": None})
        self._machines: dict[str, Machine] = {
            one.name: replace(
                one, expected=ExpectedMachine(system_uuid=uuids.get(one.name) or None)
            )
            for one in with_hosts_of(found, snapshot, context)
            if one.target.kind == REDFISH and one.target.problem is None
        }

    def __contains__(self, name: str) -> bool:
        return name in self._machines

    def read(self, names: t.Collection[str]) -> dict[str, Power]:
        """The power states of these machines; a failed one is unknown, with the problem."""
        asked = [self._machines[name] for name in sorted(names) if name in self._machines]
        jobs = [Job(one.target, REDFISH, _reader(one), None) for one in asked]
        polled = poll(jobs, self._complete(), replace(self._context, progress=_silent))
        return {one.name: _power(found) for one, found in zip(asked, polled.results)}

    def switch(
        self, names: t.Collection[str], state: t.Literal["on", "off", "cycle"], context: Context
    ) -> dict[str, str]:
        """Ask the machines to switch, without waiting; the problems of those that refused.

        A machine is shut down by its operating system, never by force, unless its boot failed.
        """
        machines = [self._machines[name] for name in sorted(names) if name in self._machines]
        if not machines:
            return {}
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
        return {str(one["name"]): str(one["detail"]) for one in result["errors"]}

    def _complete(self) -> dict[str, t.Any]:
        given = {name: value for name, value in self._options.items() if name in SPEC.options}
        return SPEC.complete({**given, "state": "on", "targets": [], "min_success": 0.0})


def _reader(machine: Machine) -> t.Callable[[Client, PollTarget], t.Awaitable[System]]:
    async def work(client: Client, _target: PollTarget) -> System:
        system = await read_system(Tree(client), machine.system)
        machine.expected.require(system)
        return system

    return work


def _power(found: System | TargetError | None) -> Power:
    if isinstance(found, System):
        return Power(found.power_state)
    return Power(None, found.detail if isinstance(found, TargetError) else "it has no BMC")


def _silent(done: int, total: int, failed: int) -> None:
    """Looks are no progress of the switch."""
