# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m lab demo`: start a lab, run the main job on it, and let the idle machines sleep."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

from lab import lifecycle
from lab.api import Api
from lab.cluster import list_nodes
from lab.comparison import REFRESH, compare, documents, run_playbook
from lab.errors import LabError
from lab.inventory import CLUSTER
from lab.state import LabSettings, LabState

Say = Callable[[str], None]

# About half of the cores are requested, as in clusters at work. With far fewer, a greedy placer
# that takes one pod after the other still finds room on the best machines, and no strategy stands
# out.
PODS_PER_NODE = 10
SLEEP_ANNOTATION = "wattwise.github.io/sleep"
# The rules spare machines and their disks over weeks. The demo switches all idle machines at once.
_AT_ONCE = {
    "sleep_mode": "on",
    "sleep_select": "kubernetes.io/os=linux",
    "sleep_max_share": 1.0,
    "sleep_min_awake_seconds": 0,
    "sleep_wear_joules": 0,
    "sleep_wait_timeout": 20,
}


def demo(state: LabState, asked: LabSettings, say: Say) -> list[str]:
    """The whole demo; return the report's summary. The lab is left running. Raises LabError."""
    lifecycle.up(state, asked, say)
    _wake(state, say)
    compare(state, asked.nodes * PODS_PER_NODE, asked.seed, say)
    return let_sleep(state, say)


def let_sleep(state: LabState, say: Say) -> list[str]:
    """Let idle machines sleep and read the fleet; return the report's summary. Raises LabError.

    The runs have a folder of their own, so that the report still compares the placements.
    """
    folder = state.root / "runs-asleep"
    own = ("-e", f"wattwise_run_dir={folder}")
    say("ansible-playbook wattwise.kube.sleep: switch the idle machines off")
    run_playbook("sleep", state, *own, "-e", json.dumps(_AT_ONCE))
    slept = json.loads((folder / CLUSTER / "sleep.json").read_text())
    if not slept["asleep"]:
        raise LabError(f"No machine sleeps; see {folder / CLUSTER / 'sleep.json'}.")
    say(
        f"ansible-playbook wattwise.kube.observe: read the fleet, {slept['asleep']} machines asleep"
    )
    run_playbook("observe", state, *own, *REFRESH)
    shutil.copyfile(folder / CLUSTER / "readings.json", documents(state) / "asleep.json")
    run_playbook("report", state)
    return list(json.loads((documents(state) / "summary.json").read_text())["lines"])


def ending(lines: list[str]) -> str:
    """The report's summary, and next steps."""
    return "\n".join([*lines, "the lab goes on until: python -m lab down"])


def _wake(state: LabState, say: Say) -> None:
    """Bring back the machines that an earlier demo on this lab left asleep."""
    (documents(state) / "asleep.json").unlink(missing_ok=True)
    with Api(state.kubeconfig) as api:
        nodes = list_nodes(api)
    if any(SLEEP_ANNOTATION in node["metadata"].get("annotations", {}) for node in nodes):
        say("ansible-playbook wattwise.kube.wake: wake the machines that sleep")
        run_playbook("wake", state)
