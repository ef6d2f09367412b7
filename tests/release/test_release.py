# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A release of the current commit, made twice, and each of its files used as its readers use it.

The gate `released` sets WATTWISE_WITHOUT to `image` where no image can be built.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab.gotools import build
from lab.process import wait_until
from scripts import containers
from scripts.manifests.programs import PROGRAMS
from scripts.release.programs import HELM
from scripts.release.source import version_of
from support.lab import RunningLab, kubeconfig, lab, lab_state

__all__ = ["kubeconfig", "lab", "lab_state"]

REPOSITORY = Path(os.environ["WATTWISE_REPOSITORY"])
VERSION = version_of(REPOSITORY)
COLLECTION = f"wattwise-kube-{VERSION}"
WITHOUT = os.environ.get("WATTWISE_WITHOUT", "")
# Options of a module that needs no cluster.
TEMPLATE = {
    "apiVersion": "wao.bitmedia.co.jp/v1beta1",
    "kind": "NodeConfigTemplate",
    "metadata": {"name": "rack-1", "namespace": "wao-system"},
    "spec": {
        "nodeSelector": {"matchLabels": {"rack": "r1"}},
        "template": {
            "metricsCollector": {
                "inletTemp": {"type": "Redfish", "endpoint": "https://10.0.100.11"},
                "deltaP": {"type": "DifferentialPressureAPI", "endpoint": "http://10.0.0.1:5000"},
            },
            "predictor": {},
        },
    },
}
NODE = {
    "metadata": {
        "name": "worker-1",
        "labels": {"kubernetes.io/hostname": "worker-1", "rack": "r1"},
    },
    "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.11"}]},
}
FLEET = {
    "apiVersion": "wattwise.github.io/v1alpha1",
    "kind": "PowerFleet",
    "metadata": {"name": "any"},
    "spec": {"suspend": True},
}


def run(*command: str, folder: Path, **variables: str) -> str:
    """Output of a command, which must succeed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commit alone, whatever is edited in the work tree."""
    folder = tmp_path_factory.mktemp("clone") / "clone"
    run("git", "clone", "--quiet", str(REPOSITORY), str(folder), folder=REPOSITORY)
    (folder / ".venvs").symlink_to(REPOSITORY / ".venvs")
    return folder


def release(clone: Path, folder: Path, *options: str) -> Path:
    """The folder of the files that one `make release` makes."""
    without = ("--without", WITHOUT) if WITHOUT else ()
    command = (sys.executable, "-m", "scripts.release", VERSION, "--output", str(folder))
    run(*command, *without, *options, folder=clone)
    return folder


@pytest.fixture(scope="session")
def released(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release(clone, tmp_path_factory.mktemp("first") / "files")


def extracted(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


def test_a_second_release_has_equal_bytes(clone: Path, released: Path, tmp_path: Path) -> None:
    again = release(clone, tmp_path / "again")
    files = sorted(path.name for path in released.iterdir())
    assert files == sorted(path.name for path in again.iterdir())
    differing = [
        name for name in files if (released / name).read_bytes() != (again / name).read_bytes()
    ]
    assert not differing


def test_the_checksums_are_those_of_all_files(released: Path) -> None:
    checked = run("sha256sum", "--check", "--strict", "SHA256SUMS", folder=released)
    names = {line.partition(":")[0] for line in checked.splitlines()}
    assert names == {path.name for path in released.iterdir()} - {"SHA256SUMS"}


def test_a_module_runs_in_an_empty_environment(released: Path, tmp_path: Path) -> None:
    python = str(REPOSITORY / ".venvs" / "uv" / "bin" / "python")
    uv = (python, "-m", "scripts.registry_settings", str(Path(python).parent / "uv"))
    environment = tmp_path / "environment"
    tools = ("pip", "install", "--quiet", "--no-config", "--require-hashes", "-r")
    run(
        *uv,
        "venv",
        "--quiet",
        "--no-project",
        "-p",
        sys.executable,
        str(environment),
        folder=REPOSITORY,
    )
    lock = released / f"{COLLECTION}-requirements-locked.txt"
    run(*uv, *tools, str(lock), folder=REPOSITORY, VIRTUAL_ENV=str(environment))
    variables = {
        "HOME": str(tmp_path),
        "PATH": f"{environment / 'bin'}{os.pathsep}{os.defpath}",
        "PYTHONPATH": "",
        "ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "collections"),
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    install = ("ansible-galaxy", "collection", "install", "--offline", "-p", "collections")
    run(*install, str(released / f"{COLLECTION}.tar.gz"), folder=tmp_path, **variables)
    module = ("ansible", "localhost", "-m", "wattwise.kube.node_config_template")
    options = json.dumps({"templates": [TEMPLATE], "nodes": [NODE]})
    answer = run(*module, "-a", options, folder=tmp_path, **variables)
    result = json.loads(answer[answer.index("{") :])
    [rendered] = result["node_configs"]
    assert rendered["spec"]["nodeName"] == "worker-1"


def test_the_changelog_has_the_version(released: Path, tmp_path: Path) -> None:
    folder = extracted(released / f"{COLLECTION}.tar.gz", tmp_path)
    assert f"\nv{VERSION}\n===" in (folder / "CHANGELOG.rst").read_text()
    assert not list((folder / "changelogs" / "fragments").glob("*.yml"))


def test_the_overlays_can_be_built_from_their_archive(released: Path, tmp_path: Path) -> None:
    folder = extracted(released / f"{COLLECTION}-kustomize.tar.gz", tmp_path)
    kustomize = str(build(PROGRAMS, print) / "kustomize")
    overlay = f"{COLLECTION}-kustomize/operator/config/overlays/full"
    assert f":{VERSION}" in run(kustomize, "build", overlay, folder=folder)


def test_the_chart_can_be_rendered(released: Path) -> None:
    helm = str(build(HELM, print) / "helm")
    chart = f"./wattwise-operator-{VERSION}.tgz"
    image = "--set=image.repository=registry.example/wattwise-operator"
    rendered = run(helm, "template", "any", chart, image, folder=released)
    assert f"registry.example/wattwise-operator:{VERSION}" in rendered


def test_the_chart_is_installed_upgraded_and_removed(lab: RunningLab, released: Path) -> None:
    """By Helm on a real API server; no kubelet starts the pods."""
    kube = Kube.connect({"kubeconfig": lab.kubeconfig})
    for namespace in ("wao-system", "rmd-system", "bpa-system", "kepler", "kepler-authority"):
        if kube.find(f"/api/v1/namespaces/{namespace}") is None:
            kube.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    deployment = "/apis/apps/v1/namespaces/wattwise-system/deployments/wattwise-operator"
    fleets = (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/powerfleets.wattwise.github.io"
    )
    program = (str(build(HELM, print) / "helm"), f"--kubeconfig={lab.kubeconfig}")
    chart = f"./wattwise-operator-{VERSION}.tgz"
    values = ("--set=overlay=full", "--set=image.repository=registry.example/wattwise-operator")

    run(*program, "install", "wattwise", chart, *values, folder=released)
    [first, *_rest] = kube.get(deployment)["spec"]["template"]["spec"]["containers"]
    assert first["image"] == f"registry.example/wattwise-operator:{VERSION}"
    # Helm does not wait until the API server serves new kinds.
    path = "/apis/wattwise.github.io/v1alpha1/namespaces/default/powerfleets"
    wait_until(lambda: kube.find(path) is not None, 60.0, "kind PowerFleet to be served")
    kube.request("POST", path, FLEET)

    run(*program, "upgrade", "wattwise", chart, *values, "--set=image.tag=next", folder=released)
    [first, *_rest] = kube.get(deployment)["spec"]["template"]["spec"]["containers"]
    assert first["image"] == "registry.example/wattwise-operator:next"

    run(*program, "uninstall", "wattwise", "--wait", folder=released)
    assert kube.find(deployment) is None
    assert kube.find(fleets) is not None


def test_the_context_has_what_the_dockerfile_copies(released: Path, tmp_path: Path) -> None:
    folder = extracted(released / f"{COLLECTION}-image-context.tar.gz", tmp_path)
    context = folder / f"{COLLECTION}-image-context"
    lines = (context / "operator" / "Dockerfile").read_text().splitlines()
    copied = [
        name
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for name in line.split()[1:-1]
    ]
    assert copied and all((context / name).exists() for name in copied)


@pytest.mark.skipif(bool(WITHOUT), reason="no image can be built here")
def test_the_image_runs_and_says_what_it_is(released: Path) -> None:
    archive = released / f"wattwise-operator-{VERSION}.oci.tar"
    loaded = run("podman", "load", "--quiet", "--input", str(archive), folder=released)
    name = loaded.strip().rpartition(" ")[2]
    try:
        inspect = ("podman", "image", "inspect", "--format", "{{json .Labels}}", name)
        labels = json.loads(run(*inspect, folder=released))
        assert labels["org.opencontainers.image.version"] == VERSION
        commit = run("git", "rev-parse", "HEAD", folder=REPOSITORY).strip()
        assert labels["org.opencontainers.image.revision"] == commit
        version = run(*containers.RUN, name, "ansible-operator", "version", folder=released)
        assert "ansible-operator version" in version
    finally:
        run("podman", "rmi", name, folder=released)


def test_a_version_that_galaxy_does_not_have_is_refused(clone: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.release", "9.9.9"],
        cwd=clone,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "make version VERSION=9.9.9" in done.stderr


def test_changes_that_are_not_committed_are_refused(clone: Path, tmp_path: Path) -> None:
    other = tmp_path / "clone"
    run("git", "clone", "--quiet", str(clone), str(other), folder=tmp_path)
    with (other / "LICENSE").open("a") as file:
        file.write("more")
    done = subprocess.run(
        [sys.executable, "-m", "scripts.release", VERSION],
        cwd=other,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "commit or stash" in done.stderr) == (1, True)
