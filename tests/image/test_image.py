# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built image: its files, and its programs on a lab, as any uid and without permissions.

Gate `image` builds both targets first and names them in WATTWISE_IMAGE and WATTWISE_EE_IMAGE.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import os
import subprocess
import typing as t
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node_objects import (
    PROBE_ANNOTATION,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab import pki
from lab.api import standalone_kubeconfig
from lab.locks import file_lock
from lab.operator import container, installation
from lab.process import free_port, wait_until
from scripts import containers
from support.dockerfile import ROOT
from support.lab import RunningLab, kubeconfig, lab, lab_state, namespace
from support.wao import DEFINITIONS

__all__ = ["kubeconfig", "lab", "lab_state", "namespace"]

Json = dict[str, t.Any]

IMAGE, EE_IMAGE = os.environ["WATTWISE_IMAGE"], os.environ["WATTWISE_EE_IMAGE"]
MAX_BYTES = 350 * 10**6
# The uid of the image, and one as OpenShift assigns: without a line in /etc/passwd, in group 0.
USERS = ("10001:10001", "1000660000:0")
RESTRICTED = (*containers.RUN, "--read-only", "--cap-drop=all", "--passwd=false")
KUBECONFIG = "/etc/lab/kubeconfig"
MODULES = "/opt/wattwise/collections/ansible_collections/wattwise/kube/plugins/modules"


def run(*command: str, image: str = IMAGE, user: str = USERS[1]) -> str:
    """Output of a command in a container, which must succeed."""
    done = subprocess.run(
        [*RESTRICTED, f"--user={user}", image, *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# Files


@pytest.mark.parametrize("name", [IMAGE, EE_IMAGE])
def test_an_image_has_its_labels_and_licences(name: str) -> None:
    command = ("podman", "image", "inspect", "--format", "{{json .Labels}}", name)
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    assert json.loads(told.stdout)["org.opencontainers.image.version"] == version
    collection = MODULES.removesuffix("/plugins/modules")
    for path in (f"{collection}/LICENSES", "/usr/share/common-licenses", "/usr/share/doc"):
        assert run("ls", path, image=name)
    assert "openssl" in run("cat", "/usr/share/doc/libssl3t64/copyright", image=name).lower()


def test_the_image_is_small() -> None:
    told = subprocess.run(
        ["podman", "image", "inspect", "--format", "{{.Size}}", IMAGE],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert int(told) <= MAX_BYTES


def test_the_image_starts_as_a_user_with_a_name_who_is_not_root() -> None:
    told = subprocess.run(
        ["podman", "image", "inspect", IMAGE], capture_output=True, text=True, check=True
    ).stdout
    [image] = json.loads(told)
    assert image["Config"]["User"] == USERS[0]
    assert any(line.startswith("USER=") for line in image["Config"]["Env"])
    lines = run("cat", "/etc/passwd").splitlines()
    assert any(line.split(":")[2:4] == USERS[0].split(":") for line in lines)


@pytest.fixture(scope="module")
def trees() -> Iterator[dict[str, Path]]:
    """The root file systems of the images."""
    found = {}
    for image in (IMAGE, EE_IMAGE):
        mount = ["podman", "image", "mount", image]
        told = subprocess.run(mount, capture_output=True, text=True, check=True).stdout
        found[image] = Path(told.strip())
    yield found
    subprocess.run(["podman", "image", "unmount", *found], capture_output=True, check=True)


@pytest.mark.parametrize("image", [IMAGE, EE_IMAGE])
def test_no_file_gives_permissions_and_no_shipped_file_can_be_changed(
    trees: dict[str, Path], image: str
) -> None:
    root = trees[image]
    for path in filter(Path.is_file, root.rglob("*")):
        assert not path.lstat().st_mode & 0o6000, path
    for path in (root / "opt").rglob("*"):
        if not path.is_symlink():
            mode = path.stat().st_mode
            assert not mode & 0o022 and mode & 0o004, path
            assert path.stat().st_uid == 0, path


def test_nothing_is_shipped_that_only_builds_and_tests_need() -> None:
    packages = run("sh", "-c", "cd /opt/wattwise/venv/lib/python3*/site-packages; ls").split()
    unwanted = {"pip", "setuptools", "pandas", "ansible_test", "bazel-project", "pytest"}
    assert unwanted.isdisjoint(packages)
    for program in ("pip", "pip3", "apt-get", "dpkg", "gcc", "perl"):
        assert run("sh", "-c", f"command -v {program} || true") == "", program


def test_every_module_is_compiled_because_a_read_only_file_system_keeps_no_bytecode() -> None:
    compiled = {name.partition(".")[0] for name in run("ls", f"{MODULES}/__pycache__").split()}
    assert compiled == {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")}


def test_a_scanner_finds_the_packages_of_the_root_file_system() -> None:
    names = {name.partition("_")[0] for name in run("ls", "/var/lib/dpkg/status.d").split()}
    assert {"libc6", "libssl3t64", "python3.13", "busybox", "tini"} <= names


# Libraries and Ansible


@pytest.mark.parametrize("user", USERS)
def test_the_libraries_load_and_the_solvers_solve(user: str) -> None:
    program = """
import aiohttp, cryptography.x509, fastjsonschema, grpc, numpy, ssl, urllib3
from ansible_collections.wattwise.kube.plugins.module_utils.base import libraries
model = libraries.cp_model.CpModel()
number = model.new_int_var(0, 7, "number")
model.maximize(number)
solver = libraries.cp_model.CpSolver()
solver.solve(model)
highs = libraries.mathopt.Model()
amount = highs.add_variable(ub=3.0)
highs.maximize(amount)
found = libraries.mathopt.solve(highs, libraries.mathopt.SolverType.HIGHS)
for name in ("cel", "ext_bindings", "ext_math", "ext_optional", "ext_strings"):
    getattr(libraries, name).__name__
print(solver.value(number), round(found.objective_value()))
print(ssl.create_default_context().cert_store_stats()["x509_ca"] > 50)
"""
    assert run("python3", "-c", program, user=user).split() == ["7", "3", "True"]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("image", [IMAGE, EE_IMAGE])
def test_any_uid_runs_a_playbook(image: str, user: str) -> None:
    play = [
        {
            "hosts": "localhost",
            "gather_facts": False,
            "tasks": [{"wattwise.kube.kepler_node_info": {"root": "/"}}],
        }
    ]
    script = f"cd /tmp && printf '%s' '{json.dumps(play)}' > play.yml && ansible-playbook play.yml"
    assert "ok=1" in run("sh", "-c", script, image=image, user=user)


def test_the_execution_environment_works_as_awx_starts_it() -> None:
    """AWX starts `ansible-runner worker`, mounts a volume at /runner, and sets its own paths."""
    assert "usage: ansible-runner" in run("ansible-runner", "--help", image=EE_IMAGE)
    listed = run(
        *("env", "-u", "ANSIBLE_COLLECTIONS_PATH", "ansible-doc", "-l", "wattwise.kube"),
        image=EE_IMAGE,
    )
    assert "wattwise.kube.fleet_reconciliation" in listed
    for program in ("git", "ssh"):
        assert run("sh", "-c", f"command -v {program}", image=EE_IMAGE).strip()


# Programs


class Program:
    """A program of the image in a container on the host's network, with a kubeconfig of the lab."""

    def __init__(self, folder: Path, user: str, *command: str, **variables: str) -> None:
        self._name = f"wattwise-test-{uuid.uuid4().hex[:8]}"
        self._log = folder / f"{self._name}.log"
        given = {"WATTWISE_KUBECONFIG": KUBECONFIG, "K8S_AUTH_KUBECONFIG": KUBECONFIG, **variables}
        options = [f"--env={name}={value}" for name, value in given.items()]
        mount = f"--volume={folder / 'mounted'}:/etc/lab:ro"
        place = [f"--name={self._name}", f"--user={user}", mount, "--volume=/:/host:ro"]
        with self._log.open("w") as output:
            self.process = subprocess.Popen(
                [*RESTRICTED, *place, *options, IMAGE, *command],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def wait(self, condition: t.Callable[[], object], seconds: float, what: str) -> None:
        def is_over() -> bool:
            assert self.process.poll() is None, f"the program ended: {self.said}"
            return bool(condition())

        try:
            wait_until(is_over, seconds, what)
        except Exception as error:
            raise AssertionError(f"{error}\n{self.said[-5000:]}") from error

    def end(self) -> None:
        """End it as a kubelet does; it must end in time and without a traceback."""
        subprocess.run(["podman", "stop", "--time=60", self._name], capture_output=True, check=True)
        self.process.wait(10)
        assert self.process.returncode in (0, 143), self.said
        assert "Traceback" not in self.said

    def kill(self) -> None:
        subprocess.run(["podman", "rm", "--force", self._name], capture_output=True, check=False)
        self.process.wait(10)


@pytest.fixture
def start(tmp_path: Path, lab: RunningLab) -> Iterator[t.Callable[..., Program]]:
    """Starts programs; their folder `mounted` is readable by every uid."""
    mounted = tmp_path / "mounted"
    mounted.mkdir(mode=0o755)
    write(mounted / "kubeconfig", standalone_kubeconfig(lab.state.kubeconfig))
    started: list[Program] = []

    def start_one(user: str, *command: str, **variables: str) -> Program:
        started.append(Program(tmp_path, user, *command, **variables))
        return started[-1]

    yield start_one
    for program in started:
        program.kill()


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)


def answers(port: int, path: str) -> bool:
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", path)
            return connection.getresponse().status == http.client.OK
    return False


@pytest.fixture
def kube(lab: RunningLab) -> Kube:
    return Kube.connect({"kubeconfig": lab.kubeconfig})


@pytest.fixture
def node(kube: Kube, namespace: str) -> Iterator[str]:
    """The name of a Node of this test."""
    labels = {"kubernetes.io/hostname": namespace}
    kube.request("POST", "/api/v1/nodes", {"metadata": {"name": namespace, "labels": labels}})
    yield namespace
    kube.request("DELETE", f"/api/v1/nodes/{namespace}")


@pytest.mark.parametrize("user", USERS)
def test_the_extender_lists_the_cluster_and_gets_ready(
    start: t.Callable[..., Program], tmp_path: Path, user: str
) -> None:
    authority = pki.create_authority(tmp_path, "CA")
    files = pki.issue(authority, "server", ["127.0.0.1"], [], tmp_path)
    for name, source in (("tls.crt", files.certificate), ("tls.key", files.key)):
        write(tmp_path / "mounted" / name, source.read_text())
    port, metrics, health = free_port(), free_port(), free_port()
    program = start(
        user,
        *("scheduler-extender", "--address=127.0.0.1", f"--port={port}"),
        *(f"--metrics-port={metrics}", f"--health-port={health}"),
        *("--certificate=/etc/lab/tls.crt", "--key=/etc/lab/tls.key"),
    )
    program.wait(lambda: answers(health, "/readyz"), 60.0, "the extender's lists")
    program.end()


@pytest.mark.parametrize("user", USERS)
def test_the_metrics_endpoint_answers(start: t.Callable[..., Program], user: str) -> None:
    port, health = free_port(), free_port()
    options = ("--address=127.0.0.1", f"--port={port}", f"--health-port={health}")
    program = start(user, "metrics", *options)
    program.wait(lambda: answers(port, "/metrics"), 30.0, "an answer of the metrics endpoint")
    program.end()


@pytest.mark.parametrize("user", USERS)
def test_the_probe_annotates_its_node(
    start: t.Callable[..., Program], kube: Kube, node: str, user: str
) -> None:
    program = start(user, "kepler-probe", "3600", NODE_NAME=node)

    def is_annotated() -> bool:
        found = kube.get(f"/api/v1/nodes/{node}")["metadata"].get("annotations") or {}
        return PROBE_ANNOTATION in found

    program.wait(is_annotated, 60.0, "the annotation of the probe")
    program.end()


@pytest.mark.parametrize("user", USERS)
def test_the_node_agent_lists_the_pods_of_its_node(
    start: t.Callable[..., Program], kubeconfig: str, node: str, user: str
) -> None:
    definitions = [str(path) for path in DEFINITIONS.glob("intel.com_*.yaml")]
    apply({"kubeconfig": kubeconfig, "src": definitions, "wait": True})
    program = start(user, "rmd-node-agent", "3600", NODE_NAME=node)
    program.wait(lambda: "PLAY RECAP" in program.said, 60.0, "a round of the agent")
    assert "failed=0" in program.said, program.said
    program.end()


@pytest.mark.parametrize("user", USERS)
def test_the_host_agent_says_which_provisioning_is_missing(
    start: t.Callable[..., Program], user: str
) -> None:
    place = {"PROVISIONING_NAMESPACE": "default", "PROVISIONING_NAME": "edge"}
    program = start(user, "host-agent", "--period", "60", **place)
    program.wait(lambda: "default/edge" in program.said, 60.0, "the host agent's message")
    program.end()


@pytest.mark.parametrize("user", USERS)
def test_operator_and_watcher_bind_a_waiting_pod(
    start: t.Callable[..., Program],
    lab: RunningLab,
    kube: Kube,
    node: str,
    tmp_path: Path,
    user: str,
) -> None:
    """The programs of the operator's pod, with the permissions of its account."""
    installed = installation.install(lab.state, "default", print)
    account = installed.settings.kubeconfig
    write(tmp_path / "mounted" / "kubeconfig", standalone_kubeconfig(account))
    write(
        tmp_path / "mounted" / "watches.yaml",
        installed.settings.watches.read_text().replace(
            "playbook: playbooks/", "playbook: /opt/wattwise/playbooks/"
        ),
    )
    namespace = node
    kube.request(
        "PATCH",
        f"/api/v1/nodes/{node}/status",
        {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}},
        "application/merge-patch+json",
    )
    with file_lock(container.ports_lock(), print, "the operator of another lab"):
        ports = free_port(), free_port()
        running = start(
            user,
            *("operator", f"--metrics-bind-address=127.0.0.1:{ports[0]}"),
            f"--health-probe-bind-address=127.0.0.1:{ports[1]}",
            WATTWISE_WATCHES="/etc/lab/watches.yaml",
            KUBECONFIG=KUBECONFIG,
        )
        running.wait(lambda: answers(ports[1], "/readyz"), 120.0, "the operator to be ready")
        watcher = start(
            user,
            *("watcher", "--address=127.0.0.1", f"--port={free_port()}"),
            f"--health-port={free_port()}",
        )
        fleets = f"/apis/wattwise.github.io/v1alpha1/namespaces/{namespace}/powerfleets"
        kube.request(
            "POST",
            fleets,
            {
                "apiVersion": "wattwise.github.io/v1alpha1",
                "kind": "PowerFleet",
                "metadata": {"name": "hall"},
                "spec": {
                    "interval": "10m",
                    "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": node}},
                    "placement": {"schedulerName": namespace},
                },
            },
        )
        observed = functools.partial(kube.get, f"{fleets}/hall")
        running.wait(
            lambda: (observed().get("status") or {}).get("observedGeneration") == 1,
            120.0,
            "the first run of the PowerFleet",
        )
        pods = f"/api/v1/namespaces/{namespace}/pods"
        resources = {"requests": {"cpu": "1"}}
        one = {"name": "main", "image": "none", "resources": resources}
        spec = {"schedulerName": namespace, "containers": [one]}
        kube.request("POST", pods, {"metadata": {"name": "waiting"}, "spec": spec})
        # Only the watcher asks for a run within the interval.
        watcher.wait(
            lambda: kube.get(f"{pods}/waiting")["spec"].get("nodeName") == node,
            120.0,
            "the binding of the waiting pod",
        )
        for program in (watcher, running):
            program.end()
