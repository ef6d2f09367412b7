# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Behaviour of tasks around the library: progress, check mode, diff, async, delegation, secrets."""

from __future__ import annotations

import os
import pty
import typing as t
from pathlib import Path

import pytest
import yaml

from support.playbook import PYTHON, environment, run_playbook

Json = dict[str, t.Any]


def play(kubeconfig: str, *tasks: Json, hosts: str = "c") -> list[Json]:
    return [
        {
            "hosts": hosts,
            "connection": "local",
            "gather_facts": False,
            "module_defaults": {
                "group/wattwise.kube.wattwise": {
                    "kubeconfig": kubeconfig,
                    "context": "{{ nowhere_defined | default(omit) }}",
                }
            },
            "tasks": list(tasks),
        }
    ]


def config_maps(namespace: str, count: int) -> list[Json]:
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"c{number}", "namespace": namespace},
            "data": {"a": "1"},
        }
        for number in range(count)
    ]


def apply_task(namespace: str, count: int = 3, **more: t.Any) -> Json:
    arguments = {"manifests": config_maps(namespace, count)}
    return {"name": "apply", "wattwise.kube.kube_apply": arguments, **more}


INVENTORY = ("-i", "c,")


def test_the_action_group_sets_the_cluster_once_and_the_second_run_changes_nothing(
    kubeconfig: str, namespace: str, tmp_path: Path
) -> None:
    plays = play(kubeconfig, apply_task(namespace))
    first = run_playbook(plays, tmp_path, *INVENTORY, as_json=True)
    second = run_playbook(plays, tmp_path, *INVENTORY, as_json=True)
    assert first.returncode == second.returncode == 0
    assert first.stats()["c"]["changed"] == 1
    assert second.stats()["c"]["changed"] == 0


def test_check_and_diff_show_what_would_change(
    kubeconfig: str, namespace: str, tmp_path: Path
) -> None:
    plays = play(kubeconfig, apply_task(namespace, 1))
    checked = run_playbook(plays, tmp_path, *INVENTORY, "--check", "--diff")
    assert "changed=1" in checked.output
    assert f"ConfigMap {namespace}/c0 (after)" in checked.output
    assert run_playbook(plays, tmp_path, *INVENTORY, as_json=True).stats()["c"]["changed"] == 1


def test_async_and_delegation_give_the_same_result(
    kubeconfig: str, namespace: str, tmp_path: Path
) -> None:
    plays = play(
        kubeconfig,
        apply_task(namespace, **{"async": 60, "poll": 1}),
        {**apply_task(namespace, delegate_to="jump"), "name": "delegated"},
    )
    run = run_playbook(plays, tmp_path, "-i", "c,jump,", "--limit", "c", as_json=True)
    assert run.returncode == 0, run.output
    [started] = run.results("apply")
    [delegated] = run.results("delegated")
    assert (
        started["changed"] and [entry["action"] for entry in started["results"]] == ["created"] * 3
    )
    assert not delegated["changed"] and len(delegated["results"]) == 3


@pytest.mark.parametrize(("style", "shown"), [("line", True), ("none", False)])
def test_progress_is_shown_as_the_environment_says(
    kubeconfig: str, namespace: str, tmp_path: Path, style: str, shown: bool
) -> None:
    plays = play(kubeconfig, apply_task(namespace, 50))
    run = run_playbook(plays, tmp_path, *INVENTORY, WATTWISE_PROGRESS=style)
    assert ("kube_apply [c]: 50 of 50 done" in run.output) is shown


def test_on_a_terminal_a_moving_line_is_the_default(
    kubeconfig: str, namespace: str, tmp_path: Path
) -> None:
    playbook = tmp_path / "playbook.yml"
    playbook.write_text(yaml.safe_dump(play(kubeconfig, apply_task(namespace, 50))))
    command = [PYTHON, "-m", "ansible", "playbook", str(playbook), *INVENTORY]
    child, terminal = pty.fork()
    if child == 0:
        os.execve(PYTHON, command, environment())
    output = b""
    while True:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:  # a closed terminal reads as an error
            break
        if not chunk:
            break
        output += chunk
    assert os.waitpid(child, 0)[1] == 0
    assert b"\rkube_apply [c]: 50 of 50 done" in output


def test_no_secret_is_in_any_output_and_nothing_else_is_masked(
    kubeconfig: str, namespace: str, tmp_path: Path
) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "admin", "namespace": namespace},
        "stringData": {"username": "admin", "password": "pa55-w0rd-x"},
    }
    task = {"wattwise.kube.kube_apply": {"secret_manifests": [secret]}, "name": "apply"}
    run = run_playbook(play(kubeconfig, task), tmp_path, *INVENTORY, "-vvvv", "--diff")
    assert run.returncode == 0, run.output
    assert "pa55-w0rd-x" not in run.output
    assert f"Secret {namespace}/" in run.output
    assert '"kind": "Secret"' in run.output


def test_a_wrong_option_and_an_unreachable_api_are_one_sentence_each(tmp_path: Path) -> None:
    task = {"name": "read", "wattwise.kube.fleet_snapshot_info": {"path": str(tmp_path / "s.json")}}
    kubeconfig = "/nowhere/kubeconfig"
    run = run_playbook(play(kubeconfig, task), tmp_path, *INVENTORY, as_json=True)
    [result] = run.results("read")
    assert result["msg"].startswith("kubeconfig: cannot read the file /nowhere/kubeconfig ")
    assert "Traceback" not in run.output
