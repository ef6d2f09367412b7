# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Display of a running module's progress.

A module cannot print. It appends lines to a file, and the action plugin of the same name, which
runs on the controller, reads and shows them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
import typing as t
from pathlib import Path

from ansible.utils.display import Display

from ..module_utils.snapshot.run_owner import process_identity
from .direct_module import DirectActionModule, Result, Variables

# Ansible imports action plugins before it forks workers, and a worker has no terminal.
PARENT_HAS_TERMINAL = sys.stdout.isatty()

LINE_SECONDS = 0.2
LOG_SECONDS = 10.0


class ProgressReader(threading.Thread):
    """Follows a progress file and shows its last line, at most every ``seconds``.

    ``show`` takes a text and whether it ends a line.
    """

    def __init__(
        self,
        path: Path,
        label: str,
        is_line: bool,
        show: t.Callable[[str, bool], None],
        seconds: float,
    ) -> None:
        super().__init__(daemon=True)
        self._path = path
        self._label = label
        self._is_line = is_line
        self._show = show
        self._seconds = seconds
        self._stopped = threading.Event()
        self._begun_at = time.monotonic()
        self._last_shown = ""

    def run(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._show_latest()

    def finish(self) -> None:
        """Stop following; leave a moving line complete."""
        self._stopped.set()
        self.join()
        if self._is_line:
            self._show_latest()
            if self._last_shown:
                self._show("\n", False)

    def _show_latest(self) -> None:
        text = self._latest()
        if text and text != self._last_shown:
            self._last_shown = text
            self._show(f"\r{text}" if self._is_line else text, not self._is_line)

    def _latest(self) -> str:
        lines = self._path.read_text(encoding="utf-8").splitlines()
        try:
            step = json.loads(lines[-1])
        except (IndexError, ValueError):
            return ""
        label = f"{self._label} {step['step']}" if step.get("step") else self._label
        text = f"{label}: {step['done']} of {step['total']} done"
        if step["failed"]:
            text += f", {step['failed']} failed"
        return text if self._is_line else f"{text} ({time.monotonic() - self._begun_at:.0f} s)"


class ProgressActionModule(DirectActionModule):
    """Runs the module of the action's own name, with progress if it is visible."""

    # Whether the module gets the process of Ansible that it works for.
    _names_process = False

    def _run_module(self, arguments: dict[str, t.Any], task_vars: Variables) -> Result:
        if self._names_process:
            # The process of the run, not of this worker.
            arguments["run_process"] = process_identity(os.getppid())
        style = self._style(arguments)
        if style == "none" or self._task.async_val or self._connection.transport != "local":
            return super()._run_module(arguments, task_vars)
        with tempfile.TemporaryDirectory(prefix="wattwise-progress-") as folder:
            path = Path(folder) / "progress"
            path.touch()
            is_line = style == "line"
            seconds = LINE_SECONDS if is_line else LOG_SECONDS
            reader = ProgressReader(path, self._label(task_vars), is_line, _display, seconds)
            reader.start()
            try:
                arguments["progress_file"] = str(path)
                return super()._run_module(arguments, task_vars)
            finally:
                reader.finish()

    def _style(self, arguments: dict[str, t.Any]) -> str:
        environment: dict[str, t.Any] = {}
        self._compute_environment_string(environment)
        style = arguments.get("progress") or environment.get("WATTWISE_PROGRESS")
        style = style or os.environ.get("WATTWISE_PROGRESS") or "auto"
        if style == "auto":
            return "line" if PARENT_HAS_TERMINAL else "log"
        return str(style)

    def _label(self, task_vars: Variables) -> str:
        host = task_vars.get("inventory_hostname", "")
        return f"{self._task.action.rsplit('.', 1)[-1]} [{host}]"


class RunActionModule(ProgressActionModule):
    """Also passes the process of Ansible to the module."""

    _names_process = True


def _display(text: str, newline: bool) -> None:
    Display().display(text, screen_only=True, newline=newline)
