# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's control plane, in labs of the tests' own that are restarted, reset and stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import controlplane, process
from lab.api import Api
from lab.cluster import is_schedulable, list_nodes
from lab.process import REPOSITORY, wait_until
from lab.releases import RELEASES, asked, release_of
from lab.state import LabState
from support.lab import create_namespace, exists

SIZE = ("--nodes", "5", "--racks", "2", "--only", "controlplane")
SERVICES = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"]
LOOPBACK = "0100007F"  # 127.0.0.1 as /proc/net/tcp has it
LISTENING = "0A"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabState]:
    state = LabState(tmp_path_factory.mktemp("own") / "lab")
    assert run(state, "up", *SIZE, LAB_KUBECONFIG="").returncode == 0
    yield state
    run(state, "down")
    assert not processes(state)


@pytest.fixture
def api(state: LabState) -> Iterator[Api]:
    with Api(state.kubeconfig) as api:
        yield api


def command(state: LabState, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "lab", *arguments, "--state", str(state.root)]


def run(state: LabState, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(state, *arguments),
        cwd=REPOSITORY,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def processes(state: LabState) -> list[str]:
    """Command lines that contain the lab's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(state.root) in line:
            found.append(line)
    return found


def node_names(api: Api) -> set[str]:
    return {node["metadata"]["name"] for node in list_nodes(api) if is_schedulable(node)}


def run_pod(api: Api, namespace: str, name: str = "one") -> dict[str, Any]:
    """Create a pod and wait until it runs."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "pause"}]},
    }
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.request("POST", pods, pod)

    def phase() -> str:
        return str(api.request("GET", f"{pods}/{name}")["status"].get("phase"))

    wait_until(lambda: phase() == "Running", 20.0, f"pod {name} to run")
    return api.request("GET", f"{pods}/{name}")


def listening_addresses(pid: int) -> set[str]:
    """Addresses, in hexadecimal, at which the process accepts TCP connections."""
    own = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in own:
                found.add(fields[1].partition(":")[0])
    return found


def test_every_service_is_ready_and_the_versions_are_the_pinned_ones(
    state: LabState, api: Api
) -> None:
    shown = run(state, "status", "--json")
    assert shown.returncode == 0
    services = json.loads(shown.stdout)
    assert [service["service"] for service in services] == SERVICES
    assert all(service["ready"] and service["pid"] and service["port"] for service in services)
    assert api.request("GET", "/version")["gitVersion"] == release_of(asked()).version


def test_nothing_listens_beyond_loopback(state: LabState) -> None:
    for service in SERVICES:
        pid = process.process_id(state, service)
        assert pid is not None
        assert listening_addresses(pid) == {LOOPBACK}, service


def test_nodes_are_ready_and_their_kubelets_renew_leases(api: Api) -> None:
    names = node_names(api)
    assert len(names) == 5
    assert {node["metadata"]["labels"]["wattwise.github.io/rack"] for node in list_nodes(api)} == {
        "r1",
        "r2",
    }
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

    def holders() -> set[str]:
        return {lease["metadata"]["name"] for lease in api.request("GET", leases)["items"]}

    wait_until(lambda: holders() == names, 20.0, "the nodes' leases")


def test_the_default_scheduler_binds_a_pod_and_kwok_runs_it(api: Api) -> None:
    create_namespace(api, "bound")
    pod = run_pod(api, "bound")
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert pod["spec"]["nodeName"] in node_names(api)
    conditions = {item["type"]: item["status"] for item in pod["status"]["conditions"]}
    assert conditions["PodScheduled"] == conditions["Ready"] == "True"


def test_a_second_up_changes_nothing(state: LabState) -> None:
    before = {service: process.process_id(state, service) for service in SERVICES}
    again = run(state, "up", *SIZE)
    assert again.returncode == 0
    assert "the lab is up already" in again.stdout
    assert {service: process.process_id(state, service) for service in SERVICES} == before


def test_a_dead_service_is_started_again_by_up(state: LabState) -> None:
    process.stop(state, ["kube-scheduler"])
    assert run(state, "status").returncode == 1
    assert run(state, "up", *SIZE).returncode == 0
    assert run(state, "status").returncode == 0


def test_a_lab_of_another_size_is_refused(state: LabState) -> None:
    refused = run(state, "up", "--nodes", "6", "--only", "controlplane")
    assert refused.returncode == 1
    version = f", Kubernetes {asked()}" if asked() else ""
    size = f"5 nodes in 2 racks (seed 1{version})"
    assert refused.stderr.startswith(f"lab: A lab of {size} runs in")


def test_a_running_lab_keeps_its_version_of_kubernetes(state: LabState) -> None:
    other = next(minor for minor in RELEASES if minor != release_of(asked()).minor)
    refused = run(state, "up", *SIZE, "--kubernetes", other)
    assert refused.returncode == 1
    assert refused.stderr.startswith("lab: A lab of 5 nodes in 2 racks (seed 1")
    assert run(state, "status").returncode == 0


def test_a_lab_that_cannot_be_built_is_refused_before_anything_starts(tmp_path: Path) -> None:
    own = LabState(tmp_path / "lab")
    refused = run(own, "up", "--nodes", "0")
    assert refused.returncode == 1
    assert "A lab of 0 nodes" in refused.stderr
    assert not own.root.exists()


def test_broken_settings_do_not_keep_a_lab_up(tmp_path: Path) -> None:
    own = LabState(tmp_path / "lab")
    own.create()
    own.settings_file.write_text("{")
    assert run(own, "status").returncode == 1
    assert run(own, "down").returncode == 0
    assert not own.root.exists()


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    refused = run(LabState(tmp_path), "up", *SIZE)
    assert refused.returncode == 1
    assert "holds something other than a lab (thesis.tex)" in refused.stderr
    assert run(LabState(tmp_path), "down").returncode == 0
    assert (tmp_path / "thesis.tex").exists()


def test_the_api_server_comes_back_with_all_objects(state: LabState, api: Api) -> None:
    create_namespace(api, "kept")
    run_pod(api, "kept", "before")
    old = process.process_id(state, "kube-apiserver")
    controlplane.restart_apiserver(state)
    assert process.process_id(state, "kube-apiserver") not in {old, None}
    with Api(state.kubeconfig) as fresh:
        assert exists(fresh, "/api/v1/namespaces/kept/pods/before")
        run_pod(fresh, "kept", "after")


def test_reset_leaves_nothing_of_the_users(state: LabState, api: Api) -> None:
    create_namespace(api, "gone")
    stuck = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "stuck", "finalizers": ["example.org/nobody-removes-this"]},
    }
    api.request("POST", "/api/v1/namespaces/gone/configmaps", stuck)
    hook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "broken"},
        "webhooks": [
            {
                "name": "broken.example.org",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [
                    {
                        "apiGroups": ["*"],
                        "apiVersions": ["*"],
                        "resources": ["*/*"],
                        "operations": ["*"],
                    }
                ],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    api.request("POST", hooks, hook)
    before = node_names(api)
    assert run(state, "reset").returncode == 0
    with Api(state.kubeconfig) as fresh:
        assert not exists(fresh, "/api/v1/namespaces/gone")
        assert not exists(fresh, f"{hooks}/broken")
        assert node_names(fresh) == before
        create_namespace(fresh, "usable")
        run_pod(fresh, "usable")


def test_a_lab_can_use_an_existing_cluster_and_leaves_it_as_it_was(
    state: LabState, api: Api, tmp_path: Path
) -> None:
    guest = LabState(tmp_path / "guest")
    before = node_names(api)
    size = ("--nodes", "7", "--racks", "3", "--only", "controlplane")
    assert run(guest, "up", *size, LAB_KUBECONFIG=str(state.kubeconfig)).returncode == 0
    assert node_names(api) > before
    assert not processes(guest)
    assert json.loads(run(guest, "status", "--json").stdout)[0]["ready"]
    refused = run(guest, "reset")
    assert "not the lab's own" in refused.stderr
    assert run(guest, "down").returncode == 0
    assert node_names(api) == before


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_start_leaves_no_process(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    own = LabState(tmp_path / "lab")
    with subprocess.Popen(
        command(own, "up", *SIZE),
        cwd=REPOSITORY,
        env=os.environ | {"LAB_KUBECONFIG": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as starting:
        assert starting.stdout
        while "starting the control plane" not in starting.stdout.readline():
            pass
        wait_until(lambda: process.process_id(own, "etcd") is not None, 20.0, "etcd's process")
        starting.send_signal(number)
        starting.communicate(timeout=60)
    assert starting.returncode == code
    assert not processes(own)
    assert run(own, "down").returncode == 0
    assert not own.root.exists()


def test_commands_without_a_lab_say_so(tmp_path: Path) -> None:
    nowhere = LabState(tmp_path / "none")
    for name in ("status", "reset"):
        failed = run(nowhere, name)
        assert failed.returncode == 1
        assert failed.stderr.startswith(f"lab: No lab was started in {nowhere.root}")
    assert "there is no lab" in run(nowhere, "down").stdout
