# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Queries to Prometheus for Kepler's metrics, limited to series with given labels.

Each takes every series of Kepler once, even if several jobs scrape it.
"""

from __future__ import annotations

import re
import typing as t

from ...base.errors import InvalidInput
from ...base.metrics import LABEL_NAME
from ...base.texts import shown
from . import kepler

_LABEL_NAME = re.compile(LABEL_NAME, re.ASCII)
_ZONES = f'zone=~"{kepler.ADDED_ZONES}"'
_NAME = "node_name,pod_id,pod_namespace,pod_name"
_OLD_NAME = "instance,container_namespace,pod_name"
_OF_OLD_PODS = 'mode="dynamic"'
DAY_SECONDS = 86_400.0
# Steps of a period; more steps would cost Prometheus more than they improve the answer.
_STEPS = 96


class Queries(t.NamedTuple):
    """Power draw of nodes and pods of Kepler 0.10, CPUs of its pods, and watts of older versions.

    ``covered`` are the seconds of the last period with series, at most a step less than all.
    """

    matchers: str
    nodes: str
    pods: str
    cores: str
    covered: str
    old_nodes: str
    old_pods: str
    old_covered: str

    def energy(self, seconds: float, *, is_old: bool) -> str:
        """Joules of pods in the last seconds.

        Prometheus extends the growth of a counter to both ends of the time, so the seconds must
        have series: the joules of a longer time would be those of an unknown part of it.
        """
        window = f"{int(seconds)}s"
        if is_old:
            matchers = _OF_OLD_PODS + self.matchers
            grown = _old("container", _OLD_NAME, "container_id", matchers, window)
            return f"sum by ({_OLD_NAME}) ({grown})"
        series = f'{kepler.POD_JOULES}{{state="running",{_ZONES}{self.matchers}}}'
        return f"sum by ({_NAME}) (max by ({_NAME},zone) (increase({series}[{window}])))"


def queries(labels: t.Mapping[str, t.Any], period_seconds: float = DAY_SECONDS) -> Queries:
    """The queries. Raises InvalidInput for labels that are invalid in Prometheus."""
    given = "".join(f",{name}={_quoted(name, value)}" for name, value in sorted(labels.items()))
    pod = f"{_NAME},zone"
    of_container = '{state="running",pod_id!=""' + given + "}"
    return Queries(
        matchers=given,
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
        covered=_covered(f"{kepler.NODE_JOULES}{{{_ZONES}{given}}}", period_seconds),
        old_nodes=_old("node", "instance", "package,mode", f'mode!=""{given}'),
        old_pods=_old("container", _OLD_NAME, "container_id", _OF_OLD_PODS + given),
        old_covered=_covered(
            f'kepler_node_package_joules_total{{mode!=""{given}}}', period_seconds
        ),
    )


def _covered(series: str, period_seconds: float) -> str:
    window, step = int(period_seconds), int(period_seconds / _STEPS)
    return f"time() - min(min_over_time(timestamp({series})[{window}s:{step}s]))"


def _old(level: str, labels: str, more: str, matchers: str, window: str = "") -> str:
    """Queries of the counters of Kepler 0.9 and older, for both zones.

    They give joules of the ``window``, by default the mean power of five minutes.
    """
    parts: list[str] = []
    for zone in kepler.ZONES:
        series = f"kepler_{level}_{zone}_joules_total{{{matchers}}}"
        grown = f"increase({series}[{window}])" if window else f"rate({series}[5m])"
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
