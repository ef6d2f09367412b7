# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties of the plan of a switch, for machines and BMCs that do anything."""

from __future__ import annotations

import random
import typing as t
from dataclasses import dataclass, field

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.planning import (
    Answer,
    AnswerKind,
    Failed,
    Finished,
    Goal,
    Look,
    Observation,
    Send,
    SwitchPlan,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power_control.reset import (
    PowerState,
    ResetAction,
    power_state_of,
    reset_action_of,
)
from support.examples import generated, seeds

STATES: tuple[PowerState, ...] = t.get_args(PowerState)
TYPES = ("On", "ForceOff", "GracefulShutdown", "ForceOn", "PushPowerButton", "ForceRestart", "Nmi")
PURPOSES = {"on": {"On"}, "graceful": {"GracefulShutdown"}, "force": {"ForceOff"}}
PATH = "/redfish/v1/Systems/1"


def action(*types: str) -> ResetAction:
    return ResetAction(f"{PATH}/Actions/ComputerSystem.Reset", "ResetType", frozenset(types))


@dataclass
class OddMachine:
    """A machine whose states, offers and answers come from a random source."""

    source: random.Random
    now: float = 0.0
    looks: int = 0
    sent: list[tuple[Send, Observation]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    states: list[PowerState | None] = field(default_factory=list)

    def seen(self) -> Observation:
        self.looks += 1
        state = self.source.choice([*STATES, "On", "Off", None])
        self.states.append(state)
        kept = [name for name in TYPES if self.source.random() < 0.8]
        offer = self.source.choice([action(*kept), action(*kept), action(*kept), None])
        failed = self.source.choice(["", "", "", "it failed"])
        return Observation(state, offer, task_failure=failed)

    def answer(self) -> Answer:
        kinds: list[AnswerKind] = ["accepted", "accepted", "not_now", "refused", "lost"]
        kind = self.source.choice(kinds)
        retry = self.source.choice([None, 0.0, 3.0, 1e6])
        answer = Answer(kind, "HTTP", retry)
        self.answers.append(answer)
        return answer


def run(plan: SwitchPlan, machine: OddMachine) -> Finished | Failed:
    """The last command, after pauses that take no time."""
    seen = machine.seen()
    command = plan.observe(seen, machine.now)
    while not isinstance(command, (Finished, Failed)):
        assert machine.looks < 3000, "the plan does not end"
        if isinstance(command, Look):
            assert command.pause >= 0
            machine.now += max(command.pause, 1e-3)
            seen = machine.seen()
            command = plan.observe(seen, machine.now)
        else:
            machine.sent.append((command, seen))
            command = plan.answered(command, machine.answer(), machine.now)
    return command


def goal_of(source: random.Random) -> Goal:
    return Goal(
        source.choice(["on", "off", "cycle"]),
        source.choice(["graceful", "graceful_then_force", "force"]),
        timeout=source.choice([30.0, 300.0]),
        graceful_timeout=source.choice([5.0, 29.0]),
        wait=source.random() < 0.7,
    )


@generated
def test_a_plan_keeps_its_promises_whatever_a_bmc_does() -> None:
    for seed in seeds(3000):
        check_promises(seed)


def check_promises(seed: int) -> None:
    source = random.Random(seed)
    goal, machine = goal_of(source), OddMachine(source)
    plan = SwitchPlan(goal)
    last = run(plan, machine)
    allowed = {*PURPOSES["on"]} if goal.state != "off" else set()
    if goal.state != "on":
        allowed |= PURPOSES["graceful"] if goal.mode != "force" else set()
        allowed |= PURPOSES["force"] if goal.mode != "graceful" else set()
    for command, seen in machine.sent:
        # Only what the BMC offers, and only what the goal and the mode say.
        assert seen.action is not None
        assert seen.action.values is not None
        assert command.reset_type in seen.action.values
        assert command.reset_type in allowed
        # Nothing for a machine that has the state, or whose state is unknown.
        assert seen.power_state not in (None, "Off" if command.purpose != "on" else "On")
    assert machine.now <= goal.timeout + 1
    if isinstance(last, Failed):
        assert "PowerState was" in last.failure.detail
        assert len(last.failure.detail) <= 1000
    elif last.is_confirmed:
        wanted = "Off" if goal.state == "off" else "On"
        assert machine.states[-1] == wanted
    else:
        assert not goal.wait


@generated
def test_at_most_one_action_is_in_flight() -> None:
    for seed in seeds(3000):
        check_actions_in_flight(seed)


def check_actions_in_flight(seed: int) -> None:
    source = random.Random(seed)
    goal, machine = goal_of(source), OddMachine(source)
    run(SwitchPlan(goal), machine)
    in_flight: Send | None = None
    for (command, _seen), answer in zip(machine.sent, machine.answers, strict=True):
        if in_flight is not None and command.purpose != in_flight.purpose:
            # The other direction of a cycle, or the force that the mode allows.
            assert goal.state == "cycle" or command.purpose == "force_off"
        elif in_flight is not None:
            pytest.fail(f"{command.reset_type} was sent twice")
        if answer.kind in ("accepted", "lost"):
            in_flight = command


@pytest.mark.parametrize("state", ["on", "off"])
def test_a_machine_with_the_state_gets_no_request(state: t.Literal["on", "off"]) -> None:
    reached: PowerState = "On" if state == "on" else "Off"
    plan = SwitchPlan(Goal(state))
    assert plan.observe(Observation(reached, None), 0.0) == Finished(is_confirmed=True)
    assert not plan.changed


def test_a_state_that_shows_only_for_a_moment_is_not_believed() -> None:
    plan = SwitchPlan(Goal("off", timeout=60))
    offer = action(*TYPES)
    command = plan.observe(Observation("On", offer), 0)
    assert isinstance(command, Send)
    plan.answered(command, Answer("accepted", "HTTP 204"), 0)
    assert isinstance(plan.observe(Observation("Off", offer), 1), Look)
    assert isinstance(plan.observe(Observation("On", offer), 2), Look)
    failed = plan.observe(Observation("On", offer), 60)
    assert isinstance(failed, Failed)
    assert "PowerState was On, then Off, then On" in failed.failure.detail


def test_a_list_that_shrinks_with_the_state_is_read_again_before_each_request() -> None:
    plan = SwitchPlan(Goal("cycle"))
    off = plan.observe(Observation("On", action("GracefulShutdown", "ForceOff")), 0)
    assert isinstance(off, Send)
    plan.answered(off, Answer("accepted", "HTTP 204"), 0)
    assert isinstance(plan.observe(Observation("Off", action("On")), 1), Look)
    on = plan.observe(Observation("Off", action("On")), 2)
    assert isinstance(on, Send)
    assert on.reset_type == "On"


def test_a_missing_type_is_an_error_that_names_what_there_is() -> None:
    command = SwitchPlan(Goal("off")).observe(Observation("On", action("On", "ForceOff")), 0)
    assert isinstance(command, Failed)
    assert command.failure.reason == "refused"
    assert command.failure.detail == (
        "the BMC offers no GracefulShutdown while the machine is On, only ForceOff, On; choose "
        "another mode (nothing was sent; PowerState was On)"
    )


class TestRepetitions:
    """Answers that say not now."""

    offer = action(*TYPES)

    def sent(self, plan: SwitchPlan, now: float) -> Send:
        command = plan.observe(Observation("On", self.offer), now)
        assert isinstance(command, Send), command
        return command

    def next_request(self, plan: SwitchPlan, now: float) -> tuple[Send, float]:
        """The next request to a machine that stays on, and when it is sent."""
        command = plan.observe(Observation("On", self.offer), now)
        while isinstance(command, Look):
            assert command.pause > 0
            now += command.pause
            command = plan.observe(Observation("On", self.offer), now)
        assert isinstance(command, Send), command
        return command, now

    def test_a_force_off_that_was_refused_because_the_bmc_is_busy_is_sent_again(self) -> None:
        plan = SwitchPlan(Goal("off", "graceful_then_force", graceful_timeout=60))
        plan.answered(self.sent(plan, 0), Answer("accepted", "HTTP 204"), 0)
        forced = self.sent(plan, 60)
        assert forced.purpose == "force_off"
        plan.answered(forced, Answer("not_now", "HTTP 503", 15.0), 60)
        again, now = self.next_request(plan, 60)
        assert (again.purpose, now) == ("force_off", 75)

    def test_a_force_off_that_is_refused_for_good_is_not_sent_again(self) -> None:
        plan = SwitchPlan(Goal("off", "graceful_then_force", graceful_timeout=60))
        plan.answered(self.sent(plan, 0), Answer("refused", "HTTP 400"), 0)
        forced = self.sent(plan, 0)
        plan.answered(forced, Answer("refused", "HTTP 400"), 0)
        assert isinstance(plan.observe(Observation("On", self.offer), 1), Failed)
        assert len(plan.requests) == 2

    @pytest.mark.parametrize(("retry_after", "seconds"), [(0.0, 1.0), (1e9, 60.0), (17.0, 17.0)])
    def test_an_absurd_retry_after_neither_hurries_nor_ends_the_repetitions(
        self, retry_after: float, seconds: float
    ) -> None:
        plan = SwitchPlan(Goal("off"))
        plan.answered(self.sent(plan, 0), Answer("not_now", "HTTP 503", retry_after), 0)
        assert self.next_request(plan, 0)[1] == seconds

    def test_the_machine_is_looked_at_while_a_repetition_waits(self) -> None:
        plan = SwitchPlan(Goal("off"))
        plan.answered(self.sent(plan, 0), Answer("not_now", "HTTP 503", 50.0), 0)
        assert plan.observe(Observation("On", self.offer), 0) == Look(10.0)


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ("On", "On"),
        ("off", "Off"),
        ("Powering On", "PoweringOn"),
        ("POWERINGOFF", "PoweringOff"),
        ("Paused", "Paused"),
        (None, None),
        ("", None),
        (3, None),
        ("Reset", None),
    ],
)
def test_power_states(given: t.Any, state: str | None) -> None:
    assert power_state_of(given) == state


class TestResetAction:
    """Reset actions in the forms of real BMCs."""

    def of(self, **members: t.Any) -> ResetAction | None:
        return reset_action_of({"@odata.id": PATH, "Actions": {"#ComputerSystem.Reset": members}})

    @pytest.mark.parametrize(
        ("listed", "values"),
        [
            (["On", "ForceOff"], {"On", "ForceOff"}),
            (
                ["On", "GracefulShutdownGracefulRestart"],
                {"On", "GracefulShutdown", "GracefulRestart"},
            ),
            (["ForceOnOn"], {"ForceOn", "On"}),
            (["ForceOn"], {"ForceOn"}),
            (["On, ForceOff"], {"On", "ForceOff"}),
            (["OemSleep"], {"OemSleep"}),
            ([None, 3, {}, "On"], {"On"}),
        ],
    )
    def test_allowed_values(self, listed: list[t.Any], values: set[str]) -> None:
        found = self.of(target=f"{PATH}/R", **{"ResetType@Redfish.AllowableValues": listed})
        assert found is not None
        assert set(found.values or ()) == values

    @pytest.mark.parametrize("listed", [[], None, "On", [None]])
    def test_without_a_list_nothing_is_allowed(self, listed: t.Any) -> None:
        found = self.of(target=f"{PATH}/R", **{"ResetType@Redfish.AllowableValues": listed})
        assert found is not None
        assert found.values is None
        assert found.reset_type("on") is None

    @pytest.mark.parametrize("schema", ["", "http://ts.fujitsu.com/redfish-schemas/v1/FTSSchema"])
    def test_fujitsus_action_has_words_of_its_own(self, schema: str) -> None:
        target = f"{PATH}/Actions/Oem/FTSComputerSystem.Reset"
        own = {
            "target": target,
            "FTSResetType@Redfish.AllowableValues": ["PowerOff", "GracefulPowerOff", "PowerCycle"],
        }
        found = reset_action_of(
            {"@odata.id": PATH, "Actions": {"Oem": {f"{schema}#FTSComputerSystem.Reset": own}}}
        )
        assert found is not None
        assert (found.target, found.parameter) == (target, "FTSResetType")
        assert found.reset_type("graceful_off") == "GracefulPowerOff"
        assert found.reset_type("force_off") == "PowerOff"
        assert found.reset_type("on") is None

    @pytest.mark.parametrize("actions", [None, [], {}, {"#ComputerSystem.Reset": None}, "x"])
    def test_no_action(self, actions: t.Any) -> None:
        assert reset_action_of({"@odata.id": PATH, "Actions": actions}) is None
