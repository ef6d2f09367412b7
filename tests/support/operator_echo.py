# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kind whose reconcile only records its input, to observe ansible-operator."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import yaml

from lab.api import Api
from lab.process import wait_until

Json = dict[str, t.Any]

COLLECTION = "/apis/wattwise.github.io/v1/namespaces/{namespace}/echoes"
DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "echoes.wattwise.github.io"},
    "spec": {
        "group": "wattwise.github.io",
        "scope": "Namespaced",
        "names": {"kind": "Echo", "listKind": "EchoList", "plural": "echoes", "singular": "echo"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            }
                        },
                    }
                },
            }
        ],
    },
}
# As in operator/watches.yaml, for another kind.
WATCH: Json = {
    "group": "wattwise.github.io",
    "version": "v1",
    "kind": "Echo",
    "playbook": "echo.yml",
    "manageStatus": False,
    "snakeCaseParameters": False,
    "markUnsafe": True,
    "watchAnnotationsChanges": True,
    "watchDependentResources": False,
    "maxRunnerArtifacts": 3,
}
# One task, because each costs a second on a busy machine: mark the start, wait, write the input.
_SCRIPT = 'mktemp -q "$1.began.XXXXXX"; sleep "$2"; cat > "$1.new"; mv "$1.new" "$1.json"'
_PATH = "{{ lookup('ansible.builtin.env', 'WATTWISE_RUNS') }}/{{ ansible_operator_meta.name }}"
PLAY: Json = {
    "hosts": "localhost",
    "gather_facts": False,
    "vars": {"spec": "{{ _wattwise_github_io_echo_spec }}"},
    "tasks": [
        {
            "name": "Write down what there is",
            "ansible.builtin.command": {
                "argv": ["sh", "-c", _SCRIPT, "sh", _PATH, "{{ spec.seconds | default(0) }}"],
                "stdin": "{{ {'spec': spec, 'text': spec.text | default('')} | to_json }}",
            },
        }
    ],
}


def write_watches(folder: Path, others: t.Sequence[Json]) -> Path:
    """A watches.yaml with this kind and others, and the playbook beside it."""
    (folder / "echo.yml").write_text(yaml.safe_dump([PLAY]))
    watches = folder / "watches.yaml"
    watches.write_text(yaml.safe_dump([WATCH, *others]))
    return watches


class Echoes:
    """The resources of a namespace, and the records of their runs."""

    def __init__(self, api: Api, namespace: str, runs: Path) -> None:
        self.api, self.runs = api, runs
        self.namespace = namespace
        self.collection = COLLECTION.format(namespace=namespace)

    def create(self, name: str, spec: Json, **annotations: str) -> None:
        metadata = {"name": name, "annotations": annotations}
        body = {"apiVersion": "wattwise.github.io/v1", "kind": "Echo", "metadata": metadata}
        self.api.request("POST", self.collection, {**body, "spec": spec})

    def annotate(self, name: str, key: str, value: str) -> None:
        found = self.api.request("GET", f"{self.collection}/{name}")
        found["metadata"].setdefault("annotations", {})[key] = value
        self.api.request("PUT", f"{self.collection}/{name}", found)

    def delete(self, name: str) -> None:
        self.api.request("DELETE", f"{self.collection}/{name}")

    def has_ended(self, name: str) -> bool:
        """Whether a run has ended."""
        return (self.runs / f"{name}.json").exists()

    def begun(self, name: str) -> int:
        """Number of runs, ended or not."""
        return len(list(self.runs.glob(f"{name}.began.*")))

    def wait(self, name: str, runs: int = 1, timeout: float = 60.0) -> None:
        """Wait until the resource has started this many runs."""
        wait_until(lambda: self.begun(name) >= runs, timeout, f"{runs} runs of {name}")

    def seen(self, name: str, timeout: float = 60.0) -> Json:
        """Input of the first run that ended."""
        wait_until(lambda: self.has_ended(name), timeout, f"a run of {name} to end")
        return t.cast(Json, json.loads((self.runs / f"{name}.json").read_text()))
