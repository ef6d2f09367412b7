# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about applying many objects."""

from __future__ import annotations

from pathlib import Path

import yaml

from bench.kit.hall import Hall, hall
from bench.kit.plays import nothing, play
from bench.kit.rows import Bench, Different, Json, Peer, Row, at_least, exactly, metric, ratio
from bench.kit.stage import Stage
from lab.api import Api

LOOPED = 20


def apply_a_thousand_objects(stage: Stage) -> Row:
    room = hall(stage)
    count, looped = stage.size(1000, 40), stage.size(LOOPED, 4)
    ours, again, one_task, loop, moved = [], [], [], [], []
    with Api(room.state.kubeconfig) as api:
        for run in stage.runs(3):
            stage.say(f"  run {run + 1}")
            mine, theirs = (objects(stage, api, f"{name}-{run}", count) for name in ("ours", "k8s"))
            ours.append(stage.playbook(kube_apply(room, mine)).seconds)
            before = found(api, mine.stem)
            again.append(stage.playbook(kube_apply(room, mine)).seconds)
            after = found(api, mine.stem)
            moved.append(sum(after[name][1] != before[name][1] for name in before))
            one_task.append(stage.playbook(one_k8s_task(room, theirs)).seconds)
            if contents(after) != contents(found(api, theirs.stem)):
                raise Different("kubernetes.core.k8s made other objects")
        few = objects(stage, api, "loop", looped)
        start_up = stage.playbook(nothing()).seconds
        each = (stage.playbook(looped_k8s_task(room, few)).seconds - start_up) / looped
        loop.append(start_up + each * count)
        if contents(found(api, few.stem)).items() - contents(after).items():
            raise Different("the loop made other objects")
    return Row(
        title=f"Applying {count:,} objects",
        work=f"{count:,} ConfigMaps from one YAML file into an empty namespace of the API server.",
        command="wattwise.kube.kube_apply: {src: [objects.yaml]}",
        peers=[
            Peer("one task", "kubernetes.core.k8s: {src: objects.yaml, apply: true}"),
            Peer("loop", "kubernetes.core.k8s: {definition: '{{ item }}', apply: true}, loop: …"),
        ],
        metrics=[
            metric("ours, all created", "s", ours),
            metric("ours, nothing to do", "s", again),
            metric("one task", "s", one_task),
            metric("loop, scaled", "s", loop),
            ratio("times faster than one task", one_task, ours, at_least(2)),
            ratio("times faster than the loop", loop, ours, at_least(50)),
            metric("resource versions that the second run moved", "", moved, exactly(0)),
        ],
        equal="data and labels of the objects are equal in our namespaces and the peers'.",
        notes=[
            f"The loop ran over {looped} objects. Its time, less that of a playbook which does "
            f"nothing, was multiplied by {count // looped}."
        ],
    )


def objects(stage: Stage, api: Api, namespace: str, count: int) -> Path:
    """Create the namespace and write a file of ConfigMaps named after it."""
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    manifests = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"object-{number}",
                "namespace": namespace,
                "labels": {"app": "bench"},
            },
            "data": {"number": str(number), "text": "watts " * 20},
        }
        for number in range(count)
    ]
    path = stage.folder() / f"{namespace}.yaml"
    path.write_text(yaml.safe_dump_all(manifests), encoding="utf-8")
    return path


def found(api: Api, namespace: str) -> dict[str, tuple[Json, str]]:
    """Name → content and resource version of the namespace's ConfigMaps."""
    items = api.request("GET", f"/api/v1/namespaces/{namespace}/configmaps")["items"]
    return {
        item["metadata"]["name"]: (
            {"data": item["data"], "labels": item["metadata"]["labels"]},
            item["metadata"]["resourceVersion"],
        )
        for item in items
        if item["metadata"]["name"].startswith("object-")
    }


def contents(items: dict[str, tuple[Json, str]]) -> dict[str, str]:
    return {name: repr(content) for name, (content, _version) in items.items()}


def kube_apply(room: Hall, path: Path) -> list[Json]:
    options = {"kubeconfig": room.kubeconfig, "src": [str(path)]}
    return play({"wattwise.kube.kube_apply": options})


def one_k8s_task(room: Hall, path: Path) -> list[Json]:
    options = {"kubeconfig": room.kubeconfig, "src": str(path), "apply": True}
    return play({"kubernetes.core.k8s": options})


def looped_k8s_task(room: Hall, path: Path) -> list[Json]:
    options = {"kubeconfig": room.kubeconfig, "definition": "{{ item }}", "apply": True}
    content = f"lookup('ansible.builtin.file', '{path}')"
    manifests = f"{{{{ {content} | from_yaml_all | list }}}}"
    return play(
        {
            "kubernetes.core.k8s": options,
            "loop": manifests,
            "loop_control": {"label": "{{ item.metadata.name }}"},
        }
    )


BENCHES = [Bench("apply", apply_a_thousand_objects)]
