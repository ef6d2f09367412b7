# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switching of the lab's machines: each vendor's answers, over real sockets with TLS."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from lab.bmc.vendors import SYSTEMS, TREES
from lab.embedded import embedded_lab
from support.power_switching import SwitchedLab

VENDORS = sorted(TREES)
Json = dict[str, t.Any]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SwitchedLab]:
    with embedded_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield SwitchedLab(lab)


@pytest.fixture
def lab(running: SwitchedLab) -> Iterator[SwitchedLab]:
    """All machines on, and nothing wrong with them."""
    yield running
    running.context = Context()
    running.lab.admin("DELETE", "/faults")
    running.lab.admin("POST", "/clock", {"offset_seconds": running.seconds})
    for machine in running.lab.machines:
        running.switch(machine, state="on")


def only(result: Json) -> Json:
    assert result["errors"] == []
    [entry] = result["results"]
    return t.cast("Json", entry)


def only_error(result: Json) -> Json:
    [error] = result["errors"]
    return t.cast("Json", error)


def values(entry: Json) -> list[str]:
    return [request["value"] for request in entry["requests"]]


class TestEachVendor:
    """Off, on and off by force; a machine that has the state; a cycle."""

    @pytest.mark.parametrize("vendor", VENDORS)
    def test_it_is_switched_to_the_end(self, lab: SwitchedLab, vendor: str) -> None:
        machine = lab.machine(vendor)
        before = len(lab.power(machine)["resets"])
        off = only(lab.switch(machine, state="off"))
        assert (off["action"], off["by"], off["changed"]) == ("switched_off", "redfish", True)
        assert (off["previous_power_state"], off["power_state"]) == ("On", "Off")
        assert not lab.power(machine)["is_on"]
        on = only(lab.switch(machine, state="on"))
        assert (on["action"], on["power_state"]) == ("switched_on", "On")
        assert lab.power(machine)["is_on"]
        forced = only(lab.switch(machine, state="off", mode="force"))
        assert forced["action"] == "switched_off"
        resets = lab.power(machine)["resets"][before:]
        assert resets == ["GracefulShutdown", "On", "ForceOff"]

    @pytest.mark.parametrize("vendor", VENDORS)
    def test_a_machine_that_has_the_state_gets_no_request(
        self, lab: SwitchedLab, vendor: str
    ) -> None:
        machine = lab.machine(vendor)
        before = lab.power(machine)["resets"]
        result = lab.switch(machine, state="on")
        assert (result["changed"], result["diff"]) == (False, [])
        entry = only(result)
        assert (entry["action"], entry["requests"]) == ("none", [])
        assert lab.power(machine)["resets"] == before

    @pytest.mark.parametrize("vendor", VENDORS)
    def test_a_cycle_is_a_shutdown_and_a_start(self, lab: SwitchedLab, vendor: str) -> None:
        machine = lab.machine(vendor)
        entry = only(lab.switch(machine, state="cycle"))
        assert (entry["action"], entry["power_state"]) == ("cycled", "On")
        accepted = [one for one in entry["requests"] if one["answer"].startswith("HTTP 20")]
        assert [one["value"] for one in accepted] == ["GracefulShutdown", "On"]

    @pytest.mark.parametrize("vendor", VENDORS)
    def test_a_cycle_of_a_machine_that_is_off_starts_it(
        self, lab: SwitchedLab, vendor: str
    ) -> None:
        machine = lab.machine(vendor)
        lab.switch(machine, state="off", mode="force")
        entry = only(lab.switch(machine, state="cycle"))
        assert set(values(entry)) == {"On"}

    @pytest.mark.parametrize("vendor", VENDORS)
    def test_a_known_system_takes_one_request(self, lab: SwitchedLab, vendor: str) -> None:
        machine = lab.machine(vendor)
        [found] = lab.info(machine)["states"]
        assert found["power_state"] == "On"
        lab.requests(machine)
        target = lab.target(machine, system=found["system"])
        del target["power_credential"]
        [again] = lab.info(machine, targets=[target])["states"]
        assert again == found
        assert lab.requests(machine) == 1


class TestAnswers:
    """Refusals that pass, and those that do not."""

    def test_idrac10_is_asked_again_until_it_has_rested(self, lab: SwitchedLab) -> None:
        machine = lab.machine("idrac10")
        lab.switch(machine, state="off", mode="force")
        entry = only(lab.switch(machine, state="on"))
        *refused, accepted = entry["requests"]
        assert 4 <= len(refused) <= 7
        assert all("ActionParameterValueConflict" in one["answer"] for one in refused)
        assert accepted["answer"] == "HTTP 204"

    @pytest.mark.parametrize("vendor", ["idrac9", "hpe", "openbmc"])
    def test_a_busy_bmc_is_asked_again(self, lab: SwitchedLab, vendor: str) -> None:
        machine = lab.machine(vendor)
        lab.trouble(machine, "reset-busy", seconds=25)
        entry = only(lab.switch(machine, state="off", mode="force"))
        *refused, _accepted = entry["requests"]
        words = {"idrac9": "SYS518", "hpe": "InvalidOperation", "openbmc": "Retry in 10 seconds"}
        assert len(refused) == 3
        assert all(words[vendor] in one["answer"] for one in refused)

    def test_a_shutdown_that_never_ends_is_an_error_with_what_was_seen(
        self, lab: SwitchedLab
    ) -> None:
        machine = lab.machine("lenovo")
        lab.trouble(machine, "shutdown-ignored")
        result = lab.switch(machine, state="off", timeout=120)
        error = only_error(result)
        assert error["reason"] == "timeout"
        assert "the machine is not Off within 120 s" in error["detail"]
        assert "GracefulShutdown after 0 s: HTTP 204; PowerState was On" in error["detail"]
        [entry] = result["results"]
        assert (entry["action"], entry["changed"], values(entry)) == (
            "failed",
            True,
            ["GracefulShutdown"],
        )
        assert lab.power(machine)["is_on"]

    def test_only_the_mode_that_says_so_forces_after_a_shutdown(self, lab: SwitchedLab) -> None:
        machine = lab.machine("lenovo")
        lab.trouble(machine, "shutdown-ignored")
        entry = only(
            lab.switch(machine, state="off", mode="graceful_then_force", graceful_timeout=60)
        )
        assert values(entry) == ["GracefulShutdown", "ForceOff"]
        assert 60 <= entry["requests"][1]["seconds"] < 70

    def test_a_refused_force_off_is_an_error(self, lab: SwitchedLab) -> None:
        machine = lab.machine("supermicro")
        lab.trouble(machine, "force-off-refused")
        result = lab.switch(machine, state="off", mode="force")
        error = only_error(result)
        assert error["reason"] == "refused"
        assert "HTTP 400 Base.v1_4_0.OperationFailed" in error["detail"]
        assert not result["changed"]

    def test_a_bmc_that_lies_about_its_state_is_an_error(self, lab: SwitchedLab) -> None:
        machine = lab.machine("idrac9")
        lab.trouble(machine, "power-state-stuck")
        result = lab.switch(machine, state="off", mode="force", timeout=90)
        error = only_error(result)
        assert (error["reason"], result["changed"]) == ("timeout", True)
        assert "PowerState was On" in error["detail"]
        # The machine is off; the next request is refused because it is.
        again = only_error(lab.switch(machine, state="off", mode="force", timeout=90))
        assert again["reason"] == "refused"
        assert "PSU501" in again["detail"]

    def test_a_system_without_reset_is_an_error(self, lab: SwitchedLab) -> None:
        machine = lab.machine("hpe")
        lab.trouble(machine, "reset-missing")
        error = only_error(lab.switch(machine, state="off"))
        assert (error["reason"], "offers no Reset action" in error["detail"]) == ("refused", True)

    def test_without_wait_the_acceptance_ends_it(self, lab: SwitchedLab) -> None:
        machine = lab.machine("supermicro")
        entry = only(lab.switch(machine, state="off", wait=False))
        assert (entry["action"], entry["power_state"]) == ("switched_off", "On")
        # A second run waits for the shutdown and sends none.
        resets = lab.power(machine)["resets"]
        lab.pass_time(60)
        assert not lab.switch(machine, state="off")["changed"]
        assert lab.power(machine)["resets"] == resets

    def test_a_transition_is_waited_for(self, lab: SwitchedLab) -> None:
        machine = lab.machine("idrac9")
        lab.switch(machine, state="off", wait=False)
        result = lab.switch(machine, state="off")
        entry = only(result)
        assert (entry["previous_power_state"], entry["power_state"]) == ("PoweringOff", "Off")
        assert (result["changed"], entry["requests"]) == (False, [])


class TestAccounts:
    def test_the_account_for_reading_may_not_switch(self, lab: SwitchedLab) -> None:
        machine = lab.machine("hpe")
        target = lab.target(machine, power_credential="reader")
        error = only_error(lab.switch(machine, targets=[target], state="off"))
        assert error["reason"] == "forbidden"
        assert "HTTP 403 to GracefulShutdown" in error["detail"]
        assert "power_credential" in error["detail"]
        assert lab.power(machine)["is_on"]

    def test_a_missing_account_for_switching_is_an_error(self, lab: SwitchedLab) -> None:
        machine = lab.machine("hpe")
        target = lab.target(machine, power_credential="nobody")
        error = only_error(lab.switch(machine, targets=[target], state="off"))
        assert error["reason"] == "credential"
        assert lab.power(machine)["is_on"]

    def test_the_entry_power_switches_where_a_target_names_none(self, lab: SwitchedLab) -> None:
        machine = lab.machine("hpe")
        given = lab.parameters(machine)["credentials"]
        credentials = {"default": given["reader"], "power": given["switcher"]}
        target = {"name": machine.name, "endpoint": lab.lab.endpoint(machine)}
        result = lab.switch(machine, targets=[target], credentials=credentials, state="off")
        assert only(result)["action"] == "switched_off"


class TestIdentity:
    """A BMC that answers for another machine gets no action."""

    def test_the_right_machine_is_switched(self, lab: SwitchedLab) -> None:
        machine = lab.machine("idrac9")
        [known] = lab.info(machine)["states"]
        assert known["serial_number"]
        named = {name: known[name] for name in ("serial_number", "system_uuid")}
        result = lab.switch(machine, targets=[lab.target(machine, **named)], state="off")
        assert only(result)["action"] == "switched_off"

    @pytest.mark.parametrize(
        "identity",
        [{"serial_number": "ANOTHER"}, {"system_uuid": "11111111-2222-3333-4444-555555555555"}],
    )
    def test_another_machine_gets_no_action(self, lab: SwitchedLab, identity: Json) -> None:
        machine = lab.machine("idrac9")
        before = lab.power(machine)["resets"]
        result = lab.switch(machine, targets=[lab.target(machine, **identity)], state="off")
        error = only_error(result)
        assert error["reason"] == "conflict"
        assert "so that nothing was sent" in error["detail"]
        assert lab.power(machine)["resets"] == before

    def test_one_machine_in_two_targets_is_switched_once(self, lab: SwitchedLab) -> None:
        machine = lab.machine("lenovo")
        before = len(lab.power(machine)["resets"])
        targets = [lab.target(machine), lab.target(machine, name="twin")]
        result = lab.switch(machine, targets=targets, state="off")
        error = only_error(result)
        assert (error["name"], error["reason"]) == ("twin", "conflict")
        assert machine.name in error["detail"]
        assert lab.power(machine)["resets"][before:] == ["GracefulShutdown"]


class TestManyMachines:
    def test_a_failing_machine_stops_no_other(self, lab: SwitchedLab) -> None:
        machines = [lab.machine(vendor) for vendor in ("lenovo", "hpe", "openbmc")]
        lab.trouble(machines[1], "dead-bmc")
        seen: list[tuple[int, int, int]] = []

        def progress(done: int, total: int, failed: int) -> None:
            seen.append((done, total, failed))

        lab.context = replace(lab.context, progress=progress)
        result = lab.switch(*machines, state="off")
        assert [entry["name"] for entry in result["results"]] == [
            machines[0].name,
            machines[2].name,
        ]
        assert only_error(result)["reason"] == "unreachable"
        assert seen[-1] == (3, 3, 1)
        assert [done for done, _total, _failed in seen] == sorted(done for done, *_rest in seen)

    def test_check_mode_sends_nothing_and_shows_the_difference(self, lab: SwitchedLab) -> None:
        machines = [lab.machine(vendor) for vendor in VENDORS]
        lab.switch(machines[0], state="off")
        before = [lab.power(machine)["resets"] for machine in machines]
        lab.context = replace(lab.context, check_mode=True)
        result = lab.switch(*machines, state="off")
        assert result["changed"]
        assert [entry["changed"] for entry in result["results"]] == [False, *[True] * 5]
        [difference] = result["diff"]
        assert difference["before"] == {machine.name: "On" for machine in machines[1:]}
        assert difference["after"] == {machine.name: "Off" for machine in machines[1:]}
        assert [lab.power(machine)["resets"] for machine in machines] == before

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"timeout": 0}, "timeout: 0 is not a duration"),
            ({"mode": "graceful_then_force", "timeout": 100}, "leave no time to force"),
        ],
    )
    def test_options_that_contradict_are_refused(
        self, lab: SwitchedLab, options: Json, message: str
    ) -> None:
        with pytest.raises(InvalidInput, match=message):
            lab.switch(lab.machine("hpe"), state="off", **options)


def test_a_machine_that_is_off_draws_standby_power_and_a_booting_one_more_than_idle(
    lab: SwitchedLab,
) -> None:
    machine = lab.machine("lenovo")

    def watts() -> float:
        found: float = lab.lab.admin("GET", "/truth")[machine.name]["power_watts"]
        return found

    lab.pass_time(300)
    idle = watts()
    lab.switch(machine, state="off", mode="force")
    assert watts() == 8.0
    lab.switch(machine, state="on")
    assert watts() > 1.3 * idle


def test_the_paths_of_systems_are_those_of_the_vendors(lab: SwitchedLab) -> None:
    machines = [lab.machine(vendor) for vendor in VENDORS]
    found = lab.info(*machines)["states"]
    assert [state["system"].rstrip("/") for state in found] == [SYSTEMS[one] for one in VENDORS]
