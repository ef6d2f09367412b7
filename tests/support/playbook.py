# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ansible-playbook as a user would, with the collection of this tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import typing as t
from dataclasses import dataclass
from pathlib import Path

import yaml

COLLECTIONS = Path(__file__).resolve().parents[5]
# Another interpreter runs the same tests with the ansible-core of its environment.
PYTHON = os.environ.get("WATTWISE_TEST_PYTHON", sys.executable)


@dataclass(frozen=True)
class PlaybookRun:
    """Output and exit status of a run."""

    returncode: int
    output: str

    def results(self, task: str) -> list[dict[str, t.Any]]:
        """The results of the task with this name, one per host; only for runs with ``as_json``."""
        body = json.loads(self.output[self.output.index("{") :])
        return [
            result
            for play in body["plays"]
            for entry in play["tasks"]
            if entry["task"]["name"].endswith(task)
            for result in entry["hosts"].values()
        ]

    def failures(self) -> dict[str, str]:
        """Message of the failed task on each host; only for runs with ``as_json``."""
        body = json.loads(self.output[self.output.index("{") :])
        return {
            host: " ".join(str(each.get("msg")) for each in (result, *result.get("results", [])))
            for play in body["plays"]
            for entry in play["tasks"]
            for host, result in entry["hosts"].items()
            if result.get("failed")
        }

    def custom_stats(self) -> dict[str, t.Any]:
        """The run's artifacts for later jobs; only for runs with ``as_json``."""
        body = json.loads(self.output[self.output.index("{") :])
        return t.cast("dict[str, t.Any]", body["global_custom_stats"])

    def stats(self) -> dict[str, dict[str, int]]:
        """The recap by host; only for runs with ``as_json``."""
        body = json.loads(self.output[self.output.index("{") :])
        return t.cast("dict[str, dict[str, int]]", body["stats"])


def environment(**extra: str) -> dict[str, str]:
    """Environment of a run: this interpreter's programs first, no colours, no user's files."""
    programs = str(Path(PYTHON).parent)
    collections = (str(COLLECTIONS), sysconfig.get_path("purelib"))
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANSIBLE_", "K8S_AUTH_", "WATTWISE_REDFISH"))
    }
    return {
        **kept,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "ANSIBLE_COLLECTIONS_PATH": os.pathsep.join(collections),
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "ANSIBLE_INJECT_FACT_VARS": "false",
        "ANSIBLE_SHOW_CUSTOM_STATS": "true",
        "ANSIBLE_PYTHON_INTERPRETER": PYTHON,
        **extra,
    }


def run_playbook(
    playbook: str | list[t.Any],
    folder: Path,
    *arguments: str,
    as_json: bool = False,
    **extra: str,
) -> PlaybookRun:
    """Run a playbook, given by FQCN or as plays, in ``folder``; standard error joins the output."""
    name = playbook
    if isinstance(playbook, list):
        path = folder / "playbook.yml"
        path.write_text(yaml.safe_dump(playbook))
        name = str(path)
    callback = {"ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json"} if as_json else {}
    completed = subprocess.run(
        [PYTHON, "-m", "ansible", "playbook", str(name), *arguments],
        cwd=folder,
        env=environment(**callback, **extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if as_json else subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return PlaybookRun(completed.returncode, completed.stdout)
