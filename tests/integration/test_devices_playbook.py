# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``devices`` playbook works on files alone, like the prototype's command `schedule`."""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml

from lab.device_shapes import device_pools
from support.device_objects import device_claim, pod
from support.playbook import run_playbook


def files(folder: Path) -> str:
    """Pools of two shapes and a pod with a claim, and the variables that name them."""
    claim = device_claim("foozers", driver="example.com-foozer", minDeviceCount=2)
    asking = pod("my-pod", [{"name": "foozers", "claimName": "foozers"}])
    objects: dict[str, list[t.Any]] = {
        "pools.yml": device_pools("three") + device_pools("zero"),
        "pods.yml": [claim, asking],
    }
    for name, manifests in objects.items():
        (folder / name).write_text(yaml.safe_dump_all(manifests), encoding="utf-8")
    variables = {"devices_src": [str(folder / name) for name in objects]}
    (folder / "variables.yml").write_text(yaml.safe_dump(variables), encoding="utf-8")
    return str(folder / "variables.yml")


def test_it_answers_from_files_without_a_cluster_or_an_inventory(tmp_path: Path) -> None:
    run = run_playbook(
        "wattwise.kube.devices", tmp_path, "-e", f"@{files(tmp_path)}", "--check", as_json=True
    )
    assert run.returncode == 0, run.output
    [answer] = run.results("Find devices for the claims")
    assert answer["pods"] == [
        {"namespace": "default", "name": "my-pod", "node": "shape-zero-00", "message": None}
    ]
    [shown] = run.results("Show the allocation")
    assert shown["msg"][:3] == [
        "allocated, score 100",
        "pod default/my-pod: shape-zero-00",
        "claim default/foozers: shape-zero-00",
    ]
    assert shown["msg"][-4:] == [
        "shape-three-00: could not satisfy these claims: foozers",
        "shape-three-01: could not satisfy these claims: foozers",
        "shape-zero-00: satisfied all claims with score 100",
        "shape-zero-01: satisfied all claims with score 100",
    ]
    assert run.stats()["localhost"]["changed"] == 0
