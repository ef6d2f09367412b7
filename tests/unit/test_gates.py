# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from scripts import ansible_test_home
from scripts.gates import (
    AFTER,
    PROCESSORS,
    Counts,
    Gate,
    Outcome,
    Runner,
    gates_of,
    read_counts,
    summary,
)
from scripts.registry_settings import pip_configuration, read_pip_settings, uv_environment

REPORT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest" tests="7" failures="1" errors="1" skipped="2"/></testsuites>
"""


def test_errors_count_as_failures(tmp_path: Path) -> None:
    (tmp_path / "unit.xml").write_text(REPORT)
    assert read_counts(tmp_path / "unit.xml") == Counts(passed=3, failed=2, skipped=2)


def outcomes(*names: str, result: str = "success") -> list[Outcome]:
    return [Outcome(name, result, 1.25) for name in names]


def test_last_line_sums_the_reports_of_all_sessions(tmp_path: Path) -> None:
    (tmp_path / "unit.xml").write_text(REPORT)
    (tmp_path / "integration.xml").write_text(REPORT)
    lines = summary(outcomes("ruff", "unit", "integration"), tmp_path).splitlines()
    assert lines[-1] == "6 passed, 4 failed, 4 skipped"
    assert re.fullmatch(r"unit +success +1\.2  3 passed, 2 failed, 2 skipped", lines[2])


def test_a_skipped_session_says_what_was_not_looked_at(tmp_path: Path) -> None:
    log = "nox > Session browser skipped: no page was looked at.\n"
    (tmp_path / "browser.log").write_text(log)
    lines = summary(outcomes("browser", result="skipped"), tmp_path).splitlines()
    assert lines[-1] == "not checked: browser: no page was looked at"


def test_failed_sessions_are_named_and_no_tests_are_not_counted(tmp_path: Path) -> None:
    given = outcomes("ruff", "mypy", result="failed") + outcomes("molecule", result="skipped")
    lines = summary([*given, *outcomes("sanity", result="stopped")], tmp_path).splitlines()
    assert lines[-1] == "failed: ruff, mypy"


def test_failed_tests_are_named_with_the_end_of_their_message(tmp_path: Path) -> None:
    lines = "\n".join(f"line {number}" for number in range(1, 31))
    (tmp_path / "unit.xml").write_text(
        '<testsuites><testsuite tests="2" failures="1">'
        '<testcase classname="tests.test_units" name="test_passes"/>'
        f'<testcase classname="tests.test_units" name="test_fails"><failure>{lines}</failure>'
        "</testcase></testsuite></testsuites>"
    )
    (tmp_path / "unit.log").write_text("all that pytest said")
    printed = summary(outcomes("unit", result="failed"), tmp_path).splitlines()
    assert printed[0] == "unit: tests.test_units::test_fails"
    assert printed[1:13] == [f"  line {number}" for number in range(19, 31)]
    assert not any("test_passes" in line or "pytest said" in line for line in printed)


def test_a_failed_gate_without_tests_shows_its_errors_and_its_end(tmp_path: Path) -> None:
    said = ["ERROR: Found 1 pylint issue", *(f"line {number}" for number in range(50))]
    (tmp_path / "sanity.log").write_text("\n".join(said))
    (tmp_path / "docs.log").write_text("nothing of interest")
    given = outcomes("docs") + outcomes("sanity", result="failed")
    printed = summary(given, tmp_path).splitlines()
    assert printed[:2] == ["sanity: the end of its output", "  ERROR: Found 1 pylint issue"]
    assert printed[2:32] == [f"  line {number}" for number in range(20, 50)]
    assert printed[-1] == "failed: sanity"
    assert not any("of interest" in line for line in printed)


def test_a_report_that_was_cut_off_counts_nothing(tmp_path: Path) -> None:
    (tmp_path / "unit.xml").write_text(REPORT[:60])
    assert read_counts(tmp_path / "unit.xml") == Counts()


def runner(tmp_path: Path, scripts: dict[str, str], *, stops_at_failure: bool = False) -> Runner:
    """Gates that are shell scripts, in the folder of their reports, on two processors."""

    def command(name: str) -> list[str]:
        return ["sh", "-c", f"cd {tmp_path}; {scripts[name]}"]

    return Runner(command, tmp_path, processors=2, stops_at_failure=stops_at_failure)


def test_gates_run_beside_others_for_which_there_is_room(tmp_path: Path) -> None:
    """The two that need each other's file end only if both run; the third needs both gone."""
    waits = "while [ ! -e {0} ]; do sleep 0.05; done"
    scripts = {
        "wide": f"touch wide started; {waits.format('narrow')}; rm wide",
        "also-wide": "[ ! -e wide ]",
        "narrow": f"touch narrow; {waits.format('started')}",
    }
    gates = [Gate("wide", 2), Gate("also-wide", 2), Gate("narrow")]
    ended = runner(tmp_path, scripts).run(gates)
    assert [(each.name, each.result) for each in ended] == [
        ("wide", "success"),
        ("also-wide", "success"),
        ("narrow", "success"),
    ]


def test_narrow_gates_do_not_put_off_a_wide_one(tmp_path: Path) -> None:
    waits = "while [ ! -e {0} ]; do sleep 0.05; done"
    scripts = {
        "short": "true",
        "long": f"{waits.format('wide')}; touch long; [ ! -e late ]",
        "wide": f"touch wide; {waits.format('long')}",
        "late": "touch late",
    }
    gates = [Gate("short"), Gate("long"), Gate("wide", 2), Gate("late")]
    ended = runner(tmp_path, scripts).run(gates)
    assert {each.name for each in ended if each.is_good} == scripts.keys()


def test_a_gate_waits_for_those_that_it_needs_also_if_they_fail(tmp_path: Path) -> None:
    scripts = {"lab": "sleep 0.3; touch built; exit 1", "tests": "[ -e built ]"}
    ended = runner(tmp_path, scripts).run([Gate("tests", after=("lab",)), Gate("lab", 0)])
    assert {each.name: each.result for each in ended} == {"tests": "success", "lab": "failed"}


def test_a_failure_ends_the_others_and_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scripts = {"bad": "echo the cause; exit 3", "long": "sleep 600", "later": "true"}
    gates = [Gate("long", 2), Gate("bad"), Gate("later")]
    ended = runner(tmp_path, scripts, stops_at_failure=True).run(gates)
    assert {each.name: each.result for each in ended} == {"bad": "failed", "long": "stopped"}
    assert "the cause" in capsys.readouterr().out


def test_a_skipped_session_is_known_by_its_report(tmp_path: Path) -> None:
    (tmp_path / "browser.json").write_text('{"sessions": [{"result": "skipped"}]}')
    [ended] = runner(tmp_path, {"browser": "true"}).run([Gate("browser")])
    assert (ended.result, ended.is_good) == ("skipped", True)


def test_every_gate_of_the_schedule_is_a_session() -> None:
    """CI adds pylint, other ansible-cores and containers; gates that need the lab wait for it."""
    gates = {gate.name: gate for gate in gates_of(["test", "ci", "test-deep"])}
    assert gates.keys() >= {*PROCESSORS, *AFTER}
    assert gates["molecule"].after == ("lab_build",)
    assert gates["browser"].after == ("site",)
    developers = {gate.name for gate in gates_of(["test"])}
    only_in_ci = {"oldest_core", "newest_core", "pylint", "image", "real_node", "released"}
    only_in_ci.add("walk")
    assert {gate.name for gate in gates_of(["ci"])} == only_in_ci
    assert developers.isdisjoint({*only_in_ci, "deep"})


def test_pip_settings_come_from_files_variables_and_the_general_environment(tmp_path: Path) -> None:
    pip = tmp_path / "python"
    pip.write_text(
        "#!/bin/sh\n"
        "echo \"global.index-url='https://file.example/simple'\"\n"
        "echo \"global.timeout='5'\"\n"
        "echo \":env:.index-url='https://variable.example/simple'\"\n"
    )
    pip.chmod(0o755)
    settings = read_pip_settings(str(pip), {"HTTPS_PROXY": "http://127.0.0.1:3128"})
    assert settings == {
        "index-url": "https://variable.example/simple",
        "timeout": "5",
        "proxy": "http://127.0.0.1:3128",
    }
    assert uv_environment(settings) == {
        "UV_DEFAULT_INDEX": "https://variable.example/simple",
        "UV_HTTP_TIMEOUT": "5",
    }
    assert pip_configuration(settings).splitlines() == [
        "[global]",
        "index-url = https://variable.example/simple",
        "proxy = http://127.0.0.1:3128",
        "timeout = 5",
    ]


def test_interpreter_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\necho 'command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    assert ansible_test_home.real_folder(str(shim)) is None
    assert ansible_test_home.real_folder(str(tmp_path / "absent")) is None
    assert ansible_test_home.real_folder(sys.executable) == Path(sys.executable).parent
