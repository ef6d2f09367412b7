# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab for every integration test: started by the first test that asks for it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from support.lab import kubeconfig, lab, lab_state, namespace, restart_apiserver, whole_lab
from support.operator_ports import require_operator_ports
from support.sleeping_lab import sleeping

__all__ = [
    "kubeconfig",
    "lab",
    "lab_state",
    "namespace",
    "restart_apiserver",
    "sleeping",
    "whole_lab",
]


def pytest_collection_finish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        require_operator_ports(item.nodeid for item in session.items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(ids: t.Sequence[str]) -> None:
    require_operator_ports(ids)


@pytest.fixture
def kube(kubeconfig: str) -> Kube:
    """The library's client for the lab's API server."""
    return Kube.connect({"kubeconfig": kubeconfig})
