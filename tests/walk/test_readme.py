# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The README, typed by a new user: an empty home folder, a clone, Python, make and git.

The lab that `make demo` leaves behind is the user's cluster. The gate `cold_walk` compiles
everything; the gate `walk` gives the user this machine's caches. A table of minutes and megabytes
goes to the file of WATTWISE_WALK_TABLE.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from lab.machines import Machine, build_machines
from lab.state import LabState
from support.pages import Block, blocks

REPOSITORY = Path(os.environ["WATTWISE_REPOSITORY"])
TABLE = Path(os.environ.get("WATTWISE_WALK_TABLE", os.devnull))
# Caches of this machine, in a walk that starts with full ones.
CACHES = os.environ.get("WATTWISE_WALK_CACHES", "")
README = [block for block in blocks() if block.page == "README.md"]
# Variables that would give the user more than an empty home folder.
PRIVATE = ("ANSIBLE_", "WATTWISE_", "XDG_", "LAB_", "K8S_AUTH_")
FIRST_RESULT_COMMANDS = 3
MEGABYTE = 10**6
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "first", "namespace": "default"},
    "spec": {
        "schedulerName": "wattwise",
        "containers": [
            {
                "name": "main",
                "image": "registry.example/any:1",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            }
        ],
    },
}


@dataclass(frozen=True)
class Step:
    """What the user did, by how many commands, and what it took."""

    title: str
    commands: int
    seconds: float
    megabytes: int


@dataclass
class User:
    """A new user's shell, which keeps its variables from command to command.

    The shell writes the status of each command into a pipe.
    """

    home: Path
    shell: subprocess.Popen[str]
    output: Path
    status_reader: t.IO[str]
    status_writer: int
    steps: list[Step] = field(default_factory=list)

    @property
    def clone(self) -> Path:
        return self.home / "wattwise.kube"

    def types(self, command: str, answer: str = "") -> None:
        """Type a command and, to a program that asks, an answer."""
        assert self.shell.stdin is not None
        self.shell.stdin.write(f"{{ {command}\n}} <<< '{answer}'\necho $? >&{self.status_writer}\n")
        self.shell.stdin.flush()
        status = self.status_reader.readline().strip()
        assert status == "0", f"{command}\n{self.output.read_text()[-4000:]}"

    def takes(self, title: str, *commands: str) -> None:
        """Type commands that belong to one step, and note what they take."""
        start, before = time.monotonic(), self.megabytes()
        for command in commands:
            self.types(command)
        seconds = time.monotonic() - start
        self.steps.append(Step(title, len(commands), seconds, self.megabytes() - before))

    def megabytes(self) -> int:
        """Size of the home folder, which holds the clone and, in a cold walk, the caches."""
        command = ("du", "--summarize", "--block-size=1", str(self.home))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return int(done.stdout.split()[0]) // MEGABYTE


def variables(home: Path) -> dict[str, str]:
    """The variables of a login, with this machine's settings of package registries."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PRIVATE) and name not in ("PYTHONPATH", "VIRTUAL_ENV", "CI")
    }
    if go := shutil.which("go"):
        command = (go, "env", "GOPROXY")
        proxy = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        kept["GOPROXY"] = proxy
    python = Path(sys.base_prefix) / "bin"
    given = {"HOME": str(home), "PATH": os.pathsep.join((str(python), "/usr/bin", "/bin"))}
    return {**kept, **given, **({"XDG_CACHE_HOME": CACHES} if CACHES else {})}


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    home = tmp_path_factory.mktemp("home")
    # The user clones from a server; here the repository may belong to somebody else.
    (home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    output = tmp_path_factory.mktemp("output") / "terminal.log"
    read_end, write_end = os.pipe()
    with output.open("wb") as terminal:
        shell = subprocess.Popen(
            ("bash", "--noprofile", "--norc"),
            cwd=home,
            env=variables(home),
            stdin=subprocess.PIPE,
            stdout=terminal,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=(write_end,),
        )
    # The end of the shell then ends the reader too.
    os.close(write_end)
    user = User(home, shell, output, os.fdopen(read_end), write_end)
    try:
        yield user
    finally:
        if (user.clone / "lab" / ".state").exists():
            user.types("cd ~/wattwise.kube && .venvs/development/bin/python -m lab down")
        assert shell.stdin is not None
        shell.stdin.close()
        shell.wait()
        user.status_reader.close()


def console(word: str) -> Block:
    """The README's block of commands that has the word."""
    [found] = [block for block in README if block.language == "console" and word in block.text]
    return found


def inventory_of_first_look(state: LabState, machine: Machine) -> str:
    """The README's inventory with the values of the lab, for the rack of one account."""
    [block] = [block for block in README if block.language == "yaml"]
    inventory = yaml.safe_load(block.text)
    [host] = inventory["clusters"]["hosts"].values()
    port = state.read_settings().ports["bmc"]
    host["wattwise_kubeconfig"] = str(state.kubeconfig)
    host["observe_try_endpoint"] = f"https://127.<IPv4.Octet2>.<IPv4.Octet3>.<IPv4.Octet4>:{port}"
    host["observe_try_labels"] = {"topology.kubernetes.io/zone": machine.rack}
    # Nobody sits at a terminal to compare the fingerprints.
    host["observe_try_confirmed"] = True
    return str(yaml.safe_dump(inventory))


def table(steps: list[Step]) -> str:
    """The steps as a table, with their sums."""
    start = "this machine's caches" if CACHES else "empty caches"
    lines = [
        f"| step, with {start} | commands | minutes | megabytes |",
        "| --- | --- | --- | --- |",
    ]
    total = Step(
        "all",
        sum(step.commands for step in steps),
        sum(step.seconds for step in steps),
        sum(step.megabytes for step in steps),
    )
    for step in (*steps, total):
        minutes = f"{step.seconds / 60:.1f}"
        lines.append(f"| {step.title} | {step.commands} | {minutes} | {step.megabytes:,} |")
    return "\n".join(lines) + "\n"


def test_a_new_user_reaches_the_first_bound_pod_and_the_site(user: User) -> None:
    demo, _tests = console("make demo").commands
    user.takes("clone", f"git clone --quiet '{REPOSITORY}' wattwise.kube", "cd wattwise.kube")
    user.takes("demo", demo.partition("#")[0].strip())
    assert sum(step.commands for step in user.steps) <= FIRST_RESULT_COMMANDS
    report = user.clone / "lab" / ".state" / "runs" / "lab" / "report.html"
    assert "<svg" in report.read_text()
    user.takes("demo again", "make demo")

    user.takes("installation", *console("ansible-galaxy").commands)

    state = LabState(user.clone / "lab" / ".state")
    settings = state.read_settings()
    machine = build_machines(settings.nodes, settings.racks, settings.seed)[0]
    (user.clone / "inventory.yml").write_text(inventory_of_first_look(state, machine))
    username, password, look = console("WATTWISE_REDFISH_USERNAME").commands
    user.types(username.replace("viewer", machine.bmc_username))
    user.types(password, answer=machine.bmc_password)
    user.takes("first look", look)
    [page] = user.home.glob(".local/state/wattwise/*-try/report.html")
    assert "Nodes that may sleep" in page.read_text()

    # The lab's inventory is what the page "on your own cluster" leads to.
    shutil.copy(state.inventory, user.clone / "inventory.yml")
    (user.home / "pod.json").write_text(json.dumps(POD))
    kubectl = f"{state.run / 'bin' / 'kubectl'} --kubeconfig={state.kubeconfig}"
    user.types(f"{kubectl} create -f ~/pod.json")
    dry_run, real_run = (
        command.partition("#")[0].strip() for command in console("--check --diff").commands
    )
    user.takes("dry run of site", dry_run)
    user.types(f"{kubectl} get pod first -o json > ~/first.json")
    assert "nodeName" not in json.loads((user.home / "first.json").read_text())["spec"]
    user.takes("first bound pod", real_run)
    user.types(f"{kubectl} get pod first -o json > ~/first.json")
    assert json.loads((user.home / "first.json").read_text())["spec"]["nodeName"]

    user.takes("documentation site", "make site")
    assert (user.clone / "build" / "site" / "index.html").exists()
    TABLE.write_text(table(user.steps))
