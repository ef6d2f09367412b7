# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules started from the installed collection answer as those that Ansible packs."""

from __future__ import annotations

import datetime
import json
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.plugin_utils.direct_module import (
    is_own_interpreter,
    start_module,
)
from support.playbook import PYTHON, PlaybookRun, run_playbook

Json = dict[str, t.Any]

POOL = {
    "apiVersion": "devmgmtproto.k8s.io/v1alpha1",
    "kind": "DevicePool",
    "metadata": {"name": "node-1-gpus"},
    "spec": {"nodeName": "node-1", "driver": "gpu.example.com", "count": 4},
}
CLAIM = {
    "apiVersion": "devmgmtproto.k8s.io/v1alpha1",
    "kind": "DeviceClaim",
    "metadata": {"name": "training", "namespace": "default"},
    "spec": {"driver": "gpu.example.com", "minDeviceCount": 3},
}


def run(folder: Path, task: Json, **variables: t.Any) -> PlaybookRun:
    """Run the playbook of one task; paths in it start at the playbook's folder."""
    plays = folder / "plays"
    plays.mkdir(exist_ok=True)
    objects = [f"---\n{json.dumps(item)}\n" for item in (POOL, CLAIM)]
    (plays / "objects.yml").write_text("".join(objects))
    # A module of this name would be found first if Python imported from the working folder.
    (plays / "json.py").write_text("raise RuntimeError('imported from the working folder')")
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"ansible_connection": "local", **variables},
        "tasks": [task],
    }
    (plays / "playbook.yml").write_text(yaml.safe_dump([play]))
    return run_playbook(str(plays / "playbook.yml"), folder, "-vvv")


def is_packed(ran: PlaybookRun) -> bool:
    return "AnsiballZ_device_allocation" in ran.output


@pytest.fixture
def other_python(tmp_path: Path) -> str:
    path = tmp_path / "other-python"
    path.write_text(f'#!/bin/sh\nexec {PYTHON} "$@"\n')
    path.chmod(0o755)
    return str(path)


TASK: Json = {"wattwise.kube.device_allocation": {"src": ["objects.yml"]}}
REFUSED: Json = {"wattwise.kube.device_allocation": {"source": ["objects.yml"]}}


def result_of(ran: PlaybookRun) -> Json:
    """What the module returned, as -vvv shows it, less what Ansible adds."""
    text = ran.output[ran.output.index("=> {") + len("=> ") :]
    result: Json = json.JSONDecoder().raw_decode(text)[0]
    return {key: value for key, value in result.items() if not key.startswith(("_", "invocation"))}


# YAML makes a time of it, and JSON has none: the name that the module refuses shows what it got.
TIME = datetime.datetime(2026, 11, 23, 6, 0, tzinfo=datetime.UTC)
TIMED: Json = {
    "wattwise.kube.device_allocation": {"objects": [{**POOL, "metadata": {"name": TIME}}, CLAIM]}
}


@pytest.mark.parametrize("task", [TASK, REFUSED, TIMED], ids=["answered", "refused", "with a time"])
def test_the_control_nodes_python_starts_the_module_directly_and_another_one_packs_it(
    tmp_path: Path, other_python: str, task: Json
) -> None:
    directly = run(tmp_path, task, ansible_python_interpreter="{{ ansible_playbook_python }}")
    packed = run(tmp_path, task, ansible_python_interpreter=other_python)
    assert (is_packed(directly), is_packed(packed)) == (False, True)
    assert result_of(directly) == result_of(packed)


@pytest.mark.parametrize(
    "keywords",
    [{"async": 60, "poll": 1}, {"become": True, "become_method": "ansible.builtin.sudo"}],
    ids=["async", "become"],
)
def test_a_task_in_the_background_or_of_another_user_is_packed(
    tmp_path: Path, keywords: Json
) -> None:
    """The sudo here is none: what matters is how the module is started, not whether it may."""
    ran = run(tmp_path, {**TASK, **keywords}, ansible_become_exe="/bin/false")
    assert is_packed(ran)


def test_another_name_of_the_own_python_is_the_same_python(tmp_path: Path) -> None:
    elsewhere = tmp_path / "python"
    elsewhere.symlink_to(sys.executable)
    folder = Path(sys.executable).parent
    assert all(is_own_interpreter(str(folder / name)) for name in ("python", "python3"))
    assert not any(is_own_interpreter(name) for name in (str(elsewhere), "python", "", "auto"))


def test_a_tasks_environment_reaches_the_module(tmp_path: Path) -> None:
    task = {
        "wattwise.kube.fleet_snapshot_info": {"progress": "none"},
        "environment": {"K8S_AUTH_KUBECONFIG": "no-such-file"},
    }
    assert "no-such-file" in result_of(run(tmp_path, task))["msg"]


def test_a_module_that_ends_without_a_result_is_a_failure_with_its_last_words(
    tmp_path: Path,
) -> None:
    result = start_module("no_such_module", {}, {}, str(tmp_path))
    assert result["failed"] is True
    assert "no_such_module ended with return code 1 and without a result" in result["msg"]
    assert result["msg"].splitlines() == [result["msg"]]
    assert "No module named" in result["msg"]
    assert result["msg"].endswith(result["module_stderr"].strip())
