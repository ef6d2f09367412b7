# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real ansible-operator, without a container, on the control plane of a lab.

`up` does not start it, because it has ports of `localhost` that no option changes: its proxy
listens on 8888, which is written into the kubeconfig of every run, and it receives metrics on 5050.
So `container.py` waits until no other lab has an operator. A second one in the same lab has a
`localhost` of its own.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import signal
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab import process
from lab.errors import LabError
from lab.gotools import GoTools, Say, build, cache_folder
from lab.process import REPOSITORY, Service, free_port, wait_until
from lab.state import LabState

VERSION = "v1.42.2"
MODULE = "github.com/operator-framework/ansible-operator-plugins"
ANSIBLE_OPERATOR = GoTools(
    name="ansible-operator",
    module=Path(__file__).resolve().parent,
    programs={"ansible-operator": f"{MODULE}/cmd/ansible-operator"},
    duration="2 minutes",
    # Without it the operator reports an unknown version.
    linker_flags=f"-s -w -X {MODULE}/internal/version.Version={VERSION}",
)
NAME = "ansible-operator"
# The other containers of its pod, and their entry points.
BESIDE = WATCHER, METRICS = "watcher", "metrics"
# Another lab's tests may have the ports first.
READY_SECONDS = 900.0
EXIT_SECONDS = 60.0


@dataclass(frozen=True)
class OperatorSettings:
    """Settings for the start of an operator.

    `watches` is its watches.yaml; paths of playbooks are relative to its folder. `options` are
    those of `ansible-operator run`. `environment` is added to this module's, also for the watcher
    and the metrics endpoint. `replica` counts the pods of the Deployment: each has names, files and
    an address of its own in the lab.
    """

    watches: Path
    kubeconfig: Path
    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    replica: int = 1


# Running runs, and queued runs.
_BUSY = (
    re.compile(r'^controller_runtime_active_workers\{controller="powerfleet[^}]*\} (\d+)', re.M),
    re.compile(r"^workqueue_depth\{.*powerfleet.*\} (\d+)", re.M),
)


@dataclass(frozen=True)
class RunningOperator:
    """A started operator; it ends with its lab at the latest."""

    state: LabState
    metrics_port: int
    probe_port: int
    replica: int = 1

    @property
    def name(self) -> str:
        return _named(NAME, self.replica)

    @property
    def log(self) -> str:
        """Its whole log, including earlier starts in the same lab."""
        return (self.state.logs / f"{self.name}.log").read_text(errors="replace")

    @property
    def pid(self) -> int | None:
        """Process id of ansible-operator itself; None after its end."""
        supervisor = process.process_id(self.state, self.name)
        with contextlib.suppress(FileNotFoundError, ValueError):
            if supervisor is not None:
                return int(pid_file(self.state, self.replica).read_text())
        return None

    def metrics(self) -> str:
        """The operator's own metrics, in Prometheus' text format."""
        return get(self.metrics_port, "/metrics")

    @property
    def is_idle(self) -> bool:
        """Whether no run of a PowerFleet is running or queued."""
        text = self.metrics()
        found = [one.search(text) for one in _BUSY]
        return all(one is not None and one[1] == "0" for one in found)

    def signal(self, number: signal.Signals) -> None:
        """Send the operator a signal and wait until it and all of its runs are gone."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, number)
        wait_until(
            lambda: process.process_id(self.state, self.name) is None,
            EXIT_SECONDS,
            f"the operator to end after {number.name}",
        )

    def stop(self) -> None:
        """End it and the processes beside it as at the end of their pod; no effect if it does not
        run.
        """
        process.stop(self.state, [_named(one, self.replica) for one in (NAME, *BESIDE)])


def _named(part: str, replica: int) -> str:
    return part if replica == 1 else f"{part}-{replica}"


def folder(state: LabState, replica: int = 1) -> Path:
    """Folder of all files that the operator and its runs write."""
    return state.run / _named(NAME, replica)


def runs(state: LabState, replica: int = 1) -> Path:
    """The run folders of the resources, each below namespace/name."""
    return folder(state, replica) / "runs"


def artifacts(state: LabState) -> Path:
    """ansible-operator's input to ansible-runner and its results, below group/version/kind/…."""
    return folder(state) / "runner"


def pid_file(state: LabState, replica: int = 1) -> Path:
    return folder(state, replica) / "pid"


def start(state: LabState, settings: OperatorSettings, say: Say) -> RunningOperator:
    """Start the operator and return when it is ready; build it first if necessary.

    Files of an earlier operator in the lab are kept, as after the restart of a container. Raises
    LabError.
    """
    running = RunningOperator(state, free_port(), free_port(), settings.replica)
    if process.process_id(state, running.name) is not None:
        raise LabError("This lab has an operator already; stop it first.")
    program = build(ANSIBLE_OPERATOR, say) / "ansible-operator"
    own = folder(state, settings.replica)
    for name in ("home", "tmp", "runs"):
        (own / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    pid_file(state, settings.replica).unlink(missing_ok=True)
    say("starting ansible-operator, as soon as no other lab of this computer has one")
    process.start([_service(running, settings, program)], state)
    return running


def start_beside(state: LabState, settings: OperatorSettings, entrypoints: Path) -> int:
    """Start the watcher and the metrics endpoint from a folder of entry points; return its port."""
    port, *others = (free_port() for _port in range(4))
    # As in the image, where Python finds the collection without Ansible.
    variables = _environment(state, settings)
    variables["PYTHONPATH"] = variables["ANSIBLE_COLLECTIONS_PATH"].split(os.pathsep)[0]

    def service(name: str, port: int, health_port: int, probe: str) -> Service:
        ports = ("--address=127.0.0.1", f"--port={port}", f"--health-port={health_port}")
        program = (str(entrypoints / name), *ports)
        named = _named(name, settings.replica)
        return Service(named, program, lambda: _answers(health_port, probe), variables)

    services = [
        service(WATCHER, others[0], others[1], "/readyz"),
        service(METRICS, port, others[2], "/healthz"),
    ]
    process.start(services, state)
    return port


def _service(running: RunningOperator, settings: OperatorSettings, program: Path) -> Service:
    own, address = str(folder(running.state, settings.replica)), f"127.0.0.{settings.replica}"
    container = (sys.executable, "-m", "lab.operator.container", own, address)
    command = (
        *(str(program), "run", f"--watches-file={settings.watches}"),
        f"--metrics-bind-address=127.0.0.1:{running.metrics_port}",
        f"--health-probe-bind-address=127.0.0.1:{running.probe_port}",
        *settings.options,
    )
    return Service(
        name=running.name,
        command=(*container, str(settings.watches.parent), *command),
        ready=lambda: _answers(running.probe_port, "/readyz"),
        environment=_environment(running.state, settings),
        ready_timeout=READY_SECONDS,
    )


def _environment(state: LabState, settings: OperatorSettings) -> dict[str, str]:
    """The environment of operator/Dockerfile and the Deployment, with the lab's folders."""
    if shutil.which("ansible-runner", path=str(Path(sys.executable).parent)) is None:
        raise LabError("There is no ansible-runner beside this Python; renew it by `make setup`.")
    programs = str(Path(sys.executable).parent)
    own = folder(state, settings.replica)
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "VIRTUAL_ENV": sys.prefix,
        "HOME": str(own / "home"),
        # The lock on the ports lies there, shared by all labs.
        "XDG_CACHE_HOME": str(cache_folder().parent),
        "TMPDIR": str(own / "tmp"),
        "KUBECONFIG": str(settings.kubeconfig),
        "WATTWISE_KUBECONFIG": str(settings.kubeconfig),
        "WATTWISE_RUNS": str(own / "runs"),
        "ANSIBLE_COLLECTIONS_PATH": _collections(),
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "PYTHONDONTWRITEBYTECODE": os.environ.get("PYTHONDONTWRITEBYTECODE", ""),
        **settings.environment,
    }


def _collections() -> str:
    """Paths of this collection, and of those that came with Ansible."""
    own = (
        [str(REPOSITORY.parents[2])] if REPOSITORY.parts[-3:-2] == ("ansible_collections",) else []
    )
    named = os.environ.get("ANSIBLE_COLLECTIONS_PATH", "").split(os.pathsep)
    return os.pathsep.join(
        dict.fromkeys(filter(None, [*own, *named, sysconfig.get_path("purelib")]))
    )


def get(port: int, path: str) -> str:
    """The answer of one of the processes on loopback. Raises LabError, OSError."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != http.HTTPStatus.OK:
            raise LabError(f"http://127.0.0.1:{port}{path} answered {answer.status}.")
        return text


def _answers(port: int, path: str) -> bool:
    try:
        get(port, path)
    except (OSError, LabError, http.client.HTTPException):
        return False
    return True
