# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watts predicted by curves at the current CPU use, as placement writes them for Prometheus."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place

Json = dict[str, t.Any]

CURVE = {"cpu": [0.0, 10.0], "watts": [200.0, 400.0]}
REQUESTS = {"name": "c", "resources": {"requests": {"cpu": "4"}}}


def metrics(folder: Path, curve: Json | None = None, **parameters: t.Any) -> str:
    """The file that placement writes for a node with 5 cores in use and a pod that requests 4."""
    allocatable = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    body = {
        "cluster": {},
        "nodes": [{"metadata": {"name": "n1"}, "status": {"allocatable": allocatable}}],
        "pods": [
            {
                "metadata": {"name": "p", "namespace": "d"},
                "spec": {"nodeName": "n1", "containers": [REQUESTS]},
                "status": {"phase": "Running"},
            },
            {
                "metadata": {"name": "q", "namespace": "d"},
                "spec": {"schedulerName": "wattwise", "containers": [REQUESTS]},
            },
        ],
        "node_metrics": [{"metadata": {"name": "n1"}, "usage": {"cpu": "5000m"}}],
    }
    documents.write(str(folder / "snapshot.json"), "snapshot", body)
    curves = {} if curve is None else {"n1": curve}
    documents.write(str(folder / "curves.json"), "curves", {"curves": curves})
    path = folder / "predicted.prom"
    place(
        {
            "snapshot": str(folder / "snapshot.json"),
            "curves": str(folder / "curves.json"),
            "strategy": "greedy",
            "textfile": str(path),
            **parameters,
        }
    )
    assert path.stat().st_mode & 0o777 == 0o644
    return path.read_text()


@pytest.mark.parametrize(
    ("source", "watts"), [("auto", 300.0), ("metrics", 300.0), ("requests", 264.0)]
)
def test_it_is_the_curve_s_value_at_the_use_before_anything_is_placed(
    tmp_path: Path, source: str, watts: float
) -> None:
    text = metrics(tmp_path, CURVE, usage_source=source)
    assert f'wattwise_predicted_power_watts{{node="n1"}} {watts:g}\n' in text


def test_a_node_that_may_be_powered_off_is_predicted_as_it_runs(tmp_path: Path) -> None:
    text = metrics(tmp_path, CURVE, allow_power_off=True)
    assert 'wattwise_predicted_power_watts{node="n1"} 300\n' in text


@pytest.mark.parametrize("curve", [None, {"cpu": [6.0, 10.0], "watts": [200.0, 400.0]}])
def test_a_node_without_a_curve_for_its_use_is_left_out(tmp_path: Path, curve: Json | None) -> None:
    assert "wattwise_predicted_power_watts{" not in metrics(tmp_path, curve)


def test_labels_are_on_every_sample(tmp_path: Path) -> None:
    text = metrics(tmp_path, CURVE, textfile_labels={"cluster": "hall-1"})
    assert '{node="n1",cluster="hall-1"} 300\n' in text
    with pytest.raises(InvalidInput, match="cannot be a label"):
        metrics(tmp_path, CURVE, textfile_labels={"node": "x"})
