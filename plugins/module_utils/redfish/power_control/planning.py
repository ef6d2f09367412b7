# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The next request to switch one machine, decided without I/O from what its BMC said.

A 2xx answer means accepted, not done, so that only the power state ends a switch. An answer 409 or
400 may mean that the machine has the state already, so that the state is read again after it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...base.errors import TargetFailure
from .reset import PowerState, Purpose, ResetAction

DesiredState = t.Literal["on", "off", "cycle"]
Mode = t.Literal["graceful", "graceful_then_force", "force"]
AnswerKind = t.Literal["accepted", "not_now", "refused", "lost"]

_FIRST_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 5.0
# Ironic repeats after 10 s what iDRAC10 refuses within 60 s of a power-off.
_REPEAT_SECONDS = 10.0
# Some BMCs say Retry-After: 0, or hours; the machine may change meanwhile.
_MAX_REPEAT_SECONDS = 60.0
# Some BMCs report the new state for a moment, then the old one again.
_CONFIRMATIONS = 2
_MAX_LISTED = 12


@dataclass(frozen=True)
class Goal:
    """The desired state. ``timeout`` are the seconds for all of it, from the first look.

    ``graceful_timeout`` are the seconds after which ``graceful_then_force`` forces the machine off.
    Without ``wait`` the goal is reached when the BMC accepted the last request.
    """

    state: DesiredState
    mode: Mode = "graceful"
    timeout: float = 300.0
    graceful_timeout: float = 180.0
    wait: bool = True


@dataclass(frozen=True)
class Look:
    """Command: look at the machine after ``pause`` seconds."""

    pause: float


@dataclass(frozen=True)
class Send:
    """Command: send this reset type, one of the action's allowed values."""

    action: ResetAction
    reset_type: str
    purpose: Purpose


@dataclass(frozen=True)
class Finished:
    """Command: stop. ``is_confirmed`` is false if only the acceptance of the request is known."""

    is_confirmed: bool


@dataclass(frozen=True)
class Failed:
    """Command: stop, because the goal cannot be reached."""

    failure: TargetFailure


Command = t.Union[Look, Send, Finished, Failed]


@dataclass(frozen=True)
class Observation:
    """One look at the machine. ``problem`` is why its state or its action is unknown.

    ``task_failure`` is the message of the BMC's task for the last request, if the task failed.
    """

    power_state: PowerState | None
    action: ResetAction | None = None
    problem: str = ""
    task_failure: str = ""


@dataclass(frozen=True)
class Answer:
    """The answer to a request.

    ``accepted``: it may be in progress. ``not_now``: it was refused, and may be accepted later or
    be needless. ``refused``: for good. ``lost``: nobody knows, because the connection broke.
    """

    kind: AnswerKind
    text: str
    retry_after: float | None = None


class Request(t.NamedTuple):
    """A request that was sent, with the answer and the seconds since the first look."""

    parameter: str
    reset_type: str
    purpose: Purpose
    answer: Answer
    seconds: float


@dataclass
class SwitchPlan:
    """The state of one switch. Give it observations and answers, and carry out its commands.

    ``now`` are seconds of any clock that never goes back.
    """

    goal: Goal
    requests: list[Request] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    _legs: list[PowerState] | None = None
    _begin: float = 0.0
    _in_flight: Request | None = None
    _refused: Answer | None = None
    _not_before: float = 0.0
    _graceful_since: float | None = None
    _is_forcing: bool = False
    _confirmed: int = 0
    _looks: int = 0

    @property
    def changed(self) -> bool:
        """Whether a request may have had an effect."""
        return any(request.answer.kind in ("accepted", "lost") for request in self.requests)

    def observe(self, observation: Observation, now: float) -> Command:
        """The command after a look at the machine."""
        state = observation.power_state
        self._note(str(state or "unknown"))
        if self._legs is None:
            self._begin = now
            self._legs = _legs(self.goal, state)
        while self._legs and state == self._legs[0]:
            self._confirmed += 1
            if self._in_flight is not None and self._confirmed < _CONFIRMATIONS:
                return Look(_FIRST_PAUSE_SECONDS)
            self._begin_leg()
        if not self._legs:
            return Finished(is_confirmed=True)
        self._confirmed = 0
        if now - self._begin >= self.goal.timeout:
            return self._expired(observation, self._legs[0])
        return self._next(observation, self._legs[0], now)

    def answered(self, command: Send, answer: Answer, now: float) -> Command:
        """The command after an answer to a request."""
        request = Request(
            command.action.parameter, command.reset_type, command.purpose, answer, now - self._begin
        )
        self.requests.append(request)
        self._looks = 0
        if command.purpose == "graceful_off" and self._graceful_since is None:
            self._graceful_since = now
        if answer.kind in ("accepted", "lost"):
            self._in_flight, self._refused = request, None
            is_last = len(self._legs or ()) == 1
            if is_last and not self.goal.wait and answer.kind == "accepted":
                return Finished(is_confirmed=False)
            return self._look(now)
        self._refused = answer
        if answer.kind == "not_now":
            pause = _REPEAT_SECONDS if answer.retry_after is None else answer.retry_after
            self._not_before = now + min(max(pause, _FIRST_PAUSE_SECONDS), _MAX_REPEAT_SECONDS)
        return Look(0.0)

    def _next(self, observation: Observation, target: PowerState, now: float) -> Command:
        """The command for a machine that does not have the state of the leg."""
        state = observation.power_state
        if state == "PoweringOff" and self._graceful_since is None:
            self._graceful_since = now  # by another hand, perhaps
        if target == "Off" and self._is_to_force(now) and state is not None:
            return self._sending(observation, "force_off", now)
        if state == f"Powering{target}" and not self.goal.wait and len(self._legs or ()) == 1:
            return Finished(is_confirmed=False)
        if state not in ("On", "Off", "Paused"):
            return self._look(now)
        if self._in_flight is not None:
            if observation.task_failure:
                name = self._in_flight.reset_type
                return self._failed(
                    "refused", f"the task of {name} failed: {observation.task_failure}"
                )
            return self._look(now)
        if target == "On":
            return self._sending(observation, "on", now)
        return self._sending(observation, self._purpose_of_off(observation), now)

    def _is_to_force(self, now: float) -> bool:
        """Whether the time for a graceful shutdown is over, or the BMC refuses it for good."""
        if self.goal.mode != "graceful_then_force":
            return False
        last = self.requests[-1] if self.requests else None
        if last is not None and last.purpose == "graceful_off" and last.answer.kind == "refused":
            self._is_forcing, self._refused, self._not_before = True, None, now
        since = self._graceful_since
        if since is not None and now - since >= self.goal.graceful_timeout:
            self._is_forcing = True
        is_sent = self._in_flight is not None and self._in_flight.purpose == "force_off"
        return self._is_forcing and not is_sent

    def _purpose_of_off(self, observation: Observation) -> Purpose:
        """Graceful unless the mode forces; a BMC without a graceful type is forced only by mode."""
        if self.goal.mode == "force":
            return "force_off"
        lacks = (
            observation.action is not None and observation.action.reset_type("graceful_off") is None
        )
        return "force_off" if lacks and self.goal.mode != "graceful" else "graceful_off"

    def _sending(self, observation: Observation, purpose: Purpose, now: float) -> Command:
        if now < self._not_before:
            return self._look(now, min(self._not_before - now, _REPEAT_SECONDS))
        if self._refused is not None and self._refused.kind == "refused":
            return self._failed("refused", self._refused.text)
        if observation.power_state == "Paused" and purpose == "on":
            return self._failed("refused", "the machine is Paused; resume it first")
        action = observation.action
        if action is None and observation.problem:
            return self._look(now)
        if action is None:
            detail = "the BMC offers no Reset action for the system"
            return self._failed("refused", f"{detail}; switch the machine in another way")
        reset_type = action.reset_type(purpose)
        if reset_type is None:
            return self._failed("refused", _missing(action, purpose, observation.power_state))
        return Send(action, reset_type, purpose)

    def _begin_leg(self) -> None:
        if self._legs is None:
            raise AssertionError
        self._legs.pop(0)
        self._in_flight = self._refused = self._graceful_since = None
        self._is_forcing = False
        self._confirmed = self._looks = 0

    def _look(self, now: float, pause: float | None = None) -> Look:
        """The next look, after growing pauses, and at the end of the time at the latest."""
        if pause is None:
            pause = min(_FIRST_PAUSE_SECONDS * 1.5**self._looks, _MAX_PAUSE_SECONDS)
            self._looks = min(self._looks + 1, 10)
        left = self._begin + self.goal.timeout - now
        return Look(max(0.0, min(pause, left)))

    def _note(self, state: str) -> None:
        if not self.states or self.states[-1] != state:
            self.states.append(state)

    def _expired(self, observation: Observation, target: PowerState) -> Failed:
        detail = f"the machine is not {target} within {self.goal.timeout:g} s"
        if observation.problem:
            detail += f", and the last look failed ({observation.problem})"
        remedy = "check the machine's console, or raise timeout"
        if self._in_flight is not None and self._in_flight.purpose == "graceful_off":
            remedy = (
                "check that its operating system obeys the power button, or allow the mode "
                "graceful_then_force"
            )
        refused = self._refused is not None
        return self._failed("refused" if refused else "timeout", f"{detail}; {remedy}")

    def _failed(self, reason: t.Literal["refused", "timeout"], detail: str) -> Failed:
        return Failed(TargetFailure(reason, f"{detail} ({self._history()})"))

    def _history(self) -> str:
        """What was sent and what was observed, for the message of a failure."""
        sent = [
            f"{request.reset_type} after {request.seconds:.0f} s: {request.answer.text}"
            for request in self.requests[-3:]
        ]
        listed = ", then ".join(self.states[-_MAX_LISTED:])
        return "; ".join([*(sent or ["nothing was sent"]), f"PowerState was {listed}"])


def _legs(goal: Goal, state: PowerState | None) -> list[PowerState]:
    """The states to reach in order; a machine that is off is only switched on by a cycle."""
    if goal.state == "cycle":
        return ["On"] if state == "Off" else ["Off", "On"]
    return ["On" if goal.state == "on" else "Off"]


def _missing(action: ResetAction, purpose: Purpose, state: PowerState | None) -> str:
    wanted = action.name_of(purpose)
    if action.values is None:
        return (
            f"the BMC does not say which {action.parameter} values it allows, so that {wanted} was "
            "not sent; update its firmware"
        )
    listed = ", ".join(sorted(action.values)[:_MAX_LISTED])
    remedy = "; choose another mode" if purpose == "graceful_off" else ""
    return f"the BMC offers no {wanted} while the machine is {state}, only {listed}{remedy}"
