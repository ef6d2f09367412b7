# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run nox with the arguments given, then print what failed, a table of its sessions and counts.

Continuous integration may keep only the end of the output, so each failed test is named there
once more with the end of its message. The last line, `N passed, N failed`, sums the reports that
the sessions' pytest runs wrote.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

REPOSITORY = Path(__file__).resolve().parent.parent
REPORTS = REPOSITORY / "build" / "reports"
# Of a failed test: enough to see the assertion and what it compared, not the whole traceback.
MESSAGE_LINES = 12


@dataclass(frozen=True)
class Counts:
    """Tests by outcome; an error in set-up counts as a failure."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def read_counts(report: Path) -> Counts:
    """The counts of one JUnit report; none where the session wrote none."""
    if not report.exists():
        return Counts()
    total = Counts()
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        tests, failures, errors, skipped = (
            int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")
        )
        failed = failures + errors
        total += Counts(max(tests - failed - skipped, 0), failed, skipped)
    return total


def failed_tests(report: Path) -> list[str]:
    """The failed tests of one JUnit report, each with the end of its message, indented."""
    if not report.exists():
        return []
    tests = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        for problem in (*case.iter("failure"), *case.iter("error")):
            message = (problem.text or problem.get("message") or "").strip().splitlines()
            shown = [f"  {line}"[:200] for line in message[-MESSAGE_LINES:]]
            tests.append(
                "\n".join([f"{report.stem}: {case.get('classname')}::{case.get('name')}", *shown])
            )
    return tests


def summary(document: dict[str, list[dict[str, object]]], reports: Path) -> str:
    """Failed tests, the table and the closing line for a report of nox."""
    total = Counts()
    details: list[str] = []
    lines = [f"{'gate':<14} {'result':<8} {'seconds':>7}  tests"]
    for session in document["sessions"]:
        name = str(session["name"])
        details += failed_tests(reports / f"{name}.xml")
        counts = read_counts(reports / f"{name}.xml")
        total += counts
        tests = str(counts) if counts != Counts() else ""
        seconds = float(str(session["duration"]))
        lines.append(f"{name:<14} {session['result']:<8} {seconds:>7.1f}  {tests}".rstrip())
    failed = [
        str(item["name"])
        for item in document["sessions"]
        if item["result"] not in ("success", "skipped")
    ]
    closing = ["", f"failed: {', '.join(failed)}"] if failed else []
    if total != Counts():
        closing += ["", str(total)]
    return "\n".join(details + ([""] if details else []) + lines + closing)


def main(arguments: list[str]) -> int:
    """Exit status of nox; not 0 either where it ran nothing."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    report = REPORTS / "sessions.json"
    report.unlink(missing_ok=True)
    for stale in REPORTS.glob("*.xml"):
        stale.unlink()
    command = [sys.executable, "-m", "nox", "--no-venv", "--report", str(report), *arguments]
    status = subprocess.run(command, cwd=REPOSITORY, check=False).returncode
    if not report.exists():
        return status or 1
    print("\n" + summary(json.loads(report.read_text()), REPORTS), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
