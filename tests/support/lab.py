# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests that need a lab: one lab per worker, one namespace per test.

Without the environment's WATTWISE_TEST_LAB_STATE, the first test that needs the lab starts it in a
temporary folder, and it ends with its worker (without pytest-xdist, with the run). So a test may
restart the API server or break a machine without disturbing the tests of another worker. With the
variable, the lab in that folder is used, started if it does not run, and left running.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from lab import controlplane, lifecycle
from lab.api import Api, ApiError
from lab.errors import LabError
from lab.process import wait_until
from lab.state import LabSettings, LabState

# Kinds that runs read in all namespaces.
OURS = {
    "wao.bitmedia.co.jp/v1beta1": ("nodeconfigtemplates", "nodeconfigs"),
    "node.waok8s.github.io/v1beta1": ("nodeconfigtemplates", "nodeconfigs"),
    "intel.com/v1alpha1": ("rmdworkloads", "rmdconfigs", "rmdnodestates"),
    "wattwise.github.io/v1alpha1": ("powerfleets",),
}


@dataclass(frozen=True)
class RunningLab:
    """A ready lab; `settings` has its size and ports."""

    state: LabState
    settings: LabSettings

    @property
    def kubeconfig(self) -> str:
        return str(self.state.kubeconfig)


@pytest.fixture(scope="session")
def lab_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabState]:
    """Folder of this run's lab, which may not be started yet."""
    if named := os.environ.get("WATTWISE_TEST_LAB_STATE"):
        yield LabState.chosen(named)
        return
    state = LabState(tmp_path_factory.getbasetemp() / "lab")
    try:
        yield state
    finally:
        lifecycle.down(state, print)


@pytest.fixture(scope="session")
def lab(lab_state: LabState) -> RunningLab:
    """Control plane and nodes."""
    return RunningLab(lab_state, up(lab_state, (lifecycle.CONTROL_PLANE,)))


@pytest.fixture(scope="session")
def whole_lab(lab: RunningLab) -> RunningLab:
    """The same lab with all its simulators."""
    return dataclasses.replace(lab, settings=up(lab.state, lifecycle.PARTS))


@pytest.fixture(scope="session")
def kubeconfig(lab: RunningLab) -> str:
    """Path of the administrator's kubeconfig."""
    return lab.kubeconfig


@pytest.fixture
def namespace(lab: RunningLab) -> Iterator[str]:
    """A namespace for one test, in which pods can be created."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    with Api(lab.state.kubeconfig) as api:
        create_namespace(api, name)
        yield name
    with Api(lab.state.kubeconfig) as api:
        # Deletion of the namespace is slow. Cluster-wide runs must not see its objects.
        for group_version, plurals in OURS.items():
            for plural in plurals:
                path = f"/apis/{group_version}/namespaces/{name}/{plural}"
                with contextlib.suppress(ApiError):
                    api.request("DELETE", path)
        with contextlib.suppress(ApiError):
            api.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def restart_apiserver(lab: RunningLab) -> Callable[[], None]:
    """Restart the API server; return when it is ready."""
    if lab.settings.existing_cluster:
        pytest.skip("the API server of an existing cluster (LAB_KUBECONFIG) is not restarted")
    return lambda: controlplane.restart_apiserver(lab.state)


def up(state: LabState, parts: tuple[str, ...]) -> LabSettings:
    """Start these parts beside those that already run."""
    try:
        settings = state.read_settings()
    except LabError:
        settings = LabSettings()
    lifecycle.up(state, dataclasses.replace(settings, parts=parts), print)
    return state.read_settings()


def create_namespace(api: Api, name: str) -> None:
    """Create the namespace and wait for the objects that controllers put into it."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    api.request("POST", "/api/v1/namespaces", namespace)
    for member in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
        path = f"/api/v1/namespaces/{name}/{member}"
        wait_until(functools.partial(exists, api, path), 10.0, f"{member} of namespace {name}")


def exists(api: Api, path: str) -> bool:
    """Whether the API server has this object."""
    return api.find(path) is not None
