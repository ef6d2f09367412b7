# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Queries to Prometheus for Kepler's metrics, limited to series with given labels.

Each takes every series of Kepler once, however many jobs scrape it.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.texts import shown
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering import kepler

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_ZONES = 'zone=~"package|dram"'


class Queries(t.NamedTuple):
    """Watts of nodes and pods of Kepler 0.10, CPUs of its pods, and watts of older versions."""

    nodes: str
    pods: str
    cores: str
    old_nodes: str
    old_pods: str


def queries(labels: t.Mapping[str, t.Any]) -> Queries:
    """The queries. Raises InvalidInput for labels that Prometheus does not take."""
    given = "".join(f",{name}={_quoted(name, value)}" for name, value in sorted(labels.items()))
    pod = "node_name,pod_id,pod_namespace,pod_name,zone"
    of_container = '{state="running",pod_id!=""' + given + "}"
    return Queries(
        nodes=(
            "sum by (node_name,zone) (max by (node_name,zone,path) "
            f"({kepler.NODE_WATTS}{{{_ZONES}{given}}}))"
        ),
        pods=f'max by ({pod}) ({kepler.POD_WATTS}{{state="running",{_ZONES}{given}}})',
        # Where Kepler exports containers; the counter has no zone.
        cores=(
            "sum by (node_name,pod_id) (max by (node_name,pod_id,container_id) "
            f"(rate(kepler_container_cpu_seconds_total{of_container}[5m])))"
        ),
        old_nodes=_old("node", "instance", "package,mode", f'mode!=""{given}'),
        old_pods=_old(
            "container",
            "instance,container_namespace,pod_name",
            "container_id",
            f'mode="dynamic"{given}',
        ),
    )


def _old(level: str, labels: str, more: str, matchers: str) -> str:
    """Mean watts of five minutes from the counters of Kepler 0.9 and older, for both zones."""
    parts = (
        f"label_replace(sum by ({labels}) (max by ({labels},{more}) "
        f"(rate(kepler_{level}_{zone}_joules_total{{{matchers}}}[5m]))),"
        f'"zone","{zone}","","")'
        for zone in kepler.ZONES
    )
    return " or ".join(parts)


def _quoted(name: str, value: t.Any) -> str:
    if not _LABEL_NAME.fullmatch(name) or not isinstance(value, str):
        raise InvalidInput(
            f"meter: labels: {shown(name)} with {shown(value)} is no label of Prometheus; give a "
            "name of letters, digits and underscores, and a text"
        )
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'
