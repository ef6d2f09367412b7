# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the gates of the tags given side by side; print what failed, a table of them and counts.

Each gate is a nox session in a process of its own. Its output goes to build/reports/NAME.log and is
printed whole where it fails. Continuous integration may keep only the end of the output. So each
failed test is printed once more before the table, and the end of each failed gate without failed
tests. The last line, `N passed, N failed`, sums the reports that pytest wrote.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from xml.etree import ElementTree

from scripts.collection_tree import synchronize

REPOSITORY = Path(__file__).resolve().parent.parent
REPORTS = REPOSITORY / "build" / "reports"
# Lines per failed test: enough for the assertion and the compared values, not the traceback.
MESSAGE_LINES = 12
TESTS_SHOWN = 25
# Lines per failed gate without a failed test: its last ones, and earlier ones with an error.
LAST_LINES = 30
ERROR_LINES = 20
ERROR = re.compile(r"\b(ERROR|FATAL|FAILED|Failed|fatal:|error:|Traceback)")
# Gates that keep more than one processor busy; the niced `lab_build` counts as none. The two workers
# of `unit` count as one processor: beside `integration`, they use what its waiting tests leave, and
# both gates together take less time than one after the other.
PROCESSORS = {"integration": 2, "generated_in_mass": 2, "lab_build": 0}
NEED_THE_LAB = (
    "integration",
    "molecule",
    "oldest_core",
    "newest_core",
    "deep",
    "oldest_kubernetes",
    "image",
    "real_node",
    "released",
    "walk",
)
# The browser shows the site that the other gate built.
AFTER = {**dict.fromkeys(NEED_THE_LAB, ("lab_build",)), "browser": ("site",)}
POLL_SECONDS = 0.2
# Line of nox about a skipped session.
SKIPPED = re.compile(r"^nox > Session \S+ skipped: (.*?)\.?$", re.MULTILINE)


@dataclass(frozen=True)
class Gate:
    """A session, the processors that it keeps busy, and the gates that must end before it."""

    name: str
    processors: int = 1
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """Result of a gate: success, skipped, failed, or stopped because another failed."""

    name: str
    result: str
    seconds: float

    @property
    def is_good(self) -> bool:
        return self.result in ("success", "skipped")


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
    """The counts of one JUnit report; zeros if the session wrote none."""
    total = Counts()
    for suite in _elements(report, "testsuite"):
        tests, failures, errors, skipped = (
            int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")
        )
        failed = failures + errors
        total += Counts(max(tests - failed - skipped, 0), failed, skipped)
    return total


def failed_tests(report: Path) -> list[str]:
    """The failed tests of one JUnit report, each with the end of its message, indented."""
    tests = []
    for case in _elements(report, "testcase"):
        for problem in (*case.iter("failure"), *case.iter("error")):
            message = (problem.text or problem.get("message") or "").strip().splitlines()
            shown = [f"  {line}"[:200] for line in message[-MESSAGE_LINES:]]
            tests.append(
                "\n".join([f"{report.stem}: {case.get('classname')}::{case.get('name')}", *shown])
            )
    return tests


def _elements(report: Path, name: str) -> Iterator[ElementTree.Element]:
    """A report that was cut off with its session is unreadable."""
    with contextlib.suppress(FileNotFoundError, ElementTree.ParseError):
        yield from ElementTree.parse(report).getroot().iter(name)


def failed_gate(name: str, reports: Path) -> str:
    """Why a gate failed: its failed tests, or else its errors and the end of its output."""
    tests = failed_tests(reports / f"{name}.xml")
    if tests:
        left_out = len(tests) - TESTS_SHOWN
        more = [f"{name}: {left_out} more failed tests in its report"] if left_out > 0 else []
        return "\n".join(tests[:TESTS_SHOWN] + more)
    log = reports / f"{name}.log"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else ["no output"]
    before, last = lines[:-LAST_LINES], lines[-LAST_LINES:]
    errors = [line for line in before if ERROR.search(line)][-ERROR_LINES:]
    return "\n".join([f"{name}: the end of its output", *(f"  {x}"[:300] for x in errors + last)])


def reason_of(name: str, reports: Path) -> str:
    """The name of a skipped gate, and why it was skipped."""
    log = reports / f"{name}.log"
    said = SKIPPED.findall(log.read_text(errors="replace")) if log.exists() else []
    return f"{name}: {said[-1]}" if said else name


def summary(outcomes: Iterable[Outcome], reports: Path) -> str:
    """The failures, the table and the closing line."""
    outcomes = list(outcomes)
    total = Counts()
    lines = [f"{'gate':<17} {'result':<8} {'seconds':>7}  tests"]
    for outcome in outcomes:
        counts = read_counts(reports / f"{outcome.name}.xml")
        total += counts
        tests = str(counts) if counts != Counts() else ""
        row = f"{outcome.name:<17} {outcome.result:<8} {outcome.seconds:>7.1f}  {tests}"
        lines.append(row.rstrip())
    failed = [outcome.name for outcome in outcomes if outcome.result == "failed"]
    details = [part for name in failed for part in (failed_gate(name, reports), "")]
    skipped = [outcome.name for outcome in outcomes if outcome.result == "skipped"]
    closing = (
        ["", *(f"not checked: {reason_of(name, reports)}" for name in skipped)] if skipped else []
    )
    closing += ["", f"failed: {', '.join(failed)}"] if failed else []
    if total != Counts():
        closing += ["", str(total)]
    return "\n".join(details + lines + closing)


class Runner:
    """Starts gates in their order as soon as there is room, and prints their results."""

    def __init__(
        self,
        command: Callable[[str], Sequence[str]],
        reports: Path,
        *,
        processors: int,
        stops_at_failure: bool,
    ) -> None:
        self.command, self.reports = command, reports
        # Gates wait now and then for a server, a disk or the network, hence one more than
        # processors.
        self.room = processors + 1
        self.stops_at_failure = stops_at_failure
        self.running: dict[Gate, tuple[subprocess.Popen[bytes], float]] = {}
        self.outcomes: list[Outcome] = []

    def run(self, gates: Sequence[Gate]) -> list[Outcome]:
        """The outcomes in the order of the gates."""
        waiting = list(gates)
        names = [gate.name for gate in gates]
        try:
            while waiting or self.running:
                while (gate := self._next(waiting)) is not None:
                    waiting.remove(gate)
                    self._start(gate)
                self._collect()
                if self.stops_at_failure and not all(each.is_good for each in self.outcomes):
                    break
                time.sleep(POLL_SECONDS)
        finally:
            self._stop()
        return sorted(self.outcomes, key=lambda outcome: names.index(outcome.name))

    def _next(self, waiting: list[Gate]) -> Gate | None:
        """The first ready gate for which there is room.

        A later gate may overtake a waiting one only while a gate at least as wide as the waiting
        one runs. Otherwise narrow gates would follow each other, and the wide ones would run last,
        alone.
        """
        busy = sum(gate.processors for gate in self.running)
        unfinished = {gate.name for gate in (*waiting, *self.running)}
        ready = [gate for gate in waiting if not unfinished.intersection(gate.after)]
        for gate in ready:
            if busy == 0 or busy + gate.processors <= self.room:
                return gate
            if not any(other.processors >= gate.processors for other in self.running):
                return None
        return None

    def _start(self, gate: Gate) -> None:
        print(f"{gate.name}: started", flush=True)
        with (self.reports / f"{gate.name}.log").open("wb") as log:
            process = subprocess.Popen(
                self.command(gate.name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running[gate] = process, time.monotonic()

    def _collect(self) -> None:
        for gate, (process, start) in list(self.running.items()):
            status = process.poll()
            if status is not None:
                del self.running[gate]
                result = "failed" if status else self._result(gate.name)
                self._end(Outcome(gate.name, result, time.monotonic() - start))

    def _result(self, name: str) -> str:
        """The result that nox reports for a session that did not fail."""
        report = self.reports / f"{name}.json"
        sessions = json.loads(report.read_text())["sessions"] if report.exists() else []
        return str(sessions[0]["result"]) if sessions else "success"

    def _end(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if not outcome.is_good:
            log = self.reports / f"{outcome.name}.log"
            print(log.read_text(errors="replace"))
        print(f"{outcome.name}: {outcome.result} after {outcome.seconds:.1f} s", flush=True)

    def _stop(self) -> None:
        """Interrupt the running gates and their children; labs take themselves down."""
        for process, _start in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
        for gate, (process, start) in self.running.items():
            process.wait()
            self._end(Outcome(gate.name, "stopped", time.monotonic() - start))


def gates_of(tags: Sequence[str]) -> list[Gate]:
    """The sessions with one of these tags, in the order of noxfile.py."""
    command = [*_NOX, "--list", "--json", "--tags", *tags]
    listed = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE).stdout
    names = [str(session["session"]) for session in json.loads(listed)]
    return [Gate(name, PROCESSORS.get(name, 1), AFTER.get(name, ())) for name in names]


_NOX = (sys.executable, "-m", "nox", "--no-venv", "--noxfile", str(REPOSITORY / "noxfile.py"))


def session_command(name: str) -> list[str]:
    """One session, with a report of how it ended."""
    return [*_NOX, "--report", str(REPORTS / f"{name}.json"), "--sessions", name]


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main(tags: list[str]) -> int:
    """0 if at least one gate has the tags, and all that have them passed or were skipped."""
    # Also SIGINT, which shells ignore in background jobs and all their children.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    REPORTS.mkdir(parents=True, exist_ok=True)
    for stale in (path for kind in ("json", "log", "xml") for path in REPORTS.glob(f"*.{kind}")):
        stale.unlink()
    gates = gates_of(tags)
    synchronize()
    os.environ["WATTWISE_MIRROR_IS_CURRENT"] = "1"
    runner = Runner(
        session_command,
        REPORTS,
        processors=len(os.sched_getaffinity(0)),
        # A deep run takes too long to be repeated for each failure.
        stops_at_failure=not (os.environ.get("CI") or "test-deep" in tags),
    )
    try:
        outcomes = runner.run(gates)
    except KeyboardInterrupt:
        print("interrupted; the gates that ran were ended", file=sys.stderr)
        return 130
    print("\n" + summary(outcomes, REPORTS), flush=True)
    return 0 if outcomes and all(outcome.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
