# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KeplerSystems and Nodes to try them on, without a cluster."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.groups import (
    Group,
    group,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.nodes import (
    JudgedNode,
    judge_all,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.system import (
    System,
    read_system,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.labels import (
    METER_LABEL,
    SUPPORTED_LABEL,
)

Json = dict[str, t.Any]

IMAGE = {"repository": "registry.example/kepler"}


def system(**spec: t.Any) -> System:
    """The system kepler in namespace kepler."""
    return read_system("kepler", "kepler", {"image": IMAGE, **spec})


def node(
    name: str,
    architecture: str = "amd64",
    *,
    metal: bool = True,
    labels: t.Mapping[str, str] | None = None,
    annotations: t.Mapping[str, str] | None = None,
) -> Json:
    """A Node as its kubelet and cloud provider create it."""
    info = {"architecture": architecture, "operatingSystem": "linux", "kernelVersion": "6.1.0"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/arch": architecture, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": {"providerID": f"metal3://metal/{name}" if metal else f"aws:///zone/{name}"},
        "status": {"nodeInfo": info},
    }


def labels_of(meter: str, *, supported: bool = True) -> dict[str, str]:
    """The probe's labels for a node."""
    return {METER_LABEL: meter, SUPPORTED_LABEL: "true" if supported else "false"}


def judged(wanted: System, nodes: t.Iterable[t.Any]) -> tuple[list[JudgedNode], list[Group]]:
    """The verdicts on readable nodes, and the groups of the nodes."""
    found, findings = judge_all(wanted, nodes)
    assert not findings
    return found, group(wanted, found)


def selected_by(terms: t.Sequence[Json], name: str, labels: t.Mapping[str, str]) -> bool:
    """Whether a node matches one of the terms of a node affinity, by Kubernetes' rules."""
    return any(
        all(_meets(each, labels.get(each["key"])) for each in term.get("matchExpressions", []))
        and all(_meets(each, name) for each in term.get("matchFields", []))
        for term in terms
        # A term without any requirement selects nothing.
        if term.get("matchExpressions") or term.get("matchFields")
    )


def _meets(requirement: Json, value: str | None) -> bool:
    inside = value is not None and value in requirement.get("values", ())
    operators = {"In": inside, "NotIn": not inside, "DoesNotExist": value is None}
    return operators[requirement["operator"]]
