# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's overlays on a real kubelet, from the installation to its removal.

Gate `real_node` builds the image first and names it in WATTWISE_IMAGE. The tests are one story in
the order of this file. Their times become a table in the file that WATTWISE_TIMES names.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node_objects import (
    PROBE_ANNOTATION,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pod_workloads import CONDITION
from lab import pki, real_node
from lab.controlplane.programs import find_programs
from lab.process import wait_until
from lab.real_node import NAME, NODE_SELECTOR, PAUSE_IMAGE, RealNode
from support.dockerfile import ROOT
from support.lab import RunningLab, kubeconfig, lab, lab_state
from support.playbook import run_playbook

__all__ = ["kubeconfig", "lab", "lab_state"]

Json = dict[str, t.Any]

IMAGE = os.environ["WATTWISE_IMAGE"]
# The name in the manifests, and a second version of the same content.
FIRST, SECOND = (
    "registry.invalid/wattwise-operator:0.1.0",
    "registry.invalid/wattwise-operator:next",
)
NAMESPACE = "wattwise-system"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
WORK = "/api/v1/namespaces/default/pods"
FLEETS = f"/apis/wattwise.github.io/v1alpha1/namespaces/{NAMESPACE}/powerfleets"
# The API server takes objects of almost 1.5 MB.
LARGE_BYTES, LARGE_PODS = 1_400_000, 60
SECONDS = 180.0
# As a user's own overlay; KWOK's nodes only simulate containers.
OVERLAY = """
resources: [OVERLAY]
patches:
  - target: {kind: Deployment}
    patch: |
      - {op: add, path: /spec/template/spec/nodeSelector, value: SELECTOR}
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
        self._kubeconfig = lab.kubeconfig

    def kubectl(self, *words: str, given: str | None = None) -> str:
        program = str(find_programs(lambda _text: None)["kubectl"])
        return run(program, f"--kubeconfig={self._kubeconfig}", *words, given=given)

    def manifests(self, overlay: str, tag: str = "0.1.0") -> str:
        """The objects of an overlay as a user applies it, for this node."""
        folder = ROOT / "operator" / "config" / "overlays" / overlay
        text = OVERLAY.replace("OVERLAY", os.path.relpath(folder, self._folder))
        text = text.replace("SELECTOR", json.dumps(NODE_SELECTOR)).replace("TAG", tag)
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


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image under both tags, and the pause image, which is the same with another command."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "Dockerfile").write_text(f'FROM {IMAGE}\nCMD ["sleep", "infinity"]\n')
    build = ("buildah", "build", "--isolation=chroot", "--tag", PAUSE_IMAGE)
    run(*build, "--file", str(folder / "Dockerfile"), str(folder))
    (folder / "Dockerfile").write_text(f"FROM {IMAGE}\nLABEL version=next\n")
    run(*build[:-1], SECOND, "--file", str(folder / "Dockerfile"), str(folder))
    run("podman", "tag", IMAGE, FIRST)
    images = (FIRST, SECOND, PAUSE_IMAGE)
    path = folder / "images.tar"
    run("podman", "save", "--quiet", "--multi-image-archive", "--output", str(path), *images)
    return path


@pytest.fixture(scope="module")
def cluster(
    lab: RunningLab, archive: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    with real_node.running(lab.state, [archive], print) as node:
        found = Cluster(lab, node, tmp_path_factory.mktemp("overlay"))
        found.kubectl("create", "namespace", "wao-system")
        yield found


def told(what: str, start: float) -> None:
    """One row of the table in docs/operator.md."""
    with Path(os.environ["WATTWISE_TIMES"]).open("a") as table:
        table.write(f"| {what} | {time.monotonic() - start:.0f} s |\n")


def test_the_default_overlay_gets_ready(cluster: Cluster) -> None:
    start = time.monotonic()
    cluster.install("default")
    cluster.wait_ready()
    told("overlay `default` applied → Ready", start)


def test_a_waiting_pod_is_placed_and_runs(cluster: Cluster) -> None:
    fleet = {
        "apiVersion": "wattwise.github.io/v1alpha1",
        "kind": "PowerFleet",
        "metadata": {"name": "hall"},
        "spec": {"interval": "10m", "nodeSelector": {"matchLabels": NODE_SELECTOR}},
    }
    cluster.kube.request("POST", FLEETS, fleet)
    start = time.monotonic()
    cluster.place("first")
    told("first pod created → running, with the PowerFleet's first run", start)
    start = time.monotonic()
    cluster.place("second")
    told("another pod created → running", start)


@pytest.mark.parametrize("name", ["operator", "watcher", "metrics"])
def test_a_killed_container_returns_and_pods_are_placed(cluster: Cluster, name: str) -> None:
    before = cluster.containers()[name]
    start = time.monotonic()
    cluster.node.kill(before["containerID"].removeprefix("containerd://"))
    wait_until(
        lambda: cluster.containers()[name]["restartCount"] > before["restartCount"],
        SECONDS,
        f"the restart of {name}",
    )
    cluster.wait_ready()
    told(f"container `{name}` killed → Ready", start)
    cluster.place(f"after-{name}")


def test_an_upgrade_changes_the_tag_and_a_rollback_changes_it_back(cluster: Cluster) -> None:
    for tag in ("next", "0.1.0"):
        start = time.monotonic()
        cluster.install("default", tag)
        cluster.wait_ready()
        told(f"tag changed to `{tag}` → Ready", start)
        pods = [
            each
            for each in cluster.kube.list(PODS)
            if not each["metadata"].get("deletionTimestamp")
        ]
        images = {one["image"] for pod in pods for one in pod["spec"]["containers"]}
        assert images == {f"registry.invalid/wattwise-operator:{tag}"}
        cluster.place(f"on-{tag.replace('.', '-')}")


def test_the_extender_gets_ready(cluster: Cluster, tmp_path: Path) -> None:
    """Overlay `extender` is `default` with one more Deployment."""
    authority = pki.create_authority(tmp_path, "extender CA")
    server = "wattwise-extender.wattwise-system.svc"
    files = pki.issue(authority, "extender", [], [server], tmp_path)
    sources = {
        "ca.crt": authority.files.certificate,
        "tls.crt": files.certificate,
        "tls.key": files.key,
    }
    texts = {name: path.read_text() for name, path in sources.items()}
    secret = {"metadata": {"name": "wattwise-extender-tls"}, "stringData": texts}
    cluster.kube.request("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", secret)
    start = time.monotonic()
    cluster.install("extender")
    # The operator starts anew, because it publishes its curves from now on.
    for deployment in ("wattwise-operator", "wattwise-extender"):
        cluster.wait_ready(deployment)
    told("overlay `extender` applied → Ready", start)


def test_large_objects_end_no_container(cluster: Cluster) -> None:
    """Within the limits of the manifests, beside pods of almost the largest size."""

    def restarts() -> dict[str, int]:
        return {name: one["restartCount"] for name, one in cluster.containers().items()}

    expected = restarts()
    value = "x" * LARGE_BYTES
    container = {"name": "main", "image": "none", "env": [{"name": "LARGE", "value": value}]}
    spec = {"schedulerName": "nobody", "containers": [container]}
    names = [f"large-{number}" for number in range(LARGE_PODS)]
    try:
        for name in names:
            cluster.kube.request("POST", WORK, {"metadata": {"name": name}, "spec": spec})
        for name in ("operator", "watcher", "extender"):
            # A new start lists everything.
            container_id = cluster.containers()[name]["containerID"].removeprefix("containerd://")
            cluster.node.kill(container_id)
            expected[name] += 1
        cluster.wait(lambda: restarts() == expected, "one restart of each killed container")
        for deployment in ("wattwise-operator", "wattwise-extender"):
            cluster.wait_ready(deployment)
        cluster.place("beside-large-ones")
        assert restarts() == expected
    finally:
        for name in names:
            cluster.kube.request("DELETE", f"{WORK}/{name}?gracePeriodSeconds=0")


def test_the_full_overlay_gets_ready_with_all_its_kinds(cluster: Cluster) -> None:
    for name in ("rmd-system", "kepler", "kepler-authority", "bpa-system"):
        cluster.kubectl("create", "namespace", name)
    start = time.monotonic()
    cluster.install("full")
    cluster.wait_ready()
    told("overlay `full` applied → Ready", start)
    cluster.place("with-full")


def play_role(
    lab: RunningLab, folder: Path, name: str, entry: str = "main", **variables: t.Any
) -> None:
    """Run an entry point of a role, as a user's playbook does."""
    include = {"name": f"wattwise.kube.{name}", "tasks_from": entry}
    task = {"name": "Run", "ansible.builtin.include_role": include}
    play = {"name": name, "hosts": "localhost", "gather_facts": False, "tasks": [task]}
    done = run_playbook([{**play, "vars": variables}], folder, K8S_AUTH_KUBECONFIG=lab.kubeconfig)
    assert done.returncode == 0, done.output


def test_a_discovery_pod_reads_the_meters_of_this_machine(
    cluster: Cluster, lab: RunningLab, tmp_path: Path
) -> None:
    """Role `kepler` runs it on every node; KWOK's nodes only simulate it."""
    start = time.monotonic()
    play_role(lab, tmp_path, "kepler", kepler_probe_image=FIRST)

    def annotation() -> str:
        found = cluster.kube.get(f"/api/v1/nodes/{NAME}")["metadata"]
        return str(found.get("annotations", {}).get(PROBE_ANNOTATION, ""))

    cluster.wait(lambda: bool(annotation()), "the annotation of the discovery pod")
    assert json.loads(annotation())["kernel"] == os.uname().release
    told("role `kepler` started → facts of the node", start)
    play_role(lab, tmp_path, "kepler", "teardown")


def test_the_node_agent_of_rmd_handles_the_pods_of_this_machine(
    cluster: Cluster, lab: RunningLab, tmp_path: Path
) -> None:
    """The pod has no CPUs of its own here, so the agent tells it that it gets no cache ways."""
    start = time.monotonic()
    variables: Json = {
        "rmd_namespace": "rmd-system",
        "rmd_node_labels": NODE_SELECTOR,
        "rmd_image": PAUSE_IMAGE,
        "rmd_agent_image": FIRST,
        "rmd_agent_interval": 5,
    }
    play_role(lab, tmp_path, "rmd", **variables)
    asking = {"main_cache_min": "2", "main_cache_max": "2"}
    requests = {"cpu": "10m", "memory": "16Mi", "intel.com/l3_cache_ways": "2"}
    spec = {
        "nodeName": NAME,
        "containers": [
            {
                "name": "main",
                "image": PAUSE_IMAGE,
                "resources": {"requests": requests, "limits": requests},
            }
        ],
    }
    offered = {"intel.com/l3_cache_ways": "8"}
    ways = {"status": {"capacity": offered, "allocatable": offered}}
    cluster.kube.request("PATCH", f"/api/v1/nodes/{NAME}/status", ways, MERGE_CONTENT_TYPE)
    metadata = {"name": "asks", "annotations": asking}
    cluster.kube.request("POST", WORK, {"metadata": metadata, "spec": spec})

    def conditions() -> set[str]:
        found = cluster.kube.get(f"{WORK}/asks").get("status", {}).get("conditions", [])
        return {each["type"] for each in found}

    cluster.wait(lambda: CONDITION in conditions(), "the agent's condition")
    told("role `rmd` started → condition of a pod by the node agent", start)
    cluster.kube.request("DELETE", f"{WORK}/asks?gracePeriodSeconds=0")
    play_role(lab, tmp_path, "rmd", "teardown", rmd_namespace="rmd-system")


def test_removal_leaves_nothing(cluster: Cluster) -> None:
    manifests = "\n---\n".join(map(cluster.manifests, ("full", "extender")))
    start = time.monotonic()
    remove = ("delete", "--ignore-not-found", "--wait=true", "--timeout=120s", "--filename=-")
    cluster.kubectl(*remove, given=manifests)
    for item in yaml.safe_load_all(manifests):
        group, _slash, version = item["apiVersion"].rpartition("/")
        kind = ".".join(filter(None, (item["kind"].lower(), group and version, group)))
        namespace = item["metadata"].get("namespace", "default")
        words = ("get", kind, item["metadata"]["name"], f"--namespace={namespace}")
        assert cluster.kubectl(*words, "--ignore-not-found") == "", item["metadata"]
    with pytest.raises(ApiError, match="not found"):
        cluster.kube.get(PODS.removesuffix("/pods"))
    told("overlay deleted → nothing left", start)
