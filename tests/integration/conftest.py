# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab for every integration test: started by the first test that asks for it."""

from __future__ import annotations

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from support.lab import kubeconfig, lab, lab_state, namespace, restart_apiserver, whole_lab

__all__ = ["kubeconfig", "lab", "lab_state", "namespace", "restart_apiserver", "whole_lab"]


@pytest.fixture
def kube(kubeconfig: str) -> Kube:
    """The library's client for the lab's API server."""
    return Kube.connect({"kubeconfig": kubeconfig})
