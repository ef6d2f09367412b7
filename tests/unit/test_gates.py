# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import sys
from pathlib import Path

from scripts import ansible_test_home
from scripts.gates import Counts, read_counts, summary
from scripts.registry_settings import pip_configuration, read_pip_settings, uv_environment

REPORT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest" tests="7" failures="1" errors="1" skipped="2"/></testsuites>
"""


def test_errors_count_as_failures(tmp_path: Path) -> None:
    (tmp_path / "unit.xml").write_text(REPORT)
    assert read_counts(tmp_path / "unit.xml") == Counts(passed=3, failed=2, skipped=2)


def test_last_line_sums_the_reports_of_all_sessions(tmp_path: Path) -> None:
    (tmp_path / "unit.xml").write_text(REPORT)
    (tmp_path / "integration.xml").write_text(REPORT)
    sessions: list[dict[str, object]] = [
        {"name": name, "result": "success", "duration": 1.25}
        for name in ("ruff", "unit", "integration")
    ]
    lines = summary({"sessions": sessions}, tmp_path).splitlines()
    assert lines[-1] == "6 passed, 4 failed, 4 skipped"
    assert re.fullmatch(r"unit +success +1\.2  3 passed, 2 failed, 2 skipped", lines[2])


def test_failed_sessions_are_named_and_no_tests_are_not_counted(tmp_path: Path) -> None:
    sessions: list[dict[str, object]] = [
        {"name": "ruff", "result": "failed", "duration": 0.5},
        {"name": "mypy", "result": "aborted", "duration": 0.5},
        {"name": "molecule", "result": "skipped", "duration": 0},
    ]
    lines = summary({"sessions": sessions}, tmp_path).splitlines()
    assert lines[-1] == "failed: ruff, mypy"


def test_failed_tests_are_named_with_the_end_of_their_message(tmp_path: Path) -> None:
    lines = "\n".join(f"line {number}" for number in range(1, 31))
    (tmp_path / "unit.xml").write_text(
        '<testsuites><testsuite tests="2" failures="1">'
        '<testcase classname="tests.test_units" name="test_passes"/>'
        f'<testcase classname="tests.test_units" name="test_fails"><failure>{lines}</failure>'
        "</testcase></testsuite></testsuites>"
    )
    sessions: list[dict[str, object]] = [{"name": "unit", "result": "failed", "duration": 1}]
    printed = summary({"sessions": sessions}, tmp_path).splitlines()
    assert printed[0] == "unit: tests.test_units::test_fails"
    assert printed[1:13] == [f"  line {number}" for number in range(19, 31)]
    assert not any("test_passes" in line for line in printed)


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
