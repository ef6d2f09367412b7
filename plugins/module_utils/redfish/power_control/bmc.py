# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Switching of one machine by its BMC: looks and resets, as ``planning`` commands them."""

from __future__ import annotations

import asyncio
import typing as t
import urllib.parse

from ...base.errors import TargetFailure
from ...base.fields.lenient import member, objects, text
from ...fleet.failures import REDIRECTS
from ...fleet.visits import Client, Pace
from ..tree import Tree
from .answers import READ_SECONDS, answer_of, messages_of, send_change
from .planning import Answer, Failed, Finished, Look, Observation, Send, SwitchPlan
from .reset import ResetAction
from .system import ExpectedMachine, System, read_system, with_allowed_values

# Failures of a look that may end while a machine boots or its BMC is busy.
_PASSING = frozenset(
    {"unreachable", "timeout", "server_error", "throttled", "malformed", "not_found"}
)
# The task is gone, or the account may not read it.
_SAYS_NOTHING = frozenset({401, 403, 404, 405, 410, *REDIRECTS})
_TASK_FAILED = frozenset({"exception", "killed", "cancelled", "interrupted"})
_TASK_RUNS = frozenset(
    {"new", "starting", "running", "suspended", "pending", "stopping", "service", "cancelling"}
)
# A monitor must not take the time for the power state.
_TASK_SECONDS = 5.0


class Hand(t.Protocol):
    """What switches one machine."""

    async def look(self) -> Observation: ...

    async def send(self, command: Send) -> Answer: ...


async def switch(plan: SwitchPlan, hand: Hand, pace: Pace) -> None:
    """Do what the plan commands until it ends. Raises TargetFailure if its goal is not reached."""
    command = plan.observe(await hand.look(), pace.clock())
    while not isinstance(command, Finished):
        if isinstance(command, Failed):
            raise command.failure
        if isinstance(command, Look):
            if command.pause > 0:
                await pace.sleep(command.pause)
            command = plan.observe(await hand.look(), pace.clock())
        else:
            answer = await hand.send(command)
            command = plan.answered(command, answer, pace.clock())


class BmcHand:
    """A machine behind its BMC. ``expected`` is checked at every look before the first request.

    Later looks cannot check it, because some BMCs know no serial number of a machine that is off.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        expected: ExpectedMachine,
        pace: Pace,
        look_seconds: float = READ_SECONDS,
    ) -> None:
        self._client = client
        self._path = path
        self._expected = expected
        self._pace = pace
        self._look_seconds = look_seconds
        self._has_sent = False
        self._monitor = ""
        self._task_failed = ""
        self._known: dict[tuple[str, str | None], ResetAction | None] = {}
        self.system: System | None = None

    async def look(self) -> Observation:
        """The machine's state. Failures of later looks are unknown states, if they may end."""
        try:
            # A BMC that hangs must not take the time of the whole switch.
            return await asyncio.wait_for(self._look(), self._look_seconds)
        except asyncio.TimeoutError as error:
            detail = f"no answer within {self._look_seconds:g} s; check the BMC's load"
            failure = TargetFailure("timeout", detail)
            if self.system is None:
                raise failure from error
        except TargetFailure as error:
            failure = error
            may_end = failure.reason in _PASSING and not failure.fields.get("exhausted")
            if self.system is None or not may_end:
                raise
        return Observation(None, problem=failure.detail)

    async def _look(self) -> Observation:
        tree = Tree(self._client)
        system = await read_system(tree, self._path)
        if not self._has_sent:
            self._expected.require(system)
        action, problem = await self._action(tree, system)
        task_failure = await self._task_failure()
        self.system, self._path = system, system.uri
        if system.power_state is None:
            problem = "the system has no usable PowerState"
        return Observation(system.power_state, action, problem, task_failure)

    async def _action(self, tree: Tree, system: System) -> tuple[ResetAction | None, str]:
        """The action with its values, or a problem; an ActionInfo is read once for each state."""
        if system.action is None or system.action.values is not None:
            return system.action, ""
        key = (system.action.action_info, system.power_state)
        if key in self._known:
            return self._known[key], ""
        found, problem = await with_allowed_values(tree, system)
        if not problem:
            self._known[key] = found
        return found, problem

    async def send(self, command: Send) -> Answer:
        """Send a reset. Raises TargetFailure if the account may not do it."""
        action = command.action
        body = {action.parameter: command.reset_type}
        self._has_sent = True
        try:
            received = await send_change(self._client, "POST", action.target, body, self._path)
        except TargetFailure as failure:
            may_have_arrived = failure.reason == "timeout" or failure.fields.get("passing")
            if failure.fields.get("exhausted") or not may_have_arrived:
                raise
            return Answer("lost", failure.detail)
        what = f"{command.reset_type} of {action.target}"
        answer = answer_of(self._client, received, what, self._pace.wall())
        self._monitor, self._task_failed = "", ""
        if received.status == 202:
            self._monitor = _path_of(received.headers.get("location", ""))
        return answer

    async def _task_failure(self) -> str:
        """Why the task of the last reset failed; empty if it did not, runs, or says nothing."""
        if not self._monitor:
            return self._task_failed
        try:
            received = await self._client.write("GET", self._monitor, None, limit=_TASK_SECONDS)
            if received.status in (202, 429) or received.status >= 500:
                return ""
            monitor, self._monitor = self._monitor, ""
            if received.status in _SAYS_NOTHING or not received.content:
                return ""
            if not 200 <= received.status < 300:
                # A task monitor ends with the answer that the request would have had (DSP0266, 12.2).
                messages = messages_of(self._client, received)
                self._task_failed = "; ".join(messages) or f"HTTP {received.status}"
                return self._task_failed
            body = self._client.decoded(received, "the task monitor")
        except TargetFailure as failure:
            if failure.fields.get("exhausted"):
                raise
            self._monitor = ""
            return ""
        state = text(member(body, "TaskState"))
        if state.lower() in _TASK_RUNS:
            self._monitor = monitor
        if state.lower() in _TASK_FAILED:
            entries = objects(member(body, "Messages"))[:4]
            told = [text(each.get("Message") or each.get("MessageId"), 300) for each in entries]
            self._task_failed = "; ".join(filter(None, told)) or state
        return self._task_failed


def _path_of(location: str) -> str:
    """Path and query of a Location at this endpoint, since a BMC behind NAT names its own address."""
    try:
        parts = urllib.parse.urlsplit(location.strip())
    except ValueError:
        return ""
    return parts._replace(scheme="", netloc="", fragment="").geturl()
