# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pod_cpuset_info: exclusive CPUs from control groups, kubelet's checkpoint and its socket."""

from __future__ import annotations

import os
import tempfile
import typing as t
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_cpu_list
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.node.cpuset import read_cpusets
from support.node_trees import (
    CONTAINER_ID,
    UID,
    pod,
    underscored,
    write_cpu_manager_state,
    write_cpus,
)

V1, V2 = "sys/fs/cgroup/cpuset", "sys/fs/cgroup"


def read(root: Path, *pods: MutableObject, **parameters: t.Any) -> MutableObject:
    return read_cpusets({"pods": list(pods), "root": str(root), **parameters})


def cpus_of(root: Path, given_pod: MutableObject, **parameters: t.Any) -> list[int]:
    result = read(root, given_pod, **parameters)
    assert result["errors"] == []
    [container] = result["containers"]
    assert (container["pod_uid"], container["container"]) == (UID, "nginx1")
    cpus: list[int] = container["cpus"]
    return cpus


def error_of(root: Path, given_pod: MutableObject, **parameters: t.Any) -> tuple[str, str]:
    result = read(root, given_pod, **parameters)
    assert result["containers"] == []
    [error] = result["errors"]
    return error["reason"], error["detail"]


SYSTEMD = f"kubepods.slice/kubepods-pod{underscored()}.slice"
LAYOUTS = {
    "cgroupfs": ("docker", f"kubepods/pod{UID}/{CONTAINER_ID}"),
    "systemd, containerd": ("containerd", f"{SYSTEMD}/cri-containerd-{CONTAINER_ID}.scope"),
    "systemd, CRI-O": ("cri-o", f"{SYSTEMD}/crio-{CONTAINER_ID}.scope"),
    "systemd, CRI-O with crun": ("cri-o", f"{SYSTEMD}/crio-{CONTAINER_ID}.scope/container"),
    "systemd, docker": ("docker", f"{SYSTEMD}/docker-{CONTAINER_ID}.scope"),
    "below a group of kubelet's": (
        "containerd",
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{underscored()}.slice/"
        f"cri-containerd-{CONTAINER_ID}.scope",
    ),
    "rmd-operator's tests": (
        "docker",
        f"kubepods.slice/pod{UID}.slice/docker-{CONTAINER_ID}.slice",
    ),
    "rmd-operator's tests, underscores": (
        "docker",
        f"kubepods.slice/pod{underscored()}.slice/docker-{CONTAINER_ID}.slice",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("hierarchy", [V1, V2, "sys/fs/cgroup/unified"])
def test_every_layout_of_control_groups_is_read(
    tmp_path: Path, layout: str, hierarchy: str
) -> None:
    runtime, folder = LAYOUTS[layout]
    write_cpus(tmp_path, f"{hierarchy}/{folder}", "0,21")
    assert cpus_of(tmp_path, pod(runtime=runtime)) == [0, 21]


def test_an_empty_set_of_version_2_means_that_of_the_group_above(tmp_path: Path) -> None:
    folder = f"{V2}/{SYSTEMD}/cri-containerd-{CONTAINER_ID}.scope"
    write_cpus(tmp_path, folder, "")
    write_cpus(tmp_path, folder, "4-5", "cpuset.cpus.effective")
    assert cpus_of(tmp_path, pod()) == [4, 5]


def test_the_monitor_of_a_container_is_not_the_container(tmp_path: Path) -> None:
    write_cpus(tmp_path, f"{V2}/{SYSTEMD}/crio-conmon-{CONTAINER_ID}.scope", "0-63")
    write_cpus(tmp_path, f"{V2}/{SYSTEMD}/crio-{CONTAINER_ID}.scope", "2,34")
    assert cpus_of(tmp_path, pod(runtime="cri-o")) == [2, 34]


def test_only_whole_cpus_of_guaranteed_pods_are_exclusive(tmp_path: Path) -> None:
    burstable = pod(name="burstable")
    burstable["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "4", "memory": "1G"}
    without_memory = pod(name="without-memory")
    del without_memory["spec"]["containers"][0]["resources"]["limits"]["memory"]
    said_by_the_api = pod(name="said", qosClass="BestEffort")
    pods = [pod(".5"), pod("1500m"), burstable, without_memory, said_by_the_api]
    nothing: MutableObject = {"containers": [], "errors": [], "findings": []}
    assert read(tmp_path, *pods) == {"changed": False, **nothing}


def test_a_request_in_millicores_may_be_whole(tmp_path: Path) -> None:
    write_cpus(tmp_path, f"{V2}/kubepods/pod{UID}/{CONTAINER_ID}", "7,9")
    assert cpus_of(tmp_path, pod("2000m")) == [7, 9]


def test_sidecars_count_and_init_containers_do_not(tmp_path: Path) -> None:
    given_pod = pod()
    [container] = given_pod["spec"]["containers"]
    given_pod["spec"]["initContainers"] = [
        {**container, "name": "sidecar", "restartPolicy": "Always"},
        {**container, "name": "setup"},
    ]
    sidecar_id = "f" * 64
    given_pod["status"]["initContainerStatuses"] = [
        {"name": "sidecar", "containerID": f"containerd://{sidecar_id}"}
    ]
    write_cpus(tmp_path, f"{V2}/kubepods/pod{UID}/{CONTAINER_ID}", "1-2")
    write_cpus(tmp_path, f"{V2}/kubepods/pod{UID}/{sidecar_id}", "3-4")
    found = read(tmp_path, given_pod)["containers"]
    assert [(each["container"], each["cpus"]) for each in found] == [
        ("sidecar", [3, 4]),
        ("nginx1", [1, 2]),
    ]


def test_a_shared_set_is_not_taken_for_an_exclusive_one(tmp_path: Path) -> None:
    write_cpus(tmp_path, f"{V1}/kubepods/pod{UID}/{CONTAINER_ID}", "0-63")
    assert error_of(tmp_path, pod()) == (
        "implausible",
        "the container runs on 64 CPUs and requested 2, so they are not its own; set kubelet's"
        " --cpu-manager-policy to static",
    )


def test_one_bad_container_does_not_stop_the_others(tmp_path: Path) -> None:
    other = "11111111-2222-3333-4444-555555555555"
    write_cpus(tmp_path, f"{V2}/kubepods/pod{UID}/{CONTAINER_ID}", "0,x")
    write_cpus(tmp_path, f"{V2}/kubepods/pod{other}/{CONTAINER_ID}", "0,1")
    result = read_cpusets(
        {"pods": [pod(), pod(uid=other, name="pod-2")], "root": str(tmp_path), "source": "cgroup"}
    )
    assert [each["pod"] for each in result["containers"]] == ["pod-2"]
    assert [(each["pod"], each["reason"]) for each in result["errors"]] == [("pod-1", "malformed")]
    assert "'x' in '0,x' is not a CPU" in result["errors"][0]["detail"]


def test_pods_of_other_nodes_and_those_that_ended_are_passed_over(tmp_path: Path) -> None:
    elsewhere = pod(name="elsewhere")
    elsewhere["spec"]["nodeName"] = "example-node-2.com"
    ended = [pod(phase="Succeeded"), pod(phase="Failed")]
    result = read(tmp_path, elsewhere, *ended, node_name="example-node-1.com")
    assert (result["containers"], result["errors"]) == ([], [])


def test_a_container_that_was_not_started_says_so(tmp_path: Path) -> None:
    reason, detail = error_of(tmp_path, pod(containerStatuses=[{"name": "nginx1"}]))
    assert reason == "not_found"
    assert "has not been started yet" in detail


def test_a_pod_that_is_not_here_names_the_root(tmp_path: Path) -> None:
    reason, detail = error_of(tmp_path, pod(), source="cgroup")
    assert reason == "not_found"
    assert UID in detail
    assert str(tmp_path) in detail


def test_a_container_that_has_ended_says_so(tmp_path: Path) -> None:
    write_cpus(tmp_path, f"{V2}/kubepods/pod{UID}/another", "1")
    reason, detail = error_of(tmp_path, pod(), source="cgroup")
    assert reason == "not_found"
    assert "it may have ended" in detail


@pytest.mark.parametrize("source", ["auto", "cpu_manager"])
def test_the_checkpoint_of_kubelet_is_the_second_source(tmp_path: Path, source: str) -> None:
    write_cpu_manager_state(tmp_path, {UID: {"nginx1": "2,34"}})
    assert cpus_of(tmp_path, pod(), source=source) == [2, 34]


CHECKPOINTS: dict[str, tuple[str | None, str, str]] = {
    "none": (None, "not_found", "cannot be read"),
    "not JSON": ("{", "malformed", "is not JSON"),
    "a list": ("[]", "malformed", "does not hold an object"),
    "another policy": ('{"policyName": "none"}', "not_found", "policy is none"),
}


@pytest.mark.parametrize("case", CHECKPOINTS)
def test_a_checkpoint_that_does_not_help_says_why(tmp_path: Path, case: str) -> None:
    text, expected, words = CHECKPOINTS[case]
    write_cpu_manager_state(tmp_path, {})
    path = tmp_path / "var" / "lib" / "kubelet" / "cpu_manager_state"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    reason, detail = error_of(tmp_path, pod(), source="cpu_manager")
    assert (reason, words in detail) == (expected, True)


@pytest.mark.parametrize("missing", ["name", "uid"])
def test_a_pod_without_identity_is_a_finding(tmp_path: Path, missing: str) -> None:
    given_pod = pod()
    del given_pod["metadata"][missing]
    [finding] = read(tmp_path, given_pod)["findings"]
    assert (finding["kind"], finding["field"]) == ("Pod", "metadata")
    assert "give pods as the API returns them" in finding["problem"]


@pytest.mark.parametrize("given_id", ["0", "c", "", "../x", "a" * 300, CONTAINER_ID[:11]])
def test_an_id_that_is_in_names_of_others_is_refused(tmp_path: Path, given_id: str) -> None:
    write_cpus(tmp_path, f"{V2}/kubepods/pod{UID}/{CONTAINER_ID}", "2,34")
    statuses = [{"name": "nginx1", "containerID": f"containerd://{given_id}"}]
    result = read(tmp_path, pod(containerStatuses=statuses), source="cgroup")
    assert (result["containers"], len(result["errors"])) == ([], 1)


def test_a_container_cannot_claim_cpus_of_others_by_a_group_of_its_own(tmp_path: Path) -> None:
    folder = f"{V2}/{SYSTEMD}/crio-{CONTAINER_ID}.scope"
    write_cpus(tmp_path, folder, "2,34")
    write_cpus(tmp_path, f"{folder}/container", "3,35")
    reason, detail = error_of(tmp_path, pod(runtime="cri-o"), source="cgroup")
    assert (reason, "does not have" in detail) == ("implausible", True)


def test_a_pipe_and_an_endless_file_are_not_read(tmp_path: Path) -> None:
    other, second = "11111111-2222-3333-4444-555555555555", "2" * 36
    for uid in (UID, other, second):
        write_cpus(tmp_path, f"{V2}/kubepods/pod{uid}/{CONTAINER_ID}", "0,1")
    pipe = tmp_path / f"{V2}/kubepods/pod{UID}/{CONTAINER_ID}/cpuset.cpus"
    pipe.unlink()
    os.mkfifo(pipe)
    write_cpus(tmp_path, f"{V2}/kubepods/pod{other}/{CONTAINER_ID}", "1," * 40_000)
    pods = [pod(), pod(uid=other, name="pod-2"), pod(uid=second, name="pod-3")]
    result = read(tmp_path, *pods, source="cgroup")
    assert [each["pod"] for each in result["containers"]] == ["pod-3"]
    assert [(each["pod"], each["reason"]) for each in result["errors"]] == [
        ("pod-1", "malformed"),
        ("pod-2", "malformed"),
    ]


def test_a_root_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="root: there is no folder"):
        read(tmp_path / "nowhere", pod())


def message(number: int, value: bytes | int) -> bytes:
    """One field of a protocol-buffers message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def pod_resources(cpus: bytes) -> bytes:
    """kubelet's answer for one container, with devices and memory beside the CPUs."""
    container = message(1, b"nginx1") + message(2, message(1, b"intel.com/qat")) + cpus
    return message(1, message(1, b"pod-1") + message(2, b"default") + message(3, container))


PACKED = message(3, varint(2) + varint(300))
ONE_BY_ONE = message(3, 300) + message(3, 2)


@dataclass
class Kubelet:
    """A gRPC server on kubelet's socket below ``root``, which returns ``answer``."""

    root: Path
    answer: bytes


@pytest.fixture
def kubelet() -> Iterator[Kubelet]:
    # Not tmp_path: the path of a Unix socket has at most 107 characters.
    with tempfile.TemporaryDirectory() as root:
        served = Kubelet(Path(root), pod_resources(PACKED))
        with _serving(served):
            yield served


@contextmanager
def _serving(kubelet: Kubelet) -> Iterator[None]:
    socket = kubelet.root / "var" / "lib" / "kubelet" / "pod-resources" / "kubelet.sock"
    socket.parent.mkdir(parents=True)
    handlers: dict[str, t.Any] = {
        "List": grpc.unary_unary_rpc_method_handler(lambda asked, context: kubelet.answer)
    }
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),)
    )
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    yield
    server.stop(None).wait()


@pytest.mark.parametrize("cpus", [PACKED, ONE_BY_ONE])
def test_kubelet_is_asked_on_its_socket(kubelet: Kubelet, cpus: bytes) -> None:
    kubelet.answer = pod_resources(cpus)
    assert cpus_of(kubelet.root, pod(), source="pod_resources") == [2, 300]


def test_a_container_that_kubelet_gave_no_cpus_says_so(kubelet: Kubelet) -> None:
    kubelet.answer = pod_resources(b"")
    reason, detail = error_of(kubelet.root, pod(), source="pod_resources")
    assert (reason, "names no CPUs of its own" in detail) == ("not_found", True)


@pytest.mark.parametrize("answer", [b"\x0d", b"\x0a\xff", b"\x0a\x05ab"])
def test_an_answer_that_is_none_is_malformed(kubelet: Kubelet, answer: bytes) -> None:
    kubelet.answer = answer
    reason, _detail = error_of(kubelet.root, pod(), source="pod_resources")
    assert reason == "malformed"


def test_a_socket_that_is_not_there_is_named(tmp_path: Path) -> None:
    reason, detail = error_of(tmp_path, pod(), source="pod_resources")
    assert (reason, "there is no socket" in detail) == ("not_found", True)


def test_a_kubelet_that_refuses_says_what(kubelet: Kubelet) -> None:
    kubelet.answer = t.cast("bytes", None)
    reason, detail = error_of(kubelet.root, pod(), source="pod_resources")
    assert reason == "server_error"
    assert "kubelet.sock" in detail


@given(cpus=st.sets(st.integers(min_value=0, max_value=2000), min_size=1, max_size=40))
def test_any_set_of_cpus_comes_back(
    tmp_path_factory: pytest.TempPathFactory, cpus: set[int]
) -> None:
    root = tmp_path_factory.mktemp("node")
    write_cpus(root, f"{V2}/kubepods/pod{UID}/{CONTAINER_ID}", format_cpu_list(cpus))
    assert cpus_of(root, pod(str(len(cpus)))) == sorted(cpus)
