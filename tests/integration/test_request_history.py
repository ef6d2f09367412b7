# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The queries for the history of requests, evaluated by Prometheus' promtool."""

from __future__ import annotations

from pathlib import Path

import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.sleep.replay import history
from support.promtool import promtool

POD = 'namespace="shop",pod="web",uid="u1"'
OF_POD = f'{POD},cluster="hall"'
QUERIES = history.queries({"cluster": "hall"}, 300)


def test_a_pod_is_there_from_its_first_to_its_last_sample(tmp_path: Path) -> None:
    requests = "kube_pod_container_resource_requests"
    series = {
        # From 2 to 12 hours, then it is finished; two jobs scrape it.
        f'kube_pod_status_phase{{{OF_POD},phase="Running",job="a"}}': "_x24 1x120 0x140",
        f'kube_pod_status_phase{{{OF_POD},phase="Running",job="b"}}': "_x24 1x120 0x140",
        f'{requests}{{{OF_POD},node="n1",container="c",resource="cpu",unit="core",job="a"}}': (
            "_x24 0.5x260"
        ),
        f'{requests}{{{OF_POD},node="n1",container="c",resource="cpu",unit="core",job="b"}}': (
            "_x24 0.5x260"
        ),
        f'{requests}{{{OF_POD},node="n1",container="d",resource="cpu",unit="core",job="a"}}': (
            "_x24 0.25x260"
        ),
        f'kube_pod_info{{{OF_POD},node="n1",created_by_kind="ReplicaSet",created_by_name="web"}}': (
            "_x24 1x260"
        ),
        # Of another cluster.
        f'kube_pod_status_phase{{{POD},phase="Running",cluster="other"}}': "1x280",
    }
    expected = {
        QUERIES.first: (f"{{{POD}}}", 2 * 3600.0),
        QUERIES.last: (f"{{{POD}}}", 12 * 3600.0),
        QUERIES.requests: (f'{{{POD},node="n1",resource="cpu",unit="core"}}', 0.75),
        QUERIES.owners: (f'{{{POD},created_by_kind="ReplicaSet",created_by_name="web"}}', 1.0),
    }
    tests = [
        {"expr": query, "eval_time": "23h", "exp_samples": [{"labels": labels, "value": value}]}
        for query, (labels, value) in expected.items()
    ]
    given = [{"series": name, "values": values} for name, values in series.items()]
    group = {"interval": "5m", "input_series": given, "promql_expr_test": tests}
    path = tmp_path / "history.test.yml"
    path.write_text(yaml.safe_dump({"evaluation_interval": "5m", "tests": [group]}))
    done = promtool("test", "rules", str(path))
    assert done.returncode == 0, done.stdout
