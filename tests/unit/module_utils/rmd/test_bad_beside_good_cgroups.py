# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An unreadable pod, control group or kubelet file changes nothing for other pods."""

from __future__ import annotations

import random
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.rmd.node.cpuset import read_cpusets
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.node.kubelet import _container_cpus
from support.bad_beside_good_rmd import bad_object
from support.examples import each_seed
from support.node_trees import CONTAINER_ID, pod, write_cpu_manager_state, write_cpus
from support.odd_values import bounded, odd_value, spoilt

Json = dict[str, t.Any]
BAD = "bbbbbbbb-ab9d-4180-9afa-4075e2058ac7"
FIRST, SECOND = (f"{digit * 8}-ab9d-4180-9afa-4075e2058ac7" for digit in "12")
GROUPS = "sys/fs/cgroup/kubepods.slice"
CPUS = {FIRST: "2,34", SECOND: "3,35", BAD: "4,36"}


def group(uid: str) -> str:
    return f"{GROUPS}/kubepods-pod{uid.replace('-', '_')}.slice/crio-{CONTAINER_ID}.scope"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for uid, cpus in CPUS.items():
        write_cpus(tmp_path, group(uid), cpus)
    return tmp_path


def read(root: Path, *pods: t.Any, source: str = "auto") -> Json:
    with bounded():
        return read_cpusets({"pods": list(pods), "root": str(root), "source": source})


def of_others(result: Json) -> list[Json]:
    good = (FIRST, SECOND)
    return [each for each in result["containers"] + result["errors"] if each["pod_uid"] in good]


def others() -> list[Json]:
    return [pod(uid=FIRST, name="first"), pod(uid=SECOND, name="second")]


@each_seed(75)
def test_a_bad_pod_changes_nothing_for_the_others(root: Path, seed: int) -> None:
    first, second = others()
    result = read(root, first, bad_object(seed, pod(uid=BAD, name="bad"), finite=False), second)
    assert of_others(result) == of_others(read(root, first, second))
    assert len(of_others(result)) == 2


def odd_bytes(source: random.Random) -> bytes:
    if source.randrange(3) == 0:
        return source.randbytes(source.choice([0, 1, 7, 64, 100_000]))
    return str(odd_value(source, finite=False)).encode("utf-8", "surrogatepass")


@each_seed(65)
def test_a_bad_control_group_changes_nothing_for_the_others(root: Path, seed: int) -> None:
    source = random.Random(seed)
    folder = root / group(BAD)
    for _change in range(source.randrange(1, 4)):
        inner = folder / source.choice([".", "container", CONTAINER_ID, "kubepods", "x" * 200])
        inner.mkdir(exist_ok=True)
        file = inner / source.choice(["cpuset.cpus", "cpuset.cpus.effective"])
        way = source.randrange(4)
        file.unlink(missing_ok=True)
        if way == 0:
            file.symlink_to("/dev/zero")
        elif way == 1:
            file.mkdir(exist_ok=True)
            break
        else:
            file.write_bytes(odd_bytes(source))
    bad = pod(uid=BAD, name="bad")
    result = read(root, others()[0], bad, others()[1], source="cgroup")
    assert of_others(result) == of_others(read(root, *others(), source="cgroup"))
    assert [each["cpus"] for each in of_others(result)] == [[2, 34], [3, 35]]


@each_seed(50)
def test_a_bad_entry_of_kubelets_checkpoint_changes_nothing_for_the_others(
    tmp_path: Path, seed: int
) -> None:
    source = random.Random(seed)
    good = {uid: {"nginx1": CPUS[uid]} for uid in (FIRST, SECOND)}
    entry = spoilt(source, {BAD: {"nginx1": CPUS[BAD], "other": "1"}})
    write_cpu_manager_state(tmp_path, {**entry, **good}, policy=source.choice(["static", "x" * 99]))
    pods = [others()[0], pod(uid=BAD, name="bad"), others()[1]]
    result = read(tmp_path, *pods, source="cpu_manager")
    assert len(of_others(result)) == 2
    if "is not JSON" not in str(result["errors"]):  # beyond the limits of the whole file
        assert [each.get("cpus") for each in of_others(result)] == [[2, 34], [3, 35]]


@each_seed(50)
def test_no_answer_of_kubelet_is_more_than_an_error(seed: int) -> None:
    source = random.Random(seed)
    answer = bytes(source.choice([0x0A, 0xFF, 0x80, 0x1A, 0x01, 0]) for _byte in range(300))
    with bounded():
        try:
            found = list(_container_cpus(answer))
        except Exception as error:  # noqa: BLE001 - which kind it is, is the point
            assert type(error).__name__ == "TargetFailure"
        else:
            assert all(isinstance(cpu, int) for _key, cpus in found for cpu in cpus)
