# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m lab fault …` on BMCs in a thread."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab import controlplane, faults, process
from lab.conditions import MACHINE_FAULTS, Conditions, ConditionsFile, Fault
from lab.embedded import EmbeddedLab, embedded_lab
from lab.errors import LabError
from lab.process import Service
from lab.state import LabSettings, LabState


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLab]:
    with embedded_lab(tmp_path_factory.mktemp("lab"), nodes=12, racks=2) as lab:
        yield lab


@pytest.fixture
def lab(running: EmbeddedLab) -> Iterator[EmbeddedLab]:
    yield running
    running.admin("DELETE", "/faults")


def command(lab: EmbeddedLab, *words: str) -> int:
    parser = argparse.ArgumentParser()
    faults.add_arguments(parser)
    return faults.run(parser.parse_args(words), lab.state)


def present(lab: EmbeddedLab) -> list[tuple[str, str]]:
    return [(fault["kind"], fault["node"]) for fault in lab.admin("GET", "/faults")]


@pytest.mark.parametrize("kind", MACHINE_FAULTS)
def test_every_kind_can_be_put_on_named_machines(
    lab: EmbeddedLab, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(lab, kind, "--node", "r2-n03", "--node", "r1-n01") == 0
    assert present(lab) == [(kind, "r2-n03"), (kind, "r1-n01")]
    assert capsys.readouterr().out == f"{kind}: r2-n03, r1-n01\n"


def test_a_count_takes_the_first_machines_without_a_fault(lab: EmbeddedLab) -> None:
    command(lab, "dead-bmc", "--count", "2")
    command(lab, "null-reading", "--count", "2", "--node", "r1-n03")
    assert present(lab) == [
        ("dead-bmc", "r1-n01"),
        ("dead-bmc", "r1-n02"),
        ("null-reading", "r1-n03"),
        ("null-reading", "r1-n04"),
        ("null-reading", "r1-n05"),
    ]


def test_seconds_and_silence_are_passed_on(lab: EmbeddedLab) -> None:
    command(lab, "slow-bmc", "--node", "r1-n01", "--seconds", "3")
    command(lab, "slow-bmc", "--node", "r1-n02")
    command(lab, "dead-bmc", "--node", "r1-n03", "--silent")
    found = [Fault(**fault) for fault in lab.admin("GET", "/faults")]
    assert found == [
        Fault("slow-bmc", "r1-n01", 3.0),
        Fault("slow-bmc", "r1-n02", 10.0),
        Fault("dead-bmc", "r1-n03", silent=True),
    ]


def test_clear_takes_everything_back(lab: EmbeddedLab) -> None:
    command(lab, "locked-account", "--count", "3")
    lab.admin("POST", "/clock", {"offset_seconds": 1e6})
    assert command(lab, "clear") == 0
    assert present(lab) == []
    assert not any(account["locked"] for account in lab.admin("GET", "/accounts").values())
    assert ConditionsFile.of(lab.state).read() == Conditions()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dead-bmc"], "needs --node NAME"),
        (["dead-bmc", "--node", "x"], "no machine x in this lab"),
        (["dead-bmc", "--count", "13"], "Only 12 machines are without a fault, 13 were requested"),
    ],
)
def test_what_cannot_be_broken(lab: EmbeddedLab, words: list[str], message: str) -> None:
    with pytest.raises(LabError, match=message):
        command(lab, *words)
    assert present(lab) == []


def test_an_unknown_fault_is_refused_by_the_parser(
    lab: EmbeddedLab, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command(lab, "fire")
    assert "locked-account" in capsys.readouterr().err


def test_the_predictor_is_stopped(lab: EmbeddedLab) -> None:
    asleep = (sys.executable, "-c", "import signal; signal.pause()")
    process.start([Service("predictor", asleep, ready=lambda: True)], lab.state)
    command(lab, "predictor-down")
    assert process.process_id(lab.state, "predictor") is None


def test_the_apiserver_is_restarted(lab: EmbeddedLab, monkeypatch: pytest.MonkeyPatch) -> None:
    restarted: list[LabState] = []
    monkeypatch.setattr(controlplane, "restart_apiserver", restarted.append)
    command(lab, "apiserver-restart")
    assert restarted == [lab.state]


def test_without_simulated_bmcs_there_is_nothing_to_break() -> None:
    with pytest.raises(LabError, match="no simulated BMCs"):
        faults.call(LabSettings(), "GET", "/faults")


def test_a_simulator_that_does_not_answer_is_named() -> None:
    settings = LabSettings(ports={"bmc_admin": process.free_port()})
    with pytest.raises(LabError, match=r"does not answer on 127\.0\.0\.1:"):
        faults.call(settings, "GET", "/faults")


def test_a_lab_without_simulators_is_cleared_without_them(tmp_path: Path) -> None:
    settings = LabSettings(parts=("controlplane",))
    faults.clear(LabState(tmp_path), settings)


def test_conditions_travel_through_their_file(tmp_path: Path) -> None:
    written = Conditions((Fault("slow-bmc", "n", 2.0),), 60.0, 100.0)
    writer, reader = (ConditionsFile(tmp_path / "conditions.json") for _index in range(2))
    assert reader.read() == Conditions()
    writer.write(written)
    assert reader.read() == written
    assert reader.read().now() == 100.0
    writer.write(replace(written, faults=()))
    assert reader.read().fault("slow-bmc", "n") is None
