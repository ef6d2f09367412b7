# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests that need a lab: one lab a test run, one namespace a test.

Without the environment's WATTWISE_TEST_LAB_STATE the lab starts with the first test that asks for
it, in a temporary folder, is shared by all pytest-xdist workers and goes with the last of them.
With it the lab in that folder is used, started where it does not run, and left running.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from lab import controlplane, lifecycle
from lab.api import Api, ApiError
from lab.errors import LabError
from lab.locks import file_lock
from lab.process import wait_until
from lab.state import LabSettings, LabState


@dataclass(frozen=True)
class RunningLab:
    """A lab that is ready; `settings` tells its size and ports.

    Tests hold `in_use` shared, and those that disturb others exclusively.
    """

    state: LabState
    settings: LabSettings
    in_use: IO[str] = field(repr=False)

    @property
    def kubeconfig(self) -> str:
        return str(self.state.kubeconfig)


@pytest.fixture(scope="session")
def lab_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabState]:
    """The folder of this run's lab, which may not have been started yet."""
    if named := os.environ.get("WATTWISE_TEST_LAB_STATE"):
        yield LabState.chosen(named)
        return
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # each worker has a folder of its own in the run's
    state = LabState(folder / "lab")
    _count_users(folder, +1)
    try:
        yield state
    finally:
        if _count_users(folder, -1) == 0:
            lifecycle.down(state, print)


@pytest.fixture(scope="session")
def lab(lab_state: LabState) -> Iterator[RunningLab]:
    """Control plane and nodes."""
    settings = up(lab_state, (lifecycle.CONTROL_PLANE,))
    with (lab_state.run / "in-use").open("w") as in_use:
        yield RunningLab(lab_state, settings, in_use)


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
    """A namespace of the test's own, in which pods can be made."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    with _held(lab, fcntl.LOCK_SH), Api(lab.state.kubeconfig) as api:
        create_namespace(api, name)
        yield name
    with Api(lab.state.kubeconfig) as api, contextlib.suppress(ApiError):
        api.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def restart_apiserver(lab: RunningLab, namespace: str) -> Iterator[Callable[[], None]]:
    """Stops the API server and starts it again; returns when it is ready.

    No test with a namespace runs meanwhile in another worker.
    """
    if lab.settings.existing_cluster:
        pytest.skip("the API server of an existing cluster (LAB_KUBECONFIG) is not restarted")
    with _held(lab, fcntl.LOCK_EX):
        yield lambda: controlplane.restart_apiserver(lab.state)


def up(state: LabState, parts: tuple[str, ...]) -> LabSettings:
    """Bring these parts up beside those that run already."""
    try:
        settings = state.read_settings()
    except LabError:
        settings = LabSettings()
    lifecycle.up(state, dataclasses.replace(settings, parts=parts), print)
    return state.read_settings()


def create_namespace(api: Api, name: str) -> None:
    """Create the namespace and wait for its service account, which every pod needs."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    api.request("POST", "/api/v1/namespaces", namespace)
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_until(lambda: exists(api, account), 10.0, f"the service account of namespace {name}")


def exists(api: Api, path: str) -> bool:
    """Whether the API server has this object."""
    try:
        api.request("GET", path)
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return True


@contextlib.contextmanager
def _held(lab: RunningLab, mode: int) -> Iterator[None]:
    fcntl.flock(lab.in_use, mode)
    try:
        yield
    finally:
        fcntl.flock(lab.in_use, fcntl.LOCK_UN)


def _count_users(folder: Path, change: int) -> int:
    """How many workers use the lab of this run after the change."""
    count = folder / "lab-users"
    with file_lock(folder / "lab-users.lock", print, "another worker"):
        users = (int(count.read_text()) if count.exists() else 0) + change
        count.write_text(str(users))
    return users
