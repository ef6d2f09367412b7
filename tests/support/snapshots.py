# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshot documents with objects that no API server would return, for tests of boundaries."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import resolve

Json = dict[str, t.Any]


def with_targets(body: Json) -> Json:
    """A snapshot's body with the resolved targets of its NodeConfigs, as in the snapshot step."""
    targets = resolve(body["nodes"], body["node_configs"])
    return {**body, "targets": targets.as_dict()}


def write_snapshot(folder: Path, **parts: t.Any) -> str:
    """Write a snapshot document with these parts, without validation; return its path."""
    path = folder / "snapshot.json"
    body = {
        "document": "wattwise.kube/snapshot/v1",
        "time": "2026-01-31T12:00:00Z",
        "cluster": {},
        **parts,
    }
    if "node_configs" in parts:
        body = with_targets(body)
    path.write_text(json.dumps(body), encoding="ascii")
    return str(path)
