# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Queries to Prometheus for Kepler's metrics, limited to series with given labels.

Each takes every series of Kepler once, even if several jobs scrape it.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.texts import shown
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering import kepler

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_ZONES = f'zone=~"{kepler.ADDED_ZONES}"'
DAY_SECONDS = 86_400.0
# Steps of a period; more steps would cost Prometheus more than they improve the answer.
_STEPS = 96


class Queries(t.NamedTuple):
    """Watts of nodes and pods of Kepler 0.10, CPUs of its pods, and watts of older versions.

    ``energy`` are the joules of pods in the last period, ``covered`` its seconds with series, in
    whole steps.
    """

    nodes: str
    pods: str
    cores: str
    energy: str
    covered: str
    old_nodes: str
    old_pods: str
    old_energy: str
    old_covered: str


def queries(labels: t.Mapping[str, t.Any], period_seconds: float = DAY_SECONDS) -> Queries:
    """The queries. Raises InvalidInput for labels that are invalid in Prometheus."""
    window = f"{int(period_seconds)}s"
    given = "".join(f",{name}={_quoted(name, value)}" for name, value in sorted(labels.items()))
    name = "node_name,pod_id,pod_namespace,pod_name"
    pod = f"{name},zone"
    old_name = "instance,container_namespace,pod_name"
    of_old_pods = f'mode="dynamic"{given}'
    of_container = '{state="running",pod_id!=""' + given + "}"
    return Queries(
        nodes=(
            "sum by (node_name,zone) (max by (node_name,zone,path) "
            f'({kepler.NODE_WATTS}{{zone!=""{given}}}))'
        ),
        pods=f'max by ({pod}) ({kepler.POD_WATTS}{{state="running",{_ZONES}{given}}})',
        # For Kepler's metrics of containers; the counter has no zone.
        cores=(
            "sum by (node_name,pod_id) (max by (node_name,pod_id,container_id) "
            f"(rate(kepler_container_cpu_seconds_total{of_container}[5m])))"
        ),
        energy=(
            f"sum by ({name}) (max by ({pod}) "
            f'(increase({kepler.POD_JOULES}{{state="running",{_ZONES}{given}}}[{window}])))'
        ),
        covered=_covered(f'{kepler.NODE_JOULES}{{zone=~"package.*"{given}}}', period_seconds),
        old_nodes=_old("node", "instance", "package,mode", f'mode!=""{given}'),
        old_pods=_old("container", old_name, "container_id", of_old_pods),
        old_energy=(
            f"sum by ({old_name}) ("
            + _old("container", old_name, "container_id", of_old_pods, f"increase({{}}[{window}])")
            + ")"
        ),
        old_covered=_covered(
            f'kepler_node_package_joules_total{{mode!=""{given}}}', period_seconds
        ),
    )


def _covered(series: str, period_seconds: float) -> str:
    window, step = int(period_seconds), int(period_seconds / _STEPS)
    return f"time() - min(min_over_time(timestamp({series})[{window}s:{step}s]))"


def _old(level: str, labels: str, more: str, matchers: str, growth: str = "rate({}[5m])") -> str:
    """Queries of the counters of Kepler 0.9 and older, for both zones.

    They give mean watts of five minutes by default, else the ``growth`` of the counters.
    """
    parts: list[str] = []
    for zone in kepler.ZONES:
        grown = growth.format(f"kepler_{level}_{zone}_joules_total{{{matchers}}}")
        largest = f"max by ({labels},{more}) ({grown})"
        parts.append(f'label_replace(sum by ({labels}) ({largest}),"zone","{zone}","","")')
    return " or ".join(parts)


def _quoted(name: str, value: t.Any) -> str:
    if not _LABEL_NAME.fullmatch(name) or not isinstance(value, str):
        raise InvalidInput(
            f"meter: labels: {shown(name)} with {shown(value)} is not a Prometheus label; give a "
            "name of letters, digits and underscores, and a text"
        )
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'
