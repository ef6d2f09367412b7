# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power limits of the lab's machines: each vendor's place and quirks."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from lab.embedded import embedded_lab
from support.power_switching import SwitchedLab

Json = dict[str, t.Any]
PLACES = {
    "idrac9": "dell_attributes",
    "idrac10": "dell_attributes",
    "hpe": "power_control",
    "lenovo": "control",
    "openbmc": "environment_metrics",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SwitchedLab]:
    with embedded_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield SwitchedLab(lab)


@pytest.fixture
def lab(running: SwitchedLab) -> Iterator[SwitchedLab]:
    yield running
    running.context = Context()


def only(result: Json) -> Json:
    assert result["errors"] == []
    [entry] = result["limits"]
    return t.cast("Json", entry)


@pytest.mark.parametrize("vendor", sorted(PLACES))
def test_each_vendor_takes_and_gives_up_a_limit(lab: SwitchedLab, vendor: str) -> None:
    machine = lab.machine(vendor)
    before = only(lab.limit(machine))
    assert (before["limit_watts"], before["place"]) == (None, PLACES[vendor])
    result = lab.limit(machine, limit_watts=400)
    assert result["changed"]
    assert only(result)["limit_watts"] == 400
    assert lab.power(machine)["cap_watts"] == 400
    assert not lab.limit(machine, limit_watts=400)["changed"]
    raised = only(lab.limit(machine, limit_watts=500))
    assert (raised["previous_limit_watts"], raised["limit_watts"]) == (400, 500)
    removed = only(lab.limit(machine, state="absent"))
    assert (removed["action"], removed["limit_watts"]) == ("removed", None)
    assert lab.power(machine)["cap_watts"] is None
    assert not lab.limit(machine, state="absent")["changed"]


def test_check_mode_writes_nothing_and_shows_the_difference(lab: SwitchedLab) -> None:
    machine = lab.machine("hpe")
    lab.context = replace(lab.context, check_mode=True)
    result = lab.limit(machine, limit_watts=400)
    assert result["changed"]
    assert only(result)["action"] == "set"
    assert result["diff"][0]["before"] == {machine.name: None}
    assert result["diff"][0]["after"] == {machine.name: 400}
    assert lab.power(machine)["cap_watts"] is None


@pytest.mark.parametrize("vendor", ["idrac9", "openbmc"])
def test_a_limit_outside_of_the_bounds_is_not_sent(lab: SwitchedLab, vendor: str) -> None:
    machine = lab.machine(vendor)
    lab.requests(machine)
    result = lab.limit(machine, limit_watts=100)
    statuses = lab.lab.admin("GET", "/requests")["nodes"][machine.name]["statuses"]
    [error] = result["errors"]
    assert error["reason"] == "refused"
    assert "outside of the bounds" in error["detail"]
    assert "200 to 1200 W" in error["detail"]
    assert set(statuses) <= {"200", "404", "503"}


def test_a_bmc_that_takes_no_limit_is_an_error_with_its_words(lab: SwitchedLab) -> None:
    result = lab.limit(lab.machine("supermicro"), limit_watts=400)
    assert not result["changed"]
    [error] = result["errors"]
    assert error["reason"] == "refused"
    assert (
        "HTTP 405 to PATCH /redfish/v1/Chassis/1/Power: Base.v1_4_0.OperationNotAllowed"
        in (error["detail"])
    )


def test_the_account_for_reading_may_not_set_a_limit(lab: SwitchedLab) -> None:
    machine = lab.machine("lenovo")
    target = lab.target(machine, power_credential="reader")
    result = lab.limit(machine, limit_watts=400, targets=[target])
    [error] = result["errors"]
    assert error["reason"] == "forbidden"
    assert "power_credential" in error["detail"]
    assert lab.power(machine)["cap_watts"] is None


def test_a_limit_beside_absent_is_refused(lab: SwitchedLab) -> None:
    with pytest.raises(InvalidInput, match="leave one of the two out"):
        lab.limit(lab.machine("hpe"), state="absent", limit_watts=400)


@pytest.mark.parametrize("watts", [0, -5, float("nan"), float("inf"), 1e9])
def test_a_limit_that_is_no_power_is_refused(lab: SwitchedLab, watts: float) -> None:
    with pytest.raises(InvalidInput, match="limit_watts"):
        lab.limit(lab.machine("hpe"), limit_watts=watts)
