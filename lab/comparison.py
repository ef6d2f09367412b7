# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same pods under the default scheduler and under wattwise, compared by measured power."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.api import Api
from lab.errors import LabError
from lab.inventory import CLUSTER
from lab.state import LabState
from lab.workload import create_pods, delete_pods, demo_pods, make_namespace, wait_until_bound
from scripts.collection_tree import synchronize

Say = Callable[[str], None]

SCHEDULER = "wattwise"
# Measured power is compared, so all readings must be from after the pods moved.
REFRESH = ("-e", "observe_refresh=true")
# The report also shows the plans of other placers.
_COMPARED = (
    "-e",
    json.dumps({"placement_compare": ["greedy", "minimize_power", "peaks", "spread"]}),
)
_CHANGED = re.compile(r"^\S+\s+: ok=\d+\s+changed=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Comparison:
    """Power draw of the whole fleet: measured by its BMCs, and predicted for wattwise's placement.

    ``lines`` is the report's summary; ``changed_again`` counts the changes of a second run.
    """

    default_watts: float
    wattwise_watts: float
    predicted_watts: float
    changed_again: int
    lines: tuple[str, ...]

    @property
    def fleet_error_percent(self) -> float:
        """Error of the predicted power of the whole fleet."""
        return 100 * (self.predicted_watts / self.wattwise_watts - 1)


def compare(state: LabState, pods: int, seed: int, say: Say) -> Comparison:
    """Run the main job on a lab that is up and has no workload. Raises LabError."""
    settings = state.read_settings()
    workload = demo_pods(pods, seed)
    with Api(state.kubeconfig) as api:
        make_namespace(api)
        delete_pods(api, settings)
        say("ansible-playbook wattwise.kube.site: install, read the idle fleet")
        run_playbook("site", state, *REFRESH)
        say(f"the default scheduler places {pods} pods")
        create_pods(api, workload, "default-scheduler")
        wait_until_bound(api, pods, settings)
        say("ansible-playbook wattwise.kube.observe: read the fleet under the default scheduler")
        run_playbook("observe", state, *REFRESH)
        _keep_as_baseline(state)
        delete_pods(api, settings)
        create_pods(api, workload, SCHEDULER)
        say(f"ansible-playbook wattwise.kube.place: place the same {pods} pods")
        run_playbook("place", state, *_COMPARED)
        wait_until_bound(api, pods, settings)
    say("ansible-playbook wattwise.kube.site: read the fleet again, change nothing")
    changed = run_playbook("site", state, *REFRESH)
    say(f"this second run changed {changed} tasks")
    return _comparison(state, changed)


def _keep_as_baseline(state: LabState) -> None:
    """Readings that the report compares with its measurements."""
    folder = documents(state)
    shutil.copyfile(folder / "readings.json", folder / "baseline.json")


def _comparison(state: LabState, changed: int) -> Comparison:
    """The report's summary. Raises LabError if it could not measure the whole fleet."""
    summary = json.loads((documents(state) / "summary.json").read_text())
    watts = summary["watts"]
    if summary["state"] != "measured" or watts["baseline"] is None:
        raise LabError(
            "The fleet's power could not be compared: the report's state is "
            f"{summary['state']!r}; see {summary['report']} and `python -m lab status`."
        )
    return Comparison(
        default_watts=watts["baseline"],
        wattwise_watts=watts["measured_after"],
        predicted_watts=watts["predicted_after"],
        changed_again=changed,
        lines=tuple(summary["lines"]),
    )


def run_playbook(name: str, state: LabState, *arguments: str) -> int:
    """Run a playbook of the collection on the lab; return the number of changed tasks.

    Its output goes to the lab's logs. Raises LabError with the end of the output if the run fails.
    """
    mirror = synchronize()
    log = state.logs / f"ansible-{name}.log"
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
        "ANSIBLE_COLLECTIONS_PATH": str(mirror.parents[2]),
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_FORCE_COLOR": "false",
    }
    command = [sys.executable, "-m", "ansible", "playbook", f"wattwise.kube.{name}"]
    done = subprocess.run(
        [*command, "-i", str(state.inventory), *arguments],
        cwd=state.root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    log.write_text(done.stdout)
    if done.returncode != 0:
        end = "\n".join(done.stdout.splitlines()[-25:])
        raise LabError(f"ansible-playbook wattwise.kube.{name} failed; its log is {log}:\n{end}")
    return sum(int(count) for count in _CHANGED.findall(done.stdout))


def documents(state: LabState) -> Path:
    """The run folder of the lab's cluster."""
    return state.root / "runs" / CLUSTER
