# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods and nodes with the fields that the watcher reads."""

from __future__ import annotations

import typing as t

Json = dict[str, t.Any]


def waiting_pod(name: str = "p", scheduler: str = "wattwise", **metadata: t.Any) -> Json:
    spec = {"schedulerName": scheduler, "containers": [{"name": "c"}]}
    return {
        "metadata": {"name": name, "namespace": "work", **metadata},
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def node(name: str, ready: str = "True", **labels: str) -> Json:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "allocatable": {"cpu": "8"},
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        },
    }
