# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power curves of nodes from published measurements of similar servers.

The server is identified by the node's labels, else by its BMC, else by an annotation of its
NodeConfig. ``system_of`` has the labels.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import astuple
from types import MappingProxyType

from ..base import strict_json
from ..base.boundary import InvalidField, Subject, guarded, shown
from ..base.fields.lenient import count, member, text
from ..base.json_types import Object
from ..nodeconfig.readings import Readings
from ..nodeconfig.targets import SYSTEM_ANNOTATION
from ..published import curves as published
from ..published.curves import Row, System
from ..scheduling.curve import Curve
from .curves import PowerCurve, SourceCurves
from .nodes import NodeFacts

# Labels with DMI data of a server; blanks are underscores.
SYSTEM_LABELS = {
    "manufacturer": "wattwise.github.io/system-manufacturer",
    "model": "wattwise.github.io/system-model",
    "processor": "wattwise.github.io/processor-model",
}
_MAX_NAME_LENGTH = 256
_MAX_ANNOTATION_LENGTH = 4096
_MAX_SOCKETS, _MAX_CORES = 64, 65_536


def published_curves(
    nodes: t.Mapping[str, NodeFacts],
    without: t.Container[str],
    readings: Readings,
    type_label: str,
    rows: t.Sequence[Row] | None = None,
    annotations: t.Mapping[str, str] = MappingProxyType({}),
) -> SourceCurves:
    """Curves of the nodes, except ``without``, whose server is known and similar to a measured one.

    ``rows`` are all measurements, the shipped ones if None. ``annotations`` are NodeConfigs'
    annotations with the server, by node. Each node has a separate boundary.
    """
    found = SourceCurves()
    for name, node in nodes.items():
        if name in without:
            continue
        of_bmc = readings[name].system if name in readings else {}
        annotation = annotations.get(name, "")
        read = functools.partial(_curve, node, of_bmc, type_label, rows, annotation)
        found.add(name, guarded(Subject("Node", name), read))
    return found


def _curve(
    node: NodeFacts, of_bmc: Object, type_label: str, rows: t.Sequence[Row] | None, annotation: str
) -> PowerCurve | str:
    """The curve, or the reason of a missing one."""
    system, source = system_of(node, of_bmc, type_label, annotation)
    if system == System():
        return "neither a BMC nor a label states its model or its processor"
    found = published.match(system, node.cpu_capacity, rows)
    if isinstance(found, str):
        return found
    last = len(found.watts) - 1
    curve = Curve.of(
        [round(step * node.cpu_capacity / last, 6) for step in range(last + 1)],
        [round(watts, 3) for watts in found.watts],
    )
    evidence = {
        "match": found.match,
        "of": [row.name for row in found.rows],
        "scale": round(found.scale, 3),
        "generations": found.generations,
        "server": str(system),
        "told_by": source,
    }
    return PowerCurve(curve, evidence={"published": evidence})


def system_of(
    node: NodeFacts, told: t.Any, type_label: str, annotation: str = ""
) -> tuple[System, str]:
    """The server of a node, and its source: labels, the BMC by ``told``, or an annotation.

    Labels precede the BMC, and the BMC the annotation, field by field. The label of the type counts
    without any other source, because some clusters name their types by models or processors. Raises
    InvalidField for an unreadable annotation.
    """
    of_bmc = _read_system(told)
    read = _completed(of_bmc, annotation)
    labels = {
        name: node.labels.get(label, "").replace("_", " ") for name, label in SYSTEM_LABELS.items()
    }
    if any(labels.values()):
        told_by_labels = System(
            labels["manufacturer"] or read.manufacturer,
            labels["model"] or read.model,
            labels["processor"] or read.processor,
            read.sockets,
            read.cores,
        )
        return told_by_labels, "labels"
    if read != System():
        return read, "Redfish" if read == of_bmc else "annotation"
    named = node.labels.get(type_label, "").replace("_", " ")
    return System(model=named), "labels"


def _completed(read: System, annotation: str) -> System:
    """The server with fields that its BMC lacks from the annotation."""
    if not annotation:
        return read
    field = f"metadata.annotations[{SYSTEM_ANNOTATION}]"
    if len(annotation) > _MAX_ANNOTATION_LENGTH:
        raise InvalidField(field, f"it is longer than {_MAX_ANNOTATION_LENGTH} characters")
    try:
        given = _read_system(strict_json.parse(annotation.encode()))
    except ValueError as error:
        example = '{"manufacturer": "Dell Inc.", "processor": "Intel Xeon Gold 6338N"}'
        raise InvalidField(field, f"{shown(annotation)} is not JSON such as {example}") from error
    return System(*(mine or theirs for mine, theirs in zip(astuple(read), astuple(given))))


def _read_system(told: t.Any) -> System:
    """From the reading of a BMC, which other versions or people may have written."""
    manufacturer, model, processor = (
        text(member(told, name), _MAX_NAME_LENGTH) for name in SYSTEM_LABELS
    )
    return System(
        manufacturer,
        model,
        processor,
        sockets=count(member(told, "sockets"), _MAX_SOCKETS),
        cores=count(member(told, "cores"), _MAX_CORES),
    )
