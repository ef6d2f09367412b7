# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The queries for the power of pods, by Prometheus' promtool on metrics of simulated Keplers."""

from __future__ import annotations

import datetime
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering import metering
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering.pods import Pod
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering.queries import queries
from support.kepler_exporter import Load, MeteredNode
from support.promtool import lint, promtool, samples

NODES = (
    MeteredNode("n1", (Load("u1", "shop", "web-1", 3.0), Load("u2", "db", "pg-0", 1.0))),
    MeteredNode("n2", (Load("u3", "shop", "web-2", 2.0),), package=60.0, dram=5.0),
)
QUERIES = queries({"cluster": 'hall "1"'})
# Two jobs scrape the cluster, and one scrapes another with sevenfold values.
JOBS = ((r"hall \"1\"", "a", 1), (r"hall \"1\"", "b", 1), ("hall 2", "a", 7))
Expected = dict[tuple[tuple[str, str], ...], float]


def energy(*, is_old: bool = False) -> str:
    """The query for the joules of a day."""
    return QUERIES.energy(86_400.0, is_old=is_old)


def labelled(value: float, **labels: str) -> tuple[tuple[tuple[str, str], ...], float]:
    return tuple(sorted(labels.items())), value


def unmet(
    series: t.Mapping[str, str],
    expected: t.Mapping[str, Expected],
    folder: Path,
    interval: str = "1m",
) -> str:
    """promtool's contradictions to the results of queries over an hour of these series."""
    tests = [
        {
            "expr": query,
            "eval_time": "1h",
            "exp_samples": [
                {
                    "labels": "{" + ",".join(f'{name}="{text}"' for name, text in labels) + "}",
                    "value": value,
                }
                for labels, value in samples_.items()
            ],
        }
        for query, samples_ in expected.items()
    ]
    given = [{"series": name, "values": values} for name, values in series.items()]
    group = {"interval": interval, "input_series": given, "promql_expr_test": tests}
    path = folder / "metering.test.yml"
    path.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [group]}))
    done = promtool("test", "rules", str(path))
    return "" if done.returncode == 0 else done.stdout


def of_pods(names: tuple[str, str, str], *, with_uid: bool) -> Expected:
    """Power draw of all pods, with these labels for node, namespace and pod."""
    found: Expected = {}
    for node in NODES:
        for load in node.loads:
            for zone in ("package", "dram"):
                labels = dict(zip(names, (node.name, load.namespace, load.name), strict=True))
                labels.update({"pod_id": load.uid} if with_uid else {})
                watts = node.zones()[zone] * node.share(load)
                found.update([labelled(watts, zone=zone, **labels)])
    return found


def of_nodes(name: str, *zones: str) -> Expected:
    return dict(
        labelled(watts, zone=zone, **{name: node.name})
        for node in NODES
        for zone, watts in node.zones().items()
        if not zones or zone in zones
    )


def of_energy(names: tuple[str, str, str], begun: float, *, with_uid: bool) -> Expected:
    """Joules of all pods in the hour, including their counters' values at its start."""
    found: Expected = {}
    for node in NODES:
        for load in node.loads:
            labels = dict(zip(names, (node.name, load.namespace, load.name), strict=True))
            labels.update({"pod_id": load.uid} if with_uid else {})
            watts = (node.package + node.dram) * node.share(load)
            # Counters that grow from almost zero began within the first minute.
            found.update([labelled(round(watts * 3600 + begun, 6), **labels)])
    return found


def test_names_units_and_form_of_the_metrics_are_as_prometheus_wants_them() -> None:
    pod = Pod("shop", "web-1", "u1", "n1", "Deployment", "web")
    now = datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)
    found = metering.Metering("kepler", now, {pod: {"package": 1.5}}, {"n1": {"package": 20.0}})
    assert lint(found.metrics({"cluster": "hall-1"})) == ""


def scraped(early: t.Mapping[str, float], late: t.Mapping[str, float]) -> dict[str, str]:
    """Series of an hour in promtool's form, from two scrapes a minute apart."""
    return {
        name.replace("{", f'{{cluster="{cluster}",job="{job}",'): (
            f"{value * factor!r}+{(late[name] - value) * factor!r}x60"
        )
        for name, value in early.items()
        for cluster, job, factor in JOBS
    }


def test_pods_and_nodes_have_their_watts_however_many_jobs_scrape_them(tmp_path: Path) -> None:
    series: dict[str, str] = {}
    for node in NODES:
        early, late = (
            samples(node.text(seconds) + node.container_text(seconds)) for seconds in (0.0, 60.0)
        )
        series.update(scraped(early, late))
    cores = dict(
        labelled(load.cores, node_name=node.name, pod_id=load.uid)
        for node in NODES
        for load in node.loads
    )
    names = ("node_name", "pod_namespace", "pod_name")
    expected = {
        QUERIES.nodes: of_nodes("node_name"),
        QUERIES.pods: of_pods(names, with_uid=True),
        QUERIES.cores: cores,
        # Two zones.
        f"round({energy()}, 1e-6)": of_energy(names, 4.0, with_uid=True),
        QUERIES.covered: dict([labelled(3600.0)]),
    }
    assert unmet(series, expected, tmp_path) == ""
    wrong = {QUERIES.nodes: {**of_nodes("node_name"), (("node_name", "n3"),): 1.0}}
    assert unmet(series, wrong, tmp_path)


def test_counters_of_older_versions_give_the_same_watts(tmp_path: Path) -> None:
    series: dict[str, str] = {}
    for node in NODES:
        early, late = (
            # Kepler's monitor puts the node's name there.
            {
                name
                if "instance=" in name
                else name.replace("{", f'{{instance="{node.name}",'): value
                for name, value in samples(node.old_text(seconds)).items()
            }
            for seconds in (0.0, 60.0)
        )
        series.update(scraped(early, late))
    names = ("instance", "container_namespace", "pod_name")
    expected = {
        QUERIES.old_nodes: of_nodes("instance", "package", "dram"),
        QUERIES.old_pods: of_pods(names, with_uid=False),
        # Two zones of two containers.
        energy(is_old=True): of_energy(names, 12.0, with_uid=False),
        QUERIES.old_covered: dict([labelled(3600.0)]),
    }
    # Sums of counters that grow by tenths are inexact.
    rounded = {f"round({query}, 1e-6)": samples_ for query, samples_ in expected.items()}
    assert unmet(series, rounded, tmp_path) == ""


@pytest.mark.parametrize("period", [3600.0, 86_400.0])
@pytest.mark.parametrize("has", [60, 300, 3000])
@pytest.mark.parametrize("is_old", [False, True])
def test_joules_are_those_of_the_seconds_that_are_told(
    tmp_path: Path, is_old: bool, has: int, period: float
) -> None:
    """Scrapes of every 15 s began this many seconds ago; Kepler had counted for a while."""
    node, before = NODES[0], 5000.0
    late, early = (
        samples((node.old_text if is_old else node.text)(before + seconds))
        for seconds in (15.0, 0.0)
    )
    counts = has // 15
    series = {
        (name if "instance=" in name else name.replace("{", '{instance="n1",')).replace(
            "{", '{cluster="hall \\"1\\"",'
        ): f"_x{240 - counts} {value!r}+{late[name] - value!r}x{counts}"
        for name, value in early.items()
    }
    asked = queries({"cluster": 'hall "1"'}, period)
    covered = asked.old_covered if is_old else asked.covered
    step = period / 96
    watts = (node.package + node.dram) * sum(map(node.share, node.loads))
    # The longest and the shortest time that may be told.
    told = {has, max(45, has - step)}
    one: Expected = {(): 1.0}
    expected = {
        f"vector(scalar({covered}) <= bool {has})": one,
        f"vector(scalar({covered}) >= bool {has - step})": one,
    }
    for seconds in told:
        per_second = f"scalar(sum({asked.energy(seconds, is_old=is_old)})) / {int(seconds)}"
        expected[f"abs(vector({per_second} - {watts!r})) < bool {watts * 0.01}"] = one
    assert unmet(series, expected, tmp_path, "15s") == ""
