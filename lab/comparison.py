# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same pods under the default scheduler and under wattwise, judged by what the BMCs measure."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.api import Api
from lab.errors import LabError
from lab.inventory import CLUSTER
from lab.state import LabSettings, LabState
from lab.workload import (
    create_pods,
    delete_pods,
    demo_pods,
    make_namespace,
    wait_until_bound,
)
from scripts.collection_tree import synchronize

Say = Callable[[str], None]

SCHEDULER = "wattwise"
_CHANGED = re.compile(r"^\S+\s+: ok=\d+\s+changed=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Comparison:
    """Watts of the whole fleet, measured by its BMCs, and how good the prediction was.

    ``predicted_watts`` is for the state that wattwise made; ``node_error_percent`` is the mean
    absolute error of its nodes; ``changed_again`` counts what a second run of site changed.
    """

    pods: int
    nodes: int
    idle_watts: float
    default_watts: float
    wattwise_watts: float
    predicted_watts: float
    node_error_percent: float
    hottest_node: str
    hottest_celsius: float
    changed_again: int

    @property
    def saved_watts(self) -> float:
        return self.default_watts - self.wattwise_watts

    @property
    def saved_percent_of_added(self) -> float:
        """What is saved of the watts that the pods add to the idle fleet."""
        return 100 * self.saved_watts / (self.default_watts - self.idle_watts)

    @property
    def fleet_error_percent(self) -> float:
        """Error of the predicted watts of the whole fleet."""
        return 100 * (self.predicted_watts / self.wattwise_watts - 1)


def compare(state: LabState, pods: int, seed: int, say: Say) -> Comparison:
    """Run the main job on a lab that is up and has no workload. Raises LabError."""
    settings = state.read_settings()
    workload = demo_pods(pods, seed)
    with Api(state.kubeconfig) as api:
        make_namespace(api)
        delete_pods(api, settings)
        say("ansible-playbook wattwise.kube.site: install, read the idle fleet")
        run_playbook("site", state)
        idle = _measured(state)
        say(f"the default scheduler places {pods} pods")
        create_pods(api, workload, "default-scheduler")
        wait_until_bound(api, pods, settings)
        say("ansible-playbook wattwise.kube.observe: read the fleet under the default scheduler")
        run_playbook("observe", state)
        default = _measured(state)
        delete_pods(api, settings)
        create_pods(api, workload, SCHEDULER)
        say(f"ansible-playbook wattwise.kube.place: place the same {pods} pods")
        run_playbook("place", state)
        wait_until_bound(api, pods, settings)
    say("ansible-playbook wattwise.kube.site: read the fleet again, change nothing")
    changed = run_playbook("site", state)
    return _comparison(settings, pods, idle, default, state, changed)


def _comparison(
    settings: LabSettings,
    pods: int,
    idle: Mapping[str, float],
    default: Mapping[str, float],
    state: LabState,
    changed: int,
) -> Comparison:
    measured = _measured(state)
    # The last run of site had nothing to place and wrote a plan of its own over the one before.
    plan = json.loads((_documents(state) / "plan.1.json").read_text())
    predicted = {node["name"]: node["watts_after"] for node in plan["nodes"]}
    errors = [abs(predicted[node] / watts - 1) for node, watts in measured.items()]
    inlets = {
        node: reading["inlet_celsius"]
        for node, reading in _readings(state).items()
        if reading["inlet_celsius"] is not None
    }
    hottest = max(inlets, key=lambda node: inlets[node])
    return Comparison(
        pods=pods,
        nodes=settings.nodes,
        idle_watts=sum(idle.values()),
        default_watts=sum(default.values()),
        wattwise_watts=sum(measured.values()),
        predicted_watts=sum(predicted.values()),
        node_error_percent=100 * sum(errors) / len(errors),
        hottest_node=hottest,
        hottest_celsius=inlets[hottest],
        changed_again=changed,
    )


def run_playbook(name: str, state: LabState, *arguments: str) -> int:
    """Run a playbook of the collection on the lab; return how many tasks changed something.

    Its output goes to the lab's logs. Raises LabError with the end of it where the run fails.
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


def _documents(state: LabState) -> Path:
    return state.root / "runs" / CLUSTER


def _readings(state: LabState) -> dict[str, dict[str, float]]:
    document = json.loads((_documents(state) / "readings.json").read_text())
    readings: dict[str, dict[str, float]] = document["readings"]
    return readings


def _measured(state: LabState) -> dict[str, float]:
    """Node → watts as just read. Raises LabError where a machine's power is not known."""
    measured: dict[str, float] = {}
    for node, reading in _readings(state).items():
        if reading["power_watts"] is None:
            raise LabError(f"The power of {node} could not be read; see `python -m lab status`.")
        measured[node] = reading["power_watts"]
    return measured
