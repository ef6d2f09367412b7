# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab with a real node, and what a user does there."""

from __future__ import annotations

import os
import subprocess
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab.controlplane.programs import find_programs
from lab.process import wait_until
from lab.real_node import NAME, NODE_SELECTOR, PAUSE_IMAGE, RealNode
from scripts import containers
from support.dockerfile import ROOT
from support.lab import RunningLab
from support.playbook import run_playbook

Json = dict[str, t.Any]

# The name in the manifests, and a second version of the same content.
FIRST, SECOND = (
    "registry.invalid/wattwise-operator:0.1.0",
    "registry.invalid/wattwise-operator:next",
)
# Programs of others.
STAND_INS = "registry.invalid/stand-ins:v0.11.4"
NAMESPACE = "wattwise-system"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
WORK = "/api/v1/namespaces/default/pods"
SECONDS = 180.0
OVERLAY = """
resources: [OVERLAY]
patches:
  - target: {kind: Deployment, name: wattwise-operator}
    patch: |
      - {op: add, path: /spec/template/spec/containers/0/env/-,
         value: {name: WATTWISE_AGENT_IMAGE, value: "FIRST"}}
      - {op: add, path: /spec/template/spec/containers/0/env/-,
         value: {name: WATTWISE_INSTALLER_IMAGE, value: "STAND_INS"}}
images:
  - {name: registry.invalid/wattwise-operator, newTag: "TAG"}
"""


def run(*command: str, given: str | None = None) -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


class Cluster:
    """A lab with a real node."""

    def __init__(self, lab: RunningLab, node: RealNode, folder: Path) -> None:
        self.kube, self.node, self._folder = (
            Kube.connect({"kubeconfig": lab.kubeconfig}),
            node,
            folder,
        )
        self.lab = lab

    def kubectl(self, *words: str, given: str | None = None) -> str:
        program = str(find_programs(lambda _text: None)["kubectl"])
        return run(program, f"--kubeconfig={self.lab.kubeconfig}", *words, given=given)

    def manifests(self, overlay: str, tag: str = "0.1.0") -> str:
        """The objects of an overlay as a user applies it, with images for Provisionings."""
        folder = ROOT / "operator" / "config" / "overlays" / overlay
        text = OVERLAY.replace("OVERLAY", os.path.relpath(folder, self._folder))
        text = text.replace("FIRST", FIRST).replace("STAND_INS", STAND_INS).replace("TAG", tag)
        (self._folder / "kustomization.yaml").write_text(text)
        return self.kubectl("kustomize", str(self._folder))

    def install(self, overlay: str, tag: str = "0.1.0") -> None:
        self.kubectl("apply", "--server-side", "--filename=-", given=self.manifests(overlay, tag))

    def wait_ready(self, deployment: str = "wattwise-operator") -> None:
        place = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{deployment}"

        def is_ready() -> bool:
            found = self.kube.get(place)
            status = found.get("status", {})
            counts = [status.get(name) for name in ("replicas", "updatedReplicas", "readyReplicas")]
            generations = status.get("observedGeneration"), found["metadata"]["generation"]
            return counts == [1, 1, 1] and len({*generations}) == 1

        self.wait(is_ready, f"{deployment} to be Ready")

    def wait(self, condition: t.Callable[[], bool], what: str) -> None:
        try:
            wait_until(condition, SECONDS, what)
        except Exception as error:
            place = ("--all-namespaces", f"--field-selector=spec.nodeName={NAME}")
            told = self.kubectl("get", "pods", *place, "--output=wide")
            told += self.kubectl("get", "events", place[0], "--field-selector=type=Warning")
            raise AssertionError(f"{error}\n{told}\n{self.node.logs}") from error

    def containers(self) -> dict[str, Json]:
        """The statuses of the containers of the operator's namespace by name."""
        return {
            status["name"]: status
            for pod in self.kube.list(PODS)
            if not pod["metadata"].get("deletionTimestamp")
            for status in pod.get("status", {}).get("containerStatuses", [])
        }

    def place(self, name: str) -> float:
        """Create a pod for the operator to place; the seconds until it runs."""
        start = time.monotonic()
        container = {
            "name": "main",
            "image": PAUSE_IMAGE,
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        }
        spec = {
            "schedulerName": "wattwise",
            "containers": [container],
            "nodeSelector": NODE_SELECTOR,
            "terminationGracePeriodSeconds": 0,
        }
        self.kube.request("POST", WORK, {"metadata": {"name": name}, "spec": spec})

        def runs() -> bool:
            found = self.kube.get(f"{WORK}/{name}")
            place = found["spec"].get("nodeName"), found.get("status", {}).get("phase")
            return place == (NAME, "Running")

        self.wait(runs, f"pod {name} to run")
        return time.monotonic() - start


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image under both tags, the stand-ins, and the pause image."""
    folder = tmp_path_factory.mktemp("images")
    image = os.environ["WATTWISE_IMAGE"]
    build = ("buildah", "build", "--isolation=chroot", "--layers")
    for tag, line in ((PAUSE_IMAGE, 'CMD ["sleep", "infinity"]'), (SECOND, "LABEL version=next")):
        path = folder / "Dockerfile"
        path.write_text(f"FROM {image}\n{line}\n")
        run(*build, f"--tag={tag}", f"--file={path}", str(folder))
    stand_ins = ROOT / "lab" / "stand_ins" / "Dockerfile"
    base = f"--build-arg=BASE={containers.BASE}"
    run(*build, base, f"--tag={STAND_INS}", f"--file={stand_ins}", str(ROOT / "lab"))
    run("podman", "tag", image, FIRST)
    images = (FIRST, SECOND, PAUSE_IMAGE, STAND_INS)
    path = folder / "images.tar"
    run("podman", "save", "--quiet", "--multi-image-archive", "--output", str(path), *images)
    return path


def told(what: str, start: float) -> None:
    """One row of the table in docs/operate/operator.md."""
    with Path(os.environ["WATTWISE_TIMES"]).open("a") as table:
        table.write(f"| {what} | {time.monotonic() - start:.0f} s |\n")


def play_role(
    cluster: Cluster, folder: Path, name: str, entry: str = "main", **variables: t.Any
) -> None:
    """Run an entry point of a role, as a user's playbook does."""
    include = {"name": f"wattwise.kube.{name}", "tasks_from": entry}
    task = {"name": "Run", "ansible.builtin.include_role": include}
    play = {"name": name, "hosts": "localhost", "gather_facts": False, "tasks": [task]}
    done = run_playbook(
        [{**play, "vars": variables}], folder, K8S_AUTH_KUBECONFIG=cluster.lab.kubeconfig
    )
    assert done.returncode == 0, done.output
